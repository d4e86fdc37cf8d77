"""Conjugates of penalties: f of the sample split."""

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.functions.separable import Table
from glmesh.functions.smooth import OUTSIDE, Smooth
from glmesh.types import Vector


class ConjugateOf(Smooth):
    """Conjugate r*(v) = sup_w <v, w> - r(w) of a penalty r, a table with l2 > 0: f of the sample split, tau = min l2.

    For r = l2/2 w^2 it is v^2/(2 l2); for the elastic net soft(v, l1)^2/(2 l2). f* is r itself.

    Parameters
    ----------
    penalty : Table
        r; every column has l2 > 0.
    """

    def __init__(self, penalty: Table) -> None:
        if not penalty.strong_convexity > 0:
            raise InvalidInput("the conjugate of a penalty is smooth only if every column has l2 > 0")
        self.penalty = penalty
        self.tau = penalty.strong_convexity if np.isfinite(penalty.strong_convexity) else 1.0  # no column can move
        self.is_quadratic = not penalty.l1.any() and bool(np.isinf(penalty.lo).all() and np.isinf(penalty.hi).all())

    def value(self, v: Vector) -> float:
        """Return f(v) = <v, w> - r(w) at w = gradient(v), a float: the conjugate r* of the penalty r; v is (d,)."""
        return self.penalty.conjugate(v)

    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient of f at v, shape (d,), into `out` if given: clip(soft(v - linear, l1) / l2, lo, hi).

        f is the conjugate of a penalty l1 abs(w) + l2/2 w^2 + linear w on [lo, hi], each of them a number or shape
        (d,); soft(z, t) = sign(z) max(abs(z) - t, 0).
        """
        if self.is_quadratic:
            shifted = v - self.penalty.linear if self.penalty.linear.any() else v
            return np.divide(shifted, self.penalty.l2, out=out)
        w = self.penalty.conjugate_subgradient(v)
        if out is None:
            return w
        out[:] = w
        return out

    def curvature(self, v: Vector) -> Vector:
        """Return the second derivatives of f at v, shape (d,): 1/l2 where the gradient moves with v, else 0.

        f is the conjugate of a penalty l1 abs(w) + l2/2 w^2 + linear w on [lo, hi].
        """
        return self.penalty.conjugate_curvature(v)

    def majorant(self, v: Vector) -> Vector:
        """Return second derivatives of a quadratic upper bound of f at v, (d,): at most 1/l2, and 0 where lo = hi.

        f is the conjugate of a penalty l1 abs(w) + l2/2 w^2 + linear w on [lo, hi].
        """
        return self.penalty.conjugate_majorant(v)

    def prox(self, v: Vector, step: float) -> Vector:
        """Return argmin_p f(p) + norm(p - v)^2 / (2 step), shape (d,), for a float step > 0.

        f is the conjugate of a penalty r, and the minimiser is v - step prox_{r/step}(v/step) (Moreau's identity).
        """
        return v - step * self.penalty.prox(v / step, 1.0 / step)

    def conjugate(self, w: Vector) -> float:
        """Return f*(w), a float: the penalty r(w) itself, since f is its conjugate.

        w has shape (d,); a w that is out of bounds by rounding alone counts as inside.
        """
        inside = np.clip(w, self.penalty.lo, self.penalty.hi)
        return self.penalty.value(np.where(np.abs(w - inside) <= OUTSIDE * np.abs(w), inside, w))

    def conjugate_subgradient(self, w: Vector) -> Vector:
        """Return a subgradient of f* at w, shape (d,): l2 w + linear + l1 sign(w).

        f* is the penalty l1 abs(w) + l2/2 w^2 + linear w on [lo, hi], of which f is the conjugate.
        """
        p = self.penalty
        return p.l2 * w + p.linear + p.l1 * np.sign(w)

    @property
    def support_bound(self) -> Vector:
        """Upper bounds of abs(w_i) where the penalty f*(w) is finite, shape (d,), or () if all are equal.

        They are max(abs(lo), abs(hi)) for the bounds lo <= w <= hi of the penalty; infinite without bounds. f* is the
        conjugate of f.
        """
        return self.penalty.support_bound
