"""State of exact sums at nodes that hold columns: variables that are a node's own, and sums that all know."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glmesh.core import PerColumn, Shared
from glmesh.core.totals import Sums
from glmesh.functions import Smooth
from glmesh.methods.cola.exact_sums import ExactSums, Point
from glmesh.types import Matrix, Vector


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

    def tell(self, f: Smooth, move: Vector) -> None:
        """Keep what all nodes must agree on at their new point: f there, the intercept, and the `move` that led there.

        `f` is the loss of the predictions; `move` has shape (h,), the lengths along h directions.
        """
        here = np.zeros(2) if self.v is None else np.array([f.value(self.v), f.offset(self.v)])
        self.told = np.append(here, move)

    def has_heard(self, told: Vector) -> None:
        """Keep what another node says of the point that all are at, shape (2 + h,), instead of the node's own."""
        self.told = told

    def add_up(self, sums: Sums) -> None:
        """Keep v = Ax from a total of all nodes' shares of it."""
        self.remember(sums)
        self.v, self.fresh = sums["prediction"], True
        self.count_directions()

    def count_directions(self) -> None:
        """Count a total that was a vector with an entry per row."""
        self.directions_told += 1

    def prove(self) -> None:
        """Say that the estimate of the gap is proven: v was added up in the round before."""
        self.gap = self.estimate

    def value(self, sums: Sums) -> None:
        """Keep objective and intercept at the present point, from a total that was made there."""
        penalty = float(sums["penalty"][0]) if "penalty" in sums else 0.0
        self.objective, self.intercept = float(self.told[0]) + penalty, float(self.told[1])
        self.bound = min(self.bound, self.objective)

    def estimated(self, estimate: float, *, falls: bool) -> None:
        """Keep an estimate of the gap at the present point, and count rounds in a row in which nothing has become less.

        `falls` says whether the objective has.
        """
        self.idle = 0 if falls or estimate < 0.99 * self.estimate else self.idle + 1
        self.estimate = estimate

    def fail(self, why: str) -> None:
        """Say why no more rounds are worth it."""
        self.failure = why

    def move(self, change: Vector, products: Vector) -> None:
        """Move x by the `change` of the block's columns, shape (n_columns,), and v by that of Ax, shape (n,)."""
        assert self.v is not None
        self.x, self.v, self.fresh = self.x + change, self.v + products, False

    def move_in_plane(self, change: Vector, products: Vector) -> None:
        """Move as `move` does, and remember the point before and the change for the plane of the next round."""
        assert self.v is not None
        self.before, self.plane.cautious = Point(self.x, self.v), False
        self.last, self.step = change, products
        self.move(change, products)

    def go_back(self, point: Point) -> None:
        """Return to a `point` of the round before whose objective is unknown; search the next plane with care."""
        self.x, self.v, self.last, self.step = point.x, point.v, None, None
        self.before, self.plane.cautious, self.fresh, self.objective = None, True, False, np.nan

    def keep(self, directions: Matrix, products: Matrix, gram: Matrix) -> None:
        """Keep directions, shape (h, n_columns), A times them, (h, n), and the penalty along them, (h, h)."""
        self.directions, self.products, self.gram = directions, products, gram

    def remember(self, sums: Sums) -> None:
        """Keep the sizes of the fields of a total, those that are zero excepted, which say nothing on the next."""
        self.sizes = self.sizes | {name: size for name, size in sums.sizes.items() if size > 0}
