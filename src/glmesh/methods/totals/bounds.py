"""Proofs of how far the objective at a point is above the optimum, from totals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.core.totals import Sums
from glmesh.methods.totals.contribution import LEVERAGE_POWER, Query
from glmesh.methods.totals.flat import Flat, SumOfSquares
from glmesh.methods.totals.model import Factored, NewtonModel, NewtonStep
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.types import Matrix, Vector

ROUNDING = 1e-13  # [objective] allowance, because sums are rounded; predictions have one of their own
ROUNDED = 10.0  # [rounding] up to which an equation is taken to hold, because estimates of rounding are rough
CORRECTIONS = 4  # of a dual point at most, because each has more equations, and most need one
PROVEN = 0.5  # largest x = R lambda that is taken for a proof, because separated data have x -> 1 and sums are rounded


@dataclass(frozen=True)
class SummedLoss:
    """Loss at a trial point and what is known of its rounding."""

    value: float
    rounding: float  # by which `value` may be wrong
    noise: float  # by which an entry of the gradient may be wrong

    @staticmethod
    def of(sums: Sums) -> SummedLoss:
        """Return the loss that the sums of a query tell."""
        value = float(sums["values"][0])
        rounding, noise = sums["rounding"][:2] + sums.errors["rounding"]
        return SummedLoss(value, rounding + sums.errors["values"] + ROUNDING * value, noise + sums.errors["slopes"])


@dataclass(frozen=True)
class SummedDualPoint:
    """A dual point of all rows, theta, as sums tell it."""

    pulls: Vector  # (d,) X^T theta
    slack: float  # sum of loss(z) + loss*(theta) - z theta at the trial point
    noise: float  # by which an entry of `pulls` may be wrong
    scatter: float  # by which an entry of `pulls` varies because predictions are rounded

    @staticmethod
    def of(sums: Sums, d: int) -> SummedDualPoint:
        """Return the dual point that the sums of a query tell, for d coordinates."""
        noise, scatter = sums["rounding"][2:] + sums.errors["rounding"]
        slack = sums["values"][1] * (1.0 + ROUNDING) + sums.errors["values"]
        return SummedDualPoint(sums["slopes"][d:], float(slack), float(noise + sums.errors["slopes"]), float(scatter))


def duality_gap(penalty: ScaledPenalty, query: Query, sums: Sums, made: SumOfSquares, flat: Flat) -> float:
    """Return the gap between the objective at the query's trial point and a dual point of all rows.

    Every row adds loss(z) + loss*(theta) - z theta >= 0, every penalised coordinate the like for c = X^T theta. Where c
    must be shrunk by s into the domain of the penalty's conjugate, loss*(s theta) <= s loss*(theta). A coordinate
    without penalty asks for c = 0 (with a bound on one side, for a sign of c), as `_open_equations` explains. `made` is
    the Hessian, upper bound or damped one with which the step was made, `flat` what is known of where it is flat.
    """
    there = penalty.moved(query.point, query.step)
    dual, held = SummedDualPoint.of(sums, len(there)), ~penalty.free
    if not dual.slack < query.cap:
        return np.inf
    pulls, slack = _open_equations(penalty, dual, made, flat)
    if not np.isfinite(slack):
        return np.inf
    s = min(1.0, penalty.margins.ray_limit(-pulls[held], np.zeros(())))
    if s < 0:
        return np.inf
    inside = penalty.within(s * pulls[held])
    penalised = float(penalty.bound.slacks(there[held], -inside).sum())
    return slack + penalised + (1.0 - s) * max(float(sums["values"][0]) - slack, 0.0)


def _open_equations(
    penalty: ScaledPenalty, dual: SummedDualPoint, made: SumOfSquares, flat: Flat
) -> tuple[Vector, float]:
    """Return (pulls, slack) of a dual point for which the equations c_j = 0 hold; an infinite slack if none is known.

    Rounding leaves r_j = c_j. The point theta - diag(h) X H^-1 r has r = 0, and its sqrt(slack) is larger by at most
    sqrt(r.H^-1 r) (half of that square where losses are quadratic). If r is more than rounding, that point may lie
    outside of the losses' domain; if H is flat in a direction in which the data is not known to be, there may be none.
    """
    asked = np.flatnonzero(penalty.free)
    pulls = dual.pulls
    for _ in range(CORRECTIONS):
        asked = np.union1d(asked, np.flatnonzero(penalty.broken(pulls)))
        if not len(asked):
            return pulls, dual.slack
        if not np.isin(asked, made.columns).all():
            return pulls, np.inf
        factored, at = made.on(asked), np.searchsorted(made.columns, asked)
        r = dual.pulls[asked]
        pulls = dual.pulls.copy()
        pulls[made.columns] -= (made.matrix[:, at] * factored.solve(r)).sum(axis=1)
        pulls[asked] = 0.0
        if not penalty.broken(pulls).any():
            break
    else:
        return pulls, np.inf
    rounded = bool((np.abs(r) <= ROUNDED * (dual.noise + dual.scatter)).all())
    if rounded and flat.trusts(factored, asked):
        rho = factored.norm(r) + dual.noise * float(factored.deviations.sum())
        return pulls, (np.sqrt(max(dual.slack, 0.0)) + rho) ** 2
    return pulls, np.inf


def concordance(sums: Sums, third: float) -> float:
    """Return an upper bound of R = c max_i sqrt(x_i^T H^-1 x_i) from the sum of the 16th powers of the leverages."""
    return float(third * float(sums["leverages"][0]) ** (0.5 / LEVERAGE_POWER) * (1.0 + 1e-9))


def inverse_factor(penalty: ScaledPenalty, model: NewtonModel) -> Matrix:
    """Return L^-1 of the Hessian at a model's point, zero in the rows and columns that it lacks, shape (d, d)."""
    d = len(model.point)
    out = np.zeros((d, d))
    out[np.ix_(model.columns, model.columns)] = _factored(penalty, model).inverse
    return out


