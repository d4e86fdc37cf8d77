"""What the state of every method on totals has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from glmesh.core import PerNode, Shared
from glmesh.types import Vector


class HoldsModel(Protocol):
    """Protocol of the state of a method on totals: what the engine reads of it; `TotalState` explains each."""

    w: Vector
    intercept: float
    visited: Vector
    objective: float
    gap: float
    failure: str


@dataclass
class TotalState:
    """The least state that a method on totals has; a method adds fields for what else it keeps."""

    w: Shared[Vector]  # (p,) coefficients of the best point whose objective is known, see `Rows.p`
    intercept: Shared[float]  # the last one, where a row has several linear predictors
    visited: PerNode[Vector]  # (n_hosted,) nonzeros visited in the last round
    objective: Shared[float] = np.nan  # at w; NaN before it is known
    gap: Shared[float] = np.inf  # proven upper bound of objective - optimum
    failure: Shared[str] = ""  # why no more rounds are worth it, see `HostedNodes.failure`
