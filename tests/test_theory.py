"""The theorems bound what runs do."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glmesh import Cola, Problem, Run, functions, solve, theory
from glmesh.errors import UnsuitablePair
from glmesh.network import mixing, topology
from tests.cases import prop


def ridge(rng: np.random.Generator, m: int, p: int, alpha: float, split: str = "features") -> tuple[Problem, float]:
    """A ridge problem and min O_A, in closed form (split by samples O_A is the dual, so minus the primal)."""
    X = rng.normal(size=(m, p))
    y = X @ rng.normal(size=p) + rng.normal(size=m)
    problem = Problem.glm(X, y, alpha=alpha, split=split)
    best = problem.objective(np.linalg.solve(X.T @ X + alpha * np.eye(p), X.T @ y))
    return problem, best if split == "features" else -best


@prop(400)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(("ring", "path", "complete", "star", "grid")),
    st.integers(1, 9),
    st.sampled_from(("features", "samples")),
)
def test_theorem_1_bounds_every_round(number: int, topology: str, n_nodes: int, split: str) -> None:
    rng = np.random.default_rng(number)
    m, p, alpha = int(rng.integers(3, 25)), int(rng.integers(2, 15)), float(np.exp(rng.uniform(-1, 3)))
    problem, best = ridge(rng, m, p, alpha, split)
    # Theta of the subproblem is asked for and recorded; the rate is that of the worst one reached
    run = Run(problem, method=Cola(local_passes=200, local_accuracy=0.3), topology=topology, n_nodes=n_nodes)
    c = theory.constants(run)
    initial = run.measure().h - best
    worst_theta = 0.0
    for t in range(1, 40):
        next(run)
        worst_theta = max(worst_theta, float(np.nanmax(run.theta)))
        if worst_theta >= 1:
            return
        allowed = initial * theory.linear_rate(c, worst_theta) ** t
        assert run.measure().h - best <= allowed * (1 + 1e-9) + 1e-9 * abs(best)


def test_rounds_promised_for_strongly_convex() -> None:
    rng = np.random.default_rng(0)
    problem, best = ridge(rng, 30, 8, 20.0)
    run = Run(problem, method=Cola(local_passes=100, local_accuracy=0.01), topology="complete", n_nodes=2)
    c = theory.constants(run)
    initial = run.measure().h - best
    target = 1e-3 * initial
    promised = theory.rounds_strongly_convex(c, initial, target, theta=0.01)
    assert 0 < promised < 100_000
    assert theory.rounds_strongly_convex_gap(c, initial, target, theta=0.01) > promised
    assert theory.rounds_strongly_convex(c, initial, 2 * initial) == 0
    done = solve(problem, method=run.method, topology="complete", n_nodes=2, stop="rounds", max_rounds=promised)
    assert done.history["h"][-1] - best <= target


def test_theorem_2_bounds_the_averaged_gap() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 4)) / 4
    problem = Problem.glm(X, rng.normal(size=12), penalty=functions.L1(lo=-1.0, hi=1.0), alpha=0.05)
    run = Run(problem, method=Cola(local_passes=200, local_accuracy=0.01), topology="complete", n_nodes=2)
    c = theory.constants(run)
    assert c.support == 1.0
    target = 0.5
    start, end = theory.rounds_convex(c, run.measure().gap, target, theta=0.01)
    assert 0 < start < end < 20_000
    averages = theory.AveragedIterates(run)
    for t in range(end):
        if t >= start:
            averages.add()
        next(run)
    assert averages.count == end - start
    assert -1e-12 <= averages.gap() <= target


def test_support_of_a_lasso_comes_from_its_objective_at_zero() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(20, 6)), rng.normal(size=20)
    run = Run(Problem.glm(X, y, penalty="l1", alpha=2.0), n_nodes=3)
    assert theory.constants(run).support == pytest.approx(0.5 * y @ y / 2.0)
    result = solve(run.problem, n_nodes=3, max_rounds=2000)
    assert np.abs(result.x).max() <= theory.constants(run).support
    averages = theory.AveragedIterates(run)
    averages.add()
    assert np.isfinite(averages.gap())


def test_no_support_is_made_up_where_the_argument_fails() -> None:
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(20, 6)), rng.normal(size=20)
    dual = Problem.glm(X, y, loss="squared_epsilon_insensitive", split="samples")
    away = Problem.glm(X, np.zeros(20), penalty=functions.L1(lo=2.0))
    for problem in (dual, away):
        c = theory.constants(Run(problem, n_nodes=3, method=Cola(acceleration="momentum")))
        assert c.support == np.inf
        with pytest.raises(UnsuitablePair, match="bounded support"):
            theory.rounds_convex(c, 1.0, 0.1)
    risky = theory.constants(Run(Problem.glm(X, y, penalty="l1"), n_nodes=3, method=Cola(sigma=0.01)))
    with pytest.raises(UnsuitablePair, match="safe sigma"):
        theory.rounds_convex(risky, 1.0, 0.1)


def test_averages_mix_as_often_as_the_method() -> None:
    rng = np.random.default_rng(2)
    run = Run(ridge(rng, 10, 4, 1.0)[0], n_nodes=4, method=Cola(gossip_steps=3))
    next(run)
    averages = theory.AveragedIterates(run)
    averages.add()
    W = run.mixing.matrix.toarray()
    np.testing.assert_allclose(averages.v, W @ W @ W @ run.estimates)


def test_what_theory_does_not_cover_is_refused() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 6)), rng.normal(size=20)
    lasso = theory.constants(Run(Problem.glm(X, y, penalty="l1", alpha=2.0), n_nodes=3))
    with pytest.raises(UnsuitablePair, match="strongly convex"):
        theory.linear_rate(lasso)
    ridge_run = Run(Problem.glm(X, y), n_nodes=3, method=Cola(gamma=0.5))
    with pytest.raises(UnsuitablePair, match="gamma = 1"):
        theory.linear_rate(theory.constants(ridge_run))
    with pytest.raises(UnsuitablePair, match="bounded support"):
        theory.rounds_convex(theory.constants(Run(Problem.glm(X, y), n_nodes=3)), 1.0, 0.1)
    with pytest.raises(UnsuitablePair, match="Theta"):
        lasso.progress(1.0)


def test_exact_averaging_is_the_limit_of_beta_to_zero() -> None:
    rng = np.random.default_rng(0)
    c = theory.constants(Run(ridge(rng, 20, 6, 1.0)[0], n_nodes=1))
    assert c.beta == 0.0
    assert c.progress(0.25) == pytest.approx(0.75)


# --- nodes that are away, and graphs that change ---------------------------------------------------


def test_the_former_name_of_the_constants_warns_and_works() -> None:
    with pytest.warns(DeprecationWarning, match="RateConstants"):
        assert getattr(theory, "Constants") is theory.RateConstants  # noqa: B009  # the type checker knows no such name


def some_constants() -> theory.RateConstants:
    """Made up, and covered by both theorems."""
    values = {"tau": 1.0, "mu": 0.5, "support": 1.0, "sigma_max": 2.0, "sigma": 20.0, "beta": 0.6}
    return theory.RateConstants(**values, relaxation=5.0, gamma=1.0, n_nodes=5)


def promises(**accuracy: float) -> list[float]:
    """All that theory promises; larger is worse."""
    c = some_constants()
    return [
        theory.linear_rate(c, **accuracy),
        theory.rounds_strongly_convex(c, 1.0, 1e-6, **accuracy),
        theory.rounds_strongly_convex_gap(c, 1.0, 1e-6, **accuracy),
        *theory.rounds_convex(c, 1.0, 1e-3, **accuracy),
    ]


shares = st.floats(0.0, 0.95)


@prop(300)
@given(shares, shares)
def test_nodes_away_and_inaccurate_nodes_slow_down_in_the_same_way(p: float, theta: float) -> None:
    mean = theory.mean_accuracy(theta, p_max=p)
    assert mean == pytest.approx(1 - (1 - p) * (1 - theta))
    assert promises(theta=theta, p_max=p) == promises(theta_max=theta, p_max=p) == promises(theta=mean)
    assert promises(theta=theta, p_max=0.0) == promises(theta=theta)
    assert promises(p_max=p) == promises(theta=p)
    assert promises(theta=theta, p_max=p) == pytest.approx(promises(theta=p, p_max=theta), rel=1e-9, abs=1)


@prop(300)
@given(shares, shares, shares)
def test_promises_worsen_with_p_max_and_theta_max(p: float, more: float, theta: float) -> None:
    low, high = sorted((p, more))
    for better, worse in (
        (promises(p_max=low, theta_max=theta), promises(p_max=high, theta_max=theta)),
        (promises(p_max=theta, theta_max=low), promises(p_max=theta, theta_max=high)),
    ):
        assert all(a <= b for a, b in zip(better, worse, strict=True))
        assert better[0] < worse[0] or high - low < 1e-9


@pytest.mark.parametrize(
    ("accuracy", "message"),
    [
        ({"p_max": 1.0}, "a node that is away for good makes the rate vacuous"),
        ({"p_max": -0.1}, "p_max must be in"),
        ({"p_max": np.nan}, "p_max must be in"),
        ({"p_max": 0.5, "theta_max": 1.0}, "Theta must be in"),
        ({"p_max": 0.9, "theta": -0.5}, "Theta must be in"),
        ({"theta": 0.1, "theta_max": 0.2}, "name the same accuracy; give one of them"),
    ],
)
def test_accuracies_that_promise_nothing_are_refused(accuracy: dict[str, float], message: str) -> None:
    c = some_constants()
    for promise in (
        lambda: theory.mean_accuracy(**accuracy),
        lambda: theory.linear_rate(c, **accuracy),
        lambda: theory.rounds_strongly_convex(c, 1.0, 0.1, **accuracy),
        lambda: theory.rounds_strongly_convex_gap(c, 1.0, 0.1, **accuracy),
        lambda: theory.rounds_convex(c, 1.0, 0.1, **accuracy),
    ):
        with pytest.raises(UnsuitablePair, match=message):
            promise()


@pytest.mark.parametrize("away", [0.2, 0.6])
def test_theorem_1_bounds_the_mean_of_runs_whose_nodes_are_away_at_times(away: float) -> None:
    problem, best = ridge(np.random.default_rng(3), 24, 10, 5.0)
    n_nodes, seeds, rounds = 5, 10, 25
    above = np.zeros((seeds, rounds + 1))
    worst_theta = 0.0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        run = Run(problem, method=Cola(local_passes=200, local_accuracy=0.3), topology="ring", n_nodes=n_nodes)
        above[seed, 0] = run.measure().h - best
        for t in range(1, rounds + 1):
            works = rng.random(n_nodes) >= away
            works[rng.integers(n_nodes)] |= not works.any()
            run.nodes.method = dataclasses.replace(run.nodes.method, local_passes=(200 * works).tolist())
            next(run)
            worst_theta = max(worst_theta, float(run.theta[works].max()))
            above[seed, t] = run.measure().h - best
    c = theory.constants(run)
    allowed = above[0, 0] * theory.linear_rate(c, theta_max=worst_theta, p_max=away) ** np.arange(rounds + 1)
    assert worst_theta < 1
    assert (above.mean(axis=0) <= allowed * (1 + 1e-9)).all()
    assert above[:, -1].mean() < 0.5 * above[0, 0]  # and they do get somewhere


def test_time_varying_graphs_put_the_beta_of_a_window_in() -> None:
    run = Run(ridge(np.random.default_rng(0), 20, 6, 1.0)[0], n_nodes=4, method=Cola(gossip_steps=2))
    own = theory.constants(run)
    constant = mixing.window_beta([run.mixing] * 2)
    assert theory.constants(run, beta=constant).beta == pytest.approx(own.beta)
    graphs = [topology.path(4), topology.star(4)]
    beta = mixing.window_beta(mixing.sequence(graphs))
    varying = theory.constants(run, beta=beta)
    assert varying == dataclasses.replace(own, beta=beta)
    assert own.beta < beta
    assert theory.linear_rate(own) < theory.linear_rate(varying) < 1


@pytest.mark.parametrize("beta", [1.0, -0.1, np.nan])
def test_a_beta_that_is_no_contraction_is_refused(beta: float) -> None:
    run = Run(ridge(np.random.default_rng(0), 20, 6, 1.0)[0], n_nodes=4)
    with pytest.raises(UnsuitablePair, match="over a longer window"):
        theory.constants(run, beta=beta)
