"""Products with single columns of a matrix that is stored by columns, sparse or dense."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from glmesh.kernels.jit import FOUR, ONE, THREE, TWO, inlined, kernel
from glmesh.types import Unsigned, Vector


class ColumnArrays(NamedTuple):
    """A d x n matrix A as the kernels read it: compressed sparse columns, or dense columns one after the other.

    The types of the indices are the same for all matrices, so that kernels compile once.
    """

    indptr: Unsigned  # (n + 1,) column i has the entries indptr[i]..indptr[i + 1] - 1
    indices: npt.NDArray[np.uint32]  # (nnz,) rows of the entries, or (0,): the columns are dense
    data: Vector  # (nnz,) entries, column after column


@inlined
def _row(indices, begin, j):
    """Return the row number of entry j of `data`, in a column of a matrix whose entries begin at `begin`.

    That is indices[j], or j - begin where `indices` is empty because the matrix is dense. All are uint64.
    """
    return np.uint64(indices[j]) if indices.size > 0 else j - begin


@inlined
def dot(matrix, i, r):
    """Return <a_i, r>, a float: column a_i of a d x n `matrix` (a ColumnArrays) times a vector r of shape (d,)."""
    indptr, indices, data = matrix
    begin, end = indptr[i], indptr[i + ONE]
    j, s0, s1, s2, s3 = begin, 0.0, 0.0, 0.0, 0.0
    while j + FOUR <= end:
        s0 += data[j] * r[_row(indices, begin, j)]
        s1 += data[j + ONE] * r[_row(indices, begin, j + ONE)]
        s2 += data[j + TWO] * r[_row(indices, begin, j + TWO)]
        s3 += data[j + THREE] * r[_row(indices, begin, j + THREE)]
        j += FOUR
    while j < end:
        s0 += data[j] * r[_row(indices, begin, j)]
        j += ONE
    return (s0 + s1) + (s2 + s3)


@inlined
def add(matrix, i, factor, r):
    """Add `factor` times column i of a d x n `matrix` (a ColumnArrays) to the vector r of shape (d,), in place."""
    indptr, indices, data = matrix
    begin = indptr[i]
    for j in range(begin, indptr[i + ONE]):
        r[_row(indices, begin, j)] += factor * data[j]


@inlined
def weighted_square(matrix, i, h):
    """Return sum_j h_j a_ji^2, a float: the squared norm of column i of `matrix` under row weights h, shape (d,).

    `matrix`, d x n, is a ColumnArrays with the entries a_ji.
    """
    indptr, indices, data = matrix
    begin, end = indptr[i], indptr[i + ONE]
    j, s0, s1, s2, s3 = begin, 0.0, 0.0, 0.0, 0.0
    while j + FOUR <= end:
        s0 += data[j] * data[j] * h[_row(indices, begin, j)]
        s1 += data[j + ONE] * data[j + ONE] * h[_row(indices, begin, j + ONE)]
        s2 += data[j + TWO] * data[j + TWO] * h[_row(indices, begin, j + TWO)]
        s3 += data[j + THREE] * data[j + THREE] * h[_row(indices, begin, j + THREE)]
        j += FOUR
    while j < end:
        s0 += data[j] * data[j] * h[_row(indices, begin, j)]
        j += ONE
    return (s0 + s1) + (s2 + s3)


@inlined
def weighted_add(matrix, i, factor, h, r):
    """Add `factor` h_j a_ji to r_j for every row j, in place: column i of a d x n matrix, h and r of shape (d,).

    `matrix` is a ColumnArrays with the entries a_ji.
    """
    indptr, indices, data = matrix
    begin = indptr[i]
    for j in range(begin, indptr[i + ONE]):
        row = _row(indices, begin, j)
        r[row] += factor * data[j] * h[row]


@kernel
def transposed_products(starts, matrix, row_of_node, w, out):
    """Write out_i = <a_i, w_k> for every column a_i of every node k, where w_k is row number row_of_node[k] of `w`.

    Node k has the columns starts[k]..starts[k + 1] - 1 of the d x n `matrix` (a ColumnArrays). `w` has rows of length
    d, `out` shape (n,).
    """
    for k in range(np.uint64(starts.size) - ONE):
        row = w[row_of_node[k]]
        for i in range(starts[k], starts[k + ONE]):
            out[i] = dot(matrix, i, row)


@kernel
def products(starts, matrix, x, row_of_node, out):
    """Add A_k x_k, node k's columns times its variables, to row row_of_node[k] of `out`, for every node k.

    Node k has the columns starts[k]..starts[k + 1] - 1 of the d x n `matrix` (a ColumnArrays). `x` has shape (n,),
    `out` rows of length d.
    """
    for k in range(np.uint64(starts.size) - ONE):
        row = out[row_of_node[k]]
        for i in range(starts[k], starts[k + ONE]):
            if x[i] != 0.0:
                add(matrix, i, x[i], row)
