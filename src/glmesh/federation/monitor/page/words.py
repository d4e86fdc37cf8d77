"""Verdicts, states and events as sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from glmesh.display import bound_in_words
from glmesh.federation.monitor.history import Figures
from glmesh.federation.monitor.page.record import Event, SiteRecord
from glmesh.federation.node.neighbourhood import clock
from glmesh.federation.node.training import without_text
from glmesh.files.model_files import Model
from glmesh.formatting import duration, rounded_up
from glmesh.page.words import number

PROVEN = ("certified", "alone")  # outcomes of a run that has proven its model
STALE = 300  # [rounds] without a new proof after which the page says so; in a ring of 16 one comes every 60 rounds
STATES = {  # outcome of a run -> how its site is called
    "certified": "finished",
    "alone": "finished",
    "stationary": "finished, without a proof",
    "stopped": "stopped",
    "out_of_rounds": "out of rounds",
    "left_behind": "came back too late",
    "no_optimum": "no optimum",
    "too_few": "too few sites",
    "waited": "gave up waiting",
}


@dataclass(frozen=True)
class Verdict:
    """How things stand: a headline, more sentences, and whether that is good."""

    head: str
    text: str
    good: bool | None  # None: it is not decided yet


def named(names: Sequence[str]) -> str:
    """Return names as people list them: "alice, bob and carol"."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def proof_of(figures: Figures) -> tuple[str, str]:
    """Return words on (what is proven, what is asked for); the former is "" as long as nothing is."""
    if "tol_se" in figures:
        off, asked = figures.get("standard_errors"), f"{number(figures['tol_se'])} standard errors"
        return "" if off is None else f"within {number(rounded_up(off))} standard errors of the exact estimate", asked
    gap, asked = figures.get("certificate"), f"a relative gap of {number(figures.get('tol', 0.0))}"
    return "" if gap is None else f"relative gap at most {number(rounded_up(gap))}", asked


def state(site: SiteRecord) -> str:
    """Return a word on what a site does or how it ended: "training", "finished", "stopped", "killed?" ..."""
    end = site.end
    if end is not None:
        outcome = str(end.get("outcome", ""))
        return STATES.get(outcome, outcome.replace("_", " ") or "ended with an error")
    if not site.entries:
        return "no entry yet"
    if not site.runs:
        return "gone without a word"
    name, last = site.name, site.last
    return "waiting for others" if name in last.get("done", ()) else str(last.get("phase", "starting"))


def is_done(site: SiteRecord) -> bool:
    """Return whether a site's last run ended with a model whose proof is as good as was asked for."""
    return site.end is not None and site.end.get("outcome") in PROVEN


def awaited(figures: Figures) -> Sequence[str]:
    """Return the names of the members that a site waits for, as its figures have them; empty if it waits for nobody."""
    waiting = figures.get("waiting")
    return waiting["names"] if waiting else ()


def waited_for(sites: Sequence[SiteRecord]) -> dict[str, tuple[float, float | None]]:
    """Return {name: (since, until)} of the members that running sites wait for [s since 1970]; until None: no limit."""
    found: dict[str, tuple[float, float | None]] = {}
    for site in sites:
        waiting = site.last.get("waiting") if site.runs else None
        if not waiting:
            continue
        for name in waiting["names"]:
            since = min(waiting["since"], found.get(name, (math.inf, None))[0])
            found[name] = since, waiting["until"]
    return found


def verdict(sites: Sequence[SiteRecord]) -> Verdict:
    """Return how things stand with the sites that are known."""
    running = [site for site in sites if site.runs]
    if running:
        return _under_way(running, sites)
    if any(site.end is not None for site in sites):
        return _ended(sites)
    return _without_end([site.name for site in sites if site.entries])


def _ended(sites: Sequence[SiteRecord]) -> Verdict:
    """Return the verdict on a run in which no site is at work, and one has ended at least.

    An error counts more than a proof, and a proof more than any other end.
    """
    ends = [(site, site.end) for site in sites if site.end is not None]
    failed = [(site.name, str(end["why"])) for site, end in ends if end["event"] == "error"]
    if failed:
        whys = "; ".join(dict.fromkeys(why for _, why in failed))
        return Verdict("Ended without a model", f"{named([name for name, _ in failed])}: {whys}", False)
    done = [site for site in sites if is_done(site)]
    if done:
        return _finished(done[0], [site for site in sites if not is_done(site)])
    said = {state(site): str(end.get("why", "")) for site, end in ends}
    head = next(iter(said))
    return Verdict(head[0].upper() + head[1:], " ".join(dict.fromkeys(said.values())), False)


def _without_end(names: Sequence[str]) -> Verdict:
    """Return the verdict on a run of which no site has written an end; `names` are the sites that wrote anything."""
    if not names:
        return Verdict("Nothing is known yet", "The sites have written nothing about a run.", None)
    verb = "has" if len(names) == 1 else "have"
    text = f"{named(names)} {verb} written nothing for a while, and nothing of an end: killed, or switched off."
    return Verdict("Ended without a word", text, False)


