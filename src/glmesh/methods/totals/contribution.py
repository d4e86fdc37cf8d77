"""Sums over the rows of each hosted node at a trial point, of which a total of Newton's method is made.

Products with the matrix of one node are BLAS calls on that node's own array, so how nodes are grouped into blocks and
threads of Python does not matter to the bits; that the number of BLAS's own threads does not is assumed (OpenBLAS
divides rows and columns of a product among threads, never a sum).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import scipy.sparse as sp

from glmesh.kernels.gram import pack_triangle
from glmesh.kernels.narrow import column_products, node_grams, row_products
from glmesh.methods.totals.query import Query
from glmesh.methods.totals.row_terms import EPSILON, node_sums, row_terms
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.methods.totals.standardise import NARROW, sparse_gram
from glmesh.types import Indices, Matrix, SampleMatrix, Vector

FEW_CURVED = 0.5  # [rows] share with a curvature up to which the others are left out, because copying costs time
CHUNK = 4096  # [rows] that are weighted at a time, because some MB for some hundred columns stay in a cache
# power of leverages that is summed, because a sum of 16th powers is at most (2.4 times the largest)^16 for 10^6 rows
LEVERAGE_POWER = 16
LARGEST_LEVERAGE = 1e18  # leverage that larger ones are cut to, because a bound is useless there and powers overflow
# [sum of the products' sizes] of a combination of columns that counts as zero, because its coefficients are
# rounded
DEPENDENT = 1e-12
# [logits] by which a step may move a row to the wrong side because of rounding; rows that overlap by less than that
# count as separated
AGAINST = 1e-9
# [logits] by which Newton's steps move rows that nothing holds at least, because it is one where they are far out
TOWARDS = 0.1
# [visits to a nonzero] of a nonzero in one row of the Hessian, for the virtual clock; a twelfth because products of
# matrices compute so much faster
HESSIAN_ROW_COST = 1 / 12


def contribute(block: Rows, penalty: ScaledPenalty, query: Query) -> dict[str, Matrix]:
    """Return what each hosted node adds to a total at the query's trial point: {name of a field: (n_hosted, size)}.

    Numbers that are not finite are sent as 0. A total is a sum over all nodes.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        z, q = _predictions(block, penalty, query)
        made = row_terms(block, query, (z, q), _errors(block, penalty, query))
        fields = made.fields(query.cap)
        fields["slopes"] = np.concatenate(_transposed(block, penalty, made.slopes), axis=1)
        fields |= _second_order(block, penalty, query, (z + q if query.moves else z, made.bends))
        if query.mass:
            fields["mass"] = node_sums(block, block.dual.support_bound)[:, None]
        if query.separation:
            fields["wrong"] = _wrong_sides(block, z + q, q)
    for name, rows in fields.items():
        if not np.isfinite(rows).all():  # far away; the trial point is refused, because a loss is at its cap
            fields[name] = np.where(np.isfinite(rows), rows, 0.0)
    return fields


def _second_order(
    block: Rows, penalty: ScaledPenalty, query: Query, at: tuple[Vector, Vector | None]
) -> dict[str, Matrix]:
    """Return the fields of the Hessian, each (n_hosted, size), as far as the query asks for them.

    `at` is (predictions at the trial point, curvatures there) of all hosted rows, each of shape (m,). Leverages and
    flat directions are those of the Hessian at the query's point.
    """
    fields, (there, bends) = {}, at
    if bends is not None and len(query.columns):
        fields["hessian"] = _triangles(block, penalty, bends, query.columns)
    if bends is not None and query.cross:
        fields["cross"] = _transposed(block, penalty, bends[None])[0]
    if query.inverse is not None:
        fields["leverages"] = _leverages(block, penalty, query.inverse)
    if query.flat is not None:
        g = block.dual
        weights = g.conjugate_majorant(-there) if query.majorant_flat else g.conjugate_curvature(-there)
        fields["bent"], fields["bend"] = _bent(block, penalty, query.flat, weights)
    return fields


def visits(block: Rows, query: Query) -> Vector:
    """Return how many nonzeros each hosted node visits to answer a query, shape (n_hosted,): a measure of its work."""
    n = len(query.columns) * min(1.0, len(query.columns) / (block.p + 1.0))
    return (2.0 + HESSIAN_ROW_COST * n) * block.nonzeros


