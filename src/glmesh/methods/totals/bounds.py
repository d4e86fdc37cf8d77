"""Proofs of how far the objective at a point is above the optimum, from totals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.core.totals import Sums
from glmesh.methods.totals.contribution import EPSILON, REACH_POWER, Query
from glmesh.methods.totals.model import Model, inverse_factor
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.types import Matrix, Vector

ROUNDING = 1e-13  # [objective] allowance for the rounding of sums, beside that of predictions
# [largest scaled coefficient and step] within which the optimal value of a coordinate without penalty is looked for
FARTHEST = 1e2
ARITHMETIC = 4.0  # [EPSILON] relative error of sums of products
SINGULAR = 0.1  # relative error of norms in the Hessian up to which bounds by it are proofs
PROVEN = 0.5  # largest x = R lambda that is taken for a proof: separated data have x -> 1, and sums are rounded


@dataclass(frozen=True)
class Noise:
    """By how much predictions, slopes and the Hessian of a total may be wrong because of rounding."""

    predictions: float  # [norm of a row]
    slopes: float  # of the vector of all slopes, in its norm
    hessian: float  # of an entry, by units alone

    @staticmethod
    def of(query: Query, sums: Sums) -> Noise:
        """Return the noise of the sums that answer a query; sums["values"][1] is sum_i abs(theta_i) abs(x_i) size."""
        size = float(np.sqrt((query.point**2).sum()) + np.sqrt((query.step**2).sum()))
        slopes = float(sums["values"][1]) / size if size else 0.0
        units = sums.errors["slopes"] * np.sqrt(len(query.point))
        return Noise(ARITHMETIC * EPSILON * size, ARITHMETIC * slopes + units, sums.errors.get("hessian", 0.0))


NOTHING = Noise(0.0, 0.0, 0.0)


def decrement(model: Model, noise: Noise) -> tuple[float, float]:
    """Return (upper bound of sqrt(g^T H^-1 g) at a model without a penalty, relative error of norms in H).

    With H = L L^T rounded predictions move it by at most their error in the norm of the curvatures, whose square is the
    error's times the trace of H; rounded slopes by the norm of L^-1 times theirs. Both are infinite if H is too close
    to a singular matrix, or if it is flat in a direction along which there is a slope.
    """
    inverse = inverse_factor(model.hessian)
    stretch, trace = float(np.sqrt((inverse**2).sum())), float(np.trace(model.hessian))
    error = stretch**2 * (ARITHMETIC * EPSILON * trace + noise.hessian * len(inverse))
    if not error <= SINGULAR:
        return np.inf, np.inf
    g = model.gradient[model.columns]
    if _slopes_where_flat(model.hessian, inverse, g, noise.slopes, error):
        return np.inf, np.inf
    length = float(np.sqrt(((inverse @ g) ** 2).sum()))
    added = noise.predictions * np.sqrt(trace) + noise.slopes * stretch
    return (length + float(added)) * (1.0 + error + ROUNDING), error


def _slopes_where_flat(H: Matrix, inverse: Matrix, g: Vector, noise: float, error: float) -> bool:
    """Return whether g has a slope, beyond its noise, along a direction in which H has no curvature."""
    flat = ~inverse.any(axis=1)
    if not flat.any():
        return False
    L = inverse[np.ix_(~flat, ~flat)]
    kept = L.T @ (L @ H[np.ix_(~flat, flat)])  # of which the flat columns are combinations
    slopes = np.abs(g[flat] - kept.T @ g[~flat])
    sizes = 1.0 + np.sqrt((kept**2).sum(axis=0))
    return bool((slopes > sizes * (noise + error * np.sqrt((g[~flat] ** 2).sum()))).any())


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
