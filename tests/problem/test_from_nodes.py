"""Data that is already apart: the pooled problem's results, and nodes that disagree."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from glmesh import Cola, Problem, Run, solve
from glmesh.errors import InvalidData, InvalidInput, InvalidNetwork
from glmesh.functions import L1, L2, GroupLasso
from glmesh.network import mixing, topology
from tests.scenes import LABELS, SPARSE, WEIGHT, X, Y, advance


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
            coef = np.random.default_rng(1).standard_normal(20)
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
        run = Run(apart, topology=network, method=Cola(acceleration="momentum"))
        assert run.communications == hops
        assert advance(run, 3).communications == hops + 3
    # a complete graph on which only a path carries weight is a path
    W = mixing.metropolis(topology.path(8)).matrix.toarray()
    one_class = [(X[:2], [1.0 if k < 7 else -1.0] * 2) for k in range(8)]
    run = Run(Problem.from_nodes(one_class, loss="hinge"), topology="complete", mixing=W)
    assert run.communications == 7
    assert np.isfinite(advance(run, 5).measure().objective)


DISAGREEMENTS = {
    "rows": ([(X[:, :10], Y), (X[:29, 10:], Y[:29])], {"split": "features"}, "has 30, another node 29"),
    "labels": ([(X[:, :10], Y), (X[:, 10:], Y + 1)], {"split": "features"}, "same y and sample_weight"),
    "weights": ([(X[:, :10], Y), (X[:, 10:], Y, WEIGHT)], {"split": "features"}, "same y and sample_weight"),
    "one_class": ([(X[:9], np.ones(9)), (X[9:], np.ones(21))], {"loss": "hinge"}, "one class only"),
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
    "four_classes": (
        [(X[:9], LABELS[:9]), (X[9:], 3.0 * LABELS[9:])],
        {"loss": "hinge"},
        "part 0, part 1 do not fit: part 0 has the labels -1, 1; part 1: -3, 3; code the labels alike",
    ),
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


def test_one_group_penalty_for_all_parts_is_refused_with_what_would_do():
    parts = [(X[:, :9], Y), (X[:, 9:], Y)]
    problem = Problem.from_nodes(parts, penalty=GroupLasso(np.arange(20) // 4), split="features")
    with pytest.raises(InvalidInput, match=r"20 group labels for the 9 columns of node 0.*\[GroupLasso"):
        Run(problem)


def test_apart_data_goes_with_its_own_network():
    problem = Problem.from_nodes([(X[:9], Y[:9]), (X[9:], Y[9:])])
    with pytest.raises(InvalidInput, match="on 2 nodes, but n_nodes=3"):
        Run(problem, n_nodes=3)
    with pytest.raises(InvalidNetwork, match="the graph has 3 nodes, expected 2"):
        Run(problem, topology=nx.path_graph(3))
    with pytest.raises(InvalidInput, match="already apart"):
        Run(problem, partition="contiguous")


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
