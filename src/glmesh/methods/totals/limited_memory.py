"""L-BFGS on totals: many rows and thousands of coefficients with an L2 penalty, where a Hessian would be too long.

A round is one total of p numbers, the gradient at the trial point, and of losses at other step lengths. Coordinates are
sqrt(l2_j) w_j, in which the penalty bends all directions alike: dividing by the columns' norms instead took up to ten
times the totals on RCV1, news20 and Reuters, and Newton's method with conjugate gradients up to three times as many.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np

from glmesh.core import PerNode, Shared
from glmesh.core.messages import AnyRounds
from glmesh.core.totals import Largest, Sums, Total
from glmesh.errors import UnsuitablePair
from glmesh.methods.totals.cuts import Cut, aim, lower_bound
from glmesh.methods.totals.dual_bound import ROUNDING as ROUNDED_SUM
from glmesh.methods.totals.nodes import Curvature, Point, TotalMethod
from glmesh.methods.totals.row_space import check_ridge
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import column_exponents, scales
from glmesh.methods.totals.traits import is_smooth
from glmesh.types import Matrix, Vector

# [steps] that are remembered: RCV1 with squared hinge and l2 = 0.01 takes 771 totals with 40 and 361 with 100 (a
# prototype, to a relative gap of 1e-6); with l2 = 1 40 and 100 differ by less than a fifth; source:
# benchmarks/reports/sensitivity.md
MEMORY = 100
MOST_REMEMBERED = 2**24  # [numbers] of all steps and changes of slopes that are remembered, because that is 128 MB
# [step] other lengths that are tried, dense about 1 because most steps are good
LENGTHS = np.ldexp(1.0, np.array([2, 1, -1, -2, -3, -4, -5, -6, -8, -10, -12]))
# [parts of the slope along the step] decrease that makes a step good enough (Nocedal and Wright, Numerical
# Optimization, eq. 3.4, with their 1e-4, because any small part will do)
SUFFICIENT_DECREASE = 1e-4
VISIBLE_DECREASE = 1e-11  # [objective] slope along a step below which values say nothing, because sums are rounded
ROUNDING = 1e-13  # [objective] allowance, because sums are rounded
EPSILON = 2.0**-52  # relative error of a prediction, because products and sums are rounded
# [objective] gap but for the intercept below which a dual point is asked for: larger sends more numbers; source:
# benchmarks/reports/sensitivity.md
DUAL_FROM = 0.1
# [gap but for the intercept when it was asked for last] below which it is asked for again: larger sends more numbers,
# smaller may ask too late; source: benchmarks/reports/sensitivity.md
DUAL_AGAIN = 0.5
# [sum of theta] that a dual point is to have with the other sign than the slopes at the point: smaller may fail to
# change the sign, larger weakens the proof; source: benchmarks/reports/sensitivity.md
OVERSHOOT = 0.1
# [root of the losses' curvature] by which the intercept is multiplied; from 1/8 to 1/64 RCV1, news20 and Reuters take
# about as many totals, above and below more; source: benchmarks/reports/sensitivity.md
INTERCEPT = 1.0 / 16.0
# [gain of the whole step] gain of another length from which that is tried: smaller repeats more totals; source:
# benchmarks/reports/sensitivity.md
BETTER = 4.0
IDLE = 3  # [rounds] in a row without progress after which a run ends, because rounding keeps it from more


@dataclass(frozen=True, eq=False)
class Slopes:
    """What is known at a point u, u_j = sqrt(l2_j) w_j, in which the penalty is half the sum of squares."""

    point: Vector  # (p + 1,) the intercept last
    value: float  # of the objective
    gradient: Vector  # (p + 1,) of the objective
    bend: float  # second derivative of the objective by the intercept
    cut: Cut  # that the losses' slopes prove


@dataclass(frozen=True, eq=False)
class QuasiNewtonStep:
    """What the coming total tries: the trial point, point + change, and other lengths of the change."""

    change: Vector  # (p + 1,)
    slope: float  # of the objective along it
    cap: float  # a node's loss above it is sent as twice the cap
    shift: float | None  # move of the intercept for a dual point made of the slopes at the point; None: not asked for


@dataclass
class LimitedMemoryState:
    """All that L-BFGS carries from total to total; nothing but `visited` differs from node to node."""

    w: Shared[Vector]  # (p,) coefficients of the best point whose objective is known
    intercept: Shared[float]
    visited: PerNode[Vector]  # (n_hosted,) nonzeros visited in the last round
    objective: Shared[float] = np.nan  # at w; NaN before the first total
    gap: Shared[float] = np.inf  # proven upper bound of objective - optimum
    failure: Shared[str] = ""  # why no more rounds are worth it, see `TotalState`
    sums: Shared[Sums | None] = None  # last total, from which the next takes its grains
    unit: Shared[float] = 0.0  # factor of the intercept; 0: not known yet
    scale: Shared[Vector | None] = None  # (p + 1,) powers of two near the columns' norms; None: not agreed on yet
    at: Shared[Slopes | None] = None  # the point that the step begins at; None: begin at w
    step: Shared[QuasiNewtonStep | None] = None  # None: the next total is at w itself
    steps: Shared[list[Vector]] = field(default_factory=list)  # (p + 1,) each, the newest last
    changes: Shared[list[Vector]] = field(default_factory=list)  # (p + 1,) of the gradient along each of `steps`
    cuts: Shared[list[Cut]] = field(default_factory=list)  # all that totals proved about the intercept
    lower: Shared[float] = 0.0  # proven lower bound of the optimum: losses and penalty are not negative
    dual_gap: Shared[float] = np.inf  # gap but for the intercept where a dual point was asked for last
    idle: Shared[int] = 0  # rounds in a row without progress

    def rescale(self, scale: Vector) -> None:
        """Set the powers of two near the columns' norms, shape (p + 1,), that all nodes agreed on."""
        self.scale = scale

    def visit(self, visited: Vector) -> None:
        """Keep how many nonzeros each hosted node visits in this round, shape (n_hosted,)."""
        self.visited = visited

    def move(self, at: Slopes, step: QuasiNewtonStep) -> None:
        """Go to the point `at`, from which the coming total is to try `step`."""
        self.at, self.step = at, step


