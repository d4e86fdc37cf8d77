"""Norms of matrices that are stored by columns."""

import numpy as np

from glmesh.linalg.columns import Columns

LARGEST_GRAM = 512  # [columns] up to which the exact norm is worth the eigenvalues of a Gram matrix, below 0.1 s


def spectral_norm(columns: Columns) -> float:
    """Return an upper bound of ``|A|_2``, exact up to 512 columns.

    Parameters
    ----------
    columns : Columns
        A.

    Returns
    -------
    float
        The norm, rounded up; of more columns the smaller of ``|A|_F`` and ``(|A|_1 |A|_inf)^(1/2)``.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.linalg.columns import Columns
    >>> from glmesh.linalg.norms import spectral_norm
    >>> round(spectral_norm(Columns.of(np.diag([3.0, 4.0]))), 9)
    4.0
    """
    if columns.n == 0:
        return 0.0
    if columns.n == 1:
        return float(columns.norms[0])
    matrix = columns.to_scipy()
    if columns.n <= LARGEST_GRAM:
        gram = matrix.T @ matrix
        square = float(np.linalg.eigvalsh(gram if columns.dense else gram.toarray())[-1])
    else:
        size = abs(matrix)
        product = float(size.sum(axis=0).max()) * float(size.sum(axis=1).max())
        square = min(float(np.sum(columns.norms**2)), product)
    return float(np.sqrt(max(square, 0.0))) * (1.0 + 1e-12)
