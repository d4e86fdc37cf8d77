"""Data of one node, or of all nodes pooled, and its part of f(Ax) + g(x)."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from glmesh.contract import Column, Contract, DataTable, fit_features
from glmesh.errors import InvalidData, InvalidInput
from glmesh.functions import Anchored, ConjugateOf, Profiled, Separable, Smooth, Squared
from glmesh.functions.row_losses import RowLoss
from glmesh.linalg import Columns
from glmesh.problem.clusters import cluster_numbers
from glmesh.problem.named import Names, named_matrix
from glmesh.problem.spec import ProblemSpec
from glmesh.problem.summary import DataSummary
from glmesh.types import Data, Indices, Vector
from glmesh.validation import LARGEST, are_usable, is_missing, unusable


@dataclass(frozen=True, eq=False)
class CompositeObjective:
    """An objective f(Ax) + g(x): the columns of A (all, or those of one node) with the functions f and g.

    `columns` is A of shape (d, n), `f` a smooth function of d numbers, `g` a separable function of n numbers.
    """

    columns: Columns  # A, or A_k: (d, n)
    f: Smooth  # smooth part, a function of d numbers
    g: Separable  # separable part, a function of n numbers


class NodeData:
    """Data of one node, or of all nodes pooled, as the user has it: columns of X, targets and sample weights.

    `m` is the number of samples and `p` that of features held here; `where` names the node in error messages. `names`
    are the names of the features, None if they have none; `clusters`, shape (m,), are numbers, equal for rows
    that may depend on each other, None if there are none.
    """

    clusters: Indices | None = None

    def __init__(
        self,
        spec: ProblemSpec,
        X: Data,
        y: ArrayLike | None,
        sample_weight: ArrayLike | None,
        where: str = "",
        names: Names = None,
    ) -> None:
        """Check and store the data of a node: X, targets y and sample weights, None for weights 1.

        `spec` says loss, penalty and split; `where` names the node in messages, `names` its features (None: unnamed).
        """
        self.spec = spec
        self.where = where
        X, own = named_matrix(X, f"X{where}")
        self.names: Names = own or names
        self.columns = Columns.of(X, rows=spec.split == "samples", name=f"X{where}")
        self.m = self.columns.n if spec.split == "samples" else self.columns.d
        self.p = self.columns.d if spec.split == "samples" else self.columns.n
        self._set_targets(y, sample_weight)

    def _set_targets(self, y: ArrayLike | None, sample_weight: ArrayLike | None) -> None:
        """Set the attributes `y` and `weight`, both of shape (m,) for m samples.

        Weights are 1 if `sample_weight` is None. Raise InvalidData for another length, for values that are not finite,
        and for negative weights.
        """
        where = self.where
        self.y = _vector(y, f"y{where}")
        if len(self.y) != self.m:
            raise InvalidData(f"X{where} has {self.m} rows but y has {len(self.y)} values")
        self.weight = np.ones(self.m) if sample_weight is None else _vector(sample_weight, f"sample_weight{where}")
        if len(self.weight) != self.m:
            raise InvalidData(f"X{where} has {self.m} rows but sample_weight has {len(self.weight)} values")
        if (self.weight < 0).any():
            raise InvalidData(f"sample_weight{where} has a negative value at {int(np.argmax(self.weight < 0))}")

    def with_numbered(self, clusters: Indices | None) -> NodeData:
        """Return a copy of this data with the numbers of clusters that another one had, without a check."""
        new = copy.copy(self)
        new.clusters = clusters
        return new

    def with_targets(self, y: ArrayLike, sample_weight: ArrayLike) -> NodeData:
        """Return a copy of this data with other targets and sample weights, each of shape (m,); columns are shared.

        y are the targets.
        """
        new = copy.copy(self)
        new._set_targets(y, sample_weight)
        return new

    def with_clusters(self, labels: ArrayLike) -> NodeData:
        """Return a copy of this data whose rows have the labels of clusters, shape (m,); columns are shared.

        Rows with equal labels may depend on each other. Raise InvalidData for labels that `cluster_numbers` refuses.
        """
        new = copy.copy(self)
        new.clusters = cluster_numbers(labels, self.m, f"clusters{self.where}")
        return new

    @staticmethod
    def restored(
        spec: ProblemSpec, columns: Columns, y: Vector, weight: Vector, where: str, names: Names = None
    ) -> NodeData:
        """Return a NodeData of these columns, targets and weights, which were checked earlier, without a check.

        It has no clusters.

        `where` names the node in messages; `names` are those of the features, None if they have none.
        """
        data = NodeData.__new__(NodeData)
        data.spec, data.columns, data.y, data.weight, data.where = spec, columns, y, weight, where
        data.names = None if names is None else tuple(names)
        by_samples = spec.split == "samples"
        data.m, data.p = (columns.n, columns.d) if by_samples else (columns.d, columns.n)
        return data

    def with_spec(self, spec: ProblemSpec) -> NodeData:
        """Return a copy of this data under another specification (loss, penalty) with an equal split.

        The arrays are shared.
        """
        new = copy.copy(self)
        new.spec = spec
        return new

    def summary(self) -> DataSummary:
        """Return the DataSummary that the other nodes must know: width of the data, range of targets, sum of weights.

        Split by features, where all nodes must have equal targets and weights, it also has a digest of them.
        """
        if self.spec.split == "samples":
            return DataSummary.of(self.p, self.y, self.weight)
        digest = hashlib.blake2b(self.y.tobytes() + self.weight.tobytes(), digest_size=6).digest()
        return DataSummary.of(self.m, self.y, self.weight, y_digest=int.from_bytes(digest, "little"))

    def grown(self, X: Data, y: ArrayLike | None, sample_weight: ArrayLike | None) -> NodeData:
        """Return this data with X appended: new features (columns), or new samples (rows) with labels and weights.

        y and sample_weight must be None for features; for samples y is needed, and weights are 1 if None.
        """
        where = f"{self.where} (new)" if self.where else " (new)"
        if self.clusters is not None:
            raise InvalidInput(f"data{self.where} has clusters, and new samples would have none; start anew")
        if self.spec.split == "features":
            if y is not None or sample_weight is not None:
                raise InvalidInput("new features come without y and sample_weight: the samples are the same")
            y, sample_weight = self.y, self.weight
        elif y is None:
            raise InvalidInput("new samples need their labels: add_columns(node, X, y)")
        X, names = self._in_order(X, f"X{where}")
        more = NodeData(self.spec, X, y, sample_weight, where, names)
        if more.columns.d > self.columns.d or (more.columns.d < self.columns.d and more.columns.dense):
            kind = "rows" if self.spec.split == "features" else "columns"
            raise InvalidData(f"X{where} has {more.columns.d} {kind}, the problem has {self.columns.d}")
        columns = Columns.join([self.columns, more.columns.widen(self.columns.d)])
        if self.spec.split == "features":
            both = self.names + more.names if self.names and more.names else None
            return NodeData.restored(self.spec, columns, self.y, self.weight, self.where, both)
        labels, weights = np.concatenate([self.y, more.y]), np.concatenate([self.weight, more.weight])
        return NodeData.restored(self.spec, columns, labels, weights, self.where, self.names)

    def _in_order(self, X: Data, name: str) -> tuple[Data, Names]:
        """Return (X, names of its columns) for new data X.

        Split by samples, with columns in the order of this data's names. The names are a tuple of texts, None if X has
        none. Messages call X `name`.
        """
        X, names = named_matrix(X, name)
        if not (names and self.names and self.spec.split == "samples"):
            return X, names
        contract = Contract("", tuple(Column(one) for one in self.names))
        return fit_features(DataTable(name, np.asarray(X), names), contract).table.X, self.names

    def shrunk(self, kept: Indices) -> NodeData:
        """Return this data with only the samples (or, split by features, the features) `kept`, in that order.

        `kept` holds their indices.
        """
        by_samples = self.spec.split == "samples"
        rows = kept if by_samples else slice(None)
        names = self.names if by_samples or self.names is None else tuple(self.names[k] for k in kept)
        new = NodeData.restored(self.spec, self.columns.take(kept), self.y[rows], self.weight[rows], self.where, names)
        new.clusters = None if self.clusters is None else self.clusters[rows]
        return new

    def compose(self, summary: DataSummary, node: int | None = None) -> CompositeObjective:
        """Return the objective f(Ax) + g(x) over the columns held here, a CompositeObjective.

        `summary` is the merged summary of all nodes' data; `node` chooses the penalty where each node has its own, None
        for pooled data.
        """
        self._check(summary)
        return CompositeObjective(self.matrix(summary), *self.functions(summary, node))

    def check(self, summary: DataSummary, node: int | None = None) -> None:
        """Raise InvalidData or InvalidInput if this data, the other nodes' and the penalty do not make one problem.

        `summary` is the merged summary of all nodes' data; `node` chooses the penalty where each node has its own, None
        for pooled data.
        """
        self._check(summary)
        self.targets(summary)
        self.spec.loss.check_range(summary.y_min, summary.y_max)
        by_samples = self.spec.split == "samples"
        self.spec.penalty_of(node).check_size(summary.width if by_samples else self.columns.n)

    def targets(self, summary: DataSummary) -> Vector:
        """Return the targets y, shape (m,); in a classification as -1 and 1.

        The smaller label of all nodes becomes -1, the larger 1. `summary` is the merged summary of all nodes' data.
        """
        spec = self.spec
        spec.loss.check(self.y, self.where)
        return _signs(self.y, *summary.classes, spec.loss.name, self.where) if spec.loss.classifies else self.y

    def loss_at(self, coef: Vector, intercept: float | Vector, summary: DataSummary) -> float:
        """Return the weighted sum of the losses of this node's samples at coefficients (p,) and intercept.

        A loss of C linear predictors has coefficients (C, p) and intercepts (C,). `summary` is the merged summary of
        all nodes' data.
        """
        if coef.ndim == 2:
            z = np.column_stack([self.columns.transposed_dot(np.ascontiguousarray(row[: self.p])) for row in coef])
            z += intercept
        else:
            z = self.columns.transposed_dot(np.ascontiguousarray(coef[: self.p])) + intercept
        return self.spec.loss.total(self.targets(summary), z, self.weight)

    def _check(self, summary: DataSummary) -> None:
        """Raise InvalidData unless this node's data fits `summary`, the merged summary of all nodes' data."""
        by_features = self.spec.split == "features"
        if by_features and not summary.same_width:
            other = summary.width if summary.width != self.m else summary.least_width
            raise InvalidData(
                f"split by features every node holds the same rows; X{self.where} has {self.m}, another node {other}"
            )
        if by_features and not summary.same_targets:
            raise InvalidData("split by features every node holds the same y and sample_weight; they differ")
        if not by_features and self.columns.dense and self.p != summary.width:
            raise InvalidData(
                f"X{self.where} has {self.p} columns, another node has {summary.width}; features must be the same"
            )

    def matrix(self, summary: DataSummary) -> Columns:
        """Return the columns of A that are held here, shape (d, n): features of d samples, or samples of d features.

        They are the data's columns, scaled by roots of weights (split by features), or with a row for the intercept
        (split by samples). `summary` is the merged DataSummary of all nodes' data.
        """
        if self.spec.split == "features":
            return self.columns if self._root is None else self.columns.scale_rows(self._root)
        columns = self.columns.widen(summary.width)
        return columns.with_row(self._intercept_entry(summary)) if self.spec.fit_intercept else columns

    @property
    def _root(self) -> Vector | None:
        """Square roots of the m sample weights, shape (m,), by which the rows of the data are scaled for the squared
        loss.

        Then the gradient of the loss has the Lipschitz constant 1 whatever the weights. None where all weights are 1,
        or the loss is not the squared one.
        """
        weighted = self.spec.loss.scales_rows and (self.weight != 1.0).any()
        return np.sqrt(self.weight) if weighted else None

    def _intercept_entry(self, summary: DataSummary) -> float:
        """Return the number, a float, that every sample has in the row of A for the intercept (split by samples).

        With that number the pull that holds the intercept near its anchor is a tenth as strong as the losses. `summary`
        is the merged DataSummary of all nodes' data.
        """
        spread = summary.y_max - summary.y_min
        slopes_only = not self.spec.loss.classifies and not self.spec.loss.is_curved
        bend = summary.weight / (spread if slopes_only and spread > 0 else 1.0)
        return float(np.sqrt(10.0 * self.spec.row_l2() / bend)) if bend > 0 else 1.0

    def functions(self, summary: DataSummary, node: int | None = None) -> tuple[Smooth, Separable]:
        """Return the functions (f, g) of the objective f(Ax) + g(x) over the columns held here.

        `summary` is the merged summary of all nodes' data; `node` chooses the penalty where each node has its own, None
        for pooled data. A is the data matrix, x are the variables of all nodes.
        """
        spec, y = self.spec, self.targets(summary)
        penalty = spec.penalty_of(node)
        if spec.split == "samples":
            spec.require_form()
            table = penalty.as_table()
            assert table is not None  # checked when the specification was made
            table.check_size(summary.width)
            dual = spec.loss.dual(y, self.weight)
            if spec.fit_intercept:
                return Anchored(table, summary.width, self._intercept_entry(summary), spec.anchor), dual
            return ConjugateOf(table), dual
        penalty.check_size(self.columns.n)
        root = self._root
        if spec.loss.scales_rows:
            f: RowLoss | None = Squared(y if root is None else y * root)
        else:
            f = spec.loss.smooth(y, self.weight)
        assert f is not None  # a loss that is not smooth is refused by features when the specification is made
        return (Profiled(f, np.ones(self.m) if root is None else root) if spec.fit_intercept else f), penalty


def _vector(values: Data, name: str) -> Vector:
    """Return `values` as a float64 vector of shape (m,), one entry per sample.

    Raise InvalidData, which calls the values `name`, for another shape or a value that is not a finite number.
    """
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
            first = next((str(one) for one in array.tolist() if isinstance(one, str) or is_missing(one)), str(array[0]))
            raise InvalidData(f"{name} holds {first!r}; numbers are needed here, encode labels as -1 and 1 first")
        array = numbers
    if array.dtype.kind not in "biuf":
        raise InvalidData(f"{name} holds {array.dtype}; real numbers are needed")
    array = array.astype(np.float64)
    if not are_usable(array):
        at = int(np.argmax(~(np.abs(array) <= LARGEST)))
        raise InvalidData(unusable(float(array[at]), f"{name} holds", f"at position {at}"))
    return array


def _signs(y: Vector, low: float, high: float, loss: str, where: str) -> Vector:
    """Return y, shape (m,), with -1 for the label `low` and +1 for the label `high`.

    Raise InvalidData for any other label; the message names the loss and the node (`where`).
    """
    if not low < high:
        raise InvalidData(f"y holds one class only ({high:g}); the {loss} loss needs two")
    strange = (y != low) & (y != high)
    if strange.any():
        raise InvalidData(
            f"y{where} holds {y[int(np.argmax(strange))]:g} besides {low:g} and {high:g}; the {loss} loss needs two "
            "classes (for more, train one against the rest)"
        )
    return np.where(y == high, 1.0, -1.0)
