"""Gossip averaging and extrapolation of the rows that nodes hold."""

import numpy as np

from glmesh.kernels.jit import ONE, ZERO, kernel

_CHUNK = np.uint64(2048)  # [numbers] 16 KiB of the output stay in the first-level cache while neighbours stream by


@kernel
def mix(pointers, neighbours, weights, rows, out):
    """Write out_k = sum_l W_kl rows_l for every node k, where l runs over k and its neighbours in ascending order.

    The entries pointers[k]..pointers[k + 1] - 1 of `neighbours` (the l) and `weights` (the W_kl) belong to node k.
    `rows` and `out` have a row of equal length d per node.
    """
    width = np.uint64(rows.shape[1])
    for k in range(np.uint64(pointers.size) - ONE):
        target = out[k]
        for begin in range(ZERO, width, _CHUNK):
            end = min(begin + _CHUNK, width)
            for j in range(begin, end):
                target[j] = 0.0
            for e in range(pointers[k], pointers[k + ONE]):
                weight = weights[e]
                source = rows[neighbours[e]]
                for j in range(begin, end):
                    target[j] += weight * source[j]


@kernel
def extrapolate(rows, before, theta):
    """Overwrite before_k with rows_k + theta_k (rows_k - before_k) for every node k, in place.

    `rows` (vectors of n nodes now) and `before` (one round earlier) have shape (n, d), `theta` shape (n,).
    """
    width = np.uint64(rows.shape[1])
    for k in range(np.uint64(rows.shape[0])):
        new, old, push = rows[k], before[k], theta[k]
        for j in range(width):
            old[j] = new[j] + push * (new[j] - old[j])
