"""The step to the minimum of a quadratic model of a loss plus a penalty, and the penalty along it.

A penalty is a table: row j is (l1, l2, linear, lo, hi) of l1 abs(x) + l2/2 x^2 + linear x on [lo, hi].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from glmesh.kernels.faces import FaceScratch, PenalisedQuadratic, minimise
from glmesh.kernels.jit import ONE, ZERO, kernel
from glmesh.kernels.smooth import dual_maximiser, dual_slack
from glmesh.types import Matrix


class ModelScratch(NamedTuple):
    """Arrays that `model_step` overwrites, for n coordinates."""

    S: Matrix  # (n, n)
    limits: Matrix  # (3, n)
    vectors: Matrix  # (3, n)
    faces: FaceScratch

    @staticmethod
    def of(n: int) -> ModelScratch:
        """Return new arrays for n coordinates."""
        return ModelScratch(np.empty((n, n)), np.empty((3, n)), np.empty((3, n)), FaceScratch.of(n))


@kernel
def model_step(bend, table, order, at, enough, out, scratch):
    """Write the step e to the minimum of gradient.e + e.bend e/2 + penalty(w + e) to `out`, and what it leaves.

    `bend` is symmetric, shape (n, n), `table` the penalty, (n, 5). `order` is (numbers of the coordinates, (n,), those
    without l1 and bounds first; how many these are). `at` is (w, gradient), each of shape (n,); `enough` is that of
    `minimise`. `out` is (e, gradient + bend e, two numbers), of shapes (n,), (n,) and (2,): minus the slope of the
    objective along e, and the largest slope left at coordinates without l1 and bounds, in parts of what it is a
    difference of. A change that is not finite, as a curvature that is rounding alone gives it, becomes 0. `scratch` is
    a ModelScratch.
    """
    coordinates, n_smooth = order
    point, gradient = at
    change, pulls, numbers = out
    n = np.uint64(point.size)
    S, limits = scratch.S, scratch.limits
    b, w, u = scratch.vectors[ZERO], scratch.vectors[ONE], scratch.vectors[np.uint64(2)]
    for a in range(n):
        i = coordinates[a]
        w[a] = u[a] = point[i]
        b[a] = gradient[i] + table[i, 1] * point[i] + table[i, 2]
        limits[0, a], limits[1, a], limits[2, a] = table[i, 0], table[i, 3], table[i, 4]
        for c in range(n):
            S[a, c] = bend[i, coordinates[c]]
        S[a, a] += table[i, 1]
    minimise(PenalisedQuadratic(S, b, limits, w, n_smooth), u, enough, scratch.faces)
    slope, residual = 0.0, 0.0
    for a in range(n):
        i, e = coordinates[a], u[a] - w[a]
        if not abs(e) < math.inf:
            e = 0.0
        change[i] = e
        slope += b[a] * e + limits[0, a] * (abs(w[a] + e) - abs(w[a]))
    for a in range(n):
        i = coordinates[a]
        row, pull, size = bend[i], 0.0, 0.0
        for j in range(n):
            term = row[j] * change[j]
            pull += term
            size += abs(term)
        pulls[i] = gradient[i] + pull
        if a < n_smooth:
            size += abs(gradient[i])
            left = abs(pulls[i] + table[i, 1] * (point[i] + change[i]) + table[i, 2])
            residual = max(residual, left / size if size > 0.0 else left)
    numbers[0], numbers[1] = -slope, residual


@kernel
def penalties_along(table, point, change, lengths, out):
    """Write the penalty at point + t change, clipped to the bounds, for each length t to `out`, shape (n_lengths,).

    `table` is the penalty, (d, 5); `point` and `change` have shape (d,).
    """
    for t in range(np.uint64(lengths.size)):
        total, length = 0.0, lengths[t]
        for j in range(np.uint64(point.size)):
            x = min(max(point[j] + length * change[j], table[j, 3]), table[j, 4])
            total += table[j, 0] * abs(x) + 0.5 * table[j, 1] * x * x + table[j, 2] * x
        out[t] = total


@kernel
def total_slack(table, x, u):
    """Return sum_j g_j(x_j) + g_j*(u_j) - x_j u_j >= 0, a float, for the penalty `table` of g, shape (n, 5).

    It is infinite where x or u is outside the domain of g or of its conjugate g*; `Table.slacks` explains each.
    """
    total = 0.0
    for j in range(np.uint64(x.size)):
        row = table[j, 0], table[j, 1], table[j, 2], table[j, 3], table[j, 4]
        total += dual_slack(row, x[j], u[j], dual_maximiser(row, row[1], u[j]))
    return total
