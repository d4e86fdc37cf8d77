"""Every compiled kernel beside a naive twin in NumPy."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

from glmesh import Cola, Problem, Run
from glmesh.core.block import Block
from glmesh.functions import (
    L1,
    L2,
    ElasticNet,
    GroupLasso,
    Huber,
    Logistic,
    LogisticDual,
    Profiled,
    SquaredHinge,
    Table,
)
from glmesh.kernels.cholesky import eliminate, invert
from glmesh.kernels.columns import products, transposed_products
from glmesh.kernels.faces import FaceScratch, PenalisedQuadratic, minimise
from glmesh.kernels.gram import (
    CHUNK,
    add_dense_gram,
    add_gram,
    pack_columns,
    pack_triangle,
    standardised_products,
    unpack_triangle,
)
from glmesh.kernels.mix import mix
from glmesh.kernels.narrow import column_products, node_grams, row_products
from glmesh.kernels.order import hash64, shuffle
from glmesh.kernels.terms import logistic_step
from glmesh.kernels.units import add_units, largest_bits
from glmesh.linalg.columns import Columns
from glmesh.network import mixing, topology
from glmesh.problem.node_data import CompositeObjective
from glmesh.solvers import CoordinateDescent, Subproblems
from glmesh.solvers.compiled import DescentMemory
from tests.cases import cases, prop

# --- one node's g, and a matrix for it -----------------------------------------------------------------------


def box(rng, n):
    """Every kind of row: kinks, curvature, a slope, bounds on either side, some infinite."""
    lo = np.where(rng.random(n) < 0.3, -np.inf, -rng.random(n))
    hi = np.where(rng.random(n) < 0.3, np.inf, rng.random(n))
    return Table(rng.random(n) * (rng.random(n) < 0.7), 0.05 + rng.random(n), 0.3 * rng.standard_normal(n), lo, hi)


def labels(rng, n):
    return rng.choice([-1.0, 1.0], n)


G = {
    "l1": lambda rng, n: L1(0.5),
    "l2": lambda rng, n: L2(0.5),
    "elasticnet": lambda rng, n: ElasticNet(0.4, 0.3),
    "nonneg": lambda rng, n: L1(0.2, lo=0.0),
    "table": box,
    "hinge_dual": lambda rng, n: Table(linear=rng.choice([-1.0, 1.0], n), lo=np.full(n, -0.4), hi=np.full(n, 0.6)),
    "logistic_dual": lambda rng, n: LogisticDual(labels(rng, n), np.where(rng.random(n) < 0.2, 0.0, rng.random(n))),
    "groups": lambda rng, n: GroupLasso(np.sort(rng.integers(0, 1 + n // 2, n)), 0.6),
}


def matrix_of(rng, d, n, sparse):
    """Gaussian columns, one of them zero now and then; a third of the entries if sparse."""
    A = rng.standard_normal((d, n)) * (rng.random((d, n)) < (0.35 if sparse else 1.0))
    A[:, rng.random(n) < 0.1] = 0.0
    return A


def row_weights(rng, d):
    """In [0, 1] for each of four nodes, zeros and ones among them; now and then nothing but zeros."""
    h = np.clip(1.4 * rng.random((4, d)) - 0.2, 0.0, 1.0)
    h[rng.random(4) < 0.1] = 0.0
    return h


class Case:
    """A block of a few nodes (one may be empty) with subproblems at a feasible x."""

    def __init__(self, kind, sparse, seed, *, gamma=1.0, passes=1, accuracy=-1.0, round_=3, weighted=False):
        rng = np.random.default_rng(seed)
        self.sizes = [int(s) for s in rng.integers(1, 9, 3)]
        self.sizes.insert(int(rng.integers(0, 4)), 0)
        self.d, self.gamma, self.round = 11, gamma, round_
        self.matrices = [matrix_of(rng, self.d, n, sparse) for n in self.sizes]
        self.gs = [G[kind](rng, n) for n in self.sizes]
        stored = [Columns.of(sp.csc_array(A) if sparse else A) for A in self.matrices]
        forms = [CompositeObjective(columns, None, g) for columns, g in zip(stored, self.gs, strict=True)]
        info = SimpleNamespace(n_nodes=9, seed=seed)
        self.ids = np.array([1, 2, 5, 8])
        self.block = Block.of(self.ids, info, forms, lambda: None)
        rows = self.block.table
        anywhere = rng.standard_normal(len(rows)) * (rng.random(len(rows)) < 0.6)
        self.x = np.clip(anywhere, *(rows[:, 3:].T if kind != "logistic_dual" else 0.9 * rows[:, 3:].T))
        self.w = 2.0 * rng.standard_normal((4, self.d))
        self.v = rng.standard_normal((4, self.d))
        self.q, self.step = 0.5 + rng.random(4), 0.5 + rng.random(4)
        self.passes = np.full(4, passes, dtype=np.uint64)
        self.accuracy = np.full(4, accuracy)
        self.h = row_weights(rng, self.d) if weighted else None

    def own(self, k):
        return self.block.of_node(k)

    def solve(self, order="cyclic", *, afresh=None):
        """What the kernel makes of it: (x, estimate, theta, visited)."""
        x, v = self.x.copy(), self.v.copy()
        task = Subproblems(
            x, self.w, v, self.q, self.step, self.gamma, self.passes, self.accuracy, self.round, self.h, afresh
        )
        solver = CoordinateDescent(order)
        return x, v, *solver.solve(self.block, solver.prepare(self.block), task)

    def value(self, k, x_new):
        """<w, A D> + q/2 |A D|^2 + g(x + D) of node k."""
        u = self.matrices[k] @ (x_new - self.x[self.own(k)])
        return self.w[k] @ u + 0.5 * self.q[k] * u @ u + self.gs[k].value(x_new)

    def optimum(self, k):
        """The subproblem's minimum, by accelerated proximal gradient with restarts on the dense matrix."""
        A, g, q = self.matrices[k], self.gs[k], self.q[k]
        x0 = self.x[self.own(k)]
        L = q * np.linalg.norm(A, 2) ** 2 + 1e-3
        x, y, t = x0.copy(), x0.copy(), 1.0
        for _ in range(5000):
            new = g.prox(y - A.T @ (self.w[k] + q * A @ (y - x0)) / L, 1.0 / L)
            if (new - x) @ (y - new) > 0:  # momentum points uphill
                t = 1.0
            t_new = 0.5 + np.sqrt(0.25 + t * t)
            still = np.abs(new - x).max() <= 1e-13 and t > 5
            y, x, t = new + (t - 1.0) / t_new * (new - x), new, t_new
            if still:
                break
        return min(self.value(k, x), self.value(k, x0))