def _finished(site: SiteRecord, others: Sequence[SiteRecord]) -> Verdict:
    """Return the verdict on a run that `site` ended with a proven model; `others` have not ended so."""
    proof, _ = proof_of(site.last)
    left_out = without_text(site.last.get("members", ()), site.last.get("without", ()))
    head = f"Finished, with a proof{proof and ': '}{proof}" + (f", {left_out}" if left_out else "")
    end = site.end or {}
    said = [str(end.get("why", "")), bound(site.model)]
    said += [f"{one.name}: {state(one)}." for one in others]
    return Verdict(head, " ".join(one for one in said if one), not left_out and not others)


def bound(model: Model | None) -> str:
    """Return the sentence that a penalised model's gap proves of the objective; "" where there is none."""
    if model is None or "gap" not in model.info or "standard_errors_off" in model.info:
        return ""
    return bound_in_words(float(model.info["gap"]), float(model.info.get("objective_high", float("nan"))))


def _under_way(running: Sequence[SiteRecord], sites: Sequence[SiteRecord]) -> Verdict:
    """Return the verdict on a run in which some sites are at work."""
    waiting = waited_for(sites)
    last = max((site.last for site in running), key=lambda one: one.get("round", -1))
    proof, asked = proof_of(last)
    so_far = f"Proven so far: {proof}; asked for: {asked}." if proof else f"Nothing is proven yet; asked for: {asked}."
    if waiting:
        return _waiting(waiting, so_far)
    silent = _silent(running, sites)
    if silent and "round" in last:
        text = f"Nothing is heard of {named(silent)} at present. {so_far}"
        return Verdict(f"Round {last['round']:,}, without a sign of {named(silent)}", text, False)
    if "round" not in last:
        return Verdict("The sites meet", "They compare settings and columns before anything is computed.", None)
    done = sorted({name for site in running for name in site.last.get("done", ())})
    so_far += _stale(last)
    text = f"{so_far} {named(done)} hold{'s' if len(done) == 1 else ''} a proof already." if done else so_far
    return Verdict(f"Training, round {last['round']:,}", text, None)


def _waiting(waiting: Mapping[str, tuple[float, float | None]], so_far: str) -> Verdict:
    """Return the verdict on a run that waits for members, {name: (since, until)}; `so_far` says what is proven."""
    since = min(begin for begin, _ in waiting.values())
    verb = "is" if len(waiting) == 1 else "are"
    text = f"No proof can come while {named(list(waiting))} {verb} away, so there is no estimate either. {so_far}"
    return Verdict(f"Waiting for {named(list(waiting))} since {clock(since)}", text, False)


def _silent(running: Sequence[SiteRecord], sites: Sequence[SiteRecord]) -> list[str]:
    """Return the names, in order, of members that a running site hears nothing of, without those that are done."""
    silent = {
        name for site in running for name, one in site.last["neighbours"].items() if one["state"] in ("silent", "down")
    }
    return sorted(silent - {site.name for site in sites if is_done(site)})


def _stale(last: Figures) -> str:
    """Return a sentence on a proof of an objective that is STALE rounds old or more, with a blank before; else ""."""
    about, made, gap = last.get("certificate_round"), last["round"], last.get("certificate")
    if "tol_se" in last or gap is None or about is None or made <= about + STALE:
        return ""
    return f" That is about round {about:,}; no proof has come since, which is so while a site is away."


def event_text(event: Event) -> str:
    """Return an entry of a log as a sentence; an event that is not known is shown with its fields."""
    who = event.get("peer") or event.get("who") or "this site"
    why = str(event.get("why", "")).rstrip(".")
    because = f": {why}" if why else ""
    waited = f"{event['waited']:.1f} s" if isinstance(event.get("waited"), float) else "a while"
    share = {"freeze": "Its last share stays counted.", "reset": "Its data does not count any more."}
    about = {
        "up": f"The link to {who} came up.",
        "down": f"The link to {who} ended{because}.",
        "silent": f"Nothing came from {who} for {waited}, so the round went on without it.",
        "heard": f"{who} was heard again.",
        "unreachable": f"{who} cannot be reached{because}.",
        "refused": f"Refused: {who}{because}.",
        "violation": f"The link to {who} was cut{because}.",
        "cannot take part": f"{who} cannot take part{because}.",
        "waiting": f"Waiting for {event.get('for', 'others')} since {event.get('since', '')}, until "
        f"{event.get('until', 'they come')}.",
        "compiling": f"{why}.",
        "training": f"Training began with {event.get('members', 0)} sites, at round {event.get('round', 0):,}.",
        "resumed": f"Went on from the checkpoint of round {event.get('round', 0):,}.",
        "joined again": "Joined again, after the others had given this site up.",
        "gone": f"Gave {who} up after {duration(float(event.get('away', 0.0)))} without a sign. "
        f"{share.get(str(event.get('model')), '')}".rstrip(),
        "certified": f"Proven, after {event.get('round', 0):,} rounds.",
        "ended": f"Ended without a proof, after {event.get('round', 0):,} rounds.",
        "end": f"The end: {why}.",
        "error": f"Ended with an error{because}.",
        "reveals": f"{why}.",
        "data": f"Of the data: {why}.",
    }
    fields = ", ".join(f"{key} {value}" for key, value in event.items() if key not in ("time", "node", "event"))
    said = about.get(event["event"], f"{event['event']}: {fields}".rstrip(": ") + ".")
    return said[0].upper() + said[1:]
