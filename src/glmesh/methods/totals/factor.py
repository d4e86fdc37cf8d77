"""Cholesky factor of a symmetric matrix, scaled to a unit diagonal."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from glmesh.types import Matrix, Vector

REFINEMENTS = 2  # of each solution, by its residual, because the second brings it to the last digits
# [unit diagonal] that is added until a matrix is positive definite, because rounding may have broken it
RIDGES = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)


class CholeskyFactor:
    """Cholesky factor of a symmetric, positive semidefinite matrix, shape (d, d), which is kept.

    A ridge (a small multiple of the unit diagonal) is added if rounding asks for it; LinAlgError is raised if none
    helps.
    """

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        diagonal = np.diagonal(self.matrix)
        self.scale = np.divide(1.0, np.sqrt(diagonal), out=np.ones(len(matrix)), where=diagonal > 0)
        scaled = self.scale[:, None] * self.matrix * self.scale
        at = np.arange(len(matrix))
        for ridge in RIDGES:
            scaled[at, at] = np.where(diagonal > 0, 1.0, 0.0) + ridge + (diagonal <= 0)
            self._factor, pivot = lapack.dpotrf(scaled, clean=False)
            if pivot == 0 and np.isfinite(np.diagonal(self._factor)).all():
                self.ridge = ridge
                return
        raise np.linalg.LinAlgError(f"not positive definite with a ridge of {RIDGES[-1]}")

    def solve(self, right: Vector) -> Vector:
        """Return the solution x of matrix x = right, in the shape of `right`, (d,) or (d, r), refined by residuals."""
        x = self._once(right)
        for _ in range(REFINEMENTS):
            x = x + self._once(right - self.matrix @ x)
        return x

    def _once(self, right: Vector) -> Vector:
        """Return the solution x of matrix x = right, in the shape of `right`, without refinement."""
        scale = self.scale if right.ndim == 1 else self.scale[:, None]
        solution, _ = lapack.dpotrs(self._factor, scale * right)
        return np.asarray(scale * (solution if right.ndim > 1 else solution.ravel()))
