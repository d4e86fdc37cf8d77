"""Inference for one fit: the questions that users ask of a fitted model, answered from its totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.inference.accuracy import Accuracy
from glmesh.inference.covariance import covariance, inflation, standard_errors
from glmesh.inference.hypotheses import Test, contrast_matrix, heterogeneity_test, lr_test, refuse_penalty, wald
from glmesh.inference.intervals import checked_level, prediction_interval, two_sided_p, two_sided_quantile
from glmesh.inference.profile import Curves, profile_ends
from glmesh.inference.summary import RATIO_LINKS, Summary
from glmesh.methods.totals.likelihood.statistics import INTERCEPT, FitStatistics
from glmesh.problem.offsets import checked_offset
from glmesh.types import Data, Indices, Matrix, Vector
from glmesh.validation import one_of


@dataclass(frozen=True, eq=False)
class Inference:
    """Standard errors, tests and intervals of a model that was fitted without a penalty.

    Arrays are in the order of `terms`: of each linear predictor the intercept, which is called "Intercept" as in
    statsmodels' formulas, then the other coefficients. Terms whose columns are combinations of others are NaN.

    Parameters
    ----------
    statistics : FitStatistics
        What totals say of the fit.
    curves : function, optional
        Loss, gradient and Hessian over all rows of all nodes at several points, for profile intervals.
    rows : tuple of two int, optional
        Rows that there were, and how many of these were left out because of missing values; None: not known.

    Raises
    ------
    UnsuitablePair
        The model was fitted with a penalty.
    """

    statistics: FitStatistics
    curves: Curves | None = None
    rows: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        refuse_penalty(self.statistics.fitted)

    @property
    def terms(self) -> tuple[str, ...]:
        """Return the names of the terms, in the order of all arrays here; an offset is not among them."""
        return tuple(self.statistics.fitted.names[j] for j in self._order)

    @property
    def coef(self) -> Vector:
        """Return the coefficients, shape (n_terms,); NaN where they are aliased."""
        return self._spread(self.statistics.fitted.coef[self.statistics.fitted.free])

    def vcov(self, kind: str = "model") -> Matrix:
        """Return the covariance of the coefficients.

        Parameters
        ----------
        kind : {"model", "HC0", "HC1", "HC2", "HC3", "cluster"}, default "model"
            "model": dispersion times the inverse information; the others are sandwiches with the observed Hessian:
            HC0 to HC3 for errors of unequal variance, "cluster" for rows that depend on each other within clusters.
            HC1 is HC0 n / (n - k), also for generalised linear models, where statsmodels returns HC0 under that name.

        Returns
        -------
        array of shape (n_terms, n_terms)
            The covariance.
        """
        V = covariance(self.statistics, kind)
        out = np.full((len(self._order),) * 2, np.nan)
        places = self._places
        out[np.ix_(places, places)] = V[np.ix_(self._own, self._own)]
        return out

    def summary(
        self, level: float = 0.95, *, vcov: str = "model", use_t: bool | None = None, exponentiate: bool = False
    ) -> Summary:
        """Return the table of coefficients, standard errors, tests that they are 0, and intervals.

        Parameters
        ----------
        level : float, default 0.95
            Level of the intervals.
        vcov : str, default "model"
            Kind of the covariance, as in `vcov`.
        use_t : bool, optional
            Whether Student's t takes the place of the normal distribution, with n - k degrees of freedom, or one less
            than there are clusters. Default: where the dispersion is estimated, as in R; statsmodels' GLM has the
            normal distribution throughout.
        exponentiate : bool, default False
            Whether to show exp(coefficient), which is a ratio of odds, rates or hazards, with the standard error exp(b)
            se of the delta method and the exponentiated ends of the interval; tests stay those of the coefficients.

        Returns
        -------
        Summary
            Its text is the table; `to_frame()` gives it to pandas.
        """
        statistics = self.statistics
        family = statistics.fitted.family
        if exponentiate and family is not None and family.link not in RATIO_LINKS:
            raise UnsuitablePair(
                f"exp(coefficient) is a ratio for the links {', '.join(RATIO_LINKS)}; this model has the link "
                f"{family.link}"
            )
        V = covariance(statistics, vcov)
        errors = self._spread(standard_errors(V))
        df = self._degrees(use_t, vcov)
        coef, ends = self.coef, self.conf_int(level, vcov=vcov, use_t=use_t)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = coef / errors
        if exponentiate:
            coef, ends = np.exp(coef), np.exp(ends)
            errors = coef * errors
        return Summary(
            statistics=statistics,
            terms=self.terms,
            columns=np.column_stack([coef, errors, z, two_sided_p(z, df), ends]),
            level=level,
            vcov=vcov,
            df=df,
            exponentiated=exponentiate,
            accuracy=Accuracy.of_statistics(statistics, V, vcov),
            rows=self.rows,
        )

    def conf_int(
        self, level: float = 0.95, kind: str = "wald", *, vcov: str = "model", use_t: bool | None = None
    ) -> Matrix:
        """Return intervals of the coefficients.

        Parameters
        ----------
        level : float, default 0.95
            Probability that an interval covers the coefficient.
        kind : {"wald", "profile"}, default "wald"
            "wald": coefficient -+ quantile times standard error. "profile": where the deviance, with all other
            coefficients fitted anew, has risen by dispersion times the squared quantile; takes 3 to 6 more totals.
        vcov : str, default "model"
            Kind of the covariance, as in `vcov`, for Wald's intervals.
        use_t : bool, optional
            As in `summary`.

        Returns
        -------
        array of shape (n_terms, 2)
            Lower and upper ends; NaN where the search for a profile's end failed, as it may if the loss is not convex.
        """
        one_of(kind, "kind", ("wald", "profile"))
        quantile = two_sided_quantile(checked_level(level), self._degrees(use_t, vcov))
        if kind == "wald":
            half = quantile * self._spread(standard_errors(covariance(self.statistics, vcov)))
            return np.column_stack([self.coef - half, self.coef + half])
        if vcov != "model":
            raise InvalidInput(f"profile intervals are those of the likelihood; vcov={vcov!r} is for kind='wald'")
        if self.curves is None:
            raise UnsuitablePair(
                "profile intervals need sums over the rows at more points, and the rows are not at hand (the model "
                "was read from a file, perhaps); take kind='wald', or fit again"
            )
        ends = np.full((len(self._order), 2), np.nan)
        rise = self.statistics.dispersion * quantile**2
        if np.isfinite(rise):
            ends[self._places] = profile_ends(self.statistics, self._own, rise, self.curves)
        return ends

    def wald_test(
        self,
        contrasts: Matrix | Sequence[str] | str,
        values: ArrayLike | None = None,
        *,
        vcov: str = "model",
        use_f: bool | None = None,
    ) -> Test:
        """Return Wald's test of contrasts @ coef = values.

        Parameters
        ----------
        contrasts : array of shape (q, n_terms), str or sequence of str
            A combination of the terms in each row; or names of terms that are all 0 under the hypothesis.
        values : array of shape (q,), optional
            What the combinations are under the hypothesis; default 0.
        vcov : str, default "model"
            Kind of the covariance, as in `vcov`.
        use_f : bool, optional
            Whether the statistic is F, chi2 / q, rather than chi2. Default: where the dispersion is estimated.

        Returns
        -------
        Test
            Statistic, degrees of freedom and p value.
        """
        matrix, name = contrast_matrix(contrasts, self.terms)
        aliased = np.setdiff1d(np.arange(len(self.terms)), self._places)
        used = aliased[matrix[:, aliased].any(axis=0)]
        if len(used):
            raise UnsuitablePair(f"the data do not determine {self.terms[used[0]]}, which depends on other terms")
        wanted = np.zeros(len(matrix)) if values is None else np.atleast_1d(np.asarray(values, dtype=np.float64))
        if wanted.shape != (len(matrix),):
            raise InvalidInput(f"values have shape {wanted.shape}, expected one for each of {len(matrix)} contrasts")
        V = covariance(self.statistics, vcov)[np.ix_(self._own, self._own)]
        return wald(matrix[:, self._places], wanted, (self.coef[self._places], V), self._degrees(use_f, vcov), name)

    def lr_test(self, smaller: Inference, *, use_f: bool | None = None) -> Test:
        """Return the likelihood-ratio test of a smaller model, fitted to the same rows, against this one.

        Parameters
        ----------
        smaller : Inference
            The smaller model.
        use_f : bool, optional
            As in `glmesh.inference.lr_test`.

        Returns
        -------
        Test
            Statistic, degrees of freedom and p value.
        """
        return lr_test(smaller.statistics, self.statistics, use_f=use_f)

    def heterogeneity_test(self, *, use_f: bool | None = None) -> Test:
        """Return the test of the hypothesis that all sites have the same coefficients, from two numbers of each site.

        Parameters
        ----------
        use_f : bool, optional
            Whether the statistic is F; as in `glmesh.inference.heterogeneity_test`.

        Returns
        -------
        Test
            Statistic, degrees of freedom and p value.
        """
        return heterogeneity_test(self.statistics, use_f=use_f)

    def vif(self) -> Vector:
        """Return the variance inflation factors, shape (n_terms,): NaN for intercepts and aliased terms."""
        return self._spread(inflation(self.statistics))

    def predict_interval(
        self,
        X: Data,
        level: float = 0.95,
        kind: str = "mean",
        *,
        offset: ArrayLike | None = None,
        use_t: bool | None = None,
    ) -> Matrix:
        """Return intervals of predictions on the scale of the targets.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, p)
            Samples: a column for each term but the intercept, in the order of the coefficients.
        level : float, default 0.95
            Level of each interval.
        kind : {"mean", "new"}, default "mean"
            "mean": of the mean of y at the sample, through the inverse of the link. "new": of a new y of weight 1; only
            for the gaussian family with the identity link.
        offset : array of shape (m,), optional
            Offsets of the samples; default 0.
        use_t : bool, optional
            As in `summary`.

        Returns
        -------
        array of shape (m, 2)
            Lower and upper ends.
        """
        level = checked_level(level)
        whole = self._design(X)
        design = whole[:, self.statistics.fitted.free]
        m = len(design)
        offsets = np.zeros(m) if offset is None else checked_offset(offset, m, "offset")
        z = whole @ self.statistics.fitted.coef + offsets
        variance = np.einsum("ij,ij->i", design @ covariance(self.statistics, "model"), design)
        quantile = two_sided_quantile(level, self._degrees(use_t, "model"))
        return prediction_interval(self.statistics, z, variance, quantile, kind)

    # --- order and degrees of freedom

    @property
    def _order(self) -> Indices:
        """Return the numbers of the coefficients that are terms, intercepts before the others of their predictor."""
        fitted = self.statistics.fitted
        block = len(fitted.coef) // fitted.outputs
        order = np.roll(np.arange(len(fitted.coef)).reshape(-1, block), 1, axis=1).ravel()
        return order[~fitted.held[order]]

    @property
    def _places(self) -> Indices:
        """Return the places, among the terms, of those that were fitted."""
        return np.flatnonzero(self.statistics.fitted.free[self._order])

    @property
    def _own(self) -> Indices:
        """Return, for each place, the number of its coefficient among the k fitted ones."""
        number = np.cumsum(self.statistics.fitted.free) - 1
        own: Indices = number[self._order[self._places]]
        return own

    def _spread(self, values: Vector) -> Vector:
        """Return values of the k fitted coefficients as an array by term, NaN where a term is aliased."""
        out = np.full(len(self._order), np.nan)
        out[self._places] = values[self._own]
        return out

    def _degrees(self, use_t: bool | None, kind: str) -> int:
        """Return the degrees of freedom of Student's t; 0: the normal distribution is to be used."""
        statistics = self.statistics
        if not (statistics.dispersion_is_estimated if use_t is None else use_t):
            return 0
        degrees = statistics.clusters - 1 if kind == "cluster" else statistics.df_resid
        if degrees < 1:
            raise UnsuitablePair(
                f"{statistics.n} rows and {statistics.rank} coefficients leave no degrees of freedom for Student's t; "
                "fit fewer terms"
            )
        return degrees

    def _design(self, X: Data) -> Matrix:
        """Return the m samples with a column for each of the d coefficients, shape (m, d), 0 where they are held."""
        fitted = self.statistics.fitted
        if fitted.outputs > 1 or fitted.family is None:
            raise UnsuitablePair(
                f"the {fitted.model} model has no single mean of y; predict_interval is for families such as gaussian"
            )
        columns = np.flatnonzero(~fitted.held & ~fitted.is_intercept)
        matrix = np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != len(columns):
            raise InvalidData(
                f"X has shape {matrix.shape}, expected a column for each of the {len(columns)} terms but {INTERCEPT}"
            )
        whole = np.where(fitted.held, 0.0, np.ones((len(matrix), len(fitted.coef))))
        whole[:, columns] = matrix
        return whole
