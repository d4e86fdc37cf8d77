"""What a run needs to host nodes that hold samples and copies of all coefficients, for methods of consensus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from glmesh.core.block import NetworkInfo
from glmesh.engine.result import Result
from glmesh.errors import InvalidInput
from glmesh.methods import Consensus
from glmesh.methods.consensus.samples import Constants, Samples
from glmesh.network.faults import Plan
from glmesh.problem.problem import Problem
from glmesh.types import AnyArray, Matrix, Vector

TRIAL = 100  # communications of each candidate step of a grid
LONGER = 5  # times as long a trial for the steps around the best: what is quick at first need not be quick later


def refuse(method: Consensus, problem: Problem, plan: Plan, *, certify: bool) -> None:
    """What a method of consensus is not for, by name."""
    method.check(problem)
    if certify:
        raise InvalidInput(f"{method.name} has no certificates; use stop='gap', or Cola")
    if not plan.is_empty:
        raise InvalidInput(f"{method.name} is for networks that stand still; use Cola where things fail")


def settle_constants(method: Consensus, blocks: list[Samples]) -> Constants:
    """The constants of all nodes together: as given, or from everybody's data; like the spectrum, all know them."""
    constants = method.constants
    if constants is None:
        each = np.concatenate([block.node_constants() for block in blocks])
        constants = Constants(float(each[:, 0].max()), float(each[:, 1].min()))
    for block in blocks:
        block.constants = constants
    return constants


def best_of(
    method: Consensus, constants: Constants, info: NetworkInfo, start: Callable[[Consensus], Any], trial: int = TRIAL
) -> Consensus:
    """The candidate with the lowest mean objective of all copies after some communications on the very network.

    start: a run of a candidate. The objective as a function of the step has one valley, so each row of the grid is
    descended from its middle. The best step is the start of a second descent, over steps half as far from each other
    and longer runs: what gains most at first may be slow, or even diverge, later. A bird's-eye search that costs
    nothing here: in favour of methods that need it.
    """
    tried: list[tuple[float, Consensus]] = []
    for row in method.grid(constants, info):
        tried += _descend([replace(candidate, constants=constants) for candidate in row], start, trial)
    best = min(tried, key=lambda pair: pair[0])[1]
    assert isinstance(best.step, float)
    around = [replace(best, step=best.step * 2.0 ** (i / 2)) for i in range(-8, 9)]
    return min(_descend(around, start, LONGER * trial), key=lambda pair: pair[0])[1]


def _descend(row: list[Consensus], start: Callable[[Consensus], Any], trial: int) -> list[tuple[float, Consensus]]:
    """What was tried on the way to the bottom of the valley."""
    reached: dict[int, float] = {}

    def at(i: int) -> float:
        if i not in reached:
            reached[i] = _after(row[i], start, trial) if 0 <= i < len(row) else np.inf
        return reached[i]

    best = len(row) // 2
    while best > 0 and not np.isfinite(at(best)):
        best -= 1
    while min(at(best - 1), at(best + 1)) < at(best):
        best += 1 if at(best + 1) < at(best - 1) else -1
    return [(value, row[i]) for i, value in reached.items() if 0 <= i < len(row)]


def _after(candidate: Consensus, start: Callable[[Consensus], Any], trial: int) -> float:
    with start(candidate) as run:
        while run.communications < trial:
            next(run)
        return mean_objective(run.problem, run.estimates)


def mean_objective(problem: Problem, copies: Matrix) -> float:
    """(1/K) sum_k O(w_k); infinite where a copy is not finite."""
    if not np.isfinite(copies).all():
        return np.inf
    with np.errstate(over="ignore", invalid="ignore"):
        value = float(np.mean([problem.objective(row) for row in copies]))
    return value if np.isfinite(value) else np.inf


def coefficients(start: AnyArray, p: int) -> Vector | None:
    """What every copy starts from."""
    if start is None:
        return None
    try:
        w = np.asarray(start.coef if isinstance(start, Result) else start, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("warm_start is a Result, or coefficients") from None
    if w.shape != (p,) or not np.isfinite(w).all():
        raise InvalidInput(f"warm_start needs {p} finite coefficients (Result.coef), got shape {w.shape}")
    return w
