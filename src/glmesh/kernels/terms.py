"""One-dimensional steps, values and conjugates of g_i, from a row (l1, l2, linear, lo, hi) of the table.

g_i(t) = l1 abs(t) + l2/2 t^2 + linear t on [lo, hi] (kind TABLE). Kind LOGISTIC_DUAL is the entropy
c [p ln p + (1 - p) ln(1 - p)] with p = y t/c, c = hi - lo and y the sign of the end that is not zero.
"""

import math

import numpy as np

from glmesh.kernels.jit import inlined, kernel

LOGISTIC_DUAL = np.int64(1)
GROUPS = np.int64(2)


@inlined
def row_of(table, i):
    """Return row i of a table of shape (columns, 5) as the tuple of floats (l1, l2, linear, lo, hi)."""
    return table[i, 0], table[i, 1], table[i, 2], table[i, 3], table[i, 4]


@inlined
def table_step(row, x, slope, curvature):
    """Return the t, a float, that minimises slope (t - x) + curvature/2 (t - x)^2 + g(t).

    g(t) = l1 abs(t) + l2/2 t^2 + linear t on [lo, hi] and `row` = (l1, l2, linear, lo, hi). If `curvature` is 0 the
    slope must be 0 too, and t minimises g.
    """
    z = curvature * x - slope - row[2]
    if z > row[0]:
        t = (z - row[0]) / (curvature + row[1])
    elif z < -row[0]:
        t = (z + row[0]) / (curvature + row[1])
    else:
        t = 0.0
    return min(max(t, row[3]), row[4])


@kernel
def logistic_step(row, x, slope, curvature):
    """Return the t, a float, that minimises slope (t - x) + curvature/2 (t - x)^2 + c [p ln p + (1 - p) ln(1 - p)].

    Here p = y t/c, and `row` = (l1, l2, linear, lo, hi) gives c = hi - lo and the sign y of the end that is not zero.
    Newton's method in the logit of p, with bisection where a step leaves the bracket or does not halve.
    """
    c = row[4] - row[3]
    if c <= 0.0:
        return 0.0
    y = 1.0 if row[4] > 0.0 else -1.0
    bend = curvature * c
    p = y * x / c
    shift = y * slope - bend * p
    low, high = -shift - bend, -shift
    t = math.log(p / (1.0 - p)) if 0.0 < p < 1.0 else 0.5 * (low + high)
    if not low <= t <= high:
        t = 0.5 * (low + high)
    last = high - low
    for _ in range(200):
        p = 1.0 / (1.0 + math.exp(-t)) if t >= 0.0 else math.exp(t) / (1.0 + math.exp(t))
        h = t + bend * p + shift
        if h < 0.0:
            low = t
        else:
            high = t
        new = t - h / (1.0 + bend * p * (1.0 - p))
        if not (low <= new <= high and abs(new - t) <= 0.5 * last):  # Newton alone may jump to and fro for ever
            new = 0.5 * (low + high)
        last = abs(new - t)
        t = new
        if last <= 1e-14 * (1.0 + abs(t)):
            break
    p = 1.0 / (1.0 + math.exp(-t)) if t >= 0.0 else math.exp(t) / (1.0 + math.exp(t))
    return y * c * p


@inlined
def pinned_margin(row, x, slope):
    """Return how far `slope` may move before the minimiser x of slope t + g(t) leaves the kink or bound it is at.

    `slope` is the derivative of the smooth part of an objective in one variable; g(t) = l1 abs(t) + l2/2 t^2 + linear t
    on [lo, hi] and `row` = (l1, l2, linear, lo, hi). The result is a float >= 0, and -1 if x is at no kink and no
    bound.
    """
    low, high = -math.inf, math.inf  # x stays put while low <= -slope - linear - l2 x <= high
    at_kink = x == 0.0 and row[0] > 0.0
    if not (at_kink or x == row[3] or x == row[4]):
        return -1.0
    if x > row[3]:
        low = -row[0] if x <= 0.0 else row[0]
    if x < row[4]:
        high = row[0] if x >= 0.0 else -row[0]
    pull = -slope - row[2] - row[1] * x
    return min(pull - low, high - pull)


@kernel
def value(kind, row, x):
    """Return g(x), a float: the penalty of one variable, given by `row` = (l1, l2, linear, lo, hi) and `kind`.

    g(t) = l1 abs(t) + l2/2 t^2 + linear t on [lo, hi]; if `kind` is LOGISTIC_DUAL, c [p ln p + (1 - p) ln(1 - p)] with
    p = y t/c, c = hi - lo and y the sign of the end that is not zero.
    """
    if kind == LOGISTIC_DUAL:
        c = row[4] - row[3]
        if c <= 0.0:
            return 0.0
        p = abs(x) / c
        if p <= 0.0 or p >= 1.0:
            return 0.0
        return c * (p * math.log(p) + (1.0 - p) * math.log1p(-p))
    return row[0] * abs(x) + 0.5 * row[1] * x * x + row[2] * x


@kernel
def conjugate(kind, row, u):
    """Return g*(u) = sup_t u t - g(t), a float, for g given by `row` = (l1, l2, linear, lo, hi) and `kind`.

    g(t) = l1 abs(t) + l2/2 t^2 + linear t on [lo, hi]; if `kind` is LOGISTIC_DUAL, c [p ln p + (1 - p) ln(1 - p)] with
    p = y t/c, c = hi - lo and y the sign of the end that is not zero. u must be in the domain of g*. g* is the
    conjugate of g.
    """
    if kind == LOGISTIC_DUAL:
        c = row[4] - row[3]
        z = u if row[4] > 0.0 else -u
        return c * (max(z, 0.0) + math.log1p(math.exp(-abs(z))))
    z = u - row[2]
    slope = z - row[0] if z > row[0] else (z + row[0] if z < -row[0] else 0.0)
    if row[1] > 0.0:
        x = slope / row[1]
    elif slope > 0.0 and row[4] < math.inf:
        x = row[4]
    elif slope < 0.0 and row[3] > -math.inf:
        x = row[3]
    else:
        x = 0.0  # inside the domain the maximiser is never beyond zero on an infinite side
    x = min(max(x, row[3]), row[4])
    return z * x - row[0] * abs(x) - 0.5 * row[1] * x * x


@kernel
def ray_limit(row, u):
    """Return the largest s >= 0, maybe infinite, with s u in the domain of the conjugate of g(t), g given by `row`.

    `row` is (l1, l2, linear, lo, hi), and g(t) = l1 abs(t) + l2/2 t^2 + linear t on [lo, hi]. Return -1 if not even 0
    is in the domain.
    """
    limit = math.inf
    if row[1] == 0.0:
        if row[4] == math.inf:
            if row[0] + row[2] < 0.0:
                return -1.0
            if u > 0.0:
                limit = min(limit, (row[0] + row[2]) / u)
        if row[3] == -math.inf:
            if row[0] - row[2] < 0.0:
                return -1.0
            if u < 0.0:
                limit = min(limit, (row[0] - row[2]) / -u)
    return limit
