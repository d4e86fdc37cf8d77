"""Runs: the same bits however nodes are grouped, partitions, data that is apart, costs, stopping, and bad input."""

import os
import signal
import threading
from dataclasses import replace
from functools import lru_cache

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from glmesh import Cocoa, Cola, Network, Problem, Run, Status, solve
from glmesh.errors import GlmeshError, InvalidData, InvalidInput, InvalidNetwork, UnsuitablePair
from glmesh.functions import L1, L2, Box, ElasticNet, GroupLasso, HuberLoss, NonNegative, Table
from glmesh.network import mixing, topology
from glmesh.problem.partition import partition
from glmesh.solvers import CoordinateDescent
from tests.cases import prop

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 20))
Y = X @ RNG.standard_normal(20) + RNG.standard_normal(30)
LABELS = np.where(Y > 0, 1.0, -1.0)
SPARSE = sp.csr_array(X * (RNG.random(X.shape) < 0.3))
WEIGHT = 0.5 + RNG.random(30)


def advance(run, rounds):
    for _ in range(rounds):
        next(run)
    return run


# --- the same bits however nodes are grouped -----------------------------------------------------------------

PROBLEMS = {
    "lasso": lambda: Problem.glm(X, Y, penalty="l1", alpha=3.0),
    "sparse_lasso": lambda: Problem.glm(SPARSE, Y, penalty="l1", alpha=1.0),
    "weighted_ridge_intercept": lambda: Problem.glm(X, Y, sample_weight=WEIGHT, fit_intercept=True),
    "logistic_intercept": lambda: Problem.glm(X, LABELS, loss="logistic", penalty="elasticnet", fit_intercept=True),
    "huber_group": lambda: Problem.glm(SPARSE, Y, loss="huber", penalty=GroupLasso(np.arange(20) % 7)),
    "squared_hinge_box": lambda: Problem.glm(X, LABELS, loss="squared_hinge", penalty=Box(-0.1, 0.2)),
    "logistic_dual": lambda: Problem.glm(X, LABELS, loss="logistic", split="samples"),
    "svm": lambda: Problem.glm(SPARSE, LABELS, loss="hinge", split="samples", alpha=0.3),
    "svr_elasticnet": lambda: Problem.glm(
        X, Y, loss="epsilon_insensitive", penalty="elasticnet", alpha=5.0, split="samples", sample_weight=WEIGHT
    ),
}
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


def test_a_method_is_never_altered():
    method = Cola(local_passes=2)
    solve(PROBLEMS["lasso"](), method=method, n_nodes=4, max_rounds=5)
    assert method == Cola(local_passes=2)
    with pytest.raises(AttributeError):
        method.gamma = 0.5
    assert Cola.printed() == Cola(
        gamma=1.0,
        sigma=None,
        local_passes=1,
        local_accuracy=None,
        gossip_steps=1,
        acceleration="none",
        curvature="scalar",
        solver=CoordinateDescent("cyclic"),
    )


def test_passes_and_theta_per_node():
    method = Cola(local_passes=[0, 1, 50], local_accuracy=[0.5, 0.5, 0.01])
    run = Run(PROBLEMS["lasso"](), method=method, n_nodes=3)
    start = run.x
    next(run)
    theta = run.theta
    assert theta[0] == 1.0  # stood still
    assert theta[2] <= 0.01
    assert 0.0 <= theta[1] <= 1.0
    assert np.array_equal(run.x[run.partition.columns_of(0)], start[run.partition.columns_of(0)])
    assert np.isnan(advance(Run(PROBLEMS["lasso"](), n_nodes=3), 1).theta).all()  # none was asked for


# --- warm start ----------------------------------------------------------------------------------------------


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


# --- partitions ----------------------------------------------------------------------------------------------


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
    "nodes": RNG.integers(0, 4, 20),
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
    assert run.measure().value < Run(problem, n_nodes=50).measure().value
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


# --- data that is already apart ------------------------------------------------------------------------------


