"""Compiles the kernels (or loads them from numba's cache) before anything is timed."""

from functools import cache

import numpy as np

from glmesh.kernels.cd import CYCLIC, node_terms, solve_nodes
from glmesh.kernels.columns import products, transposed_products
from glmesh.kernels.flow import add_flow, fingerprint
from glmesh.kernels.mix import extrapolate, mix
from glmesh.kernels.plane import plane_terms
from glmesh.kernels.shift import best_shift


@cache
def warm_up() -> None:
    """Calls every kernel once on a matrix with one entry."""
    one, zero, ends = np.ones(1), np.zeros(1, np.uint64), np.array([0, 1], np.uint64)
    row, x, count = np.zeros((1, 1)), np.zeros(1), np.ones(1, np.uint64)
    matrix = (ends, np.zeros(1, np.uint32), one)
    mix(ends, zero, one, row, row.copy())
    extrapolate(row, row.copy(), one)
    node_terms(np.int64(0), ends, np.ones((1, 5)), ends, x, one.copy())
    add_flow(x, x, x, x, 1.0, 0.0, 0.0)
    fingerprint(x.view(np.uint64), np.uint64(0))
    best_shift(0, one, one, 0.0, one, x, 0.0)
    plane_terms(ends, np.ones((1, 5)), x, x, x, one, one, np.zeros((1, 8)))
    products(ends, *matrix, x, zero, row)
    transposed_products(ends, *matrix, zero, row, x)
    solve_nodes(
        ends, ends, ends, *matrix, one, np.int64(0), np.ones((1, 5)), x, row, row.copy(), row.copy(), one, 1.0, one,
        count, -one, CYCLIC, np.uint64(0), np.uint64(0), zero, np.zeros((0, 0)), np.zeros(1),
        np.zeros(1), np.zeros(1), np.zeros(1), count.copy(),
    )  # fmt: skip
