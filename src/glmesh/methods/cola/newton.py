"""Newton's method with exact sums, for nodes that hold samples and have few coefficients to agree on.

A round: everybody is at the same coefficients w, and tells of its samples the value of their losses, v_k = A_k x_k with
the x_k that belong to w (minus the gradient of its losses), and their Hessian A_k diag(h) A_k^T, a triangle of d(d+1)/2
numbers. From the sums everybody computes the same next w. Few rounds are enough, however badly scaled the data are, and
an intercept that is not penalised is a coefficient like the others. What runs on the dual sees x and v as ever: at the
optimum w is the gradient of f at v.

A step that does not decrease the objective is shortened. If that is not enough (losses that are straight far away have
no Hessian there) some steps are made with bounds of the curvature, which always decrease it. Where values of the
objective cannot tell any more, the Newton decrement does. Sums are those of `sums`: one that lacks a part is not made,
nothing is lost by it, and momentum takes over.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from glmesh.collectives.totals import AllReduce
from glmesh.core.block import Block
from glmesh.core.messages import Rounds
from glmesh.core.state import Shared
from glmesh.functions import ConjugateOf
from glmesh.functions.separable import Columnwise
from glmesh.functions.smooth import inner, weighted_sum
from glmesh.solvers import LocalSolver
from glmesh.types import Matrix, Vector

MOST_COEFFICIENTS = 127  # whose Hessian is worth sending: 64 KB
_ENOUGH = 1e-4  # of the decrease that the slope promises
_TELLS = 1e-11  # of the objective: a smaller decrease is not seen in its values
_TRUSTED = 0.1  # of the objective: so far it is known to second order, and no farther
_SHORTEST = 0.05  # of a step: where it must be shorter the Hessian misleads
_LEAST_PIVOT = 1e-15  # of a diagonal entry: less is rounding
_LEFT_OUT = 1e-3  # of a slope
_ROUNDING = 1e-9  # of the objective, in two ways of computing it
_ROW = 1 / 12  # of a visit to a nonzero, for each row of the Hessian that it has a part in


def width(d: int) -> int:
    """Numbers of a part of a sum: a vector, and the triangle of a Hessian."""
    return d + d * (d + 1) // 2


def suits(block: Block) -> bool:
    """Whether the nodes hold samples with smooth losses, the penalty is a square, and the Hessian is small."""
    f = block.f
    small = block.d <= MOST_COEFFICIENTS
    smooth = all(g.has_smooth_conjugate for k, g in enumerate(block.terms) if block.n_columns(k))
    return isinstance(f, ConjugateOf) and f.is_quadratic and small and smooth


@dataclass(frozen=True)
class Step:
    """On the way from one point to the next."""

    w: Vector  # where it began
    value: float  # of the objective there
    direction: Vector
    decrement: float  # minus the slope along it
    length: float = 1.0

    @property
    def is_seen(self) -> bool:
        """Whether values of the objective can tell that it was made."""
        return self.decrement > _TELLS * abs(self.value)

    def is_followed_by(self, new: Step) -> bool:
        """Whether the point that it led to, from which another step can begin, is better."""
        if self.is_seen:
            return new.value <= self.value - _ENOUGH * self.length * self.decrement
        return new.decrement < self.decrement

    def shortened(self, value: float) -> Step:
        """The objective has this value where it led to: to the least of a parabola, between a tenth and a half."""
        rise = value - self.value + self.decrement * self.length
        part = 0.5 * self.decrement * self.length / rise if np.isfinite(rise) and rise > 0 else 0.1
        return replace(self, length=self.length * float(np.clip(part, 0.1, 0.5)))


@dataclass
class Newton:
    """What a block carries from round to round."""

    v: Shared[Vector | None] = None  # Ax, the same at every node; None: not known yet
    w: Shared[Vector | None] = None  # where the losses are looked at in the next round; None: where f has its gradient
    step: Shared[Step | None] = None  # that led there; None: none did
    center: Shared[Vector | None] = None  # the coefficients that x and v belong to; None: those of another method
    value: Shared[float] = np.inf  # of the objective, when it was last known
    best: Shared[float] = np.inf  # of the objective at the gradient of f at v, the model that a node would write
    idle: Shared[int] = 0  # rounds in which nothing was won
    careful: Shared[int] = 0  # rounds to come with bounds of the curvature in the place of the Hessian
    patience: Shared[int] = 1  # rounds of that kind when the Hessian misleads next
    all_reduce: AllReduce = field(default_factory=AllReduce)
    broken: Shared[bool] = False  # a part was missing: the network does not stand still

    @staticmethod
    def of(block: Block) -> Newton:
        """Before the first round."""
        return Newton(all_reduce=AllReduce(width(block.d)))

    def forget(self) -> None:
        """Variables were changed from outside."""
        self.v = self.w = self.center = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """The problem is another on the same columns."""
        self.step, self.value, self.best, self.idle, self.careful, self.patience = None, np.inf, np.inf, 0, 0, 1

    def round(self, block: Block, state: Any, solver: LocalSolver) -> Rounds:
        """One round; sets `broken` instead if the sum could not be made."""
        if self.v is None:  # where something else left off
            self.v = yield from self.all_reduce.product(block, state.round, state.x)
            self.broken = self.v is None
            return
        w, g = block.f.gradient(self.v) if self.w is None else self.w, block.g
        assert isinstance(g, Columnwise)
        pulls = -block.columns.transposed_dot(w)
        x = g.conjugate_subgradient(pulls)
        bends = g.conjugate_majorant(pulls) if self.careful else g.conjugate_curvature(pulls)
        losses = np.stack([g.conjugates(pulls), g.conjugates(np.zeros_like(pulls))])
        numbers: Matrix = np.stack([np.bincount(block.node_of, row, minlength=block.size) for row in losses], axis=1)
        vectors = np.hstack([block.shares(x), _triangles(block, bends)])
        state.theta, state.visited = np.full(block.size, np.nan), (2.0 + _ROW * block.d) * block.stored
        found = yield from self.all_reduce.sum(block, state.round, vectors, numbers)
        self.broken = found is None
        if found is None:
            return
        (v, triangle), (loss, at_zero) = np.split(found[0], [block.d]), found[1]
        model = Parabola.of(block, w, v, triangle, float(loss))
        new = model.step()
        if self.w is None:
            self.best = new.value
        if self.step is None and new.value > at_zero and w.any():  # where it would begin is worse than nothing
            self.w = np.zeros_like(w)
        elif not self.careful and model.leaves_out(new):
            self._begin_carefully(w)
        elif self.step is None or self.step.is_followed_by(new):
            self.step, self.w, self.value, self.idle = new, w + new.direction, new.value, 0
            self.careful = max(self.careful - 1, 0)
            written = model.at(model.f.response(v, w))
            trusted = abs(written - new.value) <= _TRUSTED * abs(new.value)
            if written <= self.best * (1.0 + _ROUNDING) and (trusted or not new.is_seen):
                self.v, self.center, self.best = v, w, written
                solver.moved(block, state.memory, state.x != x)
                state.x = x
        elif self.step.is_seen and self.step.length > _SHORTEST:
            self.step = self.step.shortened(new.value)
            self.w = self.step.w + self.step.length * self.step.direction
        elif self.step.is_seen:
            self._begin_carefully(self.step.w)
        else:
            self.w, self.idle = self.step.w, self.idle + 1

    def _begin_carefully(self, w: Vector) -> None:
        """From here, with bounds of the curvature."""
        self.w, self.step, self.careful, self.patience = w, None, self.patience, 2 * self.patience


@dataclass(frozen=True)
class Parabola:
    """The objective to second order around w."""

    f: ConjugateOf
    w: Vector
    value: float
    slopes: Vector
    bend: Matrix

    @staticmethod
    def of(block: Block, w: Vector, v: Vector, triangle: Vector, loss: float) -> Parabola:
        """From the value, minus the gradient and the Hessian of all losses, and the penalty."""
        assert isinstance(block.f, ConjugateOf)
        l2, linear = block.f.quadratic(block.d)
        bend = np.zeros((block.d, block.d))
        bend[np.triu_indices(block.d)] = triangle
        bend.T[np.triu_indices(block.d)] = triangle
        bend[np.diag_indices(block.d)] += l2
        return Parabola(block.f, w, loss + weighted_sum(0.5 * l2 * w + linear, w), l2 * w + linear - v, bend)

    def step(self) -> Step:
        """To where it is smallest."""
        direction = -solve_symmetric(self.bend, self.slopes)
        return Step(self.w, self.value, direction, -weighted_sum(self.slopes, direction))

    def leaves_out(self, step: Step) -> bool:
        """Whether there are coefficients with a slope and without a Hessian, which no step can take care of."""
        left = self.slopes + inner(self.bend, step.direction[None])[:, 0]
        size = np.abs(self.slopes) + inner(np.abs(self.bend), np.abs(step.direction)[None])[:, 0]
        return bool((np.abs(left) > _LEFT_OUT * size).any())

    def at(self, w: Vector) -> float:
        """Its value."""
        away = w - self.w
        return self.value + weighted_sum(self.slopes + 0.5 * inner(self.bend, away[None])[:, 0], away)


def _triangles(block: Block, bends: Vector) -> Matrix:
    """A_k diag(bends) A_k^T of every hosted node, the upper triangle, row after row."""
    rows, columns = np.triu_indices(block.d)
    out = np.empty((block.size, len(rows)))
    for k in range(block.size):
        own, h = block.node_columns(k), bends[block.of_node(k)]
        matrix = own.to_scipy()
        whole = inner(matrix * h, matrix) if own.dense else (matrix.multiply(h[None]) @ matrix.T).toarray()
        out[k] = whole[rows, columns]
    return out


def solve_symmetric(matrix: Matrix, b: Vector) -> Vector:
    """matrix^-1 b of a positive definite matrix; zero where it has none. Not by LAPACK: the same bits everywhere."""
    rest, y, pivots = matrix.copy(), b.copy(), np.zeros(len(b))
    for j in range(len(b)):
        if rest[j, j] > _LEAST_PIVOT * matrix[j, j]:
            pivots[j] = rest[j, j]
            factors = rest[j + 1 :, j] / pivots[j]
            rest[j + 1 :, j + 1 :] -= np.multiply.outer(factors, rest[j + 1 :, j])
            y[j + 1 :] -= factors * y[j]
            rest[j + 1 :, j] = factors
    x = np.zeros_like(y)
    for j in range(len(b) - 1, -1, -1):
        if pivots[j] > 0:
            x[j] = y[j] / pivots[j] - weighted_sum(rest[j + 1 :, j], x[j + 1 :])
    return x
