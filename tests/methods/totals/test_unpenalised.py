"""Problems without a penalty: the distance to the optimum is proven, and where there is no optimum it is said so."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg

from glmesh import GLMClassifier, GLMRegressor, Problem, Run, Status, solve
from glmesh.cli import main
from glmesh.methods import ProximalNewton
from tests.cases import cases

Exact = np.longdouble
NEWTON = ProximalNewton()
RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 4))
OVERLAP = np.where(X @ [1, 2, 0, 0] + RNG.normal(size=60) > 0, 1.0, -1.0)


@dataclass(frozen=True, eq=False)
class Unpenalised:
    """sum_i s_i loss(y_i, x_i.w + b), logistic for labels and squared for numbers, in extended precision.

    Coordinates v of orthonormal columns, (w, b) = T v, so that collinear columns do not cost digits.
    """

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray
    logistic: bool

    @staticmethod
    def draw(rng: np.random.Generator, *, separated: bool = False) -> Unpenalised:
        m, p = int(rng.integers(12, 80)), int(rng.integers(1, 6))
        X = rng.normal(size=(m, p))
        if p > 1 and rng.random() < 0.3:
            X[:, 0] = X[:, 1] + 10.0 ** rng.uniform(-5, -1) * X[:, 0]
        if rng.random() < 0.3:
            X[:, -1] = rng.random(m) < 0.3
        scores = X @ rng.normal(size=p) * rng.uniform(0, 2) + rng.normal() * rng.uniform(0, 2)
        y = np.where(rng.random(m) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)
        if rng.random() < 0.3:
            X = np.round(X)
        X *= 10.0 ** rng.uniform(-5, 5, size=p)
        s = rng.integers(0, 4, m) if rng.random() < 0.3 else rng.uniform(0.5, 2, m)
        logistic = separated or rng.random() < 0.8
        return Unpenalised(X, y if logistic else scores + rng.normal(size=m), s.astype(float), logistic)

    def problem(self) -> Problem:
        loss = "logistic" if self.logistic else "squared"
        return Problem.glm(
            self.X, self.y, loss=loss, alpha=0.0, split="samples", sample_weight=self.s, fit_intercept=True
        )

    @property
    def rows(self) -> np.ndarray:
        """x_i and a 1 of the rows with a weight, in extended precision."""
        return np.column_stack([self.X, np.ones(len(self.y))])[self.s > 0].astype(Exact)

    @property
    def well_posed(self) -> bool:
        """Whether columns are independent, and an optimum exists, as a linear program says."""
        scaled = self.rows.astype(float)
        scaled /= np.abs(scaled).max(axis=0).clip(1e-300)
        if np.linalg.matrix_rank(scaled, tol=1e-9) < scaled.shape[1]:
            return False
        return not (self.logistic and separable(scaled * self.y[self.s > 0, None]))

    def basis(self) -> tuple[np.ndarray, np.ndarray]:
        """(T, rows times T): T makes the columns orthonormal, but for rounding in double precision."""
        rows = self.rows
        sizes = np.abs(rows).max(axis=0)
        R = scipy.linalg.qr((rows / sizes).astype(float), mode="economic")[1]
        T = scipy.linalg.solve_triangular(R, np.eye(len(R))).astype(Exact) / sizes[:, None]
        return T, rows @ T

    def derivatives(self, z: np.ndarray) -> tuple[Exact, np.ndarray, np.ndarray]:
        """Objective, slopes and curvatures of the rows at predictions z."""
        y, s = self.y[self.s > 0].astype(Exact), self.s[self.s > 0].astype(Exact)
        if not self.logistic:
            return (s * (z - y) ** 2).sum() / 2, s * (z - y), s
        p = 1 / (1 + np.exp(y * z))
        return (s * np.logaddexp(Exact(0), -y * z)).sum(), -s * y * p, s * p * (1 - p)

    def optimum(self, u: np.ndarray) -> tuple[np.ndarray, Exact]:
        """(v, objective) at the optimum, by Newton's method from (w, b) = u near it."""
        T, Z = self.basis()
        v = solve_exactly(Z.T @ Z, Z.T @ (self.rows @ u.astype(Exact)))
        for _ in range(12):
            _, slopes, bends = self.derivatives(Z @ v)
            v = v - solve_exactly((Z.T * bends) @ Z, Z.T @ slopes)
        return v, self.derivatives(Z @ v)[0]


def solve_exactly(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """H^-1 g by elimination in extended precision, for a matrix that is well-conditioned after scaling."""
    A = np.column_stack([H, g])
    n = len(g)
    for k in range(n):
        A[k] /= A[k, k]
        for i in range(n):
            if i != k:
                A[i] -= A[i, k] * A[k]
    return A[:, -1]


def separable(rows: np.ndarray) -> bool:
    """Whether a u with rows @ u >= 0, not all 0, exists, by a linear program."""
    u = cp.Variable(rows.shape[1])
    margins = rows @ u
    program = cp.Problem(cp.Maximize(cp.sum(margins)), [margins >= 0, margins <= 1])
    program.solve(solver=cp.CLARABEL)
    return bool(program.value > 1e-4)


@pytest.mark.parametrize("seed", range(cases(300)))
def test_the_distance_in_standard_errors_is_never_larger_than_proven(seed):
    case = Unpenalised.draw(np.random.default_rng(seed))
    if not case.well_posed:
        pytest.skip("no optimum, or no unique one")
    run = Run(case.problem(), method=NEWTON, n_nodes=4)
    seen = []
    for _ in range(25):
        next(run)
        state = run.states[0]
        seen.append((np.append(state.w, state.intercept), state.objective, state.gap, state.distance))
    T, Z = case.basis()
    best, least = case.optimum(seen[-1][0])
    proven = 0
    for u, objective, gap, distance in seen:
        at, slopes, bends = case.derivatives(case.rows @ u.astype(Exact))
        assert objective == pytest.approx(float(at), rel=1e-9)
        assert at - least <= gap
        if np.isfinite(distance):
            away = case.rows @ u.astype(Exact) - Z @ best
            assert np.sqrt((bends * away**2).sum()) <= distance
            proven += 1
    assert proven > 0
    assert seen[-1][3] < 1e-6
