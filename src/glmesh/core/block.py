"""The nodes that one process hosts: all K in the simulator, K/P on an MPI rank, one in a peer."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
import numpy as np

from glmesh.functions import Separable, Smooth
from glmesh.functions.separable import GROUPS, TABLE
from glmesh.kernels.columns import products
from glmesh.kernels.subproblem import NodeColumns, node_terms
from glmesh.linalg import Columns, spectral_norm
from glmesh.network import Mixing, topology
from glmesh.network.mixing import metropolis
from glmesh.parallel import SERIAL, ThreadPool
from glmesh.problem import CompositeObjective
from glmesh.types import Flags, Indices, Matrix, Unsigned, Vector

# [1/lambda_max(I - W)] step of gossip under momentum on graphs of diameter > 2: larger steps agree in fewer exchanges.
# 1 is proven for every theta; with extrapolation by theta steps up to 2 (1 + theta)/(1 + 2 theta) > 4/3 are stable;
# source: benchmarks/reports/sensitivity.md
MOMENTUM_DAMPING = 1.3
# [rounds] after which a product A_k x_k, or Ax, that is updated in every round is computed afresh, because each update
# adds up to a unit in the last place; a product costs half a pass over the data, and Ax a vector per link; source:
# benchmarks/reports/sensitivity.md
REFRESH_EVERY = 64


@dataclass(frozen=True)
class NetworkInfo:
    """Constants of the network that every node is given before round 0: size, spanning tree, mixing matrix and seed.

    K is the number of nodes. The mixing matrix has the weight of each link, by which averages are taken. `parents`
    holds each node's parent in the spanning tree (-1 at the root) and `depth` the links from the root to the farthest
    node; `damping` and `speeds` are for gossip with momentum and for a virtual clock.
    """

    n_nodes: int
    diameter: int  # [links] longest shortest path, or an upper bound
    parents: Indices  # (K,) spanning tree: every node's parent, -1 at the root
    depth: int  # [links] from the root to the farthest node
    seed: int  # of all randomness of the run
    mixing: Mixing  # W
    schedule: tuple[Mixing, ...]  # the mixing of each exchange in turn: one where the graph stands still
    damping: float  # of the gossip under momentum: I - W is multiplied by it
    speeds: Vector | None = None  # (K,) nonzeros a second that each node works through, if there is a virtual clock

    @staticmethod
    def of(
        mixing: Mixing,
        diameter: int,
        seed: int,
        *,
        schedule: tuple[Mixing, ...] | None = None,
        speeds: Vector | None = None,
    ) -> NetworkInfo:
        """Return the constants of the network whose mixing matrix (weights of the links) is `mixing`.

        Every node that knows the arguments computes equal constants. `diameter` counts the links of the longest
        shortest path. `schedule` is the mixing matrix of each exchange in turn; None: always `mixing`. `speeds`, one
        per node, are nonzeros a second that nodes work through; None: there is no virtual clock. `seed` is that of all
        randomness of the run.
        """
        parents, depth = topology.spanning_tree(mixing.matrix)
        schedule = (mixing,) if schedule is None else schedule
        top = max(one.top for one in schedule)
        return NetworkInfo(
            mixing.n_nodes,
            diameter,
            parents,
            depth,
            seed,
            mixing,
            schedule,
            (MOMENTUM_DAMPING if diameter > 2 else 1.0) / top if top > 0 else 1.0,
            speeds,
        )

    @staticmethod
    def of_graph(graph: nx.Graph, seed: int) -> NetworkInfo:
        """Return the NetworkInfo of a connected graph with Metropolis weights.

        `seed` is that of all randomness of the run.
        """
        weights = metropolis(graph)
        return NetworkInfo.of(weights, topology.diameter(weights.matrix), seed)

    @property
    def consensus_gap(self) -> float:
        """A proven lower bound of 1 - lambda_2, lambda_2 the second largest eigenvalue of the mixing matrix."""
        return self.mixing.consensus_gap

    @property
    def spectrum(self) -> tuple[float, float]:
        """Pair (lower bound of the smallest eigenvalue, second largest eigenvalue) of the mixing matrix."""
        return 1.0 - self.mixing.top, self.mixing.lambda2

    @cached_property
    def depths(self) -> Indices:
        """Number of links between each node and the root of the spanning tree, shape (K,).

        K is the number of nodes.
        """
        depths, at = np.zeros(self.n_nodes, dtype=np.int64), self.parents
        while (at >= 0).any():
            depths += at >= 0
            at = np.where(at >= 0, self.parents[at], -1)
        return depths

    @cached_property
    def children(self) -> list[list[int]]:
        """Ids of the children of each node in the spanning tree, K ascending lists.

        K is the number of nodes.
        """
        return [np.flatnonzero(self.parents == node).tolist() for node in range(self.n_nodes)]


@dataclass(eq=False)
class Block:
    """The nodes that one process hosts, stored side by side for the kernels: columns A_k, functions f and g_k.

    The objective is f(Ax) + g(x) for a data matrix A; node k holds the columns A_k, their variables x_k, and the part
    g_k of g. The k-th hosted node has the columns starts[k]..starts[k + 1] - 1 of `columns`.
    """

    ids: Unsigned  # (n_hosted,) ids of the hosted nodes, ascending
    info: NetworkInfo
    columns: Columns  # of all hosted nodes, one after the other
    starts: Unsigned  # (n_hosted + 1,) columns of the k-th hosted node: starts[k]..starts[k + 1]
    f: Smooth  # smooth part of the objective, the same at all nodes
    terms: list[Separable]  # separable part g_k of each hosted node
    allocate: Callable[[], Matrix]  # a zeroed (hosted nodes x d) array that the exchange can share without a copy
    threads: ThreadPool = SERIAL  # that share the work of the hosted nodes

    @staticmethod
    def of(
        ids: Indices,
        info: NetworkInfo,
        forms: list[CompositeObjective],
        allocate: Callable[[], Matrix],
        threads: ThreadPool = SERIAL,
    ) -> Block:
        """Return the block of the nodes with the ids `ids`, ascending.

        forms[k] is the objective f(Ax) + g(x) of node ids[k]. `allocate` returns the zeroed (n_hosted, d) array for the
        nodes' vectors, from which a transport sends. A is the data matrix, x are the variables of all nodes. `threads`
        share the work of these nodes.
        """
        starts = np.cumsum([0] + [form.columns.n for form in forms])
        columns = Columns.join([form.columns for form in forms])
        return Block(
            ids.astype(np.uint64),
            info,
            columns,
            starts.astype(np.uint64),
            forms[0].f,
            [form.g for form in forms],
            allocate,
            threads,
        )

    def with_functions(self, f: Smooth, terms: list[Separable]) -> Block:
        """Return a copy of this block with other functions: f, and terms[k] as g_k of the k-th hosted node.

        Each must be of the class that it replaces.
        """
        new = copy.copy(self)
        new.f, new.terms = f, terms
        for name in ("table", "g", "kinked", "_bounds", "designs"):
            vars(new).pop(name, None)
        return new

    @property
    def size(self) -> int:
        """Number of hosted nodes."""
        return len(self.ids)

    @property
    def d(self) -> int:
        """Number d of rows of the data matrix A: the length of Ax and of every node's estimate of it."""
        return self.columns.d

    @cached_property
    def table(self) -> Matrix:
        """Rows (l1, l2, linear, lo, hi) of the penalty of all hosted columns, shape (columns, 5), for the kernels.

        g_i(t) = l1 abs(t) + l2/2 t^2 + linear t on [lo, hi].
        """
        return np.concatenate([g.kernel_rows(self.n_columns(k)) for k, g in enumerate(self.terms)])

    @cached_property
    def g(self) -> Separable:
        """Separable part g of the objective, over the columns of all hosted nodes at once."""
        return self.terms[0].join(self.terms, [self.n_columns(k) for k in range(self.size)])

    @property
    def kind(self) -> int:
        """Kind of the penalty g that the kernels branch on: the int TABLE, LOGISTIC_DUAL or GROUPS."""
        return self.terms[0].kind

    @cached_property
    def kinked(self) -> Flags:
        """Mask of shape (n_hosted,), True where the penalty of a node's variables that can move is not quadratic."""
        if self.kind != TABLE:
            return np.ones(self.size, dtype=bool)
        kinks = self.table[:, 0] > 0
        if self._bounds is not None:
            lo, hi = self._bounds
            kinks = (kinks | np.isfinite(lo) | np.isfinite(hi)) & (lo < hi)
        return np.bincount(self.node_of, kinks, minlength=self.size) > 0

    @cached_property
    def _bounds(self) -> tuple[Vector, Vector] | None:
        """Bounds (lo, hi) of all hosted columns, each of shape (columns,); None if no column has any."""
        lo, hi = np.ascontiguousarray(self.table[:, 3:].T)
        return None if np.isneginf(lo).all() and np.isposinf(hi).all() else (lo, hi)

    def inside(self, x: Vector) -> Vector:
        """Return the point nearest to the variables x inside all bounds, shape (columns,).

        If there are none, x itself.
        """
        return x if self._bounds is None else np.clip(x, *self._bounds)

    @cached_property
    def node_of(self) -> Indices:
        """Position in the block of the node that each column belongs to, shape (columns,)."""
        return np.repeat(np.arange(self.size), [self.n_columns(k) for k in range(self.size)])

    def n_columns(self, k: int) -> int:
        """Return the number of columns of the k-th hosted node."""
        return int(self.starts[k + 1] - self.starts[k])

    def of_node(self, k: int) -> slice:
        """Return the slice of the k-th hosted node in arrays with an entry per hosted column, such as x."""
        return slice(int(self.starts[k]), int(self.starts[k + 1]))

    def node_columns(self, k: int) -> Columns:
        """Return the columns A_k of the k-th hosted node as Columns that share memory with those of the block."""
        return self.columns.between(int(self.starts[k]), int(self.starts[k + 1]))

    def share(self, k: int, x: Vector) -> Vector:
        """Return A_k x_k, columns times variables, of the k-th hosted node, shape (d,).

        The argument x holds the variables of all hosted nodes, shape (columns,).
        """
        return self.node_columns(k).dot(x[self.of_node(k)])

    def shares(self, x: Vector) -> Matrix:
        """Return A_k x_k, columns times variables, of every hosted node k, shape (n_hosted, d).

        The argument x holds the variables of all hosted nodes, shape (columns,).
        """
        out, columns, rows = np.zeros((self.size, self.d)), self.columns, np.arange(self.size, dtype=np.uint64)

        def some(span: slice) -> None:
            """Write the products A_k x_k of the hosted nodes in a slice to the rows of the array `out`; return nothing.

            A_k are the columns of node k, x_k its variables.
            """
            starts = self.starts[span.start : span.stop + 1]
            products(starts, columns.arrays, x, rows[span], out)

        list(self.threads.map(some, self.spans))
        return out

    @cached_property
    def spans(self) -> list[slice]:
        """Contiguous ranges of hosted nodes, one per thread, with about equal numbers of stored matrix entries."""
        return self.threads.spans(self.stored)

    @cached_property
    def stored(self) -> Indices:
        """Number of matrix entries that each hosted node stores, shape (n_hosted,): what a pass visits."""
        return np.asarray(np.diff(self.columns.indptr[self.starts.astype(np.int64)].astype(np.int64)), np.int64)

    def node_values(self, x: Vector) -> Vector:
        """Return g_k(x_k), the separable part of the objective, of every hosted node, shape (n_hosted,)."""
        unit_starts, bounds, _ = self.units
        out = np.empty(self.size)
        node_terms(np.int64(self.kind), bounds, self.table, unit_starts, x, out)
        return out

    def neighbours(self, k: int) -> list[tuple[int, float]]:
        """Return [(l, W_kl)], id and mixing weight of each neighbour l of the k-th hosted node, by ascending id."""
        return self._neighbours[k]

    def weights(self, k: int, exchange: int) -> list[tuple[int, float]]:
        """Return [(l, W_kl)], id and mixing weight of the k-th hosted node's neighbours in exchange `exchange`.

        Ids ascend. The weights depend on the exchange where the graph changes with time.
        """
        return self._schedule[exchange % len(self._schedule)][k]

    @cached_property
    def _neighbours(self) -> list[list[tuple[int, float]]]:
        """Return, for each hosted node, a list of (id of a neighbour, weight of the link), ids ascending."""
        return _links(self.info.mixing, self.ids)

    @cached_property
    def _schedule(self) -> list[list[list[tuple[int, float]]]]:
        """Return, for each exchange in turn, the lists of (neighbour, weight) of all hosted nodes."""
        return [_links(mixing, self.ids) for mixing in self.info.schedule]

    @cached_property
    def units(self) -> tuple[Unsigned, Unsigned, Vector]:
        """Return (starts of nodes, starts of units, norms of units); a unit is a column, or a group of columns.

        Node k has the units starts[k]..starts[k + 1], unit j the columns starts[j]..starts[j + 1]. The norm of a group
        is an upper bound of its spectral norm.
        """
        if self.kind != GROUPS:
            bounds = np.arange(self.columns.n + 1, dtype=np.uint64)
            return self.starts, bounds, self.columns.norms
        pieces = [g.pieces(self.n_columns(k)) for k, g in enumerate(self.terms)]
        unit_starts = np.cumsum([0] + [len(p) - 1 for p in pieces]).astype(np.uint64)
        bounds = np.concatenate(
            [p[:-1] + int(s) for p, s in zip(pieces, self.starts, strict=False)] + [[self.columns.n]]
        )
        norms = [spectral_norm(self.columns.between(int(a), int(b))) for a, b in itertools.pairwise(bounds)]
        return unit_starts, bounds.astype(np.uint64), np.array(norms)

    @cached_property
    def designs(self) -> list[NodeColumns]:
        """Columns and separable terms of the hosted nodes, as kernels of local solves read them, one per thread.

        Each is of a range of hosted nodes (`spans`); together the ranges are all hosted nodes.
        """
        unit_starts, bounds, norms = self.units
        columns, kind = self.columns, np.int64(self.kind)
        ends = [slice(span.start, span.stop + 1) for span in self.spans]
        return [
            NodeColumns(self.starts[one], unit_starts[one], bounds, columns.arrays, norms, kind, self.table)
            for one in ends
        ]

    @cached_property
    def node_norms(self) -> Vector:
        """Upper bound of the spectral norm of A_k for every hosted node, shape (n_hosted,)."""
        return np.array([spectral_norm(self.node_columns(k)) for k in range(self.size)])

    def unit_norms(self, k: int) -> Vector:
        """Return the norm of each unit, a column or a group of columns, of the k-th hosted node, shape (n_units_k,).

        For a column that is the Euclidean norm, for a group an upper bound of the spectral norm.
        """
        unit_starts, _, norms = self.units
        return norms[int(unit_starts[k]) : int(unit_starts[k + 1])]


def _links(mixing: Mixing, ids: Unsigned) -> list[list[tuple[int, float]]]:
    """Return, for each of the nodes `ids`, a list of (id of a neighbour, weight of the link), ids ascending."""
    matrix, out = mixing.matrix, []
    for k in ids.tolist():
        row = slice(matrix.indptr[k], matrix.indptr[k + 1])
        pairs = zip(matrix.indices[row].tolist(), matrix.data[row].tolist(), strict=True)
        out.append([(peer, weight) for peer, weight in pairs if peer != k])
    return out