def _predictions(block: Rows, penalty: ScaledPenalty, query: Query) -> tuple[Vector, Vector]:
    """Return (predictions at the query's point, their change by its step) for all m hosted rows, each of shape (m,)."""
    raw = penalty.raw(np.stack([query.point, query.step]))
    out = np.empty((block.starts[-1], 2))

    def fill(piece: tuple[slice, Matrix | None]) -> None:
        """Compute both predictions of the rows of some nodes into `out`."""
        nodes, dense = piece
        if dense is not None:
            row_products(dense, raw, out[block.rows_of(nodes)[0]])
            return
        for k in range(nodes.start, nodes.stop):
            a, b = block.starts[k], block.starts[k + 1]
            out[a:b] = block.X[k] @ raw[:-1]
            out[a:b] += raw[-1]

    list(block.threads.map(fill, _pieces(block)))
    return np.ascontiguousarray(out[:, 0]), np.ascontiguousarray(out[:, 1])


def _errors(block: Rows, penalty: ScaledPenalty, query: Query) -> Vector:
    """Return how far rounding may move the prediction of each of the m hosted rows, shape (m,).

    A prediction is a sum of d products whose sizes add up to at most the product of two norms, and the errors of d sums
    add up like a random walk. The loss of a prediction, which is rounded as well, is allowed for too.
    """
    size = np.sqrt((query.point**2).sum()) + np.sqrt((query.step**2).sum())
    return np.asarray(EPSILON * (2.0 + np.sqrt(len(query.point))) * size * block.row_norms(penalty.scale))


def _transposed(block: Rows, penalty: ScaledPenalty, rows: Matrix) -> Matrix:
    """Return X_k^T v in scaled units for n vectors v and each hosted node k, shape (n, n_hosted, d).

    `rows` has the vectors, shape (n, m), an entry for each of the m hosted rows; X_k are the rows of node k, with a 1
    for the intercept.
    """
    out = np.zeros((len(rows), block.size, block.p + 1))

    def fill(piece: tuple[slice, Matrix | None]) -> None:
        """Compute the products of some nodes into `out`."""
        nodes, dense = piece
        if dense is not None:
            span, starts = block.rows_of(nodes)
            part = np.zeros((len(rows), nodes.stop - nodes.start, block.p + 1))
            column_products(dense, starts, np.ascontiguousarray(rows[:, span]), part)
            out[:, nodes] = part
            return
        for k in range(nodes.start, nodes.stop):
            own = np.ascontiguousarray(rows[:, block.starts[k] : block.starts[k + 1]])
            out[:, k, :-1] = (block.transposed[k] @ own.T).T
            out[:, k, -1] = own.sum(axis=1)

    list(block.threads.map(fill, _pieces(block)))
    return np.asarray(out / penalty.scale)


