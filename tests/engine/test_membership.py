"""Nodes that drop, straggle, leave and join; links and graphs that change."""

from __future__ import annotations

import itertools
import tracemalloc

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Lasso, Ridge

from glmesh import Cola, Network, Problem, Run, Status, solve
from glmesh.errors import InvalidInput, InvalidNetwork
from glmesh.gossip.flows import FlowGossip
from glmesh.network import mixing, topology
from tests.cases import SOAK, prop
from tests.faulty import advance, data, least_value, problem_of, settle, violation
from tests.transports.test_faulty import fault_plans

RING = [(k, (k + 1) % 6) for k in range(6)]


RING = [tuple(sorted(link)) for link in RING]


HEALED = 60  # rounds after which generated plans are quiet


def edges(run: Run) -> dict:
    node_flows = [own_flows for state in run.states for own_flows in state.gossip.node_flows]
    return {(edge.me, edge.peer): edge for own_flows in node_flows for edge in own_flows.edges.values()}


@prop(300)
@given(
    plan=fault_plans(6, RING, HEALED),
    split=st.sampled_from(["features", "samples"]),
    steps=st.integers(1, 2),
    jobs=st.sampled_from([1, 2]),
)
def test_after_healing_nothing_is_lost(plan, split, steps, jobs):
    method = Cola(gossip_steps=steps, gossip="flows")
    options = {"n_nodes": 6, "method": method, "network": Network(), "n_blocks": jobs}
    with Run(problem_of(split=split), faults=plan, **options) as run:
        for _ in range(HEALED):
            next(run)
            W = run.exchange.effective
            assert abs(W - W.T).max() == 0
            assert W.min() >= 0
            np.testing.assert_allclose(W.sum(axis=1), 1.0, atol=1e-15)
        advance(run, 12)
        members = run.members
        flows = {link: edge for link, edge in edges(run).items() if members[link[1]]}
        assert flows.keys() == {(a, b) for x, y in RING for a, b in ((x, y), (y, x)) if members[a] and members[b]}
        for (a, b), edge in flows.items():
            np.testing.assert_array_equal(edge.flow, -flows[b, a].flow)
            assert edge.digest == flows[b, a].digest
        assert violation(run) <= 1e-10


@prop(60)
@given(plan=fault_plans(6, RING, HEALED), penalty=st.sampled_from(["l1", "l2"]))
def test_a_run_with_faults_reaches_the_optimum_of_one_without(plan, penalty):
    plan = {key: value for key, value in plan.items() if key not in ("join", "leave")}
    problem = problem_of(penalty)
    best = solve(problem, n_nodes=6, topology="complete", tol=1e-10, max_rounds=20_000).objective
    options = {"topology": nx.Graph(RING), "network": Network(), "record_every": 20}
    result = solve(problem, **options, faults=plan, tol=1e-8, max_rounds=20_000)
    assert result.status is Status.CONVERGED
    assert abs(result.objective - best) <= 1e-6 * best


@pytest.mark.parametrize("split", ["features", "samples"])
def test_negative_control_matrix_gossip_drifts_under_one_way_loss(split):
    """The law above can fail: it does for plain gossip, and nothing brings the sum back."""
    plan = {"random": [{"loss": 0.1, "until": 200}]}
    problem = problem_of(split=split)
    plain = advance(Run(problem, n_nodes=6, faults=plan, method=Cola(gossip="matrix")), 400)
    gossip = advance(Run(problem, n_nodes=6, faults=plan, method=Cola(acceleration="momentum")), 400)
    assert violation(plain) > 1e-3
    assert violation(gossip) < 1e-12


