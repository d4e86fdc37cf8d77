"""Gram matrix of weighted sparse rows."""

import numpy as np

from glmesh.kernels.jit import ONE, kernel


@kernel
def add_gram(indptr, indices, values, weights, out):
    """Add X' diag(weights) X to the upper triangle of `out`, shape (p, p), in place; X has m rows in CSR form.

    Indices ascend within a row. Rows are added one after the other, so the bits do not depend on anything else.
    """
    for i in range(np.uint64(weights.size)):
        end = indptr[i + ONE]
        for a in range(indptr[i], end):
            row, value = indices[a], weights[i] * values[a]
            for b in range(a, end):
                out[row, indices[b]] += value * values[b]
