"""Logistic losses of rows: values, slopes, curvatures and their sums at a trial point, as `smooth_rows` has them.

`methods.totals.row_terms` says the same with arrays. The dual function of a row with weight c has the domain [lo, hi],
[0, c] for the label 1 and [-c, 0] for -1, so that the last two columns of its table say all.
"""

import math

import numpy as np

from glmesh.kernels.jit import ONE, inlined, kernel
from glmesh.kernels.smooth import FEW, N_SUMS

NEAR = 0.5  # [probability] distance of two of them up to which their divergence is made of ratios, see `slacks`
LEAST = 1e-8  # [logits] prediction up to which the bound's curvature is that at zero, because it is even and flat there


@inlined
def _expits(v):
    """Return (1/(1 + exp(-v)), 1/(1 + exp(v)), exp(-abs(v))), the first two without cancellation."""
    small = math.exp(-abs(v))
    large = 1.0 / (1.0 + small)
    if v >= 0.0:
        return large, small * large, small
    return small * large, large, small


@inlined
def _bound(u):
    """Return the curvature tanh(u/2) / (2 u) of Jaakkola and Jordan's quadratic upper bound, 1/4 at zero."""
    a = max(abs(u), LEAST)
    return min(0.5 * math.tanh(0.5 * a) / a, 0.25)


@inlined
def _divergence(p, v):
    """Return p ln(p/q) + (1 - p) ln((1 - p)/(1 - q)) for q = 1/(1 + exp(-v)), as `LogisticDual.slacks` explains."""
    q, r, small = _expits(v)
    away, least = p - q, min(q, r)
    if least > 0.0 and abs(away) <= NEAR * least:
        return max(p * math.log1p(away / q) + (1.0 - p) * math.log1p(-away / r), 0.0)
    out = p * math.log(p) if p > 0.0 else 0.0
    if p < 1.0:
        out += (1.0 - p) * math.log1p(-p)
    linear = (1.0 - p) * v if v > 0.0 else -p * v
    return max(out + math.log1p(small) + linear, 0.0)


@inlined
def _weight_and_label(lo, hi):
    """Return (weight of a row, its label -1.0 or 1.0), two floats, from the domain [lo, hi] of its dual function."""
    return (hi, 1.0) if hi > 0.0 else (-lo, -1.0)


@inlined
def _dual_point(query, lo, hi, z, q):
    """Return the maximiser of the dual function of a row at -z, moved along with the prediction's change q; a float.

    It moves to first order, by the curvature that the model had before the step, and into the domain [lo, hi]. `query`
    is a Wanted.
    """
    c, y = _weight_and_label(lo, hi)
    wrong, right, _ = _expits(-y * z)
    bend = c * _bound(z) if query.stepped_majorant else c * (wrong * right)
    if query.damping > 0.0:
        bend += query.damping * c * _bound(z)
    return min(max(y * c * wrong - bend * q, lo), hi)


@kernel
def logistic_rows(query, losses, at, spans, out):
    """Write slopes, curvatures and sums of m rows at a trial point to `out` (a RowSums); `query` is a Wanted.

    The arguments are those of `smooth_rows`; a logistic loss is never softened, and shorter steps are not asked for.
    """
    table, curvatures = losses
    z, q, errors = at
    starts, _, part = spans
    for k in range(np.uint64(starts.size - 1)):
        end, filled = np.uint64(starts[k + ONE]), np.uint64(0)
        part[:] = 0.0
        for i in range(np.uint64(starts[k]), end):
            lo, hi = table[i, 3], table[i, 4]
            c, y = _weight_and_label(lo, hi)
            u = -(z[i] + q[i]) if query.moves else -z[i]
            p, r, small = _expits(y * u)
            x = y * c * p
            part[0] += c * (max(y * u, 0.0) + math.log1p(small))
            out.slopes[0, i] = -x
            e = errors[i]
            part[4] += (abs(x) + 0.5 * curvatures[i] * e) * e
            part[5] += x * x
            if query.second:
                out.bends[i] = c * _bound(u) if query.majorant else c * (p * r)
            if query.dual:
                theta = -query.shrink * _dual_point(query, lo, hi, z[i], q[i])
                out.slopes[1, i] = theta
                if c > 0.0:
                    inside = -y * theta / c
                    part[1] += c * _divergence(inside, y * u) if inside >= 0.0 and inside <= 1.0 else math.inf
                part[6] += theta * theta
                part[7] += (curvatures[i] * e) * (curvatures[i] * e)
            filled += ONE
            if filled == FEW or i + ONE == end:
                for s in range(np.uint64(N_SUMS)):
                    out.sums[k, s] += part[s]
                    part[s] = 0.0
                filled = np.uint64(0)
