"""A run in a browser on this machine, while it goes on: `solve(..., live=True)`.

The thread that computes leaves a snapshot of plain values at most once a second; the page's own thread makes HTML of
the newest one while somebody looks, so neither waits for the other.
"""

from __future__ import annotations

import atexit
import functools
import logging
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np

from glmesh.core import Event
from glmesh.display import table_of
from glmesh.engine.agreement import versions
from glmesh.engine.result import Result, terms_of
from glmesh.engine.run import Run
from glmesh.engine.telling import how_of
from glmesh.formatting import duration, joined, rounded_up, size
from glmesh.page.charts import Line, Point, Upright, chart, network, strip, text
from glmesh.page.document import ABOUT, section
from glmesh.page.forest import bars, of_summary
from glmesh.page.server import LivePage
from glmesh.page.words import AWAY, DONE, HERE, number
from glmesh.types import Bytes, Tree

logger = logging.getLogger(__name__)

EVERY = 1.0  # [s] between two snapshots at least
POINTS = 1000  # of a line at most
DRAWN = 64  # nodes of a network that is drawn at most
LANES = 32  # nodes whose presence over the rounds is drawn at most
STRETCHES = 250  # of a lane at most: what is shorter than 0.4 % of it cannot be seen
NAMED = 8  # nodes that a sentence names at most
OLDEST = 100  # events on the page at most
COARSE = (
    "Rounds are too many to be drawn one by one: a stretch has the colour of what the node was in most of its rounds."
)
ABSENT, DOWN, UP = 0, 1, 2  # a node that is no member, is away, or is here
EVENTS = {
    "join": "Node {} joined.",
    "leave": "Node {} left, and its data with it.",
    "freeze": "Node {} left; its variables stay frozen.",
    "add_columns": "Node {} got new data.",
    "remove_columns": "Data of node {} went.",
}


@dataclass(frozen=True)
class Moment:
    """What is known of a run after a round; nothing of it changes any more."""

    rounds: int
    history: Sequence[Tree]  # records of the run so far
    terms: Sequence[tuple[str, float]] = ()  # coefficients by name
    intercepts: Sequence[tuple[str, float]] = ()
    events: Sequence[Event] = ()
    how: Sequence[tuple[str, str]] = ()  # model, method and network, by name
    result: Result | None = None  # without its data; None: the run goes on, or has failed
    failed: str = ""  # why the run ended without a result

    @property
    def goes_on(self) -> bool:
        """Return whether more rounds are to come."""
        return self.result is None and not self.failed


