"""Regressors: their common base, support vector regression, and one for every regression loss of the catalogue."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from glmesh.engine.solve import solve
from glmesh.errors import InvalidInput
from glmesh.estimators.base import NetworkEstimator, run_options, variables_of
from glmesh.estimators.objective import Objective, TrainingData, catalogue_objective, elastic_net, number
from glmesh.functions import EpsilonInsensitiveLoss, Loss, Separable, SquaredEpsilonInsensitiveLoss
from glmesh.types import Data, Vector


class NetworkRegressor(RegressorMixin, NetworkEstimator):  # type: ignore[misc]
    """Base class of all regressors: one linear function X w + b, which `predict` returns."""

    def fit(self, X: Data, y: ArrayLike, sample_weight: ArrayLike | None = None, *, rows: str = "all") -> Self:
        """Learn from pooled data, dealt out over a simulated network.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,)
            Targets.
        sample_weight : array of shape (n_samples,) or None, default None
            Factors >= 0 of the samples' losses; None: 1.
        rows : {"all", "own"}, default "all"
            With runtime="mpi": whether every rank passes all rows (they are compared) or rows of its own, which are
            put together in the order of ranks.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._training(lambda: self._validated(X, y, sample_weight, y_numeric=True), rows) as data:
            return self._fit(data)

    def fit_nodes(self, parts: Sequence[tuple[Data, ...]]) -> Self:
        """Learn from data that each node keeps to itself; only messages to neighbours leave a node.

        Parameters
        ----------
        parts : sequence of (X_k, y_k) or (X_k, y_k, sample_weight_k)
            Data of node k. Split by samples, which split="auto" always is, each part has its own rows; with
            split="features" its own columns, and all have the same y (coefficients come in the order of the parts).
            Columns of data frames go by name: split by samples they are put in the order of the first part, split by
            features no two parts may have a name in common.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._training(lambda: self._validated_parts(parts, numeric=True)) as data:
            return self._fit(data)

    def _fit(self, data: TrainingData) -> Self:
        """Solve the problem on checked data, set the fitted attributes (coef_, intercept_, ...), and return self."""
        objective = self._objective(data)
        start = self._start(data.n_variables(objective))
        report = self._report if self.verbose else None
        result = solve(data.problem(objective), warm_start=start, callback=report, **run_options(self, data, objective))
        self._tell([result], data.split)
        self.result_, self.split_ = result, data.split
        self.coef_, self.intercept_ = self._coefficients(result, objective)
        self.n_iter_ = max(result.rounds, 1)
        self.dual_gap_ = objective.unit * result.gap
        self._unit, self._variables = objective.unit, [variables_of(result, objective)]
        return self

    def predict(self, X: Data) -> Vector:
        """Return X w + b.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples,)
            Predictions.
        """
        return np.asarray(self._scores(X))


@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVR(NetworkRegressor):
    """Linear support vector regression over a network, scaled as `sklearn.svm.LinearSVR`.

    Minimises, over coefficients w and an intercept b ::

        C sum_i s_i loss(y_i, x_i.w + b) + 1/2 |w|^2 + 1/2 (b / intercept_scaling)^2

    Both losses are split by samples only.

    Parameters
    ----------
    epsilon : float, default 0.0
        Errors up to epsilon cost nothing.
    C : float, default 1.0
        Factor of the losses, > 0; the larger, the less is penalised.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default "epsilon_insensitive"
        max(0, abs(error) - epsilon), or its square.
    fit_intercept : bool, default True
        Whether there is an intercept b; as in scikit-learn, it is penalised.
    intercept_scaling : float, default 1.0
        Value of the constant feature whose coefficient makes the intercept; the larger, the less b is penalised.
    dual : bool or str, default "auto"
        Accepted as in scikit-learn, without effect.
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
    >>> X = np.linspace(-1, 1, 21)[:, None]
    >>> model = glmesh.LinearSVR(C=10.0, n_nodes=3).fit(X, 2 * X[:, 0])
    >>> model.coef_.round(2), model.split_
    (array([2.]), 'samples')
    """

    epsilon: float = 0.0
    C: float = 1.0
    loss: str = "epsilon_insensitive"
    intercept_scaling: float = 1.0
    dual: bool | str = "auto"

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective: C times the (squared) epsilon-insensitive losses plus half the squared norm of (w, b).

        w are the coefficients, b is the intercept, which is penalised like them.
        """
        losses = {
            "epsilon_insensitive": EpsilonInsensitiveLoss,
            "squared_epsilon_insensitive": SquaredEpsilonInsensitiveLoss,
        }
        if self.loss not in losses:
            raise InvalidInput(f"loss must be {' or '.join(map(repr, losses))}, got {self.loss!r}")
        return Objective(
            losses[self.loss](number(self.epsilon, "epsilon")),
            elastic_net(0.0),
            1.0,
            weight=number(self.C, "C", positive=True),
            intercept="penalised" if self.fit_intercept else "none",
            intercept_scaling=number(self.intercept_scaling, "intercept_scaling", positive=True),
        )


@dataclass(kw_only=True, eq=False, repr=False)
class GLMRegressor(NetworkRegressor):
    """Generalised linear regression over a network, with any regression loss and penalty of `glmesh.functions`.

    Minimises, over coefficients w and an intercept b ::

        sum_i s_i loss(y_i, x_i.w + b) + alpha penalty(w)

    Losses are summed over the samples, not averaged.

    Parameters
    ----------
    loss : str or Loss, default "squared"
        "squared" (half the square), "huber", "epsilon_insensitive", "squared_epsilon_insensitive", "quantile", or a
        `Loss` with a parameter of its own, for instance `glmesh.functions.HuberLoss(delta=1.0)`.
    penalty : {"l2", "l1", "elasticnet"} or Separable, default "l2"
        "l2" is half the squared norm; a `Separable` is for instance `GroupLasso(groups)`, `NonNegative()` or
        `L2(lo=-1, hi=1)` of `glmesh.functions`.
    alpha : float, default 1.0
        Factor of the penalty, >= 0.
    l1_ratio : float or None, default None
        Share of "l1" in "elasticnet"; None: 0.5 there. Refused with any other penalty.
    fit_intercept : bool, default True
        Whether there is an intercept b; it is not penalised.
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
    >>> X = np.linspace(-1, 1, 21)[:, None]
    >>> y = 3 * X[:, 0] + 1
    >>> y[20] = 100.0  # an outlier
    >>> model = glmesh.GLMRegressor("huber", alpha=1e-3, n_nodes=3).fit(X, y)
    >>> bool(abs(model.coef_[0] - 3) < 0.5)
    True
    """

    loss: str | Loss = field(default="squared", kw_only=False)
    penalty: str | Separable = field(default="l2", kw_only=False)
    alpha: float = 1.0
    l1_ratio: float | None = None
    warm_start: bool = False

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective: the losses plus alpha times the penalty; the intercept is not penalised.

        Raise InvalidInput for a loss that is not for regression.
        """
        penalty, intercept = (self.penalty, self.alpha, self.l1_ratio), self.fit_intercept
        return catalogue_objective(self.loss, *penalty, fit_intercept=intercept, classifies=False)
