"""Lower bounds of the optimum from sums over rows: the dual objective at feasible points.

For lo <= theta <= hi, c = Z'theta and sum theta = 0 (the last entry of c, if there is an intercept), the optimum P* is
at least D(theta) = -k'theta - sum_j (abs(c_j) - l1_j)_+^2 / (2 l2_j), where abs(c_j) <= l1_j if l2_j = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.types import Flags, Vector

ROUNDING = 16 * 2.0**-52  # relative error of sums over rows: few units in the last place, as blocks of rows are summed
BISECTIONS = 50  # of the step to a better combination of two points: 2^-50 of the way


@dataclass(frozen=True, eq=False)
class DualPoint:
    """A linear functional of theta: its products with k and with the d standardised columns, and sums of magnitudes."""

    k: float  # k'theta
    c: Vector  # (d,) Z'theta
    k_size: float  # about sum abs(k theta), which rounding errors are relative to
    c_size: Vector  # (d,) about the sums of abs(z theta)

    def __add__(self, other: DualPoint) -> DualPoint:
        return DualPoint(self.k + other.k, self.c + other.c, self.k_size + other.k_size, self.c_size + other.c_size)

    def times(self, factor: float) -> DualPoint:
        """Return the functional of factor theta."""
        size = abs(factor)
        return DualPoint(factor * self.k, factor * self.c, size * self.k_size, size * self.c_size)


@dataclass(frozen=True, eq=False)
class StandardisedPenalty:
    """Penalty l1 abs(w) + l2/2 w^2 of p standardised coefficients; constant columns have l2 = 1 and w = 0."""

    l1: Vector  # (p,)
    l2: Vector  # (p,)

    @property
    def flat(self) -> Flags:
        """Columns with an absolute value and no square, shape (p,)."""
        return (self.l2 == 0) & (self.l1 > 0)

    @property
    def free(self) -> Flags:
        """Columns without a penalty, shape (p,)."""
        return (self.l2 == 0) & (self.l1 == 0)

    def value(self, w: Vector) -> float:
        """Return the penalty of p standardised coefficients."""
        return float(self.l1 @ np.abs(w) + 0.5 * self.l2 @ (w * w))

    def maximiser(self, c: Vector) -> Vector:
        """Return the coefficients, shape (p,), that the dual point with these p products stands for; 0 if l2 = 0."""
        beyond = np.sign(c) * np.maximum(np.abs(c) - self.l1, 0.0)
        return np.divide(-beyond, self.l2, out=np.zeros_like(c), where=self.l2 > 0)

    def shrunk(self, point: DualPoint) -> DualPoint:
        """Return the point times the largest factor <= 1 for which abs(c_j) <= l1_j wherever l2_j = 0 < l1_j."""
        flat = np.flatnonzero(self.flat)
        if not len(flat):
            return point
        largest = float((np.abs(point.c[flat]) / self.l1[flat]).max())
        return point if largest <= 1.0 else point.times(1.0 / largest)

    def lower_bound(self, point: DualPoint) -> float:
        """Return D at a feasible point, less what rounding may have added."""
        p = len(self.l1)
        w = self.maximiser(point.c[:p])
        rounding = ROUNDING * (point.k_size + np.abs(w) @ point.c_size[:p])
        return float(-point.k - 0.5 * self.l2 @ (w * w) - rounding)

    def best_between(self, a: DualPoint, b: DualPoint) -> DualPoint:
        """Return the point with the largest D on the line from a to b, both feasible."""
        p = len(self.l1)
        k, c = b.k - a.k, (b.c - a.c)[:p]
        low, high = 0.0, 1.0
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            rises = self.maximiser(a.c[:p] + middle * c) @ c > k
            low, high = (middle, high) if rises else (low, middle)
        return a.times(1.0 - low) + b.times(low)


def balanced(positive: DualPoint, negative: DualPoint, room: DualPoint) -> list[DualPoint]:
    """Return points with sum theta = 0, made of the positive and negative parts of theta.

    `room` is that of rho = min(hi - theta, theta - lo): theta - ratio rho is feasible for abs(ratio) <= 1. The other
    point shrinks the heavier sign. What rounding leaves of sum theta could be corrected likewise; the sizes count that.
    """
    theta = positive + negative
    points = []
    error = ROUNDING * theta.c_size[-1]
    if room.c[-1] > 0 and abs(theta.c[-1]) + error <= room.c[-1]:
        points.append(_corrected(theta + room.times(-theta.c[-1] / room.c[-1]), room))
    heavy, light = (positive, negative) if theta.c[-1] > 0 else (negative, positive)
    if abs(light.c[-1]) > 0:
        points.append(_corrected(heavy.times(-light.c[-1] / heavy.c[-1]) + light, heavy))
    return points


def _corrected(point: DualPoint, by: DualPoint) -> DualPoint:
    """Return the point with sizes to which those of a correction of the sum of theta by another point are added."""
    part = abs(point.c_size[-1] / by.c[-1])
    return DualPoint(point.k, point.c, point.k_size + part * abs(by.k), point.c_size + part * np.abs(by.c))
