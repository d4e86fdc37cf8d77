"""What a total of Newton's method asks of every node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.types import Indices, Matrix, Vector

# [step] shorter lengths that every total tries, halves because the best is then at most a factor of sqrt(2) away
TRIALS = np.ldexp(1.0, -np.arange(1, 13))


@dataclass(frozen=True)
class Query:
    """What the next total, a sum over all nodes, asks of every node: sums over its rows at point + step.

    The coordinates are d scaled coefficients, the intercept last. All nodes have the same query.
    """

    point: Vector  # (d,) scaled coefficients
    step: Vector  # (d,) towards the trial point; zeros: only the point itself is asked for
    columns: Indices  # (n,) coordinates of the Hessian, ascending; empty: none is asked for
    majorant: bool = False  # whether the Hessian is made of curvatures of a quadratic upper bound
    stepped_majorant: bool = False  # whether the step was made with such curvatures
    damping: float = 0.0  # part of the upper bound that was added to the curvature when the step was made
    cap: float = np.inf  # a node's loss above it is sent as twice the cap
    trials: bool = False  # whether shorter steps are tried
    dual: bool = False  # whether a dual point is asked for
    shrink: float = 1.0  # factor of the dual point
    cross: bool = False  # whether the Hessian's row of the intercept is asked for, on all columns
    separation: bool = False  # whether it is counted which nodes have rows on the wrong side
    inverse: Matrix | None = None  # (d, d) inverse factor of the Hessian at `point`, for leverages; None: not asked for
    flat: Matrix | None = None  # (r, d) directions in which the Hessian is flat; None: not asked about
    softness: float = 1.0  # of the loss at `point`, by which the step is judged
    next_softness: float = 1.0  # of the loss from the trial point on, whose derivatives are asked for
    mass: bool = False  # whether the slopes of the losses far away are summed
    majorant_flat: bool = False  # whether those are directions of the upper bound's Hessian

    @property
    def moves(self) -> bool:
        """Return whether the trial point is another than `point`, that is whether the step is not zero."""
        return bool(self.step.any())
