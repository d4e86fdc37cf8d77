"""f with an intercept that is not penalised: profiled out (split by features) or anchored (split by samples)."""

from __future__ import annotations

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.functions.conjugate import ConjugateOf
from glmesh.functions.row_losses import RowLoss
from glmesh.functions.separable import Table
from glmesh.functions.smooth import Smooth, inner
from glmesh.types import Matrix, Vector


class Anchored(ConjugateOf):
    """Conjugate of r(w) + l2/2 (c - anchor/scale)^2, with the intercept b = scale c as one more coefficient.

    Split by samples a free intercept has the dual constraint sum x = 0, which is no smooth f. So it is held near an
    anchor that moves to where b went, again and again (the proximal point method); the pull of the anchor is then zero.
    l2 is the least of r, so that tau is that of r.

    Parameters
    ----------
    penalty : Table
        r, of the coefficients without the intercept.
    size : int
        Number of coefficients without the intercept.
    scale : float
        Entry of every sample in the intercept's row of A.
    anchor : float
        Value near which b is held.
    """

    def __init__(self, penalty: Table, size: int, scale: float, anchor: float) -> None:
        l2 = penalty.strong_convexity if np.isfinite(penalty.strong_convexity) else 1.0
        held = Table(l2=np.asarray(l2), linear=np.asarray(-l2 * anchor / scale))
        super().__init__(penalty.join([penalty, held], [size, 1]))
        self.free = ConjugateOf(penalty)  # without intercept
        self.l2, self.scale, self.anchor = l2, scale, anchor

    def as_anchored(self) -> Anchored:
        """Return this function, which holds an intercept near an anchor."""
        return self

    def split(self, w: Vector) -> tuple[Vector, float]:
        """Return (coefficients w[:-1], intercept b) of a vector w, shape (d,), whose last entry is b / scale."""
        return w[:-1], self.scale * float(w[-1])

    def join(self, coef: Vector, intercept: float) -> Vector:
        """Return the vector w, shape (d,), that `split` takes apart: the coefficients and, last, intercept / scale."""
        return np.append(coef, intercept / self.scale)

    def penalty_of(self, coef: Vector) -> float:
        """Return the penalty r of coefficients, shape (p,), a float; the anchor of the intercept adds nothing."""
        return self.free.conjugate(coef)

    def conjugate(self, w: Vector) -> float:
        """Return f*(w) = r(w[:-1]) + l2/2 (c - anchor/scale)^2, a float, for w of shape (d,).

        r is the penalty of the coefficients w[:-1], c = w[-1] the intercept divided by `scale`; l2 > 0 is the least
        factor of half the squares in r. f* is the conjugate of f.
        """
        return self.free.conjugate(w[:-1]) + self.pull(w)

    def value(self, v: Vector) -> float:
        """Return f(v) = r*(v[:-1]) + b^2/(2 l2) + b anchor/scale with b = v[-1], a float, for v of shape (d,).

        r* is the conjugate of the penalty r of the coefficients; l2 > 0 is the least factor of half the squares in r.
        """
        b = float(v[-1])
        return self.free.value(v[:-1]) + b * b / (2.0 * self.l2) + b * self.anchor / self.scale

    def pull(self, w: Vector) -> float:
        """Return l2/2 (c - anchor/scale)^2, a float: what holding the intercept near its anchor adds to the objective.

        c is the last entry of w, shape (d,), the intercept divided by `scale`.
        """
        return 0.5 * self.l2 * float(w[-1] - self.anchor / self.scale) ** 2


