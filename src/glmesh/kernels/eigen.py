"""Eigenvalues of symmetric matrices by Jacobi's method, and products of matrices.

There is no BLAS here: all processes compute the same bits, whatever their processor and the number of threads.
"""

import numpy as np

from glmesh.kernels.jit import ONE, ZERO, kernel

SWEEPS = 40  # over all pairs of coordinates at most; the method converges quadratically, so that ten are many
ROUNDED = 2.0**-53  # [geometric mean of two diagonal entries] entry between them that is rounding
NOTHING = 2.0**-200  # [largest diagonal entry] entry that is nothing beside it


@kernel
def diagonalise(A, vectors):
    """Rotate a symmetric matrix A, shape (k, k), in place until it is diagonal: its eigenvalues, in any order.

    Row i of `vectors`, shape (k, k), becomes the eigenvector of A[i, i] (Golub and Van Loan, Matrix Computations,
    algorithm 8.5.3).
    """
    k = np.uint64(A.shape[0])
    largest = 0.0
    for i in range(k):
        largest = max(largest, abs(A[i, i]))
        for j in range(k):
            vectors[i, j] = 1.0 if i == j else 0.0
    for _ in range(SWEEPS):
        rotated = False
        for p in range(k):
            for q in range(p + ONE, k):
                off = A[p, q]
                if abs(off) <= ROUNDED * np.sqrt(abs(A[p, p] * A[q, q])) or abs(off) <= NOTHING * largest:
                    continue
                rotated = True
                half = (A[q, q] - A[p, p]) / (2.0 * off)
                size = abs(half) + np.sqrt(half * half + 1.0)
                t = 1.0 / size if half >= 0.0 else -1.0 / size
                c = 1.0 / np.sqrt(t * t + 1.0)
                s = t * c
                for j in range(k):
                    A[p, j], A[q, j] = c * A[p, j] - s * A[q, j], s * A[p, j] + c * A[q, j]
                    vectors[p, j], vectors[q, j] = (
                        c * vectors[p, j] - s * vectors[q, j],
                        s * vectors[p, j] + c * vectors[q, j],
                    )
                for i in range(k):
                    A[i, p], A[i, q] = c * A[i, p] - s * A[i, q], s * A[i, p] + c * A[i, q]
                A[p, q] = 0.0
                A[q, p] = 0.0
        if not rotated:
            break


@kernel
def multiply(A, B, out):
    """Write the product of A, shape (n, k), and B, shape (k, m), to `out`, shape (n, m)."""
    n, k, m = np.uint64(A.shape[0]), np.uint64(A.shape[1]), np.uint64(B.shape[1])
    for i in range(n):
        for j in range(ZERO, m):
            out[i, j] = 0.0
        for e in range(k):
            factor = A[i, e]
            for j in range(m):
                out[i, j] += factor * B[e, j]