def test_apart_by_samples_is_the_pooled_problem():
    lists = [np.arange(0, 11), np.arange(11, 12), np.zeros(0, int), np.arange(12, 30)]
    for name, loss, y in (("svr", "epsilon_insensitive", Y), ("logistic", "logistic", LABELS)):
        for data in (X, SPARSE):
            options = {"loss": loss, "penalty": "elasticnet", "alpha": 0.5, "split": "samples"}
            pooled = Problem.glm(data, y, sample_weight=WEIGHT, **options)
            apart = Problem.from_nodes([(data[part], y[part], WEIGHT[part]) for part in lists], **options)
            runs = [Run(pooled, n_nodes=4, partition=lists), Run(apart)]
            assert runs[1].n_nodes == 4
            for run in runs:
                advance(run, 10)
            assert np.array_equal(runs[0].x, runs[1].x), name
            assert np.array_equal(runs[0].estimates, runs[1].estimates)
            coef = RNG.standard_normal(20)
            assert pooled.objective(coef) == pytest.approx(apart.objective(coef), rel=1e-13)
            assert runs[0].measure().gap == pytest.approx(runs[1].measure().gap, rel=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_apart_by_features_is_the_pooled_problem(intercept):
    lists = [np.arange(0, 3), np.arange(3, 13), np.zeros(0, int), np.arange(13, 20)]
    for loss, y in (("squared", Y), ("logistic", LABELS)):
        for data in (X, sp.csc_array(SPARSE)):
            options = {"loss": loss, "penalty": "l1", "alpha": 0.5, "split": "features", "fit_intercept": intercept}
            pooled = Problem.glm(data, y, sample_weight=WEIGHT, **options)
            apart = Problem.from_nodes([(data[:, part], y, WEIGHT) for part in lists], **options)
            results = [
                solve(problem, n_nodes=4, stop="rounds", max_rounds=20, **extra)
                for problem, extra in ((pooled, {"partition": lists}), (apart, {}))
            ]
            assert np.array_equal(results[0].coef, results[1].coef)
            assert results[0].intercept == pytest.approx(results[1].intercept, rel=1e-12)
            assert results[0].gap == pytest.approx(results[1].gap, rel=1e-9)


def test_apart_with_a_penalty_for_each_node():
    lists = np.array_split(np.arange(20), 3)
    whole = L1(np.linspace(0.5, 3.0, 20))
    pooled = Problem.glm(X, Y, penalty=whole, alpha=2.0)
    parts = [(X[:, part], Y) for part in lists]
    apart = Problem.from_nodes(parts, penalty=[whole.take(part) for part in lists], alpha=2.0, split="features")
    groups = GroupLasso(np.repeat(np.arange(5), 4))
    grouped = Problem.glm(X, Y, penalty=groups)
    lists = [np.arange(0, 8), np.arange(8, 20)]
    apart_groups = Problem.from_nodes(
        [(X[:, part], Y) for part in lists], penalty=[groups.take(part) for part in lists], split="features"
    )
    for one, other, how in ((pooled, apart, np.array_split(np.arange(20), 3)), (grouped, apart_groups, lists)):
        a, b = Run(one, n_nodes=len(how), partition=how), Run(other)
        assert np.array_equal(advance(a, 9).x, advance(b, 9).x)
        assert a.measure().gap == pytest.approx(b.measure().gap)


def test_apart_sparse_parts_of_unequal_width():
    """Files of rows, where the last features may be missing from some."""
    widths = [20, 17, 5]
    rows = np.array_split(np.arange(30), 3)
    data = SPARSE.toarray()
    for part, width in zip(rows, widths, strict=True):
        data[np.ix_(part, np.arange(width, 20))] = 0.0
    pooled = Problem.glm(sp.csr_array(data), Y, split="samples")
    apart = Problem.from_nodes(
        [(sp.csr_array(data[part][:, :width]), Y[part]) for part, width in zip(rows, widths, strict=True)]
    )
    runs = [advance(Run(pooled, n_nodes=3, partition=rows), 10), advance(Run(apart), 10)]
    assert np.array_equal(runs[0].x, runs[1].x)
    assert len(solve(apart, max_rounds=5).coef) == 20


def test_apart_with_one_class_on_a_node():
    """Labels are agreed on over the network: 0 is the negative class although node 1 holds nothing but 5."""
    order = np.argsort(LABELS, kind="stable")
    y = np.where(LABELS > 0, 5.0, 0.0)[order]
    n = int((y == 0).sum())
    parts = [(X[order][:n], y[:n]), (X[order][n:], y[n:]), (X[:0], y[:0])]
    apart = Problem.from_nodes(parts, loss="hinge")
    pooled = Problem.glm(X[order], y, loss="hinge", split="samples")
    assert apart.classes == pooled.classes == (0.0, 5.0)
    results = [
        solve(pooled, n_nodes=3, partition=[np.arange(n), np.arange(n, 30), []], stop="rounds", max_rounds=30),
        solve(apart, stop="rounds", max_rounds=30),
    ]
    assert np.array_equal(results[0].x, results[1].x)


def test_agreeing_takes_neighbour_messages_only():
    """One exchange for every hop of the network, however the weights shape it."""
    parts = [(X[part], Y[part]) for part in np.array_split(np.arange(30), 8)]
    apart = Problem.from_nodes(parts)
    for network, hops in (("ring", 4), ("complete", 1), ("path", 7)):
        run = Run(apart, topology=network)
        assert run.communications == hops
        assert advance(run, 3).communications == hops + 3
    # a complete graph on which only a path carries weight is a path
    W = mixing.metropolis(topology.path(8)).matrix.toarray()
    one_class = [(X[:2], [1.0 if k < 7 else -1.0] * 2) for k in range(8)]
    run = Run(Problem.from_nodes(one_class, loss="hinge"), topology="complete", mixing=W)
    assert run.communications == 7
    assert np.isfinite(advance(run, 5).measure().gap)


DISAGREEMENTS = {
    "rows": ([(X[:, :10], Y), (X[:29, 10:], Y[:29])], {"split": "features"}, "has 30, another node 29"),
    "labels": ([(X[:, :10], Y), (X[:, 10:], Y + 1)], {"split": "features"}, "same y and sample_weight"),
    "weights": ([(X[:, :10], Y), (X[:, 10:], Y, WEIGHT)], {"split": "features"}, "same y and sample_weight"),
    "one_class": ([(X[:9], np.ones(9)), (X[9:], np.ones(21))], {"loss": "hinge"}, "one class only"),
    "three_classes": (
        [(X[:9], LABELS[:9]), (X[9:], 3.0 * LABELS[9:])],
        {"loss": "hinge"},
        r"y of node 0 holds 1 besides -3 and 3|y of node 0 holds -1 besides -3 and 3",
    ),
}


@pytest.mark.parametrize("case", DISAGREEMENTS)
def test_disagreeing_nodes_are_refused(case):
    parts, options, message = DISAGREEMENTS[case]
    problem = Problem.from_nodes(parts, **options)
    for act in (lambda: solve(problem, max_rounds=1), lambda: problem.composite):
        with pytest.raises(InvalidData, match=message):
            act()


BAD_PARTS = {
    "none": ([], {}, "parts is empty"),
    "all_empty": ([(X[:0], Y[:0])] * 2, {}, "empty"),
    "no_columns": ([(X[:, :0], Y)] * 2, {"split": "features"}, "empty"),
    "not_pairs": ([X, Y], {}, r"part 0 must be \(X, y\)"),
    "nan": ([(X[:9], Y[:9]), (np.where(X[9:] > 2, np.nan, X[9:]), Y[9:])], {}, "X of node 1 holds NaN at row"),
    "shapes": ([(X[:9], Y[:9]), (X[9:], Y)], {}, "X of node 1 has 21 rows but y has 30"),
    "penalties": (
        [(X[:, :9], Y), (X[:, 9:], Y)],
        {"split": "features", "penalty": [L1(1.0)]},
        "1 penalties for 2 nodes",
    ),
    "mixed_penalties": (
        [(X[:, :9], Y), (X[:, 9:], Y)],
        {"split": "features", "penalty": [L1(1.0), GroupLasso(np.zeros(11, int))]},
        "one kind, got GroupLasso and Table",
    ),
    "penalties_by_samples": ([(X[:9], Y[:9]), (X[9:], Y[9:])], {"penalty": [L2(1.0), L2(2.0)]}, "share one penalty"),
}


@pytest.mark.parametrize("case", BAD_PARTS)
def test_bad_parts_are_refused(case):
    parts, options, message = BAD_PARTS[case]
    with pytest.raises(InvalidInput, match=message):
        Problem.from_nodes(parts, **options)


def test_apart_data_goes_with_its_own_network():
    problem = Problem.from_nodes([(X[:9], Y[:9]), (X[9:], Y[9:])])
    with pytest.raises(InvalidInput, match="on 2 nodes, but n_nodes=3"):
        Run(problem, n_nodes=3)
    with pytest.raises(InvalidNetwork, match="the graph has 3 nodes, expected 2"):
        Run(problem, topology=nx.path_graph(3))
    with pytest.raises(InvalidInput, match="already apart"):
        Run(problem, partition="contiguous")


# --- costs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("network", "edges"), [("ring", 12), ("complete", 30), ("star", 10), ("path", 10)])
@pytest.mark.parametrize("steps", [1, 3])
def test_communications_and_bytes(network, edges, steps):
    run = Run(PROBLEMS["lasso"](), n_nodes=6, topology=network, method=Cola(gossip_steps=steps, acceleration="none"))
    assert (run.communications, run.bytes) == (0, 0)
    advance(run, 7)
    assert run.communications == 7 * steps
    assert run.bytes == 7 * steps * edges * 30 * 8


def test_certificates_ride_along():
    """Records cost bytes but no communication."""
    runs = [advance(Run(PROBLEMS["lasso"](), n_nodes=6, certify=certify), 30) for certify in (False, True)]
    assert runs[0].communications == runs[1].communications == 30
    assert runs[0].bytes < runs[1].bytes < 2 * runs[0].bytes
    assert np.array_equal(runs[0].x, runs[1].x)
    alone = advance(Run(PROBLEMS["lasso"](), n_nodes=1, certify=True), 5)
    assert alone.bytes == 0
    assert alone.certificate is not None


FAR = 1e30  # faster than anything that matters


def clocked(network, rounds=10, **options):
    options = {"n_nodes": 6, "partition": "contiguous", "method": Cola.printed(), **options}
    return advance(Run(PROBLEMS["lasso"](), network=network, **options), rounds)


def test_the_virtual_clock():
    latency = clocked(Network(latency=0.5, bandwidth=FAR, nonzeros_per_second=FAR))
    assert latency.seconds == pytest.approx(10 * 0.5)
    gossip = clocked(Network(latency=0.5, bandwidth=FAR, nonzeros_per_second=FAR), method=Cola(gossip_steps=3))
    assert gossip.seconds == pytest.approx(30 * 0.5)
    # a message of 240 bytes to each of two neighbours, one after the other
    bandwidth = clocked(Network(latency=0.0, bandwidth=240.0, nonzeros_per_second=FAR))
    assert bandwidth.seconds == pytest.approx(10 * 2)
    # on a star the hub sends five, and everybody waits for it
    star = clocked(Network(latency=0.0, bandwidth=240.0, nonzeros_per_second=FAR), topology="star")
    assert star.seconds == pytest.approx(10 * 5)
    alone = clocked(Network(latency=9.0, bandwidth=1.0, nonzeros_per_second=FAR), n_nodes=1)
    assert alone.seconds == pytest.approx(0.0, abs=1e-9)


def test_a_slow_node_delays_its_neighbours_first():
    speeds = np.full(6, FAR)
    speeds[0] = 1.0  # a nonzero a second; it holds 4 columns of 30
    run = clocked(Network(latency=0.0, bandwidth=FAR, nonzeros_per_second=speeds), rounds=1)
    work = run.states[0].visited[0]
    assert 0 < work <= 120
    times = run.exchange.clock.times
    assert times[0] == run.seconds == pytest.approx(work)
    np.testing.assert_allclose(times[1:], 0.0, atol=1e-9)
    advance(run, 1)
    times = run.exchange.clock.times  # on a ring its neighbours have waited, nobody else has heard of it
    np.testing.assert_allclose(times[[1, 5]], work)
    np.testing.assert_allclose(times[2:5], 0.0, atol=1e-9)
    assert times[0] > work


def test_without_a_network_seconds_are_on_the_wall():
    run = Run(PROBLEMS["lasso"](), n_nodes=4)
    assert run.seconds == 0.0
    seen = [advance(run, 2).seconds for _ in range(5)]
    assert all(a < b for a, b in zip([0.0, *seen], seen, strict=False))
    assert seen[-1] < 5.0


@pytest.mark.parametrize(
    "options", [{"latency": -1.0}, {"latency": np.nan}, {"bandwidth": 0.0}, {"nonzeros_per_second": [1.0, 0.0]}]
)
def test_bad_networks_are_refused(options):
    with pytest.raises(InvalidInput, match="latency >= 0, bandwidth > 0 and nonzeros_per_second > 0"):
        Network(**options)


# --- solve, history and status -------------------------------------------------------------------------------

KEYS = {"round", "communications", "bytes", "seconds", "objective", "h", "gap", "consensus"}


@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize("stop", ["rounds", "gap", "certificate"])
def test_history(every, stop):
    result = solve(PROBLEMS["lasso"](), n_nodes=5, tol=0.0, max_rounds=24, stop=stop, record_every=every)
    history = result.history
    assert set(history) >= KEYS
    assert len({len(column) for column in history.values()}) == 1
    expected = sorted({*range(0, 25, every), 24})
    assert history["round"].tolist() == expected
    for key in ("round", "communications", "bytes", "seconds"):
        assert (np.diff(history[key]) > 0).all()
    assert all(history[key].dtype.kind == "i" for key in ("round", "communications", "bytes"))
    assert history["communications"][-1] == result.communications == 24
    assert history["bytes"][-1] == result.bytes
    assert history["objective"][-1] == result.objective
    assert history["gap"][-1] == result.gap
    assert np.isfinite(history["gap"]).all()
    assert result.rounds == 24
    assert result.status is (Status.ROUNDS_DONE if stop == "rounds" else Status.OUT_OF_ROUNDS)


def test_the_result_speaks_of_the_last_round():
    for name in PROBLEMS:
        problem = PROBLEMS[name]()
        seen = []
        result = solve(
            problem, n_nodes=4, stop="rounds", max_rounds=6, callback=lambda run, seen=seen: seen.append(run.x)
        )
        assert np.array_equal(result.x, seen[-1])
        assert result.objective == pytest.approx(problem.objective(result.coef, result.intercept), rel=1e-10)
        assert result.coef.shape == (20,)
        assert result.estimates.shape == (4, problem.composite.columns.d)
        models = [result.coef_of(k) for k in range(4)]
        np.testing.assert_allclose(np.mean(models, axis=0), result.coef, atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_tol_is_the_gap_over_the_objective(name):
    method = Cola(local_passes=5)
    result = solve(PROBLEMS[name](), n_nodes=3, method=method, tol=1e-3, max_rounds=20_000)
    relative = result.history["gap"] / np.abs(result.history["objective"])
    assert result.status is Status.CONVERGED
    assert relative[-1] <= 1e-3 < relative[:-1].min(initial=np.inf)
    assert result.relative_gap == relative[-1]


def test_a_certified_result_is_what_the_certificate_is_about():
    problem = PROBLEMS["weighted_ridge_intercept"]()
    result = solve(problem, n_nodes=3, stop="certificate", tol=1e-4, method=Cola(local_passes=5))
    assert result.status is Status.CERTIFIED
    assert result.certificate.round <= result.rounds
    assert result.gap == result.certificate.bound <= 1e-4 * result.objective * (1 + 1e-9)
    assert result.objective == pytest.approx(problem.objective(result.coef, result.intercept), rel=1e-12)


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


def test_the_callback_stops_and_sees_the_run():
    rounds = []

    def callback(run):
        rounds.append(run.rounds)
        return run.rounds == 4

    result = solve(PROBLEMS["lasso"](), n_nodes=4, callback=callback, record_every=100)
    assert rounds == [1, 2, 3, 4]
    assert result.status is Status.STOPPED_BY_CALLBACK
    assert result.rounds == 4
    assert result.history["round"].tolist() == [0, 4]


@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_returns_what_there_is(jobs):
    before = signal.getsignal(signal.SIGINT)

    def press(run):
        if run.rounds == 5:
            os.kill(os.getpid(), signal.SIGINT)

    result = solve(PROBLEMS["lasso"](), n_nodes=4, tol=0.0, max_rounds=10**9, callback=press, n_jobs=jobs)
    assert result.status is Status.INTERRUPTED
    assert 5 <= result.rounds <= 6
    assert np.isfinite(result.objective)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_is_an_exception_again():
    def press_twice(run):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        solve(PROBLEMS["lasso"](), n_nodes=4, callback=press_twice, tol=0.0)
    assert signal.getsignal(signal.SIGINT) is before


def test_solve_works_outside_the_main_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(solve(PROBLEMS["lasso"](), n_nodes=4, max_rounds=3)))
    thread.start()
    thread.join(60)
    assert results[0].rounds == 3


def test_too_small_a_sigma_diverges_and_says_so():
    with np.errstate(all="ignore"):
        result = solve(
            PROBLEMS["lasso"](), method=Cola(sigma=0.05), n_nodes=8, tol=0.0, max_rounds=5000, n_jobs=1, record_every=10
        )
    assert result.status is Status.DIVERGED
    assert "raise sigma" in result.message


def test_no_rounds_at_all():
    for stop, status in (("gap", Status.OUT_OF_ROUNDS), ("rounds", Status.ROUNDS_DONE)):
        result = solve(PROBLEMS["lasso"](), n_nodes=4, max_rounds=0, stop=stop)
        assert result.status is status
        assert result.history["round"].tolist() == [0]


def test_every_status_is_a_sentence():
    for status in Status:
        assert str(status) == status.value
        assert status.value[0].isupper()
        assert status.value.endswith(".")
        assert len(status.value.split()) >= 4
    result = solve(PROBLEMS["lasso"](), n_nodes=4, max_rounds=2, tol=0.0)
    assert "2 rounds, 2 communications" in result.message
    assert "raise max_rounds" in result.message
    assert result.message in repr(result)


def test_a_run_is_an_iterator_of_rounds():
    run = Run(PROBLEMS["lasso"](), n_nodes=4)
    assert iter(run) is run
    for rounds in run:
        if rounds == 3:
            break
    assert run.rounds == 3


@pytest.mark.parametrize(
    "graph",
    [
        nx.path_graph(5),
        [(0, 1), (1, 2), (2, 3), (3, 4)],
        nx.to_numpy_array(nx.path_graph(5)),
        nx.to_scipy_sparse_array(nx.path_graph(5)),
        nx.to_dict_of_lists(nx.path_graph(5)),
    ],
    ids=["networkx", "edges", "matrix", "sparse", "dict"],
)
def test_a_graph_of_ones_own(graph):
    runs = [Run(PROBLEMS["lasso"](), topology=graph), Run(PROBLEMS["lasso"](), topology="path", n_nodes=5)]
    assert np.array_equal(advance(runs[0], 5).x, advance(runs[1], 5).x)


def test_weights_of_ones_own():
    graph = topology.ring(5)
    W = mixing.metropolis(graph)
    lazy = 0.5 * (np.eye(5) + W.matrix.toarray())
    same = [Run(PROBLEMS["lasso"](), topology=graph, mixing=m) for m in ("metropolis", W, W.matrix, W.matrix.toarray())]
    for run in same:
        np.testing.assert_allclose(advance(run, 5).x, same[0].x, rtol=1e-12, atol=1e-12)
    plain = [Run(PROBLEMS["lasso"](), topology=graph, mixing=m, method=Cola.printed()) for m in (W, lazy)]
    assert not np.allclose(advance(plain[0], 5).x, advance(plain[1], 5).x)


# --- bad input: a clear error before any work ----------------------------------------------------------------


def spoiled(value, where=(3, 4)):
    bad = X.copy()
    bad[where] = value
    return bad


def spoiled_vector(value):
    bad = Y.copy()
    bad[7] = value
    return bad


BAD_DATA = {
    "nan_in_x": ((spoiled(np.nan), Y), {}, "X holds NaN at row 3, column 4"),
    "inf_in_x": ((spoiled(np.inf), Y), {}, "X holds infinity at row 3, column 4"),
    "nan_in_x_by_samples": ((spoiled(np.nan), Y), {"split": "samples"}, "X holds NaN at row 3, column 4"),
    "nan_in_csr": ((sp.csr_array(spoiled(np.nan)), Y), {}, "X holds NaN at row 3, column 4"),
    "inf_in_csc_by_samples": ((sp.csc_array(spoiled(-np.inf)), Y), {"split": "samples"}, "infinity at row 3, column 4"),
    "nan_in_y": ((X, spoiled_vector(np.nan)), {}, "y holds NaN at position 7"),
    "inf_in_y": ((X, spoiled_vector(-np.inf)), {"split": "samples"}, "y holds infinity at position 7"),
    "nan_weight": ((X, Y), {"sample_weight": spoiled_vector(np.nan)}, "sample_weight holds NaN at position 7"),
    "inf_weight": ((X, Y), {"sample_weight": np.full(30, np.inf)}, "sample_weight holds infinity at position 0"),
    "negative_weight": ((X, Y), {"sample_weight": -np.ones(30)}, "sample_weight has a negative value at 0"),
    "short_y": ((X, Y[:29]), {}, "X has 30 rows but y has 29 values"),
    "short_weight": ((X, Y), {"sample_weight": np.ones(3)}, "30 rows but sample_weight has 3 values"),
    "wide_y": ((X, np.ones((30, 2))), {}, r"y has shape \(30, 2\)"),
    "vector_x": ((X[0], Y), {}, "X has 1 dimension"),
    "cube_x": ((X[None], Y), {}, "X has 3 dimension"),
    "ragged_x": (([[1.0, 2.0], [3.0]], [1.0, 2.0]), {}, "not a rectangular matrix"),
    "string_x": (([["a", "b"], ["c", "d"]], [1.0, 2.0]), {}, "real numbers are needed"),
    "object_x": ((np.array([[1.0, "b"], [2.0, "d"]], dtype=object), [1.0, 2.0]), {}, "not numbers"),
    "complex_x": ((X + 1j, Y), {}, "complex128; real numbers are needed"),
    "complex_sparse_x": ((sp.csr_array(X + 1j), Y), {}, "complex128; real numbers are needed"),
    "complex_y": ((X, Y + 1j), {}, "y holds complex128"),
    "string_labels": ((X, ["spam", "ham"] * 15), {"loss": "logistic"}, "y holds 'spam'; numbers are needed"),
    "object_labels": ((X, np.array(["a", "b"] * 15, dtype=object)), {"loss": "hinge", "split": "samples"}, "'a'"),
    "one_class": ((X, np.ones(30)), {"loss": "logistic"}, r"one class only \(1\); the logistic loss needs two"),
    "one_class_by_samples": ((X, np.ones(30)), {"loss": "hinge", "split": "samples"}, "one class only"),
    "three_classes": (
        (X, np.arange(30) % 3),
        {"loss": "squared_hinge"},
        "holds 1 besides 0 and 2.*one against the rest",
    ),
    "no_rows": ((X[:0], Y[:0]), {}, "X is empty: 0 rows, 20 columns"),
    "no_columns": ((X[:, :0], Y), {"split": "samples"}, "X is empty: 30 rows, 0 columns"),
    "no_sparse_rows": ((sp.csr_array(X[:0]), Y[:0]), {}, "X is empty"),
}
BAD_OPTIONS = {
    "negative_alpha": ({"alpha": -1.0}, "alpha must be a finite number >= 0, got -1.0"),
    "nan_alpha": ({"alpha": np.nan}, "alpha must be a finite number"),
    "infinite_alpha": ({"alpha": np.inf}, "alpha must be a finite number"),
    "text_alpha": ({"alpha": "1"}, "alpha must be a finite number"),
    "unknown_loss": ({"loss": "sqared"}, "unknown loss 'sqared'.*[Dd]id you mean 'squared'"),
    "unknown_penalty": ({"penalty": "l3"}, "unknown penalty 'l3'; use 'l1', 'l2', 'elasticnet'"),
    "unknown_split": ({"split": "rows"}, "split must be 'features' or 'samples', got 'rows'"),
    "ratio": ({"penalty": "elasticnet", "l1_ratio": 1.5}, "l1_ratio must be between 0 and 1, got 1.5"),
    "ratio_of_l2": ({"penalty": "l2", "l1_ratio": 0.5}, "l1_ratio goes with penalty='elasticnet', not with 'l2'"),
    "ratio_of_a_table": ({"penalty": L1(1.0), "l1_ratio": 0.5}, "carries its own weights"),
    "penalty_size": ({"penalty": L1(np.ones(7))}, "l1 has 7 entries for 20 columns"),
    "penalty_size_by_samples": ({"penalty": L2(np.ones(7)), "split": "samples"}, "l2 has 7 entries for 20 columns"),
    "group_size": ({"penalty": GroupLasso(np.arange(7))}, "7 group labels for 20 columns"),
    "a_list_of_penalties": ({"penalty": [L1(1.0), L1(2.0)]}, "from_nodes"),
}
UNSUITABLE = {
    **{
        f"{loss}_by_features": (
            {"loss": loss},
            f"the {loss} loss has no form split by features.*split='samples'.*squared, logistic",
        )
        for loss in (
            "hinge",
            "smoothed_hinge",
            "epsilon_insensitive",
            "squared_epsilon_insensitive",
            "quantile",
        )
    },
    "l1": ({"penalty": "l1", "split": "samples"}, "a plain L1 penalty.*split='features'.*elasticnet"),
    "pure_l1_net": (
        {"penalty": "elasticnet", "l1_ratio": 1.0, "split": "samples"},
        "an elastic net without L2 part.*l1_ratio < 1",
    ),
    "no_penalty": ({"alpha": 0.0, "split": "samples"}, r"without L2 part \(or with alpha=0\).*alpha > 0"),
    "nonneg": ({"penalty": NonNegative(), "split": "samples"}, "a penalty without L2 part"),
    "group": ({"penalty": GroupLasso(np.arange(20)), "split": "samples"}, "GroupLasso.*Use split='features'"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_is_refused(case):
    data, options, message = BAD_DATA[case]
    with pytest.raises(InvalidData, match=message):
        Problem.glm(*data, **options)


@pytest.mark.parametrize("case", BAD_OPTIONS)
def test_bad_options_are_refused(case):
    options, message = BAD_OPTIONS[case]
    with pytest.raises(InvalidInput, match=message):
        Problem.glm(X, Y, **options)


@pytest.mark.parametrize("case", UNSUITABLE)
def test_unsuitable_pairs_are_refused_by_name(case):
    options, message = UNSUITABLE[case]
    with pytest.raises(UnsuitablePair, match=f"(?s){message}"):
        Problem.glm(X, LABELS, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L1(-1.0), "the penalty l1 must be finite and >= 0, got -1.0"),
        (lambda: L2([1.0, -2.0]), "the penalty l2 must be finite and >= 0, got -2.0"),
        (lambda: ElasticNet(0.5, np.nan), "l2 holds NaN"),
        (lambda: Box(1.0, 0.0), "every lower bound must be at most its upper bound"),
        (lambda: Table(l1=np.ones(3), l2=np.ones(4)), "l2 has 4 entries but l1 has 3"),
        (lambda: GroupLasso([0, 1], -1.0), "group weights must be finite and >= 0"),
        (lambda: HuberLoss(0.0), "delta > 0"),
    ],
)
def test_bad_penalties_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


asymmetric = np.array([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3], [0.1, 0.2, 0.7]])
BAD_RUNS = {
    "disconnected": ({"topology": nx.Graph([(0, 1), (2, 3)])}, InvalidNetwork, "2 components; nodes 2, 3 cannot reach"),
    "unknown_topology": ({"topology": "rign"}, InvalidInput, "did you mean 'ring'"),
    "no_topology": ({"topology": None}, InvalidNetwork, "cannot read a graph"),
    "directed": ({"topology": nx.DiGraph([(0, 1)])}, InvalidNetwork, "directed"),
    "graph_size": ({"topology": nx.path_graph(3), "n_nodes": 4}, InvalidInput, "the graph has 3 nodes, but n_nodes=4"),
    "no_nodes": ({"n_nodes": 0}, InvalidInput, "n_nodes must be a whole number >= 1, got 0"),
    "half_a_node": ({"n_nodes": 2.5}, InvalidInput, "n_nodes must be a whole number"),
    "asymmetric": ({"n_nodes": 3, "mixing": asymmetric}, InvalidNetwork, r"not symmetric: entry \(0, 1\) is 0.5 but"),
    "row_sum": ({"n_nodes": 3, "mixing": np.eye(3) * 0.5}, InvalidNetwork, "row 0 sums to 0.5, expected 1"),
    "negative_weight": (
        {"n_nodes": 2, "mixing": np.array([[1.5, -0.5], [-0.5, 1.5]])},
        InvalidNetwork,
        r"entry \(0, 1\) = -0.5 is negative",
    ),
    "no_such_edge": (
        {"n_nodes": 3, "topology": "path", "mixing": np.full((3, 3), 1 / 3)},
        InvalidNetwork,
        "the graph has no edge between 0 and 2",
    ),
    "identity": ({"n_nodes": 3, "mixing": np.eye(3)}, InvalidNetwork, "falls apart into 3 components"),
    "mixing_size": ({"n_nodes": 3, "mixing": mixing.uniform(4)}, InvalidInput, "for 4 nodes, the network has 3"),
    "mixing_name": ({"n_nodes": 3, "mixing": "best"}, InvalidInput, "'metropolis', a Mixing or a matrix, got 'best'"),
    "seed": ({"seed": -1}, InvalidInput, "seed must be a whole number >= 0, got -1"),
    "jobs": ({"n_jobs": 0}, InvalidInput, "n_jobs must be a whole number >= 1, got 0"),
    "clock": (
        {"n_nodes": 3, "network": Network(nonzeros_per_second=[1.0, 2.0])},
        InvalidInput,
        "nonzeros_per_second has 2 entries for 3 nodes",
    ),
    "passes": ({"n_nodes": 3, "method": Cola(local_passes=[1, 2])}, InvalidInput, "one for each of 3 nodes"),
    "theta": ({"n_nodes": 3, "method": Cola(local_accuracy=[0.1, 0.2])}, InvalidInput, "one for each of 3 nodes"),
}