class Profiled(Smooth):
    """Smooth function F(v) = min_b f(v + b e): the loss f with an unpenalised intercept b along the direction e.

    Partial minimisation keeps convexity and the smoothness of f, its gradient is that of f at the best b, and its
    conjugate is f* on <e, w> = 0. So an intercept needs no column, no centring of the data and no bound.

    Parameters
    ----------
    f : RowLoss
        Loss of the rows: Squared, Logistic, Huber or SquaredHinge.
    direction : array of shape (d,)
        e; ones, or the square roots of the weights where these are in the rows of A.
    """

    def __init__(self, f: RowLoss, direction: Vector) -> None:
        self.f = f
        self.direction = np.ascontiguousarray(direction, dtype=np.float64)
        if self.direction.shape != f.y.shape or not np.isfinite(self.direction).all():
            raise InvalidInput("the direction must be finite and have one number per row of the loss")
        self.tau = f.tau
        self.is_quadratic, self.bends = f.is_quadratic, f.bends
        self.has_smooth_curvature = f.has_smooth_curvature
        self.has_quadratic_conjugate = f.has_quadratic_conjugate

    @property
    def free_direction(self) -> Vector | None:
        """Return e, shape (d,): ones, or the roots of sample weights."""
        return self.direction

    def offset(self, v: Vector, near: float = 0.0) -> float:
        """Return the intercept b that minimises f(v + b e), a root of <e, grad f(v + b e)>; `near` is a guess of b.

        f is the loss as a function of d predictions; e, shape (d,), is ones, or the roots of sample weights.
        """
        return self.f.best_offset(self.direction, v, near)

    def value_with(self, v: Vector, intercept: float) -> float:
        """Return f(v + b e), a float, with the intercept b; e, shape (d,), is ones, or the roots of sample weights."""
        return self.f.value(v + intercept * self.direction)

    def shifted(self, v: Vector, near: float) -> tuple[Vector, float]:
        """Return (v + b e, b) for the intercept b that minimises f(v + b e); `near` is a guess of b.

        f is the loss as a function of d predictions; e, shape (d,), is ones, or the roots of sample weights.
        """
        b = self.offset(v, near)
        return v + b * self.direction, b

    def value(self, v: Vector) -> float:
        """Return min_b f(v + b e).

        f is the loss as a function of d predictions; e, shape (d,), is ones, or the roots of sample weights.
        """
        return self.f.value(v + self.offset(v) * self.direction)

    def gradient(self, v: Vector, out: Vector | None = None) -> Vector:
        """Return the gradient of f at v + b e for the best intercept b, shape (d,); written into `out` if given.

        f is the loss as a function of d predictions; e, shape (d,), is ones, or the roots of sample weights.
        """
        return self.f.gradient(v + self.offset(v) * self.direction, out)

    def curvature(self, v: Vector) -> Vector:
        """Return the diagonal of f's Hessian at v + b e, shape (d,), for the best intercept b.

        That bounds the curvature of min_b f(v + b e) from above, since profiling only removes curvature.

        f is the loss as a function of d predictions; e, shape (d,), is ones, or the roots of sample weights.
        """
        return self.f.curvature(v + self.offset(v) * self.direction)

    def bend(self, v: Vector, steps: Matrix) -> Matrix:
        """Return steps (H - (H e)(H e)^T / <e, H e>) steps^T, shape (n_steps, n_steps), H the Hessian of f at v + b e.

        The matrix between is the Hessian of min_b f(v + b e); `steps` has shape (n_steps, d).

        f is the loss as a function of d predictions; e, shape (d,), is ones, or the roots of sample weights.
        """
        bends = self.f.curvature(v + self.offset(v) * self.direction)
        along, total = inner(steps * bends, self.direction[None]), float((bends * self.direction**2).sum())
        whole = inner(steps * bends, steps)
        return whole - inner(along, along) / total if total > 0 else whole

    def majorant(self, v: Vector) -> Vector:
        """Return the majorant of f at v + b e, shape (d,), which holds for min_b f(u + b e) as well.

        That minimum is below f(u + b e) at any b, and touches it at u = v.

        f is the loss as a function of d predictions; e, shape (d,), is ones, or the roots of sample weights.
        """
        return self.f.majorant(v + self.offset(v) * self.direction)

    def prox(self, v: Vector, step: float) -> Vector:
        """Return argmin_p F(p) + norm(p - v)^2 / (2 step), shape (d,), for F(p) = min_b f(p + b e).

        The minimiser is prox_f(v + b e) - b e, with b such that the prox moves nothing along e.

        f is the loss as a function of d predictions; e, shape (d,), is ones, or the roots of sample weights.
        """
        from scipy.optimize import brentq  # here: loading it takes longer than the rest of the package

        e = self.direction

        def push(b: float) -> float:  # along e, in units of step; decreasing in b
            """Return how far the proximal step moves v + b e along e, a float in multiples of `step`.

            It decreases in b. v are predictions and e, shape (d,), is the direction of the intercept b.
            """
            return -float((e * self.f.gradient(self.f.prox(v + b * e, step))).sum())

        low, high = -1.0, 1.0
        while push(low) < 0 and low > -1e15:
            low *= 4.0
        while push(high) > 0 and high < 1e15:
            high *= 4.0
        if push(low) <= 0:
            b = low
        elif push(high) >= 0:
            b = high
        else:
            b = brentq(push, low, high, xtol=1e-300, rtol=1e-15, maxiter=500, disp=False)
        return self.f.prox(v + b * e, step) - b * e

    def conjugate(self, w: Vector) -> float:
        """Return f*(w) if <e, w> = 0 up to the rounding error of a gradient, else infinity.

        f is the loss as a function of d predictions; e, shape (d,), is ones, or the roots of sample weights. f* is the
        conjugate of f.
        """
        along = np.dot(self.direction, w)
        rounding = 1e-9 * np.abs(w) + 1e-11 * self.f.c * (1.0 + np.abs(self.f.y))
        return self.f.conjugate(w) if abs(along) <= np.dot(np.abs(self.direction), rounding) else np.inf

    def conjugate_subgradient(self, w: Vector) -> Vector:
        """Return an element of the subdifferential of f* (the conjugate of the loss f) at w, shape (d,).

        Any shift of that element along e is one too: e, shape (d,), is ones, or the roots of sample weights.
        """
        return self.f.conjugate_subgradient(w)

    @property
    def support_bound(self) -> Vector:
        """Upper bounds of abs(w_i) where the conjugate f*(w) of the loss f is finite, shape (d,) or ().

        Infinite if none.
        """
        return self.f.support_bound

    def conjugate_ray(self, w: Vector) -> tuple[float, float, float]:
        """Return (c0, c1, c2) with f*(s w) <= c0 + c1 s + c2 s^2 for 0 <= s <= 1.

        The numbers are those of f without intercept, because <e, s w> = 0 for every s.

        f is the loss as a function of d predictions; e, shape (d,), is ones, or the roots of sample weights. f* is the
        conjugate of f.
        """
        return self.f.conjugate_ray(w)
