"""Compile the kernels (or load them from numba's cache) before anything is timed."""

from functools import cache

import numpy as np

from glmesh.kernels.cd import solve_nodes
from glmesh.kernels.cholesky import eliminate, invert
from glmesh.kernels.columns import ColumnArrays, products, transposed_products
from glmesh.kernels.dual import bound_at, combine
from glmesh.kernels.face_path import PathScratch, QuadraticFamily, minimise_each
from glmesh.kernels.faces import FaceScratch, PenalisedQuadratic, minimise
from glmesh.kernels.flow import add_flow, fingerprint
from glmesh.kernels.gram import (
    add_dense_gram,
    add_gram,
    add_products,
    add_sums,
    pack_columns,
    pack_triangle,
    standardised_products,
    unpack_triangle,
)
from glmesh.kernels.interior import Losses, Move, Outcome, best_share, step_rows
from glmesh.kernels.logistic import logistic_rows
from glmesh.kernels.mix import extrapolate, mix
from glmesh.kernels.model import ModelScratch, model_step, penalties_along, total_slack
from glmesh.kernels.narrow import (
    NarrowRows,
    NarrowScratch,
    NarrowSums,
    column_products,
    node_grams,
    row_products,
    step_narrow_rows,
)
from glmesh.kernels.order import CYCLIC
from glmesh.kernels.plane import plane_terms
from glmesh.kernels.shift import ShiftedLosses, best_shift
from glmesh.kernels.smooth import N_SUMS, RowSums, Wanted, smooth_rows
from glmesh.kernels.subproblem import LocalTask, Memory, NodeColumns, Scratch, node_terms
from glmesh.kernels.units import add_units, largest_bits


@cache
def warm_up() -> None:
    """Compile the kernels of CoLA, or load them from numba's cache, so that no later call waits for that.

    It calls each on a 1 x 1 matrix with the usual types; return nothing.
    """
    one, zero, ends = np.ones(1), np.zeros(1, np.uint64), np.array([0, 1], np.uint64)
    row, x, count, seed = np.zeros((1, 1)), np.zeros(1), np.ones(1, np.uint64), np.uint64(0)
    matrix = ColumnArrays(ends, np.zeros(1, np.uint32), one)
    mix(ends, zero, one, row, row.copy())
    extrapolate(row, row.copy(), one)
    node_terms(np.int64(0), ends, np.ones((1, 5)), ends, x, one.copy())
    add_flow(x, x, x, x, 1.0, 0.0, 0.0)
    fingerprint(x.view(np.uint64), np.uint64(0))
    best_shift(ShiftedLosses(0, 0.0, one, one, one, x), 0.0)
    plane_terms(ends, np.ones((1, 5)), x, (x, x), (one, one), np.zeros((1, 8)))
    products(ends, matrix, x, zero, row)
    transposed_products(ends, matrix, zero, row, x)
    solve_nodes(
        NodeColumns(ends, ends, ends, matrix, one, np.int64(0), np.ones((1, 5))),
        LocalTask(
            x, row, row.copy(), one, one, 1.0, count, -one, np.zeros((0, 0)), x, CYCLIC, seed, seed, zero, x, count
        ),
        Memory(row.copy(), x.copy(), x.copy()),
        Scratch(x.copy(), x.copy(), zero.copy(), x.copy()),
    )


