"""State of exact sums at nodes that hold columns: variables that are a node's own, and sums that all know."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glmesh.core import PerColumn, Shared
from glmesh.core.totals import Sums
from glmesh.methods.cola.exact_sums import ExactSums
from glmesh.types import Matrix, Vector


@dataclass
class Point:
    """A point to return to: variables x of the block's columns, and predictions Ax."""

    x: PerColumn[Vector]  # (n_columns,)
    v: Shared[Vector]  # (n,)


@dataclass
class ColumnState:
    """State of `ColumnTotals` at the nodes of a block: x is the nodes' own, what is Shared follows from totals alone.

    A is the data matrix by columns and x are the variables of all nodes, so v = Ax are the predictions without the
    intercept. A total is a sum over all nodes.
    """

    x: PerColumn[Vector]  # (n_columns,) coefficients of the block's columns
    v: Shared[Vector | None]  # (n,) Ax; None: not known yet
    bound: Shared[float]  # an objective that some point has, so that the optimum is not above it
    fresh: Shared[bool] = False  # whether v is a sum of A_k x_k, and not only kept up to date
    directions: PerColumn[Matrix] = field(default_factory=lambda: np.zeros((0, 0)))  # (h, n_columns)
    products: Shared[Matrix] = field(default_factory=lambda: np.zeros((0, 0)))  # (h, n) A times these
    gram: Shared[Matrix] = field(default_factory=lambda: np.zeros((0, 0)))  # (h, h) of the L2 penalty along these
    last: PerColumn[Vector | None] = None  # (n_columns,) last change of x, where g has kinks; None: there was none
    step: Shared[Vector | None] = None  # (n,) last change of Ax, likewise
    before: Point | None = None  # point of the round before, where g has kinks
    plane: Shared[ExactSums] = field(default_factory=ExactSums)  # how searches of planes went, where g has kinks
    told: Shared[Vector] = field(default_factory=lambda: np.zeros(0))  # what follows from the totals so far: `at`
    sizes: Shared[dict[str, float]] = field(default_factory=dict)  # of the fields of earlier totals
    objective: Shared[float] = np.nan  # at the last point whose objective is known
    intercept: Shared[float] = 0.0  # the best one at that point
    estimate: Shared[float] = np.inf  # bound of objective - optimum there, if v is right
    gap: Shared[float] = np.inf  # proven bound of objective - optimum; infinite: nothing is proven yet
    idle: Shared[int] = 0  # rounds in a row in which neither objective nor estimate has become less
    failure: Shared[str] = ""  # why no more rounds are worth it; empty: they are
    directions_told: Shared[int] = 0  # totals that were vectors with an entry per row

    @property
    def like(self) -> Sums:
        """Return earlier sums with sizes alone, from which the next total takes its grains."""
        return Sums({}, self.sizes)

    def remember(self, sums: Sums) -> None:
        """Keep the sizes of the fields of a total, those that are zero excepted, which say nothing on the next."""
        self.sizes = self.sizes | {name: size for name, size in sums.sizes.items() if size > 0}
