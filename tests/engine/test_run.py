"""A run: the same bits however nodes are grouped, warm starts, networks of one's own."""

import numpy as np
import pytest

from glmesh import Cocoa, Cola, Problem, Run, Status, solve
from glmesh.errors import InvalidInput
from glmesh.functions import L2
from glmesh.solvers import CoordinateDescent
from tests.scenes import PROBLEMS, X, Y, advance

METHODS = {
    "printed": Cola.printed(),
    "shuffled": Cola(local_passes=3, solver=CoordinateDescent("shuffled")),
    "gossip": Cola(gamma=0.5, gossip_steps=3),
    "theta": Cola(local_passes=[1, 9, 9, 0, 9, 9], local_accuracy=0.2),
    "cocoa": Cocoa(local_passes=2),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("method", METHODS)
def test_blocks_and_threads_change_not_one_bit(name, method):
    problem, K = PROBLEMS[name](), 6
    runs = [
        Run(problem, method=METHODS[method], n_nodes=K, topology="grid", seed=5, certify=True, **spread)
        for spread in ({"n_jobs": 1}, {"n_jobs": 2}, {"n_jobs": K}, {"n_blocks": 2}, {"n_blocks": K, "n_jobs": 3})
    ]
    assert [len(run.blocks) for run in runs] == [1, 1, 1, 2, K]
    assert [len(run.blocks[0].spans) for run in runs[:2]] == [1, 2]
    for _ in range(3):
        for run in runs:
            advance(run, 8)
        for run in runs[1:]:
            assert np.array_equal(run.x, runs[0].x)
            assert np.array_equal(run.estimates, runs[0].estimates)
            assert np.array_equal(run.theta, runs[0].theta, equal_nan=True)
            assert run.certificate == runs[0].certificate
            assert (run.communications, run.bytes) == (runs[0].communications, runs[0].bytes)
            assert run.measure().gap == pytest.approx(runs[0].measure().gap, rel=1e-9, abs=1e-12)
    for run in runs:
        run.close()


def test_threads_used_by_default_change_nothing():
    """A problem that is worth a second thread."""
    rng = np.random.default_rng(1)
    problem = Problem.glm(rng.standard_normal((500, 600)), rng.standard_normal(500), penalty="l1", alpha=20.0)
    results = [solve(problem, stop="rounds", max_rounds=5, n_jobs=jobs, record_every=5) for jobs in (None, 1, 2)]
    for result in results[1:]:
        assert np.array_equal(result.x, results[0].x)
        assert np.array_equal(result.estimates, results[0].estimates)


@pytest.mark.parametrize("name", ["lasso", "svm", "logistic_dual"])
def test_a_seed_determines_a_run(name):
    method = METHODS["shuffled"]

    def outcome(seed):
        return advance(Run(PROBLEMS[name](), method=method, n_nodes=5, topology="erdos-renyi", seed=seed), 9)

    first, again, other = outcome(3), outcome(3), outcome(4)
    assert np.array_equal(first.x, again.x)
    assert np.array_equal(first.estimates, again.estimates)
    assert not np.array_equal(first.x, other.x)


@pytest.mark.parametrize("name", PROBLEMS)
def test_warm_start(name):
    problem = PROBLEMS[name]()
    method = Cola(local_passes=5)
    cold = solve(problem, n_nodes=3, method=method, tol=1e-4, max_rounds=20_000, record_every=5)
    assert cold.status is Status.CONVERGED
    for start in (cold, cold.x, list(cold.x)):
        run = Run(problem, method=method, n_nodes=5, topology="star", seed=9, warm_start=start)
        np.testing.assert_allclose(run.x, cold.x)
        np.testing.assert_allclose(run.estimates.mean(axis=0), problem.composite.columns.dot(cold.x), atol=1e-10)
    warm = solve(problem, n_nodes=1, method=method, warm_start=cold, max_rounds=20_000)
    assert warm.rounds <= max(3, solve(problem, n_nodes=1, method=method, max_rounds=20_000).rounds)
    assert warm.history["objective"][0] <= cold.objective * (1 + 1e-3)


def test_a_warm_start_is_checked():
    problem = PROBLEMS["squared_hinge_box"]()
    with pytest.raises(InvalidInput, match=r"20 finite variables.*shape \(19,\)"):
        Run(problem, warm_start=np.zeros(19))
    with pytest.raises(InvalidInput, match="20 finite variables"):
        Run(problem, warm_start=np.full(20, np.nan))
    with pytest.raises(InvalidInput, match="outside the bounds"):
        Run(problem, warm_start=np.ones(20))


def test_the_first_point_is_feasible():
    problem = Problem.glm(X, Y, penalty=L2(1.0, lo=0.5, hi=2.0))
    run = Run(problem, n_nodes=4)
    assert (run.x == 0.5).all()
    np.testing.assert_allclose(run.estimates.mean(axis=0), X @ run.x)
    assert np.isfinite(run.measure().gap)


def test_a_run_is_an_iterator_of_rounds():
    run = Run(PROBLEMS["lasso"](), n_nodes=4)
    assert iter(run) is run
    for rounds in run:
        if rounds == 3:
            break
    assert run.rounds == 3


def test_a_run_closes_its_threads():
    with Run(PROBLEMS["lasso"](), n_nodes=4, n_jobs=2) as run:
        assert next(run) == 1
    with pytest.raises(RuntimeError, match="shutdown"):
        next(run)
