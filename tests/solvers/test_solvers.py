"""One suite for all local solvers: the compiled one, scikit-learn's and a user's own."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn import linear_model

from glmesh import Cola, Problem, Run, solve
from glmesh.core.block import Block
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import L1, L2, Box, ElasticNet, GroupLasso, LogisticDual, Table
from glmesh.linalg.columns import Columns
from glmesh.problem.node_data import CompositeObjective
from glmesh.solvers import CoordinateDescent, NodewiseSolver, SklearnCoordinateDescent, Subproblems
from tests.cases import prop

_EXAMPLE = Path(__file__).parents[2] / "examples" / "plot_own_solver.py"
_own = {"__name__": "own_solver"}
exec("".join(_EXAMPLE.read_text().split("# %%")[:2]), _own)  # the solver, without the comparison below it
ProximalGradient = _own["ProximalGradient"]

SOLVERS = {
    "cyclic": CoordinateDescent(),
    "shuffled": CoordinateDescent("shuffled"),
    "symmetric": CoordinateDescent("symmetric"),
    "sklearn": SklearnCoordinateDescent(),
    "sklearn_random": SklearnCoordinateDescent("random"),
    "own": ProximalGradient(),
}
# What every solver takes, and what scikit-learn's refuses.
PLAIN = {
    "l1": lambda n: L1(0.5),
    "l2": lambda n: L2(0.5),
    "elasticnet": lambda n: ElasticNet(0.3, 0.4),
    "l1_nonneg": lambda n: L1(0.2, lo=0.0),
    "l2_nonneg": lambda n: L2(0.2, lo=0.0),
}
REST = {
    "box": lambda n: Box(-0.3, 0.4),
    "columns": lambda n: ElasticNet(np.linspace(0.1, 1.0, n), 0.1),
    "hinge_dual": lambda n: Table(linear=(-1.0) ** np.arange(n), lo=np.full(n, -0.5), hi=np.full(n, 0.5)),
    "logistic_dual": lambda n: LogisticDual((-1.0) ** np.arange(n), np.full(n, 0.8)),
    "groups": lambda n: GroupLasso(np.arange(n) // 2, 0.5),
}
PAIRS = [(solver, g) for solver in SOLVERS for g in {**PLAIN, **REST} if g in PLAIN or not solver.startswith("sklearn")]
pairs = pytest.mark.parametrize(("solver", "g"), PAIRS)


class Case:
    """A block of two nodes and an empty one, with one subproblem each."""

    def __init__(self, g, seed, sparse):
        rng = np.random.default_rng(seed)
        self.sizes, self.d = [5, 0, 3], 9
        self.matrices = []
        for n in self.sizes:  # well conditioned, so that a hundred passes are many
            A = np.linalg.qr(rng.standard_normal((self.d, n)))[0] + 0.1 * rng.standard_normal((self.d, n))
            self.matrices.append(A * (rng.random(A.shape) < 0.5) if sparse else A)
        self.gs = [{**PLAIN, **REST}[g](n) for n in self.sizes]
        forms = [
            CompositeObjective(Columns.of(sp.csr_array(A) if sparse else A), None, g)
            for A, g in zip(self.matrices, self.gs, strict=True)
        ]
        info = SimpleNamespace(n_nodes=3, seed=seed)
        self.block = Block.of(np.arange(3), info, forms, lambda: None)
        self.x = np.clip(0.3 * rng.standard_normal(8), *self.block.table[:, 3:].T)
        self.w, self.q = 2.0 * rng.standard_normal((3, self.d)), 0.5 + rng.random(3)

    def solve(self, solver, passes, *, gamma=1.0, accuracy=-1.0, rows=None):
        """(x, estimates, theta) after so many passes, from estimates of zero and step 1/q."""
        x, v = self.x.copy(), np.zeros((3, self.d))
        counts, theta = np.full(3, passes, dtype=np.uint64), np.full(3, accuracy)
        task = Subproblems(x, self.w, v, self.q, 1.0 / self.q, gamma, counts, theta, 0, rows)
        reached, visited = solver.solve(self.block, solver.prepare(self.block), task)
        assert visited.shape == (3,)
        assert (visited >= 0).all()
        return x, v, reached

    def value(self, k, x):
        own = self.block.of_node(k)
        u = self.matrices[k] @ (x[own] - self.x[own])
        return self.w[k] @ u + 0.5 * self.q[k] * u @ u + self.gs[k].value(x[own])

    def slack(self, k, x, h=1.0):
        """|x - prox(x - gradient)|: zero at the subproblem's optimum and nowhere else."""
        own, A = self.block.of_node(k), self.matrices[k]
        slope = A.T @ (self.w[k] + self.q[k] * h * (A @ (x[own] - self.x[own])))
        return np.abs(x[own] - self.gs[k].prox(x[own] - slope, 1.0)).max()


