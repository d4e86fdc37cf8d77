"""Data that is read in parts, by the processes that host a run, and dealt out to the nodes that are to hold it.

Every process brings some rows; nobody ever holds all of them. Once it is known how many there are and how they are to
be spread, each row (or, split by features, the entries of each column) goes straight to the process of its node.
"""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from glmesh.errors import InvalidData, UnreadableFile
from glmesh.files import data_files
from glmesh.files.svmlight import IndexBase, first_index
from glmesh.functions import Loss, Separable
from glmesh.linalg import Columns
from glmesh.parallel import ProcessGroup
from glmesh.problem import DataSummary, NodeData, Partition, ProblemSpec, Shard, Split, spread
from glmesh.problem.offsets import hold_offset, with_offset
from glmesh.types import Indices, SampleMatrix, Vector

_NONE = np.iinfo(np.int32).max  # stands for the smallest index of a part without features


def load(
    path: str | PathLike[str], processes: ProcessGroup, *, target: str | int | None = None
) -> tuple[SampleMatrix, Vector]:
    """Read this process's part of a data file; return (X of shape (m_part, p_part), y of shape (m_part,)).

    The part is a file of its own if the name has "{rank}" in it, else a fraction of the lines. p_part is the number of
    columns that the rows of this part need; `scatter` widens X to the features of all parts.
    """
    X, y, _ = load_based(path, processes, target=target)
    return X, y


def load_based(
    path: str | PathLike[str],
    processes: ProcessGroup,
    *,
    target: str | int | None = None,
    index_base: IndexBase = "auto",
) -> tuple[SampleMatrix, Vector, int | None]:
    """Return (X, y, index base): this process's part of a data file, and where column indices of svmlight text begin.

    X has shape (m_part, p_part), y (m_part,). The base is 0 or 1, None for another kind of file. `index_base` "auto" is
    1, or 0 if any process's part uses a 0.
    """
    X, y, raw = data_files.load_part(path, processes.rank, processes.size, target=target)
    if sum(processes.all_gather([len(y)])) == 0:
        raise UnreadableFile(f"{path}: holds no samples, expected at least one; was it written to its end?")
    if raw:
        smallest = min(processes.all_gather([int(X.indices.min(initial=_NONE))]))
        if smallest == _NONE:
            raise UnreadableFile(f"{path}: no line has a feature; expected 'label index:value ...'")
        base = first_index(Path(path), smallest, index_base)
        indices = np.asarray(X.indices - base)
        X = sp.csr_array((X.data, indices, X.indptr), shape=(len(y), int(indices.max(initial=-1)) + 1))
    return X, y, base if raw else None


def shape_of(X: SampleMatrix, processes: ProcessGroup) -> tuple[int, int, int | None]:
    """Return (samples, features, nonzeros) over all processes together; nonzeros is None if any process's X is dense.

    X holds the samples of this process as rows.
    """
    shapes = processes.all_gather([(*X.shape, int(X.nnz) if sp.issparse(X) else None)])
    stored = None if any(one[2] is None for one in shapes) else sum(one[2] for one in shapes)
    return sum(one[0] for one in shapes), max(one[1] for one in shapes), stored