@pytest.mark.parametrize("case", BAD_RUNS)
def test_bad_runs_are_refused(case):
    options, error, message = BAD_RUNS[case]
    with pytest.raises(error, match=message):
        Run(PROBLEMS["lasso"](), **options)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0.0}, r"gamma must be in \(0, 1\], got 0.0"),
        ({"gamma": 1.5}, r"gamma must be in \(0, 1\]"),
        ({"gamma": np.nan}, r"gamma must be in \(0, 1\]"),
        ({"sigma": 0.0}, "sigma must be positive"),
        ({"sigma": np.inf}, "sigma must be positive and finite"),
        ({"local_passes": -1}, "local_passes must be whole numbers >= 0"),
        ({"local_passes": 0}, "not all 0"),
        ({"local_passes": 1.5}, "local_passes must be whole numbers"),
        ({"local_accuracy": 1.5}, r"local_accuracy \(Theta\) must be between 0 and 1"),
        ({"local_accuracy": [0.5, np.nan]}, r"local_accuracy \(Theta\) must be between 0 and 1"),
        ({"gossip_steps": 0}, "gossip_steps must be a whole number >= 1"),
    ],
)
def test_bad_methods_are_refused(options, message):
    for method in (Cola, Cocoa):
        with pytest.raises(InvalidInput, match=message):
            method(**options)
        with pytest.raises(InvalidInput, match=message):
            replace(method(), **options)


