"""Random problems with smooth losses, their objective in extended precision, and two solvers to compare with."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import cvxpy as cp
import numpy as np

from glmesh import Problem
from glmesh.functions import Table

LOSSES = ("squared", "logistic", "huber", "squared_hinge", "smoothed_hinge", "squared_epsilon_insensitive")
PENALTIES = ("l1", "l2", "elasticnet", "box", "signs", "l1 in a box", "mixed", "none")
LABELS = ("logistic", "squared_hinge", "smoothed_hinge")
DELTA, EPSILON = 1.35, 0.1  # defaults of the losses
Exact = np.longdouble
Array = np.ndarray
Fields = tuple[Array, Array, Array, Array]  # l1, l2, lo and hi of each coordinate, shape (p + 1,), the intercept last


@dataclass(frozen=True, eq=False)
class Smooth:
    """sum_i s_i loss(y_i, x_i.w + b) + penalty(w), with b = 0 unless `fit_intercept`."""

    X: Array
    y: Array
    s: Array
    loss: str
    penalty: Table
    fit_intercept: bool

    def problem(self) -> Problem:
        return Problem.glm(
            self.X, self.y, loss=self.loss, penalty=self.penalty, alpha=1.0, split="samples",
            sample_weight=self.s, fit_intercept=self.fit_intercept,
        )  # fmt: skip

    @property
    def fields(self) -> Fields:
        rows = np.vstack([self.penalty.kernel_rows(self.X.shape[1])[:, [0, 1, 3, 4]], [0.0, 0.0, -np.inf, np.inf]])
        if not self.fit_intercept:
            rows[-1, 2:] = 0.0
        return tuple(rows.T.astype(Exact))

    @property
    def wide(self) -> Array:
        """X and a column of ones, in extended precision."""
        return np.column_stack([self.X, np.ones(len(self.y))]).astype(Exact)

    def value(self, u: Array) -> Exact:
        """The objective at (w, b), in extended precision."""
        l1, l2, lo, hi = self.fields
        u = u.astype(Exact)
        if (u < lo).any() or (u > hi).any():
            return Exact(np.inf)
        return (self.s * self._losses(self.wide @ u)).sum() + (l1 * np.abs(u) + l2 * u * u / 2).sum()

    def _losses(self, z: Array) -> Array:
        y = self.y.astype(Exact)
        margin, error = y * z, np.abs(z - y)
        if self.loss == "squared":
            return error**2 / 2
        if self.loss == "logistic":
            return np.logaddexp(Exact(0), -margin)
        if self.loss == "huber":
            return np.where(error <= DELTA, error**2 / 2, DELTA * (error - Exact(DELTA) / 2))
        if self.loss == "squared_hinge":
            return np.maximum(0, 1 - margin) ** 2
        if self.loss == "smoothed_hinge":
            return np.where(margin >= 1, 0, np.where(margin <= 0, Exact(0.5) - margin, (1 - margin) ** 2 / 2))
        return np.maximum(0, error - Exact(EPSILON)) ** 2

    def derivatives(self, u: Array) -> tuple[Array, Array]:
        """Gradient and Hessian of the losses at (w, b), in extended precision."""
        y, z, wide = self.y.astype(Exact), self.wide @ u, self.wide
        margin, error = y * z, z - y
        if self.loss == "squared":
            slopes, bends = error, np.ones_like(z)
        elif self.loss == "logistic":
            p = 1 / (1 + np.exp(margin))
            slopes, bends = -y * p, p * (1 - p)
        elif self.loss == "huber":
            slopes, bends = np.clip(error, -DELTA, DELTA), (np.abs(error) <= DELTA).astype(Exact)
        elif self.loss == "squared_hinge":
            slopes, bends = -2 * y * np.maximum(0, 1 - margin), 2 * (margin < 1).astype(Exact)
        elif self.loss == "smoothed_hinge":
            slopes, bends = -y * np.clip(1 - margin, 0, 1), ((margin > 0) & (margin < 1)).astype(Exact)
        else:
            slopes = 2 * np.sign(error) * np.maximum(np.abs(error) - Exact(EPSILON), 0)
            bends = 2 * (np.abs(error) > EPSILON).astype(Exact)
        return wide.T @ (self.s * slopes), (wide.T * (self.s * bends)) @ wide

    def polished(self, u: Array, steps: int = 60) -> Array:
        """(w, b) after projected Newton steps in extended precision, each of which lowers the objective."""
        l1, l2, lo, hi = self.fields
        u = np.clip(u.astype(Exact), lo, hi)
        best = self.value(u)
        for _ in range(steps):
            gradient, hessian = self.derivatives(u)
            gradient, hessian = gradient + l2 * u, hessian + np.diag(l2)
            slope = gradient + l1 * np.sign(u)
            kink = (u == 0) & (l1 > 0)
            slope[kink] = np.sign(gradient[kink]) * np.maximum(np.abs(gradient[kink]) - l1[kink], 0)
            free = (lo < hi) & ~((u == lo) & (slope >= 0)) & ~((u == hi) & (slope <= 0)) & ~(kink & (slope == 0))
            if not free.any():
                return u
            better = None
            for ridge in (0.0, 1e-12, 1e-6, 1e-2):
                step = np.zeros_like(u)
                step[free] = -solve(hessian[np.ix_(free, free)], slope[free], ridge)
                for length in 0.5 ** np.arange(0, 40, 2 if ridge else 1):
                    there = np.clip(u + length * step, lo, hi)
                    there[(l1 > 0) & (there * u < 0)] = 0
                    value = self.value(there)
                    if value < best:
                        better, best = there, value
                        break
                if better is not None:
                    break
            if better is None:
                return u
            u = better
        return u

    def conic(self) -> Array:
        """(w, b) of Clarabel, with columns divided by powers of two; zeros if it finds nothing."""
        X, y, (l1, l2, lo, hi) = self.X, self.y, (one.astype(float) for one in self.fields)
        sizes = np.abs(X).max(axis=0)
        scale = np.append(np.exp2(np.round(np.log2(np.where(sizes > 0, sizes, 1.0)))), 1.0)
        v = cp.Variable(X.shape[1] + 1)
        z = (np.column_stack([X, np.ones(len(y))]) / scale) @ v
        margin, error = cp.multiply(y, z), z - y
        losses = {
            "squared": lambda: cp.square(error) / 2,
            "logistic": lambda: cp.logistic(-margin),
            "huber": lambda: cp.huber(error, DELTA) / 2,
            "squared_hinge": lambda: cp.square(cp.pos(1 - margin)),
            "smoothed_hinge": lambda: cp.huber(cp.pos(1 - margin), 1.0) / 2,
            "squared_epsilon_insensitive": lambda: cp.square(cp.pos(cp.abs(error) - EPSILON)),
        }[self.loss]()
        objective = self.s @ losses + (l1 / scale) @ cp.abs(v) + (l2 / scale**2 / 2) @ cp.square(v)
        bounds = [v[j] >= lo[j] * scale[j] for j in np.flatnonzero(np.isfinite(lo))]
        bounds += [v[j] <= hi[j] * scale[j] for j in np.flatnonzero(np.isfinite(hi))]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it may be inaccurate
                cp.Problem(cp.Minimize(objective), bounds).solve(solver=cp.CLARABEL)
        except cp.SolverError:
            return np.zeros(len(scale))
        return np.zeros(len(scale)) if v.value is None else v.value / scale


def solve(matrix: Array, right: Array, ridge: float) -> Array:
    """The solution of (matrix + ridge diagonal) x = right by elimination in extended precision; flat pivots give 0."""
    size = np.sqrt(np.maximum(np.diag(matrix), 0))
    size = np.where(size > 0, size, 1)
    A = matrix / size / size[:, None] + ridge * np.eye(len(right))
    x = right / size
    live = np.ones(len(x), dtype=bool)
    for k in range(len(x)):
        if A[k, k] <= 1e-17:
            live[k] = False
            continue
        factors = A[k + 1 :, k] / A[k, k]
        A[k + 1 :] -= factors[:, None] * A[k]
        x[k + 1 :] -= factors * x[k]
    for k in range(len(x))[::-1]:
        x[k] = (x[k] - A[k, k + 1 :] @ x[k + 1 :]) / A[k, k] if live[k] else 0
    return x / size


def draw(seed: int) -> Smooth:
    """A random problem: any smooth loss and penalty, columns of any scale, some constant, equal or almost so."""
    rng = np.random.default_rng(seed)
    m, p = int(rng.integers(2, 41)), int(rng.integers(1, 8))
    loss, penalty = str(rng.choice(LOSSES)), str(rng.choice(PENALTIES))
    X = rng.normal(size=(m, p))
    X[rng.random(X.shape) < rng.choice([0.0, 0.5])] = 0.0
    for j in range(1, p):
        kind = rng.choice(["own", "constant", "copy", "almost", "shifted"], p=[0.6, 0.08, 0.08, 0.12, 0.12])
        if kind == "constant":
            X[:, j] = rng.choice([0.0, 1.0])
        elif kind == "copy":
            X[:, j] = X[:, j - 1]
        elif kind == "almost":
            X[:, j] = X[:, j - 1] + 10.0 ** rng.uniform(-9, -2) * rng.normal(size=m)
        elif kind == "shifted":
            X[:, j] += 10.0 ** rng.uniform(0, 4)
    signal = X @ rng.normal(size=p) / np.maximum(np.abs(X).max(), 1.0) + rng.normal()
    noise = rng.choice([0.01, 1.0]) * rng.normal(size=m)
    y = signal + noise
    X = X * 10.0 ** rng.choice([np.zeros(p), rng.uniform(-1, 1, p), rng.uniform(-6, 9, p)])
    if loss in LABELS:
        y = np.where(y > np.median(y), 1.0, -1.0)
        if penalty in ("none", "signs", "mixed"):  # every row with either label: nothing separates them
            X, y = np.vstack([X, X]), np.concatenate([y, -y])
        else:
            y[0], y[-1] = 1.0, -1.0
    else:
        y = y * 10.0 ** rng.choice([0.0, rng.uniform(-3, 5)])
    s = rng.choice([0.0, 0.5, 1.0, 3.0], len(y)) if rng.random() < 0.5 else np.ones(len(y))
    if loss in LABELS:
        s[: len(y) // 2] = (
            s[len(y) // 2 :][: len(y) // 2] if penalty in ("none", "signs", "mixed") else s[: len(y) // 2]
        )
    if len(np.unique(y[s > 0])) < 2:
        s[:] = 1.0
    return Smooth(X, y, s, loss, draw_penalty(rng, penalty, X, y, s), bool(rng.random() < 0.6))


def draw_penalty(rng: np.random.Generator, kind: str, X: Array, y: Array, s: Array) -> Table:
    p = X.shape[1]
    slopes = np.abs(X.T @ (s * y)).max() + 1e-3
    l1, l2 = slopes * 10.0 ** rng.uniform(-5, 0.3), slopes * 10.0 ** rng.uniform(-6, 2)
    if rng.random() < 0.2:  # beside the largest slopes it is about their rounding
        l1 *= 10.0 ** rng.uniform(-12, 0)
    zeros, ends = np.zeros(p), np.sort(rng.normal(size=(2, p)), axis=0) / (np.abs(X).max(axis=0) + 1e-3)
    inside = np.array([np.minimum(ends[0], 0.0), np.maximum(ends[1], 0.0)])
    infinite = np.full(p, -np.inf), np.full(p, np.inf)
    if kind == "box":
        return Table(zeros, zeros, zeros, *ends)
    if kind == "signs":
        return Table(zeros, zeros, zeros, zeros, infinite[1])
    if kind == "l1 in a box":
        return Table(zeros + l1, zeros, zeros, *inside)
    if kind == "mixed":
        some = rng.random((4, p)) < 0.4
        lo, hi = np.where(some[2], inside[0], -np.inf), np.where(some[3], inside[1], np.inf)
        return Table(l1 * some[0], l2 * some[1], zeros, lo, hi)
    weights = {"l1": (l1, 0.0), "l2": (0.0, l2), "elasticnet": (l1, l2), "none": (0.0, 0.0)}[kind]
    return Table(zeros + weights[0], zeros + weights[1], zeros, *infinite)
