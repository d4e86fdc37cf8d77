"""Partitions: every column is held once, and coefficients come back in the user's order."""

from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from glmesh import Cola, Problem, Run, Status, solve
from glmesh.errors import InvalidInput
from glmesh.problem.partition import partition
from tests.cases import prop
from tests.scenes import PROBLEMS, Y, advance


def held(parts):
    return [sorted(parts.columns_of(k).tolist()) for k in range(parts.n_nodes)]


@pytest.mark.parametrize("how", ["shuffled", "contiguous", "balanced"])
@pytest.mark.parametrize("name", ["lasso", "sparse_lasso", "huber_group", "svm"])
@pytest.mark.parametrize("n_nodes", [1, 3, 16, 47])
def test_partitions_hold_every_column_once(how, name, n_nodes):
    problem = PROBLEMS[name]()
    parts = partition(problem, n_nodes, how, seed=1)
    assert parts.n_nodes == n_nodes
    assert sorted(parts.order) == list(range(problem.n))
    values = np.arange(problem.n) * 10.0
    np.testing.assert_array_equal(parts.to_user(values[parts.order]), values)
    sizes = np.diff(parts.starts)
    if name == "huber_group":  # groups stay whole
        labels = np.arange(20) % 7
        assert all(len({k for k in range(n_nodes) if g in labels[parts.columns_of(k)]}) == 1 for g in range(7))
    elif how != "balanced":
        assert sizes.max() - sizes.min() <= 1


def test_partition_kinds():
    problem = PROBLEMS["lasso"]()
    assert held(partition(problem, 3, "contiguous")) == [[*range(7)], [*range(7, 14)], [*range(14, 20)]]
    shuffled = [held(partition(problem, 3, "shuffled", seed)) for seed in (1, 1, 2)]
    assert shuffled[0] == shuffled[1] != shuffled[2]
    heavy = sp.csc_array(np.tril(np.ones((30, 30))))  # column j has 30 - j entries
    longest_first = partition(Problem.glm(heavy, Y), 4, "shuffled", 1)
    assert [part.tolist() for part in map(longest_first.columns_of, range(4))] == held(longest_first)
    assert held(longest_first) == held(partition(Problem.glm(np.ones((30, 30)), Y), 4, "shuffled", 1))
    balanced = partition(Problem.glm(heavy, Y), 4, "balanced")
    loads = [heavy[:, part].nnz for part in held(balanced)]
    assert max(loads) - min(loads) <= 30
    assert max(loads) < 1.1 * heavy.nnz / 4


GIVEN = {
    "nodes": np.random.default_rng(1).integers(0, 4, 20),
    "lists": [[19, 3, 5], [], np.setdiff1d(np.arange(20), [19, 3, 5, 0]), [0]],
    "tuple": tuple(np.array_split(np.arange(20)[::-1], 4)),
}


@pytest.mark.parametrize("how", GIVEN)
def test_a_partition_of_the_users_own(how):
    parts = partition(PROBLEMS["lasso"](), 4, GIVEN[how])
    expected = [np.flatnonzero(GIVEN[how] == k) for k in range(4)] if how == "nodes" else GIVEN[how]
    assert held(parts) == [sorted(part) for part in expected]


@lru_cache
def best(name):
    return solve(PROBLEMS[name](), n_nodes=1, tol=1e-6, record_every=10, method=Cola(local_passes=5)).objective


@pytest.mark.parametrize("name", PROBLEMS)
@prop(20)
@given(n_nodes=st.integers(2, 5), seed=st.integers(0, 99), empty=st.booleans())
def test_coefficients_come_back_in_the_users_order(name, n_nodes, seed, empty):
    """Whoever holds what, also nothing at all: the same optimum."""
    problem = PROBLEMS[name]()
    label = (np.arange(20) % 7) if name == "huber_group" else np.arange(problem.n)
    home = np.random.default_rng(seed).integers(0, n_nodes - empty, label.max() + 1)[label]
    result = solve(problem, n_nodes=n_nodes, topology="complete", partition=home, method=Cola(local_passes=5), tol=1e-3)
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(problem.objective(result.coef, result.intercept), rel=1e-10)
    assert abs(result.objective - best(name)) <= 1.1e-3 * best(name)


@pytest.mark.parametrize("name", PROBLEMS)
def test_more_nodes_than_columns(name):
    problem = PROBLEMS[name]()
    run = advance(Run(problem, n_nodes=50, certify=True, method=Cola(local_passes=2)), 60)
    assert (np.diff(run.partition.starts) == 0).any()
    np.testing.assert_allclose(run.estimates.mean(axis=0), problem.composite.columns.dot(run.x), atol=1e-9)
    assert run.measure().value < Run(problem, n_nodes=50, method=Cola(local_passes=2)).measure().value
    assert run.certificate is not None


BAD_PARTITIONS = {
    "unknown": ("random", "unknown partition 'random'.*shuffled, contiguous, balanced"),
    "short": (np.zeros(19, int), "one node for each of 20 columns, or 4 lists"),
    "float": (np.zeros(20), "one node for each of 20 columns"),
    "too_many": (np.full(20, 4), "names node 4, but nodes are 0 to 3"),
    "negative": (np.full(20, -1), "nodes are 0 to 3"),
    "twice": ([np.arange(10), np.arange(10), np.arange(10, 20), []], "exactly once; look at column 0"),
    "missing": ([np.arange(10), [], np.arange(10, 19), []], "exactly once; look at column 19"),
    "beyond": ([np.arange(10), [], np.arange(10, 21), []], "exactly once"),
    "below": ([np.arange(-1, 10), [], np.arange(10, 20), []], "exactly once"),
    "fractions": ([np.arange(10) + 0.5, [], np.arange(10, 20), []], "whole numbers"),
}


@pytest.mark.parametrize("case", BAD_PARTITIONS)
def test_bad_partitions_are_refused(case):
    how, message = BAD_PARTITIONS[case]
    with pytest.raises(InvalidInput, match=message):
        Run(PROBLEMS["lasso"](), n_nodes=4, partition=how)


def test_a_partition_may_not_cut_a_group():
    with pytest.raises(InvalidInput, match="cuts group 0 between nodes 0 and 1"):
        Run(PROBLEMS["huber_group"](), n_nodes=3, partition=np.arange(20) % 2)
