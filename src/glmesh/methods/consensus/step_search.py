"""The best step of a grid, found by short trial runs."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

# [communications] of the trial of each candidate of a grid: shorter favours steps that are quick at first; source:
# benchmarks/reports/sensitivity.md
FIRST_TRIAL = 100

C = TypeVar("C")
Trial = Callable[[C, int], float]  # (candidate, communications) -> objective reached, infinite if it diverged


def best_of(rows: Sequence[Sequence[C]], around: Callable[[C], Sequence[C]], trial: Trial[C]) -> C:
    """Return the candidate, a method with a step size, that reaches the lowest objective in a trial.

    `trial(candidate, communications)` returns the objective reached after so many exchanges, infinite if the candidate
    diverged. The objective as a function of the step has one valley, so each row of candidates, ascending in the step,
    is descended from its middle. The best is the start of a second descent, over the steps that `around` returns for it
    and in trials five times as long: what gains most at first may be slow, or even diverge, later.
    """
    tried = [pair for row in rows for pair in _descend(row, lambda candidate: trial(candidate, FIRST_TRIAL))]
    best = min(tried, key=lambda pair: pair[0])[1]
    finer = _descend(around(best), lambda candidate: trial(candidate, 5 * FIRST_TRIAL))
    return min(finer, key=lambda pair: pair[0])[1]


def _descend(row: Sequence[C], trial: Callable[[C], float]) -> list[tuple[float, C]]:
    """Return [(objective reached, candidate)] for each candidate that was tried on the way to the best of the row.

    The row ascends in the step size; `trial(candidate)` returns the objective that a candidate reaches.
    """
    reached: dict[int, float] = {}

    def at(i: int) -> float:
        """Return the objective that a trial of row[i] reached, a float; infinity for an i outside of the row.

        `row` has the candidates, in ascending order of their step sizes. Each trial is made once.
        """
        if i not in reached:
            reached[i] = trial(row[i]) if 0 <= i < len(row) else np.inf
        return reached[i]

    best = len(row) // 2
    while best > 0 and not np.isfinite(at(best)):
        best -= 1
    while min(at(best - 1), at(best + 1)) < at(best):
        best += 1 if at(best + 1) < at(best - 1) else -1
    return [(value, row[i]) for i, value in reached.items() if 0 <= i < len(row)]
