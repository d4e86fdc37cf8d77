"""State of the interior-point method for losses with kinks at the nodes of a block."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glmesh.core import PerNode, Shared
from glmesh.core.totals import Sums
from glmesh.methods.totals.dual_bound import DualPoint
from glmesh.methods.totals.pieces import Multipliers
from glmesh.methods.totals.standardise import Standardisation
from glmesh.types import Vector


@dataclass(frozen=True, eq=False)
class Frame:
    """What the first totals tell: how columns are standardised, and the size of the problem."""

    columns: Standardisation
    shift: float  # that is subtracted from the targets
    n_rows: float  # rows with a weight > 0
    weight: float  # sum of the weights


@dataclass(frozen=True, eq=False)
class Step:
    """A step from the last accepted point, which the next total tries."""

    direction: Vector  # (d,) Newton's step with barriers of weight mu
    restoring: Vector  # (d,) step that would make w that of theta
    affine: Vector  # (d,) Newton's step without barriers
    length: float  # of the step along `direction`
    mu: float  # weight of the barriers


@dataclass(kw_only=True)
class InteriorState:
    """All that a block of nodes carries from round to round; coefficients of the best point are the user's."""

    w: Shared[Vector]  # (p,) coefficients of the best point whose objective is known
    intercept: Shared[float]
    objective: Shared[float] = np.nan  # P at the best point; NaN before the first total
    gap: Shared[float] = np.inf  # upper bound of P - P*
    visited: PerNode[Vector]  # (n_hosted,) nonzeros visited in the last round
    sums: Shared[Sums | None] = None  # the last total
    centre: Shared[Vector]  # (p + 1,) about which the squares of columns and targets were last summed
    frame: Shared[Frame | None] = None  # None before the first totals
    point: Shared[Vector] = field(default_factory=lambda: np.zeros(0))  # (d,) last accepted coefficients, standardised
    l1: Shared[Multipliers | None] = None  # those of the absolute values of coefficients
    rows: PerNode[list[Multipliers]] = field(default_factory=list)  # those of the rows of each hosted node
    mu: Shared[float] = np.nan  # weight of the barriers of the last accepted point
    step: Shared[Step | None] = None  # None: the next total is at `point`, and multipliers are at their centres
    accepted: Shared[int] = 0  # points that were accepted since the start, or the last change of the penalty
    dual: Shared[DualPoint | None] = None  # the best one known
    bound: Shared[float] = -np.inf  # the largest lower bound of P*
