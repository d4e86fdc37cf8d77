"""Problems without a penalty: the distance to the optimum is proven, and where there is no optimum it is said so."""

from __future__ import annotations

import re
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from glmesh import GLMClassifier, GLMRegressor, Problem, Run, Status, solve
from glmesh.cli.train import exit_code
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
    def draw(rng: np.random.Generator) -> Unpenalised:
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
        logistic = bool(rng.random() < 0.8)
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
        Z = self.basis()[1]
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
    rng = np.random.default_rng(seed)
    while not (case := Unpenalised.draw(rng)).well_posed:
        pass
    run = Run(case.problem(), method=NEWTON, n_nodes=4)
    seen = []
    while run.rounds < 40 and not run.nodes.failure:
        next(run)
        state = run.states[0]
        seen.append((np.append(state.w, state.intercept), state.objective, state.gap, state.distance))
    Z = case.basis()[1]
    best, least = case.optimum(seen[-1][0])
    for u, objective, gap, distance in seen:
        at, _, bends = case.derivatives(case.rows @ u.astype(Exact))
        assert objective == pytest.approx(float(at), rel=1e-9)
        assert at - least <= gap
        if np.isfinite(distance):
            away = case.rows @ u.astype(Exact) - Z @ best
            assert np.sqrt((bends * away**2).sum()) <= distance
    assert min(distance for *_, distance in seen) < 1e-6


def test_a_result_says_how_many_standard_errors_its_coefficients_are_off():
    problem = Problem.glm(X, OVERLAP, loss="logistic", alpha=0.0, split="samples", fit_intercept=True)
    rough, exact = (solve(problem, method=NEWTON, n_nodes=4, tol=tol) for tol in (1e-3, 1e-12))
    rows = np.column_stack([X, np.ones(len(X))])
    for result in (rough, exact):
        chance = 1.0 / (1.0 + np.exp(-(X @ result.coef + result.intercept)))
        errors = np.sqrt(np.diag(np.linalg.inv((rows.T * (chance * (1 - chance))) @ rows)))
        off = np.abs(np.append(result.coef - exact.coef, result.intercept - exact.intercept)) / errors
        assert (off <= result.standard_errors_off + exact.standard_errors_off).all()
        assert result.distance == result.standard_errors_off
        told = re.search(r"within (\S+) standard errors of the exact estimate", result.message)
        assert told is not None
        assert result.standard_errors_off <= float(told[1]) <= 2 * result.standard_errors_off
    assert exact.standard_errors_off < 1e-5


@pytest.mark.parametrize(
    ("options", "distance"),
    [
        ({"alpha": 1.0}, np.inf),
        ({"alpha": 0.0, "loss": "squared"}, 1e-3),
        ({"alpha": 1.0, "loss": "squared"}, 1e-3),
        ({"alpha": 0.0, "loss": "huber"}, np.inf),
        ({"alpha": 1.0, "penalty": "l1"}, np.inf),
    ],
)
def test_where_there_are_no_standard_errors_to_count_in_nothing_is_said(options, distance):
    given = {"loss": "logistic", "split": "samples", "fit_intercept": True} | options
    result = solve(Problem.glm(X, OVERLAP, **given), method=NEWTON, n_nodes=4, tol=1e-8)
    assert np.isnan(result.standard_errors_off)
    assert "standard errors" not in result.message
    assert result.distance <= distance


# where there is no optimum


