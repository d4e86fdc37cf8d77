"""Several problems on the same rows: one total a round for all, and the same bits as each alone."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from glmesh import Cola, Problem, solve
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


@pytest.mark.parametrize("more", [{"n_blocks": 3}, {"n_jobs": 2}])
def test_blocks_and_threads_do_not_change_a_bit(more):
    X, y = rows(2)
    problems = one_against_rest(X, y, "logistic", penalty="l1")
    first = solve_together(problems, method=ProximalNewton(), **OPTIONS)
    second = solve_together(problems, method=ProximalNewton(), **OPTIONS, **more)
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


def test_what_cannot_be_solved_together_is_refused():
    X, y = rows(6)
    problems = one_against_rest(X, y, "logistic")
    with pytest.raises(InvalidInput, match="methods on totals"):
        solve_together(problems, method=Cola(), **OPTIONS)
    with pytest.raises(InvalidInput, match="at least one problem"):
        solve_together([], method=ProximalNewton(), **OPTIONS)
    with pytest.raises(InvalidInput, match="one problem at a time"):
        solve_together(problems, method=ProximalNewton(), faults={}, **OPTIONS)
    with pytest.raises(InvalidData, match="60 rows but y has 3 values"):
        problems[0].with_targets([np.ones(3)], [np.ones(3)])