def naive_square(A, h):
    """Curvature over q: exact for a column, the smaller of two bounds for a group; at least a thousandth of |A|^2."""
    largest = np.linalg.norm(A, 2) ** 2
    bound = h[(A != 0).any(axis=1)].max(initial=0.0) * largest
    return max(min(bound, (h @ A**2).sum()), 1e-3 * largest)


def naive_node(A, g, x, w, q, orders, h):
    """Coordinate (or block proximal) descent, everything recomputed from scratch. Returns x + D."""
    n = len(x)
    z = x.copy()
    units = np.split(np.arange(n), g.pieces(n)[1:-1])
    for order in orders:
        for j in order:
            unit = units[j]
            own, part = A[:, unit], g.take(unit)
            slope = own.T @ (w + q * h * (A @ (z - x)))
            curvature = q * naive_square(own, h)
            if curvature > 0:
                z[unit] = part.prox(z[unit] - slope / curvature, 1.0 / curvature)
            else:  # only g is left: its minimiser
                z[unit] = part.conjugate_subgradient(np.zeros(len(unit)))
    return z


def naive_orders(order, n_units, passes, seed, node, round_):
    current = np.arange(n_units)
    for p in range(passes):
        if order == "shuffled":
            key = naive_hash(naive_hash(naive_hash(seed, node), round_), p)
            current = naive_shuffle(current, key)
        yield current[::-1] if order == "symmetric" and p % 2 == 1 else current.copy()


