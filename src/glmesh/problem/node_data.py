"""The data that somebody holds, a node or the whole pool, and its part of f(Ax) + g(x)."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from glmesh.errors import InvalidData, InvalidInput
from glmesh.functions import Anchored, ConjugateOf, Profiled, Separable, Smooth, Squared, SquaredLoss, Table
from glmesh.linalg.columns import Columns
from glmesh.problem.spec import Model
from glmesh.types import AnyArray, Indices, Vector


@dataclass(frozen=True, eq=False)
class CompositeObjective:
    """f(Ax) + g(x) over the columns that somebody holds: all of them, or one node's."""

    columns: Columns
    f: Smooth
    g: Separable


class NodeData:
    """The raw data of one holder (a node, or the whole pool), and what it must agree on with the others."""

    def __init__(self, model: Model, X: AnyArray, y: AnyArray, sample_weight: AnyArray, where: str = "") -> None:
        self.model = model
        self.where = where
        self.columns = Columns.of(X, rows=model.split == "samples", name=f"X{where}")
        self.m = self.columns.n if model.split == "samples" else self.columns.d
        self.p = self.columns.d if model.split == "samples" else self.columns.n
        self.y = _vector(y, f"y{where}")
        if len(self.y) != self.m:
            raise InvalidData(f"X{where} has {self.m} rows but y has {len(self.y)} values")
        self.weight = np.ones(self.m) if sample_weight is None else _vector(sample_weight, f"sample_weight{where}")
        if len(self.weight) != self.m:
            raise InvalidData(f"X{where} has {self.m} rows but sample_weight has {len(self.weight)} values")
        if (self.weight < 0).any():
            raise InvalidData(f"sample_weight{where} has a negative value at {int(np.argmax(self.weight < 0))}")

    @staticmethod
    def restored(model: Model, columns: Columns, y: Vector, weight: Vector, where: str) -> NodeData:
        """From the very parts of another."""
        data = NodeData.__new__(NodeData)
        data.model, data.columns, data.y, data.weight, data.where = model, columns, y, weight, where
        by_samples = model.split == "samples"
        data.m, data.p = (columns.n, columns.d) if by_samples else (columns.d, columns.n)
        return data

    def facts(self) -> Vector:
        """What the nodes must agree on, as numbers of which the network takes the maximum."""
        if self.model.split == "samples":
            shared = [float(self.p), 0.0]
        else:
            digest = hashlib.blake2b(self.y.tobytes() + self.weight.tobytes(), digest_size=6).digest()
            shared = [float(self.m), float(int.from_bytes(digest, "little"))]
        low, high = (self.y.min(), self.y.max()) if self.m else (np.inf, -np.inf)
        return np.array([shared[0], -shared[0], shared[1], -shared[1], high, -low, self.weight.sum()])

    def grown(self, X: AnyArray, y: AnyArray, sample_weight: AnyArray) -> NodeData:
        """With more columns (features, or samples with their labels and weights) behind those it has."""
        where = f"{self.where} (new)" if self.where else " (new)"
        if self.model.split == "features":
            if y is not None or sample_weight is not None:
                raise InvalidInput("new features come without y and sample_weight: the samples are the same")
            y, sample_weight = self.y, self.weight
        elif y is None:
            raise InvalidInput("new samples need their labels: add_columns(node, X, y)")
        more = NodeData(self.model, X, y, sample_weight, where)
        if more.columns.d > self.columns.d or (more.columns.d < self.columns.d and more.columns.dense):
            kind = "rows" if self.model.split == "features" else "columns"
            raise InvalidData(f"X{where} has {more.columns.d} {kind}, the problem has {self.columns.d}")
        return self._of(
            Columns.join([self.columns, more.columns.widen(self.columns.d)]),
            np.concatenate([self.y, more.y]),
            np.concatenate([self.weight, more.weight]),
        )

    def shrunk(self, kept: Indices) -> NodeData:
        """With these of its columns only."""
        return (
            self._of(self.columns.take(kept), self.y[kept], self.weight[kept])
            if self.model.split == "samples"
            else (self._of(self.columns.take(kept), self.y, self.weight))
        )

    def _of(self, columns: Columns, y: Vector, weight: Vector) -> NodeData:
        new = copy.copy(self)
        new.columns = columns
        if self.model.split == "samples":
            new.m, new.y, new.weight = columns.n, y, weight
        else:
            new.p = columns.n
        return new

    def settle(self, agreed: Vector, node: int | None = None) -> CompositeObjective:
        """The form of this holder's columns, once the network's maxima of the facts are known."""
        self._check(agreed)
        return CompositeObjective(self.matrix(agreed), *self.functions(agreed, node))

    def _check(self, agreed: Vector) -> None:
        model, width = self.model, int(agreed[0])
        if model.split == "features" and agreed[0] != -agreed[1]:
            other = width if width != self.m else int(-agreed[1])
            raise InvalidData(
                f"split by features every node holds the same rows; X{self.where} has {self.m}, another node {other}"
            )
        if model.split == "features" and agreed[2] != -agreed[3]:
            raise InvalidData("split by features every node holds the same y and sample_weight; they differ")
        if model.split == "samples" and self.columns.dense and self.p != width:
            raise InvalidData(
                f"X{self.where} has {self.p} columns, another node has {width}; features must be the same"
            )

    def matrix(self, agreed: Vector) -> Columns:
        """A, as far as it is held here."""
        if self.model.split == "features":
            return self.columns if self._root is None else self.columns.scale_rows(self._root)
        columns = self.columns.widen(int(agreed[0]))
        return columns.with_row(self._intercept_entry(agreed)) if self.model.fit_intercept else columns

    @property
    def _root(self) -> Vector | None:
        """sqrt(c), which goes into the rows of a weighted squared loss: then tau = 1 whatever the weights."""
        weighted = isinstance(self.model.loss, SquaredLoss) and (self.weight != 1.0).any()
        return np.sqrt(self.weight) if weighted else None

    def _intercept_entry(self, agreed: Vector) -> float:
        """Split by samples: so large that the anchor holds the intercept a tenth as much as the losses do."""
        penalty = self.model.penalty_of(None)
        l2 = penalty.strong_convexity if np.isfinite(penalty.strong_convexity) else 1.0
        spread = float(agreed[4] + agreed[5])
        slopes_only = not self.model.loss.classifies and not self.model.loss.is_curved
        bend = float(agreed[6]) / (spread if slopes_only and spread > 0 else 1.0)
        return float(np.sqrt(10.0 * l2 / bend)) if bend > 0 else 1.0

    def functions(self, agreed: Vector, node: int | None = None) -> tuple[Smooth, Separable]:
        """(f, g), as far as they are held here."""
        model, y = self.model, self.y
        if model.loss.classifies:
            y = _signs(self.y, -agreed[5], agreed[4], model.loss.name, self.where)
        penalty = model.penalty_of(node)
        if model.split == "samples":
            assert isinstance(penalty, Table)  # checked when the model was made
            width = int(agreed[0])
            penalty.check_size(width)
            dual = model.loss.dual(y, self.weight)
            if model.fit_intercept:
                return Anchored(penalty, width, self._intercept_entry(agreed), model.anchor), dual
            return ConjugateOf(penalty), dual
        penalty.check_size(self.columns.n)
        root = self._root
        if isinstance(model.loss, SquaredLoss):
            f: Smooth = Squared(y if root is None else y * root)
        else:
            f = model.loss.smooth(y, self.weight)  # type: ignore[assignment]
        if model.fit_intercept:
            f = Profiled(f, np.ones(self.m) if root is None else root)  # type: ignore[arg-type]
        return f, penalty


