"""Norms of sparse and dense columns."""

import numpy as np

from glmesh.linalg.columns import Columns

_LARGEST_GRAM = 512  # columns up to which the exact spectral norm is worth a Gram matrix


def spectral_norm(columns: Columns) -> float:
    """|A|_2: exact for few columns, else the smaller of its upper bounds |A|_F and (|A|_1 |A|_inf)^(1/2)."""
    if columns.n == 0:
        return 0.0
    if columns.n == 1:
        return float(columns.norms[0])
    matrix = columns.to_scipy()
    if columns.n <= _LARGEST_GRAM:
        gram = matrix.T @ matrix
        square = float(np.linalg.eigvalsh(gram if columns.dense else gram.toarray())[-1])
    else:
        size = abs(matrix)
        product = float(size.sum(axis=0).max()) * float(size.sum(axis=1).max())
        square = min(float(np.sum(columns.norms**2)), product)
    return float(np.sqrt(max(square, 0.0))) * (1.0 + 1e-12)
