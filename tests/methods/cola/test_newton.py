"""Newton's method with exact sums: few rounds, however badly scaled the data are."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression

from glmesh import Cola, Network, Problem, Run, solve
from glmesh.engine.path import solve_path
from glmesh.errors import UnsuitablePair
from glmesh.functions import SmoothedHingeLoss
from glmesh.methods.cola import newton
from tests.cases import prop

NEWTON = Cola(acceleration="newton")
LOSSES = ["squared", "logistic", "huber", "squared_hinge", "smoothed_hinge", "squared_epsilon_insensitive"]


def data(m=60, p=8, seed=0, spread=3.0):
    """Columns whose scales differ by ten to the `spread`."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, p)) * np.logspace(0, spread, p)
    z = (X / np.logspace(0, spread, p))[:, :3].sum(axis=1)
    return X, z + 0.5 * rng.normal(size=m)


def problem(loss="logistic", seed=0, **options):
    X, y = data(seed=seed)
    labels = loss in ("logistic", "squared_hinge", "smoothed_hinge")
    return Problem.glm(X, np.sign(y) if labels else y, loss=loss, split="samples", **{"alpha": 0.1} | options)


def advance(run, rounds):
    for _ in range(rounds):
        next(run)
    return run


@pytest.mark.parametrize("sparse", [False, True])
def test_a_round_is_a_newton_step_on_the_pooled_data(sparse):
    X, y = data(spread=0.5)
    y = np.sign(y)
    weight = np.linspace(0.5, 2.0, len(y))
    glm = Problem.glm(
        sp.csr_array(X) if sparse else X, y, loss="logistic", alpha=2.0, sample_weight=weight, split="samples"
    )
    run = Run(glm, n_nodes=5, method=NEWTON, n_blocks=2)
    w = np.zeros(X.shape[1])
    for _ in range(4):
        next(run)
        np.testing.assert_allclose(run.states[0].exact.step.w, w, atol=1e-12)
        slopes = 2.0 * w - X.T @ (weight * y * expit(-y * (X @ w)))
        bend = X.T @ (X * (weight * expit(X @ w) * expit(-X @ w))[:, None]) + 2.0 * np.eye(len(w))
        w = w - np.linalg.solve(bend, slopes)


@pytest.mark.parametrize("graph", ["ring", "star", "complete"])
@pytest.mark.parametrize("loss", LOSSES)
def test_few_rounds_whatever_the_scales_and_the_loss(loss, graph):
    for fit_intercept in (False, True):
        glm = problem(loss, fit_intercept=fit_intercept)
        result = solve(glm, n_nodes=6, topology=graph, method=NEWTON, tol=1e-12, max_rounds=40)
        assert result.status.name == "CONVERGED", (loss, result.rounds, result.gap)
        again = solve(glm, n_nodes=1, tol=1e-12, max_rounds=40)
        np.testing.assert_allclose(result.coef, again.coef, rtol=1e-6, atol=1e-9)


@prop(100)
@given(
    st.sampled_from(LOSSES), st.integers(1, 9), st.booleans(), st.integers(1, 3), st.floats(1e-2, 1e3),
    st.integers(0, 10**6),
)  # fmt: skip
def test_the_objective_falls_and_the_estimates_are_ax(loss, n_nodes, fit_intercept, n_blocks, alpha, seed):
    glm = problem(loss, seed % 7, fit_intercept=fit_intercept, alpha=alpha)
    run = Run(glm, n_nodes=n_nodes, method=NEWTON, n_blocks=min(n_blocks, n_nodes), seed=seed)
    rng, last = np.random.default_rng(seed), np.inf
    for state in run.states:  # from anywhere, however far
        state.exact.w = np.random.default_rng(seed).normal(size=run.blocks[0].d) * 10 ** rng.uniform(-3, 3)
    for state in run.states:
        state.exact.w = run.states[0].exact.w
    for _ in range(60):
        next(run)
        assert len({state.exact.value for state in run.states}) == 1
        value = run.states[0].exact.value
        assert value <= last * (1 + 1e-12)
        last = value
        ax = sum(block.columns.dot(state.x) for block, state in zip(run.blocks, run.states, strict=True))
        size = sum(abs(block.columns.to_scipy()) @ np.abs(s.x) for block, s in zip(run.blocks, run.states, strict=True))
        assert (np.abs(run.estimates - ax) <= 1e-13 * (1 + size)).all()
    assert run.measure().gap <= 1e-6 * (1e-3 + abs(run.measure().objective))


