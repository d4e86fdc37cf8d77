"""Verdicts, states and events as sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from glmesh.display import bound_in_words
from glmesh.federation.monitor.history import Figures
from glmesh.federation.monitor.page.record import Event, SiteRecord
from glmesh.federation.node.neighbourhood import clock
from glmesh.federation.node.training import without_text
from glmesh.files.model_files import Model
from glmesh.formatting import rounded_up

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
HERE, AWAY, UNKNOWN, DONE = "here", "away", "unknown", "done"  # presence of a member


@dataclass(frozen=True)
class Verdict:
    """How things stand: a headline, more sentences, and whether that is good."""

    head: str
    text: str
    good: bool | None  # None: it is not decided yet


def number(value: float) -> str:
    """Return a small number as people write it: 3·10⁻⁷ rather than 3e-07; numbers from 0.001 on as they are."""
    if value == 0 or 1e-3 <= abs(value) < 1e4 or not math.isfinite(value):
        return f"{value:.4g}"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits.removesuffix('.0')}·{ten(int(exponent))}"


def ten(exponent: int) -> str:
    """Return a power of ten as text, such as 10⁻⁷."""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def named(names: Sequence[str]) -> str:
    """Return names as people list them: "alice, bob and carol"."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def duration(seconds: float) -> str:
    """Return a length of time as text: "0.8 s", "3 min 20 s" or "2 h 5 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


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
    """Return whether a site's last run ended with a proven model."""
    return site.end is not None and site.end.get("outcome") in PROVEN


def waited_for(sites: Sequence[SiteRecord]) -> dict[str, tuple[float, float | None]]:
    """Return {name: (since, until)} of the members that running sites wait for [s since 1970]; until None: no limit."""
    found: dict[str, tuple[float, float | None]] = {}
    for site in sites:
        waiting = (site.last.get("waiting") or {}) if site.runs else {}
        for name in waiting.get("names", ()):
            since = min(waiting["since"], found.get(name, (math.inf, None))[0])
            found[name] = since, waiting["until"]
    return found


def verdict(sites: Sequence[SiteRecord]) -> Verdict:
    """Return how things stand with the sites that are known."""
    running = [site for site in sites if site.runs]
    if running:
        return _under_way(running, sites)
    failed = [site for site in sites if site.end is not None and site.end["event"] == "error"]
    if failed:
        whys = "; ".join(dict.fromkeys(str(site.end["why"]) for site in failed if site.end))
        return Verdict("Ended without a model", f"{named([site.name for site in failed])}: {whys}", False)
    done = [site for site in sites if is_done(site)]
    if done:
        return _finished(done[0], [site for site in sites if not is_done(site)])
    ended = [site for site in sites if site.end is not None]
    if ended:
        said = {state(site): str(site.end.get("why", "")) for site in ended if site.end}
        head = next(iter(said))
        return Verdict(head[0].upper() + head[1:], " ".join(dict.fromkeys(said.values())), False)
    gone = [site.name for site in sites if site.entries]
    if gone:
        verb = "has" if len(gone) == 1 else "have"
        text = f"{named(gone)} {verb} written nothing for a while, and nothing of an end: killed, or switched off."
        return Verdict("Ended without a word", text, False)
    return Verdict("Nothing is known yet", "The sites have written nothing about a run.", None)


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
        since = min(begin for begin, _ in waiting.values())
        verb = "is" if len(waiting) == 1 else "are"
        text = f"No proof can come while {named(list(waiting))} {verb} away, so there is no estimate either. {so_far}"
        return Verdict(f"Waiting for {named(list(waiting))} since {clock(since)}", text, False)
    silent = sorted(
        {
            name
            for site in running
            for name, one in site.last["neighbours"].items()
            if one["state"] in ("silent", "down")
        }
        - {site.name for site in sites if is_done(site)}
    )
    if silent and "round" in last:
        text = f"Nothing is heard of {named(silent)} at present. {so_far}"
        return Verdict(f"Round {last['round']:,}, without a sign of {named(silent)}", text, False)
    if "round" not in last:
        return Verdict("The sites meet", "They compare settings and columns before anything is computed.", None)
    about, made = last.get("certificate_round"), last["round"]
    if "tol_se" not in last and proof and about is not None and made > about + STALE:
        so_far += f" That is about round {about:,}; no proof has come since, which is so while a site is away."
    done = sorted({name for site in running for name in site.last.get("done", ())})
    text = f"{so_far} {named(done)} hold{'s' if len(done) == 1 else ''} a proof already." if done else so_far
    return Verdict(f"Training, round {last['round']:,}", text, None)


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