def test_errors_are_of_one_family():
    assert issubclass(InvalidInput, ValueError)
    for kind in (InvalidInput, InvalidData, InvalidNetwork, UnsuitablePair):
        assert issubclass(kind, GlmeshError)


# --- good input of every kind --------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["features", "samples"])
def test_every_storage_is_the_same_problem(split):
    """Dense, float32, integers, CSR, CSC, COO, 64-bit indices, unsorted with duplicates: the same run."""
    whole = np.round(4 * SPARSE.toarray())
    csr = sp.csr_array(whole)
    wide = csr.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    coo = sp.coo_array(whole)
    doubled = sp.coo_array(
        (np.tile(coo.data / 2, 2)[::-1], (np.tile(coo.row, 2)[::-1], np.tile(coo.col, 2)[::-1])), shape=whole.shape
    )
    storages = [
        whole,
        whole.astype(np.float32),
        whole.astype(np.int8),
        np.asfortranarray(whole),
        whole.tolist(),
        csr,
        sp.csc_array(whole),
        sp.csr_matrix(whole),
        coo,
        wide,
        doubled,
        csr.astype(np.float32),
    ]
    runs = [advance(Run(Problem.glm(data, Y, split=split), n_nodes=4), 5) for data in storages]
    for run in runs[1:]:
        np.testing.assert_allclose(run.x, runs[0].x, rtol=1e-10, atol=1e-12)
        block = run.blocks[0].columns
        assert (block.indptr.dtype, block.indices.dtype, block.data.dtype) == (np.uint64, np.uint32, np.float64)


