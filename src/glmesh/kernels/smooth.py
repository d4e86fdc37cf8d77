"""Losses of rows whose dual functions are a table: values, slopes, curvatures and their sums at a trial point.

`methods.totals.row_terms` says the same with arrays. The loss of row i at the prediction t is g_i*(-t), g_i of the
table's row (l1, l2, linear, lo, hi); a loss that is softened by a factor has that factor times l2.
"""

import math
from typing import NamedTuple

import numpy as np

from glmesh.kernels.jit import ONE, inlined, kernel
from glmesh.types import Matrix, Vector

N_SUMS = 8  # columns of `RowSums.sums` before those of shorter steps
FEW = np.uint64(64)  # rows whose terms are added by themselves first, so that rounding does not grow with all rows


class Wanted(NamedTuple):
    """What is asked of all rows alike; fields are those of `Query` with these names, but for `dual` and `second`."""

    softness: float
    next_softness: float
    shrink: float
    damping: float
    dual: bool  # whether a dual point is asked for
    stepped_majorant: bool
    second: bool  # whether curvatures are asked for
    majorant: bool
    moves: bool


class RowSums(NamedTuple):
    """Output arrays of `smooth_rows`; `sums` holds zeros before.

    The columns of `sums` are losses, slacks, losses softened as before and as from now on, by how much the losses may
    be wrong, squares of slopes, squares of the dual point, squares of by how much slopes may be wrong, and losses after
    each shorter step.
    """

    slopes: Matrix  # (1 or 2, m) slopes, and the dual point if it is asked for
    bends: Vector  # (m,) curvatures, or (0,) if they are not asked for
    sums: Matrix  # (n_hosted, N_SUMS + n)


@inlined
def dual_maximiser(row, l2, u):
    """Return the x that maximises u x - g(x), which may be infinite; `l2` is in place of that of the row."""
    z = u - row[2]
    slope = z - row[0] if z > row[0] else (z + row[0] if z < -row[0] else 0.0)
    if l2 > 0.0:
        x = slope / l2
    else:
        x = 0.0 if slope == 0.0 else math.copysign(math.inf, slope)
    return min(max(x, row[3]), row[4])


@inlined
def _conjugate(row, l2, u, x):
    """Return g*(u) with its maximiser x: u x - g(x), infinite where x is."""
    if abs(x) == math.inf:
        return math.inf
    return u * x - (row[0] * abs(x) + 0.5 * l2 * x * x + row[2] * x)


@inlined
def _curvature(row, l2, u, x):
    """Return the second derivative of g* at u, with the maximiser x there."""
    moves = (abs(u - row[2]) > row[0] or row[0] == 0.0) and x > row[3] and x < row[4] and l2 > 0.0
    return 1.0 / l2 if moves else 0.0


@inlined
def _upper_curvature(row, l2, u):
    """Return the curvature of a quadratic upper bound of g* at u, as `Table.conjugate_majorant` explains."""
    lo, hi = row[3], row[4]
    bend = 1.0 / l2 if lo < hi and l2 > 0.0 else 0.0
    if row[0] == 0.0 and lo > -math.inf and hi < math.inf:
        away, half = abs(u - row[2] - 0.5 * l2 * (lo + hi)), 0.5 * (hi - lo)
        if away * bend > half:
            return half / away
    return bend


@inlined
def dual_slack(row, x, u, z):
    """Return g(x) + g*(u) - x u with the maximiser z at u, as `Table.slacks` explains."""
    if abs(z) == math.inf or x < row[3] or x > row[4]:
        return math.inf
    away = x - z
    if z != 0.0 and z > row[3] and z < row[4]:
        linear = 2.0 * row[0] * abs(x) if x * z < 0.0 else 0.0
    else:
        linear = max((row[1] * z + row[2] - u) * away + row[0] * (abs(x) - abs(z)), 0.0)
    return 0.5 * row[1] * away * away + linear


@kernel
def smooth_rows(query, losses, at, spans, out):
    """Write slopes and curvatures of the losses of m rows, and sums for each node, to `out`, a RowSums.

    `query`, a Wanted, says which are asked for, and at z or at z + q. `losses` is a pair: the conjugates of the losses
    as rows (l1, l2, linear, lo, hi) of a table, shape (m, 5), and their largest curvatures, (m,). `at` are three arrays
    of shape (m,): predictions z, their change q, and by how much z may be wrong. `spans` are three arrays: the first
    row of each node and then m, shape (n_hosted + 1,); the n shorter steps, as parts of q, of which losses are summed,
    too, (n,); and scratch, (N_SUMS + n,).
    """
    table, curvatures = losses
    z, q, errors = at
    starts, lengths, part = spans
    n, first = np.uint64(lengths.size), np.uint64(N_SUMS)
    for k in range(np.uint64(starts.size - 1)):
        end, filled = np.uint64(starts[k + ONE]), np.uint64(0)
        part[:] = 0.0
        for i in range(np.uint64(starts[k]), end):
            row = table[i, 0], table[i, 1], table[i, 2], table[i, 3], table[i, 4]
            u = -(z[i] + q[i]) if query.moves else -z[i]
            x = dual_maximiser(row, row[1], u)
            part[0] += _conjugate(row, row[1], u, x)
            soft = query.next_softness * row[1]
            after = x
            if query.softness > 1.0 or query.next_softness > 1.0:
                here = query.softness * row[1]
                part[2] += _conjugate(row, here, u, dual_maximiser(row, here, u))
                after = dual_maximiser(row, soft, u)
                part[3] += _conjugate(row, soft, u, after)
            out.slopes[0, i] = -after
            e = errors[i]
            part[4] += (abs(x) + 0.5 * curvatures[i] * e) * e
            part[5] += after * after
            if query.second:
                out.bends[i] = _upper_curvature(row, soft, u) if query.majorant else _curvature(row, soft, u, after)
            if query.dual:
                theta = -query.shrink * _dual_point(query, row, z[i], q[i])
                out.slopes[1, i] = theta
                part[1] += dual_slack(row, -theta, u, x)
                part[6] += theta * theta
                part[7] += (curvatures[i] * e) * (curvatures[i] * e)
            here = query.softness * row[1]
            for t in range(n):
                v = -(z[i] + lengths[t] * q[i])
                part[first + t] += _conjugate(row, here, v, dual_maximiser(row, here, v))
            filled += ONE
            if filled == FEW or i + ONE == end:
                for s in range(first + n):
                    out.sums[k, s] += part[s]
                    part[s] = 0.0
                filled = np.uint64(0)


@inlined
def _dual_point(query, row, z, q):
    """Return the maximiser x at -z moved along with the prediction's change q, to first order, and into [lo, hi]."""
    l2 = query.softness * row[1]
    x = dual_maximiser(row, l2, -z)
    bend = _upper_curvature(row, l2, -z) if query.stepped_majorant else _curvature(row, l2, -z, x)
    if query.damping > 0.0:
        bend += query.damping * _upper_curvature(row, l2, -z)
    return min(max(x - bend * q, row[3]), row[4])
