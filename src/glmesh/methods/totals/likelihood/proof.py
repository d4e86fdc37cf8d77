"""Proof of how far a point is from the optimum, by self-concordance, for any penalty with a term per coefficient.

At w let H be the Hessian of the objective, v the smallest vector of gradient plus subgradient of the penalty, lambda =
sqrt(v'H^-1 v), and R such that abs(D^3 f[p,p,p]) <= R (p'Hp)^(1/2) D^2 f[p,p] along every p. If x = R lambda < 1, a
unique optimum w* exists, sqrt((w* - w)'H(w* - w)) <= -ln(1 - x)/R, and the objective at w is at most ((1 - x) ln(1 - x)
+ x)/R^2 above that of w*. Along p with p'Hp = 1 the second derivative is at least exp(-R t), so the slope is at least
-lambda + (1 - exp(-R t))/R, which is positive beyond that distance: the objective rises there. x <= 1/2 is required,
because separated data has x -> 1 and sums are rounded.

Where H is flat in a direction that no penalty bends, an L1 penalty may still leave a unique optimum: on the face of
the coordinates that are not at their kink, H has an inverse, and the optimum of the face is that of all if the slopes
of the others stay inside of the penalty's on the way: slope j changes by at most sqrt(H_jj) (exp(R rho) - 1)/R.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.methods.totals.bounds import PROVEN, self_concordance
from glmesh.methods.totals.likelihood.outputs import balanced, shifts
from glmesh.methods.totals.model import Factored, NewtonModel
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.types import Flags, Indices, Vector


@dataclass(frozen=True, eq=False)
class Slack:
    """How far a point is from meeting the conditions of an optimum: v in the norm of the inverse Hessian."""

    length: float  # lambda, rounding included; infinite where the Hessian is flat
    factored: Factored  # Hessian of the objective on `columns`
    columns: Indices  # (n,) coordinates on which it was measured
    margin: Vector  # (r,) by how much the slopes of the others may change
    curvature: Vector  # (r,) their diagonal entries of the Hessian
    radius: float = np.inf  # distance within which those signs stay that slopes of others depend on

    @staticmethod
    def of(penalty: ScaledPenalty, model: NewtonModel, noise: float) -> Slack:
        """Return the slack at a model's point; `noise` is by how much an entry of the gradient may be wrong.

        It is that of all coordinates or, where the Hessian is flat, of those that are not at a kink.
        """
        everywhere = np.ones(len(model.columns), dtype=bool)
        kinks = (penalty.table.l1[model.columns] > 0) & (model.point[model.columns] == 0)
        if not kinks.any() or not shifts(penalty.table, penalty.n_outputs, model.columns):
            whole = Slack._on(penalty, model, noise, everywhere)
            if np.isfinite(whole.length) or not kinks.any():
                return whole
        return Slack._on(penalty, model, noise, ~kinks)

    @staticmethod
    def _on(penalty: ScaledPenalty, model: NewtonModel, noise: float, mask: Flags) -> Slack:
        """Return the slack on the model's columns that `mask`, shape (n,), says; the others are at their kink."""
        columns, others = model.columns[mask], model.columns[~mask]
        hessian = (model.hessian + np.diag(penalty.table.l2[model.columns]))[np.ix_(mask, mask)]
        factored = Factored.of(hessian)
        length = factored.norm(residual(penalty, model)[columns])
        length = (length + noise * float(factored.deviations.sum())) * (1.0 + factored.error)
        slopes = model.gradient[others] + penalty.table.linear[others]
        margin = penalty.table.l1[others] - np.abs(slopes) - noise
        bent = np.diagonal(model.hessian)[~mask]
        radius = np.inf
        if penalty.n_outputs > 1 and len(others):
            rows = model.point.reshape(penalty.n_outputs, -1)
            sure = balanced(penalty.table, rows)
            margin = np.where(sure.ravel()[others], np.inf, margin)
            beside = np.broadcast_to(sure.any(axis=0), rows.shape).ravel()[columns]
            with np.errstate(divide="ignore"):
                radius = float((np.abs(model.point[columns]) / factored.deviations)[beside].min(initial=np.inf))
        return Slack(length if not len(factored.dropped) else np.inf, factored, columns, margin, bent, radius)

    def holds(self, R: float, distance: float) -> bool:
        """Return whether the others stay at their kinks within a `distance` of the point, where R bounds the loss."""
        if not len(self.margin):
            return True
        if distance >= self.radius:
            return False
        grown = float(np.expm1(R * distance)) / R if R > 0 else distance
        return bool((np.sqrt(self.curvature) * grown < self.margin).all())


def residual(penalty: ScaledPenalty, model: NewtonModel) -> Vector:
    """Return the smallest vector v, shape (d,), of gradient plus subgradient of the penalty at a model's point.

    It is 0 for a coordinate that stands at a bound, or at the kink of its L1 penalty, and is held there.
    """
    table, u = penalty.table, model.point
    v = model.gradient + table.l2 * u + table.linear + table.l1 * np.sign(u)
    kink = u == 0
    v = np.where(kink, np.sign(v) * np.maximum(np.abs(v) - table.l1, 0.0), v)
    v = np.where(u <= table.lo, np.minimum(v, 0.0), v)
    return np.asarray(np.where(u >= table.hi, np.maximum(v, 0.0), v))


def proven(before: float, R: float, moved: float, after: float) -> tuple[float, float]:
    """Return bounds (gap, distance) at a point that a step has led to; infinite where nothing is proven.

    R was measured at the point before, where lambda was `before`; `moved` is the step's length in the norm of the
    Hessian there, and `after` is lambda at the point now. The Hessian falls by at most exp(R moved) along the step, so
    R grows by at most the root of that. R may hold within 2 `before` of the point before only: there the optimum is,
    and the step, if the proof holds there too.
    """
    if not (np.isfinite(R) and R * before <= PROVEN and moved <= 2.0 * before * (1.0 + 1e-9)):
        return np.inf, np.inf
    return self_concordance(after**2, R * float(np.exp(0.5 * R * moved)))
