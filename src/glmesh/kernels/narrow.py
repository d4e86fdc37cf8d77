"""One pass over dense rows of few columns, for the interior-point method: all sums of several nodes at once.

Predictions, multipliers, and sums over rows are made for some rows at a time, which stay in a core's cache; one call
for all nodes takes a tenth of the time of a call for each of these steps at each node.
"""

from typing import NamedTuple

import numpy as np

from glmesh.kernels.gram import add_dense_gram, standardised_products
from glmesh.kernels.interior import Losses, Move, Outcome, step_rows
from glmesh.kernels.jit import FOUR, ONE, THREE, TWO, ZERO, inlined, kernel
from glmesh.types import Indices, Matrix, Vector

N_VECTORS = np.uint64(12)  # columns of `Outcome.vectors`, a constant so that loops over them are unrolled


class NarrowRows(NamedTuple):
    """Rows of K nodes, one node after the other, their standardisation, and what predictions are asked for.

    Standardised rows have d columns, (x_j - mean_j) inverse_j, and if d = p + 1 a 1 after them.
    """

    X: Matrix  # (m, p) rows of all nodes
    starts: Indices  # (K + 1,) first row of each node and, last, their end
    mean: Vector  # (p,)
    inverse: Vector  # (p,)
    ways: Matrix  # (4, d) coefficients: the point, and three directions


class NarrowSums(NamedTuple):
    """Output arrays of `step_narrow_rows`, to which each node's sums over rows are added; Z are standardised rows."""

    losses: Matrix  # (K, 2 + n) the sums of `Outcome` of the same names, for each node
    k: Matrix  # (K, 3, 4)
    sizes: Matrix  # (K, 3)
    spread: Matrix  # (K, 1)
    moments: Matrix  # (K, d, 12) Z' vectors, see `Outcome.vectors`
    triangle: Matrix  # (K, d (d + 1)/2) upper triangle of Z' diag(D) Z; D is the first of the vectors


class NarrowScratch(NamedTuple):
    """Arrays that `step_narrow_rows` overwrites; their number of rows, n, is that of the rows taken at a time."""

    Z: Matrix  # (n, d)
    predictions: Matrix  # (n, 4)
    vectors: Matrix  # (n, 12)
    curvatures: Vector  # (n,)
    part: Vector  # (d (d + 1)/2,)
    ones: Vector  # (d,) ones, which are read only
    own: Vector  # for the sums of some rows, as long as `losses`
    products: Matrix  # see `Outcome.products`


@kernel
def step_narrow_rows(rows, losses, move, after, sums, scratch):
    """Make one step of an interior-point method on all rows of K nodes, and add their sums to `sums`, in place.

    `rows` is a NarrowRows, `losses` the Losses of these rows, `sums` a NarrowSums, `scratch` a NarrowScratch. `move` is
    a Move, whose predictions are not read. The multipliers, shape (m, J, 4), are written to `after`, J per row.
    """
    step = np.uint64(scratch.Z.shape[0])
    for node in range(np.uint64(rows.starts.size) - ONE):
        last = np.uint64(rows.starts[node + ONE])
        for begin in range(np.uint64(rows.starts[node]), last, step):
            end = min(begin + step, last)
            size = end - begin
            Z, predictions, vectors = scratch.Z[:size], scratch.predictions[:size], scratch.vectors[:size]
            standardised_products(rows.X[begin:end], rows.mean, rows.inverse, rows.ways, Z, predictions)
            vectors[:] = 0.0
            scratch.own[:] = 0.0
            step_rows(
                Losses(losses.table[begin:end], losses.shift, losses.idle, losses.unit, losses.barrier),
                Move(move.before[begin:end], predictions, move.lengths, move.length, move.mu),
                Outcome(
                    after[begin:end],
                    vectors,
                    scratch.own,
                    sums.k[node],
                    sums.sizes[node],
                    sums.spread[node],
                    scratch.products,
                ),
            )
            for t in range(np.uint64(scratch.own.size)):
                sums.losses[node, t] += scratch.own[t]
            for i in range(size):
                scratch.curvatures[i] = vectors[i, 0]
            _add_moments(Z, vectors, sums.moments[node])
            add_dense_gram(Z, scratch.curvatures[:size], (scratch.ones, scratch.part), sums.triangle[node])


@inlined
def _add_moments(Z, vectors, moments):
    """Add Z' vectors to `moments`, shape (d, 12), in place; Z has shape (m, d), `vectors` (m, 12).

    Four rows are added at a time, and the last ones one by one.
    """
    m, d = np.uint64(Z.shape[0]), np.uint64(Z.shape[1])
    fours = m - m % FOUR
    for i in range(ZERO, fours, FOUR):
        a, b, c, e = Z[i], Z[i + ONE], Z[i + TWO], Z[i + THREE]
        s, t, u, v = vectors[i], vectors[i + ONE], vectors[i + TWO], vectors[i + THREE]
        for j in range(d):
            if a[j] != 0.0 or b[j] != 0.0 or c[j] != 0.0 or e[j] != 0.0:
                for r in range(N_VECTORS):
                    moments[j, r] += (a[j] * s[r] + b[j] * t[r]) + (c[j] * u[r] + e[j] * v[r])
    for i in range(fours, m):
        for j in range(d):
            for r in range(N_VECTORS):
                moments[j, r] += Z[i, j] * vectors[i, r]
