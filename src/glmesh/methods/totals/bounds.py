"""Proofs of how far the objective at a point is above the optimum, from totals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.core.totals import Sums
from glmesh.kernels.model import total_slack
from glmesh.methods.totals.contribution import LEVERAGE_POWER
from glmesh.methods.totals.flat import Flat, SumOfSquares
from glmesh.methods.totals.model import Factored, NewtonModel, NewtonStep
from glmesh.methods.totals.query import Query
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.types import Flags, Matrix, Vector

ROUNDING = 1e-13  # [objective] allowance, because sums are rounded; predictions have one of their own
ROUNDED = 10.0  # [rounding] up to which an equation is taken to hold, because estimates of rounding are rough
CORRECTIONS = 4  # of a dual point at most, because each has more equations, and most need one
PROVEN = 0.5  # largest x = R lambda that is taken for a proof, because separated data have x -> 1 and sums are rounded


@dataclass(frozen=True)
class SummedLoss:
    """The loss of all nodes' rows at a trial point, and how far rounding may have moved it and its gradient."""

    value: float
    rounding: float  # by which `value` may be wrong
    noise: float  # by which an entry of the gradient may be wrong

    @staticmethod
    def of(sums: Sums) -> SummedLoss:
        """Return the loss and its rounding from the sums that answer a query, {name of a field: sum over all nodes}."""
        value = float(sums["values"][0])
        rounding, noise = sums["rounding"][:2] + sums.errors["rounding"]
        return SummedLoss(value, rounding + sums.errors["values"] + ROUNDING * value, noise + sums.errors["slopes"])


@dataclass(frozen=True)
class SummedDualPoint:
    """What sums over all nodes tell of a dual point theta, which has one entry per row of any node.

    z are the rows' predictions at the trial point, loss* is the convex conjugate of the loss.
    """

    pulls: Vector  # (d,) X^T theta
    slack: float  # sum of loss(z) + loss*(theta) - z theta at the trial point
    noise: float  # by which an entry of `pulls` may be wrong
    scatter: float  # by which an entry of `pulls` varies because predictions are rounded

    @staticmethod
    def of(sums: Sums, d: int) -> SummedDualPoint:
        """Return the dual point from the sums over all nodes that answer a query; `d` is the number of coordinates."""
        noise, scatter = sums["rounding"][2:] + sums.errors["rounding"]
        slack = sums["values"][1] * (1.0 + ROUNDING) + sums.errors["values"]
        return SummedDualPoint(sums["slopes"][d:], float(slack), float(noise + sums.errors["slopes"]), float(scatter))


@dataclass(frozen=True)
class FeasiblePoint:
    """A dual point that meets the equations which the conjugate of a penalty asks of some coordinates."""

    pulls: Vector  # (d,) X^T theta
    slack: float  # sum of loss(z) + loss*(theta) - z theta at the trial point; infinite: no such point is known
    noise: Vector  # (d,) by which each entry of `pulls` may be wrong: 0 where an equation holds


