"""Rows of a problem, dealt out to the nodes that are to hold them, whichever way the problem is split."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from glmesh.core import Setup
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.linalg import Columns
from glmesh.problem import DataSummary, NodeData, Partition, Problem, spread
from glmesh.types import Array, Indices, SampleMatrix, Vector

Dealt = tuple[list[SampleMatrix], list[Vector], list[Vector]]  # X, y and sample weights of each node


def refuse_features(problem: Problem, name: str) -> None:
    """Raise UnsuitablePair if nodes hold features apart from each other; `name` is the method's, for the message."""
    if problem.spec.split == "features" and (not (problem.pooled and problem.holds_all)):
        raise UnsuitablePair(
            f"{name} needs nodes that hold rows, and here each holds features. Use Cola with another acceleration, or "
            "Problem.from_nodes(..., split='samples')"
        )


def deal(setup: Setup) -> Partition:
    """Return which node is to hold which samples, as a Partition; samples that nodes hold already stay with them."""
    problem, loss = setup.problem, setup.problem.spec.loss
    if problem.pooled and loss.compares_rows and setup.n_nodes > 1:
        raise UnsuitablePair(
            f"the {loss.name} loss compares the rows of a node with each other: pooled rows cannot be dealt out to "
            f"{setup.n_nodes} nodes. Use Problem.from_nodes with one part per stratum, or n_nodes=1 for one stratum"
        )
    if problem.dealt is not None:
        return problem.dealt
    if problem.pooled:
        return spread(_loads(problem.parts[0]), setup.n_nodes, setup.partition, setup.seed, "samples")
    if not isinstance(setup.partition, str) or setup.partition != "shuffled":
        raise InvalidInput("the problem's data is already apart, on its nodes; partition= goes with Problem.glm")
    ends = np.cumsum([part.m for part in problem.parts])
    return Partition.of_lists(np.split(np.arange(ends[-1]), ends[:-1]))


def rows_of(problem: Problem, partition: Partition, ids: Indices, summary: DataSummary | None) -> Dealt:
    """Return (rows, targets, weights) of each of the nodes with ids `ids`, as three lists.

    For node k they have shapes (m_k, p), (m_k,) and (m_k,). Targets of a classification are -1 and 1. `ids` are
    ascending without a gap; `summary` is what nodes have agreed on of data that they hold apart, None: the data is
    pooled.
    """
    if summary is not None:
        parts = [problem.parts[int(k)] for k in ids]
        for k, part in zip(ids.tolist(), parts, strict=True):
            part.check(summary, k)
        X = [_by_rows(part.columns.widen(summary.width)) for part in parts]
        return X, *targets_of(problem, partition, ids, summary)
    data, own, starts = problem.parts[0], _held(problem, partition, ids), partition.starts[ids[0] : ids[-1] + 2]
    matrix = _by_rows(data.columns) if problem.spec.split == "samples" else _transposed(data.columns)
    if len(own) < data.m or not np.array_equal(own, np.arange(data.m)):
        matrix = matrix[own]
    spans = [slice(a, b) for a, b in pairwise((starts - starts[0]).tolist())]
    return [matrix[span] for span in spans], *targets_of(problem, partition, ids, summary)


def targets_of(
    problem: Problem, partition: Partition, ids: Indices, summary: DataSummary | None
) -> tuple[list[Vector], list[Vector]]:
    """Return (targets, weights) of each of the nodes with ids `ids`, two lists of arrays of shape (m_k,).

    The arguments are those of `rows_of`.
    """
    if summary is not None:
        parts = [problem.parts[int(k)] for k in ids]
        return [part.targets(summary) for part in parts], [part.weight for part in parts]
    data, own, starts = problem.parts[0], _held(problem, partition, ids), partition.starts[ids[0] : ids[-1] + 2]
    y, weight = data.targets(problem.summary)[own], data.weight[own]
    spans = [slice(a, b) for a, b in pairwise((starts - starts[0]).tolist())]
    return [y[span] for span in spans], [weight[span] for span in spans]


def _held(problem: Problem, partition: Partition, ids: Indices) -> Indices:
    """Return where the samples of the nodes `ids` are among those samples of pooled data that this process holds.

    They are numbers of samples, node after node.
    """
    starts = partition.starts[ids[0] : ids[-1] + 2]
    if problem.dealt is not None:
        return np.asarray(np.arange(starts[0], starts[-1]) - partition.starts[problem.first])
    return np.asarray(partition.order[starts[0] : starts[-1]])