def random_labels(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are often separated, or but for ties: few of them, small whole numbers, indicators."""
    m, p = int(rng.integers(8, 40)), int(rng.integers(1, 5))
    X = np.round(rng.normal(size=(m, p)) * rng.choice([1, 3]))
    if rng.random() < 0.5:
        X[:, 0] = rng.random(m) < 0.2
    y = np.where(X @ rng.normal(size=p) + rng.choice([0.0, 0.3, 2.0]) * rng.normal(size=m) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


@pytest.mark.parametrize("seed", range(cases(300)))
def test_separation_is_told_if_and_only_if_a_linear_program_finds_it(seed):
    X, y = random_labels(np.random.default_rng(seed))
    problem = Problem.glm(X, y, loss="logistic", alpha=0.0, split="samples", fit_intercept=True)
    result = solve(problem, method=NEWTON, n_nodes=3, tol=1e-6, max_rounds=60)
    expected = separable(y[:, None] * np.column_stack([X, np.ones(len(y))]))
    assert result.status is (Status.NO_OPTIMUM if expected else Status.CONVERGED), result
    assert result.rounds <= 40


QUASI = np.column_stack([X[:, :3], (X[:, 3] > 0.5) & (OVERLAP > 0)])  # an indicator that only one class has
SEPARATED = {
    "complete": (X, np.where(X @ [1, 2, 0, 0] > 0.3, 1.0, -1.0)),
    "an indicator of one class": (QUASI, OVERLAP),
    "an indicator of one row": (np.column_stack([X, np.arange(60) == 7]), OVERLAP),
    "raw columns": (QUASI * [1e6, 1e-6, 1e3, 1e4], OVERLAP),
}


@pytest.mark.parametrize("name", SEPARATED)
def test_an_estimator_says_that_there_is_no_optimum_and_what_would_do(name):
    with pytest.warns(ConvergenceWarning, match=r"There is no optimum.*add a penalty \(alpha > 0\)"):
        GLMClassifier(alpha=0.0).fit(*SEPARATED[name])
    GLMClassifier(alpha=1e-3).fit(*SEPARATED[name])


@pytest.mark.parametrize("stop", ["gap", "certificate"])
def test_a_run_ends_in_words_and_with_an_exit_code_where_there_is_no_optimum(stop):
    problem = Problem.glm(QUASI, OVERLAP, loss="logistic", alpha=0.0, split="samples", fit_intercept=True)
    result = solve(problem, method=NEWTON, n_nodes=4, stop=stop, tol=1e-4)
    assert result.status is Status.NO_OPTIMUM
    assert result.certificate is None or result.certificate.relative > 0.5
    assert exit_code(result) == 3


def test_separated_rows_of_losses_that_reach_zero_have_an_optimum():
    result = solve(
        Problem.glm(*SEPARATED["complete"], loss="squared_hinge", alpha=0.0, split="samples", fit_intercept=True),
        method=NEWTON,
        n_nodes=4,
    )
    assert result.status in (Status.CONVERGED, Status.STALLED)  # the gap is zero, or as small as rounding
    assert result.objective < 1e-15


# where there are several optima, or rounding hides one


@pytest.mark.parametrize("loss", ["logistic", "squared", "huber"])
@pytest.mark.parametrize("extra", [X[:, :1], np.ones((60, 1)), 2 * X[:, :1] - 3 * X[:, 1:2], np.zeros((60, 1))])
def test_columns_that_depend_on_others_change_no_objective_and_are_told(loss, extra):
    y = OVERLAP if loss == "logistic" else X @ [1, 2, 0, 0] + RNG.normal(size=60)
    given = {"loss": loss, "alpha": 0.0, "split": "samples", "fit_intercept": True}
    plain, more = (
        solve(Problem.glm(rows, y, **given), method=NEWTON, n_nodes=4, tol=1e-9)
        for rows in (X, np.column_stack([X, extra]))
    )
    assert more.status is Status.CONVERGED
    assert more.objective == pytest.approx(plain.objective, rel=1e-9)
    assert "The optimum is not unique: 1 column depends on others." in more.message
    assert "unique" not in plain.message


def test_more_columns_than_rows_fit_exactly():
    rows = RNG.normal(size=(15, 40))
    model = GLMRegressor(alpha=0.0, tol=1e-6).fit(rows, rows[:, 0])
    np.testing.assert_allclose(model.predict(rows), rows[:, 0], atol=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_columns_that_almost_depend_on_others_prove_nothing(loss):
    almost = np.column_stack([X, X[:, 0] + 1e-9 * RNG.normal(size=60)])
    y = OVERLAP if loss == "logistic" else X @ [1, 2, 0, 0] + RNG.normal(size=60)
    problem = Problem.glm(almost, y, loss=loss, alpha=0.0, split="samples", fit_intercept=True)
    result = solve(problem, method=NEWTON, n_nodes=4, tol=1e-6)
    assert result.status in (Status.STALLED, Status.COLLINEAR)


def test_a_tolerance_below_rounding_ends_in_words():
    problem = Problem.glm(X, OVERLAP, loss="logistic", alpha=0.0, split="samples", fit_intercept=True)
    result = solve(problem, method=NEWTON, n_nodes=4, tol=1e-17)
    assert result.status is Status.STALLED
    assert "rounding hides any further progress; relax tol" in result.message
    assert result.rounds < 30