def scatter(
    X: SampleMatrix,
    y: ArrayLike,
    processes: ProcessGroup,
    *,
    n_nodes: int,
    partition: str | ArrayLike = "shuffled",
    seed: int = 0,
    loss: str | Loss = "squared",
    penalty: str | Separable = "l2",
    alpha: float = 1.0,
    l1_ratio: float | None = None,
    split: Split = "features",
    sample_weight: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    fit_intercept: bool = False,
) -> Shard:
    """Deal the samples of all processes out to the nodes that are to hold them; return this process's Shard.

    All processes call it, each with its own rows X of shape (m_part, p_part) and y of shape (m_part,). Together they
    get the problem that `Problem.glm` makes of all rows in the order of ranks. n_nodes, partition and seed are those of
    the run to come. `offset`, shape (m_part,), becomes the last column, whose coefficient is 1.
    """
    spec = ProblemSpec.of(loss, penalty, alpha, l1_ratio, split, fit_intercept)
    data = NodeData(spec, X, y, sample_weight, f" of rank {processes.rank}")  # refuses what is no data, before it moves
    sparse = any(processes.all_gather([sp.issparse(X)]))
    m, p, _ = shape_of(X, processes)
    if m == 0 or p == 0:
        raise InvalidData(f"X is empty: {m} rows, {p} columns")
    if not sparse and X.shape[1] != p:
        raise InvalidData(
            f"X of rank {processes.rank} has {X.shape[1]} columns, another {p}; features must be the same"
        )
    rows: SampleMatrix = sp.csr_array(X) if sparse else np.asarray(X, dtype=np.float64)
    if sparse and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    if sparse and rows.shape[1] != p:
        rows = sp.csr_array((rows.data, rows.indices, rows.indptr), shape=(len(data.y), p))
    if offset is not None:
        rows, p = with_offset(rows, offset, f"X of rank {processes.rank}")[0], p + 1
        spec = hold_offset(spec, p)
    by_samples = split == "samples"
    dealt = spread(_loads(rows, processes, by_samples=by_samples), n_nodes, partition, seed)
    hosts = _hosts(dealt, processes)
    labels, weights = processes.all_gather_rows([data.y]), processes.all_gather_rows([data.weight])
    before = sum(processes.all_gather([len(data.y)])[: processes.rank])
    if by_samples:
        mine, columns = _trade_rows(rows, before, hosts, processes)
        held = labels[columns], weights[columns]
    else:
        mine = _trade_columns(rows, hosts, processes)
        held = labels, weights
    summary = DataSummary.of(p if by_samples else m, labels, weights)
    own = NodeData.restored(spec, mine, *held, data.where)
    return Shard(own, summary, dealt, int(processes.local_blocks(n_nodes, processes.size)[0][0]))


def _loads(rows: SampleMatrix, processes: ProcessGroup, *, by_samples: bool) -> Indices:
    """Return how many nonzeros each column of the problem has over the rows of all processes, int array of shape (n,).

    Columns are samples if `by_samples`, else features; `rows` are this process's own samples.
    """
    counts = (rows != 0).sum(axis=1 if by_samples else 0)
    if by_samples:
        return np.asarray(processes.all_gather_rows([counts.astype(np.int64)]))
    total = processes.fold_out(processes.fold_in(np.zeros(rows.shape[1])) + counts)
    return total.astype(np.int64)


def _hosts(dealt: Partition, processes: ProcessGroup) -> list[Indices]:
    """Return one array per process, in the order of ranks: the numbers of the columns that the process is to hold.

    `dealt` says which node holds which columns; a process hosts consecutive nodes, and its columns come node after
    node.
    """
    nodes = processes.all_gather(
        [(int(ids[0]), int(ids[-1])) for ids in processes.local_blocks(dealt.n_nodes, processes.size)]
    )
    return [dealt.order[dealt.starts[first] : dealt.starts[last + 1]] for first, last in nodes]


def _trade_rows(
    rows: SampleMatrix, before: int, hosts: list[Indices], processes: ProcessGroup
) -> tuple[Columns, Indices]:
    """Send every sample to the process of its node; return (columns, numbers) of the samples that this one holds now.

    `rows` are the samples that this process had read, `before` is the number of the first of them among those of all
    processes; hosts[r] has the numbers of the samples that rank r is to hold. Column i of what is returned is sample
    numbers[i].
    """
    outgoing: list[Any] = []
    for wanted in hosts:
        place = np.flatnonzero((wanted >= before) & (wanted < before + rows.shape[0]))
        outgoing.append((place, Columns.of(rows[wanted[place] - before], rows=True)))
    arrived = processes.all_to_all(outgoing)
    places = np.concatenate([place for place, _ in arrived])
    return Columns.join([part for _, part in arrived]).take(np.argsort(places)), hosts[processes.rank]


def _trade_columns(rows: SampleMatrix, hosts: list[Indices], processes: ProcessGroup) -> Columns:
    """Send every feature to the process of its node; return the features that this process now holds, as Columns.

    A column has an entry for every sample of all processes. `rows` are the samples that this process had read; hosts[r]
    has the numbers of the features that rank r is to hold.
    """
    by_columns = sp.csc_array(rows) if sp.issparse(rows) else rows
    arrived = processes.all_to_all([by_columns[:, wanted] for wanted in hosts])
    return Columns.of(sp.vstack(arrived, format="csc") if sp.issparse(rows) else np.vstack(arrived))