def test_links_that_fail_both_ways_mix_by_the_effective_matrix():
    """Without one-way losses the ledger is v <- W(t) v with W(t) of that very exchange."""
    plan = {"seed": 3, "random": [{"dropout": 0.2, "links": 0.3}]}
    run = Run(
        problem_of(), n_nodes=6, faults=plan, method=Cola(local_passes=[0, 0, 0, 0, 0, 1]), warm_start=np.ones(24)
    )
    for _ in range(40):
        before = run.estimates
        next(run)
        mixed = run.exchange.effective @ before
        np.testing.assert_allclose(run.estimates[:5], mixed[:5], atol=1e-12 * np.abs(before).max())


def test_matrix_and_flow_gossip_agree_under_known_failures():
    plan = {"random": [{"dropout": 0.3, "links": 0.1}], "partition": [{"groups": [[0, 1, 2]], "from": 20, "until": 40}]}
    runs = [
        Run(problem_of(), n_nodes=6, faults=plan, method=Cola(gossip=gossip, acceleration="none"))
        for gossip in ("matrix", "flows")
    ]
    for _ in range(200):
        for run in runs:
            next(run)
    a, b = (run.estimates for run in runs)
    np.testing.assert_allclose(a, b, atol=1e-11 * np.abs(a).max())


@pytest.mark.parametrize("method", ["printed", "default"])
@pytest.mark.parametrize("penalty", ["l1", "l2"] if SOAK else ["l2"])
def test_suboptimality_falls_for_every_p_and_faster_for_larger_p(penalty, method, record_property):
    """The dropout figure: nodes take part with probability p, frozen otherwise; means over seeds."""
    chosen = {"printed": Cola.printed(), "default": None}[method]
    X, y = data(60, 40, seed=1)
    problem = Problem.glm(X, y, penalty=penalty, alpha=5.0)
    best = solve(problem, topology="complete", n_nodes=8, tol=1e-11, max_rounds=20_000).objective
    curves, rounds = {}, 240 if SOAK else 160
    for p in (0.3, 0.5, 0.7, 0.9, 1.0):
        runs = []
        for seed in range((4 if SOAK else 2) if p < 1 else 1):  # without faults all seeds are the same run
            plan = {"seed": seed, "random": [{"dropout": 1 - p}]} if p < 1 else None
            options = {"stop": "rounds", "max_rounds": rounds, "record_every": 20}
            result = solve(problem, method=chosen, n_nodes=8, faults=plan, **options)
            runs.append((result.history["objective"] - best) / best)
        curves[p] = np.mean(runs, axis=0)
    for p, curve in curves.items():
        assert ((np.diff(curve[1:]) < 0) | (curve[1:-1] < 1e-12)).all(), (p, curve)
        record_property(f"{penalty}, {method}, p = {p}: suboptimality after {rounds} rounds", f"{curve[-1]:.1e}")
    order = list(curves) if method == "printed" else [0.3, 0.5, 0.7]  # momentum overshoots now and then
    for slow, fast in itertools.pairwise(order):
        assert ((curves[fast][3:] < curves[slow][3:]) | (curves[fast][3:] < 1e-12)).all(), (slow, fast)


@pytest.mark.parametrize("penalty", ["l1", "l2"])
def test_the_reset_model_oscillates(penalty):
    """Its figure in the appendix: variables that are lost again and again never let it settle."""
    problem = problem_of(penalty)
    best = solve(problem, topology="complete", n_nodes=6, tol=1e-10, max_rounds=20_000).objective
    curves = {}
    for model in ("freeze", "reset"):
        plan = {"random": [{"dropout": 0.1, "model": model}]}
        result = solve(problem, n_nodes=6, faults=plan, stop="rounds", max_rounds=300)
        curves[model] = (result.history["objective"] - best) / best
    late = curves["reset"][150:]
    assert np.sum(np.diff(late) > 0) > 20
    assert late.min() > 1e-3
    assert curves["freeze"][-1] < 1e-4 * late.mean()