def test_raw_iris_with_an_intercept():
    """What scikit-learn warns of, the split by samples takes a few dozen rounds for."""
    X, y = load_iris(return_X_y=True)
    for k in range(3):
        labels = np.where(y == k, 1, -1)
        theirs = LogisticRegression(tol=1e-10, max_iter=10_000, solver="newton-cholesky").fit(X, labels)
        glm = Problem.glm(X, labels, loss="logistic", fit_intercept=True, split="samples")
        ours = solve(glm, tol=1e-10, max_rounds=120)
        assert ours.status.name == "CONVERGED"
        assert [entry[1] for entry in ours.story] == ["momentum", "newton"]
        np.testing.assert_allclose(ours.coef, theirs.coef_[0], rtol=1e-6)
        assert ours.intercept == pytest.approx(theirs.intercept_[0], rel=1e-6)


def test_a_step_that_leads_too_far_is_shortened():
    """Losses that are almost straight where the step begins and bend where it leads to."""
    lengths = []
    for seed in range(20):
        X, y = data(m=30, p=4, seed=seed, spread=0.0)
        glm = Problem.glm(50 * X, np.sign(y), loss="logistic", alpha=1e-3, split="samples")
        run = Run(glm, n_nodes=3, method=NEWTON)
        for _ in range(60):
            next(run)
            lengths.append(run.states[0].exact.step.length)
        assert run.measure().gap <= 1e-8 * run.measure().objective
    assert min(lengths) < 1.0


def test_what_was_found_before_may_be_worse_than_nothing():
    X, y = data(spread=0.0)
    glm = Problem.glm(X, np.sign(y), loss="logistic", alpha=0.1, split="samples")
    bad = 0.999 * np.sign(y) * (X[:, 0] > 0)  # feasible for the dual, and far from its solution
    run = Run(glm, n_nodes=4, method=NEWTON, warm_start=bad)
    advance(run, 2)
    np.testing.assert_array_equal(run.states[0].exact.w, np.zeros(8))
    assert advance(run, 10).measure().gap < 1e-10


def test_the_model_that_nodes_would_write_never_becomes_worse():
    """Variables that belong to where Newton's method is may have a far worse one; until it is better they wait."""
    for loss in LOSSES:
        for fit_intercept in (False, True):
            history = solve(
                problem(loss, fit_intercept=fit_intercept), n_nodes=4, tol=1e-10, max_rounds=60, method=NEWTON
            ).history["objective"]
            assert (np.diff(history) <= 0.02 * np.abs(history[:-1])).all(), (loss, fit_intercept, history)


