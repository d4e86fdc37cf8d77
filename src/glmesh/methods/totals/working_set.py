"""The columns of the Hessian that Newton's method sums where an L1 penalty makes most coefficients zero."""

from __future__ import annotations

import numpy as np

from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.types import Indices, Vector

# [coefficients] above which the Hessian of an L1 problem is summed on a working set only: larger sends longer messages
# in fewer totals; source: benchmarks/reports/choice.md
WIDE = 500
# [l1] slope from which a zero coefficient may enter the working set: smaller adds more that stay zero; source:
# benchmarks/reports/sensitivity.md
NEAR = 0.95
# [working set] newcomers at once, if that is more than `NEWCOMERS`: larger sends more of the Hessian in fewer totals;
# source: benchmarks/reports/sensitivity.md
SHARE = 0.5
# [coefficients] that enter a working set at once: larger sends more of the Hessian in fewer totals; source:
# benchmarks/reports/sensitivity.md
NEWCOMERS = 200


def takes_working_set(penalty: ScaledPenalty) -> bool:
    """Return whether the Hessian is summed on a working set of columns.

    It is where there are more than 500 coefficients, of which at most 500 that can move have no L1 penalty.
    """
    many = len(penalty.scale) - 1 > WIDE
    return many and len(penalty.movable) - int((penalty.table.l1 > 0).sum()) <= WIDE


def working_set(penalty: ScaledPenalty, point: Vector, gradient: Vector | None) -> Indices:
    """Return the coordinates that are not zero at `point`, shape (d,), and those that may soon not be, ascending.

    The latter are told by the gradient of the loss, shape (d,); None: it is not known, and none of them is in the set.
    """
    table = penalty.table
    chosen = (point != 0) | (table.l1 == 0)
    chosen &= table.lo < table.hi
    if gradient is not None:
        slopes = np.abs(gradient + table.linear)
        ratio = np.divide(slopes, table.l1, out=np.zeros_like(slopes), where=(table.l1 > 0) & ~chosen)
        ratio[table.lo == table.hi] = 0.0
        many = max(NEWCOMERS, int(SHARE * chosen.sum()))
        best = np.argsort(-ratio, kind="stable")[:many]
        chosen[best[ratio[best] > NEAR]] = True
    return np.flatnonzero(chosen)
