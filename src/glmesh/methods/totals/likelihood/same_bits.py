"""Linear algebra that every node does with the same bits, without BLAS and LAPACK, which differ between processors.

Nodes that searched along other directions than each other would add up numbers that have nothing to do with each other.
"""

from __future__ import annotations

import numpy as np

from glmesh.kernels.eigen import diagonalise, multiply
from glmesh.types import Matrix, Vector


def spectrum(matrix: Matrix) -> tuple[Vector, Matrix]:
    """Return (eigenvalues, ascending; eigenvectors, a row for each) of a symmetric matrix, shape (k, k).

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.methods.totals.likelihood.same_bits import spectrum
    >>> spectrum(np.array([[3.0, 0.0], [0.0, 2.0]]))[0]
    array([2., 3.])
    """
    work, vectors = np.array(matrix, dtype=np.float64, order="C"), np.empty(matrix.shape)
    diagonalise(work, vectors)
    order = np.argsort(np.diag(work), kind="stable")
    return np.diag(work)[order], vectors[order]


def product(*matrices: Matrix) -> Matrix:
    """Return the product of two or more matrices, from left to right."""
    left = np.ascontiguousarray(matrices[0])
    for right in matrices[1:]:
        out = np.empty((left.shape[0], right.shape[1]))
        multiply(left, np.ascontiguousarray(right), out)
        left = out
    return left


def combined(factors: Vector, rows: Matrix) -> Vector:
    """Return the sum of factors[i] times rows[i], shape (d,), for n factors and rows of shape (n, d)."""
    return np.asarray((factors[:, None] * rows).sum(axis=0))


def reduced(rows: Matrix) -> tuple[list[int], Matrix]:
    """Return (columns of the pivots, rows), of which linear combinations are those of `rows`, shape (j, d).

    Row i is 1 at pivot i and 0 at the others; each pivot is the largest entry that is left.
    """
    rows, pivots = rows.copy(), []
    for i in range(len(rows)):
        down, pivot = divmod(int(np.argmax(np.abs(rows[i:]))), rows.shape[1])
        rows[[i, i + down]] = rows[[i + down, i]]
        rows[i] /= rows[i, pivot]
        factors = rows[:, pivot].copy()
        factors[i] = 0.0
        rows -= factors[:, None] * rows[i]
        pivots.append(pivot)
    return pivots, rows
