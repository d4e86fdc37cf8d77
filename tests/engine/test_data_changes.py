"""Data that changes in mid-run, and nodes of different strength."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from sklearn.linear_model import Ridge

from glmesh import Cola, Network, Problem, Run, Status, solve, theory
from glmesh.errors import InvalidInput, InvalidNetwork
from glmesh.network import mixing
from tests.faulty import advance, data, problem_of, settle, violation


@pytest.mark.parametrize("gossip", ["matrix", "flows"])
@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("split", ["features", "samples"])
def test_columns_come_and_go(gossip, pooled, split):
    X, y = data(30, 18, seed=2)
    by_samples = split == "samples"
    kind = {"penalty": "l2", "alpha": 3.0, "split": split}
    parts = np.array_split(np.arange(30 if by_samples else 18), 6)
    if pooled:
        problem = Problem.glm(X, y, **kind)
    else:
        problem = Problem.from_nodes([(X[k], y[k]) if by_samples else (X[:, k], y) for k in parts], **kind)
    run = advance(Run(problem, n_nodes=6, method=Cola(gossip=gossip), certify=True), 80)
    kept = run.x
    rng = np.random.default_rng(9)
    more, labels = (rng.normal(size=(4, 18)), rng.normal(size=4)) if by_samples else (rng.normal(size=(30, 4)), None)
    new = run.add_columns(3, more, labels)
    assert run.problem.n == problem.n + 4
    assert not run.x[new].any()
    np.testing.assert_array_equal(np.delete(run.x, new), kept)
    assert violation(run) < 1e-12
    advance(run, 40)
    gone = [int(new[1]), 0, 7]
    before = run.x
    run.remove_columns(gone)
    np.testing.assert_array_equal(run.x, np.delete(before, gone))
    assert violation(run) < 1e-12
    settle(run, 1e-12, 2500)
    full = np.insert(X, new[0], more, axis=0) if by_samples else np.insert(X.T, new[0], more.T, axis=0).T
    target = np.insert(y, new[0], labels) if by_samples else y
    final = (np.delete(full, gone, axis=0), np.delete(target, gone)) if by_samples else (np.delete(full, gone, 1), y)
    exact = Ridge(alpha=3.0, fit_intercept=False).fit(*final)
    shared = run.problem.composite.columns.dot(run.x)
    np.testing.assert_allclose(run.problem.coefficients(run.x, shared)[0], exact.coef_, atol=1e-5)
    assert run.certificate.relative < 1e-3
    assert next(event.kind for event in run.events) == "add_columns"


def test_bad_changes_of_data_are_refused_and_change_nothing():
    X, y = data()
    run = advance(Run(Problem.glm(X, y, penalty="l1", alpha=5.0), n_nodes=6), 20)
    before = run.x
    for call, message in (
        (lambda: run.add_columns(6, X[:, :1]), "node must be a whole number"),
        (lambda: run.add_columns(0, X[:5, :1]), "has 5 rows"),
        (lambda: run.add_columns(0, X[:, :1], y), "without y"),
        (lambda: run.add_columns(0, np.full((40, 1), np.nan)), "NaN"),
        (lambda: run.remove_columns([24]), "no column 24"),
        (lambda: run.remove_columns([-1]), "no column -1"),
        (lambda: run.remove_columns([]), "at least one"),
        (lambda: run.remove_columns(np.arange(24)), "no column would be left"),
    ):
        with pytest.raises(InvalidInput, match=message):
            call()
    np.testing.assert_array_equal(run.x, before)
    samples = Run(Problem.glm(X, np.sign(y), loss="hinge", alpha=1.0, split="samples"), n_nodes=6)
    with pytest.raises(InvalidInput, match="need their labels"):
        samples.add_columns(0, X[:1])
    with pytest.raises(InvalidInput, match="labels hold 7"):
        samples.add_columns(0, X[:1], [7.0])


def test_slow_nodes_do_less_within_a_time_budget():
    X, y = data(60, 48)
    problem = Problem.glm(X, y, penalty="l1", alpha=5.0)
    network = Network(latency=1e-4, nonzeros_per_second=[1e6] * 7 + [1e5])
    work = 60 * 6
    budget = 1.05 * work / 1e6  # a pass of a fast node; the slow one gets through a tenth of that
    plain = Cola(acceleration="none")
    patient = solve(problem, n_nodes=8, network=network, tol=1e-6, max_rounds=20_000, method=plain)
    hasty = solve(problem, n_nodes=8, network=network, tol=1e-6, max_rounds=20_000, method=Cola(time_budget=budget))
    assert hasty.status is Status.CONVERGED
    assert hasty.seconds < 0.7 * patient.seconds
    run = Run(problem, n_nodes=8, network=network, method=Cola(time_budget=budget))
    worked = np.zeros(8)
    for _ in range(100):
        next(run)
        worked += run.theta != 1.0  # Theta = 1: nothing was done
        assert (run.states[0].visited[run.theta == 1.0] == 0).all()
    assert (worked[:7] == 100).all()
    assert 9 <= worked[7] <= 12
    with pytest.raises(InvalidInput, match="time_budget needs a clock"):
        Run(problem, n_nodes=8, method=Cola(time_budget=0.1))


def test_stragglers_delay_the_clock_or_reach_less():
    problem = problem_of("l2")
    late = {"straggler": [{"node": 2, "delay": 0.5, "from": 10, "until": 20}]}
    seconds = [
        solve(problem, n_nodes=6, network=Network(), stop="rounds", max_rounds=30, faults=plan).seconds
        for plan in (None, late)
    ]
    assert seconds[1] == pytest.approx(seconds[0] + 5.0, rel=0.01)
    with pytest.raises(InvalidInput, match="delay needs a clock"):
        solve(problem, n_nodes=6, faults=late)
    run = Run(problem, n_nodes=6, faults={"straggler": [{"node": 2, "theta": 1.0}]}, method=Cola(local_passes=20))
    advance(run, 5)
    assert run.theta[2] == 1.0
    assert not run.x[run.partition.columns_of(2)].any()
    weak = {"straggler": [{"node": 2, "theta": 0.8}]}
    run = advance(Run(problem, n_nodes=6, faults=weak, method=Cola(local_passes=20)), 3)
    assert np.isfinite(run.theta[2])
    assert run.theta[2] <= 0.8
    assert np.isnan(run.theta[0])


def test_graphs_that_are_connected_only_over_time():
    """A ring of six as two matchings: never connected, but over every two exchanges."""
    problem = problem_of("l2")
    graphs = [[[0, 1], [2, 3], [4, 5]], [[1, 2], [3, 4], [5, 0]]]
    best = solve(problem, n_nodes=6, topology="complete", tol=1e-10, max_rounds=10_000)
    for gossip in ("matrix", "flows"):
        method = Cola(gossip_steps=2, gossip=gossip)
        result = solve(problem, n_nodes=6, faults={"graphs": graphs}, method=method, tol=1e-7, max_rounds=5000)
        assert result.status is Status.CONVERGED
        assert result.objective == pytest.approx(best.objective, rel=1e-6)
    options = {"topology": "complete", "method": Cola(gossip_steps=2), "stop": "certificate", "max_rounds": 5000}
    certified = solve(problem, n_nodes=6, faults={"graphs": graphs}, tol=1e-5, **options)
    assert certified.status is Status.CERTIFIED
    sequence = mixing.sequence([nx.Graph([tuple(link) for link in links]) for links in graphs])
    beta = mixing.window_beta(sequence, 2)
    assert beta < 1
    run = Run(problem, n_nodes=6, faults={"graphs": graphs}, method=Cola(gossip_steps=2))
    rate = theory.linear_rate(theory.constants(run, beta=beta), p_max=0.2, theta_max=0.5)
    assert 0 < rate < 1
    with pytest.raises(InvalidNetwork, match="never"):
        solve(problem, n_nodes=6, faults={"graphs": [[[0, 1]], [[2, 3], [1, 2]]]})
