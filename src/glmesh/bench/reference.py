"""The optimum, proven: an objective that a duality gap says is the best but for so much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.engine.solve import solve
from glmesh.methods import Cola
from glmesh.problem.problem import Problem
from glmesh.solvers import CoordinateDescent

_ROUNDS = 400


@dataclass(frozen=True)
class Reference:
    """objective: the lowest known. gap: the optimum is at most this much lower. start: the objective at w = 0."""

    objective: float
    gap: float
    start: float

    @property
    def relative_gap(self) -> float:
        """gap / |objective|."""
        return self.gap / abs(self.objective) if self.objective else np.inf

    def suboptimality(self, objective: float) -> float:
        """(objective - best) / |best|."""
        return (objective - self.objective) / abs(self.objective)

    def of_start(self, objective: float) -> float:
        """(objective - best) / (objective at zero - best)."""
        return (objective - self.objective) / (self.start - self.objective)


def reference(problem: Problem, *, tol: float = 1e-9, max_rounds: int = _ROUNDS) -> Reference:
    """One node that holds everything solves the problem: conjugate gradients first, then coordinate descent alone."""
    result = solve(problem, n_nodes=1, tol=tol, max_rounds=max_rounds, record_every=5)
    objective, gap = result.objective, result.gap
    if gap > tol * abs(objective):
        alone = Cola(local_passes=10, solver=CoordinateDescent(order="shuffled"))
        more = solve(
            problem, method=alone, n_nodes=1, tol=tol, max_rounds=max_rounds, record_every=5, warm_start=result.x
        )
        objective, gap = min((objective, gap), (more.objective, more.gap), key=lambda pair: pair[1])
    return Reference(objective, gap, problem.objective(np.zeros_like(result.coef)))