@pairs
@prop(20)
@given(seed=st.integers(0, 10**6), sparse=st.booleans(), passes=st.integers(1, 3))
def test_each_pass_decreases_the_subproblem(solver, g, seed, sparse, passes):
    case = Case(g, seed, sparse)
    x, v, _ = case.solve(SOLVERS[solver], passes)
    for k in (0, 2):
        own = case.block.of_node(k)
        assert case.value(k, x) <= case.value(k, case.x) + 1e-12
        if solver != "sklearn_random":  # which draws with replacement and may meet pinned columns only
            assert case.value(k, x) < case.value(k, case.x) or case.slack(k, case.x) < 1e-9
        np.testing.assert_allclose(v[k], case.matrices[k] @ (x - case.x)[own], rtol=1e-9, atol=1e-12)
    assert not v[1].any()


@pairs
@prop(20)
@given(seed=st.integers(0, 10**6), sparse=st.booleans())
def test_many_passes_reach_the_optimum(solver, g, seed, sparse):
    case = Case(g, seed, sparse)
    x, _, theta = case.solve(SOLVERS[solver], 1000)
    assert max(case.slack(k, x) for k in (0, 2)) <= 1e-6
    assert np.isnan(theta[[0, 2]]).all()  # none was asked for


@pytest.mark.parametrize("g", {**PLAIN, **REST})
@prop(20)
@given(seed=st.integers(0, 10**6), sparse=st.booleans())
def test_many_passes_reach_the_optimum_with_weights_per_row(g, seed, sparse):
    case = Case(g, seed, sparse)
    rows = 0.2 + 0.8 * np.random.default_rng(seed).random((3, case.d))
    x, v, _ = case.solve(SOLVERS["cyclic"], 3000, rows=rows)
    assert max(case.slack(k, x, rows[k]) for k in (0, 2)) <= 1e-6
    for k in (0, 2):
        np.testing.assert_allclose(v[k], case.matrices[k] @ (x - case.x)[case.block.of_node(k)], atol=1e-12)


class Spy(NodewiseSolver):
    """Keeps what it is asked."""

    def __init__(self):
        self.tasks = []

    def solve_node(self, task):
        self.tasks.append(task)
        return task.x


def test_weights_per_row_reach_a_solver_of_single_nodes():
    case, rows, spy = Case("l1", 0, False), np.random.default_rng(0).random((3, 9)), Spy()
    case.solve(spy, 1, rows=rows)
    case.solve(spy, 1)
    assert [task.rows is None for task in spy.tasks] == [False, False, True, True]
    np.testing.assert_array_equal(spy.tasks[1].rows, rows[2])


def test_weights_per_row_are_refused_by_solvers_without_them():
    case, rows = Case("l1", 0, False), np.ones((3, 9))
    for name in ("sklearn", "sklearn_random"):
        with pytest.raises(UnsuitablePair, match=r"CoordinateDescent\(\)"):
            case.solve(SOLVERS[name], 1, rows=rows)
    for solver in (CoordinateDescent(), Spy()):
        with pytest.raises(AssertionError):
            case.solve(solver, 1, accuracy=0.1, rows=rows)


@pytest.mark.parametrize("g", ["l1", "logistic_dual", "groups"])
def test_moved_wakes_the_units_of_changed_columns_only(g):
    case, solver = Case(g, 0, False), CoordinateDescent()
    _, bounds, _ = case.block.units
    for changed in np.random.default_rng(0).random((40, 8)) < np.linspace(0, 1, 40)[:, None]:
        memory = solver.prepare(case.block)
        memory.wake[:] = np.inf
        solver.moved(case.block, memory, changed)
        woken = [changed[int(a) : int(b)].any() for a, b in itertools.pairwise(bounds)]
        np.testing.assert_array_equal(memory.wake == 0.0, woken)
        for other in (SklearnCoordinateDescent(), ProximalGradient()):
            other.moved(case.block, None, changed)


