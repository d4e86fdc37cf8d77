"""Optimum of a problem, proven by a duality gap."""

from dataclasses import dataclass

import numpy as np

from glmesh.engine.solve import solve
from glmesh.methods import Cola
from glmesh.problem import Problem
from glmesh.solvers import CoordinateDescent

_ROUNDS = 400  # [rounds] of each of the two attempts, at most


@dataclass(frozen=True)
class Reference:
    """The best that is known of a problem: the lowest objective, its duality gap, and the objective at w = 0."""

    objective: float  # the lowest known
    gap: float  # absolute duality gap: the optimum is at least objective - gap
    start: float  # the objective at w = 0

    @property
    def relative_gap(self) -> float:
        """Return the duality gap divided by abs(objective); infinite where the objective is 0."""
        return self.gap / abs(self.objective) if self.objective else np.inf

    def suboptimality(self, objective: float) -> float:
        """Return the relative suboptimality (objective - best) / abs(best), best being the lowest objective known."""
        return (objective - self.objective) / abs(self.objective)

    def of_start(self, objective: float) -> float:
        """Return (objective - best) / (objective at w = 0 - best): 1 at w = 0, 0 at the lowest objective known."""
        return (objective - self.objective) / (self.start - self.objective)


def reference(problem: Problem, *, tol: float = 1e-9, max_rounds: int = _ROUNDS) -> Reference:
    """Return the lowest objective of a problem and its duality gap, found by one node that holds all data.

    The default method runs first, until the relative gap is `tol` or `max_rounds` are made; where the gap stays above,
    plain coordinate descent goes on from there for as many rounds.
    """
    result = solve(problem, n_nodes=1, tol=tol, max_rounds=max_rounds, record_every=5)
    objective, gap = result.objective, result.gap
    if gap > tol * abs(objective):
        alone = Cola(local_passes=10, solver=CoordinateDescent(order="shuffled"))
        more = solve(
            problem, method=alone, n_nodes=1, tol=tol, max_rounds=max_rounds, record_every=5, warm_start=result
        )
        objective, gap = min((objective, gap), (more.objective, more.gap), key=lambda pair: pair[1])
    return Reference(objective, gap, problem.objective(np.zeros_like(result.coef)))
