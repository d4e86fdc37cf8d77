"""Profile-likelihood intervals: how far a coefficient can go while the others make up for it.

An end of the interval of coefficient j maximises or minimises w_j subject to P(w) <= P* + q / 2, where P is the loss,
P* its least value and q a quantile (Venzon and Moolgavkar, 1988). With gradient g, Hessian H and lambda^2 = g'H^-1 g at
w, the step to the end of the quadratic model is -H^-1 g + t H^-1 e_j, t^2 = (2 (P* - P) + q + lambda^2) / (H^-1)_jj.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from glmesh.errors import InvalidData
from glmesh.methods.totals.likelihood.statistics import FitStatistics, inverse
from glmesh.types import Indices, Matrix, Vector

Curves = Callable[[Matrix], list[tuple[float, Vector, Matrix]]]
"""At n points, shape (n, d): loss, gradient (d,) and Hessian (d, d) over all rows of all nodes; one total for all."""

ROUNDS = 60  # totals after which the search for an end is given up, because one needs 3 to 6; a convex loss has both
LAST_STEP = 1e-6  # [lengths of the first step] of the last step; what is left is about its square, 1e-12
FAR = 4.0  # times the quantile that the deviance may be above the least one at a point on the way


@dataclass(frozen=True, eq=False)
class _Search:
    """The search for one end: the last point that was accepted, and the longest step from it."""

    j: int
    sign: float
    cap: float  # [norm of H] of the next step
    point: Vector  # (k,)
    value: float
    gradient: Vector  # (k,)
    inverse: Matrix  # (k, k)
    length: float = np.inf  # of the step to `trial`
    trial: Vector = field(default_factory=lambda: np.empty(0))

    def ahead(self, least: float, quantile: float) -> _Search:
        """Return the search with its next trial point: the end of the quadratic model, or as far as the cap allows."""
        newton, column = self.inverse @ self.gradient, self.inverse[:, self.j]
        slope2 = float(self.gradient @ newton)
        left = max(2.0 * (least - self.value) + quantile + slope2, 0.0)
        t = self.sign * float(np.sqrt(left / column[self.j]))
        step = t * column - newton
        length = float(np.sqrt(max(slope2 + left - 2.0 * t * newton[self.j], 0.0)))  # in the norm of H
        if length > self.cap:
            step *= self.cap / length
        return replace(self, trial=self.point + step, length=length)


def profile_ends(statistics: FitStatistics, columns: Indices, quantile: float, curves: Curves) -> Matrix:
    """Return the ends of profile-likelihood intervals, shape (n, 2); NaN where an end is not found in ROUNDS totals.

    Parameters
    ----------
    statistics : FitStatistics
        What totals say of the fit.
    columns : array of shape (n,)
        Numbers of the coefficients among the k that were fitted.
    quantile : float
        Dispersion times the quantile of chi2 or F that the deviance may rise by.
    curves : function
        Loss, gradient and Hessian at points; all ends ask together, so each call is one total.

    Returns
    -------
    array of shape (n, 2)
        Lower and upper ends.
    """
    coef, free, H = statistics.fitted.coef, statistics.fitted.free, inverse(statistics.hessian)
    cap = 2.0 * float(np.sqrt(quantile))
    searches = [
        _Search(int(j), sign, cap, coef[free], statistics.loss, np.zeros(statistics.rank), H).ahead(
            statistics.loss, quantile
        )
        for j in columns
        for sign in (-1.0, 1.0)
    ]
    ends = np.full(len(searches), np.nan)
    active = list(range(len(searches)))
    for _ in range(ROUNDS):
        points = np.tile(coef, (len(active), 1))
        points[:, free] = [searches[e].trial for e in active]
        found = curves(points)
        for e, (value, gradient, hessian) in zip(list(active), found, strict=True):
            search = _judged(
                searches[e], statistics.loss, quantile, (value, gradient[free], hessian[np.ix_(free, free)])
            )
            searches[e] = search.ahead(statistics.loss, quantile)
            if searches[e].length <= LAST_STEP * np.sqrt(quantile):
                ends[e] = searches[e].trial[search.j]
                active.remove(e)
        if not active:
            break
    return ends.reshape(-1, 2)


def _judged(search: _Search, least: float, quantile: float, found: tuple[float, Vector, Matrix]) -> _Search:
    """Return the search at its trial point, or, where that is too far to be of use, with a shorter step."""
    value, gradient, hessian = found
    refused = replace(search, cap=min(search.cap, search.length) / 2.0)
    if not np.isfinite(value) or 2.0 * (value - least) > FAR * quantile:
        return refused
    try:
        inverted = inverse(hessian)
    except InvalidData:
        return refused
    slope2 = float(gradient @ inverted @ gradient)
    if 2.0 * (value - least) - slope2 > quantile:  # no point of the quadratic model is low enough
        return refused
    cap = min(2.0 * search.cap, 2.0 * float(np.sqrt(quantile)))
    return replace(search, point=search.trial, value=value, gradient=gradient, inverse=inverted, cap=cap)
