"""The dual of the logistic loss: the negative entropy of a probability per sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from glmesh.errors import InvalidInput
from glmesh.functions.separable import LOGISTIC_DUAL, Columnwise, Separable, check_rows
from glmesh.types import Flags, Indices, Vector


def logistic_root(a: Vector, b: Vector) -> Vector:
    """Return the array t with t + a expit(t) = b, entry by entry, for arrays a >= 0 and b; expit(t) = 1/(1 + exp(-t)).

    Newton from zero, or from the end of [b - a, b] next to it: expit is convex before zero and concave after, so the
    steps approach t from one side. From elsewhere they may overshoot, and cycle for ever.
    """
    t = np.clip(0.0, b - a, b)
    for _ in range(1000):  # quadratic once a expit'(t) is of the size of t; before that log(a) steps of length one
        p, q = expit(t), expit(-t)
        h = t + a * p - b
        t = t - h / (1.0 + a * p * q)
        if np.all(np.abs(h) <= 4e-16 * (np.abs(t) + a * p + np.abs(b))):
            break
    return np.asarray(t)


def _softplus(v: Vector) -> Vector:
    """Return log(1 + exp(v)), shape (n,), several times as fast as numpy.logaddexp(0, v)."""
    return np.asarray(np.maximum(v, 0.0) + np.log1p(np.exp(-np.abs(v))))


def _probability(v: Vector) -> Vector:
    """Return 1/(1 + exp(-v)) as exp(min(v, 0)) / (1 + exp(-abs(v))), shape (n,), without cancellation.

    Few arrays are made and no entry is chosen by its sign, which takes a third of the time.
    """
    out, below = np.minimum(v, 0.0), np.abs(v)
    np.exp(out, out=out)
    np.negative(below, out=below)
    np.exp(below, out=below)
    below += 1.0
    out /= below
    return out


def _probabilities(v: Vector) -> tuple[Vector, Vector]:
    """Return (1/(1 + exp(-v)), 1/(1 + exp(v))), each of shape (n,), both without cancellation."""
    return _probability(v), _probability(-v)


@dataclass(frozen=True, eq=False)
class LogisticDual(Columnwise):
    """g(x) = sum_i c_i [p ln p + (1-p) ln(1-p)], p = y_i x_i / c_i in [0, 1]: the dual of c log(1 + exp(-y z)).

    Parameters
    ----------
    y : array of shape (n,)
        Labels, -1 or 1.
    c : array of shape (n,)
        Weights >= 0.
    """

    y: Vector
    c: Vector

    kind = LOGISTIC_DUAL

    def __post_init__(self) -> None:
        for name in ("y", "c"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        check_rows(self.y, self.c, labels=True)

    def values(self, x: Vector) -> Vector:
        """Return g_i(x_i) = c [p ln p + (1-p) ln(1-p)], p = y x / c, shape (n,); infinite where p is outside [0, 1].

        y are the labels, -1 or 1, of n samples, and c their weights >= 0; expit(t) = 1/(1 + exp(-t)).
        """
        p, inside = self._probability(x)
        entropy = self.c * (xlogy(p, p) + xlogy(1.0 - p, 1.0 - p))
        return np.where(inside, entropy, np.inf)

    def _probability(self, x: Vector) -> tuple[Vector, Flags]:
        """Return p = y x / c, clipped to [0, 1], and a mask of where it was inside but for rounding.

        Both of shape (n,). y are the labels, -1 or 1, of n samples, and c their weights >= 0.
        """
        p = np.divide(self.y * x, self.c, out=np.where(x == 0, 0.0, np.inf), where=self.c > 0)
        return np.clip(p, 0.0, 1.0), (p >= 0.0) & (p <= 1.0)

    def conjugates(self, u: Vector) -> Vector:
        """Return g_i*(u_i) = c log(1 + exp(y u)), the logistic losses, shape (n,).

        y are the labels, -1 or 1, of n samples, and c their weights >= 0; expit(t) = 1/(1 + exp(-t)). The star marks
        the conjugate function.
        """
        return self.c * _softplus(self.y * u)

    def conjugate_subgradient(self, u: Vector) -> Vector:
        """Return the gradient of g* at u, y c expit(y u), shape (n,).

        y are the labels, -1 or 1, of n samples, and c their weights >= 0; expit(t) = 1/(1 + exp(-t)). g* is the
        conjugate of g.
        """
        out = _probability(self.y * u)
        out *= self.y
        out *= self.c
        return out

    def conjugate_curvature(self, u: Vector) -> Vector:
        """Return the second derivatives of g* at u, c expit(u) expit(-u), shape (n,).

        c are the weights >= 0 of n samples, shape (n,); expit(t) = 1/(1 + exp(-t)). g* is the conjugate of g.
        """
        p, q = _probabilities(u)
        p *= q
        p *= self.c
        return p

    def conjugate_majorant(self, u: Vector) -> Vector:
        """Return the curvatures c tanh(u/2) / (2 u), c/4 at zero, of a quadratic upper bound of g* at u, shape (n,).

        The bound is Jaakkola and Jordan's.

        c are the weights >= 0 of n samples, shape (n,); expit(t) = 1/(1 + exp(-t)). g* is the conjugate of g.
        """
        z = np.maximum(np.abs(u), 1e-8)
        return self.c * np.minimum(0.5 * np.tanh(0.5 * z) / z, 0.25)

    def slacks(self, x: Vector, u: Vector) -> Vector:
        """Return g_i(x_i) + g_i*(u_i) - x_i u_i >= 0, shape (n,), computed so that nothing large cancels.

        The value is c (p ln(p/q) + (1-p) ln((1-p)/(1-q))) with p = y x / c and q = expit(y u); the formula matters
        where p is near q.

        y are the labels, -1 or 1, of n samples, and c their weights >= 0; expit(t) = 1/(1 + exp(-t)). The star marks
        the conjugate function.
        """
        p, inside = self._probability(x)
        v = self.y * u
        q, r = _probabilities(v)
        least = np.minimum(q, r)
        near = (np.abs(p - q) <= 0.5 * least) & (least > 0)
        away = np.where(near, p - q, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):  # where not near, q or r may be zero
            out = p * np.log1p(away / q) + (1.0 - p) * np.log1p(-away / r)
        far = np.flatnonzero(~near)
        p, v = p[far], v[far]
        linear = np.where(v > 0, (1.0 - p) * v, -p * v)  # log(1 + exp(t)) = max(t, 0) + log1p(exp(-|t|))
        out[far] = xlogy(p, p) + xlog1py(1.0 - p, -p) + np.log1p(np.exp(-np.abs(v))) + linear
        return np.where(inside, self.c * np.maximum(out, 0.0), np.inf)

    def prox(self, z: Vector, step: float | Vector) -> Vector:
        """Return argmin_x g(x) + norm(x - z)^2 / (2 step), shape (n,).

        The minimiser is y c expit(t), where t + (c/step) expit(t) = y z / step.

        y are the labels, -1 or 1, of n samples, and c their weights >= 0; expit(t) = 1/(1 + exp(-t)).
        """
        return np.asarray(self.y * self.c * expit(logistic_root(self.c / step, self.y * z / step)))

    @property
    def support_bound(self) -> Vector:
        """Upper bounds c_i of abs(x_i) where g(x) is finite, shape (n,): the weights of the n samples."""
        return self.c

    @property
    def strong_convexity(self) -> float:
        """Constant mu of the strong convexity of g: 4 / max c, c the weights of the samples; infinite if all are 0."""
        return float(4.0 / self.c.max()) if self.c.size and self.c.max() > 0 else np.inf

    def take(self, columns: Indices | slice) -> LogisticDual:
        """Return the LogisticDual of the variables `columns` only: an index array or a slice, in that order."""
        return LogisticDual(self.y[columns], self.c[columns])

    def join(self, parts: Sequence[Separable], sizes: Sequence[int]) -> LogisticDual:
        """Return one LogisticDual over the variables of all `parts`, each a LogisticDual, in turn.

        `sizes` is not read.
        """
        duals = [part for part in parts if isinstance(part, LogisticDual)]
        return LogisticDual(np.concatenate([g.y for g in duals]), np.concatenate([g.c for g in duals]))

    def scaled(self, factor: float) -> LogisticDual:
        """Raise InvalidInput: a dual is scaled through the weights of its loss, not by a factor."""
        raise InvalidInput("the logistic dual is scaled through sample weights, not by a factor")

    def kernel_rows(self, n: int) -> Vector:
        """Return the (n, 5) table that the kernels read: lo = min(0, c y), hi = max(0, c y), and zeros elsewhere.

        The kernels take c = hi - lo and y = sign(lo + hi) from it.

        y are the labels, -1 or 1, of n samples, and c their weights >= 0; expit(t) = 1/(1 + exp(-t)).
        """
        end = self.c * self.y
        rows = np.zeros((n, 5))
        rows[:, 3], rows[:, 4] = np.minimum(0.0, end), np.maximum(0.0, end)
        return rows

    def check_size(self, n: int) -> None:
        """Raise InvalidInput unless there is one label and one weight for each of n columns."""
        if len(self.y) != n or len(self.c) != n:
            raise InvalidInput(f"the logistic dual has {len(self.y)} labels for {n} columns")
