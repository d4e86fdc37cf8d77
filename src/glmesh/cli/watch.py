"""What people see of the sites of a federation while they run: one screen in a terminal, lines elsewhere."""

import shutil
import sys
import time
from collections.abc import Mapping

from glmesh.cli.local_sites import LocalSites
from glmesh.cli.options import PARTIAL, REACHED
from glmesh.cli.output import folded, plain
from glmesh.federation.monitor.history import Figures
from glmesh.formatting import duration, joined

EVERY = 0.25  # [s] between two pictures in a terminal, and between two looks at the sites
_LONGEST = 30.0  # [s] between two lines on progress alone, where lines are not overwritten
_MEETING = ("starting", "meeting")  # states of a site that may still have remarks on its data
_SHORT = 3.0  # [s] that sites are waited for at a meeting before that is worth words


class SitesDisplay:
    """Callback of `LocalSites.wait` that shows progress, the sites' states, and who is waited for.

    In a terminal that is one block of lines that is drawn over the one before; elsewhere a line for each change of
    states, and for progress alone after pauses that double up to 30 s.
    """

    def __init__(self, *, in_place: bool = True) -> None:
        self._stream = sys.stdout
        self._in_place = in_place and self._stream.isatty()
        self._next = self._next_line = 0.0  # [s, monotonic] when to look again, and to print a line on progress alone
        self._pause = 1.0  # [s]
        self._drawn = 0  # lines of the block in the terminal
        self._said = ("", "")  # (states, progress) of the last line
        self._first: float | None = None  # the first number that was proven
        self._told: set[tuple[str, str]] = set()  # (site, remark on its data) that were printed

    def __call__(self, sites: LocalSites) -> None:
        """Look at the sites, if it is time to, and show them."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + EVERY
        figures = {name: sites.look(name) for name in sites.sites}
        states = {name: _state(sites, name, figures[name]) for name in sites.sites}
        if not set(states.values()) & set(_MEETING):
            self.remark(sites)
        seconds = duration(time.time() - sites.began)
        leader = _leader(sites.last)
        if self._in_place:
            self._draw(self.block(states, leader, seconds))
        else:
            self._line(_states_text(states), leader, seconds)

    def block(self, states: Mapping[str, str], leader: Figures | None, seconds: str) -> list[str]:
        """Return the lines of the screen: progress, each site's state, and who is waited for.

        `leader` are the figures of the site that has come furthest, None before one answers; `seconds` is the time
        since the start, as text.
        """
        from glmesh.federation.monitor.screen import BAR, bar, went_text

        wide = max(map(len, states))
        progress = "" if leader is None else bar(leader, self._first_proof(leader), BAR, ascii=plain(self._stream))
        lines = [f"{progress}  {seconds}".strip(), *([] if leader is None else [_proof(leader)])]
        lines += [f"  {name:<{wide}}  {state}" for name, state in states.items()]
        if leader is not None and _proof(leader):
            lines.append(went_text(leader))
        waits = _waits(leader)
        return [*filter(None, lines), *([f"waiting for {waits}"] if waits else [])]

    def remark(self, sites: LocalSites) -> None:
        """Print the remarks on data that sites have logged and that were not printed yet, each once."""
        for why, names in sites.remarks().items():
            new = [name for name in names if (name, why) not in self._told]
            self._told |= {(name, why) for name in new}
            if new:
                self.clear()
                print(folded(f"{joined(new)}: {why}", self._stream), file=self._stream, flush=True)

    def clear(self) -> None:
        """Remove the block with the states of the sites from the terminal."""
        print(self._erasing(), end="", file=self._stream, flush=True)

    def _erasing(self) -> str:
        """Return the control characters that remove the block from the terminal, of which nothing is drawn then."""
        drawn, self._drawn = self._drawn, 0
        return f"\x1b[{drawn}A\x1b[J" if drawn else ""

    def say(self, text: str) -> None:
        """Print a text on lines of its own, which stay above the block of states."""
        self.clear()
        print(text, file=self._stream, flush=True)

    def _first_proof(self, leader: Figures) -> float | None:
        """Return the first number that was proven, a relative gap or standard errors; None before there is one."""
        from glmesh.federation.monitor.screen import proven

        if self._first is None:
            self._first = proven(leader)
        return self._first

    def _draw(self, lines: list[str]) -> None:
        """Draw a block of lines over the one before; lines are cut at the width of the terminal."""
        columns = shutil.get_terminal_size().columns - 1
        text = "\n".join(line[:columns] for line in lines)
        print(f"{self._erasing()}{text}", file=self._stream, flush=True)  # in one piece, so that nothing flickers
        self._drawn = len(lines)

    def _line(self, states: str, leader: Figures | None, seconds: str) -> None:
        """Print a line if states have changed, or if progress has and the last line on progress is long enough ago."""
        from glmesh.federation.monitor.screen import went_text

        progress, waits = "", _waits(leader)
        if leader is not None:
            progress = ", ".join((went_text(leader), _proof(leader))) if _proof(leader) else ""
        states = f"{states}; waiting for {waits}" if waits else states
        now = time.monotonic()
        before = self._said
        if states == before[0] and (progress == before[1] or now < self._next_line):
            return
        self._said = states, progress
        new = [part for part, old in zip(self._said, before, strict=True) if part and part != old]
        print(f"{seconds:>7}  {'; '.join(new)}", file=self._stream, flush=True)
        if progress != before[1]:
            self._next_line = now + self._pause
            self._pause = min(2 * self._pause, _LONGEST)


def _state(sites: LocalSites, name: str, figures: Figures | None) -> str:
    """Return words on the state of a site whose present `figures` are given, None if its node does not answer."""
    code = sites.nodes[name].poll()
    if code is not None and code < 0:
        return f"ended by signal {-code}"
    if code not in (None, REACHED, PARTIAL):
        return f"ended with code {code}"
    if figures is not None and code is None:
        from glmesh.federation.monitor.screen import phase_text

        return phase_text(figures)
    if name not in sites.last and code is None:
        return "starting"
    return sites.outcome(name) or ("not answering" if code is None else "done")


def _states_text(states: Mapping[str, str]) -> str:
    """Return the sites' states as text: "alice and bob training, carol starting"."""
    said: dict[str, list[str]] = {}
    for name, state in states.items():
        said.setdefault(state, []).append(name)
    return ", ".join(f"{joined(names)} {state}" for state, names in said.items())


def _leader(seen: Mapping[str, Figures]) -> Figures | None:
    """Return the figures of the site that has come furthest, of these one that waits; None before one does either."""
    training = [figures for figures in seen.values() if figures.get("communications") or figures.get("waiting")]
    return max(training, key=lambda one: (one.get("communications", 0), bool(one.get("waiting"))), default=None)


def _proof(leader: Figures) -> str:
    """Return words on what is proven and what is aimed at; "" before the first message of the fit."""
    from glmesh.federation.monitor.screen import goal_text, proof_text

    if not leader.get("communications"):
        return ""
    return f"{proof_text(leader, 'proven gap {:.1e}') or 'nothing proven yet'} ({goal_text(leader)})"


def _waits(leader: Figures | None) -> str:
    """Return words on who is waited for, as the site that has come furthest sees it; "" if nobody is.

    A meeting is not worth words at once, because sites start one after another.
    """
    from glmesh.federation.monitor.screen import waiting_text

    waiting = None if leader is None else leader.get("waiting")
    if leader is None or not waiting or (leader["phase"] == "meeting" and time.time() < waiting["since"] + _SHORT):
        return ""
    return waiting_text(leader)
