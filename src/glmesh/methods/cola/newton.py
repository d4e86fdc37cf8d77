"""Newton's method with exact sums, for nodes that hold samples and have few coefficients to agree on.

A round: all nodes are at the same coefficients w. Each sends the value of the losses of its samples, v_k = A_k x_k with
the x_k that belong to w (minus the gradient of its losses), and their Hessian A_k diag(h) A_k^T, a triangle of d(d+1)/2
numbers. From the sums all compute the same next w. Few rounds are enough, however badly scaled the data are, and an
intercept that is not penalised is a coefficient like the others. What runs on the dual sees x and v as ever: at the
optimum w is the gradient of f at v.

A step that does not decrease the objective is shortened. If that is not enough (losses that are straight far away have
no Hessian there) some steps are made with bounds of the curvature, which always decrease it. Where values of the
objective cannot tell any more, the Newton decrement does. Sums are those of `exact_sums`: one that lacks a part is
not made, nothing is lost by it, and momentum takes over.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from glmesh.collectives.totals import AllReduce
from glmesh.core import Block, Rounds, Shared
from glmesh.functions import ConjugateOf
from glmesh.functions.separable import Columnwise
from glmesh.functions.smooth import inner, weighted_sum
from glmesh.methods.cola.iterate import Iterate
from glmesh.methods.cola.round import Strategies
from glmesh.types import Matrix, Vector

# [coefficients] whose Hessian is worth sending: its triangle is 64 KB
MOST_COEFFICIENTS = 127
# [parts of the decrement] decrease of the objective that makes a step good enough (Armijo's rule: Nocedal and Wright,
# Numerical Optimization, eq. 3.4, with their 1e-4)
SUFFICIENT_DECREASE = 1e-4
# [parts of the objective] decrement below which values of the objective cannot tell two points apart, because of
# rounding: the decrement itself is compared instead
VISIBLE_DECREASE = 1e-11
# [parts of the objective] difference to a model that a node would write up to which the parabola is trusted
TRUSTED_DIFFERENCE = 0.1
# least length of a shortened step: where it must be shorter the Hessian misleads, and bounds of the curvature are used
SHORTEST_STEP = 0.05
# [parts of a diagonal entry] pivots below it mean no step of the coefficient, because they are rounding
LEAST_PIVOT = 1e-15
# relative residual of H d = -gradient beyond which a coefficient has slope but no curvature: bounds are used
FLAT_RESIDUAL = 1e-3
# [parts of the objective] difference between two ways of computing it that is rounding, because both add up all samples
OBJECTIVE_ROUNDING = 1e-9
# [visits to a nonzero] cost of a nonzero in one row of the Hessian, as counted for the virtual clock
HESSIAN_ROW_COST = 1 / 12


def width(d: int) -> int:
    """Return how many numbers one node adds to a sum: a vector of d, and the triangle of a Hessian, d (d + 1) / 2."""
    return d + d * (d + 1) // 2


def suits(block: Block) -> bool:
    """Return whether Newton's method suits the block's nodes.

    They must hold samples with smooth losses, the penalty must be a square, and the coefficients at most
    MOST_COEFFICIENTS.
    """
    f = block.f
    small = block.d <= MOST_COEFFICIENTS
    smooth = all(g.has_smooth_conjugate for k, g in enumerate(block.terms) if block.n_columns(k))
    return isinstance(f, ConjugateOf) and f.is_quadratic and small and smooth


@dataclass(frozen=True)
class Step:
    """A step of Newton's method from coefficients w along a direction, with objective and slope where it began."""

    w: Vector  # (d,) where the step began
    value: float  # objective at w
    direction: Vector  # (d,)
    decrement: float  # minus the slope of the objective along the direction
    length: float = 1.0  # the step leads to w + length * direction

    @property
    def is_seen(self) -> bool:
        """Return whether the decrease that the step promises is more than rounding in values of the objective."""
        return self.decrement > VISIBLE_DECREASE * abs(self.value)

    def is_followed_by(self, new: Step) -> bool:
        """Return whether `new`, which begins where this step leads to, begins at a better point.

        Better is a sufficient decrease of the objective, or a smaller decrement where the objective cannot tell.
        """
        if self.is_seen:
            return new.value <= self.value - SUFFICIENT_DECREASE * self.length * self.decrement
        return new.decrement < self.decrement

    def shortened(self, value: float) -> Step:
        """Return this step cut to a tenth to a half, at the least point of a parabola.

        `value` is the objective where it led to.
        """
        rise = value - self.value + self.decrement * self.length
        part = 0.5 * self.decrement * self.length / rise if np.isfinite(rise) and rise > 0 else 0.1
        return replace(self, length=self.length * float(np.clip(part, 0.1, 0.5)))