def duality_gap(penalty: ScaledPenalty, query: Query, sums: Sums, made: SumOfSquares, flat: Flat) -> float:
    """Return an upper bound of the objective at the query's trial point above the optimum; infinite if there is none.

    It is the gap to a dual point theta of all rows. Every row adds loss(z) + loss*(theta) - z theta >= 0, where z is
    its prediction, and every penalised coordinate the like for c = X^T theta. Where c must be shrunk by s into the
    domain of the penalty's conjugate, loss*(s theta) <= s loss*(theta). A coordinate without penalty asks for c = 0
    (with a bound on one side, for a sign of c), as `_feasible` explains. `made` is the Hessian, upper bound or damped
    one with which the step was made, `flat` what is known of directions in which it is flat.
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
    penalised = float(total_slack(penalty.bound_rows, there[held], -inside))
    penalised += float(point.noise[held] @ np.abs(there[held]))
    return point.slack + penalised + (1.0 - s) * max(float(sums["values"][0]) - point.slack, 0.0)


def _feasible(penalty: ScaledPenalty, dual: SummedDualPoint, made: SumOfSquares, flat: Flat) -> FeasiblePoint:
    """Return a dual point near `dual` for which c_j = 0 holds for each coordinate without a penalty, c = X^T theta.

    A coordinate whose c_j is at an end of its domain, but for rounding, has an equation as well if that can be proven:
    the penalty of a column with large numbers may be smaller than the rounding of c_j. `made` is the Hessian with which
    the step was made, `flat` what is known of directions in which it is flat.
    """
    if penalty.all_held and penalty.everywhere:
        return FeasiblePoint(dual.pulls, dual.slack, np.full(len(dual.pulls), dual.noise))
    rough = penalty.unsure(dual.pulls, ROUNDED * (dual.noise + dual.scatter))
    rough &= np.isin(np.arange(len(rough)), made.columns)
    point = _with_equations(penalty, dual, made, flat, penalty.free | rough)
    if not np.isfinite(point.slack) and rough.any():
        point = _with_equations(penalty, dual, made, flat, penalty.free)
    return point


def _with_equations(
    penalty: ScaledPenalty, dual: SummedDualPoint, made: SumOfSquares, flat: Flat, equal: Flags
) -> FeasiblePoint:
    """Return a dual point near `dual` whose c_j, on the coordinates `equal`, are at the nearest end of their domain.

    c = X^T theta, and `equal` is a mask of shape (d,). Rounding leaves r_j beside that end in `dual`. The point theta -
    diag(h) X H^-1 r has r = 0, and its sqrt(slack) is larger by at most sqrt(r.H^-1 r) (half of that square where
    losses are quadratic); H is `made`, h are the rows' curvatures. If r is more than rounding, that point may lie
    outside of the losses' domain; if H is flat in a direction in which the data is not known to be, there may be none:
    then the slack is infinite.
    """
    chosen, aims = np.flatnonzero(equal), penalty.nearest(dual.pulls)
    pulls, noise = dual.pulls, np.full(len(dual.pulls), dual.noise)
    unknown = FeasiblePoint(pulls, np.inf, noise)
    for _ in range(CORRECTIONS):
        chosen = np.union1d(chosen, np.flatnonzero(penalty.broken(pulls)))
        if not len(chosen):
            return FeasiblePoint(pulls, dual.slack, noise)
        if not np.isin(chosen, made.columns).all():
            return unknown
        factored, at = made.on(chosen), np.searchsorted(made.columns, chosen)
        r = dual.pulls[chosen] - aims[chosen]
        pulls = dual.pulls.copy()
        pulls[made.columns] -= (made.matrix[:, at] * factored.solve(r)).sum(axis=1)
        pulls[chosen] = factored.consistent(aims[chosen])
        if not penalty.broken(pulls).any():
            break
    else:
        return unknown
    rounded = bool((np.abs(r) <= ROUNDED * (dual.noise + dual.scatter)).all())
    if not rounded or not flat.trusts(factored, chosen):
        return unknown
    rho = factored.norm(r) + dual.noise * float(factored.deviations.sum())
    noise[chosen] = 0.0
    return FeasiblePoint(pulls, (np.sqrt(max(dual.slack, 0.0)) + rho) ** 2, noise)


def concordance(sums: Sums, third: float) -> float:
    """Return an upper bound of R = third * max_i sqrt(x_i^T H^-1 x_i), with which `self_concordance` proves.

    It follows from the sum over rows x_i of the 16th powers of the leverages x_i^T H^-1 x_i, which the sums have.
    `third` is c in abs(loss''') <= c loss''.
    """
    return float(third * float(sums["leverages"][0]) ** (0.5 / LEVERAGE_POWER) * (1.0 + 1e-9))


def inverse_factor(penalty: ScaledPenalty, model: NewtonModel) -> Matrix:
    """Return L^-1, shape (d, d), where L L^T is the Hessian of the objective at a model's point.

    Rows and columns of coordinates that the model's Hessian lacks are zero.
    """
    d = len(model.point)
    out = np.zeros((d, d))
    out[np.ix_(model.columns, model.columns)] = _factored(penalty, model).inverse
    return out


def _factored(penalty: ScaledPenalty, model: NewtonModel) -> Factored:
    """Return the Hessian of the objective at a model's point as a Factored, on the model's columns."""
    return Factored.of(model.hessian + np.diag(penalty.table.l2[model.columns]))


def proof(
    penalty: ScaledPenalty, model: NewtonModel, step: NewtonStep, R: float, noise: float, flat: Flat
) -> tuple[float, float] | None:
    """Return (gap, distance) at a model's point by `self_concordance`; None where its Hessian does not prove any.

    `step` is the step to the model's minimum, R the bound that `concordance` returns, `noise` is by how much an entry
    of the gradient may be wrong, and `flat` what is known of directions in which the Hessian is flat. The penalty must
    be smooth.
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
    """Return two bounds at a point: of the objective above the optimum, and of the distance to the optimum.

    The distance is in the norm of the Hessian H. `decrement` is lambda^2 = g^T H^-1 g, g the gradient. With x = R
    lambda <= 1/2 the bounds are ((1 - x) ln(1 - x) + x) / R^2 and -ln(1 - x) / R; both are infinite for larger x.
    """
    length = np.sqrt(max(decrement, 0.0))
    x = R * length if length > 0 else 0.0
    if not x <= PROVEN:
        return np.inf, np.inf
    if x < 1e-3:  # the series, rounded up
        return 0.5 * length**2 * (1.0 + 0.5 * x), length * (1.0 + x)
    return ((1.0 - x) * np.log1p(-x) + x) / R**2, -np.log1p(-x) / R
