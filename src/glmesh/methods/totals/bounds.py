"""Proofs of how far the objective at a point is above the optimum, from totals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.core.totals import Sums
from glmesh.methods.totals.contribution import LEVERAGE_POWER, Query
from glmesh.methods.totals.flat import Flat, SumOfSquares
from glmesh.methods.totals.model import Factored, NewtonModel, NewtonStep
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.types import Flags, Matrix, Vector

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


@dataclass(frozen=True)
class FeasiblePoint:
    """A dual point that meets some of the equations which a penalty's conjugate asks of it."""

    pulls: Vector  # (d,) X^T theta
    slack: float  # sum of loss(z) + loss*(theta) - z theta at the trial point; infinite: no such point is known
    noise: Vector  # (d,) by which each entry of `pulls` may be wrong: 0 where an equation holds


def duality_gap(penalty: ScaledPenalty, query: Query, sums: Sums, made: SumOfSquares, flat: Flat) -> float:
    """Return the gap between the objective at the query's trial point and a dual point of all rows.

    Every row adds loss(z) + loss*(theta) - z theta >= 0, every penalised coordinate the like for c = X^T theta. Where c
    must be shrunk by s into the domain of the penalty's conjugate, loss*(s theta) <= s loss*(theta). A coordinate
    without penalty asks for c = 0 (with a bound on one side, for a sign of c), as `_feasible` explains. `made` is
    the Hessian, upper bound or damped one with which the step was made, `flat` what is known of where it is flat.
    """
    there = penalty.moved(query.point, query.step)
    dual, held = SummedDualPoint.of(sums, len(there)), ~penalty.free
    if not dual.slack < query.cap:
        return np.inf
    point = _feasible(penalty, dual, made, flat)
    if not np.isfinite(point.slack):
        return np.inf
    s = min(1.0, penalty.margins.ray_limit(-point.pulls[held], point.noise[held]))
    if s < 0:
        return np.inf
    inside = penalty.within(s * point.pulls[held])
    penalised = float(penalty.bound.slacks(there[held], -inside).sum())
    penalised += float(point.noise[held] @ np.abs(there[held]))
    return point.slack + penalised + (1.0 - s) * max(float(sums["values"][0]) - point.slack, 0.0)


def _feasible(penalty: ScaledPenalty, dual: SummedDualPoint, made: SumOfSquares, flat: Flat) -> FeasiblePoint:
    """Return a dual point for which the equations c_j = 0 of coordinates without a penalty hold.

    A coordinate whose c_j is at an end of its domain, but for rounding, has an equation as well if that can be proven:
    the penalty of a column with large numbers may be smaller than the rounding of c_j.
    """
    rough = penalty.unsure(dual.pulls, ROUNDED * (dual.noise + dual.scatter))
    rough &= np.isin(np.arange(len(rough)), made.columns)
    point = _with_equations(penalty, dual, made, flat, penalty.free | rough)
    if not np.isfinite(point.slack) and rough.any():
        point = _with_equations(penalty, dual, made, flat, penalty.free)
    return point


def _with_equations(
    penalty: ScaledPenalty, dual: SummedDualPoint, made: SumOfSquares, flat: Flat, equal: Flags
) -> FeasiblePoint:
    """Return a dual point for which coordinates `equal`, shape (d,), have c_j at the nearest end of their domain.

    Rounding leaves r_j beside that. The point theta - diag(h) X H^-1 r has r = 0, and its sqrt(slack) is larger by at
    most sqrt(r.H^-1 r) (half of that square where losses are quadratic). If r is more than rounding, that point may lie
    outside of the losses' domain; if H is flat in a direction in which the data is not known to be, there may be none.
    """
    asked, aims = np.flatnonzero(equal), penalty.nearest(dual.pulls)
    pulls, noise = dual.pulls, np.full(len(dual.pulls), dual.noise)
    unknown = FeasiblePoint(pulls, np.inf, noise)
    for _ in range(CORRECTIONS):
        asked = np.union1d(asked, np.flatnonzero(penalty.broken(pulls)))
        if not len(asked):
            return FeasiblePoint(pulls, dual.slack, noise)
        if not np.isin(asked, made.columns).all():
            return unknown
        factored, at = made.on(asked), np.searchsorted(made.columns, asked)
        r = dual.pulls[asked] - aims[asked]
        pulls = dual.pulls.copy()
        pulls[made.columns] -= (made.matrix[:, at] * factored.solve(r)).sum(axis=1)
        pulls[asked] = factored.consistent(aims[asked])
        if not penalty.broken(pulls).any():
            break
    else:
        return unknown
    rounded = bool((np.abs(r) <= ROUNDED * (dual.noise + dual.scatter)).all())
    if not rounded or not flat.trusts(factored, asked):
        return unknown
    rho = factored.norm(r) + dual.noise * float(factored.deviations.sum())
    noise[asked] = 0.0
    return FeasiblePoint(pulls, (np.sqrt(max(dual.slack, 0.0)) + rho) ** 2, noise)


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