@dataclass
class Newton:
    """State of the accelerator "newton": Newton's method for coefficients w by exact sums of slopes and Hessians."""

    solves_for_coefficients: ClassVar[bool] = True

    v: Shared[Vector | None] = None  # (d,) Ax, equal at all nodes; None: not known yet
    w: Shared[Vector | None] = None  # (d,) coefficients of the coming round; None: the gradient of f at v
    step: Shared[Step | None] = None  # step that led to w; None: none did
    center: Shared[Vector | None] = None  # (d,) coefficients that x and v belong to; None: another accelerator's
    value: Shared[float] = np.inf  # objective when it was last known
    best: Shared[float] = np.inf  # objective at the gradient of f at v, the model that a node would save
    idle: Shared[int] = 0  # rounds in a row that won nothing
    careful: Shared[int] = 0  # rounds to come with bounds of the curvature instead of the Hessian
    patience: Shared[int] = 1  # `careful` when the Hessian misleads next
    all_reduce: AllReduce = field(default_factory=AllReduce)
    broken: Shared[bool] = False  # whether the last sum lacked a part: the network does not stand still

    @staticmethod
    def of(block: Block) -> Newton:
        """Return the state before the first round, when Ax is not known."""
        return Newton(all_reduce=AllReduce(width(block.d)))

    def reset(self, block: Block, state: Iterate) -> None:
        """Forget Ax and the coefficients; the next round sums Ax up again and starts from the gradient of f there."""
        self.v = self.w = self.center = None
        self.retarget(block, state)

    def retarget(self, block: Block, state: Iterate) -> None:
        """Forget values and steps, after f and g were replaced; go on from the present coefficients."""
        self.step, self.value, self.best, self.idle, self.careful, self.patience = None, np.inf, np.inf, 0, 0, 1

    def reset_node(self, block: Block, state: Iterate, k: int) -> None:
        """Forget Ax and the coefficients, because the k-th hosted node's share A_k x_k has changed."""
        self.reset(block, state)

    def round(self, block: Block, state: Iterate, how: Strategies) -> Rounds:
        """Make one round: sum Ax up if it is not known, else a step.

        A sum that lacks a part sets `broken` and leaves x as it was.
        """
        if self.v is None:
            self.v = yield from self.all_reduce.product(block, state.round, state.x)
            self.broken = self.v is None
        else:
            yield from self._newton(block, state, how, self.v)
        state.gossip.finish_sum(block, state.x, self.v, broken=self.broken)

    def _newton(self, block: Block, state: Iterate, how: Strategies, v: Vector) -> Rounds:
        """Sum up losses, gradients and Hessians at w over all nodes, choose the next w, and move x if w is better."""
        w, g = block.f.gradient(v) if self.w is None else self.w, block.g
        assert isinstance(g, Columnwise)
        pulls = -block.columns.transposed_dot(w)
        x = g.conjugate_subgradient(pulls)
        bends = g.conjugate_majorant(pulls) if self.careful else g.conjugate_curvature(pulls)
        losses = np.stack([g.conjugates(pulls), g.conjugates(np.zeros_like(pulls))])
        numbers: Matrix = np.stack([np.bincount(block.node_of, row, minlength=block.size) for row in losses], axis=1)
        vectors = np.hstack([block.shares(x), _triangles(block, bends)])
        visits = (2.0 + HESSIAN_ROW_COST * block.d) * block.stored.astype(np.float64)
        state.record(np.full(block.size, np.nan), visits)
        found = yield from self.all_reduce.sum(block, state.round, vectors, numbers)
        self.broken = found is None
        if found is None:
            return
        (v, triangle), (loss, at_zero) = np.split(found[0], [block.d]), found[1]
        model = Parabola.of(block, w, v, triangle, float(loss))
        if self._advance(model, float(at_zero)) and self._writes_better(model, v):
            self.v, self.center = v, w
            state.move(block, how.solver, x)

    def _advance(self, model: Parabola, at_zero: float) -> bool:
        """Choose the next w from the parabola around the present one; return whether the present one is accepted.

        `at_zero` is the objective at w = 0.
        """
        w, new = model.w, model.step()
        if self.w is None:
            self.best = new.value
        if self.step is None and new.value > at_zero and w.any():  # the start is worse than w = 0
            self.w = np.zeros_like(w)
        elif not self.careful and model.leaves_out(new):
            self._begin_carefully(w)
        elif self.step is None or self.step.is_followed_by(new):
            self.step, self.w, self.value, self.idle = new, w + new.direction, new.value, 0
            self.careful = max(self.careful - 1, 0)
            return True
        elif self.step.is_seen and self.step.length > SHORTEST_STEP:
            self.step = self.step.shortened(new.value)
            self.w = self.step.w + self.step.length * self.step.direction
        elif self.step.is_seen:
            self._begin_carefully(self.step.w)
        else:
            self.w, self.idle = self.step.w, self.idle + 1
        return False

    def _writes_better(self, model: Parabola, v: Vector) -> bool:
        """Return whether the model that nodes would save, the gradient of f at v, is the best so far.

        Compared is the parabola's value of the objective, which is kept in `best`. The gradient of f at v may be far
        from w until w is good.
        """
        assert self.step is not None
        written = model.at(model.f.response(v, model.w))
        trusted = abs(written - self.step.value) <= TRUSTED_DIFFERENCE * abs(self.step.value)
        better = written <= self.best * (1.0 + OBJECTIVE_ROUNDING) and (trusted or not self.step.is_seen)
        if better:
            self.best = written
        return better

    def _begin_carefully(self, w: Vector) -> None:
        """Go on from w with bounds of the curvature instead of the Hessian, for `patience` rounds.

        Doubles `patience` for the next time.
        """
        self.w, self.step, self.careful, self.patience = w, None, self.patience, 2 * self.patience


