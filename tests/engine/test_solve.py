"""`solve`: tolerances, certificates, threads, and options that are refused."""

import threading

import numpy as np
import pytest

from glmesh import Cola, Problem, Status, solve
from glmesh.errors import InvalidInput
from glmesh.network import mixing, topology
from tests.cases import LIMIT
from tests.scenes import PROBLEMS, X, Y


@pytest.mark.parametrize("name", PROBLEMS)
def test_tol_is_the_gap_over_the_objective(name):
    method = Cola(local_passes=5)
    result = solve(PROBLEMS[name](), n_nodes=3, method=method, tol=1e-3, max_rounds=20_000)
    relative = result.history["gap"] / np.abs(result.history["objective"])
    assert result.status is Status.CONVERGED
    assert relative[-1] <= 1e-3 < relative[:-1].min(initial=np.inf)
    assert result.relative_gap == relative[-1]


def test_a_certificate_where_some_edges_carry_no_weight():
    """The records take as many hops as the weights allow, not the graph."""
    W = mixing.metropolis(topology.path(6)).matrix.toarray()
    options = {
        "stop": "certificate",
        "tol": 1e-2,
        "method": Cola(local_passes=5),
        "max_rounds": 3000,
        "record_every": 9,
    }
    problem = Problem.glm(X, Y, alpha=30.0)
    results = [
        solve(problem, topology="complete", n_nodes=6, mixing=W, **options),
        solve(problem, topology="path", n_nodes=6, **options),
    ]
    assert [result.status for result in results] == [Status.CERTIFIED] * 2
    assert results[0].rounds == results[1].rounds


def test_solve_works_outside_the_main_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(solve(PROBLEMS["lasso"](), n_nodes=4, max_rounds=3)))
    thread.start()
    thread.join(LIMIT)
    assert results[0].rounds == 3


def test_no_rounds_at_all():
    for stop, status in (("gap", Status.OUT_OF_ROUNDS), ("rounds", Status.ROUNDS_DONE)):
        result = solve(PROBLEMS["lasso"](), n_nodes=4, max_rounds=0, stop=stop)
        assert result.status is status
        assert result.history["round"].tolist() == [0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stop": "never"}, "stop must be 'gap', 'certificate' or 'rounds', got 'never'"),
        ({"tol": -1e-3}, "tol must be a number >= 0"),
        ({"tol": np.nan}, "tol must be a number >= 0"),
        ({"tol": "small"}, "tol must be a number >= 0"),
        ({"max_rounds": -1}, "max_rounds must be a whole number >= 0"),
        ({"max_rounds": 1e3}, "max_rounds must be a whole number"),
        ({"record_every": 0}, "record_every must be a whole number >= 1, got 0"),
    ],
)
def test_bad_options_of_solve_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        solve(PROBLEMS["lasso"](), **options)
