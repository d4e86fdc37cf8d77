"""What fitted estimators say of their own certainty: standard errors, tests and intervals, from totals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from glmesh.display import Overview, table_of
from glmesh.engine.result import Result
from glmesh.errors import UnsuitablePair
from glmesh.estimators.base import NetworkEstimator
from glmesh.estimators.objective import TrainingData
from glmesh.functions import LOSSES
from glmesh.inference import Inference, Summary, Test
from glmesh.inference.hypotheses import penalised
from glmesh.methods.totals.likelihood.statistics import FitStatistics, term_names
from glmesh.problem.named import refuse_permuted
from glmesh.problem.offsets import OFFSET
from glmesh.types import Data, Matrix, Vector


class InferenceMixin(NetworkEstimator):
    """Inference of estimators that can be fitted by maximum likelihood: with a family, or Cox, and alpha=0.

    Terms are called as the features are (x0, x1, ... if they have no names), the intercept "Intercept"; it comes first.
    Arrays are in the order of the terms.
    """

    def summary(
        self, level: float = 0.95, *, vcov: str = "model", use_t: bool | None = None, exponentiate: bool = False
    ) -> Summary | Overview:
        """Return the table of coefficients, standard errors, tests that they are 0, and intervals.

        A fit without standard errors, such as one with a penalty, has an overview instead, which says why.

        Parameters
        ----------
        level : float, default 0.95
            Level of the intervals.
        vcov : {"model", "HC0", "HC1", "HC2", "HC3", "cluster"}, default "model"
            Kind of the covariance, as in `vcov`.
        use_t : bool or None, default None
            Whether Student's t takes the place of the normal distribution; None: where the dispersion is estimated, as
            in R (statsmodels' GLM has the normal distribution throughout).
        exponentiate : bool, default False
            Whether to show exp(coefficient), a ratio of odds, means or hazards.

        Returns
        -------
        Summary or Overview
            Its text is the table, or the overview; `to_frame()` gives it to pandas, indexed by term.

        Raises
        ------
        UnsuitablePair
            An option is given, but the fit has no standard errors.
        """
        check_is_fitted(self)
        if self._fit_statistics is None and (level, vcov, use_t, exponentiate) == (0.95, "model", None, False):
            return self._overview(f"No standard errors: {self._uncertain(self._first_result)}.")
        return self._inference().summary(level, vcov=vcov, use_t=use_t, exponentiate=exponentiate)

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
            coefficients fitted anew, has risen by dispersion times the squared quantile; needs all rows at hand.
        vcov : {"model", "HC0", "HC1", "HC2", "HC3", "cluster"}, default "model"
            Kind of the covariance, as in `vcov`, for Wald's intervals.
        use_t : bool or None, default None
            As in `summary`.

        Returns
        -------
        array of shape (n_terms, 2)
            Lower and upper ends.
        """
        return self._inference().conf_int(level, kind, vcov=vcov, use_t=use_t)

    def vcov(self, kind: str = "model") -> Matrix:
        """Return the covariance of the coefficients.

        Parameters
        ----------
        kind : {"model", "HC0", "HC1", "HC2", "HC3", "cluster"}, default "model"
            "model": dispersion times the inverse information. The others are sandwiches, for variances that the family
            has not: HC0, HC0 times n / (n - k), and those with leverages; "cluster" is for rows that depend on each
            other within the clusters that the fit was given.

        Returns
        -------
        array of shape (n_terms, n_terms)
            The covariance.
        """
        return self._inference().vcov(kind)

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
        values : array of shape (q,) or None, default None
            What the combinations are under the hypothesis; None: 0.
        vcov : {"model", "HC0", "HC1", "HC2", "HC3", "cluster"}, default "model"
            Kind of the covariance, as in `vcov`.
        use_f : bool or None, default None
            Whether the statistic is F rather than chi2; None: where the dispersion is estimated.

        Returns
        -------
        Test
            Statistic, degrees of freedom and p value.
        """
        return self._inference().wald_test(contrasts, values, vcov=vcov, use_f=use_f)

    def lr_test(self, smaller: Self, *, use_f: bool | None = None) -> Test:
        """Return the likelihood-ratio test of a smaller model, fitted to the same rows, against this one.

        Parameters
        ----------
        smaller : estimator
            The fitted smaller model, all of whose terms this one has, too.
        use_f : bool or None, default None
            Whether the statistic is F, as R's ``anova(test="F")``, rather than chi2; None: where the dispersion is
            estimated.

        Returns
        -------
        Test
            Statistic, degrees of freedom and p value of the hypothesis that the smaller model is true.
        """
        return self._inference().lr_test(smaller._inference(), use_f=use_f)

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
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        level : float, default 0.95
            Level of each interval.
        kind : {"mean", "new"}, default "mean"
            "mean": of the mean of y at the sample. "new": of a new y of weight 1; only for the gaussian family with the
            identity link.
        offset : array of shape (n_samples,) or None, default None
            Numbers that are added to the linear predictor; None: 0.
        use_t : bool or None, default None
            As in `summary`.

        Returns
        -------
        array of shape (n_samples, 2)
            Lower and upper ends.
        """
        refuse_permuted(X, offset, "offset", "X")
        return self._inference().predict_interval(self._samples(X), level, kind, offset=offset, use_t=use_t)

    def heterogeneity_test(self, *, use_f: bool | None = None) -> Test:
        """Return the test of the hypothesis that all nodes (sites) have the same coefficients, intercepts included.

        It is the score test of the interactions of all terms with the node, for which two numbers of each node are
        added up: no sum reveals what one node contributes.

        Parameters
        ----------
        use_f : bool or None, default None
            Whether the statistic is F rather than chi2; None: where the dispersion is estimated. For least squares F is
            Chow's test.

        Returns
        -------
        Test
            Statistic, degrees of freedom and p value.
        """
        return self._inference().heterogeneity_test(use_f=use_f)

    def vif(self) -> Vector:
        """Return the variance inflation factor of each term.

        Returns
        -------
        array of shape (n_terms,)
            1 / (1 - R_j^2) of linear regression, and its generalisation by the covariance of the coefficients for other
            families, as `vif` of R's package car; NaN for intercepts and for columns that depend on others.
        """
        return self._inference().vif()

    def _inference(self) -> Inference:
        """Return the inference of this fit; raise UnsuitablePair, which says why, if there is none."""
        check_is_fitted(self)
        result, statistics = self._first_result, self._fit_statistics
        if statistics is None:
            raise self._uncertain(result)
        outputs = statistics.fitted.outputs
        names = list(map(str, getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])))
        if len(statistics.fitted.names) > outputs * (len(names) + 1):
            names.append(OFFSET)
        named = replace(
            statistics.fitted, names=term_names(names, getattr(self, "classes_", ()) if outputs > 1 else ())
        )
        curves = None if result is None else result.curves
        rows = (self.rows_, self.rows_left_out_) if hasattr(self, "rows_") else None
        return Inference(replace(statistics, fitted=named), curves, rows)

    @property
    def _first_result(self) -> Result | None:
        """Return the result of the fit, of several classes that of the first one; None after reading a file."""
        result: Result | list[Result] | None = getattr(self, "result_", None)
        return result[0] if isinstance(result, list) else result

    @property
    def _fit_statistics(self) -> FitStatistics | None:
        """Return what totals at the end of the fit say; None: nothing."""
        statistics: FitStatistics | None = getattr(self, "_statistics", None)
        return statistics if self._first_result is None else self._first_result.statistics

    @property
    def _table(self) -> Summary | None:
        """Return the table of inference; None: this fit has none."""
        return None if self._fit_statistics is None else table_of(self._inference())

    def _uncertain(self, result: Result | None) -> UnsuitablePair:
        """Return (not raise) the error that says why this fit has no standard errors."""
        p = int(np.shape(self.coef_)[-1])
        one = TrainingData([(np.zeros((1, p)), np.zeros(1), np.ones(1))], pooled=True, split="samples")
        objective = self._objective(one)
        loss = LOSSES[objective.loss] if isinstance(objective.loss, str) else objective.loss
        if not loss.by_likelihood:
            return UnsuitablePair(
                f"standard errors are those of families, and this model was fitted with the {loss.name} loss; take "
                f"GLMRegressor(family={'binomial' if loss.classifies else 'gaussian'!r}), which is fitted without a "
                "penalty"
            )
        if objective.alpha:
            name = objective.penalty if isinstance(objective.penalty, str) else type(objective.penalty).__name__
            return penalised(f"{name}, alpha={objective.alpha:g}")
        if result is None:
            return UnsuitablePair("the file of this model has no standard errors in it; fit it again")
        return UnsuitablePair(f"the fit has not ended where standard errors are known: {result.message}")
