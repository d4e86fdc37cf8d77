"""Losses of the feature split as smooth functions f(v) of the predictions v, one term for every row of A."""

import numpy as np
from scipy.special import expit, logit, xlogy

from glmesh.errors import InvalidInput
from glmesh.functions.entropy import logistic_root
from glmesh.functions.separable import check_rows
from glmesh.functions.smooth import OUTSIDE, Smooth, weighted_sum
from glmesh.kernels.shift import HUBER, LOGISTIC, SQUARED_HINGE, ShiftedLosses, best_shift
from glmesh.types import Vector


class RowLoss(Smooth):
    """Base of every f(v) = sum_i c_i loss(y_i, v_i): a target y_i and a weight c_i for every row i of the data matrix.

    v, shape (d,), are predictions of d rows. Subclasses say the largest second derivative of the loss in the
    prediction.
    """

    _LARGEST_SECOND_DERIVATIVE: float  # of loss(y, z) in z
    _LABELS = False  # whether the targets are labels, -1 or 1
    _SHIFT_KIND: int  # the loss as `glmesh.kernels.shift` numbers it
    delta = 0.0  # where Huber's loss turns from a square to a line; no other loss has it

    def __init__(self, target: Vector, weight: Vector | None = None) -> None:
        self.y = np.ascontiguousarray(target, dtype=np.float64)
        self.c = np.ones_like(self.y) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
        check_rows(self.y, self.c, labels=self._LABELS)
        heaviest = float(self.c.max(initial=0.0))
        self._all_weigh = bool((self.c > 0).all())
        self.tau = 1.0 / (self._LARGEST_SECOND_DERIVATIVE * heaviest) if heaviest > 0 else 1.0

    def majorant(self, v: Vector) -> Vector:
        """Return the second derivatives of a quadratic upper bound of f, shape (d,), equal for all v.

        They are the weights c of the d rows of data times the largest second derivative of the loss. No smaller ones
        bound the squared loss and the squared hinge.
        """
        return self._LARGEST_SECOND_DERIVATIVE * self.c

    def best_offset(self, direction: Vector, v: Vector, near: float) -> float:
        """Return the b, a float, that minimises f(v + b e) for predictions v and e = `direction`, each (d,).

        `near` is the guess of b to start from.
        """
        v = np.ascontiguousarray(v)
        return float(best_shift(ShiftedLosses(self._SHIFT_KIND, self.delta, self.y, self.c, direction, v), near))

    def _per_weight(self, w: Vector) -> Vector:
        """Return w / c, shape (d,), where c are the weights >= 0 of the d rows of data.

        Where c = 0 the entry is 0 if w is 0, else infinity with the sign of w.
        """
        if self._all_weigh:
            return w / self.c
        return np.divide(w, self.c, out=np.where(w == 0, 0.0, np.copysign(np.inf, w)), where=self.c > 0)


