"""State of the interior-point method for losses with kinks at the nodes of a block."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glmesh.core import PerNode, Shared
from glmesh.core.totals import Sums
from glmesh.methods.totals.dual_bound import DualPoint
from glmesh.methods.totals.pieces import Kinks, Multipliers
from glmesh.methods.totals.standardise import Standardisation
from glmesh.types import Matrix, Vector

PREDICTION_ERROR = 2.0**-52  # [sum of magnitudes] error of a prediction


@dataclass(frozen=True, eq=False)
class Frame:
    """What the first totals tell: how columns are standardised, and the size of the problem."""

    columns: Standardisation
    shift: float  # that is subtracted from the targets of a regression
    n_rows: float  # rows with a weight > 0
    weight: float  # sum of the weights
    kinks: Kinks  # of the loss
    target: float  # root of the mean square of the targets; 1 for two classes

    def loss_error(self, point: Vector) -> float:
        """Return by how much the sum of losses at standardised coefficients, shape (d,), may be wrong by rounding.

        Predictions are sums of products, whose sizes add up to at most those of the coefficients, as columns have a
        standard deviation of at most 1; and those of the raw columns have means beside them.
        """
        p, columns = len(self.columns.mean), self.columns
        size = np.abs(point).sum() + np.abs(columns.mean * columns.inverse * point[:p]).sum() + self.target
        return float(PREDICTION_ERROR * self.kinks.n_pieces * self.kinks.width * self.weight * size)


@dataclass(frozen=True, eq=False)
class Step:
    """A step from the last accepted point, which the next total tries."""

    direction: Vector  # (d,) Newton's step with barriers of weight mu
    restoring: Vector  # (d,) step that would make w the maximiser of theta
    affine: Vector  # (d,) Newton's step without barriers
    length: float  # share of `direction` that is taken
    mu: float  # weight of the barriers


@dataclass(kw_only=True)
class InteriorState:
    """All that a block of nodes carries from round to round; w, intercept, objective and gap are those of the user."""

    w: Shared[Vector]  # (p,) coefficients of the best point whose objective is known
    intercept: Shared[float]
    objective: Shared[float] = np.nan  # P at the best point; NaN before the first total that tells it
    gap: Shared[float] = np.inf  # upper bound of P - P*
    failure: Shared[str] = ""  # why no more rounds are worth it, see `TotalState`; "": they are
    visited: PerNode[Vector]  # (n_hosted,) nonzeros visited in the last round
    sums: Shared[Sums | None] = None  # the last total with the fields of a step; None before
    given: Shared[bool]  # whether the first point is w and the intercept, not zero
    centre: Shared[Vector]  # (p + 1,) about which the squares of columns and targets are summed
    frame: Shared[Frame | None] = None  # None before the first totals
    loss: Shared[float] = np.nan  # P without the penalty at the best point
    loss_error: Shared[float] = 0.0  # by how much `loss` may be wrong
    point: Shared[Vector] = field(default_factory=lambda: np.zeros(0))  # (d,) last accepted coefficients, standardised
    l1: Shared[Multipliers | None] = None  # of the absolute values of coefficients, at `point`
    rows: PerNode[list[Matrix]] = field(default_factory=list)  # (m_k, J, 4) multipliers of each hosted node, at `point`
    mu: Shared[float] = np.nan  # weight of the barriers at `point`
    step: Shared[Step | None] = None  # None: the next total is at `point`, and multipliers are at their centres
    accepted: Shared[int] = 0  # points that were accepted since the start, or since the penalty changed
    dual: Shared[DualPoint | None] = None  # the best one known
    bound: Shared[float] = 0.0  # the largest known lower bound of P*; that of theta = 0 is 0
    marks: Shared[tuple[float, float]] = (np.inf, np.inf)  # (gap, objective) when something was gained last
    quiet: Shared[int] = 0  # rounds since then