def test_labels_may_be_any_two_numbers():
    results = [
        solve(Problem.glm(X, y, loss="logistic"), n_nodes=3, stop="rounds", max_rounds=5)
        for y in (LABELS, LABELS > 0, np.where(LABELS > 0, 7, 3), LABELS[:, None])
    ]
    for result in results[1:]:
        assert np.array_equal(result.coef, results[0].coef)


def test_data_is_not_altered():
    for split, data in (("features", X), ("samples", X), ("features", SPARSE), ("samples", SPARSE)):
        before, y, weight = data.copy(), Y.copy(), WEIGHT.copy()
        solve(Problem.glm(data, Y, split=split, sample_weight=WEIGHT), n_nodes=3, max_rounds=5)
        assert (abs(before - data)).max() == 0
        assert np.array_equal(y, Y)
        assert np.array_equal(weight, WEIGHT)


@pytest.mark.parametrize("split", ["features", "samples"])
def test_an_integer_weight_is_a_repeated_sample(split):
    count = np.random.default_rng(2).integers(0, 4, 30)
    options = {"loss": "huber", "penalty": "elasticnet", "alpha": 2.0, "split": split}
    weighted = Problem.glm(X, Y, sample_weight=count, **options)
    repeated = Problem.glm(np.repeat(X, count, axis=0), np.repeat(Y, count), **options)
    method = Cola(local_passes=5)
    coefs = [
        solve(problem, n_nodes=2, method=method, tol=1e-10, max_rounds=20_000, record_every=20).coef
        for problem in (weighted, repeated)
    ]
    np.testing.assert_allclose(coefs[0], coefs[1], atol=1e-4)


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_the_history_is_the_same_bits_on_any_number_of_threads(name):
    histories = [
        solve(PROBLEMS[name](), n_nodes=6, n_jobs=jobs, stop="rounds", max_rounds=15).history for jobs in (1, 2, 6)
    ]
    for other in histories[1:]:
        for key in set(other) - {"seconds"}:
            np.testing.assert_array_equal(other[key], histories[0][key], err_msg=key)


