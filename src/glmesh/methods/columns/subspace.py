"""The best point of a space of directions, of which all nodes know what each adds to the predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.functions import Smooth
from glmesh.functions.smooth import inner
from glmesh.types import Matrix, Vector

# [Newton steps] of one search; a handful is enough, unless rounding keeps it from ending
MOST_STEPS = 50
# [parts of the largest eigenvalue] curvature below which directions count as dependent, because that is what rounding
# leaves of zero
DEPENDENT = 1e-14
# [parts of the objective] expected decrease at which the search ends, because values of the objective round
ENOUGH = 1e-16
# [parts of the expected decrease] decrease that a step must have, the usual choice of Armijo's rule
ARMIJO = 1e-4
# [halvings] of a step, after which it is less than what rounding could tell
MOST_HALVINGS = 40


def best_combination(f: Smooth, v: Vector, steps: Matrix, slopes: Vector, gram: Matrix) -> Vector:
    """Return argmin_c f(v + sum_i c_i steps_i) + slopes.c + c'(gram)c/2, shape (h,), by Newton's method from c = 0.

    v, shape (n,), are predictions; `steps`, shape (h, n), what each of h directions adds to them; `slopes`, shape (h,),
    and `gram`, shape (h, h), belong to the penalty. The objective at the result is not above that at c = 0.
    """
    objective = _Combinations(f, v, steps, slopes, gram)
    c = np.zeros(len(steps))
    value = f.value(v)
    for _ in range(MOST_STEPS):
        slope, bend = objective.derivatives(c)
        step = _newton_step(bend, slope)
        expected = -float(slope @ step)
        if not expected > ENOUGH * abs(value):
            break
        found = _along(objective, c, step, value, expected)
        if found is None:
            break
        c, value = found
    return c


@dataclass(frozen=True, eq=False)
class _Combinations:
    """The objective of `best_combination`, with its arguments as fields, as a function of c, shape (h,)."""

    f: Smooth
    v: Vector  # (n,)
    steps: Matrix  # (h, n)
    slopes: Vector  # (h,)
    gram: Matrix  # (h, h)

    def value(self, c: Vector) -> float:
        """Return the objective at c."""
        return self.f.value(self.v + c @ self.steps) + float(self.slopes @ c + 0.5 * c @ self.gram @ c)

    def derivatives(self, c: Vector) -> tuple[Vector, Matrix]:
        """Return gradient, shape (h,), and Hessian, shape (h, h), at c."""
        at = self.v + c @ self.steps
        slope = inner(self.steps, self.f.gradient(at)[None])[:, 0] + self.slopes + self.gram @ c
        return slope, self.f.bend(at, self.steps) + self.gram


def _newton_step(bend: Matrix, slope: Vector) -> Vector:
    """Return -(bend)^+ slope, shape (h,), where directions without curvature are left out."""
    values, vectors = np.linalg.eigh(bend)
    kept = values > DEPENDENT * values[-1]
    step: Vector = -vectors[:, kept] @ ((vectors[:, kept].T @ slope) / values[kept])
    return step


def _along(
    objective: _Combinations, c: Vector, step: Vector, value: float, expected: float
) -> tuple[Vector, float] | None:
    """Return (c + t step, its objective) for the largest t = 1, 1/2, ... that decreases the objective enough.

    None if none does. `value` is the objective at c, `expected` the decrease that the slope promises.
    """
    t = 1.0
    for _ in range(MOST_HALVINGS):
        new = c + t * step
        there = objective.value(new)
        if there <= value - ARMIJO * t * expected:
            return new, there
        t *= 0.5
    return None
