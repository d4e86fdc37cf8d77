"""Cholesky factors of symmetric matrices, some of whose pivots may be zero, and what is solved with them.

There is no BLAS here: all processes compute the same bits, whatever the number of its threads.
"""

import numpy as np

from glmesh.kernels.jit import ONE, ZERO, kernel

WIDTH = np.uint64(8)  # columns that a trailing matrix is updated by at once


@kernel
def eliminate(S, n, floor, panel):
    """Factor the first n columns of a symmetric matrix S, shape (d, d), in place by Cholesky's method.

    Only the lower triangle of S is read and written. It then holds the lower triangular factor in those columns, and
    the Schur complement in the others. A column k whose pivot is at most floor[k], shape (d,), becomes zero: its
    coordinate has no curvature of its own. `panel` has shape (8, d) and is overwritten.
    """
    d = np.uint64(S.shape[0])
    k = ZERO
    while k < n:
        end = min(k + WIDTH, n)
        for c in range(k, end):
            if S[c, c] > floor[c]:
                root = np.sqrt(S[c, c])
                S[c, c] = root
                for i in range(c + ONE, d):
                    S[i, c] /= root
            else:
                for i in range(c, d):
                    S[i, c] = 0.0
            for e in range(c + ONE, end):
                factor = S[e, c]
                for i in range(e, d):
                    S[i, e] -= factor * S[i, c]
        for c in range(WIDTH):
            for i in range(end, d):
                panel[c, i] = S[i, k + c] if k + c < end else 0.0
        for i in range(end, d):
            a0, a1, a2, a3 = panel[0, i], panel[1, i], panel[2, i], panel[3, i]
            a4, a5, a6, a7 = panel[4, i], panel[5, i], panel[6, i], panel[7, i]
            for j in range(end, i + ONE):
                first = a0 * panel[0, j] + a1 * panel[1, j] + a2 * panel[2, j] + a3 * panel[3, j]
                second = a4 * panel[4, j] + a5 * panel[5, j] + a6 * panel[6, j] + a7 * panel[7, j]
                S[i, j] -= first + second
        k = end


@kernel
def forward(L, n, x):
    """Overwrite x[:n] with L^-1 x[:n] by forward substitution; L is lower triangular, shape (n, n) or larger.

    Entry k becomes 0 where L_kk = 0, the mark that `eliminate` leaves in a factor L of a matrix of lower rank.
    """
    for k in range(n):
        total = x[k]
        for j in range(k):
            total -= L[k, j] * x[j]
        x[k] = total / L[k, k] if L[k, k] > 0.0 else 0.0


@kernel
def backward(L, n, x):
    """Overwrite x[:n] with L^-T x[:n] by back substitution; L is lower triangular, shape (n, n) or larger.

    Entry k becomes 0 where L_kk = 0, the mark that `eliminate` leaves in a factor L of a matrix of lower rank.
    """
    for back in range(n):
        k = n - ONE - back
        x[k] = x[k] / L[k, k] if L[k, k] > 0.0 else 0.0
        for j in range(k):
            x[j] -= L[k, j] * x[k]


@kernel
def invert(L, out):
    """Write L^-1 to `out`, shape (n, n), for a Cholesky factor L of S = L L^T; only the lower triangle of L is read.

    Where L_kk = 0 (S has lower rank), row k of `out` becomes a vector v with v_k = 1 and v.S v = 0, but for rounding.
    """
    n = np.uint64(L.shape[0])
    for k in range(n):
        row = out[k]
        for i in range(n):
            row[i] = 0.0
        row[k] = 1.0
        for j in range(k):
            factor = L[k, j]
            if factor != 0.0:
                other = out[j]
                for i in range(j + ONE):
                    row[i] -= factor * other[i]
        if L[k, k] > 0.0:
            for i in range(k + ONE):
                row[i] /= L[k, k]
