"""Rules that end a run: each looks at the run after a record and says the status that ends it, or None to go on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from glmesh.engine.result import Status
from glmesh.engine.run import Run
from glmesh.errors import InvalidInput
from glmesh.types import Tree
from glmesh.validation import whole_number

GRACE = 15.0  # [s] from a signal to the end of all waiting: half of what schedulers give a job between TERM and KILL
ROUNDING = 2.0**-52  # [largest objective] relative error of a sum of doubles
Entry = Tree  # a record of the history


class StoppingRule(Protocol):
    """Protocol of a rule that is asked after every round whether the run ends, and with which status."""

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return the status with which the run ends after this round, or None to go on.

        `entry` is this round's record of the history, None if it has none.
        """
        ...


class Diverged:
    """Ends a run whose objective H = (1/K) sum_k f(v_k) + g(x) is no longer finite.

    The v_k are the K nodes' estimates of A x, A being the data matrix by columns. With a method on totals, which has no
    H, the objective of the coefficients counts; it is NaN before it is known.
    """

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return DIVERGED if the record `entry` has an H or an objective that is not finite; else None.

        `entry` None, a round without a record, gives None.
        """
        if entry is None:
            return None
        diverged = np.isinf(entry["objective"]) if run.nodes.primal else not np.isfinite(entry["h"])
        return Status.DIVERGED if diverged else None


@dataclass
class SmallGap:
    """Ends a run when its duality gap is at most tol * abs(objective), or rounding beside the largest objective seen.

    A method that stops itself says so instead. The latter is for data that can be fitted exactly: the objective is then
    zero, and no gap is small beside it.
    """

    tol: float  # relative gap
    largest: float = 0.0  # absolute objective of all records so far

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return CONVERGED if the duality gap in the record `entry` is small enough; None to go on.

        `entry` None, a round without a record, gives None.
        """
        if entry is None:
            return None
        if (finished := run.nodes.finished) is not None:
            return Status.CONVERGED if finished else None
        size = abs(entry["objective"])
        self.largest = max(self.largest, size)  # NaN, before an objective is known, changes nothing
        return Status.CONVERGED if entry["gap"] <= max(self.tol * size, ROUNDING * self.largest) else None


@dataclass(frozen=True)
class Certified:
    """Ends a run when the newest certificate that all nodes know proves a relative gap of at most tol."""

    tol: float  # relative gap

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return CERTIFIED if the newest certificate that all nodes know proves a relative gap <= tol; else None."""
        if (finished := run.nodes.finished) is not None:
            return Status.CERTIFIED if finished else None
        proven = run.certificate is not None and run.certificate.relative <= self.tol
        return Status.CERTIFIED if proven else None


class NothingToGain:
    """Ends a run whose method found out that more rounds are in vain.

    Either there is no optimum, or columns are collinear, or all that is left to gain is rounding. `_STATUSES` maps the
    nodes' word for each of these to the status.
    """

    _STATUSES: ClassVar = {
        "separated": Status.NO_OPTIMUM,
        "no shape": Status.NO_OPTIMUM,
        "collinear": Status.COLLINEAR,
        "rounding": Status.STALLED,
        "stationary": Status.STATIONARY,
        "outside": Status.NO_START,
    }

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return the status that the nodes' word stands for if the nodes say that more rounds are in vain; else None.

        Rounds without a record (`entry` None) go on: a small gap, which only a record shows, is the better reason to
        end.
        """
        return None if entry is None else self._STATUSES.get(run.nodes.failure)


