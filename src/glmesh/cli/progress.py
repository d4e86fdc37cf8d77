"""Progress of a run: one line that updates itself in a terminal, a line now and then elsewhere."""

import math
import shutil
import sys
import time

from glmesh.cli.output import plain
from glmesh.core import Certificate
from glmesh.engine.result import Result
from glmesh.engine.run import Run
from glmesh.formatting import duration, size

_REFRESH = 0.15  # [s] between two pictures of the line; faster cannot be read
_SHARE = 10  # measuring the gap takes at most a tenth of a run's time
_LONGEST = 30.0  # [s] of silence where lines are not overwritten
_BAR, _BESIDE = 24, 70  # [columns] of the bar at most, and of the text beside it


class Progress:
    """Callback of `solve` that shows round, relative gap, bytes sent and time on one line of the terminal.

    The bar is full when the gap has come down to `tol` (on a log scale), or after `max_rounds` if only they count.
    """

    def __init__(self, *, stop: str, tol: float, max_rounds: int, quiet: bool = False) -> None:
        self._stop, self._tol, self._max_rounds, self._quiet = stop, tol, max_rounds, quiet
        self._stream = sys.stdout
        self._terminal = self._stream.isatty()
        self._began = time.perf_counter()
        self._next = self._next_look = 0.0  # [s] when to show the line, and to look at the gap
        self._gap = math.inf  # relative, as last seen
        self._pause = _REFRESH if self._terminal else 1.0
        self._first = math.nan  # the first relative gap seen
        self._done = 0.0  # part of the bar that is full
        if self._terminal and not quiet:
            self._show("starting (the first run ever compiles the solver, which takes some seconds)")

    def __call__(self, run: "Run") -> None:
        """Print the line for the present round of a run, if enough time has passed since the last line."""
        now = self._elapsed()
        if self._quiet or now < self._next:
            return
        if run.processes.size > 1:  # ranks look at things together, when all do: here at what was noted last
            last = run.history[-1]
            noted = last["gap"] / abs(last["objective"]) if last["objective"] else math.inf
            self._gap = certified(run.certificate) if self._stop == "certificate" else noted
            n_bytes = last["bytes"]
        else:
            if now >= self._next_look:
                self._gap = self._look(run)
                after = self._elapsed()
                self._next_look = after + _SHARE * (after - now)
            n_bytes = run.bytes
        self._show(self.line(run.rounds, self._gap, n_bytes))
        if not self._terminal:
            self._pause = min(2 * self._pause, _LONGEST)
        self._next = self._elapsed() + self._pause

    def finish(self, result: "Result") -> None:
        """Print the line for the result of the run, and in a terminal a line end."""
        if self._quiet:
            return
        gap = certified(result.certificate) if self._stop == "certificate" else result.relative_gap
        self._show(self.line(result.rounds, gap, result.bytes))
        if self._terminal:
            print(file=self._stream, flush=True)

    def line(self, rounds: int, relative_gap: float, n_bytes: int) -> str:
        """Return the line to show: in a terminal a bar, then round, relative gap, bytes sent and seconds so far."""
        name = "certified" if self._stop == "certificate" else "gap"
        gap = f"{relative_gap:.1e}" if math.isfinite(relative_gap) else "-"
        aim = "" if self._stop == "rounds" else f" (goal {self._tol:.0e})"
        info = f"round {rounds:,}  {name} {gap}{aim}  {size(n_bytes)}  {duration(self._elapsed())}"
        if not self._terminal:
            return info
        width = min(max(_columns() - _BESIDE, 0), _BAR)
        full = int(width * self._fraction(rounds, relative_gap))
        on, off = "#-" if plain(self._stream) else "█░"
        return f"{on * full}{off * (width - full)}  {info}"

    def _elapsed(self) -> float:
        """Return the seconds on the clock of this machine since the run began."""
        return time.perf_counter() - self._began

    def _look(self, run: "Run") -> float:
        """Return the relative gap of a run: the proven one if `stop` is "certificate", else the measured one.

        It is infinite if there is none yet.
        """
        if self._stop == "certificate":
            return certified(run.certificate)
        measures = run.measure()
        return measures.gap / abs(measures.objective) if measures.objective else math.inf

    def _fraction(self, rounds: int, gap: float) -> float:
        """Return how full the bar is, from 0 to 1, after `rounds` rounds with this relative gap."""
        if self._stop == "rounds":
            return rounds / max(self._max_rounds, 1)
        if gap <= self._tol:
            return 1.0
        if math.isfinite(gap) and self._tol > 0:
            self._first = max(gap, 10 * self._tol) if math.isnan(self._first) else self._first
            self._done = max(self._done, math.log(self._first / gap) / math.log(self._first / self._tol))
        return min(self._done, 1.0)

    def _show(self, text: str) -> None:
        """Print a line, in a terminal over the one before."""
        if self._terminal:
            print(f"\r{text[: _columns()]}\x1b[K", end="", file=self._stream, flush=True)
        else:
            print(text, file=self._stream, flush=True)


def certified(certificate: "Certificate | None") -> float:
    """Return the relative gap that a certificate proves; infinite without a certificate."""
    return math.inf if certificate is None else certificate.relative


def _columns() -> int:
    """Return how many characters a line may have: those of the terminal less one, as some wrap in the last column."""
    return shutil.get_terminal_size().columns - 1