class Squared(RowLoss):
    """f(v) = sum_i c_i/2 (v_i - y_i)^2.

    Parameters
    ----------
    target : array of shape (d,)
        Targets y.
    weight : array of shape (d,), optional
        Weights c_i >= 0; None: 1.
    """

    is_quadratic = True
    has_quadratic_conjugate = True
    _LARGEST_SECOND_DERIVATIVE = 1.0

    def best_offset(self, direction: Vector, v: Vector, near: float) -> float:
        """Return the b, a float, that minimises f(v + b e), e = `direction`; the weighted mean of y - v if e is ones.

        v are predictions and y targets of d rows, shape (d,); `near` is unused. Return 0 if all weights are zero. It is
        made without BLAS, so with equal bits on any number of threads.
        """
        weight = float((self.c * direction * direction).sum())
        return float((self.c * direction * (self.y - v)).sum()) / weight if weight > 0 else 0.0

    def value(self, v: Vector) -> float:
        """Return f(v) = sum_i c_i/2 (v_i - y_i)^2.

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,).
        """
        r = v - self.y
        return 0.5 * weighted_sum(self.c * r, r)

    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient c (v - y) of f at v, shape (d,), written into `out` if given.

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,).
        """
        out = np.subtract(v, self.y, out=out)
        out *= self.c
        return out

    def curvature(self, v: Vector) -> Vector:
        """Return the diagonal of the Hessian, shape (d,), for every v the weights c >= 0 of the d rows of data."""
        return self.c

    def prox(self, v: Vector, step: float) -> Vector:
        """Return argmin_p f(p) + norm(p - v)^2 / (2 step), shape (d,): (v + step c y) / (1 + step c).

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,).
        """
        return (v + step * self.c * self.y) / (1.0 + step * self.c)

    def conjugate(self, w: Vector) -> float:
        """Return f*(w) = sum_i w_i^2/(2 c_i) + w_i y_i.

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,). f* is the conjugate of f.
        """
        return weighted_sum(0.5 * self._per_weight(w) + self.y, w)

    def conjugate_subgradient(self, w: Vector) -> Vector:
        """Return the gradient w/c + y of f* at w, shape (d,).

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,). f* is the conjugate of f.
        """
        return self._per_weight(w) + self.y

    def conjugate_ray(self, w: Vector) -> tuple[float, float, float]:
        """Return floats (c0, c1, c2) with f*(s w) = c0 + c1 s + c2 s^2 for every s: (0, <w, y>, sum_i w_i^2/(2 c_i)).

        f* is the conjugate of f(v) = sum_i c_i/2 (v_i - y_i)^2; y are the targets of d rows of data, and c their
        weights >= 0, each of shape (d,).
        """
        return 0.0, weighted_sum(w, self.y), 0.5 * weighted_sum(self._per_weight(w), w)


class Logistic(RowLoss):
    """f(v) = sum_i c_i log(1 + exp(-y_i v_i)), y_i = -1 or 1.

    Parameters
    ----------
    target : array of shape (d,)
        Labels y.
    weight : array of shape (d,), optional
        Weights c_i >= 0; None: 1.
    """

    bends = has_smooth_curvature = True
    _SHIFT_KIND = LOGISTIC
    _LARGEST_SECOND_DERIVATIVE = 0.25
    _LABELS = True

    def value(self, v: Vector) -> float:
        """Return f(v) = sum_i c_i log(1 + exp(-y_i v_i)).

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0, each of shape (d,).
        """
        return weighted_sum(self.c, np.logaddexp(0.0, -self.y * v))

    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient -c y expit(-y v) of f at v, shape (d,), written into `out` if given.

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0, each of shape (d,).
        """
        out = np.multiply(v, -self.y, out=out)
        expit(out, out=out)
        out *= -self.y
        out *= self.c
        return out

    def curvature(self, v: Vector) -> Vector:
        """Return the diagonal c expit(v) expit(-v) of the Hessian at v, shape (d,).

        c are the weights >= 0 of d rows of data, shape (d,).
        """
        return np.asarray(self.c * expit(v) * expit(-v))  # not p (1 - p), which is 0 from v = 37 on

    def majorant(self, v: Vector) -> Vector:
        """Return the curvatures c tanh(v/2) / (2 v), c/4 at zero, of a quadratic upper bound of f at v, shape (d,).

        The bound is Jaakkola and Jordan's.

        c are the weights >= 0 of d rows of data, shape (d,).
        """
        z = np.maximum(np.abs(v), 1e-8)
        return self.c * np.minimum(0.5 * np.tanh(0.5 * z) / z, 0.25)

    def prox(self, v: Vector, step: float) -> Vector:
        """Return argmin_p f(p) + norm(p - v)^2 / (2 step), shape (d,): -y t, where t + step c expit(t) = -y v.

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0, each of shape (d,).
        """
        return -self.y * logistic_root(step * self.c, -self.y * v)

    def _probability(self, w: Vector) -> tuple[Vector, bool]:
        """Return p = -y w / c clipped to [0, 1], shape (d,), and a bool: whether all were inside, but for rounding.

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0.
        """
        p = self._per_weight(-self.y * w)
        return np.clip(p, 0.0, 1.0), bool(((p >= -OUTSIDE) & (p <= 1.0 + OUTSIDE)).all())

    def conjugate(self, w: Vector) -> float:
        """Return f*(w) = sum_i c_i [p ln p + (1-p) ln(1-p)] with p = -y w / c; infinite if a p is outside [0, 1].

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0, each of shape (d,). f* is the conjugate
        of f.
        """
        p, inside = self._probability(w)
        return weighted_sum(self.c, xlogy(p, p) + xlogy(1.0 - p, 1.0 - p)) if inside else np.inf

    def conjugate_subgradient(self, w: Vector) -> Vector:
        """Return the gradient -y logit(p) of f* at w, shape (d,), with p = -y w / c; 0 for rows without weight.

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0, each of shape (d,). f* is the conjugate
        of f.
        """
        return np.where(self.c > 0, -self.y * logit(self._probability(w)[0]), 0.0)

    @property
    def support_bound(self) -> Vector:
        """Upper bounds c_i of abs(w_i) where the conjugate f*(w) is finite, (d,): the weights >= 0 of d rows."""
        return self.c


