"""State of a maximum-likelihood fit on totals: equal at all nodes, but for the work that each has done."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from glmesh.core import PerNode, Shared
from glmesh.core.totals import Sums
from glmesh.methods.totals.likelihood.separation import Separation
from glmesh.methods.totals.likelihood.statistics import FitStatistics
from glmesh.methods.totals.model import NewtonModel, NewtonStep
from glmesh.types import Indices, Matrix, Vector


@dataclass(frozen=True)
class LikelihoodQuery:
    """What the next total, a sum over all nodes, asks of every node: sums over its rows at point + step."""

    point: Vector  # (d,) scaled coefficients
    step: Vector  # (d,) towards the trial point; zeros: only the point itself is asked for
    columns: Indices  # (n,) coordinates of the Hessian, ascending
    cap: float = 1e300  # a node's loss above it is sent as twice the cap
    trials: bool = False  # whether the losses after shorter steps are asked for
    inverse: Matrix | None = None  # (d, d) L^-1, LL^T the Hessian at `point`, for the certificate; None: not asked for
    radius: float = 0.0  # distance from `point`, in the norm of that Hessian, within which the certificate must hold


@dataclass
class LikelihoodState:
    """All that a maximum-likelihood fit carries from total to total; only `visited` differs from node to node."""

    w: Shared[Vector]  # (p,) coefficients of the best point whose objective is known
    intercept: Shared[float]
    visited: PerNode[Vector]  # (n_hosted,) nonzeros visited in the last round
    objective: Shared[float] = np.nan  # at w; NaN before the first total
    gap: Shared[float] = np.inf  # proven upper bound of objective - optimum
    distance: Shared[float] = np.inf  # proven bound of the distance to the optimum in the norm of the Hessian at w
    failure: Shared[str] = ""  # why no more rounds are worth it, see `HostedNodes.failure`
    finished: Shared[bool] = False  # whether all is known that the fit is to find out
    sums: Shared[Sums | None] = None  # last total, from which the next takes its grains
    scale: Shared[Vector | None] = None  # (d,) powers of two that columns are divided by; None: not agreed on yet
    cold: Shared[bool] = True  # whether the fit is still to find the null model at which it starts
    drawn: Shared[Vector | None] = None  # (d,) by which the fit begins beside the null model; None: it begins there
    origin: Shared[Vector | None] = None  # (d,) the null model beside which it began
    halvings: Shared[int] = 0  # of `drawn`, because the start was outside of the link's domain
    null: Shared[float] = np.nan  # objective at the null model; NaN: the fit began elsewhere
    query: Shared[LikelihoodQuery | None] = None  # what the coming total asks for; None: begin at w
    model: Shared[NewtonModel | None] = None  # what is known at the query's point; None: nothing yet
    step: Shared[NewtonStep | None] = None  # the step of the query, of length one; None: none
    aliased: Shared[Indices | None] = None  # coordinates that depend on others; None: not known yet
    fisher: Shared[Matrix | None] = None  # (n, n) expected Hessian, where the observed one may not be definite
    dispersion: Shared[float] = np.nan  # phi; NaN: not known yet
    noise: Shared[float] = 0.0  # by which an entry of the gradient may be wrong
    rounding: Shared[float] = 0.0  # by which the objective may be wrong
    concordance: Shared[float] = np.inf  # R at the point of the last certificate; infinite: none was asked for
    separation: Shared[Separation | None] = None  # whether a maximum exists; None: not asked yet, or it always does
    bound: Shared[float] = np.inf  # R of all rows at the query's point; infinite: not asked for, or none
    far: Shared[bool] = False  # whether the trial point is too far for a real site, so that all tell losses alone
    withheld: Shared[bool] = False  # whether a real site does not answer the search of the coming total's question
    kept_back: Shared[bool] = False  # whether that has happened
    proof: Shared[Vector | None] = None  # (2,) Newton's decrement and R at w; None: nothing is proven there
    # what the totals at the end say; None: the fit has not ended, or has a penalty
    statistics: Shared[FitStatistics | None] = None
    shape: Shared[float] = np.nan  # of the family, see `shape`; NaN: none is to be estimated
    shape_steps: Shared[int] = 0  # steps of the shape so far
    shape_error: Shared[float] = np.nan  # standard error of the shape; NaN: it has not come to rest, or is known
    idle: Shared[int] = 0  # rounds in a row whose step promised nothing but rounding

    def rescale(self, scale: Vector) -> None:
        """Set the powers of two that columns are divided by, shape (d,)."""
        self.scale = scale

    def visit(self, visited: Vector) -> None:
        """Keep how many nonzeros each hosted node visits in this round, shape (n_hosted,)."""
        self.visited = visited

    def ask(self, query: LikelihoodQuery, model: NewtonModel | None, step: NewtonStep | None) -> None:
        """Set what the coming total asks for, what is known at its point, and its step."""
        self.query, self.model, self.step = query, model, step

    def look_ahead(self, bound: float, *, withheld: bool, far: bool) -> None:
        """Keep what goes before the coming total: R of all rows, whether a site withholds its answer, or is far."""
        self.bound, self.withheld, self.far = bound, withheld, far
        self.kept_back |= withheld

    def close(self, statistics: FitStatistics) -> None:
        """Keep what the totals at the end say, with the standard error of the shape."""
        self.statistics = replace(statistics, shape_error=self.shape_error)

    def go_on(self) -> None:
        """Say that the fit has not found out all, because the shape is still being searched."""
        self.finished = False

    def go_to_shape(self, shape: float) -> None:
        """Take the shape of the family at which the coming total is made, that of another node."""
        self.shape = shape

    def end_shape(self, error: float) -> None:
        """Say that the shape has come to rest, with the standard `error` of its estimate."""
        self.shape_error = error

    def fail(self, why: str) -> None:
        """Say why no more rounds are worth it."""
        self.failure = why