def clusters_of(problem: Problem, ids: Indices) -> list[Array] | None:
    """Return the labels of clusters of each of the nodes with ids `ids`, arrays of shape (m_k,); None: there are none.

    They are of data that nodes hold apart.
    """
    found = [] if problem.pooled else [problem.parts[int(k)].clusters for k in ids]
    return [one for one in found if one is not None] or None


def rows_of_part(part: NodeData, summary: DataSummary, node: int) -> tuple[SampleMatrix, Vector, Vector]:
    """Return (rows, targets, weights) of the node with id `node`, which holds its data apart from others.

    Shapes are (m_k, p), (m_k,) and (m_k,). `summary` is what all nodes have agreed on.
    """
    part.check(summary, node)
    return _by_rows(part.columns.widen(summary.width)), part.targets(summary), part.weight


def all_rows(problem: Problem) -> Dealt | None:
    """Return (rows, targets, weights) of all nodes as three lists, whichever way the problem is split.

    Pooled data is one entry of each. None: this process does not hold all rows.
    """
    if not problem.holds_all:
        return None
    if problem.pooled:
        data = problem.parts[0]
        X = _by_rows(data.columns) if problem.spec.split == "samples" else _transposed(data.columns)
        return [X], [data.targets(problem.summary)], [data.weight]
    parts = [rows_of_part(part, problem.summary, k) for k, part in enumerate(problem.parts)]
    return [X for X, _, _ in parts], [y for _, y, _ in parts], [weight for _, _, weight in parts]


def plain(matrix: SampleMatrix) -> list[object]:
    """Return a matrix, dense or sparse, as a list of its shape and its arrays, for a digest to be taken of."""
    return [matrix.shape, matrix.indptr, matrix.indices, matrix.data] if sp.issparse(matrix) else [matrix]


def _loads(data: NodeData) -> Indices:
    """Return the number of nonzeros of each of the m samples of `data`, shape (m,)."""
    columns = data.columns
    if data.spec.split == "samples":
        return columns.nonzeros
    if columns.dense:
        return np.asarray(np.count_nonzero(columns.data.reshape(columns.n, columns.d), axis=0), dtype=np.int64)
    return np.bincount(columns.indices[columns.data != 0].astype(np.int64), minlength=columns.d)


def _by_rows(columns: Columns) -> SampleMatrix:
    """Return the transpose of a (d, n) matrix stored by columns: shape (n, d), contiguous or CSR, not copied."""
    if columns.dense:
        return columns.data.reshape(columns.n, columns.d)
    parts = columns.data, columns.indices.view(np.int32), columns.indptr.view(np.int64)
    return sp.csr_array(parts, shape=(columns.n, columns.d))


def _transposed(columns: Columns) -> SampleMatrix:
    """Return a (d, n) matrix stored by columns as one stored by rows, of the same shape: contiguous or CSR."""
    matrix = columns.to_scipy()
    return np.ascontiguousarray(matrix) if columns.dense else matrix.tocsr()


def unsuitable(setup: Setup) -> InvalidInput | None:
    """Return (not raise) the error with which a run on totals is refused, which says what would do; None: it is not.

    Options and penalty decide, not the data.
    """
    spec, plan = setup.problem.spec, setup.plan
    if isinstance(spec.penalty, list) or spec.penalty.as_table() is None:
        return UnsuitablePair(
            "totals are for one penalty with a term per coefficient (L1, L2, elastic net, boxes), and this one is "
            "another. Use Cola with another acceleration"
        )
    if any(entry.model == "freeze" for entry in plan.leave):
        return InvalidInput(
            "a node that leaves takes its rows along where nodes make totals; let the plan say model='reset', or use "
            "Cola(acceleration='momentum'), which can count a frozen share"
        )
    if any(entry.theta is not None for entry in plan.straggler):
        return InvalidInput("a straggler's theta is for methods with a local solver; give it a delay instead")
    if any(entry.delay for entry in plan.straggler) and setup.timing is None:
        return InvalidInput("a straggler's delay needs a clock: give network=Network(...), or a theta instead")
    return None