class RunPage:
    """What is shown of a run: `look` after every round, `end` with its result; a context manager around both.

    Parameters
    ----------
    run : Run
        The run, of which this process is rank 0.
    aim : float or None
        Relative gap at which rounds end; None: they are counted.
    tell : callable
        It is given the address of the page, such as `to_stderr`.
    """

    def __init__(self, run: Run, aim: float | None, tell: Callable[[str], object]) -> None:
        self._aim, self._due = aim, 0.0
        self._plan, self._n_nodes = run.faults, run.n_nodes
        self._links = tuple(run.nodes.setup.links)
        # (rounds, K) as far as it was drawn: ABSENT, DOWN or UP, of each node in each round
        self._lanes_seen: Bytes = np.zeros((0, run.n_nodes), dtype=np.uint8)
        self._has_failed = False  # the page, not the run
        self._moment = Moment(run.rounds, (), how=how_of(run))
        page = _page(os.getpid())
        page.shown = self
        tell(page.address)

    def look(self, run: Run) -> None:
        """Leave a snapshot of the run for the page, if a second has passed since the last one."""
        if time.monotonic() >= self._due:
            self._leave(lambda: _under_way(run))
            self._due = time.monotonic() + EVERY

    def end(self, run: Run, result: Result) -> None:
        """Show how the run ended, with its result, instead of its progress."""
        self._leave(lambda: _ended(run, result))

    def _leave(self, snapshot: Callable[[], Moment]) -> None:
        """Leave a snapshot for the page; if it cannot be made, the page suffers, which is logged once, not the run."""
        try:
            self._moment = snapshot()
        except Exception as error:
            if not self._has_failed:
                logger.warning("the live page does not keep up with the run: %s: %s", type(error).__name__, error)
            self._has_failed = True

    def __enter__(self) -> RunPage:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None:
            self._moment = replace(self._moment, failed=f"{type(error).__name__}: {error}")

    def draw(self) -> tuple[str, str]:
        """Return the title and the content of the page, as the newest snapshot has them."""
        now = self._moment
        model = dict(now.how)["model"]
        parts = [
            self._heading(now),
            _proof(now, self._aim),
            self._who(now),
            _coefficients(now),
            self._lanes(now),
            _traffic(now),
            _settings(now),
            _events(now),
            f"<footer><p>{ABOUT}</p></footer>",
        ]
        return f"glmesh: {model}", "\n".join(parts)

    def _heading(self, now: Moment) -> str:
        """Return the head of the page: what is fitted, and how things stand in words."""
        how = dict(now.how)
        whose = f"{how['model']}; {how['network']}"
        if now.result is not None:
            head, rest = _split(str(now.result.status))
            more, good = [rest, now.result.proof, now.result.remark], now.result.reached
            kind = "good" if good else "bad"
        elif now.failed:
            head, more, kind = "Ended with an error", [now.failed], "bad"
        else:
            head, more, kind = self._under_way(now)
        last = now.history[-1] if now.history else {}
        cost = f"{last['communications']:,} communications, {size(last['bytes'])} over all links, " if last else ""
        cost += duration(last["seconds"]) if last else ""
        return (
            f"<header class='{kind}'><p class='quiet'>{text(whose)}</p><h1>{text(head)}</h1>"
            f"<p>{text(' '.join(filter(None, more)))}</p><p class='quiet'>{text(cost)}</p></header>"
        )

    def _under_way(self, now: Moment) -> tuple[str, list[str], str]:
        """Return (headline, sentences, kind of the head) of a run that goes on."""
        asked = f"Asked for: a relative gap of {number(self._aim)}." if self._aim is not None else ""
        gaps = dict(_gaps(now.history))
        known = [
            f"{said} a relative gap of at most {number(rounded_up(gaps[name][-1][1]))}."
            for name, said in (("proven", "The nodes have proven"), ("gap", "Measured over all nodes:"))
            if gaps[name]
        ]
        away = [k for k, kind in self._presence(now).items() if kind == AWAY]
        gone = [f"Nothing is heard of {_nodes(away)} at present."] if away else []
        head = f"Round {now.rounds:,}" + (f", without {_nodes(away)}" if away else "")
        return head, [*(known[:1] or ["Nothing is proven yet."]), asked, *gone], "bad" if away else "open"

    def _presence(self, now: Moment) -> dict[int, str]:
        """Return {node: HERE, AWAY or DONE} of the nodes that are members in the last round."""
        last = max(now.rounds - 1, 0)
        up = self._plan.up(last, self._n_nodes)
        members = np.flatnonzero(self._plan.members(last, self._n_nodes)).tolist()
        return {k: HERE if up[k] else AWAY for k in members} if now.result is None else dict.fromkeys(members, DONE)

    def _who(self, now: Moment) -> str:
        """Return the section on who is there, with the network if it is small."""
        if self._n_nodes < 2:
            return ""
        here = self._presence(now)
        drawn = self._network(here) if self._n_nodes <= DRAWN else ""
        return section("Who is there", f"{drawn}<p>{'; '.join(self._counted(here))}.</p>")

    def _network(self, here: dict[int, str]) -> str:
        """Return the network of the members `here`, {node: presence}, as SVG."""
        links = [(str(a), str(b), AWAY not in (here[a], here[b])) for a, b in self._links if a in here and b in here]
        return network([str(k) for k in here], {str(k): kind for k, kind in here.items()}, links)

    def _counted(self, here: dict[int, str]) -> list[str]:
        """Return how many nodes are here, are away and are no members as clauses in HTML; `here` as for `_network`."""
        said = []
        for kind, verb in ((HERE, "is here"), (DONE, "took part to the end"), (AWAY, "is away")):
            if own := [k for k, one in here.items() if one == kind]:
                many = f"{len(own):,} of {self._n_nodes:,} nodes" if kind != AWAY else _nodes(own)
                verb = verb if len(own) == 1 else verb.replace("is ", "are ")
                said.append(f"<span class='key {kind}'></span> {text(many)} {verb}")
        if outside := [k for k in range(self._n_nodes) if k not in here]:
            said.append(f"{text(_nodes(outside))} {'is no member' if len(outside) == 1 else 'are no members'}")
        return said

    def _lanes(self, now: Moment) -> str:
        """Return the section on who was there in which rounds, where something was planned to fail."""
        if self._plan.is_empty or self._n_nodes > LANES or not now.rounds:
            return ""
        begun, n = len(self._lanes_seen), self._n_nodes
        new = [self._plan.members(t, n) * (DOWN + self._plan.up(t, n)) for t in range(begun, now.rounds)]
        self._lanes_seen = np.vstack([self._lanes_seen, np.array(new, dtype=np.uint8).reshape(-1, n)])
        out = []
        for k, lane in enumerate(self._lanes_seen[: now.rounds].T):
            spans = [
                (100 * one.begin / now.rounds, 100 * one.end / now.rounds, one.kind, f"node {k} {one.words}")
                for one in stretches(lane)
            ]
            away = int((lane == DOWN).sum())
            note = f"away in {away:,} round{'s' * (away != 1)}" if away else ""
            out.append(f"<div class='lane'><span>node {k}</span>{strip(spans, [])}<small>{note}</small></div>")
        ends_of_axis = f"<span>round 0</span><span>round {now.rounds:,}</span>"
        foot = f"<div class='lane'><span></span><p class='ends'>{ends_of_axis}</p><small></small></div>"
        coarse = f"<p class='quiet'>{COARSE}</p>" if now.rounds > STRETCHES else ""
        return section("Presence", coarse + "".join(out) + foot, "wide")


