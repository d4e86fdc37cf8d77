"""The dual of the logistic loss: the negative entropy of a probability per sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, xlogy

from glmesh.errors import InvalidInput
from glmesh.functions.separable import LOGISTIC_DUAL, Columnwise, Separable, check_rows
from glmesh.types import Flags, Indices, Vector


def logistic_root(a: Vector, b: Vector) -> Vector:
    """Return the t with t + a expit(t) = b, for a >= 0.

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
        """c [p ln p + (1-p) ln(1-p)], infinite where p is outside [0, 1]."""
        p, inside = self._probability(x)
        entropy = self.c * (xlogy(p, p) + xlogy(1.0 - p, 1.0 - p))
        return np.where(inside, entropy, np.inf)

    def _probability(self, x: Vector) -> tuple[Vector, Flags]:
        p = np.divide(self.y * x, self.c, out=np.where(x == 0, 0.0, np.inf), where=self.c > 0)
        return np.clip(p, 0.0, 1.0), (p >= 0.0) & (p <= 1.0)

    def conjugates(self, u: Vector) -> Vector:
        """c log(1 + exp(y u))."""
        return self.c * np.logaddexp(0.0, self.y * u)

    def conjugate_subgradient(self, u: Vector) -> Vector:
        """y c expit(y u)."""
        return np.asarray(self.y * self.c * expit(self.y * u))

    def conjugate_curvature(self, u: Vector) -> Vector:
        """Return c expit(u) expit(-u), the second derivatives of g*."""
        return np.asarray(self.c * expit(u) * expit(-u))

    def conjugate_majorant(self, u: Vector) -> Vector:
        """c tanh(u/2) / (2 u), which is c/4 at zero (Jaakkola and Jordan)."""
        z = np.maximum(np.abs(u), 1e-8)
        return self.c * np.minimum(0.5 * np.tanh(0.5 * z) / z, 0.25)

    def slacks(self, x: Vector, u: Vector) -> Vector:
        """c (p ln(p/q) + (1-p) ln((1-p)/(1-q))), q = expit(y u): nothing large cancels where p is near q."""
        p, inside = self._probability(x)
        q, r = expit(self.y * u), expit(-self.y * u)
        least = np.minimum(q, r)
        near = (np.abs(p - q) <= 0.5 * least) & (least > 0)
        away = np.where(near, p - q, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):  # where not near, q or r may be zero
            small = p * np.log1p(away / q) + (1.0 - p) * np.log1p(-away / r)
        plain = xlogy(p, p) + xlogy(1.0 - p, 1.0 - p) + np.logaddexp(0.0, self.y * u) - p * self.y * u
        return np.where(inside, self.c * np.maximum(np.where(near, small, plain), 0.0), np.inf)

    def prox(self, z: Vector, step: float | Vector) -> Vector:
        """y c expit(t), where t + (c/step) expit(t) = y z / step."""
        return np.asarray(self.y * self.c * expit(logistic_root(self.c / step, self.y * z / step)))

    @property
    def support_bound(self) -> Vector:
        """Bounds c of abs(x)."""
        return self.c

    @property
    def strong_convexity(self) -> float:
        """4 / max c."""
        return float(4.0 / self.c.max()) if self.c.size and self.c.max() > 0 else np.inf

    def take(self, columns: Indices | slice) -> LogisticDual:
        """Return g of these columns."""
        return LogisticDual(self.y[columns], self.c[columns])

    def join(self, parts: Sequence[Separable], sizes: Sequence[int]) -> LogisticDual:
        """Return g with the columns of all parts, one after the other."""
        duals = [part for part in parts if isinstance(part, LogisticDual)]
        return LogisticDual(np.concatenate([g.y for g in duals]), np.concatenate([g.c for g in duals]))

    def scaled(self, factor: float) -> LogisticDual:
        """Refuse: a dual is scaled through the weights of its loss."""
        raise InvalidInput("the logistic dual is scaled through sample weights, not by a factor")

    def kernel_rows(self, n: int) -> Vector:
        """Return the (n, 5) table with lo = min(0, c y), hi = max(0, c y) and zeros: c = hi - lo, y = sign(lo + hi)."""
        end = self.c * self.y
        rows = np.zeros((n, 5))
        rows[:, 3], rows[:, 4] = np.minimum(0.0, end), np.maximum(0.0, end)
        return rows

    def check_size(self, n: int) -> None:
        """Raise InvalidInput unless there is one label per column."""
        if len(self.y) != n or len(self.c) != n:
            raise InvalidInput(f"the logistic dual has {len(self.y)} labels for {n} columns")
