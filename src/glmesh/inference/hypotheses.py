"""Tests of hypotheses on coefficients: Wald's, and the likelihood ratio of nested fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import chdtrc, fdtrc

from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.methods.totals.likelihood.statistics import FitStatistics, FittedModel
from glmesh.types import Matrix, Vector

SAME = 1e-9  # relative difference of sums over the same rows, which may be dealt out over other nodes
LOWER = 1e-7  # relative difference by which rounding can make a larger model's deviance the larger one


@dataclass(frozen=True)
class Test:
    """A test of a hypothesis.

    Parameters
    ----------
    name : str
        What was tested.
    statistic : float
        The statistic, which is large if the hypothesis is wrong.
    distribution : {"chi2", "F"}
        Its distribution if the hypothesis is true: chi2 with `df` degrees of freedom, or F with `df` and `df_resid`.
    df : int
        Degrees of freedom: the number of independent restrictions.
    df_resid : int
        Degrees of freedom of the denominator of F; 0 for chi2.
    p_value : float
        Probability of a statistic at least as large.

    Examples
    --------
    >>> from glmesh.inference import Test
    >>> Test.of("age = 0", 9.0, 1)
    Test(age = 0: chi2 = 9 with 1 degree of freedom, p = 0.0027)
    """

    name: str
    statistic: float
    distribution: str
    df: int
    df_resid: int
    p_value: float
    __test__ = False  # not a class of tests, whatever pytest thinks of its name

    @classmethod
    def of(cls, name: str, statistic: float, df: int, df_resid: int = 0) -> Test:
        """Return the test of a statistic: chi2 with df degrees of freedom, or F with df and df_resid > 0."""
        if df_resid:
            return cls(name, statistic, "F", df, df_resid, float(fdtrc(df, df_resid, statistic)))
        return cls(name, statistic, "chi2", df, 0, float(chdtrc(df, statistic)))

    def __repr__(self) -> str:
        degrees = f"{self.df} and {self.df_resid} degrees" if self.df_resid else f"{self.df} degree{'s'[: self.df > 1]}"
        named = f"{self.name}: {self.distribution} = {self.statistic:.6g} with {degrees} of freedom"
        return f"Test({named}, p = {self.p_value:.2g})"


def wald(contrasts: Matrix, values: Vector, fit: tuple[Vector, Matrix], df_resid: int, name: str) -> Test:
    """Return Wald's test of `contrasts` @ coef = `values`.

    Parameters
    ----------
    contrasts : array of shape (q, k)
        A linear combination of the coefficients in each row, of rank q.
    values : array of shape (q,)
        What they are under the hypothesis.
    fit : tuple
        Coefficients, shape (k,), and their covariance, shape (k, k).
    df_resid : int
        Degrees of freedom of the denominator; 0: chi2.
    name : str
        What is tested.

    Returns
    -------
    Test
        Chi2, or F where df_resid > 0: chi2 / q.
    """
    coef, covariance = fit
    off = contrasts @ coef - values
    spread = contrasts @ covariance @ contrasts.T
    scale = np.sqrt(np.diag(spread))
    q = len(contrasts)
    try:
        if not (scale > 0).all():
            raise LinAlgError
        correlation = spread / np.outer(scale, scale)
        if np.linalg.eigvalsh(correlation)[0] < 1e-12 * q:
            raise LinAlgError
        statistic = float(off / scale @ cho_solve(cho_factor(correlation), off / scale))
    except LinAlgError:
        raise InvalidInput(
            f"the {q} contrasts are not independent, or their covariance is singular (clustered covariances have a "
            "rank below the number of clusters); leave some out"
        ) from None
    return Test.of(name, statistic / q if df_resid else statistic, q, df_resid)


def contrast_matrix(contrasts: Matrix | Sequence[str] | str, terms: Sequence[str]) -> tuple[Matrix, str]:
    """Return (contrasts of shape (q, n_terms), what they say) from a matrix or from names of terms.

    Names, one or several, are those of the terms that are 0 together under the hypothesis.
    """
    if isinstance(contrasts, str):
        contrasts = [contrasts]
    if len(contrasts) and all(isinstance(one, str) for one in contrasts):
        names = [str(one) for one in contrasts]
        unknown = [name for name in names if name not in terms]
        if unknown:
            raise InvalidInput(f"no term is called {unknown[0]!r}; the terms are {', '.join(terms)}")
        return np.eye(len(terms))[[list(terms).index(name) for name in names]], " = ".join([*names, "0"])
    matrix = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
    if matrix.ndim != 2 or matrix.shape[1] != len(terms) or not len(matrix) or not np.isfinite(matrix).all():
        raise InvalidInput(
            f"contrasts have shape {matrix.shape}, expected (q, {len(terms)}), finite numbers with a column for each "
            f"of {', '.join(terms)}; or give names of terms that are all 0"
        )
    return matrix, f"{len(matrix)} contrast{'s'[: len(matrix) > 1]} of coefficients"


def lr_test(smaller: FitStatistics, larger: FitStatistics, *, use_f: bool | None = None) -> Test:
    """Return the likelihood-ratio test of a smaller model against a larger one, both fitted to the same rows.

    Parameters
    ----------
    smaller, larger : FitStatistics
        What totals say of the two fits; every term of the smaller one is in the larger one.
    use_f : bool, optional
        Whether the statistic is F: the difference of the deviances per degree of freedom, divided by the larger model's
        dispersion. Default: where the dispersion is estimated, as R's `anova(test="F")`. False: chi2, the difference of
        the deviances divided by the larger model's dispersion, as R's `anova(test="LRT")`.

    Returns
    -------
    Test
        The hypothesis is that the smaller model is true.

    Raises
    ------
    UnsuitablePair
        A fit has a penalty, or the models are not nested, or not of the same family and rows.
    """
    for statistics in (smaller, larger):
        refuse_penalty(statistics.fitted)
    _check_nested(smaller, larger)
    df = larger.rank - smaller.rank
    fall = smaller.deviance - larger.deviance
    if larger.shape_is_estimated:  # each has a theta of its own, and a deviance that belongs to it
        fall = 2.0 * (larger.log_likelihood - smaller.log_likelihood)
    drop = max(fall, 0.0) / larger.dispersion
    use_f = larger.dispersion_is_estimated if use_f is None else use_f
    gone = [name for name, free in zip(larger.fitted.names, larger.fitted.free, strict=True) if free]
    kept = {name for name, free in zip(smaller.fitted.names, smaller.fitted.free, strict=True) if free}
    name = " = ".join([*(one for one in gone if one not in kept), "0"])
    return Test.of(name, drop / df if use_f else drop, df, larger.df_resid if use_f else 0)


def heterogeneity_test(statistics: FitStatistics, *, use_f: bool | None = None) -> Test:
    """Return the test of the hypothesis that all sites have the same coefficients, intercepts included.

    Parameters
    ----------
    statistics : FitStatistics
        What totals say of the fit. The statistic needs nothing else of a site than two masked numbers.
    use_f : bool, optional
        Whether the statistic is F. Default: where the dispersion is estimated.

    Returns
    -------
    Test
        Rao's score test of the interactions of all terms with the site. With g_k the gradient and I_k the expected
        Hessian of site k's rows at the pooled estimate, sum_k g_k' I_k^-1 g_k / phi is chi2 with as many degrees of
        freedom as the ranks of the I_k add up to beyond the model's. For least squares F is Chow's test, which is
        exact; elsewhere its denominator is the dispersion that is left, (X^2 - sum_k g_k' I_k^-1 g_k) per degree.

    Raises
    ------
    UnsuitablePair
        There is one site only, sites have no more terms in common than they can be asked for, or the totals at the
        end of the fit did not bring the statistic.
    """
    refuse_penalty(statistics.fitted)
    if np.isnan(statistics.between):
        raise UnsuitablePair(
            "whether sites differ is not known: the rules of a site held its number back, since one row or few would "
            "show in it, or the file of this model is older than this test"
        )
    df = statistics.between_rank - statistics.rank
    if df < 1:
        raise UnsuitablePair(
            "there is nothing to compare: only one site has rows, or no two sites share a term that both determine"
        )
    use_f = statistics.dispersion_is_estimated if use_f is None else use_f
    name = "all sites have the same coefficients"
    if not use_f:
        return Test.of(name, statistics.between / statistics.dispersion, df)
    left = statistics.df_resid - df
    whole = statistics.pearson if statistics.dispersion_is_estimated else float(statistics.df_resid)
    spare = whole - statistics.between
    if left < 1 or not spare > 0:
        raise UnsuitablePair(
            f"{statistics.n} rows leave no degrees of freedom beside {statistics.between_rank} coefficients of all "
            "sites; take use_f=False"
        )
    return Test.of(name, statistics.between / df / (spare / left), df, left)


def refuse_penalty(fitted: FittedModel) -> None:
    """Raise UnsuitablePair, which says why there is no inference, if the model was fitted with a penalty."""
    if fitted.penalty:
        raise penalised(fitted.penalty)


def penalised(penalty: str) -> UnsuitablePair:
    """Return (not raise) the error that says why a fit with a penalty, named in words, has no inference."""
    return UnsuitablePair(
        f"this model was fitted with a penalty ({penalty}), which pulls its coefficients towards zero by an amount "
        "that is not known: estimate / standard error has no known distribution, so there are no p values, tests or "
        "intervals; fit with alpha=0 for them"
    )


def _check_nested(smaller: FitStatistics, larger: FitStatistics) -> None:
    """Raise UnsuitablePair unless the smaller model is the larger one with less terms, on the same rows."""
    small, large = smaller.fitted, larger.fitted
    kinds = [
        (one.fitted.model, None if one.shape_is_estimated else one.fitted.family, one.shape_is_estimated)
        for one in (smaller, larger)
    ]
    if kinds[0] != kinds[1] or small.outputs != large.outputs:
        raise UnsuitablePair(
            f"the models are {small.family or small.model} and {large.family or large.model}; the likelihood ratio is "
            "for two fits of the same family and link"
        )
    _check_rows(smaller, larger)
    inner, outer = ({n for n, free in zip(f.names, f.free, strict=True) if free} for f in (small, large))
    if not inner < outer:
        what = f"{', '.join(sorted(inner - outer))} is in the smaller model only" if inner - outer else "they are equal"
        raise UnsuitablePair(f"the models are not nested: {what}; the larger one must have all terms of the smaller")
    rises = smaller.deviance < larger.deviance - LOWER * max(abs(larger.deviance), 1e-300)
    if rises and not larger.shape_is_estimated:
        raise UnsuitablePair(
            f"the smaller model has the smaller deviance, {smaller.deviance:g} against {larger.deviance:g}: terms of "
            "one name are different columns in the two fits, so the models are not nested"
        )


def _check_rows(smaller: FitStatistics, larger: FitStatistics) -> None:
    """Raise UnsuitablePair if sums of weights, targets or null deviances say that two fits are not on the same rows."""
    sums = [
        np.array([one.n, one.weight, *one.targets, np.nan if one.shape_is_estimated else one.null_loss])
        for one in (smaller, larger)
    ]
    same = (np.abs(sums[0] - sums[1]) <= SAME * np.abs(sums[1])) | (np.isnan(sums[0]) & np.isnan(sums[1]))
    if not same.all():
        differs = ("number of rows", "sum of weights", "sum of y", "sum of y^2", "null deviance")[int(np.argmin(same))]
        i = int(np.argmin(same))
        raise UnsuitablePair(
            f"the fits are not on the same rows: their {differs} is {sums[0][i]:g} and {sums[1][i]:g}; fit both on the "
            "same rows (missing values drop a row from both), weights and offset"
        )