@dataclass(frozen=True)
class LimitedMemory(TotalMethod[LimitedMemoryState]):
    """L-BFGS for smooth losses and an L2 penalty on every coefficient, one total of p numbers a round.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, solve
    >>> from glmesh.methods import LimitedMemory
    >>> X = np.random.default_rng(0).normal(size=(40, 8))
    >>> ridge = Problem.glm(X, X[:, 0] > 0, loss="logistic", split="samples", fit_intercept=True)
    >>> result = solve(ridge, method=LimitedMemory(), n_nodes=4, tol=1e-9)
    >>> result.status.name, result.relative_gap <= 1e-9
    ('CONVERGED', True)
    """

    curvature: ClassVar[Curvature] = "nothing"

    def start(self, block: Rows, w: Vector | None, intercept: float) -> LimitedMemoryState:
        """Return the state before round 0, at coefficients w, shape (p,), and an intercept; w None: at zero."""
        check_ridge(block, "LimitedMemory")
        if not is_smooth(block.loss):
            raise UnsuitablePair(f"LimitedMemory needs a smooth loss, and {block.loss.name} has kinks. Use RowSpace")
        w = np.zeros(block.p) if w is None else np.array(w, dtype=np.float64)
        return LimitedMemoryState(w, intercept if block.fit_intercept else 0.0, np.zeros(block.size))

    def round(self, block: Rows, state: LimitedMemoryState) -> AnyRounds:
        """Make one round: yield one Total at the trial point, be sent its Sums, and choose the next trial point.

        In the first round nodes agree on the scales of the columns before that.
        """
        scale = state.scale
        if scale is None:
            scale = scales((yield Largest(column_exponents(block))))
            state.rescale(scale)
        work = _Round(block, state, scale)
        state.visit(2.0 * block.nonzeros)
        sums = yield Total(work.contributions(), like=state.sums, at=np.concatenate([work.start, work.change]))
        work.advance(sums)

    def take(self, state: LimitedMemoryState, at: Vector) -> float:
        """Go to the trial point `at`, that of another node, instead of one's own; return how far apart they are.

        The distance is relative to the point's norm, in the norm of the penalty. `at` is that of the `Total` at the
        other node, which differs in its last bits.
        """
        if state.at is None or state.step is None or len(at) != 2 * len(state.at.point):
            return np.inf
        there, change = np.split(at, 2)
        own = state.at.point + state.step.change
        apart, size = _squares(there + change - own), _squares(own)
        state.move(replace(state.at, point=there.copy()), replace(state.step, change=change.copy()))
        return float(np.sqrt(apart / size)) if size > 0 else float(np.inf if apart else 0.0)

    def trial(self, block: Rows, state: LimitedMemoryState) -> Point | None:
        """Return (coefficients of shape (p,), intercept, False) of the point at which the coming total is made.

        False says that no Hessian of a quadratic upper bound is asked for.
        """
        work = _Round(block, state, np.ones(block.p + 1))
        point = (work.start + work.change) / work.root
        return point[:-1], float(point[-1]), False


