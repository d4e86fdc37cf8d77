"""Fewer communications: momentum, exact sums with a plane search, Chebyshev gossip, a safe sigma', curvature."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from glmesh import Cocoa, Cola, Problem, Run, solve
from glmesh.collectives.pipeline import TreeAggregate
from glmesh.core.transport import drive
from glmesh.errors import InvalidInput
from glmesh.functions import Logistic, Squared, Table
from glmesh.methods.cola import plane
from glmesh.solvers import CoordinateDescent, SklearnCoordinateDescent, Subproblems
from tests.cases import prop

GRAPHS = ["ring", "star", "path", "grid", "complete", "2-cycle"]


def data(m=40, p=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, p)) @ np.diag(np.logspace(0, -1, p))
    return X, X[:, :4] @ rng.normal(size=4) + 0.1 * rng.normal(size=m)


def lasso(seed=0, **options):
    X, y = data(seed=seed)
    return Problem.glm(X, y, penalty="l1", alpha=1.0, **options)


def svm(seed=0):
    X, y = data(seed=seed)
    return Problem.glm(X, np.sign(y), loss="hinge", penalty="l2", alpha=1.0, split="samples")


def logistic(seed=0, **options):
    X, y = data(seed=seed)
    return Problem.glm(X, np.sign(y), loss="logistic", **{"penalty": "l2", "alpha": 1.0} | options)


PROBLEMS = {
    "lasso": lasso,
    "svm": svm,
    "logistic": logistic,
    "logistic dual": lambda seed=0: logistic(seed, split="samples"),
    "ridge": lambda seed=0: Problem.glm(*data(seed=seed), penalty="l2", alpha=1.0),
    "intercept": lambda seed=0: lasso(seed, fit_intercept=True),
}


def advance(run, rounds):
    for _ in range(rounds):
        next(run)
    return run


def shared(run):
    return sum(block.columns.dot(state.x) for block, state in zip(run.blocks, run.states, strict=True))


def violation(run):
    exact = shared(run)
    return np.abs(run.estimates.mean(axis=0) - exact).max() / (1.0 + np.abs(exact).max())


class Twin:
    """Momentum written down plainly, with full matrices and no restarts."""

    def __init__(self, run):
        self.block, self.run = run.blocks[0], run
        self.solver = CoordinateDescent("symmetric")
        self.memory = self.solver.prepare(self.block)
        lo, hi = self.block.table[:, 3], self.block.table[:, 4]
        self.x = self.x_before = np.clip(np.zeros(self.block.columns.n), lo, hi)
        self.v = self.v_before = self._shares(self.x)
        self.t, self.theta = 1.0, 0.0

    def _shares(self, x):
        b = self.block
        return np.stack([b.size * b.node_columns(k).dot(x[b.of_node(k)]) for k in range(b.size)])

    def round(self, W):
        b, K = self.block, self.block.size
        y = self.x + self.theta * (self.x - self.x_before)
        clipped = np.clip(y, b.table[:, 3], b.table[:, 4])
        Y = self.v + self.theta * (self.v - self.v_before) + self._shares(clipped - y)
        Z = (np.eye(K) - b.info.damping * (np.eye(K) - W)) @ Y
        w = np.stack([b.f.gradient(row) for row in Z])
        new, change = clipped.copy(), np.zeros_like(Z)
        rows = np.stack([b.f.majorant(row) for row in Z]) * b.f.tau if b.f.bends else None
        q = np.full(K, K / b.f.tau)
        self.memory.wake[:] = 0.0
        self.solver.solve(b, self.memory, Subproblems(
            new, w, change, q, 1.0 / q, 1.0, np.full(K, 2, np.uint64), np.full(K, -1.0), 0, rows
        ))  # fmt: skip
        self.x_before, self.v_before = self.x, self.v
        self.x, self.v = new, Z + self._shares(new - clipped)
        after = (1.0 + np.sqrt(1.0 + 4.0 * self.t**2)) / 2
        self.t, self.theta = after, (self.t - 1.0) / after


# --- momentum -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", ["ring", "star", "grid"])
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_momentum_equals_the_plain_recursion_until_a_restart(name, graph):
    """Until the first restart: matrix and flow gossip are the plain recursion, whatever is clipped."""
    for gossip in ("matrix", "flows"):
        run = Run(PROBLEMS[name](), n_nodes=6, topology=graph, n_blocks=1,
                  method=Cola(acceleration="momentum", gossip=gossip))  # fmt: skip
        twin, W = Twin(run), run.mixing.matrix.toarray()
        for _ in range(12):
            twin.round(W)
            next(run)
            if run.states[0].base.policy.restarts:
                break
            np.testing.assert_allclose(run.states[0].x, twin.x, atol=1e-9)
            np.testing.assert_allclose(run.estimates, twin.v, atol=1e-8 * (1 + np.abs(twin.v).max()))
        assert run.rounds > 5


def test_links_that_fail_both_ways_coast():
    """As if the mixing matrix of each exchange had lacked them, and momentum gone on."""
    plan = {"seed": 3, "random": [{"links": 0.3}]}
    run = Run(lasso(), n_nodes=6, faults=plan, n_blocks=1)
    run.states[0].base.monitor.heard[:] = 1.0
    twin = Twin(run)
    for _ in range(10):
        next(run)
        twin.round(run.exchange.effective.toarray())
        np.testing.assert_allclose(run.states[0].x, twin.x, atol=1e-10)
        assert violation(run) < 1e-12


@prop(60)
@given(
    st.sampled_from(list(PROBLEMS)),
    st.sampled_from(GRAPHS),
    st.integers(1, 9),
    st.sampled_from(["auto", "momentum", "sums"]),
    st.sampled_from([1, 2]),
    st.integers(0, 5),
)
def test_the_mean_of_the_estimates_is_ax_in_every_round(name, graph, n_nodes, acceleration, n_blocks, seed):
    method = Cola(acceleration=acceleration)
    run = Run(PROBLEMS[name](seed), n_nodes=n_nodes, topology=graph, method=method, n_blocks=min(n_blocks, n_nodes))
    for _ in range(30):
        next(run)
        assert violation(run) < 1e-10


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("n_nodes", [1, 5, 12])
def test_everybody_hears_h_two_depths_later_with_the_same_bits(graph, n_nodes):
    run = Run(lasso(), n_nodes=n_nodes, topology=graph, n_blocks=min(2, n_nodes), method=Cola(acceleration="momentum"))
    depth, seen, true = run.blocks[0].info.depth, [], []
    original = TreeAggregate.incoming

    def incoming(self, block, halo):
        found = original(self, block, halo)
        seen.append(found)
        return found

    TreeAggregate.incoming = incoming
    try:
        for _ in range(4 * depth + 6):
            true.append(run.measure().h)
            next(run)
    finally:
        TreeAggregate.incoming = original
    blocks = len(run.blocks)
    for round in range(2 * depth, len(true)):
        heard = np.concatenate(seen[round * blocks : (round + 1) * blocks])
        assert (heard == heard[0]).all()
        assert heard[0] == pytest.approx(true[round - 2 * depth], rel=1e-12)


def test_momentum_that_has_gone_wrong_returns_to_a_good_snapshot():
    run = advance(Run(lasso(), n_nodes=6, n_blocks=1, method=Cola(acceleration="momentum")), 30)
    before = run.measure().value
    run.states[0].x += 3.0  # a push that no step would make; the estimates follow
    for k in range(6):
        run.states[0].gossip.move(run.blocks[0], k, np.full(run.blocks[0].n_columns(k), 3.0))
    assert violation(run) < 1e-12
    advance(run, 2 * run.blocks[0].info.depth + 2)
    assert run.states[0].overshoots == 1
    assert run.measure().value < 1.01 * before
    assert violation(run) < 1e-12
    advance(run, 300)
    assert run.measure().gap < 1e-8


def test_momentum_needs_far_fewer_communications():
    problem = lasso()
    counts = {}
    for name, method in (("printed", Cola.printed()), ("default", Cola())):
        result = solve(problem, n_nodes=16, tol=1e-6, max_rounds=20_000, method=method)
        counts[name] = result.communications
    assert counts["default"] < counts["printed"] / 3


def test_a_straggler_that_does_nothing_does_not_coast_away():
    run = Run(lasso(), n_nodes=6, faults={"straggler": [{"node": 2, "theta": 1.0, "from": 5, "until": 60}]})
    advance(run, 5)
    block, state = run.blocks[0], run.states[0]
    before = state.x[block.of_node(2)].copy()
    advance(run, 50)
    np.testing.assert_array_equal(run.states[0].x[block.of_node(2)], before)
    assert advance(run, 300).measure().gap < 1e-6


# --- exact sums -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", ["ring", "star", "path", "grid", "complete"])
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_sums_descend_and_agree_whichever_way_they_are_made(name, graph, monkeypatch):
    runs = []
    for short in (2**20, 0):  # flooding; along a tree
        monkeypatch.setattr("glmesh.collectives.totals.SHORT_VECTORS", short)
        run = Run(PROBLEMS[name](), n_nodes=5, topology=graph, method=Cola(acceleration="sums"), n_blocks=2)
        last = np.inf
        for _ in range(15):
            next(run)
            assert (run.estimates == run.estimates[0]).all()
            assert violation(run) < 1e-12
            value = run.measure().value
            assert value <= last + 1e-9 * abs(last) or any(state.exact.cautious for state in run.states)
            last = min(value, last)
        runs.append(run)
    flooded, tree = runs
    np.testing.assert_allclose(flooded.x, tree.x, atol=1e-6)
    if graph != "complete":
        # from the centre of a star the tree has depth 1: up and down takes as long as flooding
        assert (tree.communications > flooded.communications) == (graph != "star")
        assert tree.bytes < flooded.bytes


def test_a_tree_sum_costs_two_vectors_per_link_of_the_tree(monkeypatch):
    monkeypatch.setattr("glmesh.collectives.totals.SHORT_VECTORS", 0)
    run = advance(Run(lasso(), n_nodes=8, method=Cola(acceleration="sums")), 1)
    before, waited = run.bytes, run.communications
    advance(run, 1)
    per_vector = 8 * run.blocks[0].d + 8 * plane.WIDTH + 12
    assert run.bytes - before == 2 * 7 * per_vector
    assert run.communications - waited == 2 * run.blocks[0].info.depth


def test_sums_on_a_quadratic_are_conjugate_gradients():
    """They end after about as many sums as there are columns, however bad the condition."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 12)) @ np.diag(np.logspace(0, -2, 12)) @ np.linalg.qr(rng.normal(size=(12, 12)))[0]
    y = rng.normal(size=60)
    exact = np.linalg.solve(X.T @ X + 1e-3 * np.eye(12), X.T @ y)
    for split, sums in (("features", 40), ("samples", 60)):
        problem = Problem.glm(X, y, penalty="l2", alpha=1e-3, split=split)
        run = advance(Run(problem, n_nodes=4, method=Cola(acceleration="sums")), sums)
        coef = run.x if split == "features" else problem.composite.f.gradient(run.estimates[0])
        assert np.linalg.norm(coef - exact) < 1e-5 * np.linalg.norm(exact)


