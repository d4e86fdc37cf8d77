"""State of the interior-point method for losses with kinks at the nodes of a block."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from glmesh.core import PerNode, Shared
from glmesh.core.totals import Sums
from glmesh.methods.totals.dual_bound import DualPoint
from glmesh.methods.totals.pieces import Kinks, Multipliers
from glmesh.methods.totals.standardise import Standardisation
from glmesh.types import Matrix, Vector

PREDICTION_ERROR = 2.0**-52  # [sum of magnitudes] error of a prediction, because products and sums are rounded

# Rounds that gain nothing end a run, because rounding then keeps the gap from falling: where columns nearly repeat
# each other, their effective penalty is tiny, or the optimum is 0
PATIENCE = 40  # [rounds] without a gain: of 300 random runs those that arrived at 1e-9 had up to 27 of them
LESS_GAP = 0.9  # factor of the gap that is a gain, because a fall by less in PATIENCE rounds arrives nowhere
LESS_OBJECTIVE = 1.0 - 1e-6  # factor of the objective that is a gain, because less may be its rounding


@dataclass(frozen=True, eq=False)
class ProblemScales:
    """What the first totals tell all nodes: how columns are standardised, and how large the problem is.

    A total is a sum over all nodes.
    """

    columns: Standardisation  # means and powers of two
    shift: float  # that is subtracted from the targets of a regression
    n_rows: float  # rows with a weight > 0
    weight: float  # sum of the weights
    kinks: Kinks  # of the loss
    target: float  # root of the mean square of the targets; 1 for two classes

    def loss_error(self, point: Vector) -> float:
        """Return how far the sum of losses at standardised coefficients `point`, shape (d,), may be wrong by rounding.

        Predictions are sums of products, whose sizes add up to at most those of the coefficients, as columns have a
        standard deviation of at most 1; and those of the raw columns have means beside them.
        """
        p, columns = len(self.columns.mean), self.columns
        size = np.abs(point).sum() + np.abs(columns.mean * columns.inverse * point[:p]).sum() + self.target
        return float(PREDICTION_ERROR * self.kinks.n_pieces * self.kinks.width * self.weight * size)


@dataclass(frozen=True, eq=False)
class InteriorStep:
    """A step from the last accepted point, which the next total (a sum over all nodes) tries."""

    direction: Vector  # (d,) Newton's step with barriers of weight mu
    restoring: Vector  # (d,) step that would make w the maximiser of theta
    affine: Vector  # (d,) Newton's step without barriers
    length: float  # share of `direction` that is taken
    mu: float  # weight of the barriers


@dataclass(kw_only=True)
class InteriorState:
    """All that a block of nodes carries from round to round.

    w, intercept, objective and gap are in the user's units; P is the objective, P* its optimum.
    """

    w: Shared[Vector]  # (p,) coefficients of the best point whose objective is known
    intercept: Shared[float]  # of the best point
    objective: Shared[float] = np.nan  # P at the best point; NaN before the first total that tells it
    gap: Shared[float] = np.inf  # upper bound of P - P*
    failure: Shared[str] = ""  # why no more rounds are worth it, see `TotalState`; "": they are
    visited: PerNode[Vector]  # (n_hosted,) nonzeros visited in the last round
    sums: Shared[Sums | None] = None  # the last total with the fields of a step; None before
    given: Shared[bool]  # whether the first point is w and the intercept, not zero
    centre: Shared[Vector]  # (p + 1,) about which the squares of columns and targets are summed
    frame: Shared[ProblemScales | None] = None  # None before the first totals
    loss: Shared[float] = np.nan  # P without the penalty at the best point
    loss_error: Shared[float] = 0.0  # by how much `loss` may be wrong
    point: Shared[Vector] = field(default_factory=lambda: np.zeros(0))  # (d,) last accepted coefficients, standardised
    l1: Shared[Multipliers | None] = None  # of the absolute values of coefficients, at `point`
    rows: PerNode[list[Matrix]] = field(default_factory=list)  # (m_k, J, 4) multipliers of each hosted node, at `point`
    mu: Shared[float] = np.nan  # weight of the barriers at `point`
    step: Shared[InteriorStep | None] = None  # None: the next total is at `point`, and multipliers are at their centres
    accepted: Shared[int] = 0  # points that were accepted since the start, or since the penalty changed
    dual: Shared[DualPoint | None] = None  # the best one known
    bound: Shared[float] = 0.0  # the largest known lower bound of P*; that of theta = 0 is 0
    marks: Shared[tuple[float, float]] = (np.inf, np.inf)  # (gap, objective) when something was gained last
    quiet: Shared[int] = 0  # rounds since then

    def begin(self, frame: ProblemScales, point: Vector, mu: float) -> None:
        """Begin at standardised coefficients `point`, shape (d,), with barriers of weight mu."""
        self.frame, self.point, self.mu = frame, point, max(mu, np.finfo(np.float64).tiny)

    def go_to(self, point: Vector, objective: float, mu: float) -> None:
        """Go to the best point, `point` in standardised coordinates, where the objective is now `objective`.

        mu is the weight of the barriers from there on.
        """
        self.point, self.objective, self.mu = point, objective, mu

    def begin_anew(self) -> None:
        """Forget the step, the bound and why a run ended, because the penalty is another one from now on."""
        self.step, self.l1, self.accepted, self.bound = None, None, 0, 0.0
        self.quiet, self.marks, self.failure = 0, (np.inf, np.inf), ""

    def accept(self, point: Vector, l1: Multipliers, rows: list[Matrix]) -> None:
        """Let the next step begin at `point`, shape (d,), the trial point of the last total (a sum over all nodes).

        `l1` are the multipliers of the coefficients there, `rows` those of each hosted node's rows, shape (m_k, J, 4).
        """
        self.point, self.l1, self.rows = point, l1, rows
        self.accepted += 1

    def plan(self, step: InteriorStep) -> None:
        """Set the step that the next total (a sum over all nodes) tries."""
        self.step, self.mu = step, step.mu

    def shorten(self, length: float) -> None:
        """Let the next total (a sum over all nodes) try the same step with another length.

        Length 0 drops the step, and brings the multipliers to their centres.
        """
        assert self.step is not None
        self.mu = self.step.mu
        self.step = replace(self.step, length=length) if length > 0 else None

    def keep_best(self, point: Vector, loss: float, penalty: float) -> None:
        """Store `point`, standardised coefficients of shape (d,), as the best if loss + penalty is less there.

        The first point is stored in any case.
        """
        assert self.frame is not None
        if not loss + penalty >= self.objective:
            self.objective, self.loss = loss + penalty, loss
            self.loss_error = self.frame.loss_error(point)
            self.w, self.intercept = self.frame.columns.to_user(point, self.frame.shift)

    def keep_dual(self, dual: DualPoint, bound: float) -> None:
        """Make `dual` the best dual point if `bound`, its lower bound of the optimum, is larger, or if it is first."""
        if self.dual is None or bound > self.bound:
            self.bound, self.dual = max(bound, 0.0), dual

    def replace_dual(self, dual: DualPoint, bound: float) -> None:
        """Make `dual` the best dual point, also if its lower bound of the optimum, `bound`, is below the last one."""
        self.dual, self.bound = dual, max(0.0, bound)

    def raise_bound(self, bound: float) -> None:
        """Make `bound` the lower bound of the optimum if it is above the last one."""
        self.bound = max(self.bound, bound)

    def visit(self, visited: Vector) -> None:
        """Keep how many nonzeros each hosted node visits in this round, shape (n_hosted,)."""
        self.visited = visited

    def take(self, sums: Sums) -> None:
        """Keep the sums of the last total, from which the next one takes its grains."""
        self.sums = sums

    def move_centre(self, mean: Vector) -> None:
        """Set the point, shape (p + 1,), about which moments of the columns and of the target are summed."""
        self.centre = mean

    def fail(self, why: str) -> None:
        """Say why no more rounds are worth it."""
        self.failure = why

    def set_gap(self, rounding: float) -> None:
        """Set the gap to the objective P less its lower bound, plus what rounding may hide; to 0 where P is 0.

        `rounding` is that of P, relative to P.
        """
        gap = max(self.objective - self.bound, 0.0) + rounding * self.objective + self.loss_error
        self.gap = gap if self.objective != 0.0 else 0.0
        if not np.isfinite(self.gap):
            self.gap = np.inf

    def watch(self) -> None:
        """Count the rounds since the gap last fell by a tenth, or the objective by a millionth.

        After PATIENCE (40) of them `failure` says that all that is left to gain is rounding.
        """
        gap, objective = self.marks
        if self.gap < LESS_GAP * gap or self.objective < LESS_OBJECTIVE * objective:
            self.quiet, self.marks = 0, (min(self.gap, gap), min(self.objective, objective))
        else:
            self.quiet += 1
            self.failure = "rounding" if self.quiet >= PATIENCE else ""