@cache
def warm_up_totals() -> None:
    """Compile the kernels of methods on totals, or load them from numba's cache, so that no later call waits.

    Methods on totals are Newton's and the interior-point method. It calls each kernel on a 1 x 1 matrix; return
    nothing.
    """
    one, x, unit, zeros = np.ones(1), np.zeros(1), np.ones((1, 1)), np.zeros((1, 1))
    n, ends = np.uint64(1), np.array([0, 1])
    matrix = (ends, np.zeros(1, np.int32), one)
    limits = np.array([[0.0], [-np.inf], [np.inf]])
    minimise(PenalisedQuadratic(unit, one, limits, x, n), x.copy(), 0.0, FaceScratch.of(1))
    family = QuadraticFamily(unit, unit, zeros, zeros, zeros, limits[1:], n)
    minimise_each(family, True, unit.copy(), PathScratch.of(1))
    eliminate(unit.copy(), n, x, np.empty((8, 1)))
    table = np.array([[0.0, 1.0, 0.0, -np.inf, np.inf]])
    order, out = (np.zeros(1, np.uint64), n), (x.copy(), x.copy(), np.empty(2))
    model_step(unit, table, order, (x, one), 0.0, out, ModelScratch.of(1))
    penalties_along(table, x, one, one, x.copy())
    total_slack(table, x, one)
    invert(unit, unit.copy())
    add_gram(matrix, one, np.zeros(1, np.int64), False, unit.copy(), (np.zeros(1, np.uint64), x.copy()))
    pack_triangle(unit, one, x.copy())
    pack_columns(unit, ends[:1], one, x.copy())
    unpack_triangle(one, zeros.copy())
    add_sums(matrix, unit, zeros.copy(), zeros.copy())
    add_products(matrix, unit, zeros.copy())
    step_rows(
        Losses(np.array([[0.0, 0.0, 0.0, -1.0, 0.0]]), 0.0, 0.0, 1.0, 1.0),
        Move(np.ones((1, 1, 4)), np.zeros((1, 4)), one, 0.0, 1.0),
        Outcome(
            np.zeros((1, 1, 4)),
            np.zeros((1, 12)),
            np.zeros(3),
            np.zeros((3, 4)),
            np.zeros(3),
            x.copy(),
            np.zeros((2, 1)),
        ),
    )
    best_share(np.zeros((2, 2)), one, one, 1)
    bound_at((0.0, one, 0.0, one), one, one, 0.0)
    combine((0.0, one, 0.0, one), (0.0, one, 0.0, one), 0.5, x.copy(), x.copy())
    standardised_products(unit, one, one, np.zeros((1, 4)), zeros.copy(), np.zeros((1, 4)))
    step_narrow_rows(
        NarrowRows(unit, ends, x, one, np.zeros((1, 4))),
        Losses(np.array([[0.0, 0.0, 0.0, -1.0, 0.0]]), 0.0, 0.0, 1.0, 1.0),
        Move(np.ones((1, 1, 4)), np.zeros((0, 4)), one, 0.0, 1.0),
        np.zeros((1, 1, 4)),
        NarrowSums(
            np.zeros((1, 3)),
            np.zeros((1, 3, 4)),
            np.zeros((1, 3)),
            zeros.copy(),
            np.zeros((1, 12, 1)),
            zeros.copy(),
        ),
        NarrowScratch(
            unit.copy(), np.zeros((1, 4)), np.zeros((1, 12)), x.copy(), x.copy(), one, np.zeros(3), np.zeros((2, 1))
        ),
    )
    add_dense_gram(unit, one, (one, x.copy()), x.copy())
    row_products(unit, np.zeros((2, 2)), np.zeros((1, 2)))
    column_products(unit, ends, zeros, np.zeros((1, 1, 2)))
    node_grams(unit, ends, one, (one, x.copy()), zeros.copy())
    for rows in (smooth_rows, logistic_rows):
        rows(
            Wanted(1.0, 1.0, 0.0, 0.0, False, False, False, False, False),
            (np.ones((1, 5)), one),
            (x, x, x),
            (ends, x[:0], np.zeros(N_SUMS)),
            RowSums(zeros.copy(), x[:0].copy(), np.zeros((1, N_SUMS))),
        )
    largest_bits(np.zeros((1, 1), np.int64), np.zeros(1, np.int64))
    add_units(unit, np.float64(1.0), np.ones(1, bool), np.uint64(0), np.zeros((1, 1), np.int64))
