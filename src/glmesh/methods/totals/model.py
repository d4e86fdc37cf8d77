"""The objective to second order around a point, from a total, and the step to the minimum of that model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.kernels.cholesky import eliminate, invert
from glmesh.kernels.gram import unpack_triangle
from glmesh.kernels.model import ModelScratch, model_step
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.types import Flags, Indices, Matrix, Vector


@dataclass(frozen=True)
class NewtonModel:
    """Value, gradient and Hessian of the loss at a point in d scaled coordinates, the intercept last.

    `value` includes the penalty, the derivatives do not.
    """

    point: Vector  # (d,)
    value: float  # loss, as soft as it is here, and penalty
    gradient: Vector  # (d,) of the loss
    columns: Indices  # (n,) coordinates of the Hessian, ascending
    hessian: Matrix  # (n, n) of the loss
    majorant: bool  # whether the Hessian is that of a quadratic upper bound
    softness: float = 1.0  # factor by which the curved piece of the loss is longer than it is


@dataclass(frozen=True)
class NewtonStep:
    """The step from a model's point to the minimum of model plus penalty, and what the model says of the step."""

    change: Vector  # (d,)
    decrement: float  # minus the slope of the objective along the step
    shrink: float  # factor that moves the dual point of the step into the domain of the penalty's conjugate
    residual: float  # largest slope that is left at smooth coordinates, in parts of what it is a difference of
    rough: Flags  # (d,) where the slope of the loss is at an end of what the penalty bears, but for rounding


def from_triangle(entries: Vector, n: int) -> Matrix:
    """Return the symmetric matrix, shape (n, n), whose upper triangle, row by row, is `entries`."""
    out = np.empty((n, n))
    unpack_triangle(np.ascontiguousarray(entries), out)
    return out


def minimum(penalty: ScaledPenalty, model: NewtonModel, bend: Matrix, noise: float, enough: float = 0.0) -> NewtonStep:
    """Return the step e to the minimum of gradient.e + e.bend e/2 + penalty(point + e) over the model's columns.

    `bend` is the matrix to take as Hessian, shape (n, n), on these n columns; other coordinates stay. `noise` is by how
    much an entry of the gradient may be wrong, `enough` the part of the gain that is not worth another search of signs.
    """
    columns, n = model.columns, len(model.columns)
    if not n:
        return NewtonStep(np.zeros_like(model.point), 0.0, 1.0, 0.0, np.zeros(len(model.point), dtype=bool))
    own, numbers, e, pulls = penalty.on(columns), np.empty(2), np.empty(n), np.empty(n)
    at = model.point[columns], model.gradient[columns]
    model_step(np.ascontiguousarray(bend), own.rows, own.order, at, enough, (e, pulls, numbers), ModelScratch.of(n))
    change = np.zeros_like(model.point)
    change[columns] = e
    decrement, residual = numbers.tolist()
    if penalty.everywhere:
        return NewtonStep(change, decrement, 1.0, residual, np.zeros(len(change), dtype=bool))
    everywhere = np.zeros_like(model.point)
    everywhere[columns] = pulls
    rough = penalty.unsure(everywhere, noise)
    everywhere = np.where(rough, penalty.nearest(everywhere), everywhere)
    limit = penalty.margins.ray_limit(-everywhere[~penalty.free], np.zeros(()))
    return NewtonStep(change, decrement, float(np.clip(limit, 0.0, 1.0)), residual, rough)


def dependent(bend: Matrix, order: Indices) -> Flags:
    """Return a mask of shape (n,): coordinates that, taken in this order, have no curvature beside those before.

    `bend` is a Hessian, shape (n, n).
    """
    n = len(bend)
    L = np.ascontiguousarray(bend[np.ix_(order, order)])
    eliminate(L, np.uint64(n), _noise(n) * np.diag(L), np.empty((8, n)))
    return np.asarray(np.diag(L) <= 0)


def _noise(n: int) -> float:
    """Return the fraction of a diagonal entry of a Hessian of n coordinates below which a pivot is rounding alone."""
    return float((64.0 + 4.0 * n) * 2.0**-52)


@dataclass(frozen=True, eq=False)
class Factored:
    """A positive semidefinite matrix H = L L^T on n coordinates, and the directions in which it is flat.

    A coordinate that has no curvature of its own beside those before it is dropped.
    """

    inverse: Matrix  # (n, n) L^-1, zero in the rows of coordinates without curvature of their own
    dropped: Indices  # (r,) those coordinates
    flat: Matrix  # (r, n) for each of them a vector v with v.H v = 0, but for rounding
    error: float  # relative error of norms, because pivots are differences

    @staticmethod
    def of(H: Matrix) -> Factored:
        """Return the factored form of the symmetric, positive semidefinite matrix H, shape (n, n)."""
        n = len(H)
        L, inverse = H.copy(), np.empty((n, n))
        eliminate(L, np.uint64(n), _noise(n) * np.diag(H), np.empty((8, n)))
        invert(L, inverse)
        dropped = np.flatnonzero(np.diag(L) == 0.0)
        flat = inverse[dropped]
        inverse[dropped] = 0.0
        ratios = np.diag(H) * (inverse**2).sum(axis=0)  # 1 for a column that is orthogonal to the others
        return Factored(inverse, dropped, flat, _noise(n) * float(ratios.max(initial=0.0)))

    @property
    def deviations(self) -> Vector:
        """Return the square roots of the diagonal of H^-1, shape (n,), where H is this matrix."""
        return np.asarray(np.sqrt((self.inverse**2).sum(axis=0)))

    def consistent(self, values: Vector) -> Vector:
        """Return n values c, shape (n,), changed so that they are 0 along every direction in which the matrix is flat.

        Only the values of dropped coordinates, which have no curvature of their own, are changed.
        """
        out = values.copy()
        out[self.dropped] = 0.0
        out[self.dropped] = -(self.flat @ out) / self.flat[np.arange(len(self.dropped)), self.dropped]
        return out

    def norm(self, r: Vector) -> float:
        """Return an upper bound, rounding included, of sqrt(r.H^-1 r) for r of shape (n,), where H is this matrix."""
        return (1.0 + self.error) * float(np.sqrt(((self.inverse * r).sum(axis=1) ** 2).sum()))

    def solve(self, r: Vector) -> Vector:
        """Return H^-1 r, shape (n,), where H is this matrix; zeros at the coordinates that were dropped."""
        return np.asarray((self.inverse * (self.inverse * r).sum(axis=1)[:, None]).sum(axis=0))
