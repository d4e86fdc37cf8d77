"""Base of regressors whose loss may be that of a family of distributions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from glmesh.errors import InvalidData, InvalidInput
from glmesh.estimators.clusters import clustered, of_parts, of_rows
from glmesh.estimators.inference import InferenceMixin
from glmesh.estimators.objective import TrainingData
from glmesh.estimators.regressor import NetworkRegressor
from glmesh.estimators.trials import shares
from glmesh.functions import Family
from glmesh.problem.named import refuse_permuted
from glmesh.problem.offsets import checked_offset
from glmesh.types import Data, Vector


class FamilyRegressor(InferenceMixin, NetworkRegressor):
    """Base of regressors whose loss may be that of a family: offsets, predictions of the mean, deviance explained."""

    @abstractmethod
    def _family(self) -> Family | None:
        """Return the family; None: the loss is none of a family."""

    def fit(
        self,
        X: Data,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        offset: ArrayLike | None = None,
        *,
        rows: str = "all",
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Learn from pooled data, dealt out over a simulated network.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,) or (n_samples, 2)
            Targets; with family="binomial" shares of successes between 0 and 1, or two columns: numbers of successes
            and of failures.
        sample_weight : array of shape (n_samples,) or None, default None
            Factors >= 0 of the samples' losses; None: 1. With a family they are prior weights, which divide the
            variance; with family="binomial" numbers of trials.
        offset : array of shape (n_samples,) or None, default None
            Numbers that are added to the linear predictor, such as the logarithm of an exposure; only with a family.
        rows : {"all", "own"}, default "all"
            With runtime="mpi": whether every rank passes all rows (they are compared) or rows of its own, which are
            put together in the order of ranks.
        clusters : array of shape (n_samples,) or None, default None
            Labels of clusters of rows that may depend on each other, for standard errors of kind "cluster".

        Returns
        -------
        self
            The fitted estimator.
        """
        refuse_permuted(X, clusters, "clusters", "X")
        numbers = of_rows(clusters, y, rows)
        with self._training(lambda: self._validated_rows(X, y, sample_weight, offset), rows) as data:
            self._fit(data)
        self.result_ = clustered(self.result_, None if numbers is None else [numbers])
        return self

    def _validated_rows(
        self, X: Data, y: ArrayLike, sample_weight: ArrayLike | None, offset: ArrayLike | None
    ) -> TrainingData:
        """Check pooled data and an offset, each of whose arrays has an entry per row; return it as TrainingData."""
        counts = y
        y, sample_weight = shares(self._family(), y, sample_weight)
        if y is not counts:
            refuse_permuted(X, counts, "y", "X")
        refuse_permuted(X, offset, "offset", "X")
        data = self._validated(X, y, sample_weight, y_numeric=True)
        return data if offset is None else self._offset(data, [offset])

    def _offset(self, data: TrainingData, offsets: Sequence[ArrayLike]) -> TrainingData:
        """Return `data` with an offset for each of its parts; raise InvalidData for one that does not fit."""
        if self._family() is None:
            raise InvalidInput("an offset goes with family=...; a loss alone has none")
        checked = []
        for k, (given, (X, _, _)) in enumerate(zip(offsets, data.parts, strict=True)):
            where = "" if data.pooled else f" of part {k}"
            checked.append(checked_offset(given, X.shape[0], f"offset{where}"))
        return replace(data, offsets=checked)

    def fit_nodes(
        self, parts: Sequence[tuple[Data, ...]], *, clusters: Sequence[ArrayLike] | str | None = None
    ) -> Self:
        """Learn from data that each node keeps to itself; only messages to neighbours leave a node.

        Parameters
        ----------
        parts : sequence of (X_k, y_k), (X_k, y_k, sample_weight_k) or (X_k, y_k, sample_weight_k, offset_k)
            Data of node k; a sample_weight_k of None is 1 for each row. Split by samples, which split="auto" always
            is, each part has its own rows; with split="features" its own columns, and all have the same y
            (coefficients come in the order of the parts). Columns of data frames go by name: split by samples they are
            put in the order of the first part, split by features no two parts may have a name in common.
        clusters : sequence of arrays of shape (m_k,), "site" or None, default None
            Labels of clusters inside of each part, for standard errors of kind "cluster"; equal labels of two parts are
            two clusters. "site": the rows of each part are one cluster.

        Returns
        -------
        self
            The fitted estimator.
        """
        numbers = of_parts(clusters, parts)
        with self._training(lambda: self._validated_nodes(parts)) as data:
            self._fit(replace(data, clusters=numbers))
        return self

    def _validated_nodes(self, parts: Sequence[tuple[Data, ...]]) -> TrainingData:
        """Check parts that may have an offset as a fourth entry; return them as TrainingData."""
        parts = [self._shares_of_part(k, part) for k, part in enumerate(parts)]
        longer = [isinstance(part, tuple | list) and len(part) == 4 for part in parts]
        if not any(longer):
            return self._validated_parts(parts, numeric=True)
        if not all(longer):
            raise InvalidData(
                f"part {longer.index(False)} has no offset and others have; give all of them one, or none"
            )
        for k, (X, *_, offset) in enumerate(parts):
            refuse_permuted(X, offset, f"offset of part {k}", f"X of part {k}")
        data = self._validated_parts([part[:3] for part in parts], numeric=True)
        return self._offset(data, [part[3] for part in parts])

    def _shares_of_part(self, k: int, part: tuple[Data, ...]) -> tuple[Data, ...]:
        """Return part k with shares and numbers of trials, if its targets are successes and failures."""
        if not isinstance(part, tuple | list) or len(part) < 2:
            return part
        y, weight = shares(self._family(), part[1], part[2] if len(part) > 2 else None, f"part {k}: ")
        return part if y is part[1] else (part[0], y, np.asarray(weight), *part[3:])

    def _fitted_family(self) -> Family | None:
        """Return the family of the fitted model, with what was estimated of it; None: the loss is none of a family."""
        family = self._family()
        result = getattr(self, "result_", None)
        statistics = getattr(self, "_statistics", None) if result is None else result.statistics
        return family if family is None or statistics is None else statistics.fitted.family

    def predict(self, X: Data, offset: ArrayLike | None = None) -> Vector:
        """Return the expected targets: X w + b or, with a family, the mean h(X w + b + offset), h the inverse link.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        offset : array of shape (n_samples,) or None, default None
            Numbers that are added to the linear predictor; None: 0.

        Returns
        -------
        array of shape (n_samples,)
            Predictions.
        """
        family = self._family()
        z = np.asarray(self._scores(X))
        if offset is not None:
            if family is None:
                raise InvalidInput("an offset goes with family=...; a loss alone has none")
            refuse_permuted(X, offset, "offset", "X")
            z = z + checked_offset(offset, len(z), "offset")
        return z if family is None else family.mean(z)

    def score(self, X: Data, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return how well predictions fit: R^2 or, with a family, the share of the deviance that is explained.

        Parameters
        ----------
        X : array, sparse matrix or data frame of shape (n_samples, n_features)
            Samples.
        y : array of shape (n_samples,), or (n_samples, 2) as `fit` takes it
            Targets.
        sample_weight : array of shape (n_samples,) or None, default None
            Weights of the samples; None: 1.

        Returns
        -------
        float
            1 minus the (deviance or squared) error of the predictions divided by that of the mean of y; at most 1.
        """
        family = self._fitted_family()
        if family is None:
            return float(super().score(X, y, sample_weight))
        y, sample_weight = shares(family, y, sample_weight)
        z, y = np.asarray(self._scores(X)), np.asarray(y, dtype=np.float64)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        family.check(y)
        null = family.predictor(np.full(len(y), np.average(y, weights=weight)))
        return 1.0 - family.total(y, z, weight) / family.total(y, null, weight)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        try:
            family = self._family()
            if family is not None:
                family.check(np.array([-1.0]))
        except InvalidData:
            tags.target_tags.positive_only = True
        except InvalidInput:  # `fit` says what is wrong with the parameters
            pass
        return tags
