"""What Newton's method on totals must know of a loss, found from two rows of it; all nodes find the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.functions import Loss
from glmesh.functions.separable import LOGISTIC_DUAL


def is_smooth(loss: Loss) -> bool:
    """Return whether a loss has a continuous slope, so that Newton's method suits it."""
    return loss.dual(np.array([1.0, -1.0]), np.ones(2)).has_smooth_conjugate


@dataclass(frozen=True)
class Traits:
    """Properties of a smooth loss, as a function of the prediction, on which the steps of Newton's method depend."""

    quadratic: bool  # whether the curvature is constant
    pieces: bool  # whether the curvature jumps, so that the Hessian may mislead far away
    third: float | None  # c with abs(loss''') <= c loss''; None: there is none
    knee: float | None  # half the length of the curved piece, if the loss is straight on both sides of it

    @staticmethod
    def of(loss: Loss) -> Traits:
        """Return the traits of a loss; raise InvalidInput for one that is not smooth."""
        g = loss.dual(np.array([1.0, -1.0]), np.ones(2))
        if not g.has_smooth_conjugate:
            raise InvalidInput(f"Newton's method needs a smooth loss, and {loss.name} has kinks. Use InteriorPoint")
        if g.kind == LOGISTIC_DUAL:
            return Traits(quadratic=False, pieces=False, third=1.0, knee=None)
        rows = g.kernel_rows(2)
        bounded = np.isfinite(rows[:, 3:])
        quadratic = not bounded.any() and not rows[:, 0].any()
        _, l2, _, lo, hi = rows[0]
        knee = 0.5 * float(l2 * (hi - lo)) if bounded.all() and not rows[:, 0].any() else None
        return Traits(quadratic, not quadratic, 0.0 if quadratic else None, knee)
