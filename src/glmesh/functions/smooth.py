"""Smooth f(v): what every method asks of one, and sums that have the same bits on any number of threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from glmesh.types import Matrix, Vector

if TYPE_CHECKING:
    from glmesh.functions.intercept import Anchored

OUTSIDE = 1e-13  # relative distance from the domain of f* within which w counts as inside: means of gradients round


def weighted_sum(weights: Vector, values: Vector) -> float:
    """Return the inner product <weights, values> of two vectors of equal shape (n,), a float.

    It is made without BLAS, whose threads cost more than they bring and change the bits.
    """
    return float(np.einsum("i,i->", weights, values))


def inner(a: Matrix, b: Matrix) -> Matrix:
    """Return the inner products <a_i, b_j> of the rows of `a` and `b` as a matrix, shape (rows of a, rows of b).

    It is made without BLAS, whose threads would change the bits.
    """
    return np.asarray(np.einsum("in,jn->ij", a, b, optimize=False))


class Smooth(ABC):
    """Base of every smooth f(v): convex, with a gradient that is Lipschitz with the constant 1/tau.

    Attributes
    ----------
    tau : float
        Smoothness, > 0.
    is_quadratic : bool
        Whether the Hessian is constant.
    has_smooth_curvature : bool
        Whether the Hessian is continuous, and not constant.
    bends : bool
        Whether `majorant` is less than 1/tau anywhere.
    has_quadratic_conjugate : bool
        Whether `conjugate_ray` is exact.
    """

    tau: float
    is_quadratic = False
    has_smooth_curvature = False
    bends = False
    has_quadratic_conjugate = False

    @abstractmethod
    def value(self, v: Vector) -> float:
        """Return f(v), a float, a sum over the entries of v, shape (d,)."""

    @abstractmethod
    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient of f at v, shape (d,), written into `out` if given."""

    @abstractmethod
    def curvature(self, v: Vector) -> Vector:
        """Return the diagonal of f's Hessian at v, shape (d,).

        At a kink of the gradient, a value from one of its sides.
        """

    def value_with(self, v: Vector, intercept: float) -> float:
        """Return f(v), a float, for v of shape (d,); a function that holds an intercept adds `intercept` to v first."""
        return self.value(v)

    def join(self, coef: Vector, intercept: float) -> Vector:
        """Return the vector w, shape (d,), at which the conjugate f* is the penalty of these coefficients.

        Split by samples, w are the coefficients, shape (p,); a function that holds an intercept appends it.
        """
        return coef

    def penalty_of(self, coef: Vector) -> float:
        """Return the penalty of coefficients, shape (p,), where f* is a penalty: f*(coef), without an intercept."""
        return self.conjugate(coef)

    def bend(self, v: Vector, steps: Matrix) -> Matrix:
        """Return steps H steps^T, shape (n_steps, n_steps), where H is the Hessian of f at v, shape (d,).

        `steps` has shape (n_steps, d), a direction per row.
        """
        return inner(steps * self.curvature(v), steps)

    def shifted(self, v: Vector, near: float) -> tuple[Vector, float]:
        """Return (u, b): the best intercept b, a float, at the predictions v, and the predictions u with b, shape (d,).

        f has one value, slope and curvature at u and v, and is quicker to evaluate at u. Here the pair is (v, 0),
        because f has no intercept; `near` is a guess of b that subclasses start from.
        """
        return v, 0.0

    def as_anchored(self) -> Anchored | None:
        """Return f as an `Anchored`, which holds an intercept near an anchor; None, as here: f is none."""
        return None

    @property
    def free_direction(self) -> Vector | None:
        """What one more of an intercept that f minimises over adds to v, shape (d,); None, as here: f has none."""
        return None

    def offset(self, v: Vector, near: float = 0.0) -> float:
        """Return the intercept b, a float, that minimises the loss at predictions v + b; `near` is a guess of b.

        Return 0 if f has no intercept, as here.
        """
        return 0.0

    def split(self, w: Vector) -> tuple[Vector, float]:
        """Return (coefficients, intercept) from a gradient w of f, (d,), which is the model where nodes hold samples.

        Without an intercept, as here, that is (w, 0.0).
        """
        return w, 0.0

    def majorant(self, v: Vector) -> Vector:
        """Return the second derivatives m, shape (d,), of a quadratic upper bound of f at v: 0 <= m tau <= 1.

        f(u) <= f(v) + <grad f(v), u - v> + 1/2 sum_j m_j (u_j - v_j)^2 for every u; the gradient of f is
        1/tau-Lipschitz.
        """
        return np.full(len(v), 1.0 / self.tau)

    @abstractmethod
    def prox(self, v: Vector, step: float) -> Vector:
        """Return argmin_p f(p) + norm(p - v)^2 / (2 step), shape (d,), for a float step > 0."""

    @abstractmethod
    def conjugate(self, w: Vector) -> float:
        """Return the conjugate f*(w) = sup_v <w, v> - f(v), a float, infinite outside its domain; w has shape (d,)."""

    @abstractmethod
    def conjugate_subgradient(self, w: Vector) -> Vector:
        """Return a v, (d,), at which the gradient of f is w: an element of the subdifferential of f* at w.

        f* is the conjugate of f.
        """

    @property
    def support_bound(self) -> Vector:
        """Upper bounds of abs(w_i) where the conjugate f*(w) is finite, shape (d,) or ().

        Infinite where there is none.
        """
        return np.full((), np.inf)

    def conjugate_ray(self, w: Vector) -> tuple[float, float, float]:
        """Return floats (c0, c1, c2) with f*(s w) <= c0 + c1 s + c2 s^2 for 0 <= s <= 1, f* the conjugate of f.

        They follow from f*(0) and f*(w), w of shape (d,), because f* is convex.
        """
        at_zero = self.conjugate(np.zeros_like(w))
        return (at_zero, self.conjugate(w) - at_zero, 0.0) if np.isfinite(at_zero) else (np.inf, 0.0, 0.0)