@pytest.mark.parametrize("graph", ["ring", "complete"])
def test_an_intercept_that_no_loss_bends_at(graph):
    """Losses that are straight nearby have no Hessian; what a step leaves out is not taken for solved."""
    X, y = load_diabetes(return_X_y=True)
    far = Problem.glm(X, y, loss="huber", fit_intercept=True, alpha=1e-2, split="samples")
    signs = np.where(y > 140, 1.0, -1.0)
    apart = X - np.stack([X[signs == s].mean(axis=0) for s in (-1, 1)])[(signs > 0).astype(int)]
    flat = Problem.glm(apart, signs, loss=SmoothedHingeLoss(1.0), alpha=1e-2, split="samples")
    for glm in (far, flat):
        result = solve(glm, n_nodes=4, topology=graph, method=NEWTON, tol=1e-8, max_rounds=40)
        assert result.status.name == "CONVERGED"
    theirs = solve(far, n_nodes=1, tol=1e-11).intercept
    assert solve(far, n_nodes=4, topology=graph, tol=1e-8).intercept == pytest.approx(theirs, rel=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("alpha", [1e-12, 1e-4, 1.0])
def test_rounding_never_makes_a_model_worse(scale, alpha):
    """The gradient of f at v multiplies the rounding of v by 1/l2; who has a better model keeps it."""
    X, y = data(m=80, p=4, spread=0.0)
    glm = Problem.glm(scale * X, np.sign(y), loss="logistic", alpha=alpha, split="samples")
    history = solve(glm, n_nodes=3, method=NEWTON, tol=1e-10, max_rounds=60).history["objective"]
    assert (np.diff(history) <= 0.02 * np.abs(history[:-1])).all()


@pytest.mark.parametrize("method", [NEWTON, Cola(acceleration="sums"), Cola()])
@pytest.mark.parametrize("network", [None, Network()])
def test_a_warm_start_of_a_run_that_begins_with_a_sum(method, network):
    start = solve(problem(), n_nodes=4, tol=1e-2)
    result = solve(
        problem(), n_nodes=4, topology="complete", method=method, warm_start=start, network=network, tol=1e-6
    )
    assert result.status.name == "CONVERGED"


def test_a_node_whose_samples_have_no_weight():
    X, y = data()
    weights = [np.ones(20), np.zeros(20), np.ones(20)]
    parts = list(zip(np.split(X, 3), np.split(np.sign(y), 3), weights, strict=True))
    for loss in ("logistic", "squared_hinge"):
        glm = Problem.from_nodes(parts, loss=loss, alpha=0.1)
        assert solve(glm, method=NEWTON, tol=1e-10, max_rounds=40).status.name == "CONVERGED"


def test_blocks_agree_after_a_checkpoint(tmp_path):
    """Also where the next round shortens a step."""
    shortened = 0
    for seed in range(12):
        X, y = data(m=30, p=4, seed=seed, spread=0.0)
        glm = Problem.glm(50 * X, np.sign(y), loss="logistic", alpha=1e-3, split="samples")
        run = advance(Run(glm, n_nodes=3, method=NEWTON, n_blocks=3), 2)
        run.save(tmp_path / "run.ckpt")
        again = Run.resume(tmp_path / "run.ckpt")
        for _ in range(15):
            next(run)
            next(again)
            lengths = {np.inf if state.exact.step is None else state.exact.step.length for state in again.states}
            assert len(lengths) == 1
            shortened += min(lengths) < 1
        np.testing.assert_array_equal(run.x, again.x)
    assert shortened


def test_newton_returns_when_the_problem_changes():
    for graph in ("ring", "complete"):
        run = advance(Run(problem(), n_nodes=4, topology=graph), 60)
        assert run.story[-1][1] == "momentum"
        run.set_alpha(0.01)
        advance(run, 18)
        assert run.story[-1][1] == "newton"
        assert run.measure().gap <= 1e-9 * run.measure().objective


def test_newton_on_a_path_goes_on_from_the_last_solution():
    path = solve_path(problem(), np.geomspace(10, 0.1, 8), n_nodes=4, tol=1e-8, method=NEWTON)
    assert all(result.rounds <= 8 for result in path.results[1:])
    for alpha, result in zip(path.alphas, path.results, strict=True):
        assert result.objective == pytest.approx(solve(problem(alpha=alpha), n_nodes=1, tol=1e-10).objective, rel=1e-7)


def test_newton_stops_where_rounding_begins():
    run = advance(Run(problem(), n_nodes=4, method=NEWTON), 30)
    x = run.x
    assert run.states[0].exact.idle > 3
    np.testing.assert_array_equal(advance(run, 5).x, x)


def test_auto_leaves_newton_when_nothing_is_left_to_win():
    run = advance(Run(problem(), n_nodes=4), 60)
    assert [entry[1] for entry in run.story] == ["momentum", "newton", "momentum"]
    assert "nothing more to win" in run.story[-1][2]
    assert run.measure().gap <= 1e-11 * run.measure().objective


def test_the_penalty_may_change_in_mid_run():
    for fit_intercept in (False, True):
        run = advance(Run(problem(fit_intercept=fit_intercept), n_nodes=4, method=NEWTON), 12)
        run.set_alpha(5.0)
        advance(run, 12)
        fresh = solve(problem(fit_intercept=fit_intercept, alpha=5.0), n_nodes=1, tol=1e-12)
        assert run.measure().gap < 1e-10
        assert run.measure().objective == pytest.approx(fresh.objective, rel=1e-9)


def test_newton_gives_way_to_momentum_when_a_part_is_missing(monkeypatch):
    monkeypatch.setattr("glmesh.collectives.totals.SHORT_VECTORS", 0)
    plan = {"link": [{"between": [2, 3], "from": 3}]}
    X, y = data(spread=0.0)
    run = Run(
        Problem.glm(X, np.sign(y), loss="logistic", alpha=1.0, split="samples"), n_nodes=6, method=NEWTON, faults=plan
    )
    advance(run, 3)
    assert [entry[1] for entry in run.story] == ["newton"]
    before = run.measure().objective
    advance(run, 200)
    assert [entry[1] for entry in run.story] == ["newton", "momentum"]
    assert run.measure().gap < 1e-4 * before


@pytest.mark.parametrize(
    "glm",
    [
        lambda: Problem.glm(*data(), penalty="l2"),
        lambda: Problem.glm(*data(), penalty="elasticnet", split="samples"),
        lambda: Problem.glm(data()[0], np.sign(data()[1]), loss="hinge", split="samples"),
        lambda: Problem.glm(*data(p=128), penalty="l2", split="samples"),
    ],
)
def test_what_newton_does_not_suit(glm):
    with pytest.raises(UnsuitablePair, match="at most 127 coefficients"):
        Run(glm(), n_nodes=4, method=NEWTON)
    assert "newton" not in [entry[1] for entry in advance(Run(glm(), n_nodes=4, topology="complete"), 3).story]


@prop(100)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_symmetric_systems(size, seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(size, size)) * np.logspace(0, 3, size)
    matrix, b = root.T @ root + 1e-3 * np.eye(size), rng.normal(size=size)
    np.testing.assert_allclose(matrix @ newton.solve_symmetric(matrix, b), b, atol=1e-6)


def test_a_direction_without_curvature_is_left_alone():
    matrix = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 4.0]])
    np.testing.assert_array_equal(newton.solve_symmetric(matrix, np.array([2.0, 1.0, 2.0])), [1.0, 0.0, 0.5])
