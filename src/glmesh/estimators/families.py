"""Regressors of a family of distributions: their base, and those with scikit-learn's names and scaling."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidData, InvalidInput
from glmesh.estimators.clusters import clustered, of_parts, of_rows
from glmesh.estimators.inference import InferenceMixin
from glmesh.estimators.objective import Objective, TrainingData, number
from glmesh.estimators.regressor import NetworkRegressor
from glmesh.estimators.trials import shares
from glmesh.functions import Family, tweedie
from glmesh.problem.named import refuse_permuted
from glmesh.types import Data, Vector
from glmesh.validation import are_usable


class FamilyRegressor(InferenceMixin, NetworkRegressor):
    """Base of regressors whose loss may be that of a family: offsets, predictions of the mean, deviance explained."""

    @abstractmethod
    def _family(self) -> Family | None:
        """Return the family; None: the loss is none of a family."""

    def fit(
        self,
        X: Data,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        *,
        rows: str = "all",
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Learn from pooled data, dealt out over a simulated network.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,) or (n_samples, 2)
            Targets; with family="binomial" shares of successes between 0 and 1, or two columns: numbers of successes
            and of failures.
        sample_weight : array of shape (n_samples,) or None, default None
            Factors >= 0 of the samples' losses; None: 1. With a family they are prior weights, which divide the
            variance; with family="binomial" numbers of trials.
        offset : array of shape (n_samples,) or None, default None
            Numbers that are added to the linear predictor, such as the logarithm of an exposure; only with a family.
        rows : {"all", "own"}, default "all"
            With runtime="mpi": whether every rank passes all rows (they are compared) or rows of its own, which are
            put together in the order of ranks.
        clusters : array of shape (n_samples,) or None, default None
            Labels of clusters of rows that may depend on each other, for standard errors of kind "cluster".

        Returns
        -------
        self
            The fitted estimator.
        """
        numbers = of_rows(clusters, y, rows)
        with self._training(lambda: self._validated_rows(X, y, sample_weight, offset), rows) as data:
            self._fit(data)
        self.result_ = clustered(self.result_, None if numbers is None else [numbers])
        return self

    def _validated_rows(
        self, X: Data, y: ArrayLike, sample_weight: ArrayLike | None, offset: ArrayLike | None
    ) -> TrainingData:
        """Check pooled data and an offset, each of whose arrays has an entry per row; return it as TrainingData."""
        counts = y
        y, sample_weight = shares(self._family(), y, sample_weight)
        if y is not counts:
            refuse_permuted(X, counts, "y", "X")
        data = self._validated(X, y, sample_weight, y_numeric=True)
        return data if offset is None else self._offset(data, [offset])

    def _offset(self, data: TrainingData, offsets: Sequence[ArrayLike]) -> TrainingData:
        """Return `data` with an offset for each of its parts; raise InvalidData for one that does not fit."""
        if self._family() is None:
            raise InvalidInput("an offset goes with family=...; a loss alone has none")
        checked = []
        for k, (given, (X, _, _)) in enumerate(zip(offsets, data.parts, strict=True)):
            where = "" if data.pooled else f" of part {k}"
            own = np.asarray(given, dtype=np.float64)
            if own.shape != (X.shape[0],) or not are_usable(own):
                raise InvalidData(f"offset{where}: expected {X.shape[0]} finite numbers, got shape {own.shape}")
            checked.append(own)
        return replace(data, offsets=checked)

    def fit_nodes(
        self, parts: Sequence[tuple[Data, ...]], *, clusters: Sequence[ArrayLike] | str | None = None
    ) -> Self:
        """Learn from data that each node keeps to itself; only messages to neighbours leave a node.

        Parameters
        ----------
        parts : sequence of (X_k, y_k), (X_k, y_k, sample_weight_k) or (X_k, y_k, sample_weight_k, offset_k)
            Data of node k; a sample_weight_k of None is 1 for each row. Split by samples, which split="auto" always
            is, each part has its own rows; with split="features" its own columns, and all have the same y
            (coefficients come in the order of the parts). Columns of data frames go by name: split by samples they are
            put in the order of the first part, split by features no two parts may have a name in common.
        clusters : sequence of arrays of shape (m_k,), "site" or None, default None
            Labels of clusters inside of each part, for standard errors of kind "cluster"; equal labels of two parts are
            two clusters. "site": the rows of each part are one cluster.

        Returns
        -------
        self
            The fitted estimator.
        """
        numbers = of_parts(clusters, parts)
        with self._training(lambda: self._validated_nodes(parts)) as data:
            self._fit(data)
        self.result_ = clustered(self.result_, numbers)
        return self

    def _validated_nodes(self, parts: Sequence[tuple[Data, ...]]) -> TrainingData:
        """Check parts that may have an offset as a fourth entry; return them as TrainingData."""
        parts = [self._shares_of_part(k, part) for k, part in enumerate(parts)]
        longer = [isinstance(part, tuple | list) and len(part) == 4 for part in parts]
        if not any(longer):
            return self._validated_parts(parts, numeric=True)
        if not all(longer):
            raise InvalidData(
                f"part {longer.index(False)} has no offset and others have; give all of them one, or none"
            )
        data = self._validated_parts([part[:3] for part in parts], numeric=True)
        return self._offset(data, [part[3] for part in parts])

    def _shares_of_part(self, k: int, part: tuple[Data, ...]) -> tuple[Data, ...]:
        """Return part k with shares and numbers of trials, if its targets are successes and failures."""
        if not isinstance(part, tuple | list) or len(part) < 2:
            return part
        y, weight = shares(self._family(), part[1], part[2] if len(part) > 2 else None, f"part {k}: ")
        return part if y is part[1] else (part[0], y, np.asarray(weight), *part[3:])

    def _fitted_family(self) -> Family | None:
        """Return the family of the fitted model, with what was estimated of it; None: the loss is none of a family."""
        family = self._family()
        result = getattr(self, "result_", None)
        statistics = getattr(self, "_statistics", None) if result is None else result.statistics
        return family if family is None or statistics is None else statistics.fitted.family

    def predict(self, X: Data, offset: ArrayLike | None = None) -> Vector:
        """Return the expected targets: X w + b or, with a family, the mean h(X w + b + offset), h the inverse link.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        offset : array of shape (n_samples,) or None, default None
            Numbers that are added to the linear predictor; None: 0.

        Returns
        -------
        array of shape (n_samples,)
            Predictions.
        """
        family = self._family()
        z = np.asarray(self._scores(X))
        if offset is not None:
            if family is None:
                raise InvalidInput("an offset goes with family=...; a loss alone has none")
            z = z + np.asarray(offset, dtype=np.float64)
        return z if family is None else family.mean(z)

    def score(self, X: Data, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return how well predictions fit: R^2 or, with a family, the share of the deviance that is explained.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,), or (n_samples, 2) as `fit` takes it
            Targets.
        sample_weight : array of shape (n_samples,) or None, default None
            Weights of the samples; None: 1.

        Returns
        -------
        float
            1 minus the (deviance or squared) error of the predictions divided by that of the mean of y; at most 1.
        """
        family = self._fitted_family()
        if family is None:
            return float(super().score(X, y, sample_weight))
        y, sample_weight = shares(family, y, sample_weight)
        z, y = np.asarray(self._scores(X)), np.asarray(y, dtype=np.float64)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        family.check(y)
        null = family.predictor(np.full(len(y), np.average(y, weights=weight)))
        return 1.0 - family.total(y, z, weight) / family.total(y, null, weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            family = self._family()
            if family is not None:
                family.check(np.array([-1.0]))
        except InvalidData:
            tags.target_tags.positive_only = True
        except InvalidInput:  # `fit` says what is wrong with the parameters
            pass
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class _Averaged(FamilyRegressor):
    """Base of the regressors that scikit-learn has too: the mean of half the unit deviances, and an L2 penalty."""

    alpha: float = 1.0
    solver: str = "auto"
    tol_se: float = 1e-6
    warm_start: bool = False

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective: half the deviance plus alpha/2 times the sum of weights times the norm of w squared.

        The estimator's documented objective is this one divided by the sum of the sample weights.
        """
        family = self._family()
        assert family is not None
        total = data.total_weight
        if not total > 0:
            raise InvalidData("sample_weight is 0 for all rows, so that no row counts; expected one > 0")
        return Objective(
            family,
            "l2",
            number(self.alpha, "alpha") * total,
            intercept="free" if self.fit_intercept else "none",
            unit=1.0 / total,
        )


