"""X^T diag(h) X of sparse rows on some columns, and upper triangles."""

import numpy as np

from glmesh.kernels.jit import ONE, ZERO, kernel


@kernel
def add_gram(indptr, indices, data, h, position, found, values, out):
    """Add sum_i h_i x_i x_i^T to the upper triangle of `out`, shape (n, n), in place, for m rows x_i in CSR form.

    position[j] in 0..n - 1 is the place of column j in `out`, and negative where it has none; places and the indices of
    a row ascend. Rows are added one after the other, so the bits do not depend on anything else. `found` and `values`,
    shape (n,), are written to.
    """
    for i in range(np.uint64(h.size)):
        weight = h[i]
        if weight == 0.0:
            continue
        n = ZERO
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + ONE])):
            at = position[np.uint64(indices[e])]
            if at >= 0:
                found[n] = np.uint64(at)
                values[n] = data[e]
                n += ONE
        for a in range(n):
            factor = weight * values[a]
            row = out[found[a]]
            for b in range(a, n):
                row[found[b]] += factor * values[b]


@kernel
def pack_triangle(matrix, factors, out):
    """Write the upper triangle of diag(factors) matrix diag(factors), row by row, to `out`, shape (n (n + 1) / 2,)."""
    n, t = np.uint64(factors.size), ZERO
    for i in range(n):
        row, factor = matrix[i], factors[i]
        for j in range(i, n):
            out[t] = row[j] * factor * factors[j]
            t += ONE
