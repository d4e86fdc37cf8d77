"""Quantiles, p values and intervals by Wald's approximation, of coefficients and of predictions."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from glmesh.errors import UnsuitablePair
from glmesh.functions.family import Family
from glmesh.methods.totals.likelihood.statistics import FitStatistics
from glmesh.types import Matrix, Vector
from glmesh.validation import number_in, one_of


def checked_level(level: float) -> float:
    """Return the level of an interval; raise InvalidInput unless it is between 0 and 1, both excluded."""
    return number_in(level, "level", "between 0 and 1", lambda number: 0 < number < 1)


def two_sided_quantile(level: float, df: int) -> float:
    """Return the number that a standard normal variable exceeds in size with probability 1 - level.

    With df > 0 the variable is Student's t with that many degrees of freedom.
    """
    below = (1.0 - level) / 2.0
    return -float(stdtrit(df, below) if df else ndtri(below))


def two_sided_p(z: Vector, df: int) -> Vector:
    """Return the probabilities that a normal variable, or with df > 0 Student's t, is larger in size than z."""
    p: Vector = 2.0 * (stdtr(df, -np.abs(z)) if df else ndtr(-np.abs(z)))
    return p


def prediction_interval(statistics: FitStatistics, z: Vector, variance: Vector, quantile: float, kind: str) -> Matrix:
    """Return lower and upper ends of intervals on the scale of the targets, shape (m, 2).

    Parameters
    ----------
    statistics : FitStatistics
        What totals say of the fit.
    z, variance : array of shape (m,)
        Linear predictors, offset included, and their variances.
    quantile : float
        Of the normal or t distribution.
    kind : {"mean", "new"}
        "mean": of the mean of y, the ends of the interval of the linear predictor through the inverse of the link, as
        statsmodels does. "new": of a new y of weight 1, exact for least squares; other models refuse it.

    Returns
    -------
    array of shape (m, 2)
        The ends; infinite where the interval reaches out of what the link can give.
    """
    one_of(kind, "kind", ("mean", "new"))
    family = statistics.fitted.family
    if family is None:
        raise UnsuitablePair(
            f"the {statistics.fitted.model} model has no single mean of y; predict_interval is for families "
            "such as gaussian"
        )
    if kind == "new":
        if not statistics.is_least_squares:
            raise UnsuitablePair(
                f"kind='new' is exact for the gaussian family with the identity link, and this is {family!r}, whose "
                "new observations are not normal around an estimated mean; take kind='mean' for their mean"
            )
        variance = variance + statistics.dispersion
    half = quantile * np.sqrt(variance)
    ends = np.stack([_mean(family, z - half), _mean(family, z + half)], axis=1)
    return np.sort(ends, axis=1)


def _mean(family: Family, z: Vector) -> Vector:
    """Return the mean at z; infinity out of the domain of the link, where the mean grows without bound towards it."""
    inside = family.inside(z)
    return np.where(inside, family.mean(np.where(inside, z, 1.0)), np.inf)
