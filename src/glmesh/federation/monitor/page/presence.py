"""Who was there and when, as sites saw themselves and their neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from glmesh.federation.monitor.history import Figures
from glmesh.federation.monitor.page.record import Event, SiteRecord
from glmesh.federation.monitor.page.words import is_done, state
from glmesh.page.words import AWAY, DONE, HERE, UNKNOWN

_SEEN = {"up": HERE, "finished": DONE, "silent": AWAY, "down": AWAY}  # a link's state -> presence of the neighbour
_LINKS = {"up": HERE, "heard": HERE, "down": AWAY, "silent": AWAY}  # event about a link -> presence from then on
Span = tuple[float, float, str]  # (begin, end, presence), times in seconds since 1970


def members(sites: Sequence[SiteRecord]) -> list[str]:
    """Return the names of all members, in the order of the federation file where that is known."""
    names: list[str] = []
    for site in sites:
        last = site.last
        listed = site.about["members"] if site.about is not None else []
        names += [*listed, site.name, *last.get("neighbours", ()), *last.get("members", ()), *last.get("without", ())]
    return list(dict.fromkeys(names))


def links(sites: Sequence[SiteRecord]) -> list[tuple[str, str, bool]]:
    """Return (name, name, whether the link is up) of all links that are known, each once."""
    now = presence(sites)
    found = {tuple(sorted(pair)) for site in sites if site.about is not None for pair in site.about["links"]}
    found |= {tuple(sorted((site.name, name))) for site in sites for name in site.last.get("neighbours", ())}
    down = {
        tuple(sorted((site.name, name)))
        for site in sites
        for name, one in site.last.get("neighbours", {}).items()
        if one["state"] == "down" and site.runs
    }
    return [(a, b, (a, b) not in down and AWAY not in (now[a], now[b])) for a, b in sorted(found)]


def presence(sites: Sequence[SiteRecord]) -> dict[str, str]:
    """Return {name: HERE, AWAY, DONE or UNKNOWN} of all members at the time of the last entries."""
    own = {site.name: site for site in sites}
    found = {}
    for name in members(sites):
        if name in own and (own[name].entries or own[name].events):
            site = own[name]
            found[name] = DONE if is_done(site) else HERE if site.runs else AWAY
        else:
            found[name] = _as_seen(
                name, [site for site in sites if site.runs] or [site for site in sites if site.entries]
            )
    return found


def _as_seen(name: str, sites: Sequence[SiteRecord]) -> str:
    """Return the presence of a member that wrote nothing here, as these sites saw it last."""
    seen = [_at(name, site.last) for site in sites]
    if any(is_done(site) and name in site.last.get("members", ()) for site in sites):
        return DONE
    return next((kind for kind in (DONE, HERE, AWAY) if kind in seen), UNKNOWN)


def _at(name: str, figures: Figures) -> str:
    """Return the presence of a member as figures of another site have it."""
    neighbour = figures.get("neighbours", {}).get(name)
    waiting = figures.get("waiting")
    if (waiting is not None and name in waiting["names"]) or name in figures.get("refused", {}):
        return AWAY
    if neighbour is not None:
        return _SEEN.get(neighbour["state"], UNKNOWN)
    gossips = any("deadline" in one for one in figures.get("neighbours", {}).values())  # and hears neighbours alone
    return HERE if name in figures.get("members", ()) and not gossips else UNKNOWN


def spans(name: str, sites: Sequence[SiteRecord], until: float) -> tuple[list[Span], list[float]]:
    """Return (spans of presence, times of restarts) of a member, up to the time `until` [s since 1970].

    A site's own processes tell best; of another member what the first site with entries saw of it.
    """
    own = next((site for site in sites if site.name == name and site.sessions), None)
    if own is None:
        return _others_spans(name, [site for site in sites if site.sessions]), []
    return _own_spans(own, until), [session.began for session in own.sessions[1:]]


def _own_spans(site: SiteRecord, until: float) -> list[Span]:
    """Return the spans of presence of a site by its own processes, up to the time `until` [s since 1970]."""
    found: list[Span] = []
    for session in site.sessions:
        if found and session.began > found[-1][1]:
            found.append((found[-1][1], session.began, AWAY))
        found.append((session.began, session.ended, HERE))
    if not site.runs and not is_done(site) and until > site.latest + 1.0:
        found.append((site.latest, until, AWAY))
    return found


def _others_spans(name: str, others: Sequence[SiteRecord]) -> list[Span]:
    """Return the spans of presence of a member as the first of the other sites saw it that is linked with it.

    If none is linked with it, the history of the first site tells; without any site the list is empty.
    """
    linked = next((site for site in others if any(_is_link(event, name) for event in site.events)), None)
    if linked is not None:
        return _linked_spans(name, linked)
    return _seen_spans(name, others[0]) if others else []


def _is_link(event: Event, name: str) -> bool:
    """Return whether an event is about the link to the member `name`."""
    return event["event"] in _LINKS and event.get("peer") == name


def _linked_spans(name: str, site: SiteRecord) -> list[Span]:
    """Return the spans of presence of a neighbour by the events of its link: away from the start until it came up.

    The time after the last sign of a neighbour that has finished is left out.
    """
    found: list[Span] = []
    for session in site.sessions:
        begin, kind = session.began, AWAY
        for event in site.events:
            if _is_link(event, name) and session.began - 1.0 <= event["time"] < session.ended:
                found.append((begin, max(begin, float(event["time"])), kind))
                begin, kind = max(begin, float(event["time"])), _LINKS[event["event"]]
        found.append((begin, max(begin, session.ended), kind))
    if found and found[-1][2] == AWAY and presence([site]).get(name) == DONE:
        del found[-1]
    joined: list[Span] = []
    for span in found:
        if joined and joined[-1][2] == span[2] and joined[-1][1] == span[0]:
            joined[-1] = (joined[-1][0], span[1], span[2])
        elif span[1] > span[0]:
            joined.append(span)
    return joined


def _seen_spans(name: str, site: SiteRecord) -> list[Span]:
    """Return the spans of presence of a member as another site saw it in its history."""
    found: list[Span] = []
    for session in site.sessions:
        entries = session.entries
        for here, following in zip(entries, [*entries[1:], entries[-1]], strict=True):
            kind = _at(name, here)
            kind = HERE if kind == DONE else kind
            if found and found[-1][2] == kind and found[-1][1] == here["time"]:
                found[-1] = (found[-1][0], following["time"], kind)
            elif kind != UNKNOWN:
                found.append((here["time"], following["time"], kind))
    return found


def away(name: str, sites: Sequence[SiteRecord], until: float) -> float:
    """Return the seconds for which a member was away, as far as its lane tells."""
    return sum(end - begin for begin, end, kind in spans(name, sites, until)[0] if kind == AWAY)


def words(name: str, sites: Sequence[SiteRecord]) -> str:
    """Return a word on what a member does or how it ended, from its own folder or as others saw it."""
    own = next((site for site in sites if site.name == name), None)
    if own is not None:
        return state(own)
    told = {HERE: "here", AWAY: "away", DONE: "finished", UNKNOWN: "not seen from here"}
    return told[presence(sites)[name]]
