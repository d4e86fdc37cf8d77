"""Covariances of the k fitted coefficients, and what is read from them; bread is the inverse observed Hessian."""

from __future__ import annotations

import numpy as np

from glmesh.errors import UnsuitablePair
from glmesh.methods.totals.likelihood.statistics import HELD_BACK, FitStatistics, inverse
from glmesh.types import Matrix, Vector
from glmesh.validation import one_of

KINDS = ("model", "HC0", "HC1", "HC2", "HC3", "cluster")


def covariance(statistics: FitStatistics, kind: str) -> Matrix:
    """Return the covariance of the k fitted coefficients, shape (k, k).

    Parameters
    ----------
    statistics : FitStatistics
        What totals say of the fit.
    kind : {"model", "HC0", "HC1", "HC2", "HC3", "cluster"}
        "model": dispersion times the inverse expected information. The others are sandwiches H^-1 M H^-1 with the
        observed Hessian H, as in statsmodels: HC0 with M = sum s_i s_i' over the rows' scores; HC1 that times n / (n -
        k); HC2 and HC3 with residuals divided by sqrt(1 - h_i) and 1 - h_i, where leverages h_i have the observed
        curvatures; cluster with the clusters' sums of scores, times G / (G - 1) (n - 1) / (n - k).

    Returns
    -------
    array of shape (k, k)
        The covariance; NaN if there are no residual degrees of freedom to estimate a dispersion from.

    Raises
    ------
    InvalidInput
        The kind is not known.
    UnsuitablePair
        The model, or what was summed, has not what the kind needs.
    """
    one_of(kind, "kind", KINDS)
    if kind == "model":
        return statistics.dispersion * inverse(statistics.information)
    meat = statistics.meats.get("HC0" if kind == "HC1" else kind)
    if meat is None:
        raise UnsuitablePair(_lacking(statistics, kind))
    if kind in ("HC2", "HC3") and statistics.full:
        raise UnsuitablePair(
            f"kind={kind!r} divides by 1 - leverage, which is 0 at {statistics.full} rows (a coefficient that one row "
            "determines alone); take kind='HC1', or leave out such columns"
        )
    bread = inverse(statistics.hessian)
    sandwich: Matrix = bread @ meat @ bread
    if kind == "HC1":
        return sandwich * _ratio(statistics.n, statistics.df_resid)
    if kind == "cluster":
        G = statistics.clusters
        if G < 2:
            raise UnsuitablePair(f"kind='cluster' needs at least 2 clusters, got {G}; take kind='HC1'")
        return sandwich * (G / (G - 1.0)) * _ratio(statistics.n - 1.0, statistics.df_resid)
    return sandwich


def standard_errors(covariance: Matrix) -> Vector:
    """Return the square roots of the diagonal of a covariance, shape (k,)."""
    return np.sqrt(np.diag(covariance))


def inflation(statistics: FitStatistics) -> Vector:
    """Return the variance inflation factor of each fitted coefficient, shape (k,), NaN for intercepts.

    It is V_jj (V^-1)_jj, where V is the model's covariance of all coefficients but the intercept: 1 / (1 - R_j^2) of
    linear regression, and what `vif` of R's package car says of generalised linear models.
    """
    others = np.flatnonzero(~statistics.fitted.is_intercept[statistics.fitted.free])
    out = np.full(statistics.rank, np.nan)
    V = inverse(statistics.information)[np.ix_(others, others)]
    out[others] = np.diag(V) * np.diag(inverse(V))
    return out


def _ratio(above: float, below: float) -> float:
    """Return above / below; NaN if there are no degrees of freedom below."""
    return above / below if below > 0 else np.nan


def _lacking(statistics: FitStatistics, kind: str) -> str:
    """Return a sentence for an error message: what a fit lacks for the covariance `kind`, and which kind it has.

    `kind` is one of "HC0" to "HC3" and "cluster", and the fit cannot give it.
    """
    if kind == "cluster" and statistics.clusters == HELD_BACK:
        return (
            "the sums for kind='cluster' were not made, because few clusters of some site would have shown; take "
            "'model' or 'HC1'"
        )
    if kind == "cluster":
        return "no clusters were named when the model was fitted; fit with clusters, or take kind='HC1'"
    if statistics.fitted.family is None:
        return (
            f"kind={kind!r} needs a leverage of each row, which the {statistics.fitted.model} model has not; take 'HC1'"
        )
    if "HC0" not in statistics.meats:
        return f"the sums for kind={kind!r} were not made, because few rows of some site would have shown; take 'model'"
    return f"the sums for kind={kind!r} were not made when the model was fitted; take 'HC1'"