def naive_hash(a, b):
    """splitmix64 of Python's integers."""
    mask = (1 << 64) - 1
    z = (a + (b + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def naive_shuffle(order, key):
    order = list(order)
    for i in range(1, len(order)):
        key = naive_hash(key, i)
        j = key % (i + 1)
        order[i], order[j] = order[j], order[i]
    return np.array(order, dtype=int)


# --- coordinate descent --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", G)
@pytest.mark.parametrize("order", ["cyclic", "shuffled", "symmetric"])
@pytest.mark.parametrize("weighted", [False, True])
@prop(60)
@given(seed=st.integers(0, 10**6), sparse=st.booleans(), passes=st.integers(1, 4), gamma=st.sampled_from([1.0, 0.25]))
def test_solve_nodes_is_coordinate_descent(kind, order, weighted, seed, sparse, passes, gamma):
    case = Case(kind, sparse, seed, gamma=gamma, passes=passes, weighted=weighted)
    x, v, _, _ = case.solve(order)
    for k, g in enumerate(case.gs):
        own, A = case.own(k), case.matrices[k]
        n_units = len(g.pieces(len(case.x[own]))) - 1 if case.sizes[k] else 0
        orders = naive_orders(order, n_units, passes, seed, int(case.ids[k]), case.round)
        h = case.h[k] if weighted else np.ones(case.d)
        z = naive_node(A, g, case.x[own], case.w[k], case.q[k], orders, h) if n_units else case.x[own]
        scale = 1e-9 * (1.0 + np.abs(z).max(initial=0.0))  # without weight on its rows a column goes far
        np.testing.assert_allclose(x[own], case.x[own] + gamma * (z - case.x[own]), rtol=1e-9, atol=scale)
        expected = case.v[k] + case.step[k] * case.q[k] * (A @ (z - case.x[own]))
        np.testing.assert_allclose(v[k], expected, rtol=1e-9, atol=scale)


@pytest.mark.parametrize("kind", G)
@prop(20)
@given(seed=st.integers(0, 10**6), sparse=st.booleans(), gamma=st.sampled_from([1.0, 0.25]))
def test_weights_of_one_are_no_weights(kind, seed, sparse, gamma):
    case = Case(kind, sparse, seed, gamma=gamma, passes=3)
    plain = case.solve("symmetric")
    case.h = np.ones((4, case.d))
    for a, b in zip(case.solve("symmetric")[:2], plain, strict=False):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", G)
@prop(20)
@given(seed=st.integers(0, 10**6), sparse=st.booleans(), weighted=st.booleans())
def test_one_gradient_for_all_nodes(kind, seed, sparse, weighted):
    case = Case(kind, sparse, seed, passes=2, weighted=weighted)
    case.w = np.tile(case.w[0], (4, 1))
    apart, case.w = case.solve("symmetric"), np.broadcast_to(case.w[0], (4, case.d))
    for a, b in zip(case.solve("symmetric"), apart, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("far", [1e-3, 1e-9])
@prop(20)
@given(seed=st.integers(0, 10**6), sparse=st.booleans())
def test_products_afresh_keep_their_digits(far, seed, sparse):
    """However small they are beside w, of which a difference of residuals has the rounding."""
    case = Case("l2", sparse, seed)
    case.x[:], case.v[:] = 0.0, 0.0
    case.block = case.block.with_functions(None, [L2(1.0 / far) for _ in case.sizes])
    x, v, _, _ = case.solve(afresh=np.full(4, 1e-4))
    _, rounded, _, _ = case.solve()
    exact = np.stack([case.step[k] * case.q[k] * (A @ x[case.own(k)]) for k, A in enumerate(case.matrices)])
    size = np.abs(exact).max(axis=1, keepdims=True)
    assert (size < 100 * far * np.abs(case.w).max()).all()
    assert (np.abs(v - exact) <= 1e-10 * size).all()
    if far < 1e-6 and size.any():
        assert np.abs(rounded - exact).max() > 1e-10 * size.max()


def test_rows_without_weight_do_not_send_a_column_to_infinity():
    """A linear term alone has no minimiser; a thousandth of the full curvature bounds the step."""
    case = Case("l2", False, 3, weighted=True)
    case.gs = case.block.terms = [Table() for _ in case.sizes]
    case.block.__dict__.pop("table", None)
    case.h[:] = 0.0
    x, v, _, _ = case.solve()
    for k, A in enumerate(case.matrices):
        squares = case.q[k] * 1e-3 * (A**2).sum(axis=0)
        own, slope = case.own(k), A.T @ case.w[k]
        steps = np.divide(slope, squares, out=case.x[own].copy(), where=squares > 0)  # an empty column goes to 0
        np.testing.assert_allclose(x[own], case.x[own] - steps, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(v[k], case.v[k] - case.step[k] * case.q[k] * A @ steps, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("kind", G)
@prop(40)
@given(seed=st.integers(0, 10**6), sparse=st.booleans(), accuracy=st.sampled_from([0.5, 0.1, 1e-3]))
def test_theta_is_kept_and_never_below_the_truth(kind, seed, sparse, accuracy):
    case = Case(kind, sparse, seed, passes=2000, accuracy=accuracy)
    x, _, theta, _ = case.solve()
    for k in range(4):
        own = case.own(k)
        if case.sizes[k] == 0:
            assert theta[k] == 0.0
            continue
        best, before = case.optimum(k), case.value(k, case.x[own])
        scale = 1e-9 * (1.0 + abs(best) + abs(before))
        left = case.value(k, x[own]) - best
        assert left <= theta[k] * (before - best) + scale
        # gap <= Theta * decrease, in terms of gap / (gap + decrease)
        assert theta[k] <= accuracy / (1.0 + accuracy) + 1e-12 or before - best <= scale


def test_theta_stops_early_and_the_cap_holds():
    loose, tight = (Case("elasticnet", False, 7, passes=500, accuracy=a).solve()[3].sum() for a in (0.5, 1e-6))
    assert 0 < loose < tight
    capped = Case("elasticnet", False, 7, passes=1, accuracy=0.0)
    assert capped.solve()[3].sum() <= capped.block.columns.nnz


def test_a_node_without_passes_stands_still():
    case = Case("l1", False, 5, accuracy=0.1)
    case.passes[:] = [1, 0, 1, 0]
    x, v, theta, visited = case.solve()
    for k in (1, 3):
        assert np.array_equal(x[case.own(k)], case.x[case.own(k)])
        assert np.array_equal(v[k], case.v[k])
        assert visited[k] == 0
        assert theta[k] == (1.0 if case.sizes[k] else 0.0)


def test_an_infeasible_dual_ray_gives_no_false_theta():
    """g = -x on x >= 0 without curvature: 0 is not in the domain of g*, so no Theta below 1 can be claimed."""
    case = Case("l1", False, 11, passes=1, accuracy=0.1)
    case.gs = [Table(linear=np.full(n, -1.0), lo=np.zeros(n)) for n in case.sizes]
    case.block.terms = case.gs
    case.block.__dict__.pop("table", None)
    case.x = np.abs(case.x)
    theta = case.solve()[2]
    assert all(theta[k] == 1.0 for k in range(4) if case.sizes[k])


# --- sleeping units ------------------------------------------------------------------------------------------


def lasso(sparse):
    rng = np.random.default_rng(1)
    X = sp.random_array((60, 200), density=0.08, rng=rng).tocsc() if sparse else rng.standard_normal((40, 80))
    y = X @ (rng.standard_normal(X.shape[1]) * (rng.random(X.shape[1]) < 0.05)) + 0.1 * rng.standard_normal(X.shape[0])
    alpha = 0.1 * np.abs(X.T @ y).max()
    return Problem.glm(X, y, penalty="l1", alpha=alpha)


def nonneg_group():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((40, 60)), rng.standard_normal(40)
    return Problem.glm(X, y, penalty=GroupLasso(np.arange(60) // 3), alpha=8.0)


def hinge(alpha):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((80, 12))
    return Problem.glm(X, np.sign(X[:, 0] + 0.3), loss="hinge", alpha=alpha, split="samples")


def boxed():
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((50, 30)), rng.standard_normal(50)
    return Problem.glm(X, 9 * y, loss="huber", penalty=ElasticNet(1.0, 0.1, lo=-0.2, hi=0.3), alpha=1.0)


SLEEPY = {
    "lasso": lambda: lasso(False),
    "sparse_lasso": lambda: lasso(True),
    "group": nonneg_group,
    "hinge": lambda: hinge(1.0),
    "hinge_steep": lambda: hinge(1e-4),
    "box": boxed,
}


@dataclass(frozen=True)
class Watched(CoordinateDescent):
    """Coordinate descent that notes its visits, after `wake_up` has changed its memory."""

    wake_up: Callable[[DescentMemory], None] = lambda memory: None
    visits: list[float] = field(default_factory=list)

    def solve(self, block, memory, task):
        self.wake_up(memory)
        theta, visited = super().solve(block, memory, task)
        self.visits.append(visited.sum())
        return theta, visited


def awake(memory):
    """Nobody sleeps: an infinite path is beyond every wake-up length."""
    memory.path[:] = np.inf


def forget(memory):
    """Nobody sleeps from one round to the next."""
    memory.wake[:] = 0.0
    memory.path[:] = 0.0


@pytest.mark.parametrize("name", SLEEPY)
@pytest.mark.parametrize(("wake_up", "passes", "order"), [(forget, 1, "cyclic"), (awake, 3, "shuffled")])
def test_sleeping_changes_not_one_bit(name, wake_up, passes, order):
    problem, solvers = SLEEPY[name](), [Watched(order), Watched(order, wake_up)]
    sleeping, waking = (
        Run(problem, method=Cola(local_passes=passes, solver=solver), n_nodes=5, seed=1) for solver in solvers
    )
    for t in range(300 if passes == 3 else 900):
        next(sleeping)
        next(waking)
        assert np.array_equal(sleeping.x, waking.x), f"round {t}"
        assert np.array_equal(sleeping.estimates, waking.estimates), f"round {t}"
    assert sum(solvers[0].visits) < sum(solvers[1].visits)


def wander(case, order, seed, *, jolts=False):
    """Gradients and weights wander; a solver without memory makes the same steps as one with."""
    rng, solver = np.random.default_rng(seed), CoordinateDescent(order)
    memory, xs, w = solver.prepare(case.block), [case.x.copy(), case.x.copy()], case.w.copy()
    lo, hi = case.block.table[:, 3:].T
    for t in range(30):
        for k, A in enumerate(case.matrices):  # along a column: nothing moves its slope faster
            if case.sizes[k]:
                w[k] += rng.uniform(-1, 1) * A[:, rng.integers(case.sizes[k])]
        w += 10.0 ** rng.uniform(-6, -1) * rng.standard_normal(w.shape)
        h = None if case.h is None else row_weights(rng, case.d)
        if jolts:
            changed = rng.random(len(lo)) < 0.1
            jolt = np.where(rng.random(len(lo)) < 0.3, lo, rng.standard_normal(len(lo)))
            for x in xs:
                x[changed] = np.clip(jolt, np.maximum(lo, -9.0), np.minimum(hi, 9.0))[changed]
            solver.moved(case.block, memory, changed)
        for x, kept in zip(xs, (memory, solver.prepare(case.block)), strict=True):
            task = Subproblems(x, w, case.v.copy(), case.q, case.step, 1.0, case.passes, case.accuracy, t, h)
            solver.solve(case.block, kept, task)
        assert np.array_equal(*xs), f"round {t}"


@pytest.mark.parametrize("kind", G)
@pytest.mark.parametrize("weighted", [False, True])
@prop(200)
@given(
    seed=st.integers(0, 10**6),
    sparse=st.booleans(),
    passes=st.integers(1, 3),
    order=st.sampled_from(["cyclic", "shuffled", "symmetric"]),
)
def test_sleeping_under_gradients_that_wander(kind, weighted, seed, sparse, passes, order):
    """Units fall asleep at kinks and bounds and leave them again."""
    wander(Case(kind, sparse, seed, passes=passes, weighted=weighted), order, seed)


@pytest.mark.parametrize("kind", G)
@prop(60)
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
def test_sleeping_while_variables_are_changed_from_outside(kind, seed, weighted):
    wander(Case(kind, False, seed, passes=2, weighted=weighted), "cyclic", seed, jolts=True)


def test_sleeping_saves_most_visits_of_a_sparse_lasso():
    problem, solver = lasso(True), Watched()
    run = Run(problem, method=Cola(solver=solver), n_nodes=5)
    for _ in range(400):
        next(run)
    late = sum(solver.visits[300:])
    active = problem.composite.columns.counts[run.x != 0].sum()
    assert late <= 100 * (active + 0.1 * problem.composite.columns.nnz)
    assert active < 0.3 * problem.composite.columns.nnz  # so that there was something to save


# --- the other kernels ---------------------------------------------------------------------------------------


@prop(200)
@given(seed=st.integers(0, 10**6), sparse=st.booleans())
def test_products(seed, sparse):
    rng = np.random.default_rng(seed)
    d, sizes = int(rng.integers(1, 14)), rng.integers(0, 6, 4)
    A = matrix_of(rng, d, sizes.sum(), sparse)
    columns = Columns.of(sp.csc_array(A) if sparse else A)
    starts = np.cumsum([0, *sizes]).astype(np.uint64)
    row_of = rng.permutation(4).astype(np.uint64)
    x, w = rng.standard_normal(sizes.sum()) * (rng.random(sizes.sum()) < 0.7), rng.standard_normal((4, d))
    begun = rng.standard_normal((4, d))

    out = begun.copy()
    products(starts, columns.arrays, x, row_of, out)
    inner = np.empty(sizes.sum())
    transposed_products(starts, columns.arrays, row_of, w, inner)
    for k in range(4):
        own = slice(int(starts[k]), int(starts[k + 1]))
        np.testing.assert_allclose(out[row_of[k]], begun[row_of[k]] + A[:, own] @ x[own], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(inner[own], A[:, own].T @ w[row_of[k]], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(columns.dot(x), A @ x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(columns.transposed_dot(w[0]), A.T @ w[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", [1, 7, 2047, 2048, 2049, 5000])
@pytest.mark.parametrize("name", ["ring", "star", "complete", "erdos-renyi"])
def test_mix_is_a_product_with_w(name, width):
    rng = np.random.default_rng(width)
    W = mixing.metropolis(topology.build(name, 9, seed=2)).matrix
    rows, out = rng.standard_normal((9, width)), np.full((9, width), np.nan)
    mix(W.indptr.astype(np.uint64), W.indices.astype(np.uint64), W.data, rows, out)
    np.testing.assert_allclose(out, W.toarray() @ rows, rtol=1e-13, atol=1e-13)


@prop(200)
@given(key=st.integers(0, 2**64 - 1), other=st.integers(0, 2**64 - 1), n=st.integers(0, 40))
def test_hash_and_shuffle_match_their_twins(key, other, n):
    assert int(hash64(np.uint64(key), np.uint64(other))) == naive_hash(key, other)
    order = np.arange(n, dtype=np.uint64)
    shuffle(order, np.uint64(key))
    assert sorted(order) == list(range(n))
    assert order.tolist() == naive_shuffle(np.arange(n), key).tolist()


def test_every_seed_node_round_and_pass_has_its_own_order():
    seen = set()
    for seed in range(4):
        for node in range(5):
            for round_ in range(6):
                for p in naive_orders("shuffled", 12, 2, seed, node, round_):
                    seen.add(tuple(p))
    assert len(seen) == 4 * 5 * 6 * 2


def test_shuffles_are_uniform():
    """Each of 4! orders, and each (item, place) of 10, is met as often as chance has it (5 sigma)."""
    n = cases(40_000)
    counts, places = {}, np.zeros((10, 10))
    for key in range(n):
        order = np.arange(4, dtype=np.uint64)
        shuffle(order, np.uint64(naive_hash(1, key)))
        counts[tuple(order)] = counts.get(tuple(order), 0) + 1
        order = np.arange(10, dtype=np.uint64)
        shuffle(order, np.uint64(naive_hash(2, key)))
        places[np.arange(10), order.astype(int)] += 1
    assert len(counts) == 24
    for tally, share in ((np.array(list(counts.values())), 1 / 24), (places, 0.1)):
        assert np.abs(tally - n * share).max() <= 5 * np.sqrt(n * share)


@prop(400)
@given(
    c=st.floats(1e-3, 1e3),
    y=st.sampled_from([-1.0, 1.0]),
    start=st.sampled_from([0.0, 1.0]) | st.floats(0, 1),
    slope=st.floats(-50, 50),
    curvature=st.floats(0, 1e4),
)
@example(c=26.0, y=-1.0, start=0.0, slope=3.0, curvature=1.0)  # where Newton's method alone jumps to and fro
def test_logistic_step_is_the_minimiser(c, y, start, slope, curvature):
    """Beside a brute-force search of c [p ln p + (1-p) ln(1-p)] + slope t + curvature/2 (t - x)^2."""
    end = c * y
    row = (0.0, 0.0, 0.0, min(0.0, end), max(0.0, end))
    x = start * end
    t = logistic_step(row, x, slope, curvature)
    assert row[3] <= t <= row[4]
    g = LogisticDual(np.array([y]), np.array([c]))

    def value(p):
        return g.value(np.array([p * end])) + slope * p * end + 0.5 * curvature * (p * end - x) ** 2

    found = minimize_scalar(value, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-12})
    best = min(found.fun, value(0.0), value(1.0))
    assert value(t / end) <= best + 1e-9 * (1.0 + abs(best) + abs(slope * c) + curvature * c * c)


@prop(200)
@given(st.sampled_from([Logistic, Huber, SquaredHinge]), st.integers(0, 10**6), st.floats(-2, 3), st.floats(-30, 30))
def test_the_best_shift_is_a_root_of_the_slopes(loss, seed, spread, near):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    y, e = np.resize([1.0, -1.0], n), rng.uniform(0.1, 2.0, n)
    v = 10**spread * rng.standard_normal(n) + 10**spread * rng.standard_normal()
    f = loss(y, rng.uniform(0.1, 3.0, n))

    def slope(b):
        return float((e * f.gradient(v + b * e)).sum())

    b = Profiled(f, e).offset(v, near)
    low, high = -1.0, 1.0
    while slope(low) > 0:
        low *= 4
    while slope(high) < 0:
        high *= 4
    root = brentq(slope, low, high, xtol=1e-300, rtol=1e-15)
    size = np.abs(e * f.gradient(v + b * e)).sum() + np.abs(f.curvature(v + b * e) * e * (v + b * e)).sum()
    assert abs(slope(b)) <= 1e-12 * size + abs(slope(root))  # flat stretches have many roots


# --- Gram matrices, and quadratic functions with kinks and bounds -----------------------------------------------------


@pytest.mark.parametrize("seed", range(cases(60)))
@pytest.mark.parametrize("ones", [False, True])
def test_a_gram_matrix_of_sparse_rows_on_some_columns(seed: int, ones: bool) -> None:
    rng = np.random.default_rng(seed)
    m, p = rng.integers(0, 20), int(rng.integers(1, 12))
    X = sp.csr_array(rng.standard_normal((m, p)) * (rng.random((m, p)) < 0.4))
    h = rng.random(m) * (rng.random(m) < 0.8)
    columns = np.flatnonzero(rng.random(p) < 0.7)
    n = len(columns)
    position = np.full(p, -1)
    position[columns] = np.arange(n)
    before = rng.standard_normal((n + ones, n + ones))
    out = before.copy()
    matrix = X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data
    add_gram(matrix, h, position, ones, out, (np.empty(n + 1, dtype=np.uint64), np.empty(n + 1)))
    dense = np.column_stack([X.toarray()[:, columns], np.ones(m)][: 1 + ones])
    expected = before + np.triu((dense.T * h) @ dense)
    np.testing.assert_allclose(out, expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(cases(60)))
@pytest.mark.parametrize("ones", [False, True])
def test_a_gram_matrix_of_dense_rows(seed: int, ones: bool) -> None:
    rng = np.random.default_rng(seed)
    m, p = rng.choice([0, 1, 20, int(CHUNK), int(CHUNK) + 7]), int(rng.integers(1, 12))
    X = rng.standard_normal((m, p)) * (rng.random((m, p)) < 0.7)
    h = rng.random(m) * (rng.random(m) < 0.6)
    Z = np.column_stack([X, np.ones(m)]) if ones else X
    n = Z.shape[1]
    factors = np.ldexp(1.0, rng.integers(-8, 8, n))
    before = rng.standard_normal(n * (n + 1) // 2)
    out = before.copy()
    add_dense_gram(X, h, (factors, np.full_like(out, np.nan)), out)
    expected = before + ((factors[:, None] * Z.T * h) @ (Z * factors))[np.triu_indices(n)]
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12 * m * 2.0**16)


@pytest.mark.parametrize("seed", range(cases(60)))
@pytest.mark.parametrize("ones", [False, True])
def test_products_of_standardised_rows(seed: int, ones: bool) -> None:
    rng = np.random.default_rng(seed)
    m, p = (int(n) for n in rng.integers([0, 1], [20, 12]))
    X, mean = rng.standard_normal((m, p)), rng.standard_normal(p)
    inverse, ways = np.ldexp(1.0, rng.integers(-8, 8, p)), rng.standard_normal((p + ones, 4))
    Z, out = np.full((m, p + ones), np.nan), np.full((m, 4), np.nan)
    standardised_products(X, mean, inverse, ways, Z, out)
    expected = np.column_stack([(X - mean) * inverse, np.ones(m)][: 1 + ones])
    np.testing.assert_array_equal(Z, expected)
    np.testing.assert_allclose(out, expected @ ways, rtol=1e-12, atol=1e-12 * 2.0**8)


@pytest.mark.parametrize("seed", range(cases(60)))
def test_products_of_the_rows_of_several_nodes(seed: int) -> None:
    """Of nodes with 0 to 9 rows, so that each number of rows beside fours of them occurs."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(rng.integers(0, 10, rng.integers(1, 5)))])
    m, p, r, K = int(starts[-1]), int(rng.integers(1, 12)), int(rng.integers(1, 4)), len(starts) - 1
    X, ways = rng.standard_normal((m, p)), rng.standard_normal((p + 1, 2))
    vectors, h = rng.standard_normal((r, m)) * (rng.random((r, m)) < 0.5), rng.random(m)
    Z, found = np.column_stack([X, np.ones(m)]), np.full((m, 2), np.nan)
    row_products(X, ways, found)
    np.testing.assert_allclose(found, Z @ ways, rtol=1e-12, atol=1e-13)
    sums, triangles = np.zeros((r, K, p + 1)), np.zeros((K, (p + 1) * (p + 2) // 2))
    column_products(X, starts, vectors, sums)
    node_grams(X, starts, h, (np.ones(p + 1), np.empty(triangles.shape[1])), triangles)
    for k, own in enumerate(slice(a, b) for a, b in pairwise(starts.tolist())):
        np.testing.assert_allclose(sums[:, k], vectors[:, own] @ Z[own], rtol=1e-12, atol=1e-13)
        expected = ((Z[own].T * h[own]) @ Z[own])[np.triu_indices(p + 1)]
        np.testing.assert_allclose(triangles[k], expected, rtol=1e-12, atol=1e-13)


# --- whole numbers of a total -----------------------------------------------------------------------------------------


@given(st.lists(st.floats(width=64), min_size=3, max_size=3), st.integers(0, 5))
@prop(200)
def test_the_largest_entry_of_a_row_is_not_finite_if_one_is_not(entries: list[float], zeros: int) -> None:
    rows = np.array([[*entries, *[0.0] * zeros], [0.0] * (3 + zeros)])
    bits = np.zeros(2, np.int64)
    largest_bits(rows.view(np.int64), bits)
    found, expected = bits.view(np.float64), np.abs(rows).max(axis=1)
    if np.isfinite(expected[0]):
        np.testing.assert_array_equal(found, expected)
    else:
        assert not np.isfinite(found[0])


@pytest.mark.parametrize("seed", range(cases(60)))
def test_entries_are_rounded_to_units_where_they_fit_and_halves_to_even(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, inverse = int(rng.integers(0, 9)), float(np.ldexp(1.0, int(rng.integers(-4, 5))))
    rows, fits = rng.integers(-9, 9, (4, n)) / 2 / inverse, rng.random(4) < 0.6
    expected = np.where(fits[:, None], np.rint(rows * inverse), 0) - 7
    for whole, sums in ((np.full((4, n + 2), -7), expected), (np.full((1, n + 2), -7), (expected + 7).sum(axis=0) - 7)):
        add_units(rows, inverse, fits, np.uint64(1), whole)
        np.testing.assert_array_equal(whole[:, 1:-1], np.atleast_2d(sums))
        assert (whole[:, [0, -1]] == -7).all()


# --- triangles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(cases(60)))
def test_a_triangle_is_packed_row_by_row_with_its_factors_and_unpacked_to_both_sides(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 12))
    matrix, factors = rng.standard_normal((n, n)), np.ldexp(1.0, rng.integers(-8, 8, n))
    packed = np.full(n * (n + 1) // 2, np.nan)
    pack_triangle(matrix, factors, packed)
    expected = [matrix[i, j] * factors[i] * factors[j] for i in range(n) for j in range(i, n)]
    np.testing.assert_array_equal(packed, expected)
    out = np.full((n, n), np.nan)
    unpack_triangle(packed, out)
    upper = np.triu(factors[:, None] * matrix * factors)
    np.testing.assert_array_equal(out, upper + np.triu(upper, 1).T)


@pytest.mark.parametrize("seed", range(cases(60)))
def test_a_triangle_on_some_columns_is_that_of_the_matrix_on_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 12))
    columns = np.flatnonzero(rng.random(d) < 0.7)
    matrix, factors = rng.standard_normal((d, d)), np.ldexp(1.0, rng.integers(-8, 8, len(columns)))
    packed, expected = np.full((2, len(columns) * (len(columns) + 1) // 2), np.nan)
    pack_columns(matrix, columns, factors, packed)
    pack_triangle(np.ascontiguousarray(matrix[np.ix_(columns, columns)]), factors, expected)
    np.testing.assert_array_equal(packed, expected)


@pytest.mark.parametrize("enough", [1e-4, 0.1])
@pytest.mark.parametrize("seed", range(cases(60)))
def test_a_minimiser_that_is_good_enough_gains_nearly_what_the_exact_one_does(seed: int, enough: float) -> None:
    rng = np.random.default_rng(seed)
    d, rank = 40, int(rng.integers(5, 40))
    root = rng.standard_normal((d, rank)) * np.exp(rng.uniform(-3, 3, d))[:, None]  # flat and ill-conditioned
    S, b, w = root @ root.T, root @ rng.standard_normal(rank), np.zeros(d)
    limits = np.array([np.full(d, 0.05 * np.abs(b).max()), np.full(d, -np.inf), np.full(d, np.inf)])
    values = []
    for part in (0.0, enough):
        u = w.copy()
        minimise(PenalisedQuadratic(S, b, limits, w, np.uint64(0)), u, part, FaceScratch.of(d))
        values.append(b @ u + 0.5 * u @ S @ u + limits[0] @ np.abs(u))
    assert values[0] <= values[1] + 1e-12 * abs(values[0])
    assert values[1] <= (1.0 - 20.0 * enough) * values[0] + 1e-9 * abs(values[0])
    assert values[0] < 0


@pytest.mark.parametrize("seed", range(cases(100)))
def test_a_factor_and_its_inverse(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, rank = int(rng.integers(1, 30)), int(rng.integers(1, 30))
    root = rng.standard_normal((d, min(rank, d)))
    root[rng.random(d) < 0.2] = 0.0
    S, rank = root @ root.T, np.linalg.matrix_rank(root)
    L, inverse = S.copy(), np.empty((d, d))
    eliminate(L, np.uint64(d), 1e-12 * np.diag(S), np.empty((8, d)))
    invert(L, inverse)
    L = np.tril(L)
    np.testing.assert_allclose(L @ L.T, S, atol=1e-9 * np.abs(S).max())
    live = np.diag(L) > 0
    assert live.sum() == rank
    sizes = np.abs(inverse).max() ** 2 * np.abs(S).max()
    np.testing.assert_allclose(inverse[live] @ S @ inverse[live].T, np.eye(live.sum()), atol=1e-13 * sizes)
    np.testing.assert_allclose(inverse[~live] @ S, 0.0, atol=1e-13 * sizes)
    assert (np.diag(inverse)[~live] == 1.0).all()


@pytest.mark.parametrize("seed", range(cases(300)))
def test_a_quadratic_function_with_kinks_and_bounds_is_minimised(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, free = int(rng.integers(1, 12)), int(rng.integers(0, 4))
    free = min(free, d)
    root = rng.standard_normal((d, d + 2))
    S, b, w = root @ root.T, 3.0 * rng.standard_normal(d), rng.standard_normal(d)
    l1 = np.where(rng.random(d) < 0.7, 2.0 * rng.random(d), 0.0)
    lo, hi = np.where(rng.random((2, d)) < 0.5, [[-np.inf], [np.inf]], rng.random((2, d)) * [[-0.5], [0.5]])
    l1[:free], lo[:free], hi[:free] = 0.0, -np.inf, np.inf
    w = np.clip(w, lo, hi)
    u, limits = w.copy(), np.ascontiguousarray([l1, lo, hi])
    minimise(PenalisedQuadratic(S, b, limits, w, np.uint64(free)), u, 0.0, FaceScratch.of(d))
    assert ((u >= lo) & (u <= hi)).all()
    table, step = Table(l1=l1, lo=lo, hi=hi), 1.0 / np.linalg.eigvalsh(S)[-1]
    slopes = b + S @ (u - w)
    np.testing.assert_allclose(table.prox(u - step * slopes, step), u, atol=1e-12 * (1 + np.abs(u).max()))
