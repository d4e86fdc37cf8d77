"""Exact sums with a plane search, for networks that stand still: fewest bytes, and conjugate gradients on quadratics.

A round: every node solves its subproblem at the exact v = Ax, with sigma' = 1, and all sum up A_k p_k and a few numbers
about g. Then everybody knows A p, and the best point of the plane x + a p + b (x - x_before) (`plane`); the
objective falls in every round, whatever p is. A sum is made in one of two ways, both with the same bits at every node:

- along a spanning tree, up and down: 2 (K - 1) vectors in all, 2 depth exchanges;
- by flooding: everybody's vector to everybody, and each adds them up; `diameter` exchanges and many more bytes, so for
  short vectors, or where all are neighbours.

The tree is found by messages to neighbours: the smallest id becomes the root. A sum that lacks somebody's part is not
made, nothing is lost by it, and the run goes on with momentum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from glmesh.collectives.messages import Parcel
from glmesh.core.block import Block, Rounds, Rows
from glmesh.functions.separable import TABLE
from glmesh.methods.cola.plane import A, Plane, along
from glmesh.solvers import LocalSolver, Subproblems
from glmesh.types import Indices, Matrix, Unsigned, Vector

Bends = Callable[[Matrix], Matrix | None]  # from estimates to weights per row
Passes = Callable[[Matrix], Unsigned]  # from gradients at the estimates

_SHORT = 2**17  # bytes of all nodes' vectors together, up to which waiting costs more than sending
_REFRESH = 64  # rounds after which v is summed up afresh, so that rounding cannot pile up
_SHORTER, _SHORTEST, _LONGEST = 1 / 16, 1e-6, 256.0  # of `reach`
# of |w|, below which A_k p_k must not be rounded like w: the plane search would follow the rounding. (Where nothing has
# a kink, steps are those of conjugate gradients, and all digits matter.)
_CLEAR = 1e-4
_FLAT = 1e-3  # what A may matter beside g where p need not know A: see Sums.scale


def suits(block: Block) -> bool:
    """Whether steps along a plane get anywhere: with bounds the variables at them hold everybody back."""
    lo, hi = block.table[:, 3], block.table[:, 4]
    return block.kind != TABLE or bool((np.isinf(lo) & np.isinf(hi) | (lo == hi)).all())


def floods(block: Block, width: int) -> bool:
    """Whether a sum of vectors of this length is made by flooding."""
    return block.facts.diameter <= 1 or 8 * width * block.facts.n_nodes <= _SHORT


def waits(block: Block, width: int) -> int:
    """Exchanges that such a sum takes."""
    return max(block.facts.diameter, 1) if floods(block, width) else 2 * block.facts.depth


@dataclass
class Tree:
    """A spanning tree, as the hosted nodes know it."""

    parents: Indices  # -1 at the root
    depths: Indices
    children: list[list[int]]

    @cached_property
    def levels(self) -> dict[int, list[int]]:
        """The hosted nodes of each depth."""
        return {depth: np.flatnonzero(self.depths == depth).tolist() for depth in set(self.depths.tolist())}


def find_tree(block: Block) -> Rounds:
    """Everybody adopts the smallest id it hears of as the root, and who told it first as its parent."""
    ids = block.ids.astype(np.float64)
    known = np.stack([ids, np.zeros(block.size), np.full(block.size, -1.0)], axis=1)  # root, depth, parent
    for _ in range(block.facts.diameter + 1):
        halo = yield Rows(scalars=known)
        assert halo.scalars is not None
        known, heard = known.copy(), halo.scalars
        for k in range(block.size):
            for row, node in zip(*_around(block, halo, k), strict=True):
                offer = (heard[row, 0], heard[row, 1] + 1, float(node))
                if offer[:2] < (known[k, 0], known[k, 1]):
                    known[k] = offer
    children, last = [], halo.scalars
    assert last is not None
    for k in range(block.size):
        rows, nodes = _around(block, halo, k)
        children.append([int(n) for row, n in zip(rows, nodes, strict=True) if last[row, 2] == block.ids[k]])
    return Tree(known[:, 2].astype(np.int64), known[:, 1].astype(np.int64), children)


def _around(block: Block, halo: Any, k: int) -> tuple[Indices, Indices]:
    """(rows, ids) of the neighbours that were heard."""
    rows, weights = halo.around(k)
    ids = halo.ids_around(k)
    there = (ids != int(block.ids[k])) & (weights > 0)
    return rows[there], ids[there]


def tree_sum(block: Block, tree: Tree, round: int, vectors: Matrix, numbers: Matrix) -> Rounds:
    """(sum of all vectors, of all numbers), or None where a part is missing; vectors and numbers become subtotals."""
    height, first = block.facts.depth, int(block.ids[0])
    waiting = [set(children) for children in tree.children]
    parts: list[dict[int, tuple[Vector, Vector]]] = [{} for _ in range(block.size)]
    totals: list[tuple[Vector, Vector] | None] = [None] * block.size

    def subtotal(k: int) -> tuple[Vector, Vector]:
        for child in sorted(parts[k]):
            vectors[k] += parts[k][child][0]
            numbers[k] += parts[k][child][1]
        return vectors[k], numbers[k]

    def total_of(root: int) -> tuple[Vector, Vector]:
        vector, number = subtotal(root)
        return vector.copy(), number.copy()  # of its own: it is kept

    for stage in range(2 * height):
        parcels = []
        for k in tree.levels.get(height - stage if stage < height else stage - height, []):
            me = int(block.ids[k])
            if stage < height and not waiting[k]:
                vector, number = subtotal(k)
                parcels.append(Parcel(me, int(tree.parents[k]), round, {me: vector}, {me: number}))
            if stage >= height:
                if stage == height and not waiting[k]:
                    totals[k] = total_of(k)
                if (total := totals[k]) is not None:
                    parcels += [Parcel(me, c, round, {me: total[0]}, {me: total[1]}) for c in tree.children[k]]
        halo = yield Rows(parcels=parcels)
        for parcel in halo.parcels:
            if parcel.round != round:
                continue
            k = parcel.receiver - first
            part = parcel.vectors[parcel.sender], parcel.numbers[parcel.sender]
            if parcel.sender == tree.parents[k]:
                totals[k] = part
            elif parcel.sender in waiting[k]:
                waiting[k].discard(parcel.sender)
                parts[k][parcel.sender] = part
    if height == 0:
        totals[0] = total_of(0)
    return None if any(total is None for total in totals) else totals[0]


def flood_sum(block: Block, round: int, vectors: Matrix, numbers: Matrix) -> Rounds:
    """The same, by passing on everybody's part; added up in the order of ids."""
    first = int(block.ids[0])
    known = [{int(block.ids[k]): (vectors[k], numbers[k])} for k in range(block.size)]
    fresh = [dict.fromkeys(mine, -1) for mine in known]  # and from whom
    for _ in range(max(block.facts.diameter, 1)):
        parcels = []
        for k in range(block.size):
            me = int(block.ids[k])
            for peer, _ in block.neighbours(k):
                news = {node: known[k][node] for node, source in fresh[k].items() if source != peer}
                if news:
                    split = {n: part[0] for n, part in news.items()}, {n: part[1] for n, part in news.items()}
                    parcels.append(Parcel(me, peer, round, *split))
        halo = yield Rows(parcels=parcels)
        fresh = [{} for _ in range(block.size)]
        for parcel in halo.parcels:
            if parcel.round != round:
                continue
            k = parcel.receiver - first
            for node, vector in parcel.vectors.items():
                if node not in known[k]:
                    known[k][node] = vector, parcel.numbers[node]
                    fresh[k][node] = parcel.sender
    if any(len(mine) < block.facts.n_nodes for mine in known):
        return None
    parts = [known[0][node] for node in sorted(known[0])]
    return np.sum([vector for vector, _ in parts], axis=0), np.sum([number for _, number in parts], axis=0)