@dataclass(frozen=True)
class Parabola:
    """The objective to second order around coefficients w: value, gradient and Hessian, the penalty f included."""

    f: ConjugateOf
    w: Vector  # (d,)
    value: float  # at w
    slopes: Vector  # (d,) gradient at w
    bend: Matrix  # (d, d) Hessian at w

    @staticmethod
    def of(block: Block, w: Vector, v: Vector, triangle: Vector, loss: float) -> Parabola:
        """Return the parabola from sums over all samples: `loss`, v = minus its gradient, triangle of its Hessian."""
        assert isinstance(block.f, ConjugateOf)
        l2, linear = block.f.quadratic(block.d)
        bend = np.zeros((block.d, block.d))
        bend[np.triu_indices(block.d)] = triangle
        bend.T[np.triu_indices(block.d)] = triangle
        bend[np.diag_indices(block.d)] += l2
        return Parabola(block.f, w, loss + weighted_sum(0.5 * l2 * w + linear, w), l2 * w + linear - v, bend)

    def step(self) -> Step:
        """Return Newton's step: from the coefficients w to the minimum of this second-order model of the objective."""
        direction = -solve_symmetric(self.bend, self.slopes)
        return Step(self.w, self.value, direction, -weighted_sum(self.slopes, direction))

    def leaves_out(self, step: Step) -> bool:
        """Return whether some coefficient has a slope but no curvature, so that the step does not remove the slope."""
        left = self.slopes + inner(self.bend, step.direction[None])[:, 0]
        size = np.abs(self.slopes) + inner(np.abs(self.bend), np.abs(step.direction)[None])[:, 0]
        return bool((np.abs(left) > FLAT_RESIDUAL * size).any())

    def at(self, w: Vector) -> float:
        """Return the value of the parabola, a model of the objective, at coefficients w, shape (d,)."""
        away = w - self.w
        return self.value + weighted_sum(self.slopes + 0.5 * inner(self.bend, away[None])[:, 0], away)


def _triangles(block: Block, bends: Vector) -> Matrix:
    """Return the Hessian A_k diag(bends) A_k^T of each hosted node's losses, shape (n_hosted, d (d + 1) / 2).

    Each is its upper triangle, row after row; `bends` has a second derivative per sample.
    """
    rows, columns = np.triu_indices(block.d)
    out = np.empty((block.size, len(rows)))
    for k in range(block.size):
        own, h = block.node_columns(k), bends[block.of_node(k)]
        matrix = own.to_scipy()
        whole = inner(matrix * h, matrix) if own.dense else (matrix.multiply(h[None]) @ matrix.T).toarray()
        out[k] = whole[rows, columns]
    return out


def solve_symmetric(matrix: Matrix, b: Vector) -> Vector:
    """Return matrix^-1 b of a positive semidefinite matrix, 0 where a pivot vanishes; equal bits on all machines."""
    reduced, y, pivots = matrix.copy(), b.copy(), np.zeros(len(b))
    for j in range(len(b)):
        if reduced[j, j] > LEAST_PIVOT * matrix[j, j]:
            pivots[j] = reduced[j, j]
            factors = reduced[j + 1 :, j] / pivots[j]
            reduced[j + 1 :, j + 1 :] -= np.multiply.outer(factors, reduced[j + 1 :, j])
            y[j + 1 :] -= factors * y[j]
            reduced[j + 1 :, j] = factors
    x = np.zeros_like(y)
    for j in range(len(b) - 1, -1, -1):
        if pivots[j] > 0:
            x[j] = y[j] / pivots[j] - weighted_sum(reduced[j + 1 :, j], x[j + 1 :])
    return x
