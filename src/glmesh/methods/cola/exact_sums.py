"""Exact sums with a plane search, for networks that stand still: fewest bytes, and conjugate gradients on quadratics.

A round: every node solves its subproblem at the exact v = Ax, with sigma' = 1, and all sum up A_k p_k and a few numbers
about g. Then everybody knows A p, and the best point of the plane x + a p + b (x - x_before) (`plane`); the
objective falls in every round, whatever p is. A sum is made in one of two ways, both with the same bits at every node:

- along a spanning tree, up and down: 2 (K - 1) vectors in all, 2 depth exchanges;
- by flooding: everybody's vector to everybody, and each adds them up; `diameter` exchanges and many more bytes, so for
  short vectors, or where all are neighbours.

The tree is found by messages to neighbours: the smallest id becomes the root. A sum that lacks a node's part is not
made, nothing is lost by it, and the run goes on with momentum.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from glmesh.collectives.totals import AllReduce
from glmesh.core import Block, PerColumn, Rounds, Shared
from glmesh.core.block import REFRESH_EVERY
from glmesh.methods.cola.iterate import Iterate
from glmesh.methods.cola.plane import GRID_A, Plane, along
from glmesh.methods.cola.round import Strategies
from glmesh.solvers import Subproblems
from glmesh.types import Matrix, Vector

# factor of the stretch of p after a round that won nothing: smaller finds a short step sooner; source:
# benchmarks/reports/sensitivity.md
STRETCH_CUT = 1 / 16
# least stretch of p, because what a shorter p could win is rounding; source: benchmarks/reports/sensitivity.md
LEAST_STRETCH = 1e-6
# largest stretch of p: how much less curvature than its bound there may be; source: benchmarks/reports/sensitivity.md
LARGEST_STRETCH = 256.0
# [parts of |w|] length of A_k p_k below which it must not be rounded like w, because the plane search would follow the
# rounding. (Where g has no kink, steps are those of conjugate gradients, and all digits matter.)
FRESH_PRODUCT = 1e-4
# q |A_k|^2 / l2 where the local solve is to be the diagonal preconditioner of CG: small enough that A does not matter
# beside g; source: benchmarks/reports/sensitivity.md
PRECONDITIONER_EPS = 1e-3
# [parts of the objective] rise that is rounding, because the objective is a sum of K numbers
RISE_ROUNDING = 1e-12


@dataclass
class Point:
    """A point to return to: variables x of the block's columns, shape (n_columns,), and Ax, shape (d,).

    A is the data matrix of all nodes.
    """

    x: PerColumn[Vector]
    v: Shared[Vector]


@dataclass
class ExactSums:
    """State of the accelerator "sums": Ax known exactly at all nodes, and a search along the plane x + a p + b d.

    A is the data matrix, x are the variables. p, shape (n_columns,), is the change of x that the local solves propose;
    d is the last change of x; the numbers a and b are found by the search. `v` is Ax, `step` is A d, both of shape
    (d,).
    """

    PASSES: ClassVar[int] = 2  # forward and backward, so that the preconditioner of CG is symmetric

    v: Shared[Vector | None] = None  # (d,) Ax, equal at all nodes; None: not known yet
    step: Shared[Vector | None] = None  # (d,) A d; None: d = 0
    d: PerColumn[Vector | None] = None  # (n_columns,) last change of x, not a difference of two x: b magnifies rounding
    before: Point | None = None  # point of the round before
    value: Shared[float] = np.inf  # objective when it was last known
    cautious: Shared[bool] = False  # whether the next search keeps to the grid, where g is known exactly
    stretch: Shared[float] = 1.0  # factor of p: below 1 where nothing is won along p, above 1 where its end is too near
    idle: Shared[int] = 0  # rounds in a row that won nothing
    all_reduce: AllReduce = field(default_factory=AllReduce)
    broken: Shared[bool] = False  # whether the last sum lacked a part: the network does not stand still

    def reset(self, block: Block, state: Iterate) -> None:
        """Forget Ax, the last change of x and the objective's value; the next round sums Ax up again over all nodes.

        A is the data matrix, x are the variables.
        """
        self.v = self.step = self.d = self.before = None
        self.value, self.cautious = np.inf, False

    def retarget(self, block: Block, state: Iterate) -> None:
        """Forget all but Ax, because the functions f and g of the objective were replaced.

        Ax depends on the data matrix A and the variables x alone.
        """
        v = self.v
        self.reset(block, state)
        self.v, self.stretch, self.idle = v, 1.0, 0

    def reset_node(self, block: Block, state: Iterate, k: int) -> None:
        """Forget Ax and what was derived from it, because the k-th hosted node's part A_k x_k has changed.

        A is the data matrix, x are the variables of all nodes.
        """
        self.reset(block, state)

    def scale(self, block: Block) -> Vector:
        """Return the curvature of every hosted node's local subproblem, shape (n_hosted,): 1/tau, or almost 0.

        1/tau is the Lipschitz constant of the gradient of f. It is almost 0 at nodes where f and g are quadratic and
        columns are many: then g alone preconditions conjugate gradients. A^T A has at most d eigenvalues that are not
        zero, so they end after about d sums; blocks of A^T A in the preconditioner would only hide that.
        """
        scale = np.full(block.size, 1.0 / block.f.tau)
        if not block.f.is_quadratic:
            return scale
        for k in np.flatnonzero(~block.kinked).tolist():
            many = block.n_columns(k) * block.info.n_nodes > 2 * block.d
            if many and (l2 := block.table[block.of_node(k), 1].min()) > 0 and block.node_norms[k] > 0:
                scale[k] = PRECONDITIONER_EPS * l2 / block.node_norms[k] ** 2
        return scale

    def round(self, block: Block, state: Iterate, how: Strategies) -> Rounds:
        """Make one round: sum Ax up over all nodes if it is not known, else solve locally and search a plane.

        The plane is x + a p + b d: p is what the local solves propose, d the last change of x. Every REFRESH_EVERY
        rounds Ax is summed up beside A p, because rounding adds up. If a sum lacks some node's vector, `broken` is set
        and x stays as it was. `how` are the options of a round. A generator: yields each Outbox to exchange, and is
        sent the Halo that came back. A is the data matrix, x are the variables of all nodes.
        """
        if self.v is None:
            self.v = yield from self.all_reduce.product(block, state.round, state.x)
            self.broken = self.v is None
        else:
            x, d = state.x, np.zeros_like(state.x) if self.d is None else self.d
            p, products, solved = self._propose(block, state, how, self.v)
            if refresh := state.round % REFRESH_EVERY == 0:
                products = np.hstack([products, block.shares(x)])
            found = yield from self.all_reduce.sum(block, state.round, products, along(block, x, p, d))
            self.broken = found is None
            if found is not None:
                total, numbers = found
                if refresh:
                    total, self.v = np.split(total, 2)
                x = self._choose(block, x, (p, d), total, numbers)
            state.move(block, how.solver, x, solved)
        state.gossip.finish_sum(block, state.x, self.v, broken=self.broken)

    def _choose(self, block: Block, x: Vector, ways: tuple[Vector, Vector], total: Vector, numbers: Vector) -> Vector:
        """Return the variables to go to, shape (n_columns,): the best point of the plane x + a p + b d.

        It is the x of the round before if the objective has risen since. `ways` is (p, d), the proposed change of x and
        the last one, of which p is overwritten; `total` is A p, shape (d,), and `numbers`, shape (WIDTH,), describe g
        on the plane: both are sums over all nodes. Sets what is known of the point to go to. A is the data matrix, x
        are the variables of all nodes.
        """
        (p, d), v = ways, self.v
        assert v is not None
        value = block.f.value(v) + float(numbers[0])
        if value > self.value + RISE_ROUNDING * abs(self.value) and self.before is not None and not self.cautious:
            x, self.v = self.before.x, self.before.v
            self.cautious, self.value = True, np.inf
            self.d = self.step = self.before = None
            return x
        self.value = min(value, self.value)
        self.before = Point(x, v)
        step = np.zeros_like(v) if self.step is None else self.step
        a, b = self.best(Plane(block.f, v, np.stack([total, step]), numbers))
        p *= a
        p += b * d
        self.d, self.step, self.cautious = p, a * total + b * step, False
        self.v = v + self.step
        return block.inside(x + self.d)

    def _propose(self, block: Block, state: Iterate, how: Strategies, v: Vector) -> tuple[Vector, Matrix, Vector]:
        """Solve all local subproblems at v = Ax, shape (d,).

        Return three arrays (p, A_k p_k by node, x of the local solver). p, shape (n_columns,), is the proposed change
        of x times `stretch`; the second has shape (n_hosted, d), A_k being node k's columns; the third, (n_columns,),
        is where the local solver stopped. A is the data matrix, x are the variables of all nodes. `how` are the options
        of a round.
        """
        solved = state.x.copy()
        q, products = self.scale(block), np.zeros((block.size, block.d))
        w = np.broadcast_to(block.f.gradient(v), (block.size, block.d))
        task = Subproblems(
            x=solved,
            w=w,
            estimate=products,
            q=q,
            step=self.stretch / q,
            gamma=1.0,
            passes=how.passes.of_round(block, state, w, self.PASSES),
            accuracy=np.full(block.size, -1.0),
            round=state.round,
            rows=how.curvature.weights(block, state, v[None], safeguarded=True),
            afresh=np.where(block.kinked, FRESH_PRODUCT, np.inf),
        )
        state.record(*how.solver.solve(block, state.memory, task))
        p = solved - state.x
        p *= self.stretch
        return p, products, solved

    def best(self, plane: Plane) -> tuple[float, float]:
        """Return (a, b), two floats, of the best point x + a p + b d of the plane; (0, 0) if nothing is won there.

        p is the proposed change of x and d the last one. Sets `stretch`, the factor of the next p, and `idle`, the
        number of rounds in a row that won nothing.
        """
        a, b = plane.best(cautious=self.cautious)
        if plane.won > plane.noise:
            self.stretch, self.idle = self._next_stretch(1.0 if plane.remainder is None else a), 0
            return a, b
        self.stretch, self.idle = max(STRETCH_CUT * self.stretch, LEAST_STRETCH), self.idle + 1
        return 0.0, 0.0  # the grid is too coarse, or there is nothing left to win

    def _next_stretch(self, a: float) -> float:
        """Return the factor of the next proposed change p of x, after a step a along the present p that won.

        Local solvers go by bounds of the curvature, and there may be far less: a step to the end of the grid doubles
        the factor, a short one halves it.
        """
        if self.stretch < 1.0:
            return min(2.0 * self.stretch, 1.0)
        if a >= GRID_A.max():
            return min(2.0 * self.stretch, LARGEST_STRETCH)
        return max(0.5 * self.stretch, 1.0) if a < 0.25 * GRID_A.max() else self.stretch
