"""All that CoLA carries from round to round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glmesh.core.block import Block
from glmesh.core.state import PerColumn, PerNode, Shared
from glmesh.gossip.base import Gossip
from glmesh.methods.cola.choice import Trial
from glmesh.methods.cola.exact_sums import Sums
from glmesh.methods.cola.momentum import Momentum
from glmesh.methods.cola.newton import Newton
from glmesh.methods.cola.relaxation import Relaxation
from glmesh.solvers.screening import Screening
from glmesh.types import Flags, Matrix, Vector


@dataclass
class ColaState:
    """All that a block of nodes carries from round to round."""

    x: PerColumn[Vector]  # the variables of the hosted nodes, node after node
    gossip: Gossip  # the estimates, and how they are mixed
    w: PerNode[Matrix]  # a row per node: the gradient of f at its mixed estimate
    memory: Any  # the local solver's; None if it remembers nothing
    up: PerNode[Flags]  # nodes that take part in the coming round
    screening: Screening  # nodes that skip their subproblem because it has nothing to gain
    required_theta: PerNode[Vector]  # the accuracy Theta that circumstances impose on a node; NaN: none
    theta: PerNode[Vector]  # local accuracy reached in the last round
    visited: PerNode[Vector]  # nonzeros visited in the last round
    round: Shared[int] = 0
    momentum: Momentum | None = None
    sums: Sums | Newton | None = None  # in use, if there
    story: Shared[list[tuple[int, str, str]]] = field(default_factory=list)  # (round, acceleration from then on, why)
    trial: Shared[Trial | None] = None  # whether sums pay
    relaxation: Relaxation | None = None  # where sigma' is looked for

    @property
    def solves_intercept(self) -> bool:
        """Whether Newton's method is in use, which solves for a free intercept with the coefficients."""
        return isinstance(self.sums, Newton)

    @property
    def center(self) -> Vector | None:
        """(d,) the coefficients that Newton's method, if in use, has x and v belong to; None: there are none."""
        return self.sums.center if isinstance(self.sums, Newton) else None

    @property
    def v(self) -> Matrix:
        """A row per node: its estimate of Ax."""
        return self.gossip.v


def start_of(block: Block) -> Vector:
    """x = 0, or the nearest feasible point."""
    return block.inside(np.zeros(block.columns.n))
