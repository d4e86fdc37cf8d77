"""One gossip step, and the extrapolation before it."""

import numpy as np
from numba import njit

from glmesh.kernels.columns import ONE

_CHUNK = np.uint64(2048)  # 16 KiB of the output stay in the first-level cache while neighbours stream by


@njit(nogil=True, cache=True)
def mix(pointers, neighbours, weights, rows, out):
    """out_k = sum_l W_kl rows_l, neighbours (and k itself) in ascending order of their ids."""
    width = np.uint64(rows.shape[1])
    for k in range(np.uint64(pointers.size) - ONE):
        target = out[k]
        for begin in range(np.uint64(0), width, _CHUNK):
            end = min(begin + _CHUNK, width)
            for j in range(begin, end):
                target[j] = 0.0
            for e in range(pointers[k], pointers[k + ONE]):
                weight = weights[e]
                source = rows[neighbours[e]]
                for j in range(begin, end):
                    target[j] += weight * source[j]


@njit(nogil=True, cache=True)
def extrapolate(rows, before, theta):
    """before_k = rows_k + theta_k (rows_k - before_k)."""
    width = np.uint64(rows.shape[1])
    for k in range(np.uint64(rows.shape[0])):
        new, old, push = rows[k], before[k], theta[k]
        for j in range(width):
            old[j] = new[j] + push * (new[j] - old[j])
