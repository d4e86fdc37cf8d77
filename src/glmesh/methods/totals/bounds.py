"""Proofs of how far the objective at a point is above the optimum, from totals."""

from __future__ import annotations

import numpy as np

from glmesh.core.totals import Sums
from glmesh.methods.totals.contribution import REACH_POWER, Query
from glmesh.methods.totals.scaled import ScaledPenalty

ROUNDING = 1e-13  # [objective] allowance for the rounding of sums, beside that of predictions
# [largest scaled coefficient and step] within which the optimal value of a coordinate without penalty is looked for
FARTHEST = 1e2
PROVEN = 0.5  # largest x = R lambda that is taken for a proof: separated data have x -> 1, and sums are rounded


def duality_gap(penalty: ScaledPenalty, query: Query, sums: Sums) -> float:
    """Return the gap between the objective at the query's trial point and a dual point of all rows.

    Every row adds loss(z) + loss*(theta) - z theta >= 0, every penalised coordinate the like for c = X^T theta. Where c
    must be shrunk by s into the domain of the penalty's conjugate, loss*(s theta) <= s loss*(theta). A coordinate
    without penalty asks for c = 0 (with a bound on one side, for a sign of c); what rounding leaves of that counts as
    far as the optimum may be.
    """
    there = query.point + query.step
    pulls, held = sums["slopes"][len(there) :], ~penalty.free
    loss, _, slack = (float(one) for one in sums["values"])
    s = min(1.0, penalty.margins.ray_limit(-pulls[held], np.zeros(())))
    if s < 0 or slack >= query.cap:
        return np.inf
    inside = penalty.within(s * pulls[held])
    farthest = FARTHEST * float((np.abs(query.point) + np.abs(query.step)).max())
    left = float(np.abs(pulls[penalty.free]).sum() + np.abs(s * pulls[held] - inside).sum())
    penalised = float(penalty.bound.slacks(there[held], -inside).sum())
    return slack + penalised + (1.0 - s) * max(loss - slack, 0.0) + left * farthest


def reach(sums: Sums, third: float) -> float:
    """Return an upper bound of R = c max_i sqrt(x_i^T H^-1 x_i) from the sum of the 16th powers of the squares."""
    return float(third * float(sums["reach"][0]) ** (0.5 / REACH_POWER) * (1.0 + 1e-9))


def self_concordance(decrement: float, reach: float) -> tuple[float, float]:
    """Return (bound of the objective above the optimum, bound of the distance to the optimum in the Hessian's norm).

    `decrement` is lambda^2 = g^T H^-1 g. With x = R lambda <= 1/2 they are ((1 - x) ln(1 - x) + x) / R^2 and
    -ln(1 - x) / R; both infinite for larger x.
    """
    length = np.sqrt(max(decrement, 0.0))
    x = reach * length if length > 0 else 0.0
    if not x <= PROVEN:
        return np.inf, np.inf
    if x < 1e-3:  # the series, rounded up
        return 0.5 * length**2 * (1.0 + 0.5 * x), length * (1.0 + x)
    return ((1.0 - x) * np.log1p(-x) + x) / reach**2, -np.log1p(-x) / reach
