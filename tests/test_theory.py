"""The theorems bound what runs do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glmesh import Cola, Problem, Run, functions, solve, theory
from glmesh.errors import UnsuitablePair
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
        c = theory.constants(Run(problem, n_nodes=3))
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