def _vector(values: AnyArray, name: str) -> Vector:
    array = values.toarray() if sp.issparse(values) else np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidData(f"{name} has shape {array.shape}; one number per sample is needed")
    if array.dtype.kind in "OUS":
        try:
            numbers = array.astype(np.float64) if array.dtype.kind == "O" else None
        except (TypeError, ValueError):
            numbers = None
        if numbers is None:
            first = str(array[0]) if len(array) else ""
            raise InvalidData(f"{name} holds {first!r}; numbers are needed here, encode labels as -1 and 1 first")
        array = numbers
    if array.dtype.kind not in "biuf":
        raise InvalidData(f"{name} holds {array.dtype}; real numbers are needed")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        at = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidData(f"{name} holds {'NaN' if np.isnan(array[at]) else 'infinity'} at position {at}")
    return array


def _signs(y: Vector, low: float, high: float, loss: str, where: str) -> Vector:
    """The smaller label is -1, the larger +1."""
    if not low < high:
        raise InvalidData(f"y holds one class only ({high:g}); the {loss} loss needs two")
    strange = (y != low) & (y != high)
    if strange.any():
        raise InvalidData(
            f"y{where} holds {y[int(np.argmax(strange))]:g} besides {low:g} and {high:g}; the {loss} loss needs two "
            "classes (for more, train one against the rest)"
        )
    return np.where(y == high, 1.0, -1.0)