@prop(100)
@given(st.integers(0, 10**6), st.sampled_from(["lasso", "ridge", "logistic", "logistic dual"]))
def test_the_best_point_of_a_plane(seed, name):
    """At least as low as any point of the grid, and where nothing is left of g as low as a general solver gets."""
    rng = np.random.default_rng(seed)
    block = Run(PROBLEMS[name](seed % 3), n_nodes=3, n_blocks=1, method=Cola(acceleration="sums")).blocks[0]
    n, lo, hi = block.columns.n, block.table[:, 3], block.table[:, 4]
    lo, hi = np.where(np.isfinite(lo), lo, -1.0), np.where(np.isfinite(hi), hi, 1.0)
    x = (lo + hi) / 2 + 0.1 * (hi - lo) * rng.uniform(-1, 1, size=n)
    p, d = 0.05 * (hi - lo) * rng.uniform(-1, 1, size=(2, n))
    v, steps = block.columns.dot(x), np.stack([block.columns.dot(p), block.columns.dot(d)])
    totals = plane.along(block, x, p, d).sum(axis=0)
    found = plane.Plane(block.f, v, steps, totals)

    def value(c):
        return block.f.value(v + c[0] * steps[0] + c[1] * steps[1]) + block.g.value(x + c[0] * p + c[1] * d)

    c = found.best(cautious=False)
    grid = min(value(at) for at in itertools.product(plane.GRID_A, plane.GRID_B))
    here = value(c)
    assert here <= grid + 1e-3 * abs(value(np.zeros(2)) - grid) + 1e-9 * abs(grid)
    if found.remainder is not None:
        assert value(found.best(cautious=True)) == pytest.approx(grid, rel=1e-9)
    else:
        other = minimize(value, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
        assert here <= other.fun + 1e-9 * abs(other.fun)


def test_sums_do_not_depend_on_who_is_hosted_together():
    """Kinks on some nodes only, and more columns than rows: the step of the others is their own matter."""
    X, y = data(m=10, p=60)
    problem = Problem.glm(X, y, penalty=Table(l1=[1.0] * 15 + [0.0] * 45, l2=0.1))
    runs = [Run(problem, n_nodes=4, partition="contiguous", n_blocks=blocks, method=Cola(acceleration="sums"))
            for blocks in (1, 4)]  # fmt: skip
    for _ in range(10):
        assert np.array_equal(*[advance(run, 1).x for run in runs])


@prop(100)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 0.3, 1.0]))
def test_what_nodes_tell_of_a_plane_is_g(seed, bounded, at_zero):
    """g = the model + what is left, at every point of the grid, and infinite outside the bounds: by the definition."""
    rng = np.random.default_rng(seed)
    block = Run(lasso(), n_nodes=3, n_blocks=1).blocks[0]
    n = block.columns.n
    sizes = [block.n_columns(k) for k in range(3)]
    terms = [Table(*(rng.uniform(0, 1, (3, size)) * (rng.random((3, size)) < 0.7))) for size in sizes]
    if bounded:
        ends = rng.uniform(0.1, 3, (2, max(sizes))), rng.random((2, max(sizes))) < 0.2
        lo, hi = np.where(ends[1], ends[0], np.inf)
        terms = [replace(g, lo=-lo[:size], hi=hi[:size]) for g, size in zip(terms, sizes, strict=True)]
    block = block.with_functions(block.f, terms)
    x, p, d = rng.normal(size=(3, n)) * (rng.random((3, n)) >= [[at_zero], [0.3], [0.3]])
    x = block.inside(x)
    for row, own, g in zip(plane.along(block, x, p, d), map(block.of_node, range(3)), terms, strict=True):
        value, along_p, along_d, pp, pd, dd, kinked = row[:7]
        assert value == pytest.approx(g.value(x[own]))
        assert kinked == (g.l1.any() or (bounded and bool(np.isfinite([g.lo, g.hi]).any())))
        for left, (a, b) in zip(row[7:], itertools.product(plane.GRID_A, plane.GRID_B), strict=True):
            model = value + a * along_p + b * along_d + 0.5 * (a * a * pp + b * b * dd) + a * b * pd
            assert model + left == pytest.approx(g.value((x + a * p + b * d)[own]), abs=1e-9)


