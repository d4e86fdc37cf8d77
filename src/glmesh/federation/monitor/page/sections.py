"""The sections of the page about sites; each is HTML made from SiteRecords, the same for the live page and a report."""

from __future__ import annotations

import time
from collections.abc import Sequence

from glmesh.federation.monitor.forest import of_model, of_shares
from glmesh.federation.monitor.page import presence
from glmesh.federation.monitor.page.record import SILENCE, SiteRecord
from glmesh.federation.monitor.page.words import awaited, event_text, named, proof_of, verdict, waited_for
from glmesh.federation.node.neighbourhood import clock
from glmesh.formatting import duration, size
from glmesh.page.charts import Line, Point, Upright, chart, network, strip, text
from glmesh.page.document import ABOUT, section
from glmesh.page.words import AWAY, DONE, HERE, UNKNOWN, number

EVENTS = 12  # [lines] of events that are seen at once; earlier ones fold out
OLDEST = 300  # [lines] of events on the page at most
HEADS = ("site", "state", "rows", "rounds", "proven", "sent", "received", "away")  # of the table of sites
SHOWN = {HERE: "is here", AWAY: "is away", DONE: "has finished", UNKNOWN: "is not seen from here"}


def heading(sites: Sequence[SiteRecord]) -> str:
    """Return the HTML of the head of the page: whom it is about, and how things stand in words."""
    about = next((site.about for site in sites if site.about is not None), None)
    names = presence.members(sites)
    whose = f"{about['federation']}: {named(names)}" if about is not None else named(names)
    said = verdict(sites)
    kind = {True: "good", False: "bad", None: "open"}[said.good]
    seen = f"As {named([site.name for site in sites])} saw it." if len(sites) < len(names) else ""
    revealed = sorted({str(one["revealed"]) for site in sites for one in site.entries if one.get("revealed")})
    more = "".join(f"<p>{text(one)}</p>" for one in revealed)
    return (
        f"<header class='{kind}'><p class='quiet'>{text(whose)}</p><h1>{text(said.head)}</h1>"
        f"<p>{text(said.text)}</p><p class='quiet'>{text(seen)}</p>{more}</header>"
    )


def proof(sites: Sequence[SiteRecord]) -> str:
    """Return the HTML of the section that draws what each site has proven by round, with the goal."""
    counted = any("tol_se" in site.last for site in sites)
    lines = []
    for k, site in enumerate(sites):
        lines.append(Line(site.name, _proofs(site, "standard_errors" if counted else "certificate"), k))
    goal = max((site.last.get("tol_se", 0.0) if counted else site.last.get("tol", 0.0) for site in sites), default=0.0)
    drawn = chart(lines, "rounds", "what is proven, by round", Upright(logarithmic=True, goal=goal), start=0.0)
    what = "standard errors that a coefficient may be off" if counted else "relative duality gap"
    if not drawn:
        asked = next((f"; asked for: {proof_of(site.last)[1]}" for site in sites if site.last), "")
        return section("Proof", f"<p>Nothing is proven yet{text(asked)}.</p>")
    return section("Proof", f"<p class='quiet'>{what}, proven by round</p>{drawn}")


def _proofs(site: SiteRecord, key: str) -> tuple[tuple[Point, ...], ...]:
    """Return points (round, figure `key`) of what a site had proven, in pieces: between two of them somebody was away.

    That is so where the site waited for others, or was away itself for SILENCE seconds.
    """
    pieces: list[dict[float, float]] = [{}]
    broken, ended = False, float("inf")
    for session in site.at_work:
        broken = broken or session.began > ended + SILENCE
        ended = session.ended
        for entry in session.entries:
            value, at = entry.get(key), entry.get("certificate_round")
            broken = broken or bool(entry.get("waiting"))
            if not isinstance(value, float) or at is None or pieces[-1].get(float(at)) == value:
                continue
            if broken and pieces[-1]:
                pieces.append({})
            pieces[-1][float(at)] = value
            broken = False
    return tuple(tuple(sorted(piece.items())) for piece in pieces if piece)


