"""A weight chosen by folds on totals: a naive twin, scikit-learn's and LassoCV's choice, rules, and the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

import glmesh
from glmesh import Problem, Run, solve
from glmesh.engine.result import Result
from glmesh.errors import InvalidInput
from glmesh.methods import CrossValidation, InteriorPoint, ProximalNewton
from glmesh.methods.totals import cross_validation
from glmesh.methods.totals.cross_validation import CrossValidationState, FoldCurve, rows_of_folds
from glmesh.types import Matrix, Vector
from tests.cases import cases

SIZES = (130, 190, 249)


def cut(X: Matrix, y: Vector, sizes: tuple[int, ...] = SIZES) -> list[tuple[Matrix, Vector]]:
    ends = np.cumsum(sizes)
    return list(zip(np.split(X[: ends[-1]], ends[:-1]), np.split(y[: ends[-1]], ends[:-1]), strict=True))


def cancer() -> list[tuple[Matrix, Vector]]:
    X, y = load_breast_cancer(return_X_y=True)
    return cut(scale(X), np.where(y > 0, 1.0, -1.0))


def chosen(parts: list[tuple[Matrix, Vector]], method: CrossValidation, **options: Any) -> tuple[Result, FoldCurve]:
    """The result of a run, and the curve that all its nodes hold."""
    run_options = {name: options.pop(name) for name in ("topology",) if name in options}
    problem = Problem.from_nodes(parts, split="samples", fit_intercept=True, **options)
    curves: list[FoldCurve] = []

    def look(run: Run) -> None:
        state = run.nodes.states[0]
        assert isinstance(state, CrossValidationState)
        curves[:] = [] if state.curve is None else [state.curve]

    result = solve(problem, method=method, tol=1e-8, callback=look, **run_options)
    return result, curves[0]


def naive(parts: list[tuple[Matrix, Vector]], alphas: Vector, n_folds: int, **options: Any) -> Matrix:
    """Mean losses of held-out rows, shape (F, n), by a fit for each fold and weight on the other rows alone."""
    out = np.empty((n_folds, len(alphas)))
    n = sum(len(y) for _, y in parts)
    for fold in range(n_folds):
        tests = [rows_of_folds(len(y), n_folds)[fold] for _, y in parts]
        train = [(np.delete(X, one, axis=0), np.delete(y, one)) for (X, y), one in zip(parts, tests, strict=True)]
        X, y = (np.concatenate([part[k][one] for part, one in zip(parts, tests, strict=True)]) for k in (0, 1))
        for number, alpha in enumerate((1.0 - len(y) / n) * alphas):
            problem = Problem.from_nodes(train, split="samples", fit_intercept=True, alpha=alpha, **options)
            found = solve(problem, method=ProximalNewton(), tol=1e-9)
            z = X @ found.coef + found.intercept
            losses = np.logaddexp(0.0, -y * z) if options["loss"] == "logistic" else 0.5 * (y - z) ** 2
            out[fold, number] = losses.mean()
    return out


@pytest.mark.parametrize("penalty", ["l1", "l2"])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_the_curve_is_that_of_a_fit_for_each_fold_and_weight_alone(loss: str, penalty: str) -> None:
    parts = cancer()
    method = CrossValidation(ProximalNewton(), n_folds=3, alphas=(0.5, 5.0, 50.0), tol=1e-9)
    result, curve = chosen(parts, method, loss=loss, penalty=penalty)
    expected = naive(parts, curve.weights, 3, loss=loss, penalty=penalty)
    np.testing.assert_allclose(curve.losses, expected, rtol=2e-4)
    assert curve.chosen == int(np.argmin(expected.mean(axis=0)))
    alone = Problem.from_nodes(
        parts, split="samples", fit_intercept=True, loss=loss, penalty=penalty, alpha=curve.alpha
    )
    same = solve(alone, method=ProximalNewton(), tol=1e-8)
    np.testing.assert_array_equal(result.coef, same.coef)  # the last fit is the one that the weight alone would have
    assert result.objective == same.objective


def test_the_choice_is_that_of_scikit_learns_logistic_regressions() -> None:
    parts = cancer()
    X, y = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    held = [
        np.concatenate([rows_of_folds(n, 5)[f] + at for n, at in zip(SIZES, (0, 130, 320), strict=True)])
        for f in range(5)
    ]
    alphas, losses = (100.0, 10.0, 1.0, 0.1), []
    for alpha in alphas:
        each = []
        for test in held:
            train = np.delete(np.arange(len(y)), test)
            model = LogisticRegression(C=len(y) / (alpha * len(train)), solver="newton-cholesky", tol=1e-10)
            model.fit(X[train], y[train])
            each.append(np.logaddexp(0.0, -y[test] * model.decision_function(X[test])).mean())
        losses.append(np.mean(each))
    _, curve = chosen(parts, CrossValidation(ProximalNewton(), alphas=alphas, tol=1e-9), loss="logistic", penalty="l2")
    np.testing.assert_allclose(curve.means, losses, rtol=1e-4)
    assert curve.alpha == alphas[int(np.argmin(losses))]


def test_least_squares_have_the_choice_of_lasso_cv() -> None:
    X, y = load_diabetes(return_X_y=True)
    parts = cut(scale(X), y, (120, 140, 182))
    alphas = np.geomspace(30.0, 0.03, 12)
    reference = glmesh.LassoCV(alphas=alphas, tol=1e-8).fit_nodes(parts)
    method = CrossValidation(ProximalNewton(), alphas=tuple(alphas * len(y)), tol=1e-9)
    result, curve = chosen(parts, method, penalty="l1")
    np.testing.assert_allclose(2.0 * curve.losses.T, reference.mse_path_, rtol=1e-5)
    assert curve.alpha == pytest.approx(reference.alpha_ * len(y))
    np.testing.assert_allclose(result.coef, reference.coef_, atol=1e-3)


@pytest.mark.parametrize("options", [{"loss": "logistic", "penalty": "l1"}, {"loss": "squared", "penalty": "l2"}])
def test_any_topology_has_the_same_bits(options: dict[str, Any]) -> None:
    parts = cancer()
    method = CrossValidation(ProximalNewton(), n_folds=2, alphas=() if options["penalty"] == "l1" else (1.0, 10.0))
    one, curve = chosen(parts, method, **options)
    other, again = chosen(parts, method, topology="path", **options)
    np.testing.assert_array_equal(one.coef, other.coef)
    np.testing.assert_array_equal(curve.losses, again.losses)
    np.testing.assert_array_equal(curve.weights, again.weights)
    assert curve.alpha == again.alpha


def test_weights_that_wait_for_others_are_chosen_from_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = cancer()
    method = CrossValidation(ProximalNewton(), n_folds=2, tol=1e-9)
    _, together = chosen(parts, method, loss="logistic", penalty="l1")
    monkeypatch.setattr(cross_validation, "MOST_NUMBERS", 7 * 2 * 700)
    _, apart = chosen(parts, method, loss="logistic", penalty="l1")
    np.testing.assert_allclose(together.losses, apart.losses, rtol=1e-3)
    assert together.alpha == apart.alpha


def test_with_an_l1_penalty_the_first_computed_weight_leaves_no_coefficient_and_the_last_some() -> None:
    parts = cancer()
    for loss in ("logistic", "squared"):
        _, curve = chosen(parts, CrossValidation(ProximalNewton(), n_folds=2), loss=loss, penalty="l1")
        sizes = []
        for alpha in (1.002 * curve.weights[0], 0.99 * curve.weights[0], curve.weights[-1]):
            spec = {"loss": loss, "penalty": "l1", "alpha": float(alpha)}
            problem = Problem.from_nodes(parts, split="samples", fit_intercept=True, **spec)
            sizes.append(int((solve(problem, method=ProximalNewton(), tol=1e-10).coef != 0).sum()))
        assert sizes[0] == 0
        assert 1 <= sizes[1] <= 3
        assert sizes[2] > 10


def test_one_standard_error_takes_the_largest_weight_that_is_as_good() -> None:
    rng = np.random.default_rng(0)
    for _ in range(cases(200)):
        losses = rng.normal(size=(5, 6)) + rng.normal(size=6)
        weights = np.sort(rng.random(6))[::-1]
        least, simple = (FoldCurve.of(weights, losses, rule) for rule in ("minimum", "one_standard_error"))
        assert least.chosen == int(np.argmin(losses.mean(axis=0)))
        limit = least.means[least.chosen] + least.errors[least.chosen]
        assert simple.alpha >= least.alpha
        assert simple.means[simple.chosen] <= limit
        assert (simple.means[: simple.chosen] > limit).all()


def test_weights_that_were_not_solved_are_not_chosen() -> None:
    losses = np.array([[0.3, np.nan, 0.2], [0.3, 0.1, 0.4]])
    for rule in ("minimum", "one_standard_error"):
        assert FoldCurve.of(np.array([3.0, 2.0, 1.0]), losses, rule).chosen in (0, 2)
    with pytest.raises(InvalidInput, match="no weight of the penalty was solved"):
        FoldCurve.of(np.array([1.0]), np.full((2, 1), np.nan), "minimum")


def test_a_choice_at_the_end_of_the_weights_says_that_better_ones_may_be_beyond() -> None:
    parts = cancer()
    method = CrossValidation(ProximalNewton(), alphas=(1e4, 1e5))
    result, curve = chosen(parts, method, loss="logistic", penalty="l2")
    assert curve.alpha == 1e4
    assert "the smallest of them: beyond it there may be better ones" in result.remark


def test_losses_with_kinks_take_the_interior_point_method() -> None:
    result, curve = chosen(
        cancer(), CrossValidation(InteriorPoint(), n_folds=2, alphas=(0.1, 10.0, 1e4)), loss="hinge", penalty="l2"
    )
    assert result.status.name == "CONVERGED"
    assert curve.alpha in (0.1, 10.0)


def test_every_row_is_held_out_once_also_where_there_are_fewer_than_folds() -> None:
    for n in (0, 1, 3, 5, 17):
        rows = rows_of_folds(n, 5)
        assert len(rows) == 5
        np.testing.assert_array_equal(np.sort(np.concatenate(rows)), np.arange(n))


def test_a_run_with_folds_cannot_be_saved_and_odd_options_are_refused(tmp_path: Any) -> None:
    parts = cancer()
    problem = Problem.from_nodes(parts, split="samples", loss="logistic")
    with (
        Run(problem, method=CrossValidation(ProximalNewton())) as run,
        pytest.raises(InvalidInput, match="cannot be saved"),
    ):
        run.save(tmp_path / "saved")
    for options in ({"n_folds": 1}, {"rule": "best"}, {"alphas": (1.0, 0.0)}, {"alphas": (float("inf"),)}):
        with pytest.raises(InvalidInput):
            CrossValidation(ProximalNewton(), **options)