@pytest.mark.parametrize("penalty", ["l1", "l2"] if SOAK else ["l1"])
def test_everything_at_once_ends_certified_and_equals_scikit_learn(penalty, record_property):
    """30 % dropout, 5 % one-way loss, two joins, one leave, a partition of 50 rounds, new columns: for ever."""
    tol = 1e-6 if SOAK else 1e-5
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(120, 64)), rng.normal(size=(120, 4))
    y = X[:, :6] @ rng.normal(size=6) + new @ [1.0, -1.0, 0.0, 0.5] + 0.1 * rng.normal(size=120)
    plan = {
        "seed": 3,
        "random": [{"dropout": 0.3, "loss": 0.05}],
        "join": [{"node": 3, "round": 60}, {"node": 11, "round": 150}],
        "leave": [{"node": 6, "round": 220, "model": "reset"}],
        "partition": [{"groups": [list(range(8))], "from": 250, "until": 300}],
    }

    def grow(run: Run) -> None:
        if run.rounds == 100:
            run.add_columns(9, new)

    problem = Problem.glm(X, y, penalty=penalty, alpha=10.0)
    options = {"topology": "torus", "n_nodes": 16, "faults": plan, "callback": grow, "record_every": 100}
    result = solve(problem, **options, tol=tol, stop="certificate", max_rounds=30_000)
    assert result.status is Status.CERTIFIED
    assert result.certificate.relative <= tol
    assert [event.kind for event in result.events] == ["join", "add_columns", "join", "leave"]
    assert len(result.certificate.members) == 15
    gone = Run(problem, n_nodes=16).partition.columns_of(6)
    kept = np.setdiff1d(np.arange(68), gone)
    final = np.hstack([X, new])[:, kept]
    exact = (
        Lasso(alpha=10.0 / 120, fit_intercept=False, tol=1e-14, max_iter=100_000)
        if penalty == "l1"
        else Ridge(alpha=10.0, fit_intercept=False)
    ).fit(final, y)
    assert not result.coef[gone].any()
    np.testing.assert_allclose(result.coef[kept], exact.coef_, atol=2e-4 if SOAK else 1e-3)
    residual = final @ exact.coef_ - y
    term = np.abs(exact.coef_).sum() if penalty == "l1" else 0.5 * exact.coef_ @ exact.coef_
    best = 0.5 * residual @ residual + 10.0 * term
    assert -1e-9 * best <= result.objective - best <= result.certificate.bound
    record_property(f"{penalty}: rounds, certified relative gap", f"{result.rounds}, {result.certificate.relative:.1e}")
    record_property(
        f"{penalty}: largest error of a coefficient", f"{np.abs(result.coef[kept] - exact.coef_).max():.1e}"
    )


@pytest.mark.parametrize("model", ["freeze", "reset"])
@pytest.mark.parametrize("split", ["features", "samples"])
def test_a_node_leaves_for_good(model, split):
    problem = problem_of("l2", split)
    plan = {"leave": [{"node": 2, "round": 30, "model": model}]}
    momentum = Cola(acceleration="momentum")
    run = advance(Run(problem, n_nodes=6, faults=plan, certify=True, method=momentum), 30)
    own = run.partition.columns_of(2)
    x_before, share = run.x[own], run.nodes.by_id.share(2)
    assert np.abs(x_before).max() > 0
    settle(run, 1e-7, 1200)
    assert not run.members[2]
    assert {float(b) for b in run.states[0].gossip.members_seen[run.members]} == {5.0}
    event = run.events[0]
    assert event.share == pytest.approx(np.linalg.norm(share))
    if model == "freeze":
        assert event.kind == "freeze"
        assert run.x[own].tobytes() == x_before.tobytes()
        np.testing.assert_allclose(run.nodes.by_id.constant(), share, rtol=1e-12)
    else:
        assert event.kind == "leave"
        assert not run.x[own].any()
        assert run.nodes.by_id.constant() is None
    assert violation(run) < 1e-12
    assert run.measure().gap <= 1e-6 * abs(run.measure().objective)
    rest = np.setdiff1d(np.arange(problem.n), own)
    form = problem.composite
    A = form.columns.take(rest).to_scipy()
    constant = share if model == "freeze" else np.zeros(form.columns.d)
    low = least_value(form.f, form.g.take(rest), A, constant)
    assert run.measure().value == pytest.approx(low, rel=1e-7, abs=1e-7)
    assert run.certificate is not None
    assert run.certificate.relative < 1e-3


