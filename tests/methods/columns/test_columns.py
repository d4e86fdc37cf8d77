"""Exact sums over columns: the optimum, in few totals, with a gap that is true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression, Ridge

from glmesh import Problem, solve
from glmesh.errors import UnsuitablePair
from glmesh.functions.losses import HingeLoss, LogisticLoss, SquaredLoss
from glmesh.functions.penalties import L1, L2
from glmesh.methods.columns import local_steps
from glmesh.methods.columns.method import NO_PROGRESS, ColumnTotals, method_for_columns, require_columns
from glmesh.types import Matrix, Vector
from tests.cases import cases
from tests.columns import together


def cancer(*, raw: bool) -> tuple[Matrix, Vector]:
    X, y = load_breast_cancer(return_X_y=True)
    return (X if raw else (X - X.mean(axis=0)) / X.std(axis=0)), np.where(y == 1, 1.0, -1.0)


def diabetes() -> tuple[Matrix, Vector]:
    X, y = load_diabetes(return_X_y=True)
    return X / X.std(axis=0), y


def split(X: Matrix, k: int = 3) -> list[Matrix]:
    return [X[:, own] for own in np.array_split(np.arange(X.shape[1]), k)]


CASES: dict[str, tuple[Any, dict[str, Any], int]] = {
    "raw logistic": (cancer(raw=True), {"loss": "logistic", "alpha": 1.0}, 20),
    "logistic": (cancer(raw=False), {"loss": "logistic", "alpha": 1.0}, 24),
    "ridge": (diabetes(), {"loss": "squared", "alpha": 1.0}, 15),
    "raw ridge": (cancer(raw=True), {"loss": "squared", "alpha": 1.0}, 30),
    "huber": ((diabetes()[0], diabetes()[1] / 80.0), {"loss": "huber", "alpha": 1.0}, 15),
    "squared hinge": (cancer(raw=True), {"loss": "squared_hinge", "alpha": 1.0}, 26),
    "lasso": (diabetes(), {"loss": "squared", "penalty": "l1", "alpha": 200.0}, 40),
    "raw l1 logistic": (cancer(raw=True), {"loss": "logistic", "penalty": "l1", "alpha": 1000.0}, 20),
    "l1 logistic": (cancer(raw=False), {"loss": "logistic", "penalty": "l1", "alpha": 2.2}, 70),
    "elastic net": (diabetes(), {"loss": "squared", "penalty": "elasticnet", "alpha": 200.0, "l1_ratio": 0.5}, 16),
}


POOLED = {"ridge", "huber", "lasso", "elastic net"}  # that pooled columns solve in a moment, by another method


@pytest.mark.parametrize("case", CASES)
def test_few_totals_prove_a_gap_that_is_true(case: str) -> None:
    (X, y), objective, most = CASES[case]
    made = together(split(X), y, fit_intercept=True, **objective)
    state = made.states[0]
    assert state.gap <= 1e-6 * state.objective
    assert made.rounds <= most
    assert all(one.objective == state.objective and one.intercept == state.intercept for one in made.states)
    best = together(split(X), y, tol=1e-9, fit_intercept=True, **objective).states[0]
    assert 0 <= state.objective - best.objective + best.gap <= state.gap + best.gap
    if case not in POOLED:
        return
    problem = Problem.glm(X, y, split="features", fit_intercept=True, **objective)
    pooled = solve(problem, topology="complete", n_nodes=3, tol=1e-8, max_rounds=20_000)
    assert abs(pooled.objective - best.objective) <= 2e-8 * abs(best.objective)


REFERENCES: dict[str, Any] = {
    "raw logistic": LogisticRegression(tol=1e-12, solver="newton-cholesky"),
    "ridge": Ridge(alpha=1.0),
    "lasso": Lasso(alpha=200.0 / 442, tol=1e-12),
    "elastic net": ElasticNet(alpha=200.0 / 442, l1_ratio=0.5, tol=1e-12),
}


@pytest.mark.parametrize("case", REFERENCES)
def test_coefficients_are_those_of_scikit_learn(case: str) -> None:
    (X, y), objective, _ = CASES[case]
    made = together(split(X), y, tol=1e-11, fit_intercept=True, **objective)
    expected = REFERENCES[case].fit(X, y)
    np.testing.assert_allclose(
        made.coef * X.std(axis=0), np.ravel(expected.coef_) * X.std(axis=0), atol=2e-3, rtol=1e-4
    )
    assert made.states[0].intercept == pytest.approx(float(np.ravel(expected.intercept_)[0]), rel=1e-3)


def test_an_l2_penalty_takes_at_most_about_as_many_totals_as_there_are_columns() -> None:
    rng = np.random.default_rng(0)
    for seed in range(cases(50)):
        p = 3 + seed % 12
        X = rng.normal(size=(60, p)) @ rng.normal(size=(p, p)) * np.exp(2 * rng.normal(size=p))
        y = X @ rng.normal(size=p) + rng.normal(size=60)
        made = together(split(X), y, tol=1e-10, loss="squared", alpha=1.0, fit_intercept=True)
        assert made.states[0].gap <= 1e-10 * made.states[0].objective
        assert made.rounds <= p + 4  # the first is at zero, the last three find and prove the gap


def test_any_start_leads_to_the_same_optimum() -> None:
    X, y = cancer(raw=False)
    rng = np.random.default_rng(0)
    parts = split(X)
    zero = together(parts, y, tol=1e-10, loss="logistic", alpha=1.0)
    drawn = together(
        parts, y, tol=1e-10, start=[rng.normal(size=X.shape[1]) for X in parts], loss="logistic", alpha=1.0
    )
    np.testing.assert_allclose(zero.coef, drawn.coef, atol=2e-4)  # sqrt(2 gap / l2) each


def test_sparse_and_dense_columns_and_both_local_solvers_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sp.random_array((80, 30), density=0.2, random_state=0).tocsr()
    y = np.where(X @ np.ones(30) > 1.0, 1.0, -1.0)
    dense = together(split(X.toarray()), y, tol=1e-9, loss="logistic", alpha=0.5)
    sparse = together([X[:, :10], X[:, 10:20], X[:, 20:]], y, tol=1e-9, loss="logistic", alpha=0.5)
    monkeypatch.setattr(local_steps, "MOST_PRODUCTS", 0)
    other = together(split(X.toarray()), y, tol=1e-9, loss="logistic", alpha=0.5, fit_intercept=False)
    np.testing.assert_allclose(dense.coef, sparse.coef, atol=1e-12)
    np.testing.assert_allclose(dense.coef, other.coef, atol=1e-4)


def test_a_fit_that_rounding_stops_says_so() -> None:
    X, y = diabetes()
    made = together(split(X), y / 80.0, tol=1e-15, loss="squared", penalty="l1", alpha=2.5, fit_intercept=True)
    assert made.states[0].failure == NO_PROGRESS
    assert made.states[0].gap == np.inf


def test_what_has_no_such_totals_is_refused_with_what_would_do() -> None:
    assert method_for_columns(LogisticLoss(), L2(1.0)) == ColumnTotals()
    assert method_for_columns(SquaredLoss(), L1(1.0)) is not None
    for loss, penalty in ((HingeLoss(), L2(1.0)), (LogisticLoss(), L2(0.0))):
        with pytest.raises(UnsuitablePair, match="method = 'gossip'"):
            require_columns(loss, penalty)