class Huber(RowLoss):
    """f(v) = sum_i c_i h(v_i - y_i), h(r) = r^2/2 for abs(r) <= delta, else delta abs(r) - delta^2/2.

    Parameters
    ----------
    target : array of shape (d,)
        Targets y.
    weight : array of shape (d,), optional
        Weights c_i >= 0; None: 1.
    delta : float, default 1.35
        Error from which the loss is linear, > 0.
    """

    has_quadratic_conjugate = True
    bends = True
    _SHIFT_KIND = HUBER
    _LARGEST_SECOND_DERIVATIVE = 1.0

    def __init__(self, target: Vector, weight: Vector | None = None, *, delta: float = 1.35) -> None:
        super().__init__(target, weight)
        if not 0 < delta < np.inf:
            raise InvalidInput(f"Huber needs a finite delta > 0, got {delta}")
        self.delta = delta

    def value(self, v: Vector) -> float:
        """Return f(v) = sum_i c_i h(v_i - y_i).

        h is Huber's function: r^2/2 for abs(r) <= delta, else delta abs(r) - delta^2/2.

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,).
        """
        r = np.abs(v - self.y)
        inner = np.minimum(r, self.delta)
        return weighted_sum(self.c, inner * (r - 0.5 * inner))

    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient c clip(v - y, -delta, delta) of f at v, shape (d,), written into `out` if given.

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,). delta is the error from which
        Huber's loss is linear.
        """
        out = np.subtract(v, self.y, out=out)
        np.clip(out, -self.delta, self.delta, out=out)
        out *= self.c
        return out

    def curvature(self, v: Vector) -> Vector:
        """Return the diagonal of the Hessian at v, shape (d,): c where abs(v - y) <= delta, else 0.

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,). delta is the error from which
        Huber's loss is linear.
        """
        return np.where(np.abs(v - self.y) <= self.delta, self.c, 0.0)

    def majorant(self, v: Vector) -> Vector:
        """Return the curvatures of a quadratic upper bound of f at v, shape (d,): c min(1, delta / abs(v - y)).

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,). delta is the error from which
        Huber's loss is linear.
        """
        return self.c * (self.delta / np.maximum(np.abs(v - self.y), self.delta))

    def prox(self, v: Vector, step: float) -> Vector:
        """Return argmin_p f(p) + norm(p - v)^2 / (2 step), shape (d,).

        The minimiser is v - step c clip((v - y) / (1 + step c), -delta, delta).

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,). delta is the error from which
        Huber's loss is linear.
        """
        scale = step * self.c
        return v - scale * np.clip((v - self.y) / (1.0 + scale), -self.delta, self.delta)

    def conjugate(self, w: Vector) -> float:
        """Return f*(w) = sum_i w_i^2/(2 c_i) + w_i y_i; infinite unless abs(w_i) <= c_i delta for all i.

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,). f* is the conjugate of f.
        delta is the error from which Huber's loss is linear.
        """
        if (np.abs(w) > self.c * self.delta * (1 + OUTSIDE)).any():
            return np.inf
        return weighted_sum(0.5 * self._per_weight(w) + self.y, w)

    def conjugate_subgradient(self, w: Vector) -> Vector:
        """Return the gradient w/c + y of f* at w, shape (d,).

        y are the targets of d rows of data, and c their weights >= 0, each of shape (d,). f* is the conjugate of f.
        """
        return self._per_weight(w) + self.y

    @property
    def support_bound(self) -> Vector:
        """Upper bounds c_i delta of abs(w_i) where the conjugate f*(w) is finite, shape (d,).

        c are the weights >= 0 of d rows of data; Huber's loss is linear for errors beyond `delta`.
        """
        return self.c * self.delta

    def conjugate_ray(self, w: Vector) -> tuple[float, float, float]:
        """Return floats (c0, c1, c2), (0, <w, y>, sum_i w_i^2/(2 c_i)), with f*(s w) = c0 + c1 s + c2 s^2, 0 <= s <= 1.

        f* is the conjugate of the weighted Huber losses; y are the targets of d rows of data, and c their weights >= 0,
        each of shape (d,); w is in the domain of f*.
        """
        return 0.0, weighted_sum(w, self.y), 0.5 * weighted_sum(self._per_weight(w), w)


class SquaredHinge(RowLoss):
    """f(v) = sum_i c_i max(0, 1 - y_i v_i)^2, y_i = -1 or 1.

    Parameters
    ----------
    target : array of shape (d,)
        Labels y.
    weight : array of shape (d,), optional
        Weights c_i >= 0; None: 1.
    """

    has_quadratic_conjugate = True
    _SHIFT_KIND = SQUARED_HINGE
    _LARGEST_SECOND_DERIVATIVE = 2.0
    _LABELS = True

    def value(self, v: Vector) -> float:
        """Return f(v) = sum_i c_i max(0, 1 - y_i v_i)^2.

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0, each of shape (d,).
        """
        r = np.maximum(1.0 - self.y * v, 0.0)
        return weighted_sum(self.c * r, r)

    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient -2 c y max(0, 1 - y v) of f at v, shape (d,), written into `out` if given.

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0, each of shape (d,).
        """
        out = np.multiply(v, self.y, out=out)
        np.subtract(1.0, out, out=out)
        np.maximum(out, 0.0, out=out)
        out *= -2.0 * self.c * self.y
        return out

    def curvature(self, v: Vector) -> Vector:
        """Return the diagonal of the Hessian at v, shape (d,): 2 c where y v < 1, else 0.

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0, each of shape (d,).
        """
        return np.where(self.y * v < 1.0, 2.0 * self.c, 0.0)

    def prox(self, v: Vector, step: float) -> Vector:
        """Return argmin_p f(p) + norm(p - v)^2 / (2 step), shape (d,).

        The minimiser is y (m + 2 step c)/(1 + 2 step c) where m = y v < 1, else v.

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0, each of shape (d,).
        """
        scale = 2.0 * step * self.c
        m = self.y * v
        return self.y * np.where(m < 1.0, (m + scale) / (1.0 + scale), m)

    def conjugate(self, w: Vector) -> float:
        """Return f*(w) = sum_i y_i w_i + w_i^2/(4 c_i); infinite unless y_i w_i <= 0 for all i.

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0, each of shape (d,). f* is the conjugate
        of f.
        """
        if (self.y * w > 0).any():
            return np.inf
        return weighted_sum(self.y + 0.25 * self._per_weight(w), w)

    def conjugate_subgradient(self, w: Vector) -> Vector:
        """Return the gradient y + w/(2c) of f* at w, shape (d,).

        y are the labels, -1 or 1, of d rows of data, and c their weights >= 0, each of shape (d,). f* is the conjugate
        of f.
        """
        return self.y + 0.5 * self._per_weight(w)

    def conjugate_ray(self, w: Vector) -> tuple[float, float, float]:
        """Return floats (c0, c1, c2), (0, <w, y>, sum_i w_i^2/(4 c_i)), with f*(s w) = c0 + c1 s + c2 s^2, 0 <= s <= 1.

        f* is the conjugate of the weighted squared hinges; y are the labels, -1 or 1, of d rows of data, and c their
        weights >= 0, each of shape (d,); w is in the domain of f*.
        """
        return 0.0, weighted_sum(w, self.y), 0.25 * weighted_sum(self._per_weight(w), w)
