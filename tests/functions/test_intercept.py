"""A free intercept split by samples: held near an anchor that moves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from glmesh import Cola, Problem, Run, solve
from glmesh.engine.path import solve_path
from glmesh.errors import InvalidInput
from glmesh.linalg.columns import Columns
from tests.cases import SOAK

MOMENTUM = Cola(acceleration="momentum")
RNG = np.random.default_rng(8)
X = RNG.normal(size=(60, 7))
Y = X[:, 0] - 2.0 + 0.3 * RNG.normal(size=60)
WEIGHT = RNG.uniform(0.2, 2.0, 60)
LABELS = np.where(X[:, 1] + 0.8 + 0.5 * RNG.normal(size=60) > 0, 1.0, -1.0)
LOSSES = {"squared": Y, "huber": Y, "logistic": LABELS, "squared_hinge": LABELS}


@pytest.mark.parametrize("alpha", [0.1, 100.0])
@pytest.mark.parametrize("loss", LOSSES)
def test_both_splits_agree(loss, alpha):
    options = {"loss": loss, "alpha": alpha, "fit_intercept": True, "sample_weight": WEIGHT}
    by_features = solve(Problem.glm(X, LOSSES[loss], **options), n_nodes=2, tol=1e-11, record_every=5)
    problem = Problem.glm(sp.csr_array(X), LOSSES[loss], split="samples", **options)
    by_samples = solve(problem, n_nodes=5, tol=1e-10, record_every=5)
    assert by_samples.relative_gap <= 1e-10
    assert by_samples.objective == pytest.approx(by_features.objective, rel=1e-9)
    assert by_samples.objective == pytest.approx(problem.objective(by_samples.coef, by_samples.intercept), rel=1e-12)
    assert by_samples.intercept == pytest.approx(by_features.intercept, rel=1e-3, abs=1e-5)
    np.testing.assert_allclose(by_samples.coef, by_features.coef, rtol=1e-3, atol=1e-4)
    assert len(by_samples.coef_of(3)) == 7


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive", "quantile", "smoothed_hinge"])
def test_the_gap_bounds_what_no_step_of_the_intercept_can_better(loss):
    """These have no form split by features: the intercept is compared with those beside it."""
    y = LABELS if loss in ("hinge", "smoothed_hinge") else Y
    problem = Problem.glm(X, y, loss=loss, split="samples", fit_intercept=True)
    tol = 1e-5 if SOAK else 1e-4
    result = solve(problem, n_nodes=4, tol=tol, max_rounds=20_000, record_every=5)
    assert result.relative_gap <= tol
    for step in (-0.1, -1e-3, 1e-3, 0.1):
        assert problem.objective(result.coef, result.intercept + step) >= result.objective * (1 - tol)


def test_the_gap_is_never_below_the_truth():
    problem = Problem.glm(X, LABELS, loss="logistic", split="samples", fit_intercept=True)
    best = solve(Problem.glm(X, LABELS, loss="logistic", fit_intercept=True), n_nodes=1, tol=1e-13).objective
    seen = []
    with Run(problem, n_nodes=5, method=MOMENTUM) as run:
        for _ in range(80):
            next(run)
            run.move_anchor()
            seen.append(run.measure().gap - (run.measure().objective - best))
    assert min(seen) >= -1e-9 * best
    assert len(run.anchors) > 2


def test_the_same_bits_in_any_blocks_and_after_a_checkpoint(tmp_path):
    problem = Problem.glm(X, LABELS, loss="logistic", split="samples", fit_intercept=True)
    runs = [Run(problem, n_nodes=6, n_blocks=n, method=MOMENTUM) for n in (1, 2, 6)]
    for run in runs:
        for _ in range(40):
            next(run)
            run.move_anchor()
        np.testing.assert_array_equal(run.x, runs[0].x)
        assert run.anchors == runs[0].anchors
    options = {"n_nodes": 6, "tol": 1e-9, "record_every": 3}
    whole = solve(problem, **options)
    solve(problem, max_rounds=17, checkpoint=tmp_path / "run", **options)
    again = solve(problem, checkpoint=tmp_path / "run", **options)
    np.testing.assert_array_equal(again.x, whole.x)
    assert again.intercept == whole.intercept


def test_data_that_is_apart():
    parts = [(X[:10], LABELS[:10]), (X[10:], LABELS[10:])]
    apart = solve(Problem.from_nodes(parts, loss="logistic", fit_intercept=True), n_nodes=2, tol=1e-10)
    pooled = solve(Problem.glm(X, LABELS, loss="logistic", fit_intercept=True), n_nodes=2, tol=1e-10)
    assert apart.intercept == pytest.approx(pooled.intercept, rel=1e-4)


@pytest.mark.parametrize("options", [{"stop": "certificate"}, {"faults": {"random": [{"loss": 0.1}]}}])
def test_what_does_not_go_with_a_free_intercept_is_refused(options):
    with pytest.raises(InvalidInput, match=r"free intercept.*split='features'.*column of ones"):
        solve(Problem.glm(X, Y, split="samples", fit_intercept=True), n_nodes=3, method=MOMENTUM, **options)


@pytest.mark.parametrize("dense", [True, False])
def test_a_row_below_the_others(dense):
    matrix = X.T if dense else sp.csc_array(np.where(X > 0, X, 0.0).T)
    wide = Columns.of(matrix).with_row(0.25).to_scipy()
    np.testing.assert_array_equal(
        np.asarray(wide if dense else wide.toarray())[:-1], matrix if dense else matrix.toarray()
    )
    assert (np.asarray(wide if dense else wide.toarray())[-1] == 0.25).all()


def test_alpha_may_change_in_mid_run():
    problem = Problem.glm(X, Y, penalty="l1", alpha=20.0, fit_intercept=True)
    with Run(problem, n_nodes=4, certify=True) as run:
        for _ in range(60):
            next(run)
        run.set_alpha(2.0)
        assert run.certificate is None, "what was certified is another problem's"
        for _ in range(200):
            next(run)
        best = solve(problem.with_alpha(2.0), n_nodes=1, tol=1e-12).objective
        assert run.measure().objective == pytest.approx(best, rel=1e-6)
        assert run.certificate.bound < 1e-2 * best
    with pytest.raises(InvalidInput, match="alpha must be a finite number > 0"):
        problem.with_alpha(0.0)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_a_path_has_the_intercepts_of_the_split_by_features(l1_ratio, apart):
    options = {"penalty": "elasticnet", "l1_ratio": l1_ratio, "alpha": 1.0, "fit_intercept": True}
    target = Y + 7.0
    if apart:
        problem = Problem.from_nodes([(X[k::4], target[k::4]) for k in range(4)], **options)
    else:
        problem = Problem.glm(X, target, split="samples", **options)
    path = solve_path(problem, [4.0, 0.1], n_nodes=4, tol=1e-9)
    for alpha, found in zip(path.alphas, path.results, strict=True):
        best = solve(Problem.glm(X, target, **options | {"alpha": float(alpha)}), n_nodes=1, tol=1e-12)
        assert found.intercept == pytest.approx(best.intercept, rel=1e-3)
        assert found.objective == pytest.approx(best.objective, rel=1e-6)
        np.testing.assert_allclose(found.coef, best.coef, atol=1e-3)
