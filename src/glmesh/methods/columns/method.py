"""Exact sums between nodes that hold columns of the same rows: one total per round, and a space that grows with each.

All nodes know the predictions v = Ax. In a round every node proposes a change p_k of its own coefficients
(`local_steps`), the total has A p, and all move to the best point of a space of directions of which A times each is
known:

| penalty | nodes propose | best point of | beside A p a total has |
|---|---|---|---|
| L2 | Newton's step on their own columns | all directions so far (`subspace`) | the penalty along these |
| with an L1 part | coordinate descent | p and the last step (`cola.plane`) | the penalty on a grid |

With L2 there are at most as many rounds as columns, since then the directions span all coefficients; most fits are done
far earlier. A round also adds up the duality gap (`slacks`). Once it is small enough Ax is added up anew and the gap at
this Ax is the proof. A node's coefficients and proposals never leave it; the sum of the products over all nodes does.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np

from glmesh.core import Block
from glmesh.core.totals import Sums, Total
from glmesh.errors import UnsuitablePair
from glmesh.functions import Loss, Separable
from glmesh.methods.cola.plane import MODEL_NUMBERS, Plane, along
from glmesh.methods.columns.local_steps import descent_steps, newton_steps
from glmesh.methods.columns.slacks import own_terms
from glmesh.methods.columns.state import ColumnState
from glmesh.methods.columns.subspace import best_combination
from glmesh.methods.totals.traits import is_smooth
from glmesh.types import Vector

# [directions] that are kept of earlier rounds, because a search takes n h^2 products: seconds for 100 on 20,000 rows
MOST_DIRECTIONS = 100
# [parts of the objective] rise of the objective between two rounds that is rounding of sums
RISE = 1e-12
# [rounds] without progress after which there is none to be expected, because searches that win nothing shorten the next
# step by a factor of 16, and with kinks the gap rises now and then
MOST_IDLE = 30
# [parts of the objective] error of a proven gap by rounding of the K sums that it is made of
PROOF_ROUNDING = 1e-12
NO_PROGRESS = "Rounding hides any further progress; relax tol, or bring the columns to similar sizes."

ColumnRounds = Generator[Total, Sums, None]


@dataclass(frozen=True)
class ColumnTotals:
    """Exact sums for nodes that hold columns, as the table of this module says.

    Parameters
    ----------
    tol : float
        Relative gap: a round whose estimate is at most this is followed by two that prove it.
    """

    tol: float = 1e-6

    def start(self, block: Block, x: Vector | None = None) -> ColumnState:
        """Return the state of a block before round 0, at coefficients x, shape (n_columns,); None: zero."""
        zeros = np.zeros(block.d)
        at_zero = block.f.value(zeros)
        state = ColumnState(np.zeros(block.columns.n), zeros, at_zero)
        if x is not None:
            state.x, state.v = x.copy(), None
        state.directions, state.products = np.zeros((0, block.columns.n)), np.zeros((0, block.d))
        state.tell(block.f, np.zeros(0))
        return state

    def take(self, state: ColumnState, told: Vector) -> float:
        """Take what another node says of the point that all are at, instead of this node's own; return the distance.

        It is the largest difference relative to the largest number, infinite if the numbers are about something else.
        """
        if told.shape != state.told.shape:
            return np.inf
        distance = float(np.abs(told - state.told).max() / max(float(np.abs(told).max()), np.finfo(float).tiny))
        state.has_heard(told)
        return distance

    def round(self, block: Block, state: ColumnState) -> ColumnRounds:
        """Make one round: yield a Total, be sent the Sums over all nodes, and move alike at all."""
        is_near = state.estimate <= self.tol * abs(state.objective)
        if state.v is None or (is_near and not state.fresh):
            yield from self._add_up(block, state)
        elif is_near:
            yield from self._prove(block, state)
        elif block.table[:, 0].any():  # all columns have one penalty
            yield from self._search_plane(block, state, state.v)
        else:
            yield from self._search_space(block, state, state.v)

    def _add_up(self, block: Block, state: ColumnState) -> ColumnRounds:
        """Add Ax up over all nodes, so that v holds no rounding of many updates."""
        sums = yield Total({"prediction": block.shares(state.x)}, state.like, state.told)
        state.add_up(sums)
        state.tell(block.f, np.zeros(0))

    def _prove(self, block: Block, state: ColumnState) -> ColumnRounds:
        """Add up the duality gap at v = Ax, which was added up in the round before; the gap is proven then."""
        assert state.v is not None
        terms = self._terms(block, state, state.v)
        sums = yield Total({"penalty": terms[:, :1], "gap": terms[:, 1:]}, state.like, state.told)
        self._learn(block, state, sums)
        state.prove()

    def _terms(self, block: Block, state: ColumnState, v: Vector) -> Vector:
        """Return what each hosted node adds to penalty and duality gap at v = Ax, shape (n_hosted, 3)."""
        lowest = -block.f.conjugate(np.zeros(block.d))
        l1 = block.table[:, 0]
        radius = np.full(len(l1), np.inf)
        radius[l1 > 0] = (state.bound - lowest) / l1[l1 > 0]
        return own_terms(block, state.x, block.f.gradient(v), radius)

    def _learn(self, block: Block, state: ColumnState, sums: Sums) -> None:
        """Store objective, intercept and estimated gap at the present point, from a total that was made there."""
        assert state.v is not None
        state.remember(sums)
        before = state.objective
        state.value(sums)
        slack, excess = sums["gap"].tolist()
        if excess > 0:  # then the dual point may be scaled instead
            scaled = block.f.gradient(state.v) / (1.0 + excess)
            slack = min(slack, state.objective + block.f.conjugate(scaled))
        falls = not before - state.objective <= RISE * abs(before)  # also if it was not known
        state.estimated(max(slack, 0.0) + self._allowance(block, state, state.v), falls=falls)
        if state.idle >= MOST_IDLE and state.estimate > self.tol * abs(state.objective):
            state.fail(NO_PROGRESS)

    def _allowance(self, block: Block, state: ColumnState, v: Vector) -> float:
        """Return by how much rounding may have made the gap at v too small.

        With a free intercept the gradient of the loss has the sum 0 but for rounding; what is left of it counts times
        twice the intercept.
        """
        rounding = PROOF_ROUNDING * abs(state.objective)
        direction = block.f.free_direction
        if direction is None:
            return rounding
        left = abs(float(direction @ block.f.gradient(v)))
        return rounding + left * (1.0 + 2.0 * abs(state.intercept))

    def _search_space(self, block: Block, state: ColumnState, v: Vector) -> ColumnRounds:
        """Propose Newton steps, add them up, and move to the best point of the space of all directions so far."""
        own = newton_steps(block, v, state.x)
        l2, directions = block.table[:, 1], np.vstack([state.directions, own])
        bends = _by_node(block, l2 * directions * own)
        fields = {"product": block.shares(own), "bends": bends, "gap": self._terms(block, state, v)[:, 1:]}
        if len(state.products) or state.fresh:  # else all are at zero
            fields["penalty"] = self._terms(block, state, v)[:, :1]
            fields["slopes"] = _by_node(block, l2 * directions * state.x)
        sums = yield Total(fields, state.like, state.told)
        state.count_directions()
        self._learn(block, state, sums)
        if state.estimate <= self.tol * abs(state.objective):
            return  # the proof is about this point
        h = len(directions)
        gram = np.zeros((h, h))
        gram[:-1, :-1] = state.gram
        gram[-1] = gram[:, -1] = sums["bends"]
        products = np.vstack([state.products, sums["product"]])
        slopes = sums["slopes"] if "slopes" in sums else np.zeros(h)
        c = best_combination(block.f, v, products, slopes, gram)
        state.move(c @ directions, c @ products)
        self._keep(block, state, directions, products, gram)
        state.tell(block.f, c)

    def _keep(self, block: Block, state: ColumnState, directions: Vector, products: Vector, gram: Vector) -> None:
        """Store the directions for the next round, the newest ones, the last divided by a power of two near its size.

        The size is that of the objective's curvature along it, as far as the bound 1/tau of the loss tells.
        """
        size = float(products[-1] @ products[-1]) / block.f.tau + float(gram[-1, -1])
        factor = np.ldexp(1.0, -int(np.frexp(np.sqrt(size))[1])) if size > 0 else 1.0
        directions[-1] *= factor
        products[-1] *= factor
        gram[-1] *= factor
        gram[:, -1] *= factor
        first = max(len(directions) - MOST_DIRECTIONS, 0)
        state.keep(directions[first:], products[first:], gram[first:, first:])

    def _search_plane(self, block: Block, state: ColumnState, v: Vector) -> ColumnRounds:
        """Propose steps of coordinate descent, add them up, and move to the best point of the plane x + a p + b d.

        d is the last change of x. If the objective has risen since the round before, return to the x of that round
        instead, and look next at points where the penalty is known exactly.
        """
        x = state.x
        own, products = descent_steps(block, v, x, state.plane.stretch, state.directions_told)
        last = np.zeros_like(x) if state.last is None else state.last
        step = np.zeros_like(v) if state.step is None else state.step
        numbers, terms = along(block, x, own, last), self._terms(block, state, v)
        fields = {"product": products, "gap": terms[:, 1:], "plane": np.delete(numbers, [0, MODEL_NUMBERS - 1], axis=1)}
        if state.directions_told:  # at the very beginning it is 0
            fields["penalty"] = terms[:, :1]
        before = state.objective
        sums = yield Total(fields, state.like, state.told)
        state.count_directions()
        self._learn(block, state, sums)
        if state.estimate <= self.tol * abs(state.objective):
            return
        if state.objective > before + RISE * abs(before) and state.before is not None and not state.plane.cautious:
            state.go_back(state.before)
            state.tell(block.f, np.zeros(2))
            return
        numbers = np.insert(np.insert(sums["plane"], MODEL_NUMBERS - 2, 1.0), 0, 0.0)
        plane = Plane(block.f, v, np.stack([sums["product"], step]), numbers)
        a, b = state.plane.best(plane)
        state.move_in_plane(a * own + b * last, a * sums["product"] + b * step)
        state.tell(block.f, np.array([a, b]))


def _by_node(block: Block, each: Vector) -> Vector:
    """Return the sums of `each`, shape (h, n_columns), over the columns of each hosted node, shape (n_hosted, h)."""
    return np.stack([each[:, block.of_node(k)].sum(axis=1) for k in range(block.size)])


def method_for_columns(loss: Loss, penalty: Separable, tol: float = 1e-6) -> ColumnTotals | None:
    """Return the method on totals for nodes that hold columns; None if loss or penalty (alpha included) has none.

    It takes a smooth loss of one linear predictor, and a penalty with an L1 or L2 part for every coefficient.
    """
    table = penalty.as_table()
    if table is None or loss.by_likelihood or loss.n_outputs > 1 or not is_smooth(loss):
        return None
    bounded = bool((table.lo > -np.inf).any() or (table.hi < np.inf).any() or table.linear.any())
    penalised = bool(((table.l1 > 0) | (table.l2 > 0)).all())
    return ColumnTotals(tol) if penalised and not bounded else None


def require_columns(loss: Loss, penalty: Separable, tol: float = 1e-6) -> ColumnTotals:
    """Return `method_for_columns` of the same arguments; raise UnsuitablePair, which names what would do, for none."""
    method = method_for_columns(loss, penalty, tol)
    if method is None:
        raise UnsuitablePair(
            f"totals split by features need a smooth loss and an L1 or L2 penalty with alpha > 0, not {loss.name} with "
            "this penalty; write method = 'gossip' into [problem]"
        )
    return method
