"""Which method on totals suits a loss and a penalty where nodes hold rows."""

from __future__ import annotations

import numpy as np

from glmesh.errors import UnsuitablePair
from glmesh.functions import Loss, Separable, Table
from glmesh.methods.totals import row_space
from glmesh.methods.totals.interior import MAX_COLUMNS, InteriorPoint
from glmesh.methods.totals.likelihood.method import MaximumLikelihood
from glmesh.methods.totals.limited_memory import LimitedMemory
from glmesh.methods.totals.newton import ProximalNewton
from glmesh.methods.totals.nodes import OnTotals
from glmesh.methods.totals.pieces import Kinks
from glmesh.methods.totals.traits import is_smooth
from glmesh.methods.totals.working_set import WIDE

# [coefficients] above which a whole Hessian is not summed, because half a million numbers weigh more than what gossip
# sends
MOST_COEFFICIENTS = 1000


def method_on_totals(loss: Loss, penalty: Separable, n_coefficients: int, n_rows: float = np.inf) -> OnTotals | None:
    """Return the method on totals for a loss and a penalty (alpha included); None: none suits.

    `n_coefficients` is p, without the intercept, `n_rows` is m, over all nodes. A family of distributions takes
    `MaximumLikelihood`. Another smooth loss takes Newton's method, also with thousands of coefficients if at most 500
    have no L1 penalty, because then a working set is enough. With an L2 penalty alone it takes L-BFGS there, and any
    loss the span of the rows if they are few. A loss with kinks takes the interior-point method, which bears no bounds
    and needs an L1 or L2 penalty where the loss is 0 on one side, as the hinge is. The group Lasso, whose terms hold
    several coefficients, has no method on totals.
    """
    table = penalty.as_table()
    if table is None:
        return None
    if loss.by_likelihood:
        return MaximumLikelihood()
    ridge = row_space.is_ridge(table)
    if ridge and row_space.pays(n_rows, n_coefficients):
        return row_space.RowSpace()
    if is_smooth(loss):
        plain = np.broadcast_to(table.l1 == 0, n_coefficients)
        if n_coefficients <= MOST_COEFFICIENTS or int(plain.sum()) <= WIDE:
            return ProximalNewton()
        return LimitedMemory() if ridge else None
    return InteriorPoint() if n_coefficients <= MAX_COLUMNS and _has_interior(loss, table) else None


def _has_interior(loss: Loss, table: Table) -> bool:
    """Return whether the interior-point method takes a loss with kinks and a penalty, as `method_on_totals` says."""
    try:
        kinks = Kinks.of(loss)
    except UnsuitablePair:
        return False
    bounded = bool((table.lo > -np.inf).any() or (table.hi < np.inf).any() or table.linear.any())
    penalised = kinks.growth > 0 or bool(((table.l1 > 0) | (table.l2 > 0)).all())
    return penalised and not bounded
