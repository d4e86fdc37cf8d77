"""The intercept that minimises a loss: the root of the sum of its slopes."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from glmesh.kernels.jit import inlined, kernel
from glmesh.types import Vector

LOGISTIC, HUBER, SQUARED_HINGE = 0, 1, 2
_NEAR = 1e-8  # length of a Newton step on the logistic loss after which the error, about its square, is below rounding


class ShiftedLosses(NamedTuple):
    """The sum over m rows of c_i loss(y_i, v_i + b e_i), as a function of the intercept b."""

    kind: int  # LOGISTIC, HUBER or SQUARED_HINGE
    delta: float  # error from which Huber's loss is linear
    y: Vector  # (m,) targets, or labels -1 and 1
    c: Vector  # (m,) weights
    e: Vector  # (m,) factors of the intercept
    v: Vector  # (m,) predictions without intercept


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
def _slope(losses, b):
    """Return (first derivative, size, second derivative) of `losses`, a ShiftedLosses, at the intercept b, floats.

    `size` is the sum of the absolute terms of the first derivative, the scale of its rounding error.
    """
    c, e, v = losses.c, losses.e, losses.v
    slope = lost = size = bend = 0.0
    for i in range(np.uint64(v.size)):
        z = v[i] + b * e[i]
        first, second = _derivatives(losses.kind, losses.y[i], c[i], losses.delta, z)
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
def _mean_step(losses, b):
    """Return the change of the intercept b, a float, after which the weighted mean of y - v - b e is zero.

    NaN if all weights are zero. `losses`, a ShiftedLosses, has targets y, weights, predictions v and factors e; targets
    count as 0 where they are labels.
    """
    c, e, v = losses.c, losses.e, losses.v
    pull = weight = 0.0
    for i in range(np.uint64(v.size)):
        pull += c[i] * e[i] * ((losses.y[i] if losses.kind == HUBER else 0.0) - (v[i] + b * e[i]))
        weight += c[i] * e[i] * e[i]
    return pull / weight if weight > 0 else math.nan


@inlined
def _guess(low, high, b, mean, step):
    """Return (next intercept to try, whether it is `step` beyond b): a float and a bool, where Newton's is not taken.

    The root is between `low` and `high`, of which one may be infinite. The intercept is `mean` if that is between them,
    else b + `step` as long as one is infinite, else the middle.
    """
    if low < mean < high:
        return mean, False
    if math.isinf(high - low):
        return b + step, True
    return 0.5 * (low + high), False


@kernel
def best_shift(losses, near):
    """Return the intercept b, a float, that minimises `losses`, a ShiftedLosses, starting at the guess `near`.

    The method is Newton's while its steps halve at least; else steps that grow until the root is bracketed, then
    bisection.
    """
    low, high, b, last, grow = -math.inf, math.inf, near, math.inf, 1.0
    for step in range(200):
        slope, size, bend = _slope(losses, b)
        if abs(slope) <= 4e-16 * size:  # a zero, as far as the rounding of the slopes and of v + b e can tell
            break
        if slope < 0:
            low = b
        else:
            high = b
        new = b - slope / bend if bend > 0 else math.nan
        follows = low < new < high and abs(new - b) <= min(0.5 * last, grow)
        if not follows:
            mean = b + _mean_step(losses, b) if step == 0 else math.nan
            new, grows = _guess(low, high, b, mean, -math.copysign(grow, slope))
            grow = 4.0 * grow if grows else grow
        if new == b:
            break
        last = abs(new - b) if step or follows else math.inf
        b = new
        if losses.kind == LOGISTIC and follows and last <= _NEAR:
            break
    return b
