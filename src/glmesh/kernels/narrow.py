"""Passes over dense rows of few columns: sums over the rows of several nodes in one call.

BLAS takes a call for each node and product, and for few rows and columns these calls cost more than the sums. Bits do
not depend on which nodes a call is for. For the interior-point method predictions, multipliers and sums are made for
some rows at a time, which stay in a core's cache.
"""

from typing import NamedTuple

import numpy as np

from glmesh.kernels.gram import add_dense_gram, standardised_products
from glmesh.kernels.interior import Losses, Move, Outcome, step_rows
from glmesh.kernels.jit import FOUR, ONE, THREE, TWO, ZERO, inlined, kernel
from glmesh.types import Indices, Matrix, Vector


class NarrowRows(NamedTuple):
    """Rows of K nodes, one node after the other, their standardisation, and what predictions are asked for.

    Standardised rows have d columns, (x_j - mean_j) inverse_j, and if d = p + 1 a 1 after them.
    """

    X: Matrix  # (m, p) rows of all nodes
    starts: Indices  # (K + 1,) first row of each node and, last, their end
    mean: Vector  # (p,)
    inverse: Vector  # (p,)
    ways: Matrix  # (d, 4) coefficients: the point, and three directions


class NarrowSums(NamedTuple):
    """Output arrays of `step_narrow_rows`, to which each node's sums over rows are added; Z are standardised rows."""

    losses: Matrix  # (K, 2 + n) the sums of `Outcome` of the same names, for each node
    k: Matrix  # (K, 3, 4)
    sizes: Matrix  # (K, 3)
    spread: Matrix  # (K, 1)
    moments: Matrix  # (K, 12, d) vectors' Z, see `Outcome.vectors`
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
    """Add vectors' Z to `moments`, shape (12, d), in place; Z has shape (m, d), `vectors` (m, 12).

    Four rows are added at a time, which reads and writes `moments` a fourth as often, and the last ones one by one.
    """
    m, d, n = np.uint64(Z.shape[0]), np.uint64(Z.shape[1]), np.uint64(moments.shape[0])
    fours = m - m % FOUR
    for i in range(ZERO, fours, FOUR):
        a, b, c, e = Z[i], Z[i + ONE], Z[i + TWO], Z[i + THREE]
        for r in range(n):
            row = moments[r]
            s, t, u, v = vectors[i, r], vectors[i + ONE, r], vectors[i + TWO, r], vectors[i + THREE, r]
            for j in range(d):
                row[j] += (a[j] * s + b[j] * t) + (c[j] * u + e[j] * v)
    for i in range(fours, m):
        for r in range(n):
            for j in range(d):
                moments[r, j] += Z[i, j] * vectors[i, r]


@kernel
def row_products(X, ways, out):
    """Write X w + b to out[:, c] for two columns (w, b) = ways[:, c], b last; X is (m, p), `ways` (p + 1, 2).

    A sum has four parts, so that additions need not wait for each other.
    """
    p = np.uint64(X.shape[1])
    fours = p - p % FOUR
    for i in range(np.uint64(X.shape[0])):
        row = X[i]
        a, b, c, d = ways[p, ZERO], 0.0, 0.0, 0.0
        e, f, g, h = ways[p, ONE], 0.0, 0.0, 0.0
        for j in range(ZERO, fours, FOUR):
            k, n, o = j + ONE, j + TWO, j + THREE
            a += row[j] * ways[j, ZERO]
            e += row[j] * ways[j, ONE]
            b += row[k] * ways[k, ZERO]
            f += row[k] * ways[k, ONE]
            c += row[n] * ways[n, ZERO]
            g += row[n] * ways[n, ONE]
            d += row[o] * ways[o, ZERO]
            h += row[o] * ways[o, ONE]
        for j in range(fours, p):
            a += row[j] * ways[j, ZERO]
            e += row[j] * ways[j, ONE]
        out[i, ZERO], out[i, ONE] = (a + b) + (c + d), (e + f) + (g + h)


@kernel
def column_products(X, starts, vectors, out):
    """Add v'X and the sum of v, for each of r vectors v and each of K nodes, to `out`, shape (r, K, p + 1).

    X has shape (m, p), `vectors` (r, m); rows starts[k], ..., starts[k + 1] - 1 are those of node k. Four rows are
    added at a time, and the last ones of a node one by one.
    """
    p = np.uint64(X.shape[1])
    for k in range(np.uint64(starts.size) - ONE):
        begin, end = np.uint64(starts[k]), np.uint64(starts[k + ONE])
        fours = end - (end - begin) % FOUR
        for i in range(begin, fours, FOUR):
            a, b, c, d = X[i], X[i + ONE], X[i + TWO], X[i + THREE]
            for r in range(np.uint64(vectors.shape[0])):
                row, v = out[r, k], vectors[r]
                s, t, u, w = v[i], v[i + ONE], v[i + TWO], v[i + THREE]
                if s != 0.0 or t != 0.0 or u != 0.0 or w != 0.0:
                    for j in range(p):
                        row[j] += (a[j] * s + b[j] * t) + (c[j] * u + d[j] * w)
                    row[p] += (s + t) + (u + w)
        for i in range(fours, end):
            for r in range(np.uint64(vectors.shape[0])):
                row, s = out[r, k], vectors[r, i]
                for j in range(p):
                    row[j] += X[i, j] * s
                row[p] += s


@kernel
def node_grams(X, starts, h, scaled, out):
    """Add the upper triangle of diag(f) Z' diag(h) Z diag(f) of each of K nodes to row k of `out`, row by row of it.

    Z are the rows starts[k], ..., starts[k + 1] - 1 of X, shape (m, p), and a column of ones after them if n = p + 1; h
    has shape (m,), `out` shape (K, n (n + 1) / 2). `scaled` is (f (n,), scratch like a row of `out`).
    """
    for k in range(np.uint64(starts.size) - ONE):
        begin, end = np.uint64(starts[k]), np.uint64(starts[k + ONE])
        add_dense_gram(X[begin:end], h[begin:end], scaled, out[k])
