"""Logistic regression."""

from dataclasses import dataclass, field

import numpy as np

from glmesh.engine.result import Result
from glmesh.errors import InvalidInput
from glmesh.estimators.classifier import NetworkClassifier
from glmesh.estimators.inference import InferenceMixin
from glmesh.estimators.objective import Objective, TrainingData, elastic_net, number
from glmesh.types import Vector
from glmesh.validation import one_of


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(InferenceMixin, NetworkClassifier):
    """Logistic regression over a network, scaled as `sklearn.linear_model.LogisticRegression`.

    Minimises, over coefficients w and an intercept b, with labels -1 and 1 ::

        C sum_i s_i log(1 + exp(-y_i (x_i.w + b))) + l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2

    Three or more classes are multinomial, as scikit-learn's: w_c and b_c are those of class c in ::

        C sum_i s_i (log sum_c exp(x_i.w_c + b_c) - x_i.w_(y_i) - b_(y_i)) + sum_c penalty(w_c)

    Its optimum has intercepts that add up to 0. With multi_class="ovr" they are one against the rest.

    Parameters
    ----------
    penalty : {"auto", "l2", "l1", "elasticnet"}, default "auto"
        scikit-learn's older way to say l1_ratio: "l2" is 0, "l1" is 1; with "auto" and "elasticnet" l1_ratio counts.
    C : float, default 1.0
        Factor of the losses, > 0; the larger, the less is penalised. Infinite: there is no penalty.
    l1_ratio : float, default 0.0
        Share of the L1 penalty, between 0 and 1.
    dual : bool, default False
        Accepted as in scikit-learn, without effect.
    multi_class : {"multinomial", "ovr"}, default "multinomial"
        How three or more classes are fitted: together, or each against the rest, also split by features and with more
        than 2,000 coefficients. It does not matter for two.
    fit_intercept : bool, default True
        Whether there is an intercept b; it is not penalised.
    intercept_scaling : float, default 1
        Accepted as in scikit-learn, without effect: the intercept is not penalised.
    class_weight : dict, "balanced" or None, default None
        Factors of the losses of each class, by label; "balanced": inversely to their frequencies; None: 1.
    solver : str, default "auto"
        Accepted as in scikit-learn, without effect.
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
        Coefficients w: of the larger label for two classes, of each class (against the rest) for more.
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
    Three hospitals, one of which has seen one class only:

    >>> import glmesh
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> hospitals = [(X[50:60], y[50:60]), (X[60:110], y[60:110]), (X[110:], y[110:])]
    >>> model = glmesh.LogisticRegression(tol=1e-8).fit_nodes(hospitals)
    >>> model.classes_, model.predict_proba(X[[55, 120]]).round(2)
    (array([1, 2]), array([[0.86, 0.14],
           [0.03, 0.97]]))
    """

    penalty: str = field(default="auto", kw_only=False)
    C: float = 1.0
    l1_ratio: float = 0.0
    multi_class: str = "multinomial"
    dual: bool = False
    intercept_scaling: float = 1
    solver: str = "auto"
    warm_start: bool = False

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective: C times the losses plus the penalty of w; the intercept is not penalised.

        The loss is logistic, for three or more classes multinomial unless they are one against the rest.
        """
        one_of(self.multi_class, "multi_class", ("multinomial", "ovr"))
        together = self._softmax(data, 3) if self.multi_class == "multinomial" else None
        ratios = {"auto": self.l1_ratio, "elasticnet": self.l1_ratio, "l1": 1.0, "l2": 0.0}
        if self.penalty not in ratios:
            raise InvalidInput(
                f"penalty must be 'l2', 'l1', 'elasticnet' or 'auto' (by l1_ratio), got {self.penalty!r}; "
                "for none say C=float('inf')"
            )
        free = np.inf == self.C
        return Objective(
            "logistic" if together is None else together,
            elastic_net(ratios[self.penalty]),
            0.0 if free else 1.0,
            weight=1.0 if free else number(self.C, "C", positive=True),
            intercept="free" if self.fit_intercept else "none",
        )

    def _coefficients(self, result: Result, objective: Objective) -> tuple[Vector, float | Vector]:
        """Return (coefficients, intercept) of a result, as of other classifiers.

        Without a penalty those of several classes that are fitted together add up to 0 over the classes, as
        scikit-learn's do.
        """
        coef, intercept = super()._coefficients(result, objective)
        if np.inf > self.C or not self._are_together:
            return coef, intercept
        each = np.asarray(intercept)
        return coef - coef.mean(axis=0), each - each.mean()
