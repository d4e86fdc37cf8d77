"""Contributions to totals as whole numbers of units."""

import numpy as np

from glmesh.kernels.jit import ZERO, kernel

MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)  # the bits of a float but its sign


@kernel
def largest_bits(bits, out):
    """Write the largest of the absolute values of each row, as bits, to `out`, shape (K,), which holds zeros.

    `bits` are those of floats, shape (K, n): without their sign they order as the numbers do, with NaN after infinity.
    """
    for k in range(np.uint64(bits.shape[0])):
        row, most = bits[k], np.int64(0)
        for i in range(np.uint64(row.size)):
            most = max(most, row[i] & MAGNITUDE)
        out[k] = most


@kernel
def add_units(rows, inverse, fits, at, out):
    """Add `rows`, shape (K, n), times the float `inverse`, rounded to whole numbers, to out[:, at : at + n], in place.

    `out` has K rows, or one row for the sum of all. Rows k without fits[k] add nothing. Halves are rounded to even.
    """
    apart = out.shape[0] == rows.shape[0]
    for k in range(np.uint64(rows.shape[0])):
        if fits[k]:
            row, whole = rows[k], out[k if apart else ZERO]
            for i in range(np.uint64(row.size)):
                whole[at + i] += np.int64(np.rint(row[i] * inverse))
