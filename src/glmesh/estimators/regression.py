"""Support vector regression, and the regressor for every regression loss of the catalogue and every family."""

from dataclasses import dataclass, field

from glmesh.errors import InvalidInput
from glmesh.estimators.family import FamilyRegressor
from glmesh.estimators.objective import Intercept, Objective, TrainingData, catalogue_objective, elastic_net, number
from glmesh.estimators.regressor import NetworkRegressor
from glmesh.functions import EpsilonInsensitiveLoss, Family, Loss, Separable, SquaredEpsilonInsensitiveLoss, family_of

__all__ = ["GLMRegressor", "LinearSVR", "NetworkRegressor"]


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
class GLMRegressor(FamilyRegressor):
    """Generalised linear regression over a network, with any family, regression loss and penalty.

    Minimises, over coefficients w and an intercept b ::

        sum_i s_i loss(y_i, x_i.w + b + offset_i) + alpha penalty(w)

    Losses are summed over the samples, not averaged. With a family the loss is half the unit deviance, so that without
    a penalty (alpha = 0, the default then) the estimate is that of maximum likelihood, as R's `glm` computes it.

    Parameters
    ----------
    loss : str or Loss or None, default None
        "squared" (half the square; None stands for it where there is no family), "huber", "epsilon_insensitive",
        "squared_epsilon_insensitive", "quantile", or a `Loss` with a parameter of its own, for instance
        `glmesh.functions.HuberLoss(delta=1.0)`. It excludes `family`.
    penalty : {"l2", "l1", "elasticnet"} or Separable, default "l2"
        "l2" is half the squared norm; a `Separable` is for instance `GroupLasso(groups)`, `NonNegative()` or
        `L2(lo=-1, hi=1)` of `glmesh.functions`.
    alpha : float or None, default None
        Factor of the penalty, >= 0; None: 0.0 with a family, 1.0 with a loss.
    l1_ratio : float or None, default None
        Share of "l1" in "elasticnet"; None: 0.5 there. Refused with any other penalty.
    family : str or Family or None, default None
        "gaussian", "binomial", "poisson", "gamma", "inverse_gaussian", "tweedie", "negative_binomial", or a family
        with a parameter of its own, for instance `glmesh.functions.NegativeBinomial(theta=2.0)`.
    link : str or None, default None
        Name of a link of the family, such as "probit" of "binomial"; None: its usual one.
    tol_se : float, default 1e-6
        Without a penalty a fit of a family ends when each coefficient is proven to be within this many standard errors
        of the exact estimate; `tol` is for fits with a penalty.
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

    loss: str | Loss | None = field(default=None, kw_only=False)
    penalty: str | Separable = field(default="l2", kw_only=False)
    alpha: float | None = None
    l1_ratio: float | None = None
    family: str | Family | None = None
    link: str | None = None
    tol_se: float = 1e-6
    warm_start: bool = False

    def _family(self) -> Family | None:
        """Return the family with its link; None: there is a loss. Raise InvalidInput where they do not go together."""
        if self.family is None:
            if self.link is not None:
                raise InvalidInput(f"link={self.link!r} goes with family=...")
            return None
        if self.loss is not None:
            raise InvalidInput(f"give either loss={self.loss!r} or family={self.family!r}, not both")
        return family_of(self.family, self.link)

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective: the losses plus alpha times the penalty; the intercept is not penalised.

        Raise InvalidInput for a loss that is not for regression.
        """
        family = self._family()
        if family is not None:
            kind: Intercept = "free" if self.fit_intercept else "none"
            alpha = 0.0 if self.alpha is None else number(self.alpha, "alpha")
            return Objective(family, self.penalty, alpha, self.l1_ratio, intercept=kind)
        penalty = self.penalty, 1.0 if self.alpha is None else self.alpha, self.l1_ratio
        loss = "squared" if self.loss is None else self.loss
        return catalogue_objective(loss, *penalty, fit_intercept=self.fit_intercept, classifies=False)