def _triangles(block: Rows, penalty: ScaledPenalty, bends: Vector, columns: Indices) -> Matrix:
    """Return the upper triangle of each node's Hessian on n columns, row by row, shape (n_hosted, n (n + 1) / 2).

    `bends` are the curvatures of the losses of all m hosted rows, `columns` the coordinates, ascending.
    """
    n, factors = len(columns), 1.0 / penalty.scale[columns]
    out = np.zeros((block.size, n * (n + 1) // 2))
    ones = bool(columns[-1] == block.p)
    kernels = n <= NARROW and n - ones == block.p  # all columns

    def fill(piece: tuple[slice, Matrix | None]) -> None:
        """Compute the triangles of some nodes into `out`, one after the other in the same scratch matrix."""
        nodes, dense = piece
        span, starts = block.rows_of(nodes)
        if dense is not None:
            node_grams(dense, starts, bends[span], (factors, np.empty(out.shape[1])), out[nodes])
            return
        whole = np.empty((n, n))
        for k in range(nodes.start, nodes.stop):
            whole[:] = 0.0
            add_gram_of(block.X[k], bends[block.starts[k] : block.starts[k + 1]], columns, whole)
            pack_triangle(whole, factors, out[k])

    list(block.threads.map(fill, block.pieces(narrow=kernels)))
    return out


def _pieces(block: Rows) -> list[tuple[slice, Matrix | None]]:
    """Return the nodes of a block in pieces for threads, as `Rows.pieces` does."""
    return block.pieces(narrow=block.p < NARROW)


@lru_cache(maxsize=4)
def triangle(n: int) -> tuple[Indices, Indices]:
    """Return (row numbers, column numbers) of the upper triangle of an n x n matrix, row by row."""
    rows, columns = np.triu_indices(n)
    return rows, columns


def gram(X: SampleMatrix, h: Vector, columns: Indices) -> Matrix:
    """Return X^T diag(h) X on n of the columns, shape (n, n), of which only the upper triangle is valid.

    X has shape (m, p), h has shape (m,). `columns` are numbers, ascending; number p stands for a column of ones after
    those of X.
    """
    out = np.zeros((len(columns), len(columns)))
    add_gram_of(X, h, columns, out)
    return out


def add_gram_of(X: SampleMatrix, h: Vector, columns: Indices, out: Matrix) -> None:
    """Add X^T diag(h) X on n of the columns to `out`, shape (n, n), of which only the upper triangle is valid then.

    X has shape (m, p), h has shape (m,). `columns` are numbers, ascending; number p stands for a column of ones after
    those of X.
    """
    p, n = int(X.shape[1]), len(columns)
    ones = bool(columns[-1] == p)
    own = columns[: n - ones]
    if sp.issparse(X):
        sparse_gram(X, X.data, h, own, out)
        return
    curved = np.flatnonzero(h)
    if len(curved) <= FEW_CURVED * len(h):
        X, h = X[curved], h[curved]
    root = np.sqrt(h)
    for a in range(0, len(h), CHUNK):
        part = X[a : a + CHUNK] if len(own) == p else X[a : a + CHUNK, own]
        weighed = np.empty((len(part), n))
        np.multiply(part, root[a : a + CHUNK, None], out=weighed[:, : len(own)])
        if ones:
            weighed[:, -1] = root[a : a + CHUNK]
        out += weighed.T @ weighed


def _wrong_sides(block: Rows, there: Vector, along: Vector) -> Matrix:
    """Return four numbers for each hosted node, shape (n_hosted, 4), which tell whether a plane separates two classes.

    They are 1, and three answers (1 or 0): whether some row is on the wrong side at the trial point, whether the step
    moves some row visibly to the wrong side, and whether it moves some row visibly to the right side. `there` are the
    predictions of the m hosted rows, `along` their change by the step. Rows of weight 0 do not count.
    """
    bounds = block.kernel_rows
    side = np.sign(bounds[:, 4] + bounds[:, 3])
    wrong, against = (side != 0) & (side * there <= 0), side * along < -AGAINST
    spans = [slice(a, b) for a, b in zip(block.starts[:-1], block.starts[1:], strict=True)]
    return np.array([[1.0, *(one[span].any() for one in (wrong, against, side * along > TOWARDS))] for span in spans])


def _leverages(block: Rows, penalty: ScaledPenalty, inverse: Matrix) -> Matrix:
    """Return the sum over each node's rows x_i of (x_i^T H^-1 x_i)^16, shape (n_hosted, 1).

    Rows of weight 0 do not count. `inverse` is L^-1, shape (d, d), where H = L L^T.
    """
    out = np.zeros((block.size, 1))
    factors = penalty.raw(inverse)
    for k, X in enumerate(block.X):
        squares = np.empty(X.shape[0])
        for a in range(0, len(squares), CHUNK):
            part = X[a : a + CHUNK]
            lengths = np.asarray(part @ factors[:-1]) + factors[-1]
            squares[a : a + CHUNK] = np.einsum("ij,ij->i", lengths, lengths)
        squares = np.where(squares <= LARGEST_LEVERAGE, squares, LARGEST_LEVERAGE)[block.weight[k] > 0]
        out[k, 0] = (squares**LEVERAGE_POWER).sum()
    return out


def _bent(block: Rows, penalty: ScaledPenalty, flat: Matrix, weights: Vector) -> tuple[Matrix, Matrix]:
    """Return, for r directions v, how many rows x have x.v other than zero, and X^T diag(weights) X v.

    Both are for each hosted node, of shapes (n_hosted, r) and (n_hosted, r d). `flat` has the directions, shape (r, d),
    `weights` a number for each of the m hosted rows. Rows of sample weight 0 are not counted.
    """
    factors = penalty.raw(flat)
    sizes = np.abs(factors)
    counts, products = np.zeros((block.size, len(flat))), np.empty((len(flat), block.starts[-1]))
    for k, X in enumerate(block.X):
        change = np.asarray(X @ factors[:-1] + factors[-1])
        products[:, block.starts[k] : block.starts[k + 1]] = change.T
        seen = np.abs(change) > DEPENDENT * (abs(X) @ sizes[:-1] + sizes[-1])
        counts[k] = seen[block.weight[k] > 0].sum(axis=0)
    slopes = _transposed(block, penalty, products * weights)
    return counts, np.concatenate(slopes, axis=1)
