"""Compile the kernels (or load them from numba's cache) before anything is timed."""

from functools import cache

import numpy as np

from glmesh.kernels.cd import solve_nodes
from glmesh.kernels.columns import products, transposed_products
from glmesh.kernels.flow import add_flow, fingerprint
from glmesh.kernels.mix import extrapolate, mix
from glmesh.kernels.order import CYCLIC
from glmesh.kernels.plane import plane_terms
from glmesh.kernels.shift import best_shift
from glmesh.kernels.subproblem import Design, Memory, Scratch, Task, node_terms


@cache
def warm_up() -> None:
    """Compile every kernel, or load it from numba's cache, by a call on a 1 x 1 matrix with the usual types."""
    one, zero, ends = np.ones(1), np.zeros(1, np.uint64), np.array([0, 1], np.uint64)
    row, x, count, seed = np.zeros((1, 1)), np.zeros(1), np.ones(1, np.uint64), np.uint64(0)
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
        Design(ends, ends, ends, *matrix, one, np.int64(0), np.ones((1, 5))),
        Task(x, row, row.copy(), one, one, 1.0, count, -one, np.zeros((0, 0)), x, CYCLIC, seed, seed, zero, x, count),
        Memory(row.copy(), x.copy(), x.copy()),
        Scratch(x.copy(), x.copy(), zero.copy(), x.copy()),
    )