@pytest.mark.parametrize("split", ["features", "samples"])
def test_sums_that_have_converged_stay_where_they_are(split):
    """Nothing but rounding is left of p then, and along rounding a Newton step may be of any length."""
    X, y = data()
    problem = Problem.glm(X * np.logspace(0, -2, X.shape[1]), y, penalty="l2", alpha=1e-3, split=split)
    with Run(problem, n_nodes=4, method=Cola(acceleration="sums")) as run:
        for rounds in (250, 400, 400):
            m = advance(run, rounds).measure()
            assert m.gap <= 1e-13 * abs(m.objective)


def test_sums_go_on_where_values_of_the_objective_no_longer_differ():
    """The gap of an L1 penalty falls like the square root of the suboptimality, which is rounding half-way there."""
    X, y = data()
    problem = Problem.glm(X, np.sign(y), loss="logistic", penalty="l1", alpha=0.3)
    with Run(problem, n_nodes=4, method=Cola(acceleration="sums")) as run:
        m = advance(run, 600).measure()
    assert m.gap <= 1e-10 * m.objective


def test_sums_by_flooding_find_their_way_around_a_dead_link():
    run = Run(lasso(), n_nodes=6, method=Cola(acceleration="sums"), faults={"link": [{"between": [2, 3], "from": 6}]})
    assert [entry[1] for entry in advance(run, 60).story] == ["sums"]
    assert run.measure().gap < 1e-4


