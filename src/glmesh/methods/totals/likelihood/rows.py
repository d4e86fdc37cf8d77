"""Likelihood of rows whose losses are functions of one linear predictor each: the families."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from glmesh.functions.family import Family
from glmesh.methods.totals.likelihood.terms import Derivatives, Likelihood
from glmesh.types import Matrix, SampleMatrix, Vector

CHUNK = 4096  # [rows] that are weighed at once, so that a product with dense rows needs little memory
EPSILON = 2.0**-52  # relative error of a product and a sum, because each is rounded by 2^-53
FAREST = 30.0  # [linear predictor] of a start where the mean of all targets is at the edge of what the family has


@dataclass(frozen=True, eq=False)
class RowLikelihood(Likelihood):
    """Sum over a node's rows of weight times the loss of a family at x.w + b; coefficients are (w, b)."""

    has_leverages = True

    family: Family
    X: SampleMatrix  # (m, p)
    y: Vector  # (m,)
    weight: Vector  # (m,)
    kept: tuple[Vector, Vector] | None = None  # (scale, norms of the rows) of the last call of `noise`

    @property
    def d(self) -> int:
        """Return the number of coefficients, p + 1 with the intercept last."""
        return int(self.X.shape[1]) + 1

    def predictors(self, points: Matrix) -> Matrix:
        """Return the linear predictors x_i.w + b of all rows at n points, shape (n, d), as an array (n, m)."""
        columns = np.ascontiguousarray(points[:, :-1].T)
        return np.ascontiguousarray((np.asarray(self.X @ columns) + points[:, -1]).T)

    def values(self, points: Matrix) -> Vector:
        """Return the sum of the losses at n points, shape (n, d), as an array of shape (n,).

        It is infinite where a row of positive weight is outside of the link's domain.
        """
        return np.array([self._weighed(self.family.losses(self.y, z)).sum() for z in self.predictors(points)])

    def _weighed(self, values: Vector) -> Vector:
        """Return `values`, one for each row, times the rows' weights; 0 for rows of weight 0, whatever their value."""
        return np.multiply(values, self.weight, out=np.zeros(len(values)), where=self.weight > 0)

    def derivatives(self, point: Vector) -> Derivatives:
        """Return gradient and observed Hessian of the sum of the losses at a point, shape (d,)."""
        z = self.predictors(point[None])[0]
        slopes = self._weighed(self.family.slopes(self.y, z))
        bends = self._weighed(self.family.curvatures(self.y, z))
        return Derivatives(np.append(self.X.T @ slopes, slopes.sum()), gram(self.X, bends))

    def information(self, point: Vector) -> Matrix:
        """Return the expected Hessian at a point, shape (d, d), with dispersion 1."""
        return gram(self.X, self._weighed(self.family.information(self.predictors(point[None])[0])))

    def row_curvatures(self, point: Vector) -> Matrix:
        """Return the weight >= 0 of each row in the observed Hessian and in the expected one, shape (2, m)."""
        z = self.predictors(point[None])[0]
        with np.errstate(all="ignore"):  # of rows outside of the link's domain, which add nothing, and of far points
            both = self.weight * np.stack([np.abs(self.family.curvatures(self.y, z)), self.family.information(z)])
        return np.where(self.weight > 0, np.nan_to_num(both, nan=0.0), 0.0)

    def scores(self, point: Vector) -> Matrix:
        """Return each row's gradient of its weighted loss at a point, shape (m, d)."""
        slopes = self._weighed(self.family.slopes(self.y, self.predictors(point[None])[0]))
        rows = self.X.toarray() if sp.issparse(self.X) else self.X
        return np.column_stack([rows * slopes[:, None], slopes])

    def lengths(self, inverse: Matrix) -> Vector:
        """Return sqrt(x_i'H^-1 x_i) of each row, shape (m,), where H = L L^T and `inverse` is L^-1, shape (d, d)."""
        out = np.empty(len(self.y))
        factor = np.ascontiguousarray(inverse.T)
        for a in range(0, len(out), CHUNK):
            part = np.asarray(self.X[a : a + CHUNK] @ factor[:-1]) + factor[-1]
            out[a : a + CHUNK] = np.sqrt(np.einsum("ij,ij->i", part, part))
        return out

    def concordances(self, point: Vector, inverse: Matrix, length: float) -> Vector:
        """Return `Family.bends` of each row times sqrt(x_i'H^-1 x_i), shape (m,), within `length` of a point.

        Rows of weight 0 have 0.
        """
        lengths, z = self.lengths(inverse), self.predictors(point[None])[0]
        bends = self.family.bends(self.y, z, lengths * length)
        return np.multiply(bends, lengths, out=np.zeros(len(z)), where=(self.weight > 0) & (lengths > 0))

    def noise(self, point: Vector, scale: Vector) -> float:
        """Return by how much rounding may move an entry of the gradient at a point, divided by `scale`, shape (d,).

        Divided columns have norms of at most one. A predictor is a sum of products whose sizes add up to at most the
        product of two norms, and errors of sums add up like a random walk.
        """
        z = self.predictors(point[None])[0]
        slopes = self._weighed(self.family.slopes(self.y, z))
        bends = self._weighed(self.family.curvatures(self.y, z))
        errors = np.sqrt(self.d) * np.sqrt(((point * scale) ** 2).sum()) * self._norms(scale)
        return float(EPSILON * np.sqrt((slopes**2).sum() + ((bends * errors) ** 2).sum()))

    def _norms(self, scale: Vector) -> Vector:
        """Return the norm of each row, with a 1 behind it, after division by `scale`; shape (m,). It is kept."""
        if self.kept is None or self.kept[0] is not scale:
            squares = self.X.power(2) if sp.issparse(self.X) else np.asarray(self.X) ** 2
            norms = np.sqrt(np.asarray(squares @ scale[:-1] ** -2.0) + scale[-1] ** -2.0)
            object.__setattr__(self, "kept", (scale, norms))
        assert self.kept is not None
        return self.kept[1]

    def spread(self, point: Vector) -> Vector:
        """Return (Pearson's X2 = sum w (y - mu)^2 / V(mu), rows of positive weight) at a point, shape (2,)."""
        mu = self.family.mean(self.predictors(point[None])[0])
        squares = self._weighed((self.y - mu) ** 2 / self.family.variance(mu))
        return np.array([squares.sum(), np.count_nonzero(self.weight)])

    def leverages(self, point: Vector, inverse: Matrix) -> Vector:
        """Return the diagonal of the hat matrix, v_i x_i'H^-1 x_i, v_i the weight times observed curvature, shape (m,).

        `inverse`, shape (d, d), is a C' with C C' = H^-1. These are the leverages of statsmodels'
        `GLMResults.get_hat_matrix_diag` and, for squares, of its OLS and WLS; R's `hatvalues` has the expected
        curvatures instead, which differ if the link is not canonical.
        """
        curvatures = self.family.curvatures(self.y, self.predictors(point[None])[0])
        out: Vector = self.weight * np.where(self.weight > 0, curvatures, 0.0) * self.lengths(inverse) ** 2
        return out

    def moments(self, point: Vector) -> dict[str, Vector]:
        """Return {"targets": (sum of w y, of w y^2), "pearson": (X^2, number of rows where it is not finite)}."""
        family, used = self.family, self.weight > 0
        y, weight = self.y[used], self.weight[used]
        mu = family.mean(self.predictors(point[None])[0][used])
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            squares = (y - mu) ** 2 / family.variance(mu)
        return {"targets": np.array([weight @ y, weight @ y**2]), "pearson": _finite_sum(weight * squares)}

    @property
    def has_two_hessians(self) -> bool:
        """Return whether the expected Hessian differs from the observed one: the link is not canonical."""
        return not self.family.canonical

    def log_likelihood(self, point: Vector, dispersion: float) -> Vector:
        """Return (sum of the rows' log-likelihoods that are finite, number of the others), shape (2,).

        Constants are included; `dispersion` is phi. Rows of weight 0 do not count.
        """
        z, used = self.predictors(point[None])[0], self.weight > 0
        return _finite_sum(self.family.log_likelihoods(self.y[used], z[used], self.weight[used], dispersion))

    def shape_derivatives(self, point: Vector) -> list[Vector]:
        """Return what each row adds to P_t, P_tt and the slope of P_t in its linear predictor, each of shape (m,)."""
        each = self.family.shape_derivatives(self.y, self.predictors(point[None])[0])
        return [np.where(self.weight > 0, self.weight * one, 0.0) for one in each]

    def shape_sums(self, point: Vector, scale: Vector) -> Vector:
        """Return sums of P_t, P_tt and, divided by `scale`, P_wt of minus the log-likelihood P, shape (2 + d,).

        t is the logarithm of the family's shape and w are the coefficients; what is not finite is 0.
        """
        first, second, cross = self.shape_derivatives(point)
        fields = np.concatenate([[first.sum(), second.sum()], np.append(self.X.T @ cross, cross.sum()) / scale])
        return np.where(np.isfinite(fields), fields, 0.0)

    def beginnings(self, point: Vector) -> Vector:
        """Return the sums of weights, of weighted targets, and of weighted means at a point, shape (3,).

        The last is 0 where a row has no mean there.
        """
        with np.errstate(over="ignore", divide="ignore"):
            means = self._weighed(self.family.mean(self.predictors(point[None])[0]))
        sums = np.array([self.weight.sum(), self.weight @ self.y, means.sum()])
        return np.where(np.isfinite(sums), sums, 0.0)

    def begin(self, point: Vector, sums: Vector) -> Vector:
        """Return `point` with the intercept that moves the mean of all rows to the mean of all targets, shape (d,).

        It is exact without an offset, and with a log link; `sums` are those of `beginnings` over all nodes.
        """
        out = point.copy()
        mean, there = sums[1:] / sums[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            aim, now = self.family.predictor(np.array([mean, there]))
        out[-1] = np.clip(np.nan_to_num(aim, nan=0.0) - (now if np.isfinite(now) else 0.0), -FAREST, FAREST)
        return out


def _finite_sum(values: Vector) -> Vector:
    """Return [sum of the finite values, number of the others], because totals are of finite numbers."""
    finite = np.isfinite(values)
    return np.array([values[finite].sum(), float((~finite).sum())])


def gram(X: SampleMatrix, h: Vector) -> Matrix:
    """Return X^T diag(h) X with a column of ones behind those of X, shape (p + 1, p + 1); h may be negative."""
    p = int(X.shape[1])
    out = np.empty((p + 1, p + 1))
    if sp.issparse(X):
        weighted = X.multiply(h[:, None]).tocsr()
        out[:-1, :-1] = (X.T @ weighted).toarray()
        out[-1, :-1] = np.asarray(weighted.sum(axis=0)).ravel()
    else:
        out[:-1, :-1] = 0.0
        for a in range(0, len(h), CHUNK):
            part = X[a : a + CHUNK]
            out[:-1, :-1] += part.T @ (h[a : a + CHUNK, None] * part)
        out[-1, :-1] = h @ X
    out[:-1, -1] = out[-1, :-1]
    out[-1, -1] = h.sum()
    return out