def who(sites: Sequence[SiteRecord]) -> str:
    """Return the HTML of the section on who is there, with the network, and on who is waited for since when."""
    names, now = presence.members(sites), presence.presence(sites)
    if len(names) < 2:
        return ""
    waiting = []
    for name, (since, until) in waited_for(sites).items():
        limit = f", until {clock(until)}" if until is not None else ""
        told = [f"by {site.name}" for site in sites if name in awaited(site.last)]
        waiting.append(
            f"<li>Messages of <b>{text(name)}</b> are waited for since {clock(since)}{limit}, {named(told)}.</li>"
        )
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(now[name], []).append(name)
    legend = "; ".join(
        f"<span class='key {kind}'></span> {text(named(who_is))} {_plural(SHOWN[kind], len(who_is))}"
        for kind, who_is in kinds.items()
    )
    drawn = network(names, now, presence.links(sites))
    return section("Who is there", f"{drawn}<p>{legend}.</p>" + (f"<ul>{''.join(waiting)}</ul>" if waiting else ""))


def _plural(verb: str, n: int) -> str:
    """Return "are here" for "is here" of more than one."""
    return verb if n == 1 else verb.replace("is ", "are ").replace("has ", "have ")


def coefficients(sites: Sequence[SiteRecord]) -> str:
    """Return the HTML of the section on the first site's coefficients; on those of all where each has a share."""
    models = [(site.name, site.model) for site in sites if site.model is not None]
    if not models:
        running = any(site.runs for site in sites)
        return (
            section("Coefficients", "<p>None yet: they are shown as soon as they are proven.</p>", "wide")
            if running
            else ""
        )
    if models[0][1].is_share:
        return section("Coefficients", of_shares(models), "wide")
    return section("Coefficients", of_model(models[0][1]), "wide")


def table(sites: Sequence[SiteRecord]) -> str:
    """Return the HTML of the table of sites: state, rows where they may be told, rounds, traffic, seconds away."""
    until = max((site.latest for site in sites), default=0.0)
    own, now = {site.name: site for site in sites}, presence.presence(sites)
    rows: list[tuple[str, ...]] = []
    for name in presence.members(sites):
        missing = presence.away(name, sites, until)
        away = duration(missing) if missing >= 1 else "never" if now[name] != UNKNOWN else ""
        cells = _cells(own[name]) if name in own else ("not told", "", "", "", "")
        rows.append((name, presence.words(name, sites), *cells, away))
    body = "".join(_row(row) for row in rows)
    hidden = (
        "<p class='quiet'>A site tells its number of rows only in its own folder.</p>" if len(own) < len(rows) else ""
    )
    head = "".join(f"<th>{one}</th>" for one in HEADS)
    return section(
        "Sites", f"<div class='scroll'><table class='rows'><tr>{head}</tr>{body}</table></div>{hidden}", "wide"
    )


def _cells(site: SiteRecord) -> tuple[str, str, str, str, str]:
    """Return what a site's own folder tells, as text: (rows, rounds, what is proven, bytes sent, bytes received)."""
    n = site.about["rows"] if site.about is not None else None
    missed = sum(max((one.get("missed", 0) for one in session.entries), default=0) for session in site.sessions)
    made = max((one.get("round", 0) for session in site.at_work for one in session.entries[-1:]), default=0)
    rounds = f"{made:,}" + (f" ({missed:,} missed)" if missed else "")
    told = proof_of(site.last)[0].removesuffix(" of the exact estimate") or "nothing"
    ends = [session.entries[-1] for session in site.sessions]  # of processes, which all count from 0
    sent = size(sum(one.get("bytes_sent", 0) for one in ends))
    received = size(sum(one.get("bytes_received", 0) for one in ends))
    return "" if n is None else f"{n:,}", rounds, told, sent, received


def _row(cells: Sequence[str]) -> str:
    """Return a row of the table of sites as HTML; each cell has its heading, for screens that are narrow."""
    told = "".join(f"<td data-head='{head}'>{text(cell)}</td>" for head, cell in zip(HEADS, cells, strict=True))
    return f"<tr>{told}</tr>"


