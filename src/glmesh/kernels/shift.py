"""The intercept that minimises a loss: the root of the sum of its slopes."""

import math

import numpy as np

from glmesh.kernels.jit import inlined, kernel

LOGISTIC, HUBER, SQUARED_HINGE = 0, 1, 2
_NEAR = 1e-8  # length of a Newton step on the logistic loss after which the error, about its square, is below rounding


@inlined
def _derivatives(kind, y, c, delta, z):
    """Return (first, second) derivative in the prediction z of c loss(y, z), two floats, for one sample of weight c.

    y is the target, or the label -1 or 1; `kind` is LOGISTIC, HUBER (which is linear beyond errors of `delta`) or
    SQUARED_HINGE.
    """
    if kind == LOGISTIC:
        small = math.exp(-abs(z))  # of the probabilities of both labels the smaller is small/(1 + small)
        wrong = small / (1.0 + small) if y * z > 0 else 1.0 / (1.0 + small)
        return -c * y * wrong, c * small / ((1.0 + small) * (1.0 + small))
    if kind == HUBER:
        r = z - y
        return c * min(max(r, -delta), delta), c if abs(r) <= delta else 0.0
    r = 1.0 - y * z
    return (-2.0 * c * y * r, 2.0 * c) if r > 0 else (0.0, 0.0)


@kernel
def _slope(kind, y, c, delta, e, v, b):
    """Return (first derivative, size, second derivative) of sum_i c_i loss(y_i, v_i + b e_i) in b, floats.

    y are targets, c weights, v predictions without intercept, e the factors of the intercept, each of shape (m,).
    `kind` is LOGISTIC, HUBER or SQUARED_HINGE, `delta` the error from which Huber's loss is linear. `size` is the sum
    of the absolute terms of the first derivative, the scale of its rounding error.
    """
    slope = lost = size = bend = 0.0
    for i in range(np.uint64(v.size)):
        z = v[i] + b * e[i]
        first, second = _derivatives(kind, y[i], c[i], delta, z)
        first *= e[i]
        second *= e[i]
        size += abs(first) + abs(second * z)
        bend += second * e[i]
        term = first - lost  # Kahan's summation
        total = slope + term
        lost = (total - slope) - term
        slope = total
    return slope, size, bend


@kernel
def _mean_step(kind, y, c, e, v, b):
    """Return the change of the intercept b, a float, after which the weighted mean of y - v - b e is zero.

    NaN if all weights are zero. y are targets, of which only those of the loss HUBER (`kind`) are read, 0 else; c
    weights, v predictions without intercept, e the factors of the intercept, each of shape (m,).
    """
    pull = weight = 0.0
    for i in range(np.uint64(v.size)):
        pull += c[i] * e[i] * ((y[i] if kind == HUBER else 0.0) - (v[i] + b * e[i]))
        weight += c[i] * e[i] * e[i]
    return pull / weight if weight > 0 else math.nan


@kernel
def best_shift(kind, y, c, delta, e, v, near):
    """Return the intercept b, a float, that minimises sum_i c_i loss(y_i, v_i + b e_i), starting at the guess `near`.

    y are targets, c weights, v predictions without intercept, e the factors of the intercept, each of shape (m,).
    `kind` is LOGISTIC, HUBER or SQUARED_HINGE, `delta` the error from which Huber's loss is linear. The method is
    Newton's while its steps halve at least; else steps that grow until the root is bracketed, then bisection.
    """
    low, high, b, last, grow = -math.inf, math.inf, near, math.inf, 1.0
    for step in range(200):
        slope, size, bend = _slope(kind, y, c, delta, e, v, b)
        if abs(slope) <= 4e-16 * size:  # a zero, as far as the rounding of the slopes and of v + b e can tell
            break
        if slope < 0:
            low = b
        else:
            high = b
        newton = b - slope / bend if bend > 0 else math.nan
        follows = low < newton < high and abs(newton - b) <= min(0.5 * last, grow)
        mean = b + _mean_step(kind, y, c, e, v, b) if step == 0 else math.nan
        if follows:
            new = newton
        elif low < mean < high:
            new = mean
        elif math.isinf(high - low):
            new = b - math.copysign(grow, slope)
            grow *= 4.0
        else:
            new = 0.5 * (low + high)
        if new == b:
            break
        last = abs(new - b) if step or follows else math.inf
        b = new
        if kind == LOGISTIC and follows and last <= _NEAR:
            break
    return b
