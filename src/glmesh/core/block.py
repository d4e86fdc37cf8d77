"""The nodes that one process hosts: all K in the simulator, K/P on an MPI rank, one in a peer."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glmesh.functions import Separable, Smooth
from glmesh.functions.separable import GROUPS, TABLE
from glmesh.kernels.columns import products
from glmesh.kernels.subproblem import node_terms
from glmesh.linalg import Columns, spectral_norm
from glmesh.network import Mixing, topology
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
    """What every node knows of the network."""

    n_nodes: int
    diameter: int  # an upper bound is fine
    parents: Indices  # a spanning tree: every node's parent, -1 at the root
    depth: int
    seed: int
    mixing: Mixing
    schedule: tuple[Mixing, ...]  # the mixing of each exchange in turn: one where the graph stands still
    damping: float  # of the gossip under momentum: I - W is multiplied by it
    speeds: Vector | None = None  # nonzeros a second that each node works through, if there is a clock

    @staticmethod
    def of(
        mixing: Mixing,
        diameter: int,
        seed: int,
        *,
        schedule: tuple[Mixing, ...] | None = None,
        speeds: Vector | None = None,
    ) -> NetworkInfo:
        """Return the constants of a network with this mixing; all who know the mixing compute them alike."""
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

    @property
    def consensus_gap(self) -> float:
        """A lower bound of 1 - lambda_2 of the mixing matrix."""
        return self.mixing.consensus_gap

    @property
    def spectrum(self) -> tuple[float, float]:
        """The smallest and the second largest eigenvalue of the mixing matrix, or bounds of them."""
        return 1.0 - self.mixing.top, self.mixing.lambda2

    @cached_property
    def depths(self) -> Indices:
        """Links between each node and the root of the spanning tree, shape (K,)."""
        depths, at = np.zeros(self.n_nodes, dtype=np.int64), self.parents
        while (at >= 0).any():
            depths += at >= 0
            at = np.where(at >= 0, self.parents[at], -1)
        return depths

    @cached_property
    def children(self) -> list[list[int]]:
        """Children of each node in the spanning tree, ascending."""
        return [np.flatnonzero(self.parents == node).tolist() for node in range(self.n_nodes)]


@dataclass(eq=False)
class Block:
    """Columns, g and f of the hosted nodes, side by side, as the kernels read them."""

    ids: Unsigned
    info: NetworkInfo
    columns: Columns
    starts: Unsigned  # columns of the hosted nodes: starts[k]..starts[k + 1]
    f: Smooth
    terms: list[Separable]  # g of each hosted node
    allocate: Callable[[], Matrix]  # a zeroed (hosted nodes x d) array that the exchange can share without a copy
    threads: ThreadPool = SERIAL

    @staticmethod
    def of(
        ids: Indices,
        info: NetworkInfo,
        forms: list[CompositeObjective],
        allocate: Callable[[], Matrix],
        threads: ThreadPool = SERIAL,
    ) -> Block:
        """From the forms of the hosted nodes."""
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
        """Return this block with other functions, of the kinds that it has, on its columns."""
        new = copy.copy(self)
        new.f, new.terms = f, terms
        for name in ("table", "g", "kinked", "_bounds"):
            vars(new).pop(name, None)
        return new

    @property
    def size(self) -> int:
        """Number of hosted nodes."""
        return len(self.ids)

    @property
    def d(self) -> int:
        """Length of the shared vector."""
        return self.columns.d

    @cached_property
    def table(self) -> Matrix:
        """The rows (l1, l2, linear, lo, hi) of all hosted columns."""
        return np.concatenate([g.kernel_rows(self.n_columns(k)) for k, g in enumerate(self.terms)])

    @cached_property
    def g(self) -> Separable:
        """g of all hosted nodes at once."""
        return self.terms[0].join(self.terms, [self.n_columns(k) for k in range(self.size)])

    @property
    def kind(self) -> int:
        """Which kind of g: TABLE, LOGISTIC_DUAL or GROUPS."""
        return self.terms[0].kind

    @cached_property
    def kinked(self) -> Flags:
        """Whether g of a hosted node is anything but quadratic, of columns that can move (no weight: they cannot)."""
        if self.kind != TABLE:
            return np.ones(self.size, dtype=bool)
        kinks = self.table[:, 0] > 0
        if self._bounds is not None:
            lo, hi = self._bounds
            kinks = (kinks | np.isfinite(lo) | np.isfinite(hi)) & (lo < hi)
        return np.bincount(self.node_of, kinks, minlength=self.size) > 0

    @cached_property
    def _bounds(self) -> tuple[Vector, Vector] | None:
        """(lo, hi) of all hosted columns; None: there are none."""
        lo, hi = np.ascontiguousarray(self.table[:, 3:].T)
        return None if np.isneginf(lo).all() and np.isposinf(hi).all() else (lo, hi)

    def inside(self, x: Vector) -> Vector:
        """The nearest variables inside all bounds: x itself where there are none."""
        return x if self._bounds is None else np.clip(x, *self._bounds)

    @cached_property
    def node_of(self) -> Indices:
        """The hosted node that each column belongs to."""
        return np.repeat(np.arange(self.size), [self.n_columns(k) for k in range(self.size)])

    def n_columns(self, k: int) -> int:
        """Columns of the k-th hosted node."""
        return int(self.starts[k + 1] - self.starts[k])

    def of_node(self, k: int) -> slice:
        """The columns of the k-th hosted node."""
        return slice(int(self.starts[k]), int(self.starts[k + 1]))

    def node_columns(self, k: int) -> Columns:
        """A_k of the k-th hosted node."""
        return self.columns.between(int(self.starts[k]), int(self.starts[k + 1]))

    def share(self, k: int, x: Vector) -> Vector:
        """A_k x_k of the k-th hosted node, from the variables of all hosted ones."""
        return self.node_columns(k).dot(x[self.of_node(k)])

    def shares(self, x: Vector) -> Matrix:
        """A_k x_k of every hosted node."""
        out, columns, rows = np.zeros((self.size, self.d)), self.columns, np.arange(self.size, dtype=np.uint64)

        def some(span: slice) -> None:
            starts = self.starts[span.start : span.stop + 1]
            products(starts, columns.indptr, columns.indices, columns.data, x, rows[span], out)

        list(self.threads.map(some, self.spans))
        return out

    @cached_property
    def spans(self) -> list[slice]:
        """Nodes of each thread of the pool."""
        return self.threads.spans(self.stored)

    @cached_property
    def stored(self) -> Indices:
        """Entries that every hosted node stores: what a pass visits."""
        return np.asarray(np.diff(self.columns.indptr[self.starts.astype(np.int64)].astype(np.int64)), np.int64)

    def node_values(self, x: Vector) -> Vector:
        """g_k(x_k) of every hosted node."""
        unit_starts, bounds, _ = self.units
        out = np.empty(self.size)
        node_terms(np.int64(self.kind), bounds, self.table, unit_starts, x, out)
        return out

    def neighbours(self, k: int) -> list[tuple[int, float]]:
        """Return [(l, W_kl)] for the neighbours l of the k-th hosted node, ascending."""
        return self._neighbours[k]

    def weights(self, k: int, exchange: int) -> list[tuple[int, float]]:
        """Return [(l, W_kl)] for the neighbours l of the k-th hosted node in this exchange, ascending."""
        return self._schedule[exchange % len(self._schedule)][k]

    @cached_property
    def _neighbours(self) -> list[list[tuple[int, float]]]:
        return _links(self.info.mixing, self.ids)

    @cached_property
    def _schedule(self) -> list[list[list[tuple[int, float]]]]:
        return [_links(mixing, self.ids) for mixing in self.info.schedule]

    @cached_property
    def units(self) -> tuple[Unsigned, Unsigned, Vector]:
        """(units of node k: a..b; columns of unit j: a..b; norm of unit j); a unit is a column or a group."""
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
    def node_norms(self) -> Vector:
        """An upper bound of |A_k|_2 for every hosted node."""
        return np.array([spectral_norm(self.node_columns(k)) for k in range(self.size)])

    def unit_norms(self, k: int) -> Vector:
        """|a_i| of the columns, or the spectral norms of the groups, of the k-th hosted node."""
        unit_starts, _, norms = self.units
        return norms[int(unit_starts[k]) : int(unit_starts[k + 1])]


def _links(mixing: Mixing, ids: Unsigned) -> list[list[tuple[int, float]]]:
    matrix, out = mixing.matrix, []
    for k in ids.tolist():
        row = slice(matrix.indptr[k], matrix.indptr[k + 1])
        pairs = zip(matrix.indices[row].tolist(), matrix.data[row].tolist(), strict=True)
        out.append([(peer, weight) for peer, weight in pairs if peer != k])
    return out
