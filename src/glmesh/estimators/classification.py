"""Classifiers: scikit-learn's names, parameters and scaling; several classes by one against the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from glmesh.errors import InvalidInput
from glmesh.estimators.base import Data, NetworkEstimator, Objective
from glmesh.estimators.regression import general, net, number
from glmesh.functions import Loss, Separable
from glmesh.types import AnyArray, Matrix, Vector


def _is_logistic(estimator: Any) -> bool:
    loss = getattr(estimator, "loss", "logistic")
    return (loss if isinstance(loss, str) else getattr(loss, "name", None)) == "logistic"


class NetworkClassifier(ClassifierMixin, NetworkEstimator):  # type: ignore[misc]
    """A classifier: a linear function for two classes, one per class for more."""

    class_weight: Any = None

    def fit(self, X: AnyArray, y: AnyArray, sample_weight: AnyArray = None) -> Self:
        """Learns from pooled data, dealt out over a simulated network."""
        data = self._validated(X, y, sample_weight)
        X, y, weight = data.parts[0]
        split = self._objective(data).choose(self.split, X.shape[0], X.shape[1], self.stop)
        return self._fit(Data([(X, y, weight)], pooled=True, split=split))

    def fit_nodes(self, parts: Sequence[Any]) -> Self:
        """Learns from data that is apart: one (X_k, y_k) or (X_k, y_k, sample_weight_k) per node.

        By samples each part has its own rows; by features its own columns, and all have the same y (coefficients come
        in the order of the parts). split="auto" is by samples if the loss and the penalty allow that and all parts have
        as many columns. A node need not have samples of every class.
        """
        rough = self._validated_parts(parts, "features", numeric=False)
        split = self._split_of_parts(parts, self._objective(rough))
        return self._fit(self._validated_parts(parts, split, numeric=False))

    def _fit(self, data: Data) -> Self:
        labels = [y for _, y, _ in data.parts]
        for y in labels:
            if len(y):
                check_classification_targets(y)
        self.classes_ = np.unique(np.concatenate([y for y in labels if len(y)]))
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes in the data, but there is one class only: "
                f"{self.classes_[0]!r}"
            )
        share = self._class_weights(data, labels)
        turns = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        models, results, objective = [], [], self._objective(data)
        for number_, turn in enumerate(turns):
            positive = [y == self.classes_[turn] for y in labels]
            weights = [
                weight * np.where(mine, share[turn], share[0] if len(share) == 2 else 1.0)
                for mine, (_, _, weight) in zip(positive, data.parts, strict=True)
            ]
            one = data.with_targets([np.where(mine, 1.0, -1.0) for mine in positive], weights)
            result = self._solve(one, objective, self._start(one.n_variables(objective), number_))
            models.append(self._model(result, objective))
            results.append(result)
        self.coef_ = np.stack([coef for coef, _ in models])
        self.intercept_ = np.array([intercept for _, intercept in models])
        rounds = np.array([max(result.rounds, 1) for result in results], dtype=np.int32)
        gaps = np.array([objective.unit * result.gap for result in results])
        alone = len(results) == 1
        self.n_iter_ = rounds
        self.dual_gap_ = gaps[0] if alone else gaps
        self.split_, self.result_ = data.split, results[0] if alone else results
        self._unit, self._variables = objective.unit, [result.x for result in results]
        return self

    def _class_weights(self, data: Data, labels: list[Vector]) -> Vector:
        """One per class; of several classes only the one that stands against the rest has its own, as in liblinear."""
        pool = labels[:1] if data.split == "features" else labels
        weights = [weight for _, _, weight in data.parts][: len(pool)]
        y = np.concatenate(pool)
        if self.class_weight == "balanced":
            y = y[np.concatenate(weights) > 0]
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=y), dtype=np.float64)

    def decision_function(self, X: AnyArray) -> AnyArray:
        """X w + b: a column per class, or one number where there are two."""
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: AnyArray) -> AnyArray:
        """The class on x's side, or the one with the largest score."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: AnyArray) -> Matrix:
        """1/(1 + exp(-score)), of several classes each against the rest and made to sum up to one."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            p = expit(scores)
            return np.stack([1.0 - p, p], axis=1)
        p = expit(scores)
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: AnyArray) -> Matrix:
        """The logarithm of that."""
        return np.asarray(np.log(self.predict_proba(X)))


class LogisticRegression(NetworkClassifier):
    """min C sum_i s_i log(1 + exp(-y_i (x_i.w + b))) + penalty(w), as `sklearn.linear_model.LogisticRegression`.

    The penalty is l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2; `penalty`, scikit-learn's older way to say it, may be "l2",
    "l1" or "elasticnet". Several classes are one against the rest, where scikit-learn is multinomial. dual,
    intercept_scaling and solver are accepted and mean nothing here.
    """

    def __init__(
        self, penalty: str = "auto", *, C: float = 1.0, l1_ratio: float = 0.0, dual: bool = False, tol: float = 1e-6,
        fit_intercept: bool = True, intercept_scaling: float = 1, class_weight: Any = None, random_state: Any = None,
        solver: str = "auto", max_iter: int | None = None, verbose: int = 0, warm_start: bool = False,
        n_jobs: int | None = None, n_nodes: int = 16, topology: Any = "ring", split: str = "auto",
        max_rounds: int = 10_000, local_passes: int | None = None, stop: str = "gap", runtime: str = "simulation",
    ) -> None:  # fmt: skip
        self.penalty = penalty
        self.C = C
        self.l1_ratio = l1_ratio
        self.dual = dual
        self.tol = tol
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.random_state = random_state
        self.solver = solver
        self.max_iter = max_iter
        self.verbose = verbose
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.n_nodes = n_nodes
        self.topology = topology
        self.split = split
        self.max_rounds = max_rounds
        self.local_passes = local_passes
        self.stop = stop
        self.runtime = runtime

    def _objective(self, data: Data) -> Objective:
        ratios = {"auto": self.l1_ratio, "elasticnet": self.l1_ratio, "l1": 1.0, "l2": 0.0}
        if self.penalty not in ratios:
            raise InvalidInput(
                f"penalty must be 'l2', 'l1', 'elasticnet' or 'auto' (by l1_ratio), got {self.penalty!r}; "
                "for almost none use a large C"
            )
        return Objective(
            "logistic",
            net(ratios[self.penalty]),
            1.0,
            weight=number(self.C, "C", positive=True),
            intercept="free" if self.fit_intercept else "none",
        )


class LinearSVC(NetworkClassifier):
    """min C sum_i s_i loss(y_i, x_i.w + b) + penalty(w, b/intercept_scaling), as `sklearn.svm.LinearSVC`.

    loss is "squared_hinge" or "hinge", penalty "l2" (half the square) or "l1" (with "squared_hinge"). As in
    scikit-learn the intercept is penalised, and several classes are one against the rest. dual and multi_class="ovr"
    are accepted and mean nothing here.
    """

    def __init__(
        self, penalty: str = "l2", loss: str = "squared_hinge", *, dual: Any = "auto", tol: float = 1e-6,
        C: float = 1.0, multi_class: str = "ovr", fit_intercept: bool = True, intercept_scaling: float = 1,
        class_weight: Any = None, verbose: int = 0, random_state: Any = None, max_iter: int | None = None,
        n_nodes: int = 16, topology: Any = "ring", split: str = "auto", max_rounds: int = 10_000,
        local_passes: int | None = None, stop: str = "gap", runtime: str = "simulation", n_jobs: int | None = None,
    ) -> None:  # fmt: skip
        self.penalty = penalty
        self.loss = loss
        self.dual = dual
        self.tol = tol
        self.C = C
        self.multi_class = multi_class
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.verbose = verbose
        self.random_state = random_state
        self.max_iter = max_iter
        self.n_nodes = n_nodes
        self.topology = topology
        self.split = split
        self.max_rounds = max_rounds
        self.local_passes = local_passes
        self.stop = stop
        self.runtime = runtime
        self.n_jobs = n_jobs

    def _objective(self, data: Data) -> Objective:
        if self.loss not in ("hinge", "squared_hinge"):
            raise InvalidInput(f"loss must be 'squared_hinge' or 'hinge', got {self.loss!r}")
        if self.penalty not in ("l1", "l2"):
            raise InvalidInput(f"penalty must be 'l2' or 'l1', got {self.penalty!r}")
        if self.multi_class != "ovr":
            raise InvalidInput(f"multi_class must be 'ovr' (one against the rest), got {self.multi_class!r}")
        return Objective(
            self.loss,
            net(1.0 if self.penalty == "l1" else 0.0),
            1.0,
            weight=number(self.C, "C", positive=True),
            intercept="penalised" if self.fit_intercept else "none",
            intercept_scaling=number(self.intercept_scaling, "intercept_scaling", positive=True),
        )


class GLMClassifier(NetworkClassifier):
    """min sum_i s_i loss(y_i, x_i.w + b) + alpha penalty(w), for every classification loss of the catalogue.

    loss: "logistic", "hinge", "squared_hinge", "smoothed_hinge", or a `Loss` with its own parameter, such as
    `glmesh.functions.SmoothedHingeLoss(width=0.5)`. penalty: "l2", "l1", "elasticnet" (with l1_ratio), or a `Separable`
    such as `GroupLasso(groups)`. Nothing is averaged over samples. Several classes are one against the rest.
    """

    def __init__(
        self, loss: str | Loss = "logistic", penalty: str | Separable = "l2", *, alpha: float = 1.0,
        l1_ratio: float | None = None, fit_intercept: bool = True, class_weight: Any = None, warm_start: bool = False,
        tol: float = 1e-6, max_iter: int | None = None, random_state: Any = None, n_nodes: int = 16,
        topology: Any = "ring", split: str = "auto", max_rounds: int = 10_000, local_passes: int | None = None,
        stop: str = "gap", runtime: str = "simulation", n_jobs: int | None = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.warm_start = warm_start
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_nodes = n_nodes
        self.topology = topology
        self.split = split
        self.max_rounds = max_rounds
        self.local_passes = local_passes
        self.stop = stop
        self.runtime = runtime
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _objective(self, data: Data) -> Objective:
        return general(self, classifies=True)