class _Round:
    """The work of one round of L-BFGS on a block's state; every node computes the same from the same sums."""

    def __init__(self, block: Rows, state: LimitedMemoryState, scale: Vector) -> None:
        self.block, self.state, self.scale, self.step = block, state, scale, state.step
        l2 = np.broadcast_to(block.penalty.l2, block.p)
        self.root = np.append(np.sqrt(l2), state.unit or 1.0)
        self.start = np.append(state.w, state.intercept) * self.root if state.at is None else state.at.point
        self.change = np.zeros_like(self.start) if self.step is None else self.step.change

    # contributions

    def contributions(self) -> dict[str, Matrix]:
        """Return the fields of this round's total, each of shape (n_hosted, size)."""
        g, step, change = self.block.dual, self.step, self.change
        z, q = self._predictions(np.stack([self.start, change]))
        with np.errstate(over="ignore", invalid="ignore"):
            there = z + q
            slopes = -g.conjugate_subgradient(-there)
            size = np.sqrt((self.start**2).sum()) + np.sqrt((change**2).sum())
            values = [g.conjugates(-there), EPSILON * size * np.abs(slopes) * self.block.row_norms(self.root)]
            vectors = {"slopes": slopes}
            if step is not None:
                values += [g.conjugates(-(z + t * q)) for t in LENGTHS]
            if step is not None and step.shift is not None:
                vectors["dual"] = self._dual_point(z, step.shift)
                values.append(g.slacks(-vectors["dual"], -there))
            fields = {"values": self._capped(values, np.inf if step is None else step.cap)}
            fields["bend"] = self._sums([g.conjugate_curvature(-there), *map(np.abs, vectors.values())])
            fields |= dict(zip(vectors, self._transposed(np.stack(list(vectors.values()))), strict=True))
        for name, rows in fields.items():
            if not np.isfinite(rows).all():  # far away; the trial point is refused, because a loss is at its cap
                fields[name] = np.where(np.isfinite(rows), rows, 0.0)
        return fields

    def _predictions(self, points: Matrix) -> Matrix:
        """Return the predictions of all m hosted rows at n points, shape (n, m); `points` has shape (n, p + 1)."""
        raw = np.ascontiguousarray((points / self.root).T)
        out = np.empty((self.block.starts[-1], len(points)))

        def fill(k: int) -> None:
            """Compute the predictions of the rows of the k-th hosted node into the result."""
            out[self.block.starts[k] : self.block.starts[k + 1]] = self.block.X[k] @ raw[:-1] + raw[-1]

        list(self.block.threads.map(fill, range(self.block.size)))
        return np.ascontiguousarray(out.T)

    def _dual_point(self, z: Vector, shift: float) -> Vector:
        """Return a dual point of the m hosted rows, shape (m,): the losses' slopes after a move of the intercept.

        The intercept moves by `shift`. The slopes are to first order from the predictions z, shape (m,), and moved into
        the losses' domain.
        """
        g = self.block.dual
        bounds = g.kernel_rows(len(z))
        moved = g.conjugate_subgradient(-z) - shift / self.root[-1] * g.conjugate_curvature(-z)
        return np.asarray(-np.clip(moved, bounds[:, 3], bounds[:, 4]))

    def _sums(self, values: list[Vector]) -> Matrix:
        """Return the sums of n vectors over the rows of each node, shape (n_hosted, n).

        Each has one number per hosted row.
        """
        spans = [slice(a, b) for a, b in pairwise(self.block.starts.tolist())]
        return np.array([[one[span].sum() for one in values] for span in spans])

    def _capped(self, values: list[Vector], cap: float) -> Matrix:
        """Return the sums of n vectors of losses over the rows of each node, shape (n_hosted, n).

        Each vector has a loss per hosted row. A sum above `cap`, or NaN, becomes twice the cap.
        """
        sums = self._sums(values)
        return np.where(sums <= cap, sums, 2.0 * cap)

    def _transposed(self, rows: Matrix) -> Matrix:
        """Return X_k^T v, divided by the columns' scales, for n vectors v and each hosted node k.

        The result has shape (n, n_hosted, d). `rows` has the vectors, shape (n, m), an entry for each of the m hosted
        rows.
        """
        block, starts = self.block, self.block.starts
        out = np.empty((len(rows), block.size, block.p + 1))

        def fill(k: int) -> None:
            """Compute the products of the k-th hosted node into the result."""
            own = np.ascontiguousarray(rows[:, starts[k] : starts[k + 1]])
            out[:, k, :-1] = (block.X[k].T @ own.T).T
            out[:, k, -1] = own.sum(axis=1)
            out[:, k] /= self.scale

        list(block.threads.map(fill, range(block.size)))
        return out

    # what follows from the sums

    def advance(self, sums: Sums) -> None:
        """Judge the trial point by the sums of its total, choose the next one, and update the state's gap."""
        state, step = self.state, self.step
        state.sums = sums
        if not state.unit:
            state.unit = INTERCEPT * float(np.sqrt(sums["bend"][0])) or 1.0
            self.start[-1] *= state.unit
            self.root[-1] = state.unit
        there = self._slopes(sums)
        rounding = float(sums["values"][1]) + ROUNDING * there.value
        for cut in self._cuts(there, sums):
            state.lower = max(state.lower, lower_bound(state.cuts, cut))
            state.cuts = [*state.cuts, cut]
        if step is None:
            self._arrive(there)
        else:
            self._judge(there, step, sums)
        state.gap = max(state.objective - state.lower, 0.0) + rounding
        if state.idle >= IDLE:
            state.failure = "rounding"

    def _slopes(self, sums: Sums) -> Slopes:
        """Return value, slopes and a lower bound of the objective at the trial point, from the sums of its total."""
        point = self.start if self.step is None else self.start + self.step.change
        gradient = sums["slopes"] * (self.scale / self.root)
        gradient[:-1] += point[:-1]
        if not self.block.fit_intercept:
            gradient[-1] = 0.0
        value = float(sums["values"][0]) + _squares(point[:-1])
        rounding = float(sums["values"][1]) + ROUNDING * value
        cut = self._cut(value - rounding - _squares(gradient[:-1]), point, sums, "slopes")
        return Slopes(point, value, gradient, float(sums["bend"][0]) / self.root[-1] ** 2, cut)

    def _cut(self, value: float, point: Vector, sums: Sums, name: str) -> Cut:
        """Return a line below the objective, as a function of the intercept, which the sums of slopes in a total prove.

        `value` is its height at the intercept of `point`, shape (p + 1,); `name` is the field of the sums, X^T theta.
        """
        at = float(point[-1] / self.root[-1])
        if not self.block.fit_intercept:
            return Cut(value, at, 0.0, 0.0)
        size = float(sums["bend"][1 if name == "slopes" else 2])
        error = 0.0 if size == 0 else ROUNDED_SUM * size + sums.errors[name] * float(self.scale[-1])
        return Cut(value, at, float(sums[name][-1] * self.scale[-1]), error)

    def _cuts(self, there: Slopes, sums: Sums) -> list[Cut]:
        """Return the lines below the objective that a total proves: by the slopes at its trial point, by a dual point.

        `there` has value and slopes at the trial point. Every row adds loss(z) + loss*(theta) - z theta >= 0, every
        coefficient half the square of u + X^T theta / root, where u = root w; both are 0 for the slopes at the point,
        but for their gradient.
        """
        step = self.step
        if step is not None and float(sums["values"][0]) >= step.cap:
            return []
        if step is None or step.shift is None or not float(sums["values"][-1]) < step.cap:
            return [there.cut]
        pulls = sums["dual"] * (self.scale / self.root)
        missing = float(sums["values"][-1]) + _squares(there.point[:-1] + pulls[:-1])
        rounding = float(sums["values"][1]) + ROUNDING * there.value
        return [there.cut, self._cut(there.value - rounding - missing, there.point, sums, "dual")]

    def _judge(self, there: Slopes, step: QuasiNewtonStep, sums: Sums) -> None:
        """Go to the trial point, or try another length of the step, or forget the steps that were remembered.

        `there` has value and slopes at the trial point, `step` led to it, and `sums` are those of the total there.
        """
        state, at = self.state, self.state.at
        assert at is not None
        ends = [_squares((at.point + t * step.change)[:-1]) for t in LENGTHS]
        values = sums["values"][2 : 2 + len(LENGTHS)] + ends
        best, gain = int(np.argmin(values)), at.value - there.value
        if -step.slope <= VISIBLE_DECREASE * at.value:
            falls = _squares(there.gradient) < _squares(at.gradient) and gain >= -VISIBLE_DECREASE * at.value
        else:
            falls = gain >= -SUFFICIENT_DECREASE * step.slope
            if at.value - values[best] > max(BETTER * gain, 0.0) or (not falls and values[best] < at.value):
                t = float(LENGTHS[best])
                state.step = replace(step, change=t * step.change, slope=t * step.slope, shift=None)
                return
        step_made, change = there.point - at.point, there.gradient - at.gradient
        if falls and float((step_made * change).sum()) > 0:
            state.steps.append(step_made)
            state.changes.append(change)
            most = max(min(MEMORY, MOST_REMEMBERED // (2 * len(at.point))), 1)
            state.steps, state.changes, state.idle = state.steps[-most:], state.changes[-most:], 0
            self._arrive(there)
        else:  # what is remembered misleads, or all is rounding
            state.idle += 1
            first = len(state.steps) - len(state.steps) // 10
            state.steps, state.changes = state.steps[first:], state.changes[first:]
            self._next(at)

    def _arrive(self, there: Slopes) -> None:
        """Let the next step begin at the trial point, whose value and slopes are `there`, and compute that step."""
        state = self.state
        w = there.point / self.root
        state.w, state.intercept, state.objective = w[:-1], float(w[-1]), there.value
        state.at = there
        self._next(there)

    def _next(self, at: Slopes) -> None:
        """Compute the next step from value and slopes at a point, and whether its total is to bring a dual point."""
        state = self.state
        change = -self._inverse_times(at.gradient, at.value)
        penalised = _squares(at.gradient[:-1])
        shift = None
        wanted = penalised <= min(DUAL_FROM * at.value, DUAL_AGAIN * state.dual_gap)
        if self.block.fit_intercept and at.bend > 0 and wanted:
            missing = aim(at.cut.slope, at.cut.error, OVERSHOOT, state.cuts) - at.cut.slope
            state.dual_gap, shift = penalised, missing / (at.bend * float(self.root[-1]))
        state.step = QuasiNewtonStep(
            change, float((change * at.gradient).sum()), at.value * (1.0 + 1e-9) + 1e-300, shift
        )

    def _inverse_times(self, gradient: Vector, value: float) -> Vector:
        """Return H^-1 gradient, shape (d,), where H^-1 is the inverse Hessian as the remembered steps tell it.

        These are the two loops of Nocedal and Wright, algorithm 7.4. Before any step is remembered, the result is the
        step that would take a linear objective from `value` to zero, of length one at most.
        """
        left, factors = gradient.copy(), []
        pairs = list(zip(self.state.steps, self.state.changes, strict=True))
        for s, y in reversed(pairs):
            factors.append(float((s * left).sum() / (s * y).sum()))
            left -= factors[-1] * y
        if not pairs:
            return left * min(1.0, value / max(2.0 * _squares(gradient), 1e-300))
        s, y = pairs[-1]
        left *= float((s * y).sum() / (y * y).sum())
        for (s, y), factor in zip(pairs, reversed(factors), strict=True):
            left += (factor - float((y * left).sum() / (s * y).sum())) * s
        return left


def _squares(x: Vector) -> float:
    """Return half the sum of squares of the entries of x."""
    return 0.5 * float((x * x).sum())