def test_sums_fall_back_to_momentum_when_a_link_dies(monkeypatch):
    monkeypatch.setattr("glmesh.collectives.totals.SHORT_VECTORS", 0)
    problem = lasso()
    best = solve(problem, n_nodes=1, tol=1e-10).objective
    for n_blocks in (1, 2):
        run = Run(problem, n_nodes=6, method=Cola(acceleration="sums"), n_blocks=n_blocks,
                  faults={"link": [{"between": [2, 3], "from": 6}]})  # fmt: skip
        advance(run, 6)
        assert run.states[0].sums_exactly
        assert run.measure().consensus < 1e-18 * (1 + best**2)
        advance(run, 400)
        assert [entry[1] for entry in run.story] == ["sums", "momentum"]
        assert "missing" in run.story[-1][2]
        assert run.measure().value == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("acceleration", ["auto", "momentum", "sums"])
def test_data_may_change_in_the_middle(acceleration):
    """However nodes are spread over blocks."""
    runs = []
    for n_blocks in (1, 2):
        run = advance(Run(lasso(), n_nodes=6, n_blocks=n_blocks, method=Cola(acceleration=acceleration)), 10)
        X, _ = data(seed=5)
        run.add_columns(4, X[:, :3])
        advance(run, 10)
        run.remove_columns([0, 31])
        runs.append(advance(run, 200))
        assert violation(run) < 1e-12
    np.testing.assert_array_equal(runs[0].x, runs[1].x)
    assert runs[0].measure().gap < 1e-4