@dataclass(kw_only=True, eq=False, repr=False)
class PoissonRegressor(_Averaged):
    """Poisson regression with a log link over a network, scaled as `sklearn.linear_model.PoissonRegressor`.

    Minimises, over coefficients w and an intercept b, the mean of half the unit deviances plus a penalty ::

        1/(2 sum_i s_i) sum_i s_i deviance(y_i, h(x_i.w + b)) + alpha/2 |w|^2

    h is the inverse of the link. The intercept is not penalised.

    Parameters
    ----------
    alpha : float, default 1.0
        Factor of the penalty, >= 0; with 0 the estimate is that of maximum likelihood.
    fit_intercept : bool, default True
        Whether there is an intercept b.
    solver : str, default "auto"
        Accepted as in scikit-learn, without effect.
    tol_se : float, default 1e-6
        With alpha=0: the fit ends when each coefficient is proven to be within this many standard errors of the exact
        estimate.
    warm_start : bool, default False
        Whether `fit` begins with the variables of the last fit, if there are as many.
    n_nodes : int, default 16
        K, the number of nodes that `fit` deals the data out to; `fit_nodes` has one node per part.
    topology : str or networkx.Graph, default "ring"
        Connected communication graph; `glmesh topology list` prints the names.
    split : {"auto", "samples", "features"}, default "auto"
        What a node holds. "auto": of the splits that loss and penalty allow, the one whose messages take less time by
        the cost model of `glmesh.methods.choice`, mostly "samples"; in `fit_nodes` always "samples".
    tol : float, default 1e-6
        Stop when the duality gap is at most tol times the absolute value of the objective.
    max_rounds : int, default 10_000
        Stop after as many rounds with a ConvergenceWarning.
    max_iter : int or None, default None
        scikit-learn's name of `max_rounds`, which it overrides; None: `max_rounds` counts.
    local_passes : int or None, default None
        Passes over its data that a node makes each round; None: 2. With an odd number there is no acceleration.
    stop : {"gap", "certificate", "rounds"}, default "gap"
        "gap": the simulator measures the duality gap. "certificate": the nodes prove it by messages to neighbours.
        "rounds": do `max_rounds` rounds.
    runtime : {"simulation", "mpi"}, default "simulation"
        "mpi": the ranks of an MPI program host the nodes; every rank calls `fit`, whose `rows` says with which rows.
    random_state : int, RandomState or None, default None
        Seed of the partition of pooled data; None: 0.
    n_jobs : int or None, default None
        Number of threads; None: one per core if the data is large enough to be worth it.
    verbose : int, default 0
        Other than 0: write objective and gap to stderr every 100 rounds, and why the fit stopped.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients w.
    intercept_ : float
        Intercept b; 0.0 without.
    n_iter_ : int
        Rounds done.
    dual_gap_ : float
        Duality gap, in the scaling of the objective above.
    split_ : {"samples", "features"}
        What the nodes held.
    result_ : Result
        Status, history and estimates of the run.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Names of the features, if X had them.

    Examples
    --------
    >>> import numpy as np
    >>> import glmesh
    >>> X = np.arange(6.0)[:, None]
    >>> model = glmesh.PoissonRegressor(alpha=0.0, n_nodes=2).fit(X, [1, 2, 2, 4, 7, 9])
    >>> model.coef_.round(3), model.predict([[6.0]]).round(1)
    (array([0.434]), array([14.7]))
    """

    def _family(self) -> Family:
        """Return the Poisson family with a log link."""
        return tweedie(1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class GammaRegressor(_Averaged):
    """Gamma regression with a log link over a network, scaled as `sklearn.linear_model.GammaRegressor`.

    Minimises, over coefficients w and an intercept b, the mean of half the unit deviances plus a penalty ::

        1/(2 sum_i s_i) sum_i s_i deviance(y_i, h(x_i.w + b)) + alpha/2 |w|^2

    h is the inverse of the link. The intercept is not penalised.

    Parameters
    ----------
    alpha : float, default 1.0
        Factor of the penalty, >= 0; with 0 the estimate is that of maximum likelihood.
    fit_intercept : bool, default True
        Whether there is an intercept b.
    solver : str, default "auto"
        Accepted as in scikit-learn, without effect.
    tol_se : float, default 1e-6
        With alpha=0: the fit ends when each coefficient is proven to be within this many standard errors of the exact
        estimate.
    warm_start : bool, default False
        Whether `fit` begins with the variables of the last fit, if there are as many.
    n_nodes : int, default 16
        K, the number of nodes that `fit` deals the data out to; `fit_nodes` has one node per part.
    topology : str or networkx.Graph, default "ring"
        Connected communication graph; `glmesh topology list` prints the names.
    split : {"auto", "samples", "features"}, default "auto"
        What a node holds. "auto": of the splits that loss and penalty allow, the one whose messages take less time by
        the cost model of `glmesh.methods.choice`, mostly "samples"; in `fit_nodes` always "samples".
    tol : float, default 1e-6
        Stop when the duality gap is at most tol times the absolute value of the objective.
    max_rounds : int, default 10_000
        Stop after as many rounds with a ConvergenceWarning.
    max_iter : int or None, default None
        scikit-learn's name of `max_rounds`, which it overrides; None: `max_rounds` counts.
    local_passes : int or None, default None
        Passes over its data that a node makes each round; None: 2. With an odd number there is no acceleration.
    stop : {"gap", "certificate", "rounds"}, default "gap"
        "gap": the simulator measures the duality gap. "certificate": the nodes prove it by messages to neighbours.
        "rounds": do `max_rounds` rounds.
    runtime : {"simulation", "mpi"}, default "simulation"
        "mpi": the ranks of an MPI program host the nodes; every rank calls `fit`, whose `rows` says with which rows.
    random_state : int, RandomState or None, default None
        Seed of the partition of pooled data; None: 0.
    n_jobs : int or None, default None
        Number of threads; None: one per core if the data is large enough to be worth it.
    verbose : int, default 0
        Other than 0: write objective and gap to stderr every 100 rounds, and why the fit stopped.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients w.
    intercept_ : float
        Intercept b; 0.0 without.
    n_iter_ : int
        Rounds done.
    dual_gap_ : float
        Duality gap, in the scaling of the objective above.
    split_ : {"samples", "features"}
        What the nodes held.
    result_ : Result
        Status, history and estimates of the run.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Names of the features, if X had them.

    Examples
    --------
    >>> import numpy as np
    >>> import glmesh
    >>> X = np.arange(6.0)[:, None]
    >>> model = glmesh.GammaRegressor(alpha=0.0, n_nodes=2).fit(X, [1.0, 2.0, 2.0, 4.0, 7.0, 9.0])
    >>> model.coef_.round(3)
    array([0.439])
    """

    def _family(self) -> Family:
        """Return the gamma family with a log link."""
        return tweedie(2.0)


@dataclass(kw_only=True, eq=False, repr=False)
class TweedieRegressor(_Averaged):
    """Tweedie regression over a network, scaled as `sklearn.linear_model.TweedieRegressor`.

    Minimises, over coefficients w and an intercept b, the mean of half the unit deviances plus a penalty ::

        1/(2 sum_i s_i) sum_i s_i deviance(y_i, h(x_i.w + b)) + alpha/2 |w|^2

    h is the inverse of the link. The intercept is not penalised.

    Parameters
    ----------
    power : float, default 0.0
        Power of the variance: 0 is Gaussian, 1 Poisson, between 1 and 2 Tweedie, 2 gamma, 3 inverse Gaussian.
    link : {"auto", "identity", "log"}, default "auto"
        "auto": "identity" for power 0, else "log".
    alpha : float, default 1.0
        Factor of the penalty, >= 0; with 0 the estimate is that of maximum likelihood.
    fit_intercept : bool, default True
        Whether there is an intercept b.
    solver : str, default "auto"
        Accepted as in scikit-learn, without effect.
    tol_se : float, default 1e-6
        With alpha=0: the fit ends when each coefficient is proven to be within this many standard errors of the exact
        estimate.
    warm_start : bool, default False
        Whether `fit` begins with the variables of the last fit, if there are as many.
    n_nodes : int, default 16
        K, the number of nodes that `fit` deals the data out to; `fit_nodes` has one node per part.
    topology : str or networkx.Graph, default "ring"
        Connected communication graph; `glmesh topology list` prints the names.
    split : {"auto", "samples", "features"}, default "auto"
        What a node holds. "auto": of the splits that loss and penalty allow, the one whose messages take less time by
        the cost model of `glmesh.methods.choice`, mostly "samples"; in `fit_nodes` always "samples".
    tol : float, default 1e-6
        Stop when the duality gap is at most tol times the absolute value of the objective.
    max_rounds : int, default 10_000
        Stop after as many rounds with a ConvergenceWarning.
    max_iter : int or None, default None
        scikit-learn's name of `max_rounds`, which it overrides; None: `max_rounds` counts.
    local_passes : int or None, default None
        Passes over its data that a node makes each round; None: 2. With an odd number there is no acceleration.
    stop : {"gap", "certificate", "rounds"}, default "gap"
        "gap": the simulator measures the duality gap. "certificate": the nodes prove it by messages to neighbours.
        "rounds": do `max_rounds` rounds.
    runtime : {"simulation", "mpi"}, default "simulation"
        "mpi": the ranks of an MPI program host the nodes; every rank calls `fit`, whose `rows` says with which rows.
    random_state : int, RandomState or None, default None
        Seed of the partition of pooled data; None: 0.
    n_jobs : int or None, default None
        Number of threads; None: one per core if the data is large enough to be worth it.
    verbose : int, default 0
        Other than 0: write objective and gap to stderr every 100 rounds, and why the fit stopped.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients w.
    intercept_ : float
        Intercept b; 0.0 without.
    n_iter_ : int
        Rounds done.
    dual_gap_ : float
        Duality gap, in the scaling of the objective above.
    split_ : {"samples", "features"}
        What the nodes held.
    result_ : Result
        Status, history and estimates of the run.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Names of the features, if X had them.

    Examples
    --------
    >>> import numpy as np
    >>> import glmesh
    >>> X = np.arange(6.0)[:, None]
    >>> model = glmesh.TweedieRegressor(power=1.5, alpha=0.0, n_nodes=2).fit(X, [0.0, 2.0, 2.0, 4.0, 7.0, 9.0])
    >>> model.coef_.round(3)
    array([0.564])
    """

    power: float = 0.0
    link: str = "auto"

    def _family(self) -> Family:
        """Return the family of the power with the link."""
        if self.link not in ("auto", "identity", "log"):
            raise InvalidInput(f"link must be 'auto', 'identity' or 'log', got {self.link!r}")
        chosen = ("identity" if self.power == 0 else "log") if self.link == "auto" else self.link
        return tweedie(number(self.power, "power"), chosen)
