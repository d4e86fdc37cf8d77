"""Products with single columns of a matrix that is stored by columns, sparse or dense.

A matrix is (indptr, indices, data): compressed sparse columns, or, where `indices` is empty, dense columns one after
the other. `indptr` is uint64 and `indices` uint32 (of one width, so that kernels compile once).
"""

import numpy as np

from glmesh.kernels.jit import FOUR, ONE, THREE, TWO, inlined, kernel


@inlined
def dot(indptr, indices, data, i, r):
    """Return <a_i, r>; four partial sums hide the latency of an addition."""
    begin, end = indptr[i], indptr[i + ONE]
    j, s0, s1, s2, s3 = begin, 0.0, 0.0, 0.0, 0.0
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
        while j + FOUR <= end:
            s0 += data[j] * r[j - begin]
            s1 += data[j + ONE] * r[j - begin + ONE]
            s2 += data[j + TWO] * r[j - begin + TWO]
            s3 += data[j + THREE] * r[j - begin + THREE]
            j += FOUR
        while j < end:
            s0 += data[j] * r[j - begin]
            j += ONE
    return (s0 + s1) + (s2 + s3)


@inlined
def add(indptr, indices, data, i, factor, r):
    """Add factor a_i to r, in place."""
    begin, end = indptr[i], indptr[i + ONE]
    if indices.size > 0:
        for j in range(begin, end):
            r[indices[j]] += factor * data[j]
    else:
        for j in range(begin, end):
            r[j - begin] += factor * data[j]


@inlined
def weighted_square(indptr, indices, data, i, h):
    """Return sum_j h_j a_ij^2, in four partial sums."""
    begin, end = indptr[i], indptr[i + ONE]
    j, s0, s1, s2, s3 = begin, 0.0, 0.0, 0.0, 0.0
    if indices.size > 0:
        while j + FOUR <= end:
            s0 += data[j] * data[j] * h[indices[j]]
            s1 += data[j + ONE] * data[j + ONE] * h[indices[j + ONE]]
            s2 += data[j + TWO] * data[j + TWO] * h[indices[j + TWO]]
            s3 += data[j + THREE] * data[j + THREE] * h[indices[j + THREE]]
            j += FOUR
        while j < end:
            s0 += data[j] * data[j] * h[indices[j]]
            j += ONE
    else:
        while j + FOUR <= end:
            s0 += data[j] * data[j] * h[j - begin]
            s1 += data[j + ONE] * data[j + ONE] * h[j - begin + ONE]
            s2 += data[j + TWO] * data[j + TWO] * h[j - begin + TWO]
            s3 += data[j + THREE] * data[j + THREE] * h[j - begin + THREE]
            j += FOUR
        while j < end:
            s0 += data[j] * data[j] * h[j - begin]
            j += ONE
    return (s0 + s1) + (s2 + s3)


@inlined
def weighted_add(indptr, indices, data, i, factor, h, r):
    """Add factor h o a_i to r, in place."""
    begin, end = indptr[i], indptr[i + ONE]
    if indices.size > 0:
        for j in range(begin, end):
            r[indices[j]] += factor * data[j] * h[indices[j]]
    else:
        for j in range(begin, end):
            r[j - begin] += factor * data[j] * h[j - begin]


@kernel
def transposed_products(starts, indptr, indices, data, row_of_node, w, out):
    """Write out_i = <a_i, w_k> for the columns i of every node k; w_k is the row row_of_node[k] of w."""
    for k in range(np.uint64(starts.size) - ONE):
        row = w[row_of_node[k]]
        for i in range(starts[k], starts[k + ONE]):
            out[i] = dot(indptr, indices, data, i, row)


@kernel
def products(starts, indptr, indices, data, x, row_of_node, out):
    """Add A_k x_k to out[row_of_node[k]], in place, for every node k."""
    for k in range(np.uint64(starts.size) - ONE):
        row = out[row_of_node[k]]
        for i in range(starts[k], starts[k + ONE]):
            if x[i] != 0.0:
                add(indptr, indices, data, i, x[i], row)
