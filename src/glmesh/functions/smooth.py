"""Smooth f(v): losses of the feature split, conjugates of the penalties of the sample split."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit, logit, xlogy

from glmesh.errors import InvalidInput
from glmesh.functions.entropy import logistic_root
from glmesh.functions.separable import Table, check_rows
from glmesh.types import Matrix, Vector

_OUTSIDE = 1e-13  # a mean of thousands of gradients may leave the domain of f* by so much, relatively, from rounding


def weighted_sum(weights: Vector, values: Vector) -> float:
    """Their inner product: not by BLAS, whose threads cost more than they bring, and whose bits depend on them."""
    return float(np.einsum("i,i->", weights, values))


def inner(a: Matrix, b: Matrix) -> Matrix:
    """<a_i, b_j>, without BLAS: its threads would wait for cores that others use, and change the bits."""
    return np.asarray(np.einsum("in,jn->ij", a, b, optimize=False))


class Smooth(ABC):
    """A convex f whose gradient is 1/tau-Lipschitz."""

    tau: float
    is_quadratic = False
    has_smooth_curvature = False  # whether the Hessian is continuous, and not constant
    bends = False  # whether its majorant is less than 1/tau anywhere
    has_quadratic_conjugate = False

    @abstractmethod
    def value(self, v: Vector) -> float:
        """f(v)."""

    @abstractmethod
    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """The gradient at v, written into `out` if given."""

    @abstractmethod
    def curvature(self, v: Vector) -> Vector:
        """The diagonal of the Hessian at v (an element of its generalised Jacobian at kinks)."""

    def bend(self, v: Vector, steps: Matrix) -> Matrix:
        """The second derivatives of f at v along these steps: steps Hessian steps^T."""
        return inner(steps * self.curvature(v), steps)

    def settle(self, v: Vector, near: float) -> tuple[Vector, float]:
        """(a point where f has the same value, slope and curvature and is quicker to evaluate, how far away it is).

        near: how far that was at a point nearby.
        """
        return v, 0.0

    def majorant(self, v: Vector) -> Vector:
        """m with f(u) <= f(v) + <grad f(v), u - v> + 1/2 sum_j m_j (u_j - v_j)^2 for every u; m tau is in [0, 1]."""
        return np.full(len(v), 1.0 / self.tau)

    @abstractmethod
    def prox(self, v: Vector, step: float) -> Vector:
        """argmin_p f(p) + |p - v|^2 / (2 step)."""

    @abstractmethod
    def conjugate(self, w: Vector) -> float:
        """f*(w) = sup_v <w, v> - f(v)."""

    @abstractmethod
    def conjugate_subgradient(self, w: Vector) -> Vector:
        """A v whose gradient is w, that is, an element of the subdifferential of f* at w."""

    @property
    def support_bound(self) -> Vector:
        """A bound of |w_i| on the domain of f* (infinite where there is none)."""
        return np.full((), np.inf)

    def conjugate_ray(self, w: Vector) -> tuple[float, float, float]:
        """(c0, c1, c2) with f*(s w) <= c0 + c1 s + c2 s^2 for 0 <= s <= 1 (by convexity between 0 and w)."""
        at_zero = self.conjugate(np.zeros_like(w))
        return (at_zero, self.conjugate(w) - at_zero, 0.0) if np.isfinite(at_zero) else (np.inf, 0.0, 0.0)


class _RowLoss(Smooth):
    """sum_i c_i loss(y_i, v_i): a target and a weight for every row."""

    _LARGEST_SECOND_DERIVATIVE: float
    _LABELS = False  # whether the targets are labels, -1 or 1

    def __init__(self, target: Vector, weight: Vector | None = None) -> None:
        self.y = np.ascontiguousarray(target, dtype=np.float64)
        self.c = np.ones_like(self.y) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
        check_rows(self.y, self.c, labels=self._LABELS)
        heaviest = float(self.c.max(initial=0.0))
        self._all_weigh = bool((self.c > 0).all())
        self.tau = 1.0 / (self._LARGEST_SECOND_DERIVATIVE * heaviest) if heaviest > 0 else 1.0

    def majorant(self, v: Vector) -> Vector:
        """c times the largest second derivative: none is smaller for the squared loss and the squared hinge."""
        return self._LARGEST_SECOND_DERIVATIVE * self.c

    def _per_weight(self, w: Vector) -> Vector:
        """w / c; for rows without weight 0 if w is 0, else infinity with its sign."""
        if self._all_weigh:
            return w / self.c
        return np.divide(w, self.c, out=np.where(w == 0, 0.0, np.copysign(np.inf, w)), where=self.c > 0)


class Squared(_RowLoss):
    """sum_i c_i/2 (v_i - y_i)^2."""

    is_quadratic = True
    has_quadratic_conjugate = True
    _LARGEST_SECOND_DERIVATIVE = 1.0

    def value(self, v: Vector) -> float:
        """c/2 (v - y)^2."""
        r = v - self.y
        return 0.5 * weighted_sum(self.c * r, r)

    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """c (v - y)."""
        out = np.subtract(v, self.y, out=out)
        out *= self.c
        return out

    def curvature(self, v: Vector) -> Vector:
        """c."""
        return self.c

    def prox(self, v: Vector, step: float) -> Vector:
        """(v + step c y) / (1 + step c)."""
        return (v + step * self.c * self.y) / (1.0 + step * self.c)

    def conjugate(self, w: Vector) -> float:
        """w^2/(2c) + w y."""
        return weighted_sum(0.5 * self._per_weight(w) + self.y, w)

    def conjugate_subgradient(self, w: Vector) -> Vector:
        """w/c + y."""
        return self._per_weight(w) + self.y

    def conjugate_ray(self, w: Vector) -> tuple[float, float, float]:
        """Exactly s <w, y> + s^2 |w|^2/(2c)."""
        return 0.0, weighted_sum(w, self.y), 0.5 * weighted_sum(self._per_weight(w), w)


class Logistic(_RowLoss):
    """sum_i c_i log(1 + exp(-y_i v_i)), y_i = -1 or 1."""

    bends = has_smooth_curvature = True
    _LARGEST_SECOND_DERIVATIVE = 0.25
    _LABELS = True

    def value(self, v: Vector) -> float:
        """c log(1 + exp(-y v))."""
        return weighted_sum(self.c, np.logaddexp(0.0, -self.y * v))

    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """-c y expit(-y v)."""
        out = np.multiply(v, -self.y, out=out)
        expit(out, out=out)
        out *= -self.y
        out *= self.c
        return out

    def curvature(self, v: Vector) -> Vector:
        """c expit(v) expit(-v)."""
        return np.asarray(self.c * expit(v) * expit(-v))  # not p (1 - p), which is 0 from v = 37 on

    def majorant(self, v: Vector) -> Vector:
        """c tanh(v/2) / (2 v), which is c/4 at zero (Jaakkola and Jordan)."""
        z = np.maximum(np.abs(v), 1e-8)
        return self.c * np.minimum(0.5 * np.tanh(0.5 * z) / z, 0.25)

    def prox(self, v: Vector, step: float) -> Vector:
        """-y t, where t + step c expit(t) = -y v."""
        return -self.y * logistic_root(step * self.c, -self.y * v)

    def _probability(self, w: Vector) -> tuple[Vector, bool]:
        p = self._per_weight(-self.y * w)
        return np.clip(p, 0.0, 1.0), bool(((p >= -_OUTSIDE) & (p <= 1.0 + _OUTSIDE)).all())

    def conjugate(self, w: Vector) -> float:
        """c [p ln p + (1-p) ln(1-p)], p = -y w / c in [0, 1]."""
        p, inside = self._probability(w)
        return weighted_sum(self.c, xlogy(p, p) + xlogy(1.0 - p, 1.0 - p)) if inside else np.inf

    def conjugate_subgradient(self, w: Vector) -> Vector:
        """-y logit(p), and 0 for rows without weight."""
        return np.where(self.c > 0, -self.y * logit(self._probability(w)[0]), 0.0)

    @property
    def support_bound(self) -> Vector:
        """c."""
        return self.c


class Huber(_RowLoss):
    """sum_i c_i h(v_i - y_i), h(r) = r^2/2 for |r| <= delta, else delta |r| - delta^2/2."""

    has_quadratic_conjugate = True
    bends = True
    _LARGEST_SECOND_DERIVATIVE = 1.0

    def __init__(self, target: Vector, weight: Vector | None = None, *, delta: float = 1.35) -> None:
        super().__init__(target, weight)
        if not 0 < delta < np.inf:
            raise InvalidInput(f"Huber needs a finite delta > 0, got {delta}")
        self.delta = delta

    def value(self, v: Vector) -> float:
        """c h(v - y)."""
        r = np.abs(v - self.y)
        inner = np.minimum(r, self.delta)
        return weighted_sum(self.c, inner * (r - 0.5 * inner))

    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """c clip(v - y, -delta, delta)."""
        out = np.subtract(v, self.y, out=out)
        np.clip(out, -self.delta, self.delta, out=out)
        out *= self.c
        return out

    def curvature(self, v: Vector) -> Vector:
        """c where |v - y| <= delta."""
        return np.where(np.abs(v - self.y) <= self.delta, self.c, 0.0)

    def majorant(self, v: Vector) -> Vector:
        """c min(1, delta / |v - y|)."""
        return self.c * (self.delta / np.maximum(np.abs(v - self.y), self.delta))

    def prox(self, v: Vector, step: float) -> Vector:
        """v - step c clip((v - y) / (1 + step c), -delta, delta)."""
        reach = step * self.c
        return v - reach * np.clip((v - self.y) / (1.0 + reach), -self.delta, self.delta)

    def conjugate(self, w: Vector) -> float:
        """w^2/(2c) + w y, on |w| <= c delta."""
        if (np.abs(w) > self.c * self.delta * (1 + _OUTSIDE)).any():
            return np.inf
        return weighted_sum(0.5 * self._per_weight(w) + self.y, w)

    def conjugate_subgradient(self, w: Vector) -> Vector:
        """w/c + y."""
        return self._per_weight(w) + self.y

    @property
    def support_bound(self) -> Vector:
        """c delta."""
        return self.c * self.delta

    def conjugate_ray(self, w: Vector) -> tuple[float, float, float]:
        """Exactly s <w, y> + s^2 |w|^2/(2c): the domain contains the ray."""
        return 0.0, weighted_sum(w, self.y), 0.5 * weighted_sum(self._per_weight(w), w)


class SquaredHinge(_RowLoss):
    """sum_i c_i max(0, 1 - y_i v_i)^2, y_i = -1 or 1."""

    has_quadratic_conjugate = True
    _LARGEST_SECOND_DERIVATIVE = 2.0
    _LABELS = True

    def value(self, v: Vector) -> float:
        """c max(0, 1 - y v)^2."""
        r = np.maximum(1.0 - self.y * v, 0.0)
        return weighted_sum(self.c * r, r)

    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """-2 c y max(0, 1 - y v)."""
        out = np.multiply(v, self.y, out=out)
        np.subtract(1.0, out, out=out)
        np.maximum(out, 0.0, out=out)
        out *= -2.0 * self.c * self.y
        return out

    def curvature(self, v: Vector) -> Vector:
        """2 c where y v < 1."""
        return np.where(self.y * v < 1.0, 2.0 * self.c, 0.0)

    def prox(self, v: Vector, step: float) -> Vector:
        """y (m + 2 step c)/(1 + 2 step c) for m = y v < 1, else v."""
        reach = 2.0 * step * self.c
        m = self.y * v
        return self.y * np.where(m < 1.0, (m + reach) / (1.0 + reach), m)

    def conjugate(self, w: Vector) -> float:
        """y w + w^2/(4c), on y w <= 0."""
        if (self.y * w > 0).any():
            return np.inf
        return weighted_sum(self.y + 0.25 * self._per_weight(w), w)

    def conjugate_subgradient(self, w: Vector) -> Vector:
        """y + w/(2c)."""
        return self.y + 0.5 * self._per_weight(w)

    def conjugate_ray(self, w: Vector) -> tuple[float, float, float]:
        """Exactly s <w, y> + s^2 |w|^2/(4c): the domain contains the ray."""
        return 0.0, weighted_sum(w, self.y), 0.25 * weighted_sum(self._per_weight(w), w)


class ConjugateOf(Smooth):
    """r*(v) = sup_w <v, w> - r(w) for a table r with l2 > 0: f of the sample split, tau = min l2.

    For r = l2/2 |w|^2 it is |v|^2/(2 l2); for the elastic net |soft(v, l1)|^2/(2 l2). f* is r itself.
    """

    def __init__(self, penalty: Table) -> None:
        if not penalty.strong_convexity > 0:
            raise InvalidInput("the conjugate of a penalty is smooth only if every column has l2 > 0")
        self.penalty = penalty
        self.tau = penalty.strong_convexity if np.isfinite(penalty.strong_convexity) else 1.0  # no column can move
        self.is_quadratic = not penalty.l1.any() and bool(np.isinf(penalty.lo).all() and np.isinf(penalty.hi).all())

    def value(self, v: Vector) -> float:
        """<v, w> - r(w) at w = gradient(v)."""
        return self.penalty.conjugate(v)

    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """clip(soft(v - linear, l1) / l2, lo, hi)."""
        if self.is_quadratic:
            shifted = v - self.penalty.linear if self.penalty.linear.any() else v
            return np.divide(shifted, self.penalty.l2, out=out)
        w = self.penalty.conjugate_subgradient(v)
        if out is None:
            return w
        out[:] = w
        return out

    def curvature(self, v: Vector) -> Vector:
        """1/l2 where the gradient moves with v."""
        return self.penalty.conjugate_curvature(v)

    def response(self, v: Vector, w: Vector) -> Vector:
        """The gradient at v."""
        return self.gradient(v)

    def quadratic(self, size: int) -> tuple[Vector, Vector]:
        """(l2, linear) of r, for as many coefficients, where that is all that there is of r."""
        return np.broadcast_to(self.penalty.l2, size), np.broadcast_to(self.penalty.linear, size)

    def majorant(self, v: Vector) -> Vector:
        """1/l2 or less, and 0 where lo = hi."""
        return self.penalty.conjugate_majorant(v)

    def prox(self, v: Vector, step: float) -> Vector:
        """v - step prox_{r/step}(v/step) (Moreau)."""
        return v - step * self.penalty.prox(v / step, 1.0 / step)

    def conjugate(self, w: Vector) -> float:
        """r(w)."""
        inside = np.clip(w, self.penalty.lo, self.penalty.hi)
        return self.penalty.value(np.where(np.abs(w - inside) <= _OUTSIDE * np.abs(w), inside, w))

    def conjugate_subgradient(self, w: Vector) -> Vector:
        """l2 w + linear + l1 sign(w)."""
        p = self.penalty
        return p.l2 * w + p.linear + p.l1 * np.sign(w)

    @property
    def support_bound(self) -> Vector:
        """max(|lo|, |hi|)."""
        return self.penalty.support_bound
