"""The laws that CoLA obeys on every problem of the catalogue, split either way, dense and sparse, on any network."""

import itertools
import zlib
from dataclasses import dataclass, replace
from functools import lru_cache

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, note
from hypothesis import strategies as st

from glmesh import Cocoa, Cola, Problem, Run
from glmesh.functions import L1, L2, Box, ElasticNet, GroupLasso, NonNegative
from glmesh.network import topology
from glmesh.network.mixing import metropolis
from tests.cases import prop
from tests.kernels.test_kernels import naive_node

SMOOTH = ("squared", "logistic", "huber", "squared_hinge")
LOSSES = (*SMOOTH, "hinge", "smoothed_hinge", "epsilon_insensitive", "squared_epsilon_insensitive", "quantile")
LABELLED = ("logistic", "squared_hinge", "hinge", "smoothed_hinge")
BY_FEATURES = {
    "l2": lambda p: "l2",
    "l1": lambda p: "l1",
    "elasticnet": lambda p: "elasticnet",
    "box": lambda p: Box(-0.4, 0.5),
    "nonneg": lambda p: NonNegative(),
    "l1_nonneg": lambda p: L1(0.7, lo=0.0),
    "group": lambda p: GroupLasso(np.arange(p) % max(1, p // 2)),
}
BY_SAMPLES = {
    "l2": lambda p: "l2",
    "elasticnet": lambda p: "elasticnet",
    "box": lambda p: L2(1.0, lo=-0.4, hi=np.linspace(0.1, 1.0, p)),
    "nonneg": lambda p: ElasticNet(0.2, 0.8, lo=0.0),
}
PAIRS = [
    *((loss, penalty, "features") for loss in SMOOTH for penalty in BY_FEATURES),
    *((loss, penalty, "samples") for loss in LOSSES for penalty in BY_SAMPLES),
]
QUADRATIC = [pair for pair in PAIRS if pair[::2] == ("squared", "features") or pair[1:] == ("l2", "samples")]
TOPOLOGIES = ("ring", "path", "grid", "torus", "star", "complete", "2-cycle", "erdos-renyi", "exponential")


@lru_cache(maxsize=1000)
def problem_of(pair, seed, sparse, *, intercept=False):
    """A small random problem; some weights are zero, some columns too."""
    loss, penalty, split = pair
    rng = np.random.default_rng(seed)
    m, p = rng.integers(3, 13, 2)
    X = rng.standard_normal((m, p)) * (rng.random((m, p)) < 0.5 if sparse else 1.0)
    X[:, rng.random(p) < 0.05] = 0.0
    y = rng.choice([-1.0, 1.0], m) if loss in LABELLED else 2.0 * rng.standard_normal(m)
    y[:2] = -1.0, 1.0
    weight = np.where(rng.random(m) < 0.1, 0.0, 0.2 + rng.random(m)) if seed % 2 else None
    return Problem.glm(
        sp.csr_array(X) if sparse else X,
        y,
        loss=loss,
        penalty=(BY_FEATURES if split == "features" else BY_SAMPLES)[penalty](p),
        alpha=float(rng.choice([0.1, 0.5, 2.0])),
        split=split,
        sample_weight=weight,
        fit_intercept=intercept,
    )


@lru_cache(maxsize=1000)
def optimum(pair, seed, sparse, *, intercept=False):
    """O*, from above: the value on one node when the gap is closed or nothing happens any more."""
    problem = problem_of(pair, seed, sparse, intercept=intercept)
    run = Run(problem, method=Cola(local_passes=3), n_nodes=1)
    value = np.inf
    for _ in range(10):
        for _ in range(200):
            next(run)
        seen = run.measure()
        if seen.gap <= 1e-10 * (1.0 + abs(seen.value)) or seen.value >= value:
            break
        value = seen.value
    return seen.value


@dataclass(frozen=True)
class Case:
    """A problem and a network for it."""

    pair: tuple[str, str, str]
    seed: int
    sparse: bool
    intercept: bool
    n_nodes: int
    network: str

    @property
    def problem(self):
        return problem_of(self.pair, self.seed, self.sparse, intercept=self.intercept)

    @property
    def optimum(self):
        return optimum(self.pair, self.seed, self.sparse, intercept=self.intercept)

    @property
    def graph(self):
        return topology.build(self.network, self.n_nodes, self.seed)

    def run(self, method=None, **options):
        options = {"topology": self.graph, "seed": self.seed, **options}
        return Run(self.problem, method=method or Cola(), **options)


def law(pairs=PAIRS, full=19, *, intercepts=True):
    """A property test for each pair, given a `case`; K may exceed the number of columns."""

    def decorate(test):
        @pytest.mark.parametrize("pair", pairs, ids="-".join)
        @prop(full)
        @given(number=st.integers(0, 10**6))
        def wrapped(pair, number):
            # one number for the whole case: hypothesis would begin with the dullest of everything (K = 1, seed 0)
            rng = np.random.default_rng([zlib.crc32("-".join((*pair, test.__name__)).encode()), number])
            case = Case(
                pair,
                seed=int(rng.integers(10)),
                sparse=bool(rng.integers(2)),
                intercept=intercepts and pair[2] == "features" and bool(rng.integers(2)),
                n_nodes=int(rng.integers(1, 10)),
                network=str(rng.choice(TOPOLOGIES)),
            )
            note(case)
            test(case, rng)

        wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
        return wrapped

    return decorate


def any_method(rng):
    """Any method at all, safe or not."""
    if rng.random() < 0.5:
        return Cola(
            acceleration=str(rng.choice(["auto", "momentum", "sums"])), local_passes=2 * int(rng.integers(1, 3))
        )
    return Cola(
        gamma=float(rng.choice([1.0, 0.5, 0.125])),
        sigma=rng.choice([None, 1.0, 20.0]),
        local_passes=int(rng.integers(1, 4)),
        local_accuracy=rng.choice([None, 0.3]),
        gossip_steps=int(rng.integers(1, 4)),
    )


def safe_method(rng):
    return replace(any_method(rng), sigma=None)


def shared(case, run):
    return case.problem.composite.columns.dot(run.x)


def near(a, b, rel=1e-9):
    np.testing.assert_allclose(a, b, rtol=rel, atol=rel * (1.0 + np.abs(b).max(initial=0.0)))


@law()
def test_the_mean_of_the_estimates_is_ax(case, rng):
    start = case.problem.composite.g.prox(np.random.default_rng(case.seed).standard_normal(case.problem.n), 1.0)
    warm = start if rng.random() < 0.5 else None
    run = case.run(any_method(rng), warm_start=warm)
    for _ in range(12):
        near(run.estimates.mean(axis=0), shared(case, run))
        next(run)
        if np.abs(run.x).max() > 1e6:  # an unsafe sigma may diverge
            break


@law()
def test_the_gap_bounds_the_suboptimality(case, rng):
    run = case.run(safe_method(rng))
    best = case.optimum
    for rounds in (0, 1, 2, 3, 6, 40):
        while run.rounds < rounds:
            next(run)
        seen = run.measure()
        room = 1e-7 * (1.0 + abs(best))
        best = min(best, seen.value)  # which is known from above only
        assert seen.value - best <= seen.gap + room
        if case.pair[2] == "samples":  # where -O* is the primal optimum, and the gap is about the mean model too
            assert -room <= seen.objective + best <= seen.gap + room


@law()
def test_h_lies_between_the_value_and_its_consensus_bound(case, rng):
    run = case.run(safe_method(rng))
    tau = case.problem.composite.f.tau
    for _ in range(8):
        seen = run.measure()
        room = 1e-10 * (1.0 + abs(seen.value))
        x, v = run.x, run.estimates
        near(seen.consensus, np.sum((v - shared(case, run)) ** 2))
        near(seen.value, case.problem.composite.f.value(shared(case, run)) + case.problem.composite.g.value(x))
        assert seen.value - room <= seen.h <= seen.value + seen.consensus / (2 * tau * run.n_nodes) + room
        next(run)


@law()
def test_h_never_rises_with_a_safe_sigma(case, rng):
    passes, steps = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    run = case.run(Cola(local_passes=passes, gossip_steps=steps, acceleration="none"))
    last = run.measure().h
    for _ in range(15):
        next(run)
        h = run.measure().h
        assert h <= last + 1e-11 * (1.0 + abs(last))
        last = h


@law()
def test_a_complete_graph_is_cocoa(case, rng):
    options = {"gamma": float(rng.choice([1.0, 0.5])), "local_passes": int(rng.integers(1, 4))}
    cola = case.run(Cola(**options), topology=topology.complete(case.n_nodes))
    cocoa = case.run(Cocoa(**options), topology="ring", n_nodes=case.n_nodes)
    for _ in range(8):
        next(cola)
        next(cocoa)
        near(cola.x, cocoa.x)
        near(cola.estimates, cocoa.estimates)


@law()
def test_cocoa_from_the_textbook(case, rng):
    """x_k += D_k with everybody's gradient taken at v = Ax itself: no estimates, no gossip."""
    method = Cocoa(local_passes=1, acceleration="none", curvature="scalar")
    run = case.run(method, topology="ring", n_nodes=case.n_nodes)
    form, K = case.problem.composite, case.n_nodes
    A = form.columns.to_scipy()
    A = A.toarray() if sp.issparse(A) else A
    x = run.x
    for _ in range(3):
        next(run)
        w, new = form.f.gradient(A @ x), x.copy()
        for k in range(K):
            own = run.partition.columns_of(k)
            if len(own):
                g = form.g.take(own)
                units = range(len(g.pieces(len(own))) - 1)
                new[own] = naive_node(A[:, own], g, x[own], w, K / form.f.tau, [units], np.ones(len(w)))
        x = new
        near(run.x, x)


@law(QUADRATIC, intercepts=False)
def test_one_node_is_plain_coordinate_descent(case, rng):
    """K = 1, sigma = 1, f quadratic: each step minimises O_A over one column (or steps on one group)."""
    problem = case.problem
    run = Run(problem, method=Cola(sigma=1.0), n_nodes=1, partition="contiguous")
    A = problem.composite.columns.to_scipy()
    A = A.toarray() if sp.issparse(A) else A
    f, g = problem.composite.f, problem.composite.g
    order = run.partition.order
    A, g, x = A[:, order], g.take(order), run.x[order]
    starts = g.pieces(len(x))
    for _ in range(6):
        next(run)
        for a, b in itertools.pairwise(starts):
            unit = np.arange(a, b)
            curvature = np.linalg.norm(A[:, unit], 2) ** 2 / f.tau
            slope = A[:, unit].T @ f.gradient(A @ x)
            part = g.take(unit)
            if curvature > 0:
                x[unit] = part.prox(x[unit] - slope / curvature, 1.0 / curvature)
            else:
                x[unit] = part.conjugate_subgradient(np.zeros(len(unit)))
        near(run.x[order], x)


@law()
def test_gossip_steps_are_powers_of_w(case, rng):
    steps = int(rng.integers(2, 5))
    W = np.linalg.matrix_power(metropolis(case.graph).matrix.toarray(), steps)
    gossip = case.run(Cola(gossip_steps=steps, acceleration="none"))
    power = case.run(Cola(acceleration="none"), topology="complete", n_nodes=case.n_nodes, mixing=W)
    for _ in range(6):
        next(gossip)
        next(power)
        near(gossip.x, power.x, rel=1e-8)
        near(gossip.estimates, power.estimates, rel=1e-8)
    assert gossip.communications == steps * power.communications


@law()
def test_the_consensus_recursion(case, rng):
    """sqrt(E') <= beta^B sqrt(E) + gamma K sqrt(D), E = sum |v_k - Ax|^2, D = sum |A_k Dx_k|^2, without momentum."""
    method = replace(any_method(rng), acceleration="none")
    run = case.run(method)
    columns, parts = case.problem.composite.columns, run.partition
    for _ in range(8):
        before, x = run.measure().consensus, run.x
        next(run)
        if np.abs(run.x).max() > 1e6:
            break
        moved = 0.0
        for k in range(run.n_nodes):
            own = np.zeros(len(x))
            own[parts.columns_of(k)] = (run.x - x)[parts.columns_of(k)]  # gamma times the node's change
            moved += np.sum(columns.dot(own) ** 2)
        bound = run.mixing.beta**method.gossip_steps * np.sqrt(before) + run.n_nodes * np.sqrt(moved)
        after = np.sqrt(run.measure().consensus)
        assert after <= bound + 1e-9 * (1.0 + bound + np.abs(run.estimates).max(initial=0.0))


@law()
def test_the_names_of_nodes_do_not_matter(case, rng):
    K = case.n_nodes
    names = rng.permutation(K).tolist()
    # not with exact sums: those add up in the order of names, and conjugate gradients make much of rounding
    method = Cola(acceleration=str(rng.choice(["none", "momentum"])), local_passes=2)
    run = case.run(method)
    lists: list[np.ndarray] = [np.zeros(0, int)] * K
    for k in range(K):
        lists[names[k]] = run.partition.columns_of(k)
    renamed = case.run(
        method, topology=nx.relabel_nodes(case.graph, dict(enumerate(names))), partition=lists, n_nodes=K
    )
    for _ in range(8):
        next(run)
        next(renamed)
        near(renamed.x, run.x, rel=1e-8)
        near(renamed.estimates[names], run.estimates, rel=1e-8)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_dense_and_sparse_are_one_problem(pair):
    """The same numbers stored either way give the same run."""
    dense = problem_of(pair, 4, True).parts[0]
    X = dense.columns.to_scipy().toarray()
    X = X.T if pair[2] == "samples" else X
    model = problem_of(pair, 4, True).spec
    twin = Problem.glm(
        X,
        dense.y,
        loss=model.loss,
        penalty=(BY_FEATURES if pair[2] == "features" else BY_SAMPLES)[pair[1]](X.shape[1]),
        alpha=model.alpha,
        split=pair[2],
    )
    runs = [Run(problem, n_nodes=3, seed=2) for problem in (problem_of(pair, 4, True), twin)]
    for _ in range(5):
        for run in runs:
            next(run)
    near(*(run.x if pair[2] == "features" else run.estimates for run in runs))
    near(runs[0].measure().gap, runs[1].measure().gap)
