"""Products with single columns of a matrix that is stored by columns, sparse or dense.

A matrix is (indptr, indices, data): compressed sparse columns, or, where `indices` is empty, dense columns one
after the other. `indptr` is uint64 and `indices` uint32 (of one width, so that kernels compile once).
"""

import numpy as np
from numba import njit

ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@njit(nogil=True, cache=True, error_model="numpy")
def dot(indptr, indices, data, i, r):
    """<a_i, r>, in four partial sums, which hide the latency of an addition."""
    j, end = indptr[i], indptr[i + ONE]
    s0 = s1 = s2 = s3 = 0.0
    if indices.size > 0:
        while j + FOUR <= end:
            s0 += data[j] * r[indices[j]]
            s1 += data[j + ONE] * r[indices[j + ONE]]
            s2 += data[j + TWO] * r[indices[j + TWO]]
            s3 += data[j + THREE] * r[indices[j + THREE]]
            j += FOUR
        while j < end:
            s0 += data[j] * r[indices[j]]
            j += ONE
    else:
        row = np.uint64(0)
        while j + FOUR <= end:
            s0 += data[j] * r[row]
            s1 += data[j + ONE] * r[row + ONE]
            s2 += data[j + TWO] * r[row + TWO]
            s3 += data[j + THREE] * r[row + THREE]
            j += FOUR
            row += FOUR
        while j < end:
            s0 += data[j] * r[row]
            j += ONE
            row += ONE
    return (s0 + s1) + (s2 + s3)


@njit(nogil=True, cache=True, error_model="numpy")
def add(indptr, indices, data, i, factor, r):
    """r += factor a_i."""
    begin, end = indptr[i], indptr[i + ONE]
    if indices.size > 0:
        for j in range(begin, end):
            r[indices[j]] += factor * data[j]
    else:
        for j in range(begin, end):
            r[j - begin] += factor * data[j]


@njit(nogil=True, cache=True, error_model="numpy")
def transposed_products(starts, indptr, indices, data, row_of_node, w, out):
    """out_i = <a_i, w_k> for the columns i of every node k; w_k is the row row_of_node[k] of w."""
    for k in range(np.uint64(starts.size) - ONE):
        row = w[row_of_node[k]]
        for i in range(starts[k], starts[k + ONE]):
            out[i] = dot(indptr, indices, data, i, row)


@njit(nogil=True, cache=True, error_model="numpy")
def products(starts, indptr, indices, data, x, row_of_node, out):
    """out[row_of_node[k]] += A_k x_k for every node k."""
    for k in range(np.uint64(starts.size) - ONE):
        row = out[row_of_node[k]]
        for i in range(starts[k], starts[k + ONE]):
            if x[i] != 0.0:
                add(indptr, indices, data, i, x[i], row)
