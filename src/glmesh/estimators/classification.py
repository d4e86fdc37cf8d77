"""Classifiers: their common base, support vector machine, and one for every classification loss of the catalogue."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from glmesh.engine.solve import solve
from glmesh.engine.together import solve_together
from glmesh.errors import InvalidData, InvalidInput
from glmesh.estimators.base import NetworkEstimator, run_options, variables_of
from glmesh.estimators.objective import Objective, TrainingData, catalogue_objective, elastic_net, number
from glmesh.functions import Loss, Separable
from glmesh.problem.named import check_labels
from glmesh.types import Data, Matrix, Vector


def is_logistic(estimator: object) -> bool:
    """Return whether a classifier has the logistic loss, so that it can predict probabilities."""
    loss = getattr(estimator, "loss", "logistic")
    return (loss if isinstance(loss, str) else getattr(loss, "name", None)) == "logistic"


def _check_classes(labels: list[npt.NDArray[np.generic]], classes: list[object]) -> None:
    """Raise InvalidData if a part has a label that is none of `classes`, or if no part has one of the classes.

    `labels` has an array for each part of the data, with the distinct labels of that part.
    """
    for k, own in enumerate(labels):
        other = [label for label in own.tolist() if label not in classes]
        if other:
            raise InvalidData(f"part {k} has the label {other[0]!r}; classes are {classes}")
    held = {label for own in labels for label in own.tolist()}
    absent = [label for label in classes if label not in held]
    if absent:
        raise InvalidData(f"no part has the label {absent[0]!r}, which classes has; leave it out")


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkClassifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """Base class of all classifiers: one linear function X w + b for two classes, one per class for more."""

    class_weight: Mapping[Any, float] | str | None = None

    def fit(self, X: Data, y: ArrayLike, sample_weight: ArrayLike | None = None, *, rows: str = "all") -> Self:
        """Learn from pooled data, dealt out over a simulated network.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,)
            Labels, numbers or strings.
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
        with self._training(lambda: self._validated(X, y, sample_weight), rows) as data:
            return self._fit(data)

    def fit_nodes(self, parts: Sequence[tuple[Data, ...]], *, classes: ArrayLike | None = None) -> Self:
        """Learn from data that each node keeps to itself; only messages to neighbours leave a node.

        Parameters
        ----------
        parts : sequence of (X_k, y_k) or (X_k, y_k, sample_weight_k)
            Data of node k, which need not have samples of every class. Split by samples, which split="auto" always is,
            each part has its own rows; with split="features" its own columns, and all have the same y (coefficients
            come in the order of the parts). Columns of data frames go by name: split by samples they are put in the
            order of the first part, split by features no two parts may have a name in common.
        classes : array of shape (n_classes,) or None, default None
            All labels, each of which some part holds. None: those of the parts; where they are more than two, each must
            be held by more than half of the parts, since a part with other labels is mostly one that codes them
            otherwise.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._training(lambda: self._labelled_parts(parts, classes)) as data:
            return self._fit(data)

    def _labelled_parts(self, parts: Sequence[tuple[Data, ...]], classes: ArrayLike | None) -> TrainingData:
        """Check data that is given node by node, (X, y) or (X, y, weights) each; return it as TrainingData.

        Raise InvalidData unless all nodes have the same kind of labels or, if `classes` are given, have only those
        labels.
        """
        data = self._validated_parts(parts, numeric=False)
        labels = self._labels_of_parts(data)
        if classes is None:
            check_labels(
                labels, "code the labels alike in all parts, or say which there are: fit_nodes(parts, classes=[...])"
            )
        else:
            _check_classes(labels, np.unique(np.asarray(classes)).tolist())
        return data

    def _fit(self, data: TrainingData) -> Self:
        """Solve one problem per linear function on checked data, set the fitted attributes, and return self.

        There is one function for two classes, else one for each class against all others; a method on totals solves
        their problems together.
        """
        self.classes_ = self._labels(data)
        objective = self._objective(data)
        first, *others = self._one_against_rest(data)
        options = run_options(self, data, objective) | {"callback": self._report if self.verbose else None}
        size = first.n_variables(objective)
        starts = [self._start(size, turn) for turn in range(len(others) + 1)]
        if data.method(objective) is not None and self.local_passes is None:
            results = solve_together(first.problems(objective, others), warm_starts=starts, **options)
        else:
            each = zip([first, *others], starts, strict=True)
            results = [solve(one.problem(objective), warm_start=start, **options) for one, start in each]
        self._tell(results, data.split)
        models = [self._coefficients(result, objective) for result in results]
        self.coef_ = np.stack([coef for coef, _ in models])
        self.intercept_ = np.array([intercept for _, intercept in models])
        self.n_iter_ = np.array([max(result.rounds, 1) for result in results], dtype=np.int32)
        gaps = np.array([objective.unit * result.gap for result in results])
        single = len(results) == 1
        self.dual_gap_ = gaps[0] if single else gaps
        self.split_, self.result_ = data.split, results[0] if single else results
        self._unit, self._variables = objective.unit, [variables_of(result, objective) for result in results]
        return self

    def _labels(self, data: TrainingData) -> npt.NDArray[np.generic]:
        """Return the distinct labels of all nodes, ascending, shape (n_classes,); raise ValueError for only one."""
        labels = np.unique(np.concatenate([own for own in data.of_all(self._labels_of_parts(data)) if len(own)]))
        if len(labels) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes in the data, but there is one class only: "
                f"{labels[0]!r}"
            )
        return labels

    @staticmethod
    def _labels_of_parts(data: TrainingData) -> list[npt.NDArray[np.generic]]:
        """Return an array with the distinct labels, ascending, for each part of the data.

        Raise ValueError for targets that are no labels.
        """
        for _, y, _ in data.parts:
            if len(y):
                check_classification_targets(y)
        return [np.unique(y) for _, y, _ in data.parts]

    def _one_against_rest(self, data: TrainingData) -> Iterator[TrainingData]:
        """Yield, for each problem to solve, the data with targets 1 and -1, and weights times the class's weight.

        For two classes there is one problem: the larger label is 1. For more there is one per class, in which that
        class is 1 and all others are -1.
        """
        factors = self._class_weights(data)
        # of two classes each has its factor; of several, as in liblinear, only the one against the rest
        chosen, other = ([1], factors[0]) if len(factors) == 2 else (range(len(factors)), 1.0)
        for c in chosen:
            own = [y == self.classes_[c] for _, y, _ in data.parts]
            scales = [np.where(mine, factors[c], other) for mine in own]
            weights = [weight * scale for (_, _, weight), scale in zip(data.parts, scales, strict=True)]
            yield data.with_targets([np.where(mine, 1.0, -1.0) for mine in own], weights)

    def _class_weights(self, data: TrainingData) -> Vector:
        """Return the factor of each class's losses, shape (n_classes,): 1, or what the parameter class_weight says."""
        y, weight = data.targets
        if self.class_weight == "balanced":
            y = y[weight > 0]
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=y), dtype=np.float64)

    def decision_function(self, X: Data) -> Matrix:
        """Return the scores X w + b.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            Positive on the side of the larger label for two classes, a column per class for more.
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Data) -> npt.NDArray[np.generic]:
        """Return the label with the largest score.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples,)
            Labels out of `classes_`.
        """
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)])

    @available_if(is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Data) -> Matrix:
        """Return the probabilities 1/(1 + exp(-score)); of several classes divided by their sum.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        p = expit(self.decision_function(X))
        if p.ndim == 1:
            return np.stack([1.0 - p, p], axis=1)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    @available_if(is_logistic)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Data) -> Matrix:
        """Return the logarithms of the probabilities.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Logarithms of `predict_proba(X)`.
        """
        return np.asarray(np.log(self.predict_proba(X)))


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
class GLMClassifier(NetworkClassifier):
    """Linear classification over a network, with any classification loss and penalty of `glmesh.functions`.

    Minimises, over coefficients w and an intercept b, with labels -1 and 1 ::

        sum_i s_i loss(y_i, x_i.w + b) + alpha penalty(w)

    Losses are summed over the samples, not averaged. Several classes are one against the rest.

    Parameters
    ----------
    loss : str or Loss, default "logistic"
        "logistic", "hinge", "squared_hinge", "smoothed_hinge", or a `Loss` with a parameter of its own, for instance
        `glmesh.functions.SmoothedHingeLoss(width=0.5)`.
    penalty : {"l2", "l1", "elasticnet"} or Separable, default "l2"
        "l2" is half the squared norm; a `Separable` is for instance `GroupLasso(groups)` of `glmesh.functions`.
    alpha : float, default 1.0
        Factor of the penalty, >= 0.
    l1_ratio : float or None, default None
        Share of "l1" in "elasticnet"; None: 0.5 there. Refused with any other penalty.
    fit_intercept : bool, default True
        Whether there is an intercept b; it is not penalised.
    class_weight : dict, "balanced" or None, default None
        Factors of the losses of each class, by label; "balanced": inversely to their frequencies; None: 1.
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
    >>> model = glmesh.GLMClassifier("smoothed_hinge", alpha=0.1, fit_intercept=False, n_nodes=4, tol=1e-4)
    >>> model.fit(X[50:], y[50:]).split_
    'samples'
    """

    loss: str | Loss = field(default="logistic", kw_only=False)
    penalty: str | Separable = field(default="l2", kw_only=False)
    alpha: float = 1.0
    l1_ratio: float | None = None
    warm_start: bool = False

    def _objective(self, data: TrainingData) -> Objective:
        """Return the Objective: the losses plus alpha times the penalty; the intercept is not penalised.

        Raise InvalidInput for a loss that is not for classification.
        """
        penalty, intercept = (self.penalty, self.alpha, self.l1_ratio), self.fit_intercept
        return catalogue_objective(self.loss, *penalty, fit_intercept=intercept, classifies=True)
