"""Lower bounds of the optimum from sums over rows: the dual objective at feasible points.

For lo <= theta <= hi and c = Z'theta, where the entry of the intercept, sum theta, is 0, the optimum P* is at least

    D(theta) = -k'theta - sum_j (abs(c_j) - l1_j)_+^2 / (2 l2_j),    abs(c_j) <= l1_j wherever l2_j = 0.

Coefficients without a penalty would need c_j = 0. Rounding forbids that, so what c_j is multiplied with is bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glmesh.kernels.dual import bound_at, combine
from glmesh.kernels.interior import best_share
from glmesh.types import Flags, Indices, Vector

# [sum of magnitudes] error of a sum over rows, because chunks of 1024 are added one by one, whose errors at random add
# up to sqrt(1024/3) 2^-53, and so do the chunks of a million rows
ROUNDING = 16 * 2.0**-52
BISECTIONS = 50  # of the step to a better combination of two points, because 2^-50 of the way is rounding


@dataclass(frozen=True, eq=False)
class DualPoint:
    """Products of a dual point theta (one entry per row) with k and with the d standardised columns Z.

    The sizes are magnitudes that the rounding of these sums is relative to.
    """

    k: float  # k'theta
    c: Vector  # (d,) Z'theta
    k_size: float  # sum abs(k theta), about
    c_size: Vector  # (d,) sums of abs(z theta), about

    @property
    def parts(self) -> tuple[float, Vector, float, Vector]:
        """Return (k, c, k_size, c_size), as kernels read a dual point."""
        return self.k, self.c, self.k_size, self.c_size

    def __add__(self, other: DualPoint) -> DualPoint:
        return DualPoint(self.k + other.k, self.c + other.c, self.k_size + other.k_size, self.c_size + other.c_size)

    def times(self, factor: float) -> DualPoint:
        """Return this dual point times `factor`: its products and sizes."""
        size = abs(factor)
        return DualPoint(factor * self.k, factor * self.c, size * self.k_size, size * self.c_size)


def balanced(positive: DualPoint, negative: DualPoint, bounds: DualPoint) -> list[DualPoint]:
    """Return dual points whose entries add up to 0, as an intercept asks for, made of the two signs of theta.

    theta has an entry per row, in [lo, hi]; `positive` and `negative` have the products of its parts with each sign,
    and `bounds` those of rho = min(hi - theta, theta - lo): theta - ratio rho is feasible for abs(ratio) <= 1. The
    first point is the one whose ratio makes the sum 0, if there is one; the second shrinks the heavier sign, if both
    signs occur. What rounding leaves of the sum could be corrected likewise; the sizes count that.
    """
    theta = positive + negative
    points = []
    error = ROUNDING * theta.c_size[-1]
    if bounds.c[-1] > 0 and abs(theta.c[-1]) + error <= bounds.c[-1]:
        points.append(_corrected(theta + bounds.times(-theta.c[-1] / bounds.c[-1]), bounds))
    heavy, light = (positive, negative) if theta.c[-1] > 0 else (negative, positive)
    if abs(light.c[-1]) > error:
        points.append(_corrected(heavy.times(-light.c[-1] / heavy.c[-1]) + light, heavy))
    return points


def _corrected(point: DualPoint, by: DualPoint) -> DualPoint:
    """Return `point` with larger sizes, as if sum theta = 0 had been corrected by a multiple of the point `by`."""
    part = abs(point.c_size[-1] / by.c[-1])
    return DualPoint(point.k, point.c, point.k_size + part * abs(by.k), point.c_size + part * np.abs(by.c))


@dataclass(frozen=True, eq=False)
class StandardisedPenalty:
    """The penalty sum_j l1_j abs(w_j) + l2_j/2 w_j^2 of p standardised coefficients w.

    A constant column has l2_j = 1, and its coefficient is 0.
    """

    l1: Vector  # (p,)
    l2: Vector  # (p,)

    @cached_property
    def _flat(self) -> Indices:
        """Return the numbers of the coefficients with an absolute value and no square."""
        return np.flatnonzero((self.l2 == 0) & (self.l1 > 0))

    @cached_property
    def free(self) -> Flags:
        """Return a mask of shape (p,), true for coefficients without a penalty."""
        return np.asarray((self.l2 == 0) & (self.l1 == 0))

    def value(self, w: Vector) -> float:
        """Return the penalty of p standardised coefficients w, a number."""
        return float(self.l1 @ np.abs(w) + 0.5 * self.l2 @ (w * w))

    def shrunk(self, point: DualPoint) -> DualPoint:
        """Return the point times the largest factor <= 1 that makes it feasible.

        It is feasible if abs(c_j) <= l1_j wherever l2_j = 0 < l1_j, where c are its products with the columns.
        """
        flat = self._flat
        if not len(flat):
            return point
        entries = np.abs(point.c[flat]) + ROUNDING * point.c_size[flat]
        largest = float((entries / self.l1[flat]).max())
        return point if largest <= 1.0 else point.times(1.0 / largest)

    def lower_bound(self, point: DualPoint) -> float:
        """Return the dual objective D at a feasible point, a lower bound of the optimum.

        What rounding may have added is subtracted. Coefficients without a penalty do not count.
        """
        return float(bound_at(point.parts, self.l1, self.l2, ROUNDING))

    def best_between(self, a: DualPoint, b: DualPoint) -> DualPoint:
        """Return the point with the largest dual objective D on the line from a to b, which are both feasible."""
        p = len(self.l1)
        slopes = np.empty((2, p + 1))
        slopes[0, :p], slopes[0, p] = a.c[:p], a.k
        slopes[1, :p], slopes[1, p] = b.c[:p], b.k
        slopes[1] -= slopes[0]
        share = best_share(slopes, self.l1, self.l2, BISECTIONS)
        c, c_size = np.empty_like(a.c), np.empty_like(a.c)
        k, k_size = combine(a.parts, b.parts, share, c, c_size)
        return DualPoint(k, c, k_size, c_size)


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """A set that holds every optimum w*: all points with (w* - w)' M (w* - w) <= radius^2, M positive definite."""

    w: Vector  # (d,) standardised coefficients
    radius: float  # in the norm of M
    solve: Callable[[Vector], Vector]  # right sides, shape (d,) or (d, r) -> solutions of M x = right

    def least_product(self, point: DualPoint, free: Flags) -> float:
        """Return a lower bound of sum_j c_j w*_j for every optimum w*, over the columns where `free` is set.

        c are the products of the dual point with the d columns; their rounding is allowed for. `free` has shape (d,).
        """
        c, error = np.where(free, point.c, 0.0), np.where(free, ROUNDING * point.c_size, 0.0)
        norms = np.sqrt(np.maximum(np.diagonal(self.solve(np.eye(len(c)))), 0.0))
        norm = np.sqrt(max(float(c @ self.solve(c)), 0.0)) + error @ norms
        return float(c @ self.w - error @ np.abs(self.w) - self.radius * norm)
