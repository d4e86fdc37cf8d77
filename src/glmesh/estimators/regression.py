"""Regressors: scikit-learn's names, parameters and scaling, and one of our own for the rest of the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from glmesh.errors import InvalidInput
from glmesh.estimators.base import Data, NetworkEstimator, Objective
from glmesh.functions import EpsilonInsensitiveLoss, Loss, Separable, SquaredEpsilonInsensitiveLoss, Table
from glmesh.types import AnyArray, Vector
from glmesh.validation import number_in


def number(value: Any, name: str, *, positive: bool = False) -> float:
    """Return the value as a float if it is a finite number >= 0, or > 0 if `positive`."""
    wanted = f"a finite number {'> 0' if positive else '>= 0'}"
    return number_in(value, name, wanted, lambda number: 0 <= number < np.inf and (number > 0 or not positive))


def net(l1_ratio: float, *, positive: bool = False) -> Table:
    """l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2, on w >= 0 if positive."""
    ratio = number_in(l1_ratio, "l1_ratio", "between 0 and 1", lambda ratio: 0 <= ratio <= 1)
    low = np.asarray(0.0 if positive else -np.inf)
    return Table(l1=np.asarray(ratio), l2=np.asarray(1.0 - ratio), lo=low)


class NetworkRegressor(RegressorMixin, NetworkEstimator):  # type: ignore[misc]
    """A regressor: one linear function."""

    def fit(self, X: AnyArray, y: AnyArray, sample_weight: AnyArray = None) -> Self:
        """Learns from pooled data, dealt out over a simulated network."""
        data = self._validated(X, y, sample_weight, y_numeric=True)
        (X, y, weight), objective = data.parts[0], self._objective(data)
        split = objective.choose(self.split, X.shape[0], X.shape[1], self.stop)
        return self._fit(Data([(X, y.astype(np.float64), weight)], pooled=True, split=split))

    def fit_nodes(self, parts: Sequence[Any]) -> Self:
        """Learns from data that is apart: one (X_k, y_k) or (X_k, y_k, sample_weight_k) per node.

        By samples each part has its own rows; by features its own columns, and all have the same y (coefficients come
        in the order of the parts). split="auto" is by samples if the loss and the penalty allow that and all parts have
        as many columns.
        """
        rough = self._validated_parts(parts, "features", numeric=True)
        split = self._split_of_parts(parts, self._objective(rough))
        return self._fit(self._validated_parts(parts, split, numeric=True))

    def _fit(self, data: Data) -> Self:
        objective = self._objective(data)
        result = self._solve(data, objective, self._start(data.n_variables(objective)))
        self.coef_, self.intercept_ = self._model(result, objective)
        self.n_iter_ = max(result.rounds, 1)
        self.dual_gap_ = objective.unit * result.gap
        self.split_, self.result_ = data.split, result
        self._unit, self._variables = objective.unit, [result.x]
        return self

    def predict(self, X: AnyArray) -> Vector:
        """X w + b."""
        return np.asarray(self._scores(X))


class Ridge(NetworkRegressor):
    """min |y - Xw - b|^2 + alpha |w|^2, as `sklearn.linear_model.Ridge`, over a network.

    copy_X and solver are accepted and mean nothing here. One target only.
    """

    def __init__(
        self, alpha: float = 1.0, *, fit_intercept: bool = True, copy_X: bool = True, max_iter: int | None = None,
        tol: float = 1e-6, solver: str = "auto", positive: bool = False, random_state: Any = None, n_nodes: int = 16,
        topology: Any = "ring", split: str = "auto", max_rounds: int = 10_000, local_passes: int | None = None,
        stop: str = "gap", runtime: str = "simulation", n_jobs: int | None = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.copy_X = copy_X
        self.max_iter = max_iter
        self.tol = tol
        self.solver = solver
        self.positive = positive
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
        penalty = net(0.0, positive=self.positive)
        return Objective(
            "squared",
            penalty,
            number(self.alpha, "alpha"),
            intercept="free" if self.fit_intercept else "none",
            unit=2.0,
        )


class ElasticNet(NetworkRegressor):
    """min 1/(2m) |y - Xw - b|^2 + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2), as scikit-learn's, over a network.

    With sample weights m is their sum. precompute, copy_X and selection are accepted and mean nothing here.
    """

    def __init__(
        self, alpha: float = 1.0, *, l1_ratio: float = 0.5, fit_intercept: bool = True, precompute: Any = False,
        max_iter: int | None = None, copy_X: bool = True, tol: float = 1e-6, warm_start: bool = False,
        positive: bool = False, random_state: Any = None, selection: str = "cyclic", n_nodes: int = 16,
        topology: Any = "ring", split: str = "auto", max_rounds: int = 10_000, local_passes: int | None = None,
        stop: str = "gap", runtime: str = "simulation", n_jobs: int | None = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.precompute = precompute
        self.max_iter = max_iter
        self.copy_X = copy_X
        self.tol = tol
        self.warm_start = warm_start
        self.positive = positive
        self.random_state = random_state
        self.selection = selection
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
        return net_objective(self, data, self.alpha, self.l1_ratio)


def net_objective(estimator: Any, data: Data, alpha: float, l1_ratio: float) -> Objective:
    """That of the elastic net: everything times the sum of the weights, so that the loss is unscaled."""
    total = data.total_weight
    penalty = net(l1_ratio, positive=estimator.positive)
    return Objective(
        "squared",
        penalty,
        number(alpha, "alpha") * total,
        intercept="free" if estimator.fit_intercept else "none",
        unit=1.0 / total if total > 0 else 1.0,
    )


class Lasso(ElasticNet):
    """min 1/(2m) |y - Xw - b|^2 + alpha |w|_1, as `sklearn.linear_model.Lasso`, over a network.

    With sample weights m is their sum. precompute, copy_X and selection are accepted and mean nothing here. A plain L1
    penalty can be split by features only.
    """

    def __init__(
        self, alpha: float = 1.0, *, fit_intercept: bool = True, precompute: Any = False, copy_X: bool = True,
        max_iter: int | None = None, tol: float = 1e-6, warm_start: bool = False, positive: bool = False,
        random_state: Any = None, selection: str = "cyclic", n_nodes: int = 16, topology: Any = "ring",
        split: str = "auto", max_rounds: int = 10_000, local_passes: int | None = None, stop: str = "gap",
        runtime: str = "simulation", n_jobs: int | None = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(
            alpha, l1_ratio=1.0, fit_intercept=fit_intercept, precompute=precompute, copy_X=copy_X, max_iter=max_iter,
            tol=tol, warm_start=warm_start, positive=positive, random_state=random_state, selection=selection,
            n_nodes=n_nodes, topology=topology, split=split, max_rounds=max_rounds, local_passes=local_passes,
            stop=stop, runtime=runtime, n_jobs=n_jobs, verbose=verbose,
        )  # fmt: skip


class LinearSVR(NetworkRegressor):
    """min C sum_i s_i loss(y_i, x_i.w + b) + (|w|^2 + (b/intercept_scaling)^2)/2, as `sklearn.svm.LinearSVR`.

    loss is "epsilon_insensitive" or "squared_epsilon_insensitive". As in scikit-learn the intercept is penalised. dual
    is accepted and means nothing here. Both losses are split by samples.
    """

    def __init__(
        self, *, epsilon: float = 0.0, tol: float = 1e-6, C: float = 1.0, loss: str = "epsilon_insensitive",
        fit_intercept: bool = True, intercept_scaling: float = 1.0, dual: Any = "auto", verbose: int = 0,
        random_state: Any = None, max_iter: int | None = None, n_nodes: int = 16, topology: Any = "ring",
        split: str = "auto", max_rounds: int = 10_000, local_passes: int | None = None, stop: str = "gap",
        runtime: str = "simulation", n_jobs: int | None = None,
    ) -> None:  # fmt: skip
        self.epsilon = epsilon
        self.tol = tol
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.dual = dual
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
        losses = {
            "epsilon_insensitive": EpsilonInsensitiveLoss,
            "squared_epsilon_insensitive": SquaredEpsilonInsensitiveLoss,
        }
        if self.loss not in losses:
            raise InvalidInput(f"loss must be {' or '.join(map(repr, losses))}, got {self.loss!r}")
        return Objective(
            losses[self.loss](number(self.epsilon, "epsilon")),
            net(0.0),
            1.0,
            weight=number(self.C, "C", positive=True),
            intercept="penalised" if self.fit_intercept else "none",
            intercept_scaling=number(self.intercept_scaling, "intercept_scaling", positive=True),
        )


class GLMRegressor(NetworkRegressor):
    """min sum_i s_i loss(y_i, x_i.w + b) + alpha penalty(w), for every regression loss of the catalogue.

    loss: "squared", "huber", "epsilon_insensitive", "squared_epsilon_insensitive", "quantile", or a `Loss` with its own
    parameter, such as `glmesh.functions.HuberLoss(delta=1.0)`. penalty: "l2", "l1", "elasticnet" (with l1_ratio), or a
    `Separable` such as `GroupLasso(groups)`, `NonNegative()` or `L2(lo=-1, hi=1)`. Nothing is averaged over samples.
    """

    def __init__(
        self, loss: str | Loss = "squared", penalty: str | Separable = "l2", *, alpha: float = 1.0,
        l1_ratio: float | None = None, fit_intercept: bool = True, warm_start: bool = False, tol: float = 1e-6,
        max_iter: int | None = None, random_state: Any = None, n_nodes: int = 16, topology: Any = "ring",
        split: str = "auto", max_rounds: int = 10_000, local_passes: int | None = None, stop: str = "gap",
        runtime: str = "simulation", n_jobs: int | None = None, verbose: int = 0,
    ) -> None:  # fmt: skip
        self.loss = loss
        self.penalty = penalty
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
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
        return general(self, classifies=False)


def general(estimator: Any, *, classifies: bool) -> Objective:
    """The objective of the estimators of our own."""
    from glmesh.functions import LOSSES

    loss = estimator.loss
    kinds = [name for name, kind in LOSSES.items() if kind.classifies is classifies]
    if (loss if isinstance(loss, str) else getattr(loss, "name", None)) not in kinds:
        raise InvalidInput(f"loss must be one of {', '.join(kinds)}, or such a Loss; got {loss!r}")
    return Objective(
        loss,
        estimator.penalty,
        number(estimator.alpha, "alpha"),
        estimator.l1_ratio,
        intercept="free" if estimator.fit_intercept else "none",
    )