@dataclass(frozen=True)
class RoundLimit:
    """Ends a run with the status `status` when it has made `max_rounds` rounds, counted from round 0."""

    max_rounds: int  # [rounds] from round 0 on
    status: Status  # OUT_OF_ROUNDS, or ROUNDS_DONE where that number of rounds was asked for

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return `status` if the run has made `max_rounds` rounds; else None. The record `entry` is not looked at."""
        return self.status if run.rounds >= self.max_rounds else None


class Wishes:
    """Ends a run on Ctrl-C, or when the callback returns a true value; a second Ctrl-C raises KeyboardInterrupt.

    A context manager: its signal handlers are in place until it is left. All processes of a cluster must stop in the
    same round, so they tell each other at records, when they measure together anyway; there SIGTERM, by which a
    scheduler ends a job, counts as Ctrl-C. Ranks that wait for each other GRACE seconds after a signal give up.
    """

    def __init__(self, run: Run, callback: Callable[[Run], object] | None) -> None:
        self._processes = run.processes
        self._alone, self._callback = run.processes.size == 1, callback
        self._signals = (signal.SIGINT,) if self._alone else (signal.SIGINT, signal.SIGTERM)
        self._interrupted = self._wished = False

    def __enter__(self) -> Wishes:
        before = {number: signal.getsignal(number) for number in self._signals}
        # only the main thread may; and a program that ignores Ctrl-C (a job in the background) goes on ignoring it
        listens = threading.current_thread() is threading.main_thread()
        self._before = {number: was for number, was in before.items() if listens and was is not signal.SIG_IGN}
        for number in self._before:
            signal.signal(number, self._on_interrupt)
        return self

    def _on_interrupt(self, *_: object) -> None:
        """Handle SIGINT or SIGTERM: note that the run is to stop, and restore the signal handlers from before."""
        self._interrupted = True
        self._processes.hurry(GRACE)
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def ask(self, run: Run) -> Status | None:
        """Call the caller's callback after a round; return STOPPED_BY_CALLBACK if its answer was ever true, else None.

        With several processes it returns None always: they agree in `check`.
        """
        self._wished = bool(self._callback is not None and self._callback(run)) or self._wished
        return Status.STOPPED_BY_CALLBACK if self._wished and self._alone else None

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return INTERRUPTED or STOPPED_BY_CALLBACK if any process was told to stop, else None.

        Several processes ask each other only in rounds with a record, where `entry` is not None; one process alone in
        every round.
        """
        if not self._alone and entry is None:
            return None
        wishes = run.processes.all_gather([(self._interrupted, self._wished)])
        if any(interrupted for interrupted, _ in wishes):
            self._processes.hurry()  # all have heard: what is left to do is done in peace
            return Status.INTERRUPTED
        return Status.STOPPED_BY_CALLBACK if any(wished for _, wished in wishes) else None


@dataclass(frozen=True)
class Loop:
    """When rounds end and how often they are recorded: the options of these names of `solve`."""

    tol: float  # relative gap that is aimed at
    max_rounds: int  # counted from round 0 of a run
    stop: str  # "gap", "certificate" or "rounds"
    record_every: int = 1  # [rounds] between two records of the history

    def __post_init__(self) -> None:
        if self.stop not in ("gap", "certificate", "rounds"):
            raise InvalidInput(f"stop must be 'gap', 'certificate' or 'rounds', got {self.stop!r}")
        if not isinstance(self.tol, int | float | np.number) or not self.tol >= 0:
            raise InvalidInput(f"tol must be a number >= 0, got {self.tol!r}")
        whole_number(self.max_rounds, "max_rounds", 0)
        whole_number(self.record_every, "record_every", 1)

    @property
    def aim(self) -> float | None:
        """Return the relative gap at which rounds end; None if they are counted only."""
        return None if self.stop == "rounds" else self.tol

    @property
    def proven(self) -> float | None:
        """Return the relative gap that nodes must prove; None if no certificate is asked for."""
        return self.tol if self.stop == "certificate" else None

    def rules(self) -> list[StoppingRule]:
        """Return the rules that end a run, in the order in which they are asked; the limit of rounds is the last."""
        enough: dict[str, list[StoppingRule]] = {
            "gap": [SmallGap(self.tol), NothingToGain()],
            "certificate": [Certified(self.tol), NothingToGain()],
            "rounds": [],
        }
        limit = RoundLimit(self.max_rounds, Status.ROUNDS_DONE if self.stop == "rounds" else Status.OUT_OF_ROUNDS)
        return [Diverged(), *enough[self.stop], limit]