@dataclass
class Summation:
    """How a block takes part in sums."""

    width: int = 0  # of the vectors, by which the way is chosen; 0: as long as Ax
    tree: Tree | None = None  # once it is found

    def sum(self, block: Block, round: int, vectors: Matrix, numbers: Matrix) -> Rounds:
        """(sum of all vectors, of all numbers), the same at every node, or None where a part is missing.

        vectors and numbers may be written to.
        """
        if floods(block, self.width or block.d):
            return (yield from flood_sum(block, round, vectors, numbers))
        if self.tree is None:
            self.tree = yield from find_tree(block)
        return (yield from tree_sum(block, self.tree, round, vectors, numbers))

    def product(self, block: Block, round: int, x: Vector) -> Rounds:
        """Ax, or None."""
        found = yield from self.sum(block, round, block.shares(x), np.zeros((block.size, 1)))
        return None if found is None else found[0]


@dataclass
class Sums:
    """What a block carries from round to round."""

    v: Vector | None = None  # Ax, the same at every node; None: not known yet
    step: Vector | None = None  # A d
    d: Vector | None = None  # the last change of x; not a difference of two x, whose rounding b may multiply
    before: tuple[Vector, Vector] | None = None  # (x, v) of the round before
    value: float = np.inf  # the objective when it was last known
    cautious: bool = False
    reach: float = 1.0  # p is times this: shorter where nothing is won along it, longer where its end is not enough
    idle: int = 0  # rounds in which nothing was won
    summation: Summation = field(default_factory=Summation)
    broken: bool = False  # a part was missing: the network does not stand still

    def forget(self) -> None:
        """Variables were changed from outside."""
        self.v = self.step = self.d = self.before = None
        self.value, self.cautious = np.inf, False

    def begin_anew(self) -> None:
        """The problem is another on the same columns: Ax stays what it is."""
        v = self.v
        self.forget()
        self.v, self.reach, self.idle = v, 1.0, 0

    def _next_reach(self, a: float) -> float:
        """After a step of length a on the grid: solvers go by bounds of curvature, and there may be far less of it."""
        if self.reach < 1.0:
            return min(2.0 * self.reach, 1.0)
        if a >= A.max():
            return min(2.0 * self.reach, _LONGEST)
        return max(0.5 * self.reach, 1.0) if a < 0.25 * A.max() else self.reach

    def scale(self, block: Block) -> Vector:
        """sigma'/tau with sigma' = 1, or almost 0 where f and g are quadratic and columns outnumber rows, per node.

        Then g alone preconditions conjugate gradients: A^T A has at most d eigenvalues that are not zero, so they end
        after about d sums. Blocks of it would only hide that.
        """
        scale = np.full(block.size, 1.0 / block.f.tau)
        if not block.f.is_quadratic:
            return scale
        for k in np.flatnonzero(~block.kinked).tolist():
            many = block.n_columns(k) * block.facts.n_nodes > 2 * block.d
            if many and (l2 := block.table[block.of_node(k), 1].min()) > 0 and block.node_norms[k] > 0:
                scale[k] = _FLAT * l2 / block.node_norms[k] ** 2
        return scale

    def round(self, block: Block, state: Any, solver: LocalSolver, passes: Passes, bends: Bends) -> Rounds:
        """One round; sets `broken` instead if the sum could not be made."""
        if self.v is None:  # where something else left off
            self.v = yield from self.summation.product(block, state.round, state.x)
            self.broken = self.v is None
            return
        x, v = state.x, self.v
        d = np.zeros_like(x) if self.d is None else self.d
        step = np.zeros_like(v) if self.step is None else self.step
        target = x.copy()
        q, vectors = self.scale(block), np.zeros((block.size, block.d))
        w = np.broadcast_to(block.f.gradient(v), (block.size, block.d))
        state.theta, state.visited = solver.solve(
            block,
            state.memory,
            Subproblems(
                x=target,
                w=w,
                estimate=vectors,
                q=q,
                step=self.reach / q,
                gamma=1.0,
                passes=passes(w),
                accuracy=np.full(block.size, -1.0),
                round=state.round,
                rows=bends(v[None]),
                afresh=np.where(block.kinked, _CLEAR, np.inf),
            ),
        )
        p = target - x
        p *= self.reach
        if refresh := state.round % _REFRESH == 0:
            vectors = np.hstack([vectors, block.shares(x)])
        found = yield from self.summation.sum(block, state.round, vectors, along(block, x, p, d))
        self.broken = found is None
        if found is None:
            solver.moved(block, state.memory, target != x)
            return
        total, numbers = found
        if refresh:
            total, v = np.split(total, 2)
        value = block.f.value(v) + float(numbers[0])
        if value > self.value + 1e-12 * abs(self.value) and self.before is not None and not self.cautious:
            state.x, self.v = self.before
            self.cautious, self.value = True, np.inf
            self.d = self.step = self.before = None
        else:
            self.value = min(value, self.value)
            plane = Plane(block.f, v, np.stack([total, step]), numbers)
            c = plane.best(cautious=self.cautious)
            if plane.won > plane.noise:
                self.reach, self.idle = self._next_reach(1.0 if plane.rest is None else c[0]), 0
            else:  # the grid is too coarse, or there is nothing left to win
                c, self.reach, self.idle = (0.0, 0.0), max(_SHORTER * self.reach, _SHORTEST), self.idle + 1
            p *= c[0]
            p += c[1] * d
            self.d, self.step, self.cautious = p, c[0] * total + c[1] * step, False
            self.before = x, v
            state.x, self.v = block.inside(x + self.d), v + self.step
        solver.moved(block, state.memory, state.x != target)
