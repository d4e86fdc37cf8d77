"""Classifiers: the support vector machine, and one for every classification loss of the catalogue and softmax."""

from dataclasses import dataclass, field

from glmesh.errors import InvalidInput
from glmesh.estimators.classifier import NetworkClassifier
from glmesh.estimators.inference import InferenceMixin
from glmesh.estimators.objective import Intercept, Objective, TrainingData, catalogue_objective, elastic_net, number
from glmesh.functions import Loss, Separable, Softmax


@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVC(NetworkClassifier):
    """Linear support vector machine over a network, scaled as `sklearn.svm.LinearSVC`.

    Minimises, over coefficients w and an intercept b, with labels -1 and 1 ::

        C sum_i s_i loss(y_i, x_i.w + b) + penalty(w, b / intercept_scaling)

    Several classes are one against the rest. The hinge is split by samples only, "l1" by features only.

    Parameters
    ----------
    penalty : {"l2", "l1"}, default "l2"
        Half the squared norm, or (with "squared_hinge" only) the sum of absolute values.
    loss : {"squared_hinge", "hinge"}, default "squared_hinge"
        max(0, 1 - y z)^2 or max(0, 1 - y z), z = x.w + b.
    dual : bool or str, default "auto"
        Accepted as in scikit-learn, without effect.
    C : float, default 1.0
        Factor of the losses, > 0; the larger, the less is penalised.
    multi_class : {"ovr"}, default "ovr"
        One against the rest; nothing else is accepted.
    fit_intercept : bool, default True
        Whether there is an intercept b; as in scikit-learn, it is penalised.
    intercept_scaling : float, default 1
        Value of the constant feature whose coefficient makes the intercept; the larger, the less b is penalised.
    class_weight : dict, "balanced" or None, default None
        Factors of the losses of each class, by label; "balanced": inversely to their frequencies; None: 1.
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
    classes_ : array of shape (n_classes,)
        Labels, ascending.
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Coefficients w: of the larger label for two classes, of each class against the rest for more.
    intercept_ : array of shape (1,) or (n_classes,)
        Intercepts b; 0.0 without.
    n_iter_ : array of int of shape (1,) or (n_classes,)
        Rounds done.
    dual_gap_ : float or array of shape (n_classes,)
        Duality gap, in the scaling of the objective above.
    split_ : {"samples", "features"}
        What the nodes held.
    result_ : Result or list of Result
        Status, history and estimates of the run, or of one run per class.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Names of the features, if X had them.

    Examples
    --------
    >>> import glmesh
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = glmesh.LinearSVC(n_nodes=4, tol=1e-4).fit(X[50:], y[50:])
    >>> round(model.score(X[50:], y[50:]), 2), model.classes_
    (0.97, array([1, 2]))
    """

    penalty: str = field(default="l2", kw_only=False)
    loss: str = field(default="squared_hinge", kw_only=False)
    dual: bool | str = "auto"
    C: float = 1.0
    multi_class: str = "ovr"
    intercept_scaling: float = 1

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective: C times the hinge or squared hinge losses plus the penalty of the coefficients.

        The intercept is penalised like a coefficient.
        """
        if self.loss not in ("hinge", "squared_hinge"):
            raise InvalidInput(f"loss must be 'squared_hinge' or 'hinge', got {self.loss!r}")
        if self.penalty not in ("l1", "l2"):
            raise InvalidInput(f"penalty must be 'l2' or 'l1', got {self.penalty!r}")
        if (self.penalty, self.loss) == ("l1", "hinge"):
            raise InvalidInput("penalty='l1' goes with loss='squared_hinge', as in scikit-learn")
        if self.multi_class != "ovr":
            raise InvalidInput(f"multi_class must be 'ovr' (one against the rest), got {self.multi_class!r}")
        return Objective(
            self.loss,
            elastic_net(1.0 if self.penalty == "l1" else 0.0),
            1.0,
            weight=number(self.C, "C", positive=True),
            intercept="penalised" if self.fit_intercept else "none",
            intercept_scaling=number(self.intercept_scaling, "intercept_scaling", positive=True),
        )


@dataclass(kw_only=True, eq=False, repr=False)
class GLMClassifier(InferenceMixin, NetworkClassifier):
    """Linear classification over a network, with any classification loss and penalty of `glmesh.functions`.

    Minimises, over coefficients w and an intercept b, with labels -1 and 1 ::

        sum_i s_i loss(y_i, x_i.w + b) + alpha penalty(w)

    Losses are summed over the samples, not averaged. Several classes are one against the rest, or with
    family="multinomial" they are fitted together, with coefficients w_c and an intercept b_c of each class c ::

        sum_i s_i (log sum_c exp(x_i.w_c + b_c) - x_i.w_(y_i) - b_(y_i)) + alpha sum_c penalty(w_c)

    Parameters
    ----------
    loss : str or Loss, default "logistic"
        "logistic", "hinge", "squared_hinge", "smoothed_hinge", or a `Loss` with a parameter of its own, for instance
        `glmesh.functions.SmoothedHingeLoss(width=0.5)`.
    penalty : {"l2", "l1", "elasticnet"} or Separable, default "l2"
        "l2" is half the squared norm; a `Separable` is for instance `GroupLasso(groups)` of `glmesh.functions`.
    alpha : float or None, default None
        Factor of the penalty, >= 0; None: 0.0 with a family, 1.0 with a loss.
    l1_ratio : float or None, default None
        Share of "l1" in "elasticnet"; None: 0.5 there. Refused with any other penalty.
    family : {"multinomial"} or None, default None
        "multinomial": classes are fitted together, in place of the logistic loss. With alpha=0 the first class is the
        reference, whose coefficients are 0; with a penalty intercepts add up to 0.
    fit_intercept : bool, default True
        Whether there is an intercept b; it is not penalised.
    class_weight : dict, "balanced" or None, default None
        Factors of the losses of each class, by label; "balanced": inversely to their frequencies; None: 1.
    tol_se : float, default 1e-6
        With family="multinomial" and alpha=0: the fit ends when each coefficient is proven to be within this many
        standard errors of the exact estimate.
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
    classes_ : array of shape (n_classes,)
        Labels, ascending.
    coef_ : array of shape (1, n_features) or (n_classes, n_features)
        Coefficients w: of the larger label for two classes, of each class (against the rest) for more; fitted together
        two classes have a row each.
    intercept_ : array of shape (1,) or (n_classes,)
        Intercepts b; 0.0 without.
    n_iter_ : array of int of shape (1,) or (n_classes,)
        Rounds done; a single number where classes are fitted together.
    dual_gap_ : float or array of shape (n_classes,)
        Duality gap, in the scaling of the objective above.
    split_ : {"samples", "features"}
        What the nodes held.
    result_ : Result or list of Result
        Status, history and estimates of the run, or of one run per class against the rest.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Names of the features, if X had them.

    Examples
    --------
    >>> import glmesh
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> glmesh.GLMClassifier(family="multinomial", alpha=0.1, n_nodes=4).fit(X, y).coef_.shape
    (3, 4)
    >>> model = glmesh.GLMClassifier("smoothed_hinge", alpha=0.1, fit_intercept=False, n_nodes=4, tol=1e-4)
    >>> model.fit(X[50:], y[50:]).split_
    'samples'
    """

    loss: str | Loss = field(default="logistic", kw_only=False)
    penalty: str | Separable = field(default="l2", kw_only=False)
    alpha: float | None = None
    l1_ratio: float | None = None
    family: str | None = None
    tol_se: float = 1e-6
    warm_start: bool = False

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective: the losses plus alpha times the penalty; the intercept is not penalised.

        Raise InvalidInput for a loss that is not for classification, and for one beside a family.
        """
        if self.family is not None:
            if self.family != Softmax.name:
                raise InvalidInput(
                    f"family must be 'multinomial' or None, got {self.family!r}; for another family take "
                    "GLMRegressor(family=...), binomial with labels 0 and 1"
                )
            if self.loss != "logistic":
                raise InvalidInput(f"give either loss={self.loss!r} or family={self.family!r}, not both")
            loss = self._softmax(data, 2)
            kind: Intercept = "free" if self.fit_intercept else "none"
            assert loss is not None
            alpha = 0.0 if self.alpha is None else number(self.alpha, "alpha")
            return Objective(loss, self.penalty, alpha, self.l1_ratio, intercept=kind)
        alpha = 1.0 if self.alpha is None else self.alpha
        penalty, intercept = (self.penalty, alpha, self.l1_ratio), self.fit_intercept
        return catalogue_objective(self.loss, *penalty, fit_intercept=intercept, classifies=True)
