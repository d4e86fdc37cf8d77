"""Minimisers of many models that share one matrix, as along a path of penalties, each from the one before."""

import numpy as np

from glmesh.kernels.faces import minimise
from glmesh.kernels.jit import ONE, ZERO, kernel


@kernel
def minimise_each(H, slopes, points, l1, l2, bounds, n_free, ahead, out, space, panel, work, face, limits):
    """Write to row k of `out` the minimiser w + e of b.e + e.(H + diag(l2)) e/2 + sum_i l1_i abs(w_i + e_i) in a box.

    `slopes` (b), `points` (w), `l1`, `l2` and `out` have shape (n, d), a row for each of n models with d coordinates; H
    has shape (d, d), `bounds` (2, d) the least and largest allowed values of w + e. The first `n_free` coordinates have
    neither l1 nor bounds. With `ahead` each model after the first starts from the minimiser before it, else from its
    own point. `space`, shape (3, d, d), `panel` (8, d), `work` (7, d), `face` (d,) and `limits` (3, d) are scratch and
    overwritten.
    """
    n, d = np.uint64(slopes.shape[0]), np.uint64(H.shape[0])
    S = space[ZERO]
    for i in range(d):
        limits[1, i], limits[2, i] = bounds[0, i], bounds[1, i]
    for a in range(n):
        for i in range(d):
            for j in range(d):
                S[i, j] = H[i, j]
            S[i, i] += l2[a, i]
            limits[0, i] = l1[a, i]
            out[a, i] = out[a - ONE, i] if ahead and a > ZERO else points[a, i]
        minimise(S, slopes[a], limits, points[a], out[a], n_free, 0.0, space[1], space[2], panel, work, face)