def test_dense_parts_of_different_width_are_refused():
    parts = [(np.ones((4, 8)), np.arange(4.0)), (np.ones((4, 5)), np.arange(4.0))]
    with pytest.raises(InvalidData, match="X of node 1 has 5 columns, another node has 8"):
        Run(Problem.from_nodes(parts, split="samples"), topology="path")


def test_groups_of_data_that_is_apart_may_be_in_any_order():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(40, 8)), np.array([0, 1, 0, 1, 2, 3, 2, 3])
    y = X @ rng.normal(size=8)
    parts = [(X[:, :4], y), (X[:, 4:], y)]
    penalties = [GroupLasso(labels[:4]), GroupLasso(labels[4:])]
    apart = solve(Problem.from_nodes(parts, penalty=penalties, alpha=5.0, split="features"), topology="path", tol=1e-9)
    pooled = solve(Problem.glm(X, y, penalty=GroupLasso(labels), alpha=5.0), n_nodes=2, tol=1e-9)
    np.testing.assert_allclose(apart.coef, pooled.coef, rtol=1e-4, atol=1e-6)


def test_a_mixing_must_fit_the_topology_and_cocoa_takes_none():
    problem = PROBLEMS["lasso"]()
    complete = mixing.metropolis(topology.complete(8))
    with pytest.raises(InvalidInput, match="no edge between"):
        Run(problem, topology="ring", n_nodes=8, mixing=complete)
    with pytest.raises(InvalidInput, match="no mixing matrix"):
        Run(problem, n_nodes=8, method=Cocoa(), mixing=complete)
    with pytest.raises(InvalidInput, match="nonsense"):
        Run(problem, topology="nonsense", n_nodes=8, method=Cocoa())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "cola"}, "method must be"),
        ({"network": 5}, "network must be"),
        ({"seed": 2**70}, "seed must be"),
        ({"warm_start": "a"}, "warm_start is"),
        ({"partition": None}, "partition"),
    ],
)
def test_options_of_the_wrong_kind(options, message):
    with pytest.raises(InvalidInput, match=message):
        Run(PROBLEMS["lasso"](), n_nodes=4, **options)


def test_theta_is_in_the_history():
    result = solve(
        PROBLEMS["lasso"](), n_nodes=4, method=Cola(local_passes=50, local_accuracy=0.2), stop="rounds", max_rounds=5
    )
    assert np.isnan(result.history["theta"][0])
    assert (result.history["theta"][1:] <= 0.2).all()
    plain = solve(PROBLEMS["lasso"](), n_nodes=4, stop="rounds", max_rounds=2)
    assert np.isnan(plain.history["theta"]).all()


def test_a_run_closes_itself():
    with Run(PROBLEMS["lasso"](), n_nodes=4, n_jobs=2) as run:
        assert next(run) == 1
    with pytest.raises(RuntimeError, match="shutdown"):
        next(run)
