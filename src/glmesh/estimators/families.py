"""Regressors of a family of distributions with scikit-learn's names and scaling."""

from __future__ import annotations

from dataclasses import dataclass

from glmesh.errors import InvalidData, InvalidInput
from glmesh.estimators.family import FamilyRegressor
from glmesh.estimators.objective import Objective, TrainingData, number
from glmesh.functions import Family, tweedie


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