def test_a_leaver_is_counted_by_whoever_counts_for_its_successor():
    plan = {"leave": [{"node": 2, "round": 30}, {"node": 1, "round": 60}, {"node": 0, "round": 90, "model": "reset"}]}
    run = advance(Run(problem_of("l2"), n_nodes=6, faults=plan), 40)
    assert run.membership.frozen == {2: 1}
    advance(run, 30)
    assert run.membership.frozen == {2: 0, 1: 0}
    two = run.x[run.partition.columns_of(2)]
    assert np.abs(two).max() > 0
    advance(run, 60)
    assert run.membership.frozen == {}
    assert run.nodes.by_id.constant() is None
    assert not run.x[run.partition.columns_of(2)].any()
    assert violation(run) < 1e-12


def test_joiners_start_at_zero_and_nodes_disagree_about_k_for_a_while():
    plan = {"join": [{"node": 5, "round": 50}]}
    run = advance(Run(problem_of("l2"), n_nodes=6, faults=plan), 50)
    own = run.partition.columns_of(5)
    assert not run.x[own].any()
    assert set(run.states[0].gossip.members_seen[:5]) == {5.0}
    next(run)
    members_seen = run.states[0].gossip.members_seen
    assert members_seen[5] == 6.0
    assert members_seen[2] == 5.0
    advance(run, 10)
    assert set(run.states[0].gossip.members_seen) == {6.0}
    settle(run, 1e-9, 1000)
    assert violation(run) < 1e-12
    best = solve(problem_of("l2"), n_nodes=6, topology="complete", tol=1e-10, max_rounds=10_000)
    np.testing.assert_allclose(run.x, best.x, atol=1e-4)


@pytest.mark.parametrize("model", ["freeze", "reset"])
@pytest.mark.parametrize(
    ("graph", "plan"),
    [
        pytest.param(nx.cycle_graph(8), {"leave": [2, 3, 4]}, id="three in a row"),
        pytest.param(
            nx.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 1), (5, 4)]), {"leave": [5, 4]}, id="a leaf and its stem"
        ),
        pytest.param(
            nx.cycle_graph(6),
            {"leave": [1, 2], "down": [{"node": 3, "from": 24, "until": 60}]},
            id="news that one missed",
        ),
    ],
)
def test_everybody_hears_of_leavers(graph, plan, model):
    """Also if the neighbours leave at the same time, or had not heard of new data yet."""
    plan = plan | {"leave": [{"node": node, "round": 30, "model": model} for node in plan["leave"]]}
    run = Run(problem_of("l2"), topology=graph, faults=plan, certify=True)
    advance(run, 25)
    run.add_columns(2, np.random.default_rng(1).normal(size=(40, 2)))
    settle(run, 1e-6, 900)
    members_seen = np.concatenate([state.gossip.members_seen for state in run.states])[run.members]
    assert (members_seen == run.members.sum()).all()
    assert violation(run) < 1e-12
    assert run.measure().gap <= 1e-5 * abs(run.measure().objective)
    assert list(run.certificate.members) == np.flatnonzero(run.members).tolist()
    assert len(run.membership.frozen) == (len(plan["leave"]) if model == "freeze" else 0)


