"""State of Newton's method on totals: equal at all nodes, but for the work that each has done."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glmesh.core import PerNode, Shared
from glmesh.core.totals import Sums
from glmesh.methods.totals.flat import Flat
from glmesh.methods.totals.model import NewtonModel, NewtonStep
from glmesh.methods.totals.query import Query
from glmesh.types import Matrix, Vector


@dataclass
class NewtonState:
    """All that Newton's method carries from total (a sum over all nodes) to total.

    Nothing but `visited` differs from node to node.
    """

    w: Shared[Vector]  # (p,) coefficients of the best point whose objective is known
    intercept: Shared[float]
    visited: PerNode[Vector]  # (n_hosted,) nonzeros visited in the last round
    objective: Shared[float] = np.nan  # at w; NaN before the first total
    gap: Shared[float] = np.inf  # proven upper bound of objective - optimum
    distance: Shared[float] = np.inf  # bound of the distance to the optimum in the norm of the Hessian at w
    failure: Shared[str] = ""  # why no more rounds are worth it, see `HostedNodes.failure`
    sums: Shared[Sums | None] = None  # last total, from which the next takes its grains
    scale: Shared[Vector | None] = None  # (p,) powers of two that columns are divided by; None: not agreed on yet
    query: Shared[Query | None] = None  # what the coming total asks for; None: begin at w
    model: Shared[NewtonModel | None] = None  # what is known at the query's point; None: nothing yet
    step: Shared[NewtonStep | None] = None  # the step of the query, of length one; None: none
    gram: Shared[Matrix | None] = None  # (n, n) Hessian of the upper bound, for damping; None: not known
    damping: Shared[float] = 0.0  # part of `gram` that is added to the Hessian
    mass: Shared[float] = 0.0  # sum over all rows of the slope of a loss far away; 0: not known
    softened: Shared[bool] = False  # whether it was decided how soft the loss is at first
    steady: Shared[bool] = False  # whether the last step was taken in full and gained what the model had promised
    careful: Shared[int] = 0  # rounds to come with curvatures of an upper bound instead of the Hessian
    patience: Shared[int] = 1  # `careful` when the Hessian misleads next
    rounding: Shared[float] = 0.0  # by which the objective may be wrong
    noise: Shared[float] = 0.0  # by which an entry of the gradient may be wrong
    lower: Shared[float] = -np.inf  # proven lower bound of the optimum
    concordance: Shared[float] = np.inf  # R of the bounds by self-concordance at the query's point; inf: not known
    flat: Shared[Flat] = field(default_factory=Flat)  # what is known of directions without curvature
    idle: Shared[int] = 0  # rounds in a row whose step promised nothing but rounding

    def move(self, query: Query) -> None:
        """Go to the point of `query`, which is what the coming total is to ask for."""
        self.query = query
