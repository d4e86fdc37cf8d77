"""Which method on totals suits a loss and a penalty where nodes hold rows."""

from __future__ import annotations

import numpy as np

from glmesh.errors import UnsuitablePair
from glmesh.functions import Loss, Separable
from glmesh.functions.separable import Columnwise
from glmesh.methods.totals.interior import MAX_COLUMNS, InteriorPoint
from glmesh.methods.totals.newton import ProximalNewton
from glmesh.methods.totals.pieces import Kinks
from glmesh.types import Vector

# [coefficients] above which a whole Hessian is not summed: half a million numbers weigh more than what gossip sends
MOST_COEFFICIENTS = 1000


def method_on_totals(loss: Loss, penalty: Separable, n_coefficients: int) -> ProximalNewton | InteriorPoint | None:
    """Return the method on totals for a loss, a penalty (alpha included) and p coefficients; None if there is none.

    A smooth loss takes Newton's method, also with more coefficients if every one has an L1 penalty, because then a
    working set is enough. A loss with kinks takes the interior-point method, which bears no bounds and needs an L1 or
    L2 penalty where the loss is 0 on one side, as the hinge is. The group Lasso, whose terms hold several coefficients,
    has no method on totals.
    """
    table = penalty.as_table()
    if table is None:
        return None
    dual = loss.dual(*_two_rows())
    if isinstance(dual, Columnwise) and dual.has_smooth_conjugate:
        narrow = n_coefficients <= MOST_COEFFICIENTS
        return ProximalNewton() if narrow or bool((table.l1 > 0).all()) else None
    try:
        kinks = Kinks.of(loss)
    except UnsuitablePair:
        return None
    bounded = bool((table.lo > -np.inf).any() or (table.hi < np.inf).any() or table.linear.any())
    penalised = kinks.growth > 0 or bool(((table.l1 > 0) | (table.l2 > 0)).all())
    return InteriorPoint() if penalised and not bounded and n_coefficients <= MAX_COLUMNS else None


def _two_rows() -> tuple[Vector, Vector]:
    """Return (targets, weights) of two rows, of which a loss makes a dual that shows whether it is smooth."""
    return np.array([1.0, -1.0]), np.ones(2)
