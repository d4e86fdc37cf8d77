"""Methods of consensus: the same optimum as everybody's, known facts about each, and what they refuse."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Lasso, LogisticRegression, Ridge

from glmesh import Network, Problem, Run, solve
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import L1, GroupLasso, Table
from glmesh.methods import Consensus, DAdmm, Dapg, Dgd, Diging, Extra, Nids, PgExtra
from glmesh.methods.consensus.base import Copies
from glmesh.methods.consensus.samples import Constants, Pool, Samples
from glmesh.network import mixing
from tests.cases import prop

M, P, K = 120, 8, 8
SMOOTH_ONLY = [Dgd(), Diging(), Diging(order="adapt-first"), Extra()]
COMPOSITE = [PgExtra(), Nids(), DAdmm(), DAdmm(local_solve="exact"), Dapg()]
EXACT = 1e-8


def name(method: Consensus) -> str:
    more = [getattr(method, key, "") for key in ("order", "local_solve")]
    return "-".join([method.name, *(word for word in more if word)])


@cache
def data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M, P))
    return X, X @ rng.normal(size=P) + 0.3 * rng.normal(size=M)


@dataclass(frozen=True)
class Case:
    problem: Problem
    coef: np.ndarray

    @property
    def best(self) -> float:
        return self.problem.objective(self.coef)


@cache
def ridge(alpha: float = 150.0) -> Case:
    X, y = data()
    coef = Ridge(alpha=alpha, fit_intercept=False, solver="cholesky").fit(X, y).coef_
    return Case(Problem.glm(X, y, alpha=alpha), coef)


@cache
def lasso() -> Case:
    X, y = data()
    model = Lasso(alpha=20.0 / M, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(X, y)
    return Case(Problem.glm(X, y, penalty="l1", alpha=20.0), model.coef_)


def reach(case: Case, method: Consensus, goal: float, cap: int = 30_000, **options: object) -> tuple[float, int]:
    """(relative suboptimality, rounds) when it is at most the goal, or at the cap."""
    error = np.inf
    with Run(case.problem, method=method, n_nodes=K, n_jobs=1, **options) as run:
        while error > goal and run.rounds < cap:
            for _ in range(10):
                next(run)
            error = (run.measure().objective - case.best) / case.best
        return error, run.rounds


@pytest.mark.parametrize("topology", ["ring", "grid"])
@pytest.mark.parametrize("method", SMOOTH_ONLY + COMPOSITE, ids=name)
def test_everybody_reaches_the_optimum_of_ridge(method: Consensus, topology: str) -> None:
    error, _ = reach(ridge(), method, EXACT, topology=topology)
    assert -1e-12 <= error <= EXACT


@pytest.mark.parametrize("topology", ["ring", "grid"])
@pytest.mark.parametrize("method", COMPOSITE, ids=name)
def test_who_may_reaches_the_optimum_of_a_lasso(method: Consensus, topology: str) -> None:
    error, _ = reach(lasso(), method, EXACT, topology=topology)
    assert -1e-12 <= error <= EXACT


@pytest.mark.parametrize("method", [Extra(), PgExtra(), Nids(), DAdmm(), Dapg(), Diging("auto")], ids=name)
def test_logistic_regression(method: Consensus) -> None:
    X, y = data()
    labels = np.where(y > 0, 7.0, 3.0)  # any two numbers
    model = LogisticRegression(C=0.1, fit_intercept=False, solver="newton-cholesky", tol=1e-12).fit(X, labels)
    case = Case(Problem.glm(X, labels, loss="logistic", alpha=10.0), model.coef_[0])
    error, _ = reach(case, method, EXACT, topology="grid")
    assert error <= EXACT


@pytest.mark.parametrize("method", [Diging(), Extra(), Nids(), DAdmm()], ids=name)
def test_linear_rates_are_linear(method: Consensus) -> None:
    """The logarithm of the error falls along a line: each half of the way takes about as long."""
    rounds = [reach(ridge(), method, goal)[1] for goal in (1e-4, 1e-7, 1e-10)]
    first, second = rounds[1] - rounds[0], rounds[2] - rounds[1]
    assert second <= 1.5 * first + 20


def test_a_constant_step_of_dgd_ends_near_the_optimum_and_a_smaller_one_nearer() -> None:
    far, _ = reach(ridge(), Dgd(2e-3), EXACT, cap=3_000)
    near, _ = reach(ridge(), Dgd(5e-4), EXACT, cap=3_000)
    assert EXACT < near < far / 4  # the objective's error is quadratic in the step


@prop(30)
@given(seed=st.integers(0, 10_000), step=st.floats(1e-4, 3e-3))
def test_pg_extra_without_a_kink_is_extra(seed: int, step: float) -> None:
    X, y = data(seed)
    problem = Problem.glm(X, y, alpha=3.0)
    one = Run(problem, method=Extra(step), n_nodes=6, seed=seed)
    other = Run(problem, method=PgExtra(step), n_nodes=6, seed=seed)
    for _ in range(20):
        next(one), next(other)
    np.testing.assert_allclose(one.estimates, other.estimates, rtol=1e-10, atol=1e-10)


def _descent(problem: Problem, step: float, rounds: int) -> np.ndarray:
    """Plain gradient descent on a K-th of the objective."""
    X, y = problem.parts[0].columns.to_scipy(), problem.parts[0].y
    w = np.zeros(X.shape[1])
    for _ in range(rounds):
        w = w - step * (X.T @ (X @ w - y) + problem.spec.alpha * w) / K
    return w


def test_diging_on_the_complete_graph_is_gradient_descent() -> None:
    problem, step = ridge().problem, 2e-3
    options = {"topology": "complete", "n_nodes": K, "mixing": mixing.uniform(K)}
    with Run(problem, method=Diging(step, order="adapt-first"), **options) as run:
        next(run)  # before the first mix everybody tracks its own gradient only
        for _ in range(30):
            next(run)
        for row in run.estimates:
            np.testing.assert_allclose(row, _descent(problem, step, 31), rtol=1e-10)


def test_diging_is_gradient_descent_where_all_nodes_hold_the_same() -> None:
    X, y = data()
    problem = Problem.from_nodes([(X, y)] * K, alpha=150.0 * K)
    with Run(problem, method=Diging(2e-3), topology="ring") as run:
        for _ in range(30):
            next(run)
        np.testing.assert_allclose(run.estimates[3], _descent(Problem.glm(X, y, alpha=150.0), 2e-3 * K, 30), rtol=1e-9)


def test_dapg_without_disagreement_is_the_accelerated_gradient_method() -> None:
    problem = ridge().problem
    X, y = data()
    with Run(problem, method=Dapg(), topology="complete", n_nodes=K, mixing=mixing.uniform(K)) as run:
        step, mu = run.states[0].step, run.blocks[0].constants.strong_convexity
        q = np.sqrt(mu * step)
        w = ahead = np.zeros(P)
        for _ in range(20):
            next(run)
            new = ahead - step * (X.T @ (X @ ahead - y) + 150.0 * ahead) / K
            w, ahead = new, new + (1 - q) / (1 + q) * (new - w)
        np.testing.assert_allclose(run.x, w, rtol=1e-9)


def test_cola_diging_and_admm_agree() -> None:
    case = ridge()
    ours = solve(case.problem, n_nodes=K, tol=1e-13).coef
    for method in (Diging(), DAdmm(), DAdmm(local_solve="exact")):
        theirs = solve(case.problem, method=method, n_nodes=K, tol=1e-13, max_rounds=30_000, record_every=50)
        np.testing.assert_allclose(theirs.coef, ours, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(theirs.coef_of(2), case.coef, rtol=1e-5, atol=1e-6)


ALL = [*SMOOTH_ONLY, *COMPOSITE]


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("method", ALL, ids=name)
def test_the_same_bits_in_any_number_of_blocks_and_threads(method: Consensus, loss: str) -> None:
    rng = np.random.default_rng(1)
    X = sp.random_array((90, 30), density=0.3, rng=rng, format="csr")
    y = np.sign(rng.normal(size=90))
    weight = rng.uniform(0.5, 2.0, size=90)
    l1_ratio = 0.5 if method.composite else 0.0
    problem = Problem.glm(X, y, loss=loss, penalty="elasticnet", l1_ratio=l1_ratio, alpha=0.5, sample_weight=weight)
    seen = []
    for n_blocks, n_jobs in ((1, 1), (2, 1), (6, 1), (1, 2)):
        with Run(problem, method=method, n_nodes=6, n_blocks=n_blocks, n_jobs=n_jobs, topology="grid") as run:
            for _ in range(5):
                next(run)
            seen.append((run.estimates, run.bytes))
    for estimates, sent in seen[1:]:
        assert np.array_equal(estimates, seen[0][0])
        assert sent == seen[0][1]


@pytest.mark.parametrize(
    ("method", "exchanges", "vectors"),
    [(Dgd(), 1, 1), (Diging(), 1, 2), (Diging(order="adapt-first"), 2, 2), (Extra(), 1, 1), (Nids(), 1, 1),
     (PgExtra(), 1, 1), (DAdmm(), 1, 1), (Dapg(gossip_steps=3), 6, 6)],
    ids=lambda value: name(value) if isinstance(value, Consensus) else None,
)  # fmt: skip
def test_what_a_round_costs(method: Consensus, exchanges: int, vectors: int) -> None:
    """Vectors are as long as the coefficients, whichever way the problem is split."""
    for split in ("features", "samples"):
        X, y = data()
        problem = Problem.glm(X, y, alpha=150.0, split=split)
        with Run(problem, method=method, n_nodes=K, topology="ring", network=Network()) as run:
            for _ in range(3):
                next(run)
            assert run.communications == 3 * exchanges
            assert run.bytes == 3 * vectors * 8 * P * 2 * K
            assert run.seconds >= 3 * exchanges * 1e-3  # the latency


def test_samples_add_up_to_the_problem() -> None:
    """The gradients of all nodes at one point are the gradient of the user's objective."""
    X, y = data()
    rng = np.random.default_rng(3)
    weight, w = rng.uniform(0.1, 2.0, size=M), rng.normal(size=P)
    problem = Problem.glm(X, y, alpha=5.0, sample_weight=weight)
    with Run(problem, method=Nids(), n_nodes=5) as run:
        block = run.blocks[0]
        total = block.gradients(np.tile(w, (5, 1))).sum(axis=0)
    np.testing.assert_allclose(total, X.T @ (weight * (X @ w - y)) + 5.0 * w, rtol=1e-12)


