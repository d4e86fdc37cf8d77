"""Exact sums with a plane search, for networks that stand still: fewest bytes, and conjugate gradients on quadratics.

A round: every node solves its subproblem at the exact v = Ax, with sigma' = 1, and all sum up A_k p_k and a few numbers
about g. Then everybody knows A p, and the best point of the plane x + a p + b (x - x_before) (`plane`); the
objective falls in every round, whatever p is. A sum is made in one of two ways, both with the same bits at every node:

- along a spanning tree, up and down: 2 (K - 1) vectors in all, 2 depth exchanges;
- by flooding: everybody's vector to everybody, and each adds them up; `diameter` exchanges and many more bytes, so for
  short vectors, or where all are neighbours.

A sum that lacks a node's part is not made, nothing is lost by it, and the run goes on with momentum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glmesh.collectives.totals import AllReduce
from glmesh.core.block import Block
from glmesh.core.messages import Rounds
from glmesh.core.state import PerColumn, Shared
from glmesh.functions.separable import TABLE
from glmesh.methods.cola.plane import A, Plane, along
from glmesh.solvers import LocalSolver, Subproblems
from glmesh.types import Matrix, Unsigned, Vector

Bends = Callable[[Matrix], Matrix | None]  # from estimates to weights per row
Passes = Callable[[Matrix], Unsigned]  # from gradients at the estimates

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


@dataclass
class Point:
    """Variables x of the block's columns and the v = A x that belongs to the x of all nodes."""

    x: PerColumn[Vector]
    v: Shared[Vector]


@dataclass
class Sums:
    """What a block carries from round to round."""

    v: Shared[Vector | None] = None  # Ax, the same at every node; None: not known yet
    step: Shared[Vector | None] = None  # A d
    d: PerColumn[Vector | None] = None  # the last change of x; not a difference of two x, whose rounding b may multiply
    before: Point | None = None  # of the round before
    value: Shared[float] = np.inf  # the objective when it was last known
    cautious: Shared[bool] = False
    reach: Shared[float] = (
        1.0  # p is times this: shorter where nothing is won along it, longer where its end is not enough
    )
    idle: Shared[int] = 0  # rounds in which nothing was won
    all_reduce: AllReduce = field(default_factory=AllReduce)
    broken: Shared[bool] = False  # a part was missing: the network does not stand still

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
            many = block.n_columns(k) * block.info.n_nodes > 2 * block.d
            if many and (l2 := block.table[block.of_node(k), 1].min()) > 0 and block.node_norms[k] > 0:
                scale[k] = _FLAT * l2 / block.node_norms[k] ** 2
        return scale

    def round(self, block: Block, state: Any, solver: LocalSolver, passes: Passes, bends: Bends) -> Rounds:
        """One round; sets `broken` instead if the sum could not be made."""
        if self.v is None:  # where something else left off
            self.v = yield from self.all_reduce.product(block, state.round, state.x)
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
        found = yield from self.all_reduce.sum(block, state.round, vectors, along(block, x, p, d))
        self.broken = found is None
        if found is None:
            solver.moved(block, state.memory, target != x)
            return
        total, numbers = found
        if refresh:
            total, v = np.split(total, 2)
        value = block.f.value(v) + float(numbers[0])
        if value > self.value + 1e-12 * abs(self.value) and self.before is not None and not self.cautious:
            state.x, self.v = self.before.x, self.before.v
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
            self.before = Point(x, v)
            state.x, self.v = block.inside(x + self.d), v + self.step
        solver.moved(block, state.memory, state.x != target)
