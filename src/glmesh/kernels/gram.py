"""Sums over weighted sparse rows, and triangles of symmetric matrices."""

import numpy as np

from glmesh.kernels.jit import ONE, kernel


@kernel
def add_sums(matrix, vectors, gram, moments):
    """Add X' diag(w) X to the upper triangle of `gram`, shape (p, p), and X' vectors to `moments`, shape (p, r).

    `matrix` is (indptr, indices, values) of X with m rows in CSR form, indices ascending within a row; w is the first
    of the r `vectors`, shape (m, r). Rows are added one after the other, so the bits depend on nothing else.
    """
    indptr, indices, values = matrix
    r = np.uint64(vectors.shape[1])
    for i in range(np.uint64(vectors.shape[0])):
        end = np.uint64(indptr[i + ONE])
        for a in range(np.uint64(indptr[i]), end):
            row, value = np.uint64(indices[a]), values[a]
            for c in range(r):
                moments[row, c] += value * vectors[i, c]
            value *= vectors[i, 0]
            if value != 0.0:
                for b in range(a, end):
                    gram[row, np.uint64(indices[b])] += value * values[b]


@kernel
def add_products(matrix, vectors, out):
    """Add X vectors, shape (p, r), to `out`, shape (m, r); `matrix` is (indptr, indices, values) of X in CSR form."""
    indptr, indices, values = matrix
    r = np.uint64(vectors.shape[1])
    for i in range(np.uint64(out.shape[0])):
        for a in range(np.uint64(indptr[i]), np.uint64(indptr[i + ONE])):
            row, value = np.uint64(indices[a]), values[a]
            for c in range(r):
                out[i, c] += value * vectors[row, c]


@kernel
def pack_triangle(matrix, out):
    """Write the upper triangle of a matrix, shape (d, d), to `out`, shape (d (d + 1)/2,), row by row."""
    at = np.uint64(0)
    for i in range(np.uint64(matrix.shape[0])):
        for j in range(i, np.uint64(matrix.shape[0])):
            out[at] = matrix[i, j]
            at += ONE


@kernel
def unpack_triangle(packed, out):
    """Write a packed upper triangle, shape (d (d + 1)/2,), to both triangles of `out`, shape (d, d)."""
    at = np.uint64(0)
    for i in range(np.uint64(out.shape[0])):
        for j in range(i, np.uint64(out.shape[0])):
            out[i, j] = packed[at]
            out[j, i] = packed[at]
            at += ONE