@pytest.mark.parametrize("one_way", [True, False])
def test_a_link_that_fails_for_good_is_given_up(one_way):
    plan = {"random": [{"loss": 0.2, "until": 60}], "link": [{"between": [1, 2], "one_way": one_way, "from": 30}]}
    result = solve(problem_of(), n_nodes=6, faults=plan, tol=1e-6, stop="certificate", max_rounds=5000)
    assert result.status is Status.CERTIFIED
    run = advance(Run(problem_of(), n_nodes=6, faults=plan), 90)
    assert (1, 2) not in edges(run)
    assert (2, 1) not in edges(run)
    assert violation(run) < 1e-12
    for cut in ({"link": [{"between": [1, 2]}, {"between": [4, 5]}]}, {"partition": [{"groups": [[0, 1]], "from": 5}]}):
        with pytest.raises(InvalidNetwork, match="cut off from each other for good"):
            Run(problem_of(), n_nodes=6, faults=cut)


def test_a_lone_node_and_nodes_that_never_come():
    problem = problem_of()
    alone = solve(problem, n_nodes=1, faults={"random": [{"dropout": 0.3}]}, tol=1e-6, stop="certificate")
    assert alone.status is Status.CERTIFIED
    plan = {"join": [{"node": 2, "round": 10**6}], "leave": [{"node": 4, "round": 0}]}
    result = solve(problem, topology="complete", n_nodes=6, faults=plan, warm_start=np.ones(24), max_rounds=3000)
    absent = [Run(problem, n_nodes=6).partition.columns_of(k) for k in (2, 4)]
    assert not result.coef[np.concatenate(absent)].any()
    assert problem.objective(result.coef) == pytest.approx(result.objective)


def test_data_that_is_apart_is_agreed_on_by_all_who_ever_take_part():
    """Also by nodes that are never members together."""
    X, y = data()
    parts = [(X[k], np.full(8, 5.0 if k[0] < 32 else 7.0)) for k in np.array_split(np.arange(40), 5)]
    problem = Problem.from_nodes(parts, loss="logistic", alpha=1.0)
    plan = {"leave": [{"node": 0, "round": 5}], "join": [{"node": 4, "round": 6}]}
    run = advance(Run(problem, topology="path", faults=plan), 20)
    assert run.blocks[0].terms[4].kernel_rows(8)[:, 4].all()  # its labels are the positive class
    apart = Problem.from_nodes([(X, y), (X, y + 1)], split="features")
    handover = {"leave": [{"node": 0, "round": 5}], "join": [{"node": 1, "round": 5}]}
    with pytest.raises(InvalidInput, match="they differ"):
        Run(apart, faults=handover)
    processes = Problem.from_nodes([(X, y), (X, y)], split="features")
    assert advance(Run(processes, faults=handover, certify=True), 60).certificate.members == (1,)


def test_graphs_that_use_part_of_the_topology_can_be_resumed_and_must_not_fall_apart(tmp_path):
    path = [[[k, k + 1] for k in range(5)]]
    plan = {"graphs": path, "link": [{"between": [0, 3], "from": 2, "until": 9}]}
    run = advance(Run(problem_of(), n_nodes=6, topology="complete", faults=plan), 5)
    run.save(tmp_path / "run")
    again = Run.resume(tmp_path / "run")
    assert advance(again, 20).x.tobytes() == advance(run, 20).x.tobytes()
    with pytest.raises(InvalidNetwork, match="cut off"):
        Run(problem_of(), n_nodes=6, topology="complete", faults={"graphs": path, "leave": [{"node": 2, "round": 5}]})


def test_a_plan_that_can_lose_messages_makes_flow_gossip_the_default():
    for plan, gossip in (
        (None, False),
        ({"straggler": [{"node": 1, "theta": 0.5}]}, False),
        ({"random": [{"loss": 0.01}]}, True),
        ({"down": [{"node": 1, "from": 3, "until": 4}]}, True),
    ):
        run = Run(problem_of(), n_nodes=6, faults=plan)
        assert isinstance(run.states[0].gossip, FlowGossip) is gossip


