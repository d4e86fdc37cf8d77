"""Several problems on the same rows: one total a round for all, and the same bits as each alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from glmesh import Cola, Problem, solve
from glmesh.engine import together as together_module
from glmesh.engine.path import solve_path, solve_paths
from glmesh.engine.result import Status
from glmesh.engine.together import solve_together
from glmesh.errors import InvalidData, InvalidInput
from glmesh.methods import InteriorPoint, ProximalNewton

OPTIONS = {"n_nodes": 5, "topology": "ring", "tol": 1e-8}


def rows(seed: int, *, sparse: bool = False) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 6)) * np.array([1.0, 1e3, 1e-2, 1.0, 5.0, 1.0]) + np.array([0, 10, 0, 0, 3, 0])
    X[rng.random(X.shape) < (0.7 if sparse else 0.0)] = 0.0
    return (sp.csr_array(X) if sparse else X), rng.integers(0, 3, size=60)


def one_against_rest(X, y, loss, **options):
    targets = [np.where(y == c, 1.0, -1.0) for c in range(3)]
    weights = [np.where(y == c, 1.0 + c, 1.0) for c in range(3)]
    first = Problem.glm(
        X, targets[0], loss=loss, split="samples", fit_intercept=True, sample_weight=weights[0], **options
    )
    return [first] + [first.with_targets([t], [w]) for t, w in zip(targets[1:], weights[1:], strict=True)]


METHODS = [("logistic", ProximalNewton()), ("squared_hinge", ProximalNewton()), ("hinge", InteriorPoint())]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("loss", "method"), METHODS, ids=lambda one: str(one)[:14])
def test_every_problem_goes_through_the_same_bits_as_alone(loss, method, sparse):
    X, y = rows(1, sparse=sparse)
    problems = one_against_rest(X, y, loss)
    both = solve_together(problems, method=method, **OPTIONS)
    alone = [solve(problem, method=method, **OPTIONS) for problem in problems]
    for one, other in zip(both, alone, strict=True):
        assert one.status is other.status is Status.CONVERGED
        assert one.rounds == other.rounds
        assert np.array_equal(one.coef, other.coef)
        assert one.intercept == other.intercept
        for name in ("objective", "gap"):
            assert np.array_equal(one.history[name], other.history[name], equal_nan=True)


@pytest.mark.parametrize("seed", range(4))
def test_all_problems_cost_the_communications_of_the_slowest(seed):
    X, y = rows(seed)
    problems = one_against_rest(X, y, "logistic")
    both = solve_together(problems, method=ProximalNewton(), **OPTIONS)
    alone = [solve(problem, method=ProximalNewton(), **OPTIONS) for problem in problems]
    assert max(one.communications for one in both) == max(one.communications for one in alone)
    assert max(one.bytes for one in both) < sum(one.bytes for one in alone)


def test_problems_that_are_too_large_for_one_total_are_solved_one_after_the_other(monkeypatch):
    X, y = rows(2)
    problems = one_against_rest(X, y, "logistic")
    both = solve_together(problems, method=ProximalNewton(), **OPTIONS)
    monkeypatch.setattr(together_module, "MOST_BYTES", 1)
    apart = solve_together(problems, method=ProximalNewton(), **OPTIONS)
    assert all(np.array_equal(one.coef, other.coef) for one, other in zip(both, apart, strict=True))
    assert max(one.communications for one in apart) > 2 * max(one.communications for one in both)


@pytest.mark.parametrize("more", [{"n_blocks": 3}, {"n_jobs": 2}])
@pytest.mark.parametrize(
    ("loss", "penalty", "method"),
    [
        ("logistic", "l1", ProximalNewton()),
        ("squared_hinge", "l2", ProximalNewton()),
        ("hinge", "l2", InteriorPoint()),
    ],
    ids=["logistic", "squared hinge", "hinge"],
)
def test_blocks_and_threads_do_not_change_a_bit(loss, penalty, method, more):
    X, y = rows(2)
    problems = one_against_rest(X, y, loss, penalty=penalty)
    first = solve_together(problems, method=method, **OPTIONS)
    second = solve_together(problems, method=method, **OPTIONS, **more)
    assert all(np.array_equal(one.coef, other.coef) for one, other in zip(first, second, strict=True))
    assert [one.gap for one in first] == [one.gap for one in second]


def test_a_problem_that_is_done_drops_out_and_keeps_what_it_had():
    X, y = rows(4)
    problems = one_against_rest(X, y, "logistic")
    solved = solve(problems[0], method=ProximalNewton(), **OPTIONS)
    starts = [np.append(solved.coef, solved.intercept), None, None]
    results = solve_together(problems, warm_starts=starts, method=ProximalNewton(), **OPTIONS)
    assert results[0].rounds < results[1].rounds
    assert results[0].communications < results[1].communications
    assert results[0].rounds == solve(problems[0], warm_start=starts[0], method=ProximalNewton(), **OPTIONS).rounds


def test_a_callback_ends_all_problems():
    X, y = rows(5)
    results = solve_together(
        one_against_rest(X, y, "logistic"), callback=lambda run: run.rounds == 2, method=ProximalNewton(), **OPTIONS
    )
    assert [one.status for one in results] == [Status.STOPPED_BY_CALLBACK] * 3
    assert [one.rounds for one in results] == [2, 2, 2]


@pytest.mark.parametrize(("loss", "method"), METHODS, ids=lambda one: str(one)[:14])
def test_weights_of_a_path_travel_together_and_each_is_proven(loss, method):
    X, y = rows(7)
    problem = one_against_rest(X, y, loss)[0]
    alphas = np.geomspace(30.0, 0.3, 6)
    options = OPTIONS | {"tol": 1e-6}
    path = solve_path(problem, alphas, method=method, **options)
    alone = [solve(problem.with_alpha(alpha), method=method, **options) for alpha in alphas]
    assert path.communications == max(one.communications for one in alone)
    for one, other in zip(path.results, alone, strict=True):
        assert one.status is Status.CONVERGED
        assert np.array_equal(one.coef, other.coef)


def test_a_path_that_is_too_large_for_one_total_goes_on_from_group_to_group(monkeypatch):
    X, y = rows(8)
    problem = one_against_rest(X, y, "logistic")[0]
    alphas, options = np.geomspace(30.0, 0.3, 6), {"method": ProximalNewton(), **OPTIONS}
    whole = solve_path(problem, alphas, **options)
    monkeypatch.setattr(together_module, "MOST_BYTES", 2 * 8 * 5 * 28)  # two weights of 5 nodes with 28 numbers each
    grouped = solve_path(problem, alphas, **options)
    assert grouped.bytes < whole.bytes
    assert grouped.communications > whole.communications
    assert grouped.communications == sum(
        max(one.communications for one in grouped.results[k : k + 2]) for k in (0, 2, 4)
    )
    assert np.allclose(grouped.coefs, whole.coefs, atol=1e-3)
    assert {one.status for one in grouped.results} == {Status.CONVERGED}


def test_wide_problems_are_solved_together_too():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(40, 600))
    y = X[:, :3] @ [3.0, -2.0, 1.0] + 0.1 * rng.normal(size=40)
    problem = Problem.glm(X, y, penalty="l1", split="samples", fit_intercept=True)
    half = problem.with_targets([y], [(np.arange(40) % 2).astype(float)])
    top = float(np.abs(X.T @ (y - y.mean())).max())
    alphas = [top * np.array([0.5, 0.1])] * 2
    options = {"method": ProximalNewton(), "n_nodes": 4, "tol": 1e-7}
    made = solve_paths([problem, half], alphas, **options)
    for one, found in zip((problem, half), made.solutions, strict=True):
        alone = [solve(one.with_alpha(alpha), **options) for alpha in alphas[0]]
        assert (found.gap <= 1e-7 * found.objective).all()
        assert np.allclose(found.objective, [result.objective for result in alone], rtol=1e-6)


def test_what_cannot_be_solved_together_is_refused():
    X, y = rows(6)
    problems = one_against_rest(X, y, "logistic")
    with pytest.raises(InvalidInput, match="methods on totals"):
        solve_together(problems, method=Cola(acceleration="momentum"), **OPTIONS)
    with pytest.raises(InvalidInput, match="at least one problem"):
        solve_together([], method=ProximalNewton(), **OPTIONS)
    with pytest.raises(InvalidInput, match="one problem at a time"):
        solve_together(problems, method=ProximalNewton(), faults={}, **OPTIONS)
    with pytest.raises(InvalidData, match="60 rows but y has 3 values"):
        problems[0].with_targets([np.ones(3)], [np.ones(3)])
