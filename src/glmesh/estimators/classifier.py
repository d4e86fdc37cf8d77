"""The base of all classifiers: a linear function for two classes, for more one of each class, apart or together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from glmesh.engine.solve import solve
from glmesh.engine.together import solve_together
from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.estimators.base import NetworkEstimator, run_options, variables_of
from glmesh.estimators.objective import TrainingData
from glmesh.functions import Softmax
from glmesh.problem.named import check_labels
from glmesh.types import Data, Flags, Matrix, Vector

# [coefficients] of all classes that are fitted together at most, because a total has half their square of numbers
MOST_TOGETHER = 2000


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
        """Solve the problem on checked data, or one per linear function; set the fitted attributes, and return self.

        There is one function for two classes. More classes are fitted together if the objective's loss is multinomial;
        else there is one for each class against all others, and a method on totals solves their problems at once.
        """
        self.classes_ = self._labels(data)
        objective = self._objective(data)
        self._together = objective.n_classes is not None
        first, *others = [self._class_numbers(data)] if self._together else self._one_against_rest(data)
        options = run_options(self, data, objective) | {"callback": self._report if self.verbose else None}
        shape = first.shape_of_variables(objective)
        starts = [self._start(shape, turn) for turn in range(len(others) + 1)]
        if data.method(objective) is not None and self.local_passes is None:
            results = solve_together(first.problems(objective, others), warm_starts=starts, **options)
        else:
            each = zip([first, *others], starts, strict=True)
            results = [solve(one.problem(objective), warm_start=start, **options) for one, start in each]
        self._tell(results, data.split)
        models = [self._coefficients(result, objective) for result in results]
        self.coef_ = np.vstack([coef for coef, _ in models])
        self.intercept_ = np.hstack([intercept for _, intercept in models])
        self.n_iter_ = np.array([max(result.rounds, 1) for result in results], dtype=np.int32)
        gaps = np.array([objective.unit * result.gap for result in results])
        single = len(results) == 1
        self.dual_gap_ = gaps[0] if single else gaps
        self.split_, self.result_ = data.split, results[0] if single else results
        self._unit, self._variables = objective.unit, [variables_of(result, objective) for result in results]
        return self

    def _softmax(self, data: TrainingData, least: int) -> Softmax | None:
        """Return the multinomial loss of the classes of the data; None if these are fewer than `least` >= 2.

        Raise UnsuitablePair or InvalidInput for options with which classes cannot be fitted together, which says what
        would do.
        """
        C = len({label for own in data.of_all(self._labels_of_parts(data)) for label in own.tolist()})
        if max(C, 2) < least:
            return None
        apart = "or fit one class against the rest"
        apart += ": multi_class='ovr'" if hasattr(self, "multi_class") else ": leave family away"
        if self.split == "features":
            raise UnsuitablePair(f"all classes are fitted together where nodes hold rows; say split='samples', {apart}")
        if self.local_passes is not None:
            raise InvalidInput(f"local_passes is not for classes that are fitted together; leave it None, {apart}")
        if (d := C * (data.n_features + 1)) > MOST_TOGETHER:
            raise UnsuitablePair(
                f"{C} classes with {data.n_features} features have {d} coefficients together, and totals of their "
                f"curvature are made for at most {MOST_TOGETHER}; take fewer features, {apart}"
            )
        return Softmax(max(C, 2))

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

    def _class_numbers(self, data: TrainingData) -> TrainingData:
        """Return the data with numbers of classes, in the order of `classes_`, as targets, and weights times theirs."""
        factors = self._class_weights(data)
        numbers = [np.searchsorted(self.classes_, y) for _, y, _ in data.parts]
        weights = [weight * factors[own] for (_, _, weight), own in zip(data.parts, numbers, strict=True)]
        return data.with_targets([own.astype(np.float64) for own in numbers], weights)

    def _class_weights(self, data: TrainingData) -> Vector:
        """Return the factor of each class's losses, shape (n_classes,): 1, or what the parameter class_weight says.

        Raise ValueError, which names the classes, if all samples of a class have weight 0.
        """
        y, weight = data.targets
        counted = y[weight > 0]
        self._require_weight(np.isin(self.classes_, counted))
        factors = np.asarray(
            compute_class_weight(self.class_weight, classes=self.classes_, y=counted), dtype=np.float64
        )
        self._require_weight(factors > 0)
        return factors

    def _require_weight(self, counts: Flags) -> None:
        """Raise ValueError, which names the classes that do not count, unless all do; `counts` has shape (n_classes,).

        The intercept of a class without weight has no optimum.
        """
        if not counts.all():
            idle = " and of the class ".join(map(repr, self.classes_[~counts].tolist()))
            raise ValueError(
                f"{type(self).__name__} needs a weight > 0 in every class, but all samples of the class {idle} have "
                "weight 0; leave these samples out, or give them weight"
            )

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
        if scores.shape[1] == 2:  # two classes that were fitted together
            return np.asarray(scores[:, 1] - scores[:, 0])
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
        """Return the probabilities of the classes.

        They are exp(score) divided by the sum over all classes, where these were fitted together; for one against the
        rest 1/(1 + exp(-score)), of several classes divided by their sum.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([expit(-scores), expit(scores)], axis=1)
        if self._are_together:
            return np.asarray(softmax(scores, axis=1))
        p = expit(scores)
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
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.stack([log_expit(-scores), log_expit(scores)], axis=1)
        if self._are_together:
            return np.asarray(log_softmax(scores, axis=1))
        return np.asarray(np.log(self.predict_proba(X)))

    @property
    def _are_together(self) -> bool:
        """Return whether the classes of the fitted model were fitted together, by one multinomial loss."""
        return bool(getattr(self, "_together", False))