def test_what_plain_gossip_cannot_do_is_refused():
    problem, matrix = problem_of(), Cola(gossip="matrix")
    for plan in (
        {"join": [{"node": 1, "round": 3}]},
        {"random": [{"dropout": 0.1, "model": "reset"}]},
        {"down": [{"node": 1, "from": 2, "until": 4, "model": "reset"}]},
    ):
        with pytest.raises(InvalidInput, match="need gossip='flows'"):
            Run(problem, n_nodes=6, faults=plan, method=matrix)
    with pytest.raises(InvalidInput, match="certificates under faults need"):
        Run(problem, n_nodes=6, faults={"random": [{"loss": 0.1}]}, method=matrix, certify=True)
    with pytest.raises(InvalidInput, match="gossip must be"):
        Cola(gossip="whisper")
    W = mixing.metropolis(topology.ring(6)).matrix
    with pytest.raises(InvalidInput, match="leave mixing= away"):
        Run(problem, n_nodes=6, faults={"graphs": [RING]}, mixing=W)
    with pytest.raises(InvalidInput, match="node 9"):
        Run(problem, n_nodes=6, faults={"down": [{"node": 9, "from": 1, "until": 2}]})


def test_the_result_holds_the_plan_and_who_was_there():
    plan = {
        "seed": 5,
        "random": [{"dropout": 0.4}],
        "join": [{"node": 4, "round": 10}],
        "leave": [{"node": 0, "round": 20}],
    }
    result = solve(problem_of(), n_nodes=6, faults=plan, stop="rounds", max_rounds=60)
    assert result.faults == plan
    assert result.presence.shape == (60, 6)
    assert (result.presence[:10, 4] == 0).all()
    assert (result.presence[10:, 4] > 0).all()
    assert (result.presence[20:, 0] == 0).all()
    away = np.mean(result.presence[:, [1, 2, 3, 5]] == 0.5)
    assert 0.3 < away < 0.5
    assert solve(problem_of(), n_nodes=6, stop="rounds", max_rounds=3).faults == {}


def test_churn_for_a_long_time_neither_drifts_nor_grows(record_property):
    """20,000 rounds on 64 nodes in a soak: dropout, loss, copies, delays, resets, links, for ever."""
    rng = np.random.default_rng(7)
    n_nodes, rounds = (64, 20_000) if SOAK else (24, 400)
    X, y = rng.normal(size=(30, 2 * n_nodes)), rng.normal(size=30)
    problem = Problem.glm(X, y, penalty="l1", alpha=3.0)
    plan = {
        "seed": 11,
        "random": [
            {"dropout": 0.1, "loss": 0.02, "duplicate": 0.02, "delay": 0.02, "links": 0.02},
            {"dropout": 0.0005, "model": "reset"},
        ],
        "join": [{"node": n_nodes - 1, "round": 100}, {"node": 20, "round": 300}],
        "leave": [{"node": 5, "round": 200}, {"node": 6, "round": 350, "model": "reset"}],
    }
    run = Run(problem, n_nodes=n_nodes, faults=plan, certify=True, tol=1e-6, n_blocks=1)
    advance(run, rounds // 4)
    tracemalloc.start()
    advance(run, rounds // 4)  # long enough for everything that is kept to be replaced once
    middle = tracemalloc.get_traced_memory()[1]  # peaks: in between it depends on how many records are known
    tracemalloc.reset_peak()
    advance(run, rounds - 2 * (rounds // 4))
    end = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    run.nodes.plan = type(run.faults).of({k: v for k, v in plan.items() if k != "random"})
    advance(run, 12)
    assert violation(run) < 1e-10
    for (a, b), edge in edges(run).items():
        np.testing.assert_array_equal(edge.flow, -edges(run)[b, a].flow)
    assert end < middle + 1_000_000, (middle, end)
    record_property(f"rounds of churn on {n_nodes} nodes", rounds)
    record_property("violation of the invariant at the end", f"{violation(run):.1e}")
    record_property("peaks of memory in bytes, before and after the middle", f"{middle}, {end}")