def lanes(sites: Sequence[SiteRecord]) -> str:
    """Return the HTML of the section on who was there when: a lane for each member, with marks where it restarted."""
    start = min((site.began for site in sites), default=0.0)
    until = max((site.latest for site in sites), default=0.0)
    long = max(until - start, 1e-3)
    out = []
    for name in presence.members(sites):
        found, restarts = presence.spans(name, sites, until)
        drawn = [
            (
                100 * (max(begin, start) - start) / long,
                100 * (end - start) / long,
                kind,
                f"{name} {SHOWN[kind].replace('is ', 'was ')} from {clock(begin)} to {clock(end)}",
            )
            for begin, end, kind in found
        ]
        marks = [(100 * (one - start) / long, f"{name} was started again at {clock(one)}") for one in restarts]
        again = f", started again {_times(len(restarts))}" if restarts else ""
        missing = presence.away(name, sites, until)
        note = f"away for {duration(missing)}{again}" if missing >= 1 else again.removeprefix(", ")
        out.append(f"<div class='lane'><span>{text(name)}</span>{strip(drawn, marks)}<small>{text(note)}</small></div>")
    ends = f"<div class='lane'><span></span><p class='ends'><span>{clock(start)}</span><span>{duration(long)}</span>"
    ends += f"<span>{clock(until)}</span></p><small></small></div>"
    return section("Presence", "".join(out) + ends, "wide") if len(out) > 1 else ""


def _times(n: int) -> str:
    """Return "once", "twice" or "3 times"."""
    return {1: "once", 2: "twice"}.get(n, f"{n} times")


def traffic(sites: Sequence[SiteRecord]) -> str:
    """Return the HTML of the section on bytes sent over time, which go on from where they were after a restart."""
    start = min((site.began for site in sites), default=0.0)
    lines = []
    for k, site in enumerate(sites):
        pieces, before = [], 0.0
        for session in site.sessions:
            points: list[Point] = [(one["time"] - start, before + one.get("bytes_sent", 0)) for one in session.entries]
            before = points[-1][1]
            pieces.append(tuple(points))
        lines.append(Line(site.name, tuple(pieces), k))
    drawn = chart(lines, "seconds", "bytes sent, by time", Upright(told=size), start=0.0)
    return section("Traffic", f"<p class='quiet'>bytes sent to neighbours, by time</p>{drawn}") if drawn else ""


def events(sites: Sequence[SiteRecord]) -> str:
    """Return the HTML of the section with the events of all sites as sentences, the newest first."""
    lines: list[tuple[float, str, str]] = []
    for site in sites:
        last = ""
        for event in site.events:
            said = event_text(event)
            if said != last:
                lines.append((float(event["time"]), site.name, said))
            last = said
    lines = sorted(lines, reverse=True)[:OLDEST]
    several = len(sites) > 1
    rows = [
        f"<tr><td>{clock(at)}</td>{f'<td><b>{text(name)}</b></td>' if several else ''}<td>{text(said)}</td></tr>"
        for at, name, said in lines
    ]
    if not rows:
        return ""
    content = f"<table class='events'>{''.join(rows[:EVENTS])}</table>"
    if rows[EVENTS:]:
        older = f"<table class='events'>{''.join(rows[EVENTS:])}</table>"
        content += f"<details><summary>{len(rows) - EVENTS} earlier events</summary>{older}</details>"
    return section("Events", content, "wide")


def settings(sites: Sequence[SiteRecord]) -> str:
    """Return the HTML of the section on settings and versions; "" if no site wrote any."""
    about = next((site.about for site in sites if site.about is not None), None)
    if about is None:
        return ""
    given = {key: value for key, value in about["problem"].items() if value not in ("", None, [], "nan")}
    rows = [("federation", about["federation"]), ("digest of its file", about["digest"][:16])]
    rows += [(key.replace("_", " "), _setting(value)) for key, value in given.items()]
    rows += [(key.replace("_", " "), _setting(value)) for key, value in about["network"].items() if value != ""]
    rows += [(f"version of {name}", number) for name, number in about["versions"].items()]
    body = "".join(f"<tr><th>{text(name)}</th><td>{text(value)}</td></tr>" for name, value in rows)
    said = f"<p>{text(about['disclosure'])}</p>"
    return section(
        "Settings and versions", f"{said}<details><summary>All settings</summary><table>{body}</table></details>"
    )


def _setting(value: object) -> str:
    """Return the value of a setting as text: yes and no, and numbers as people write them."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, float) else str(value)


def footing(sites: Sequence[SiteRecord]) -> str:
    """Return the HTML of the foot of the page: what a proof is about, and of when the page is."""
    now = max((site.latest for site in sites), default=time.time())
    return (
        f"<footer><p>{ABOUT}</p>"
        f"<p class='quiet'>State of {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))}, glmesh</p></footer>"
    )
