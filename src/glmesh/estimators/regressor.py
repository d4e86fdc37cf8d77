"""The base of all regressors: one linear function, learned from pooled data or from data that is apart."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from glmesh.engine.solve import solve
from glmesh.estimators.base import NetworkEstimator, run_options, variables_of
from glmesh.estimators.objective import TrainingData
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
