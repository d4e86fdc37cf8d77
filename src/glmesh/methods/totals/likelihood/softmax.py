"""Multinomial likelihood: C linear predictors of a row, one for each class.

Coefficients are (w_0, b_0, w_1, b_1, ..., w_{C-1}, b_{C-1}), d = C (p + 1). The loss is flat along a common shift of
all classes in a column, or in the intercept: `outputs` says what holds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from glmesh.functions.softmax import Softmax
from glmesh.methods.totals.likelihood.rows import gram
from glmesh.methods.totals.likelihood.terms import Derivatives, Likelihood
from glmesh.types import Matrix, SampleMatrix, Vector

ENTRIES = 2**20  # numbers that a product with some rows makes at a time, because 8 MB stay in a cache
EPSILON = 2.0**-52  # relative error of a product and a sum, because each is rounded by 2^-53
FAREST = 30.0  # [linear predictor] of a start where no row has a class


@dataclass(frozen=True, eq=False)
class SoftmaxLikelihood(Likelihood):
    """Sum over a node's rows of weight times the multinomial loss at the C predictors x.w_c + b_c."""

    loss: Softmax
    X: SampleMatrix  # (m, p)
    y: Vector  # (m,) class numbers
    weight: Vector  # (m,)
    kept: list[tuple[Vector, Matrix, Matrix]] = field(
        default_factory=list, repr=False
    )  # what `_certainties` found last

    @property
    def d(self) -> int:
        """Return the number of coefficients, C (p + 1)."""
        return self.loss.n_classes * self._width

    @property
    def _width(self) -> int:
        """Return the number of coefficients of one class, p + 1."""
        return int(self.X.shape[1]) + 1

    def _chunks(self, width: int) -> list[slice]:
        """Return slices that cover the rows, of so many that `width` numbers for each fit into a cache."""
        m, step = int(self.X.shape[0]), max(ENTRIES // width, 64)
        return [slice(at, at + step) for at in range(0, m, step)]

    def _times(self, rows: slice, columns: Matrix) -> Matrix:
        """Return some rows of (X, 1) times a matrix of shape (p + 1, n), shape (m', n)."""
        return np.asarray(self.X[rows] @ columns[:-1] + columns[-1])

    def predictors(self, point: Vector) -> Matrix:
        """Return the linear predictors of all rows and classes at a point, shape (m, C)."""
        return self._times(slice(None), np.ascontiguousarray(point.reshape(self.loss.n_classes, -1).T))

    def values(self, points: Matrix) -> Vector:
        """Return the sum of the losses at n points, shape (n, d), as an array of shape (n,)."""
        C, out = self.loss.n_classes, np.zeros(len(points))
        columns = np.ascontiguousarray(points.reshape(-1, self._width).T)
        for rows in self._chunks(columns.shape[1]):
            with np.errstate(over="ignore", invalid="ignore"):  # of points that are far away
                z = self._times(rows, columns)
            losses = self.loss.losses(np.repeat(self.y[rows], len(points)), z.reshape(-1, C)).reshape(len(z), -1)
            for k, each in enumerate(losses.T):
                out[k] += self._weighed(each, rows).sum()
        return out

    def _weighed(self, values: Vector, rows: slice = slice(None)) -> Vector:
        """Return `values`, one for each of some rows, times the rows' weights; 0 where the weight is 0."""
        weight = self.weight[rows]
        return np.multiply(values, weight, out=np.zeros(len(values)), where=weight > 0)

    def _slopes(self, point: Vector) -> Matrix:
        """Return the derivatives of each row's weighted loss by its C predictors at a point, shape (m, C)."""
        return self.weight[:, None] * self.loss.slopes_at(self.y, *self._certainties(point))

    def _certainties(self, point: Vector) -> tuple[Matrix, Matrix]:
        """Return the probabilities P of all classes and 1 - P at a point, each of shape (m, C); the last are kept."""
        if not self.kept or not np.array_equal(self.kept[0][0], point):
            self.kept[:] = [(point.copy(), *self.loss.probabilities(self.predictors(point)))]
        return self.kept[0][1:]

    def derivatives(self, point: Vector) -> Derivatives:
        """Return gradient and Hessian of the sum of the losses at a point, shape (d,)."""
        slopes = self._slopes(point)
        gradient = np.vstack([np.asarray(self.X.T @ slopes), slopes.sum(axis=0)])
        return Derivatives(np.ascontiguousarray(gradient.T).ravel(), self.information(point))

    def information(self, point: Vector) -> Matrix:
        """Return the Hessian at a point, shape (d, d), which no target changes: the observed one is the expected one.

        Block (a, b) is the sum of -weight P_a P_b (x, 1)(x, 1)' for a != b, and of weight P_a (1 - P_a) (x, 1)(x, 1)'
        on the diagonal. Every block is a sum of terms of one sign, so nothing cancels where a class is almost certain.
        """
        P, opposite = self._certainties(point)
        return self._sparse_hessian(P, opposite) if sp.issparse(self.X) else self._dense_hessian(P, opposite)

    def _dense_hessian(self, P: Matrix, opposite: Matrix) -> Matrix:
        """Return the Hessian, shape (d, d), from the probabilities P and 1 - P, shape (m, C), for dense rows."""
        C, n = self.loss.n_classes, self._width
        out, diagonal = np.empty((0, 0)), np.zeros((C, n, n))
        roots, own = np.sqrt(self.weight)[:, None] * P, np.sqrt(self.weight[:, None] * P * opposite)
        for rows in self._chunks(self.d):
            X = np.column_stack([self.X[rows], np.ones(len(P[rows]))])
            all_classes = (roots[rows, :, None] * X[:, None, :]).reshape(len(X), self.d)
            product = all_classes.T @ all_classes
            out = product if not out.size else np.add(out, product, out=out)
            for a in range(C):
                one = own[rows, a, None] * X
                diagonal[a] += one.T @ one
        out = np.negative(out, out=out) if out.size else np.zeros((self.d, self.d))
        for a in range(C):
            out[a * n : (a + 1) * n, a * n : (a + 1) * n] = diagonal[a]
        return out

    def _sparse_hessian(self, P: Matrix, opposite: Matrix) -> Matrix:
        """Return the Hessian, shape (d, d), from the probabilities P and 1 - P, shape (m, C), for sparse rows."""
        C, n = self.loss.n_classes, self._width
        out = np.empty((C, n, C, n))
        for a in range(C):
            for b in range(a, C):
                bends = self.weight * P[:, a] * (opposite[:, a] if a == b else P[:, b])
                block = gram(self.X, bends)
                out[a, :, b] = out[b, :, a] = block if a == b else -block
        return out.reshape(self.d, self.d)

    def row_curvatures(self, point: Vector) -> Matrix:
        """Return the weight >= 0 of each row in each block of the Hessian, shape (C (C + 1) / 2, m).

        They are weight P_a (1 - P_a) for each class, and weight P_a P_b for each pair of classes.
        """
        P, opposite = self._certainties(point)
        a, b = np.triu_indices(self.loss.n_classes, 1)
        return np.asarray((self.weight[:, None] * np.hstack([P * opposite, P[:, a] * P[:, b]])).T)

    def scores(self, point: Vector) -> Matrix:
        """Return each row's gradient of its weighted loss at a point, shape (m, d)."""
        rows = self.X.toarray() if sp.issparse(self.X) else self.X
        X = np.column_stack([rows, np.ones(len(self.y))])
        return np.asarray((self._slopes(point)[:, :, None] * X[:, None, :]).reshape(len(X), self.d))

    def concordances(self, point: Vector, inverse: Matrix, length: float) -> Vector:
        """Return R_i for each row, shape (m,), from L^-1, shape (d, d), H = L L^T; rows of weight 0 have 0.

        Along p a row's predictors move at speeds u_c = (x, 1).p_c. The second derivative of its loss is the variance of
        u under the probabilities P of the classes, the third is its third central moment, at most the largest
        difference of two speeds times the variance. With t_c = L^-1 (e_c (x) (x, 1)) and p'Hp = 1, u_a - u_b = (t_a -
        t_b).(L^T p) <= |t_a - t_b|, for all P: at every distance of the point. R_i is the sum of the two largest
        |t_c - mean of all t|, which is at least every |t_a - t_b|, and at most 2 (C - 1)/C times the largest of them,
        because t_a less the mean of the others is C/(C - 1) times t_a less the mean of all. |t_c - mean| is the length
        of a triangular matrix of p + 1 rows, which `reduced` makes, times (x, 1): a row costs C (p + 1)^2 products, its
        Hessian more.
        """
        C = self.loss.n_classes
        columns = inverse if len(inverse) == self._width else self.reduced(inverse)
        squares = np.empty((len(self.y), C))
        for rows in self._chunks(columns.shape[1]):
            moved = self._times(rows, columns)
            moved *= moved
            squares[rows] = moved.reshape(len(moved), C, -1).sum(axis=2)
        largest = np.sqrt(np.partition(squares, C - 2, axis=1)[:, C - 2 :]).sum(axis=1)
        return np.where(self.weight > 0, largest, 0.0)

    def reduced(self, inverse: Matrix) -> Matrix:
        """Return C triangular matrices side by side, shape (p + 1, C (p + 1)), one per class c.

        (x, 1) times that of class c is as long as t_c less the mean of all t, the vectors that `concordances` has for a
        row x. `inverse` has L^-1, L L^T the Hessian of the objective.
        """
        C, n = self.loss.n_classes, self._width
        factors = inverse[inverse.any(axis=1)].reshape(-1, C, n)
        centred = factors - factors.mean(axis=1, keepdims=True)
        out = np.zeros((n, C, n))
        for c in range(C):
            found = np.asarray(np.linalg.qr(centred[:, c], mode="r"))
            out[:, c, : len(found)] = found.T
        return out.reshape(n, C * n)

    def noise(self, point: Vector, scale: Vector) -> float:
        """Return by how much rounding may move an entry of the gradient at a point, divided by `scale`, shape (d,).

        Divided columns have norms of at most one. A predictor is a sum of products whose sizes add up to at most the
        product of two norms, and errors of sums add up like a random walk; errors of all predictors of a row move a
        probability P by at most 2 P (1 - P) times the largest of them.
        """
        C = self.loss.n_classes
        P, opposite = self._certainties(point)
        sizes = (scale * point).reshape(C, -1)
        divisors = scale.reshape(C, -1).min(axis=0) ** -2.0
        squares = self.X.power(2) if sp.issparse(self.X) else np.asarray(self.X) ** 2
        norms = np.sqrt(np.asarray(squares @ divisors[:-1]) + divisors[-1])
        errors = np.sqrt(self._width) * np.sqrt((sizes**2).sum(axis=1).max()) * norms
        moved = 2.0 * self.weight[:, None] * P * opposite * errors[:, None]
        slopes = self._slopes(point)
        return float(EPSILON * np.sqrt((slopes**2 + moved**2).sum(axis=0).max()))

    def beginnings(self, point: Vector) -> Vector:
        """Return the sum of the weights of each class, shape (C,)."""
        return np.asarray(np.bincount(self.y.astype(np.int64), self.weight, minlength=self.loss.n_classes), np.float64)

    def has_null(self, sums: Vector) -> bool:
        """Return whether all classes have rows, so that no intercept goes on for ever where nothing else is free."""
        return bool((sums > 0).all())

    def begin(self, point: Vector, sums: Vector) -> Vector:
        """Return `point` with the intercepts of the null model, log(weight of the class / weight of the first)."""
        out = point.copy().reshape(self.loss.n_classes, -1)
        with np.errstate(divide="ignore"):
            logs = np.clip(np.log(sums / sums.sum()), -FAREST, 0.0)
        out[:, -1] = logs - logs[0]
        return out.ravel()
