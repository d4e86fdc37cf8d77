"""Rules that end a run: each looks at the run after a record and says the status that ends it, or None to go on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from glmesh.engine.result import Status
from glmesh.engine.run import Run

Entry = dict[str, Any]  # of the history


class StoppingRule(Protocol):
    """Decides after each round whether a run ends."""

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return the status that ends the run, or None; entry: the record of this very round, if one was made."""
        ...


class Diverged:
    """Ends a run whose objective is no longer finite."""

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return DIVERGED if H of this record is not finite."""
        return Status.DIVERGED if entry is not None and not np.isfinite(entry["h"]) else None


@dataclass(frozen=True)
class SmallGap:
    """Ends a run when gap <= tol * abs(objective)."""

    tol: float

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return CONVERGED if the gap of this record is small enough."""
        small = entry is not None and entry["gap"] <= self.tol * abs(entry["objective"])
        return Status.CONVERGED if small else None


@dataclass(frozen=True)
class Certified:
    """Ends a run when the nodes have proven a relative gap of at most tol."""

    tol: float

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return CERTIFIED if the newest certificate is good enough."""
        proven = run.certificate is not None and run.certificate.relative <= self.tol
        return Status.CERTIFIED if proven else None


@dataclass(frozen=True)
class RoundLimit:
    """Ends a run after `max_rounds` rounds, with the status given."""

    max_rounds: int
    status: Status

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return the status once that many rounds are made."""
        return self.status if run.rounds >= self.max_rounds else None


class Wishes:
    """Ends a run on Ctrl-C, or when the callback wishes so: the second Ctrl-C is an exception again.

    All processes must stop in the same round, so those of a cluster tell each other their wishes at records, when they
    measure together anyway; there SIGTERM, by which a scheduler ends a job, counts as Ctrl-C.
    """

    def __init__(self, run: Run, callback: Callable[[Run], object] | None) -> None:
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
        self._interrupted = True
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def ask(self, run: Run) -> Status | None:
        """Ask the callback after a round; return STOPPED_BY_CALLBACK if the only process wishes to stop."""
        self._wished = bool(self._callback is not None and self._callback(run)) or self._wished
        return Status.STOPPED_BY_CALLBACK if self._wished and self._alone else None

    def check(self, run: Run, entry: Entry | None) -> Status | None:
        """Return INTERRUPTED or STOPPED_BY_CALLBACK if any process wishes to stop."""
        if not self._alone and entry is None:
            return None
        wishes = run.processes.all_gather([(self._interrupted, self._wished)])
        if any(interrupted for interrupted, _ in wishes):
            return Status.INTERRUPTED
        return Status.STOPPED_BY_CALLBACK if any(wished for _, wished in wishes) else None
