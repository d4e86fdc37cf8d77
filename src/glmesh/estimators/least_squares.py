"""Regressors with a squared loss: Ridge, Lasso and the elastic net."""

from dataclasses import dataclass, field

from glmesh.estimators.objective import Objective, TrainingData, elastic_net, number
from glmesh.estimators.regression import NetworkRegressor


@dataclass(kw_only=True, eq=False, repr=False)
class Ridge(NetworkRegressor):
    """Ridge regression over a network, scaled as `sklearn.linear_model.Ridge`.

    Minimises, over coefficients w and an intercept b ::

        |y - Xw - b|^2 + alpha |w|^2

    for one target per sample.

    Parameters
    ----------
    alpha : float, default 1.0
        Factor of the penalty, >= 0; split by samples > 0.
    fit_intercept : bool, default True
        Whether there is an intercept b; it is not penalised.
    copy_X : bool, default True
        Accepted as in scikit-learn, without effect: X is never changed.
    solver : str, default "auto"
        Accepted as in scikit-learn, without effect.
    positive : bool, default False
        Whether coefficients must be >= 0.
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
    >>> import glmesh
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = glmesh.Ridge(alpha=0.1, n_nodes=4).fit(X, y)
    >>> round(model.score(X, y), 2), model.split_
    (0.51, 'samples')
    """

    alpha: float = field(default=1.0, kw_only=False)
    copy_X: bool = True
    solver: str = "auto"
    positive: bool = False

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective to solve, half of Ridge's own: half the squared errors plus alpha/2 times norm(w)^2."""
        penalty, alpha = elastic_net(0.0, positive=self.positive), number(self.alpha, "alpha")
        return Objective("squared", penalty, alpha, intercept="free" if self.fit_intercept else "none", unit=2.0)


@dataclass(kw_only=True, eq=False, repr=False)
class ElasticNetRegressor(NetworkRegressor):
    """Base class of ElasticNet, Lasso and their variants with cross-validation.

    The fields are parameters that all of them have; each documents them for itself.
    """

    precompute: object = False
    copy_X: bool = True
    positive: bool = False
    selection: str = "cyclic"


def net_objective(estimator: ElasticNetRegressor, data: TrainingData, alpha: float, l1_ratio: float) -> Objective:
    """Return the Objective of the elastic net, with sums over samples instead of the means in the documentation.

    It is the documented objective times the sum of the sample weights of `data`.
    """
    total = data.total_weight
    return Objective(
        "squared",
        elastic_net(l1_ratio, positive=estimator.positive),
        number(alpha, "alpha") * total,
        intercept="free" if estimator.fit_intercept else "none",
        unit=1.0 / total if total > 0 else 1.0,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class ElasticNet(ElasticNetRegressor):
    """Linear regression with L1 and L2 penalties over a network, scaled as `sklearn.linear_model.ElasticNet`.

    Minimises, over coefficients w and an intercept b ::

        1/(2m) |y - Xw - b|^2 + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)

    for m samples; with sample weights m is their sum.

    Parameters
    ----------
    alpha : float, default 1.0
        Factor of the penalty, >= 0; split by samples > 0.
    l1_ratio : float, default 0.5
        Share of the L1 penalty, between 0 and 1.
    fit_intercept : bool, default True
        Whether there is an intercept b; it is not penalised.
    precompute : bool, default False
        Accepted as in scikit-learn, without effect.
    copy_X : bool, default True
        Accepted as in scikit-learn, without effect: X is never changed.
    warm_start : bool, default False
        Whether `fit` begins with the variables of the last fit, if there are as many.
    positive : bool, default False
        Whether coefficients must be >= 0.
    selection : str, default "cyclic"
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
    >>> import glmesh
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = glmesh.ElasticNet(alpha=0.01, l1_ratio=0.9, n_nodes=4).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.49
    """

    alpha: float = field(default=1.0, kw_only=False)
    l1_ratio: float = 0.5
    warm_start: bool = False

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective of the elastic net with this estimator's alpha and l1_ratio."""
        return net_objective(self, data, self.alpha, self.l1_ratio)


@dataclass(kw_only=True, eq=False, repr=False)
class Lasso(ElasticNet):
    """Linear regression with an L1 penalty over a network, scaled as `sklearn.linear_model.Lasso`.

    Minimises, over coefficients w and an intercept b ::

        1/(2m) |y - Xw - b|^2 + alpha |w|_1

    for m samples; with sample weights m is their sum.

    Parameters
    ----------
    alpha : float, default 1.0
        Factor of the penalty, >= 0.
    fit_intercept : bool, default True
        Whether there is an intercept b; it is not penalised.
    precompute : bool, default False
        Accepted as in scikit-learn, without effect.
    copy_X : bool, default True
        Accepted as in scikit-learn, without effect: X is never changed.
    warm_start : bool, default False
        Whether `fit` begins with the variables of the last fit, if there are as many.
    positive : bool, default False
        Whether coefficients must be >= 0.
    selection : str, default "cyclic"
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
    l1_ratio : float
        1.0, always.
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
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = glmesh.Lasso(1.0, n_nodes=4).fit(X, y)
    >>> np.flatnonzero(model.coef_)
    array([2, 3, 8])
    """

    l1_ratio: float = field(default=1.0, init=False)