@dataclass(frozen=True)
class Stretch:
    """Rounds in a row that are drawn as one, because a node was, in most of them, the same: here or away."""

    begin: int
    end: int  # the first round after it
    here: int  # rounds in which the node was here
    away: int  # rounds in which it was away; a member or not, the rounds are `end - begin`

    @property
    def kind(self) -> str:
        """Return HERE or AWAY, whichever was more often."""
        return HERE if self.here > self.away else AWAY

    @property
    def words(self) -> str:
        """Return the stretch as the rest of a sentence that begins with the node."""
        when = f"from round {self.begin:,} to {self.end:,}"
        if max(self.here, self.away) == self.end - self.begin:
            return f"was {self.kind} {when}"
        return f"was here in {self.here:,} rounds and away in {self.away:,} {when}"


def stretches(lane: Bytes) -> list[Stretch]:
    """Return where a node was a member, at most STRETCHES of them; `lane`, (rounds,), has ABSENT, DOWN or UP of each.

    Where rounds are more, they are cut into STRETCHES equal parts, each of which counts as what most of it is.
    """
    edges = np.unique(np.linspace(0, len(lane), min(len(lane), STRETCHES) + 1).astype(int))
    counts = np.stack([np.add.reduceat(lane == one, edges[:-1]) for one in (ABSENT, DOWN, UP)])
    most = counts.argmax(axis=0)  # of as many of two kinds the one that is further from UP
    first = np.flatnonzero(np.diff(most, prepend=-1))
    counts, ends = np.add.reduceat(counts, first, axis=1), np.append(edges[first[1:]], len(lane))
    each = zip(
        most[first], edges[first].tolist(), ends.tolist(), counts[UP].tolist(), counts[DOWN].tolist(), strict=True
    )
    return [Stretch(begin, end, up, down) for kind, begin, end, up, down in each if kind != ABSENT]


def to_stderr(address: str) -> None:
    """Write the address of the page to standard error."""
    sys.stderr.write(f"live page, for this machine only: {address}\n")


def _under_way(run: Run) -> Moment:
    """Return what is known of a run that goes on."""
    moment = Moment(run.rounds, tuple(run.history), events=tuple(run.events), how=how_of(run))
    if run.processes.size > 1:  # all ranks would have to gather the coefficients, and only this one looks
        return moment
    coef, intercept = run.nodes.coefficients(run.x, run.estimates, run.members)
    terms, intercepts = terms_of(coef, intercept, run.problem.feature_names)
    return replace(moment, terms=tuple(zip(terms, np.ravel(coef).tolist(), strict=True)), intercepts=intercepts)


def _ended(run: Run, result: Result) -> Moment:
    """Return what is known of a run with this result, without the data, which would live as long as the page."""
    terms, intercepts = terms_of(result.coef, result.intercept, result.names)
    coef = tuple(zip(terms, np.ravel(result.coef).tolist(), strict=True))
    history, kept = tuple(run.history), result.without_data()
    return Moment(result.rounds, history, coef, intercepts, result.events, result.how, kept)


class _Page(LivePage):
    """The live page of this program: it shows the newest run, and stays until the program ends."""

    def __init__(self) -> None:
        self.shown: RunPage | None = None
        super().__init__(lambda: ("glmesh", "") if self.shown is None else self.shown.draw())