@pairs
@prop(20)
@given(seed=st.integers(0, 10**6), gamma=st.sampled_from([0.5, 0.1]))
def test_gamma_scales_the_step(solver, g, seed, gamma):
    case = Case(g, seed, False)
    full, full_v, _ = case.solve(SOLVERS[solver], 2)
    part, part_v, _ = case.solve(SOLVERS[solver], 2, gamma=gamma)
    np.testing.assert_allclose(part - case.x, gamma * (full - case.x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(part_v, full_v, rtol=1e-12, atol=1e-12)  # the step carries gamma for the estimate


@pairs
@prop(20)
@given(seed=st.integers(0, 10**6), passes=st.integers(1, 4))
def test_theta_reached_is_reported_and_never_below_the_truth(solver, g, seed, passes):
    case = Case(g, seed, False)
    x, _, theta = case.solve(SOLVERS[solver], passes, accuracy=1e-12)
    best, _, _ = case.solve(SOLVERS["cyclic"], 1000)
    for k in (0, 2):
        left, all_there_is = (case.value(k, x0) - case.value(k, best) for x0 in (x, case.x))
        assert left <= theta[k] * all_there_is + 1e-9
        assert 0.0 <= theta[k] <= 1.0
    assert theta[1] == 0.0


def lasso(sparse=False, alpha=0.1):
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.standard_normal((40, 18)))[0] + 0.05 * rng.standard_normal((40, 18))
    if sparse:
        X *= rng.random(X.shape) < 0.5
    y = X @ rng.standard_normal(18) + 0.1 * rng.standard_normal(40)
    return (sp.csc_array(X) if sparse else X), y, alpha


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("penalty", ["l1", "l2", "elasticnet"])
def test_a_run_keeps_the_mean_and_finds_scikit_learns_solution(solver, penalty):
    X, y, alpha = lasso(sparse=penalty == "elasticnet")
    problem = Problem.glm(X, y, penalty=penalty, alpha=alpha)
    method = Cola(local_passes=3, solver=SOLVERS[solver])

    def mean_is_kept(run):
        if run.rounds % 10 == 1:
            mean, shared = run.estimates.mean(axis=0), problem.composite.columns.dot(run.x)
            np.testing.assert_allclose(mean, shared, rtol=1e-9, atol=1e-10)

    result = solve(problem, method=method, n_nodes=3, topology="path", tol=1e-9, callback=mean_is_kept, record_every=5)
    assert result.status.name == "CONVERGED"
    m = len(y)
    twin = {
        "l1": linear_model.Lasso(alpha / m, fit_intercept=False, tol=1e-12, max_iter=10**6),
        "l2": linear_model.Ridge(alpha, fit_intercept=False, tol=1e-12),
        "elasticnet": linear_model.ElasticNet(alpha / m, l1_ratio=0.5, fit_intercept=False, tol=1e-12, max_iter=10**6),
    }[penalty].fit(X, y)
    np.testing.assert_allclose(result.coef, twin.coef_, atol=1e-5)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_run_depends_on_nothing_but_its_seed(solver):
    problem = Problem.glm(*lasso()[:2], penalty="l1", alpha=0.1)
    method = Cola(local_passes=2, solver=SOLVERS[solver])
    runs = [Run(problem, method=method, n_nodes=4, seed=seed, n_jobs=jobs) for seed, jobs in ((3, 1), (3, 2))]
    for run in runs:
        for _ in range(5):
            next(run)
    assert np.array_equal(runs[0].x, runs[1].x)


@pytest.mark.parametrize("g", REST)
@pytest.mark.parametrize("name", ["sklearn", "sklearn_random"])
def test_the_scikit_learn_solver_refuses_unsupported_subproblems(g, name):
    case = Case(g, 0, False)
    with pytest.raises(UnsuitablePair, match=r"CoordinateDescent\(\)"):
        SOLVERS[name].prepare(case.block)


def test_an_unsuitable_solver_is_refused_before_the_first_round():
    X, y, _ = lasso()
    problem = Problem.glm(X, np.sign(y), loss="hinge", split="samples")
    with pytest.raises(UnsuitablePair, match="scikit-learn"):
        solve(problem, method=Cola(solver=SklearnCoordinateDescent()), n_nodes=3)
    with pytest.raises(InvalidInput, match="'cyclic', 'shuffled' or 'symmetric'"):
        CoordinateDescent("backwards")


def test_scikit_learn_without_any_penalty():
    """l1 = l2 = 0 is least squares; scikit-learn would warn, the run does not."""
    X, y, _ = lasso()
    problem = Problem.glm(X, y, penalty="l2", alpha=0.0)
    result = solve(
        problem,
        method=Cola(local_passes=3, solver=SklearnCoordinateDescent()),
        n_nodes=2,
        stop="rounds",
        max_rounds=150,
        record_every=100,
    )
    np.testing.assert_allclose(result.coef, np.linalg.lstsq(X, y)[0], atol=1e-6)