def test_either_split_is_the_same_problem_to_consensus_methods() -> None:
    X, y = data()
    runs = [
        solve(Problem.glm(X, y, alpha=150.0, split=split), method=Nids(), n_nodes=K, max_rounds=30, stop="rounds")
        for split in ("features", "samples")
    ]
    assert np.array_equal(runs[0].coef, runs[1].coef)
    np.testing.assert_allclose(runs[0].objective, runs[1].objective, rtol=1e-12)
    np.testing.assert_allclose(runs[0].history["gap"][5:], runs[1].history["gap"][5:], rtol=1e-6)


def test_constants_hold_and_may_be_given() -> None:
    X, _ = data()
    with Run(ridge().problem, method=Nids(), n_nodes=K, partition="contiguous") as run:
        found = run.blocks[0].constants
    parts = [X[k * M // K : (k + 1) * M // K] for k in range(K)]
    eigen = [np.linalg.eigvalsh(part.T @ part) + 150.0 / K for part in parts]
    assert found.smoothness == pytest.approx(max(values[-1] for values in eigen))
    assert found.strong_convexity == pytest.approx(min(values[0] for values in eigen))
    with Run(ridge().problem, method=Nids(constants=Constants(100.0, 1.0)), n_nodes=K) as run:
        assert run.states[0].step == pytest.approx(1.9 / 100.0)


def test_large_blocks_have_bounds_that_hold() -> None:
    rng = np.random.default_rng(0)
    X = sp.random_array((1300, 700), density=0.02, rng=rng, format="csr")
    problem = Problem.glm(X, rng.normal(size=1300), alpha=1.0)
    with Run(problem, method=Nids(), n_nodes=2, partition="contiguous") as run:
        found = run.blocks[0].constants.smoothness
    true = max(np.linalg.norm(part.toarray(), 2) ** 2 for part in (X[:650], X[650:])) + 0.5
    assert true <= found <= 1.01 * true


def test_the_grid_finds_a_step_that_is_no_slower_than_the_theorys() -> None:
    for method in (Diging(), Extra(), DAdmm(), Dapg()):
        theory = solve(ridge().problem, method=method, n_nodes=K, stop="rounds", max_rounds=40)
        tuned = solve(ridge().problem, method=type(method)("auto"), n_nodes=K, stop="rounds", max_rounds=400,
                      callback=lambda run, most=theory.communications: run.communications >= most)  # fmt: skip
        assert tuned.objective <= theory.objective * (1 + 1e-9)
        assert tuned.communications <= theory.communications + 20


def test_diging_with_subgradients_refuses_a_bound() -> None:
    X, y = np.eye(6), np.ones(6)
    bounded = Problem.glm(X, y, penalty=Table(l1=np.array(0.1), lo=np.array(0.0)), alpha=1.0)
    with pytest.raises(UnsuitablePair, match="has a kink or a bound"):
        solve(bounded, method=Diging(subgradients=True), n_nodes=3)


def test_subgradients_bring_diging_near_the_lasso() -> None:
    error, _ = reach(lasso(), Diging(2e-4, subgradients=True), 1e-4, cap=20_000)
    assert error <= 1e-4


def test_group_lasso() -> None:
    X, y = data()
    groups = GroupLasso(np.repeat([0, 1, 2, 3], 2))
    problem = Problem.glm(X, y, penalty=groups, alpha=20.0)
    ours = solve(problem, n_nodes=4, tol=1e-10)
    for method in (Nids(), PgExtra(), Dapg()):
        theirs = solve(problem, method=method, n_nodes=4, tol=1e-8, record_every=20)
        np.testing.assert_allclose(theirs.coef, ours.coef, atol=1e-3)
        assert theirs.objective <= ours.objective * (1 + 1e-6)


def test_warm_start_and_an_empty_node() -> None:
    case = ridge()
    warm = solve(case.problem, method=Nids(), n_nodes=K, warm_start=case.coef, max_rounds=0, stop="rounds")
    np.testing.assert_allclose(warm.objective, case.best, rtol=2e-2)
    X, y = data()
    few = Problem.glm(X[:3], y[:3], alpha=1.0)
    for method in (Nids(), DAdmm(), Extra()):
        result = solve(few, method=method, n_nodes=5, tol=1e-7, max_rounds=5_000, record_every=10)
        assert result.relative_gap <= 1e-7


@pytest.mark.parametrize("method", SMOOTH_ONLY, ids=name)
def test_methods_for_smooth_objectives_refuse_a_penalty_with_a_kink(method: Consensus) -> None:
    with pytest.raises(UnsuitablePair, match=f"{method.name} needs a smooth objective.*kink.*Use Cola, Nids"):
        solve(lasso().problem, method=method)


@pytest.mark.parametrize(
    ("options", "pattern"),
    [
        ({"loss": "hinge", "split": "samples"}, "Nids needs a smooth loss and the hinge loss is not"),
        ({"fit_intercept": True}, "no unpenalised intercept"),
    ],
)
def test_other_refusals(options: dict[str, object], pattern: str) -> None:
    X, y = data()
    with pytest.raises(UnsuitablePair, match=pattern):
        solve(Problem.glm(X, np.sign(y), **options), method=Nids())


def test_refusals_by_name() -> None:
    X, y = data()
    problem = ridge().problem
    with pytest.raises(UnsuitablePair, match="each holds features"):
        solve(Problem.from_nodes([(X[:, :4], y), (X[:, 4:], y)], split="features"), method=Nids())
    with pytest.raises(UnsuitablePair, match="DAdmm needs a penalty that is separable"):
        solve(Problem.glm(X, y, penalty=GroupLasso(np.repeat([0, 1], 4))), method=DAdmm())
    with pytest.raises(InvalidInput, match="Nids has no certificates"):
        solve(problem, method=Nids(), stop="certificate")
    with pytest.raises(InvalidInput, match="Nids is for networks that stand still"):
        solve(problem, method=Nids(), faults={"random": [{"dropout": 0.1}]})
    with pytest.raises(InvalidInput, match="warm_start needs 8 finite coefficients"):
        solve(problem, method=Nids(), warm_start=np.zeros(3))
    with pytest.raises(InvalidInput, match="method must be a method"):
        solve(problem, method="nids")  # type: ignore[arg-type]
    with Run(problem, method=Nids(), n_nodes=4) as run:
        for what in (lambda: run.save("no"), lambda: run.add_columns(0, X), lambda: run.remove_columns([0])):
            with pytest.raises(InvalidInput, match="is for Cola"):
                what()
    with pytest.raises(InvalidInput, match="each of 120 samples exactly once"):
        solve(problem, method=Nids(), n_nodes=2, partition=[[0, 1], [1, 2]])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Nids(0.0),
        lambda: Nids("fast"),  # type: ignore[arg-type]
        lambda: Diging(order="both"),  # type: ignore[arg-type]
        lambda: DAdmm(local_solve="some"),  # type: ignore[arg-type]
        lambda: DAdmm(local_passes=0),
        lambda: Dapg(gossip_steps=0),
    ],
)
def test_bad_settings(make: object) -> None:
    with pytest.raises(InvalidInput):
        make()  # type: ignore[operator]


def test_too_large_a_step_diverges_and_is_told() -> None:
    result = solve(ridge().problem, method=Nids(1.0), n_nodes=4, max_rounds=3_000)
    assert "lower the step" in str(result.status)


def test_a_method_of_ones_own() -> None:
    """One small class: what `docs/rivals.md` promises."""

    class Averaging(Consensus):
        """Everybody takes the mean of its neighbourhood, and a step."""

        def default_step(self, constants: Constants, info: object) -> float:
            return 0.5 / constants.smoothness

        def round(self, block: Samples, state: Copies):  # type: ignore[no-untyped-def]
            from glmesh.core.messages import Outbox

            halo = yield Outbox(state.w - state.step * block.gradients(state.w))
            state.advance(block, halo.mix(np.empty_like(state.w)), old={})

    result = solve(ridge().problem, method=Averaging(), n_nodes=4, stop="rounds", max_rounds=200)
    assert result.objective <= 1.05 * ridge().best


def test_a_pool_keeps_every_sample() -> None:
    X, y = data()
    pool = Pool.of(Problem.glm(sp.csr_array(X), y, penalty=L1()))
    order = pool.deal(7, "balanced", 0)
    assert sorted(order.order) == list(range(M))
    assert pool.columns.n == M
