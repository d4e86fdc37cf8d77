"""What everybody computes from a total of the interior-point method: values, Newton's step and its length."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.core.totals import ROOM, Sums
from glmesh.kernels.gram import unpack_triangle
from glmesh.methods.totals.dual_bound import StandardisedPenalty
from glmesh.methods.totals.factor import CholeskyFactor
from glmesh.methods.totals.interior_rows import TRIALS, VALUES, candidate, value_of
from glmesh.methods.totals.interior_state import InteriorState, InteriorStep, ProblemScales
from glmesh.methods.totals.pieces import Kinks, Multipliers, Pieces
from glmesh.methods.totals.rows import Rows
from glmesh.types import Indices, Vector

# Constants of the step, tuned on the problems of benchmarks/reports/kinks.md, where other values change the totals to
# 1e-6 by some % on average, and those of single problems by up to a half either way

# factor by which a step may be longer than the last one was, or should have been: larger dares more; source:
# benchmarks/reports/sensitivity.md
LONGER = 1.3
# [best trial's decrease] with which a step of less than 1 is accepted: larger repeats more totals; source:
# benchmarks/reports/sensitivity.md
ENOUGH = 0.3
# [step] length up to which mu stays as it is after a step: larger comes closer to centres; source:
# benchmarks/reports/sensitivity.md
SHORT = 0.13
# least factor of mu in a round: smaller dares more; source: benchmarks/reports/sensitivity.md
LEAST_CUT = 0.02
# factor of mu in a round per unit of Newton's decrement: smaller dares more; source: benchmarks/reports/sensitivity.md
CUT = 0.4
# [rows per column] up to which CUT is not reduced: smaller dares more; source: benchmarks/reports/sensitivity.md
FEW_ROWS = 20.0
# CUT where there are many rows per column: smaller dares more; source: benchmarks/reports/sensitivity.md
SLOWEST_CUT = 0.1
# [P/N] mu at the second accepted point, and where a fit begins at given coefficients, at most: smaller dares more;
# source: benchmarks/reports/sensitivity.md
LARGEST_MU = 0.1
# [P/N] mu after a step of at least LONG, at most, because the objective of nearly separable classes falls by orders of
# magnitude, and mu that does not follow it leads back up; of 0.1 to 1 about the best for ten classes of digits
LASTING_MU = 0.5
# [step] length from which on mu follows the objective, because shorter steps mean that mu is too small already
LONG = 0.5
# [tol P/N] least mu, because the gap at the centre is 2 N mu
LEAST_MU = 0.2
# [F] differences of the smoothed objective that are no decrease, because F is rounded
NOISE = 1e-13
# [values] by which those of the objective may grow beyond 2^8 from one total to the next, because a step may be too
# long
VALUE_ROOM = 16.0
# [sums] by which those with D may grow likewise, because D grows as mu falls
STEEP_ROOM = 64.0
STEEP = ("gram", "right", "pull", "spread")


@dataclass(frozen=True, eq=False)
class InteriorModel:
    """The objective as all nodes know it: the penalty of standardised coefficients, and what all rows share."""

    penalty: StandardisedPenalty
    kinks: Kinks
    at: Indices  # (n_l1,) columns with an absolute value
    absolute: Pieces  # (1, n_l1)
    n_pieces: float  # of all rows and coefficients, N

    @staticmethod
    def kept(block: Rows, frame: ProblemScales) -> InteriorModel:
        """Return what `of` does; the block keeps it for as long as it has this penalty."""
        kept = block.smoothed
        if kept is not None and kept[0] is frame and kept[1] is block.penalty and isinstance(kept[2], InteriorModel):
            return kept[2]
        made = InteriorModel.of(block, frame)
        block.smoothed = frame, block.penalty, made
        return made

    @staticmethod
    def of(block: Rows, frame: ProblemScales) -> InteriorModel:
        """Return the InteriorModel of a block's objective, with columns standardised as `frame` says.

        All blocks make the same.
        """
        inverse, kinks = frame.columns.inverse, frame.kinks
        l1 = np.broadcast_to(block.penalty.l1, block.p) * inverse
        l2 = np.where(inverse > 0, np.broadcast_to(block.penalty.l2, block.p) * inverse**2, 1.0)
        at = np.flatnonzero(l1)
        ones = np.ones((1, len(at)))
        absolute = Pieces(0.0 * ones, -l1[at] * ones, l1[at] * ones, ones)
        return InteriorModel(StandardisedPenalty(l1, l2), kinks, at, absolute, kinks.n_pieces * frame.n_rows + len(at))

    def smoothed_penalties(self, w: Vector, step: Vector, lengths: Vector, mu: float) -> Vector:
        """Return the penalty of standardised coefficients w + t step, with absolute values smoothed, for n lengths t.

        w and `step` have shape (d,), `lengths` and what is returned (n,). mu is the weight of the barriers that smooth.
        """
        l2, there = self.penalty.l2, w + lengths[:, None] * step
        out = 0.5 * (l2 * there[:, : len(l2)] ** 2).sum(axis=1)
        if len(self.at):
            out += [float(self.absolute.smoothed(one[None], mu).sum()) for one in there[:, self.at]]
        return np.asarray(out)


@dataclass(frozen=True, eq=False)
class TrialPoint:
    """The point at which a total was made: coefficients, the multipliers there, and the step that led there.

    A total is a sum over all nodes.
    """

    point: Vector  # (d,) standardised coefficients
    l1: Multipliers  # of the absolute values there
    length: float  # of the step that led there; 0: none
    mu: float
    best: float  # length with the least smoothed objective, as far as it is known

    @staticmethod
    def of(model: InteriorModel, state: InteriorState) -> TrialPoint:
        """Return the point at which this round's total is made: the state's point, after its step if it has one.

        A total is a sum over all nodes.
        """
        step = state.step
        if step is None or state.l1 is None:
            return TrialPoint(
                state.point, model.absolute.centre(state.point[model.at][None], state.mu), 0.0, state.mu, 0.0
            )
        point = state.point + step.length * step.direction
        if not len(model.at):
            return TrialPoint(point, state.l1, step.length, step.mu, step.length)
        slope = step.direction[model.at] + state.point[model.at] - step.mu * state.l1.pull
        move = step.length * state.l1.curvature * slope
        l1 = model.absolute.move(state.l1, move, point[model.at][None], step.mu)
        return TrialPoint(point, l1, step.length, step.mu, step.length)


def expected(state: InteriorState, n_nodes: int, least: float) -> tuple[Sums | None, float]:
    """Return (like, cap): a total like the coming one, for its grains, and the largest value that fits at a node.

    A value is a node's part of the objective; the objective is expected to be at least `least`. Before the first total
    with steps they are (None, infinity), and nodes agree on grains first. A total is a sum over all nodes.
    """
    if state.sums is None:
        return None, np.inf
    sizes = state.sums.sizes
    value = value_growth(n_nodes) * max(sizes["values"], least)
    made = {name: STEEP_ROOM * size if name in STEEP else size for name, size in sizes.items()} | {"values": value}
    cap = value * 2.0 ** (ROOM - 1 - (n_nodes - 1).bit_length())
    return Sums({}, {name: size if size > 0 else sizes["size"] for name, size in made.items()}), cap


def value_growth(n_nodes: int) -> float:
    """Return the factor by which values of the objective may grow beyond the usual 2^8 from one total to the next.

    It is enough for a single node to have 32 times the sum of n_nodes nodes.
    """
    return max(VALUE_ROOM, n_nodes / 4.0)


def may_be_coarse(like: Sums | None, sums: Sums, n_nodes: int) -> bool:
    """Return whether some number of a total may not have fitted, so that all were rounded to 2^20 times the grains.

    A total is a sum over all nodes, and a grain the power of two that a field is rounded to multiples of. `like` is the
    total from which the grains were derived; None, of which grains were agreed on, gives False.
    """
    if like is None:
        return False
    growth = 2.0 ** (ROOM - (n_nodes - 1).bit_length() - 1)
    return any(sums.sizes[name] > growth * like.sizes[name] for name in sums)


def newton_matrix(model: InteriorModel, trial: TrialPoint, sums: Sums) -> CholeskyFactor:
    """Return the Cholesky factor of the Newton matrix M = Z'DZ + diag(l2 + D1) at the point of a total, shape (d, d).

    Z are the standardised rows, D the curvatures of the rows' barriers, and D1 those of the L1 penalty's. A total is a
    sum over all nodes.
    """
    d, p = len(trial.point), np.arange(len(model.penalty.l2))
    M = np.empty((d, d))
    unpack_triangle(sums["gram"], M)
    M[p, p] += model.penalty.l2
    M[model.at, model.at] += trial.l1.curvature[0]
    return CholeskyFactor(M)


def better_length(model: InteriorModel, state: InteriorState, step: InteriorStep, sums: Sums) -> tuple[float, float]:
    """Return (length to take, best length) of the step that the last total tried, whose sums are `sums`.

    The best length is the one that decreases the smoothed objective F most. The length to take is that of the step if
    it will do, else the best one, or 0 if F decreases at no trial: the direction is not one of descent, as multipliers
    are too far from their centres.
    """
    lengths = np.array([0.0, step.length, *TRIALS])
    found = sums["values"][VALUES.index("start") :] + model.smoothed_penalties(
        state.point, step.direction, lengths, step.mu
    )
    values = dict(zip(lengths.tolist(), found.tolist(), strict=True))
    start = values.pop(0.0)
    noise = NOISE * abs(start)
    best = min(values, key=lambda t: values[t])
    gain, most = start - values[step.length], start - values[best]
    if gain > -noise and (step.length == 1.0 or gain >= ENOUGH * most - noise):
        return step.length, best
    return (best if most > -noise else 0.0), best


def newton_step(
    model: InteriorModel, state: InteriorState, trial: TrialPoint, sums: Sums, factor: CholeskyFactor, least_mu: float
) -> InteriorStep:
    """Return the next step, from the point `trial` of a total (a sum over all nodes) that was accepted.

    `factor` is that of the Newton matrix M there. The weight mu of the barriers becomes smaller if the point is near
    the centre, but not less than `least_mu`: that is told by the decrement of the barrier function, sqrt(b' M^-1 b /
    (mu d)).
    """
    right, pull, residual = sums["right"].copy(), sums["pull"].copy(), _gradient(sums)
    at, w, l1, D = model.at, trial.point, trial.l1, trial.l1.curvature[0]
    theta = model.absolute.slopes(l1)[0]
    right[at] += theta + D * w[at]
    pull[at] += D * l1.pull[0]
    residual[at] += theta
    p, d = len(model.penalty.l2), len(w)
    right[:p] += model.penalty.l2 * w[:p]
    residual[:p] += model.penalty.l2 * w[:p]
    affine, pulled, restoring = factor.solve(np.stack([-right, pull, -residual], axis=1)).T
    mu = trial.mu
    square = (mu * pull - right) @ (affine + mu * pulled)
    if state.accepted > 1:
        n_rows = model.n_pieces / model.kinks.n_pieces
        cut = float(np.clip(CUT * np.sqrt(FEW_ROWS * d / n_rows), SLOWEST_CUT, CUT))
        if trial.length > SHORT:
            mu *= float(np.clip(cut * np.sqrt(max(square, 0.0) / (mu * d)), LEAST_CUT, 1.0))
    if state.accepted == 2 or (state.accepted > 2 and trial.length >= LONG):
        share = LARGEST_MU if state.accepted == 2 else LASTING_MU
        mu = min(mu, share * (value_of(sums, "loss") + model.penalty.value(w[:p])) / model.n_pieces)
    mu = max(mu, least_mu)
    length = min(1.0, LONGER * float(np.sqrt(trial.length * trial.best))) if trial.length > 0 else 1.0
    return InteriorStep(affine + mu * pulled, restoring, affine, length, mu)


def _gradient(sums: Sums) -> Vector:
    """Return Z'theta at the point of a total, shape (d,): Z are the standardised rows, theta the dual point there.

    A total is a sum over all nodes.
    """
    return np.asarray(candidate(sums, 0)[0][:2].sum(axis=0))


def balanced_intercept(weights: tuple[float, float], counts: tuple[float, float], mu: float) -> float:
    """Return the intercept b of two classes at which, with coefficients w = 0, the centre's dual point adds up to 0.

    `weights` and `counts` are the sums of weights, and the numbers, of the rows with label 1 and of those with -1, all
    > 0; within a class weights are taken as equal. mu is the weight of the barriers.
    """
    width, many = np.array([weights]) / np.array([counts]), np.array(counts)
    share = np.sqrt(width / (sum(weights) / sum(counts)))
    sides = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    pieces = Pieces(np.array([[1.0, -1.0]]), -width * sides[0], width * sides[1], share)
    low, high = -2.0, 2.0
    for _ in range(BALANCE_BISECTIONS):
        b = 0.5 * (low + high)
        rises = pieces.slopes(pieces.centre(b - pieces.k, mu))[0] @ many > 0
        low, high = (low, b) if rises else (b, high)
    return 0.5 * (low + high)


BALANCE_BISECTIONS = 50  # of an interval of length 4, because less than 2^-48 is rounding
