"""Lower bounds of an optimum at dual points, and combinations of such points.

The penalty is sum_j l1_j abs(w_j) + l2_j/2 w_j^2 of p coefficients. A dual point is (k, c, k_size, c_size), as
`methods.totals.dual_bound` explains: numbers k and k_size, arrays c and c_size of shape (d,), d >= p.
"""

import numpy as np

from glmesh.kernels.jit import kernel


@kernel
def bound_at(point, l1, l2, rounding):
    """Return the dual objective at a point, a float, less what rounding may have added, in parts of the sizes.

    It is -k - sum_j max(abs(c_j) - l1_j, 0)^2 / (2 l2_j) over the columns with l2_j > 0; l1 and l2 have shape (p,).
    """
    k, c, k_size, c_size = point
    square, size = 0.0, 0.0
    for j in range(np.uint64(l1.size)):
        beyond = abs(c[j]) - l1[j]
        if beyond > 0.0 and l2[j] > 0.0:
            w = beyond / l2[j]
            square += l2[j] * w * w
            size += w * c_size[j]
    return -k - 0.5 * square - rounding * (k_size + size)


@kernel
def combine(first, second, share, c, c_size):
    """Write c and c_size of (1 - share) times one dual point plus share times another to the arrays.

    Return its k and k_size. The sizes are those of (1 - share) k and so on, added up.
    """
    a, b = 1.0 - share, share
    for j in range(np.uint64(c.size)):
        c[j] = a * first[1][j] + b * second[1][j]
        c_size[j] = a * first[3][j] + b * second[3][j]
    return a * first[0] + b * second[0], a * first[2] + b * second[2]