@functools.cache
def _page(process: int) -> _Page:
    """Return the live page of the process with this id; it is opened at the first call."""
    page = _Page()

    def close() -> None:
        """Close the page at the end of its own process; a forked child has none of the threads that would help."""
        if os.getpid() == process:
            page.close()

    atexit.register(close)
    return page


def _split(sentence: str) -> tuple[str, str]:
    """Return (the first clause of a sentence, the rest as a sentence of its own)."""
    head, *rest = re.split(r"[:;,.] ?", sentence, maxsplit=1)
    more = "".join(rest)
    return head, f"{more[:1].upper()}{more[1:]}"


def _nodes(nodes: Sequence[int]) -> str:
    """Return nodes as a sentence has them: "node 3", "nodes 3 and 5", or "12 nodes" where there are many."""
    if len(nodes) > NAMED:
        return f"{len(nodes):,} nodes"
    return f"node{'s' * (len(nodes) != 1)} {joined(list(map(str, nodes)))}"


def _gaps(history: Sequence[Tree]) -> list[tuple[str, list[Point]]]:
    """Return ("proven" and "gap", points of round and relative gap) of what nodes proved and of what was measured."""
    found = []
    for name, key in (("proven", "certificate"), ("gap", "gap")):
        points = [
            (float(one["round"]), float(one[key]) / abs(float(one["objective"])))
            for one in history
            if np.isfinite(one[key]) and np.isfinite(one["objective"]) and one["objective"]
        ]
        found.append((name, points))
    return found


def _thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    """Return at most POINTS of the points, evenly spread; the first and the last are among them."""
    return tuple(points[k] for k in np.unique(np.linspace(0, len(points) - 1, POINTS).astype(int)))


def _line(name: str, points: Sequence[Point], colour: int) -> Line:
    """Return a line of a chart through the points."""
    return Line(name, (_thinned(points),) if points else (), colour)


def _proof(now: Moment, aim: float | None) -> str:
    """Return the section on the gap by round, with the goal."""
    lines = [_line(name, points, colour) for colour, (name, points) in enumerate(_gaps(now.history))]
    drawn = chart(lines, "rounds", "relative gap, by round", Upright(True, aim or 0.0), start=0.0)
    said = "relative duality gap by round, as nodes have proven it and as it is measured over all nodes"
    return section("Proof", f"<p class='quiet'>{said}</p>{drawn}" if drawn else "<p>Nothing is proven yet.</p>")


def _coefficients(now: Moment) -> str:
    """Return the section on the coefficients: with intervals at the end of a fit that has some, else as bars."""
    if now.result is not None and now.result.statistics is not None:
        summary = table_of(now.result.inference)
        if summary is not None:
            return section("Coefficients", of_summary(summary, now.result.proof), "wide")
    if not now.terms:
        return ""
    told = "".join(f"<p>{text(name)}: {value:.4g}</p>" for name, value in now.intercepts)
    state = f"<p class='quiet'>as they are after round {now.rounds:,}</p>" if now.goes_on else ""
    return section("Coefficients", f"{state}{told}{bars(now.terms)}", "wide")


def _traffic(now: Moment) -> str:
    """Return the section on bytes sent over all links, by communication."""
    points = [(float(one["communications"]), float(one["bytes"])) for one in now.history]
    drawn = chart([_line("all links", points, 0)], "communications", "bytes sent", Upright(told=size), start=0.0)
    said = "<p class='quiet'>bytes sent over all links, by communications</p>"
    return section("Traffic", f"{said}{drawn}") if drawn else ""


def _settings(now: Moment) -> str:
    """Return the section on method, network and versions."""
    used = [*versions().items(), ("Python", platform.python_version())]
    rows = [*now.how, ("versions", ", ".join(f"{name} {which}" for name, which in used))]
    body = "".join(f"<tr><th>{text(name)}</th><td>{text(value)}</td></tr>" for name, value in rows)
    return section("Settings and versions", f"<table>{body}</table>")


def _events(now: Moment) -> str:
    """Return the section with the events as sentences, the newest first."""
    rows = [
        f"<tr><td>round {one.round:,}</td><td>{text(EVENTS[one.kind].format(one.node))}</td></tr>"
        for one in sorted(now.events, key=lambda one: -one.round)[:OLDEST]
    ]
    return section("Events", f"<table class='events'>{''.join(rows)}</table>", "wide") if rows else ""