def test_blocks_never_disagree_about_sums():
    """One block may host zeros only, or bounds, or other penalties than another."""
    X, y = data()
    start = np.zeros(30)
    start[0] = 0.1
    halves = [0.0] * 15 + [-np.inf] * 15
    for penalty, options in (
        ("l1", {"warm_start": start}),
        (Table(l2=1.0, lo=halves), {}),
        (Table(l2=[1.0] * 15 + [3.0] * 15), {}),
    ):
        problem = Problem.glm(X[:10], y[:10], penalty=penalty, alpha=1.0)
        runs = [
            Run(problem, n_nodes=6, topology="complete", partition="contiguous", n_blocks=n_blocks, **options)
            for n_blocks in (1, 2)
        ]
        for run in runs:
            advance(run, 8)
        np.testing.assert_array_equal(runs[0].x, runs[1].x)


def test_clocks_stay_together_when_a_sum_fails_in_one_block_only():
    plan = {"seed": 0, "random": [{"loss": 0.01}]}
    run = advance(Run(lasso(), n_nodes=6, method=Cola(acceleration="sums"), faults=plan, n_blocks=2), 60)
    assert len({state.gossip.clock for state in run.states}) == 1
    assert run.measure().gap < 0.05 * run.measure().value


def test_momentum_needs_flow_gossip_where_messages_get_lost():
    with pytest.raises(InvalidInput, match="needs gossip='flows'"):
        Run(
            lasso(),
            n_nodes=6,
            method=Cola(gossip="matrix", acceleration="momentum"),
            faults={"random": [{"loss": 0.1}]},
        )


# --- what is chosen -------------------------------------------------------------------------------------------------


