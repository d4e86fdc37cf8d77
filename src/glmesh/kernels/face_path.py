"""Minimisers of many functions that share one matrix, as along a path of penalties, each from the one before."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glmesh.kernels.faces import FaceScratch, PenalisedQuadratic, minimise
from glmesh.kernels.jit import ONE, ZERO, kernel
from glmesh.types import Matrix


class QuadraticFamily(NamedTuple):
    """The n functions b.(u - w) + (u - w).(H + diag(l2)) (u - w)/2 + sum_i l1_i abs(u_i) of d coordinates u in a box.

    Function a has row a of the matrices of shape (n, d) as its b, w, l1 and l2. H and the box are those of all.
    """

    H: Matrix  # (d, d), symmetric and positive semidefinite
    slopes: Matrix  # (n, d) b
    points: Matrix  # (n, d) w
    l1: Matrix  # (n, d)
    l2: Matrix  # (n, d)
    bounds: Matrix  # (2, d) least and largest allowed values of u
    n_free: np.uint64  # coordinates before this one have neither l1 nor bounds


class PathScratch(NamedTuple):
    """Uninitialised arrays for intermediate results of `minimise_each`, on d coordinates."""

    S: Matrix  # (d, d) H + diag(l2) of a function
    limits: Matrix  # (3, d) rows l1, lo and hi of a function
    one: FaceScratch  # for a function

    @staticmethod
    def of(d: int) -> PathScratch:
        """Return new arrays for functions of d coordinates."""
        return PathScratch(np.empty((d, d)), np.empty((3, d)), FaceScratch.of(d))


@kernel
def minimise_each(family, ahead, out, scratch):
    """Write the minimiser u of function a of a QuadraticFamily to row a of `out`, shape (n, d), for all n functions.

    With `ahead`, a bool, each function after the first starts from the minimiser of the one before it, else from its
    own point w. `scratch`, a PathScratch, is overwritten.
    """
    n, d = np.uint64(family.slopes.shape[0]), np.uint64(family.H.shape[0])
    S, limits = scratch.S, scratch.limits
    for i in range(d):
        limits[1, i], limits[2, i] = family.bounds[0, i], family.bounds[1, i]
    for a in range(n):
        w = family.points[a]
        for i in range(d):
            for j in range(d):
                S[i, j] = family.H[i, j]
            S[i, i] += family.l2[a, i]
            limits[0, i] = family.l1[a, i]
            out[a, i] = out[a - ONE, i] if ahead and a > ZERO else w[i]
        minimise(PenalisedQuadratic(S, family.slopes[a], limits, w, family.n_free), out[a], 0.0, scratch.one)