def _factored(penalty: ScaledPenalty, model: NewtonModel) -> Factored:
    """Return the Hessian of the objective at a model's point, on the model's columns, factored."""
    return Factored.of(model.hessian + np.diag(penalty.table.l2[model.columns]))


def proof(
    penalty: ScaledPenalty, model: NewtonModel, step: NewtonStep, R: float, noise: float, flat: Flat
) -> tuple[float, float] | None:
    """Return the bounds of `self_concordance` at a model's point; None where its Hessian does not prove any.

    The penalty is smooth, `noise` is by how much an entry of the gradient may be wrong, and `flat` what is known of
    directions in which the Hessian is flat.
    """
    if model.majorant or len(model.columns) < len(penalty.movable):
        return None
    length = np.sqrt(max(step.decrement, 0.0))
    if not np.isfinite(R) or R * length > PROVEN:
        return None
    factored = _factored(penalty, model)
    if not flat.trusts(factored, model.columns):
        return None
    length += noise * float(factored.deviations.sum())
    length *= 1.0 + factored.error
    return self_concordance(length**2, R)


def self_concordance(decrement: float, R: float) -> tuple[float, float]:
    """Return (bound of the objective above the optimum, bound of the distance to the optimum in the Hessian's norm).

    `decrement` is lambda^2 = g^T H^-1 g. With x = R lambda <= 1/2 they are ((1 - x) ln(1 - x) + x) / R^2 and
    -ln(1 - x) / R; both infinite for larger x.
    """
    length = np.sqrt(max(decrement, 0.0))
    x = R * length if length > 0 else 0.0
    if not x <= PROVEN:
        return np.inf, np.inf
    if x < 1e-3:  # the series, rounded up
        return 0.5 * length**2 * (1.0 + 0.5 * x), length * (1.0 + x)
    return ((1.0 - x) * np.log1p(-x) + x) / R**2, -np.log1p(-x) / R