def test_what_is_chosen_and_why():
    def story(method=None, **options):
        with Run(PROBLEMS["lasso"](), n_nodes=6, method=method, **options) as run:
            return run.story[0]

    assert story()[1] == "sums"
    assert story(topology="complete")[1] == "sums"
    assert story(faults={"random": [{"loss": 0.1}]}, topology="complete")[1] == "momentum"
    assert story(faults={"straggler": [{"node": 0, "theta": 0.5}]}, topology="complete")[1] == "momentum"
    assert story(Cola.printed())[1] == "none"
    assert story(Cola(gossip="matrix"), faults={"random": [{"links": 0.1}]})[1] == "none"
    for odd, word in (
        ({"gamma": 0.5}, "gamma"),
        ({"sigma": 9.0}, "sigma"),
        ({"sigma": "safe"}, "sigma"),
        ({"gossip_steps": 2}, "gossip_steps"),
        ({"gossip": "chebyshev"}, "Chebyshev"),
        ({"local_passes": 3}, "even number"),
        ({"local_accuracy": 0.5}, "local_accuracy"),
        ({"solver": CoordinateDescent("shuffled")}, "symmetric"),
        ({"solver": SklearnCoordinateDescent()}, "symmetric"),
    ):
        _, chosen, why = story(Cola(**odd))
        assert chosen == "none"
        assert word in why
        with pytest.raises(InvalidInput, match="acceleration='momentum' needs"):
            Cola(acceleration="momentum", **odd)
    with pytest.raises(InvalidInput, match="acceleration must be"):
        Cola(acceleration="nitro")


def test_auto_takes_sums_where_they_pay_and_stays_with_them():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 24)) @ np.diag(np.logspace(0, -3, 24)) @ rng.normal(size=(24, 24))
    y = X @ rng.normal(size=24) + rng.normal(size=80)
    problem = Problem.glm(X, y, penalty="l2", alpha=1e-3)
    run = advance(Run(problem, n_nodes=8), 120)
    assert [entry[1] for entry in run.story] == ["sums"]
    exact = np.linalg.solve(X.T @ X + 1e-3 * np.eye(24), X.T @ y)
    assert np.linalg.norm(run.x - exact) < 1e-4 * np.linalg.norm(exact)
    slow = Run(Problem.glm(X, y, penalty=Table(l2=1.0, lo=0.0)), n_nodes=8)
    assert [entry[1] for entry in advance(slow, 400).story] == ["momentum"]  # bounds hold a plane back


# --- gossip, sigma', curvature ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_chebyshev_gossip_is_a_polynomial_that_keeps_the_mean(graph, steps):
    run = Run(lasso(), n_nodes=8, topology=graph, n_blocks=1, method=Cola(gossip="chebyshev", gossip_steps=steps))
    rng = np.random.default_rng(0)
    gossip = run.states[0].gossip
    gossip.v[:] = rng.normal(size=gossip.v.shape)
    start, W = gossip.v.copy(), run.mixing.matrix.toarray()
    drive(run.exchange, [gossip.mix(run.blocks[0], run.up, steps)])
    assert run.communications == steps
    np.testing.assert_allclose(gossip.v.mean(axis=0), start.mean(axis=0), atol=1e-12)
    away, before = gossip.v - start.mean(axis=0), start - start.mean(axis=0)
    plain = np.linalg.matrix_power(W, steps) @ before
    beta = run.mixing.beta**steps
    assert np.linalg.norm(away) <= max(np.linalg.norm(plain), beta * np.linalg.norm(before)) * (1 + 1e-9) + 1e-4
    basis = np.stack([np.linalg.matrix_power(W, i) @ start for i in range(steps + 1)]).reshape(steps + 1, -1)
    fit = np.linalg.lstsq(basis.T, gossip.v.ravel(), rcond=None)[0]
    np.testing.assert_allclose(fit @ basis, gossip.v.ravel(), atol=1e-8)


