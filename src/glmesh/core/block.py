"""The nodes that one process hosts: all K in the simulator, K/P on an MPI rank, one in a peer."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from glmesh.collectives.messages import Parcel
from glmesh.functions import Separable, Smooth
from glmesh.functions.separable import GROUPS, TABLE
from glmesh.gossip.messages import Letter
from glmesh.kernels.cd import node_terms
from glmesh.kernels.columns import products
from glmesh.kernels.mix import mix
from glmesh.linalg.columns import Columns
from glmesh.network import topology
from glmesh.network.mixing import Mixing
from glmesh.parallel.threads import ALONE, Team
from glmesh.problem.node_data import Form
from glmesh.types import Flags, Indices, Matrix, Unsigned, Vector

# times 1/lambda_max(I - W): 1 is proven (and agrees sooner if all are near), at 4/3 momentum is unstable
_DAMPING = 1.3


@dataclass
class Rows:
    """What the nodes of a block send to their neighbours: a vector each, and a few scalars that ride along.

    `vectors` must not be written to until the next exchange has returned (double-buffer it). A scalar of minus
    infinity stands for nothing: it is not sent. `letters` and `parcels` are for single neighbours.
    """

    vectors: Matrix | None = None
    scalars: Matrix | None = None
    letters: list[Letter] = field(default_factory=list)
    parcels: list[Parcel] = field(default_factory=list)


@dataclass(frozen=True)
class Halo:
    """What the nodes of a block received.

    The neighbours of the block's k-th node (itself included, ascending ids) are pointers[k]..pointers[k+1] of
    `neighbours`: rows of `vectors` and `scalars`; `weights` are the entries of the mixing matrix, zero for a neighbour
    that is missing. `letters` and `parcels` are those that reached the block's nodes. Read vectors before the next
    exchange, scalars before the next but one.
    """

    pointers: Unsigned
    neighbours: Unsigned
    weights: Vector
    ids: Unsigned  # of the nodes behind `neighbours`
    vectors: Matrix | None
    scalars: Matrix | None
    own: Unsigned  # the rows of the block's own nodes
    letters: list[Letter] = field(default_factory=list)
    parcels: list[Parcel] = field(default_factory=list)

    def mix(self, out: Matrix, scale: float = 1.0, team: Team = ALONE) -> Matrix:
        """out_k = sum_l P_kl vectors_l with P = I - scale (I - W)."""
        vectors, weights = self.vectors, self.weights
        assert vectors is not None
        if scale != 1.0:
            counts = self.pointers[1:].astype(np.int64) - self.pointers[:-1].astype(np.int64)
            own = np.repeat(self.own, counts) == self.neighbours
            weights = scale * weights + np.where(own, 1.0 - scale, 0.0)

        def share(span: slice) -> None:
            mix(self.pointers[span.start : span.stop + 1], self.neighbours, weights, vectors, out[span])

        team.each(share, team.spans(np.diff(self.pointers.astype(np.int64))))
        return out

    def of_scalars(self, which: slice) -> Halo:
        """With these of the scalars only."""
        return self if self.scalars is None else replace(self, scalars=self.scalars[:, which])

    def around(self, k: int) -> tuple[Indices, Vector]:
        """(rows of the neighbours of the block's k-th node, itself included; their weights)."""
        a, b = int(self.pointers[k]), int(self.pointers[k + 1])
        return self.neighbours[a:b].astype(np.int64), self.weights[a:b]

    def ids_around(self, k: int) -> Indices:
        """The ids of the same."""
        return self.ids[int(self.pointers[k]) : int(self.pointers[k + 1])].astype(np.int64)


class Exchange(Protocol):
    """Moves rows between nodes; knows no algebra. One entry per block of this process."""

    def swap(self, rows: list[Rows]) -> list[Halo]:
        """Sends every block's rows to the neighbours of its nodes and returns what came back."""
        ...


@dataclass(frozen=True)
class Facts:
    """What every node knows of the network."""

    n_nodes: int
    diameter: int  # an upper bound is fine
    parents: Indices  # a spanning tree: every node's parent, -1 at the root
    depth: int
    consensus_gap: float  # a lower bound of 1 - lambda_2 of the mixing matrix
    seed: int
    mixing: Mixing
    schedule: tuple[Mixing, ...]  # the mixing of each exchange in turn: one where the graph stands still
    damping: float  # of the gossip under momentum: I - W is multiplied by it
    spectrum: tuple[float, float]  # the smallest and the second largest eigenvalue of the mixing matrix, or bounds
    speeds: Vector | None = None  # nonzeros a second that each node works through, if there is a clock

    @staticmethod
    def of(
        mixing: Mixing,
        diameter: int,
        seed: int,
        *,
        schedule: tuple[Mixing, ...] | None = None,
        certify: bool = False,
        spectrum: bool = False,
        speeds: Vector | None = None,
    ) -> Facts:
        """Whoever knows the mixing computes them alike. certify, spectrum: whether what takes longer is needed too."""
        parents, depth = topology.spanning_tree(mixing.matrix)
        schedule = (mixing,) if schedule is None else schedule
        top = max(one.top for one in schedule)
        return Facts(
            mixing.n_nodes,
            diameter,
            parents,
            depth,
            mixing.consensus_gap if certify else np.nan,
            seed,
            mixing,
            schedule,
            (_DAMPING if diameter > 2 else 1.0) / top if top > 0 else 1.0,
            (1.0 - mixing.top, mixing.lambda2) if spectrum else (np.nan, np.nan),
            speeds,
        )


@dataclass(eq=False)
class Block:
    """Columns, g and f of the hosted nodes, side by side, as the kernels read them."""

    ids: Unsigned
    facts: Facts
    columns: Columns
    starts: Unsigned  # columns of the hosted nodes: starts[k]..starts[k + 1]
    f: Smooth
    terms: list[Separable]  # g of each hosted node
    allocate: Callable[[], Matrix]  # a zeroed (hosted nodes x d) array that the exchange can share without a copy
    team: Team = ALONE

    @staticmethod
    def of(ids: Indices, facts: Facts, forms: list[Form], allocate: Callable[[], Matrix], team: Team = ALONE) -> Block:
        """From the forms of the hosted nodes."""
        starts = np.cumsum([0] + [form.columns.n for form in forms])
        columns = Columns.join([form.columns for form in forms])
        return Block(
            ids.astype(np.uint64),
            facts,
            columns,
            starts.astype(np.uint64),
            forms[0].f,
            [form.g for form in forms],
            allocate,
            team,
        )

    def with_functions(self, f: Smooth, terms: list[Separable]) -> Block:
        """The same columns with other functions of the same kinds."""
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

        self.team.each(some, self.spans)
        return out

    @cached_property
    def spans(self) -> list[slice]:
        """The nodes of each of the team's threads."""
        return self.team.spans(self.stored)

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
        """(neighbour, W_kl) of the k-th hosted node, ascending."""
        return self._neighbours[k]

    def weights(self, k: int, exchange: int) -> list[tuple[int, float]]:
        """The same in a certain exchange, where the graph changes from one to the next."""
        return self._schedule[exchange % len(self._schedule)][k]

    @cached_property
    def _neighbours(self) -> list[list[tuple[int, float]]]:
        return _links(self.facts.mixing, self.ids)

    @cached_property
    def _schedule(self) -> list[list[list[tuple[int, float]]]]:
        return [_links(mixing, self.ids) for mixing in self.facts.schedule]

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


_LARGEST_GRAM = 512  # columns up to which the exact spectral norm is worth a Gram matrix


def spectral_norm(columns: Columns) -> float:
    """|A|_2: exact for few columns, else the smaller of its upper bounds |A|_F and (|A|_1 |A|_inf)^(1/2)."""
    if columns.n == 0:
        return 0.0
    if columns.n == 1:
        return float(columns.norms[0])
    matrix = columns.to_scipy()
    if columns.n <= _LARGEST_GRAM:
        gram = matrix.T @ matrix
        square = float(np.linalg.eigvalsh(gram if columns.dense else gram.toarray())[-1])
    else:
        size = abs(matrix)
        product = float(size.sum(axis=0).max()) * float(size.sum(axis=1).max())
        square = min(float(np.sum(columns.norms**2)), product)
    return float(np.sqrt(max(square, 0.0))) * (1.0 + 1e-12)


@dataclass
class Rest:
    """Nodes that skip their subproblem because it has nothing to gain, as long as their w stays where it is."""

    at: Matrix  # w when a node went to rest
    room: Vector  # how far it may move, squared; negative: the node does not rest
    skipped: int = 0  # subproblems not solved
    spared: float = 0.0  # nonzeros that they would have visited

    @staticmethod
    def of(block: Block) -> Rest:
        """Nobody rests."""
        return Rest(np.zeros((block.size, block.d)), np.full(block.size, -1.0))

    def begin(self, k: int, w: Vector, room: float) -> None:
        """From now on node k rests, if there is room."""
        self.room[k] = room
        if room > 0:
            self.at[k] = w

    def end(self, k: int) -> None:
        """Node k has work."""
        self.room[k] = -1.0

    def resting(self, w: Matrix) -> Flags:
        """Who may rest in this round; whose w moved too far wakes up."""
        for k in np.flatnonzero(self.room > 0):
            move = w[k] - self.at[k]
            if float(move @ move) > self.room[k]:
                self.end(int(k))
        return self.room > 0


S = TypeVar("S")


class Method(Protocol[S]):
    """An algorithm, written once over a block; its round does no I/O, it yields what it wants exchanged."""

    def init(self, block: Block, x: Vector | None) -> S:
        """The state before the first round, from zero or from the block's variables x."""
        ...

    def round(self, block: Block, state: S) -> Generator[Rows, Halo, None]:
        """One round: yields each set of rows it wants exchanged and is sent the halo."""
        ...


Rounds = Generator[Rows, Halo, Any]