def test_chebyshev_gossip_is_for_networks_that_stand_still():
    with pytest.raises(InvalidInput, match="stand still"):
        Run(lasso(), n_nodes=6, method=Cola(gossip="chebyshev"), faults={"random": [{"loss": 0.1}]})
    run = Run(lasso(), n_nodes=16, method=Cola(gossip="chebyshev", gossip_steps="auto"))
    assert advance(run, 3).communications > 6


def test_a_safe_sigma_is_smaller_and_never_diverges():
    """Blocks that are orthogonal: sigma'_min is 1, and on a ring it would diverge."""
    Q = np.linalg.qr(np.random.default_rng(0).normal(size=(64, 64)))[0]
    problem = Problem.glm(Q, Q.sum(axis=1), penalty="l1", alpha=0.1)
    bold = advance(Run(problem, n_nodes=16, method=Cola(sigma=2.0)), 200)
    assert not bold.measure().value < 1e6
    for graph, smaller in (("complete", True), ("ring", False)):
        run = Run(problem, n_nodes=16, topology=graph, method=Cola(sigma="safe"))
        last = np.inf
        for _ in range(200):
            next(run)
            value = run.measure().h
            assert value <= last + 1e-9
            last = value
        assert (run.states[0].relaxation.sigma < 4) is smaller


def test_a_sigma_that_turns_out_too_small_is_doubled():
    X, y = data()
    problem = Problem.glm(np.repeat(X[:, :8], 2, axis=1), y, penalty="l2", alpha=0.01)
    run = Run(problem, n_nodes=8, topology="complete", method=Cola(sigma="safe"))
    advance(run, 2)
    run.states[0].relaxation.sigma = 1.0
    advance(run, 400)
    assert run.states[0].relaxation.sigma > 1.0
    assert run.measure().gap < 1e-3


def test_curvature():
    problem = logistic(penalty="l1")
    values = {}
    for curvature in ("scalar", "majorant"):
        run = Run(problem, n_nodes=6, method=Cola(acceleration="none", curvature=curvature))
        last = run.measure().h
        for _ in range(60):
            next(run)
            assert run.measure().h <= last + 1e-12 * abs(last)
            last = run.measure().h
        values[curvature] = run.measure().value
    assert values["majorant"] < values["scalar"]
    best = solve(problem, n_nodes=1, tol=1e-9, max_rounds=5000).objective
    for acceleration, curvature in itertools.product(("momentum", "sums"), ("majorant", "hessian")):
        run = Run(problem, n_nodes=6, method=Cola(acceleration=acceleration, curvature=curvature))
        assert advance(run, 300).measure().value == pytest.approx(best, rel=1e-6)
    with pytest.raises(InvalidInput, match="needs a safeguard"):
        Cola(acceleration="none", curvature="hessian")
    with pytest.raises(InvalidInput, match="curvature must be"):
        Cola(curvature="round")
    with pytest.raises(InvalidInput, match="measured with curvature='scalar'"):
        Cola(curvature="majorant", local_accuracy=0.1)


def test_a_misleading_hessian_gives_way_to_the_safe_bound():
    run = advance(Run(logistic(), n_nodes=4, method=Cola(curvature="hessian")), 5)
    state = run.states[0]
    curvature = run.method.strategies.curvature
    trusted = curvature.weights(run.blocks[0], state, state.v, safeguarded=True)
    state.overshoots = 1
    safe = curvature.weights(run.blocks[0], state, state.v, safeguarded=True)
    assert (trusted <= safe + 1e-2).all()
    f = run.blocks[0].f
    np.testing.assert_allclose(safe[0], f.majorant(state.v[0]) * f.tau)
    assert isinstance(f, Logistic)
    assert Squared(np.zeros(3)).is_quadratic


def test_cocoa_is_cola_on_a_complete_graph_with_any_acceleration():
    for acceleration in ("auto", "momentum", "sums", "none"):
        runs = [
            advance(Run(lasso(), n_nodes=5, topology=graph, method=kind(acceleration=acceleration)), 8)
            for kind, graph in ((Cola, "complete"), (Cocoa, "ring"))
        ]
        np.testing.assert_allclose(runs[0].x, runs[1].x, atol=1e-12)
