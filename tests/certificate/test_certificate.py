"""Local certificates: never false, and they do happen."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import glmesh
from glmesh import Cola, Problem, Run, Status, functions
from glmesh.functions import L1, GroupLasso, Table
from tests.cases import SOAK, prop

CLASSIFIERS = {"logistic", "hinge", "squared_hinge", "smoothed_hinge"}
SMOOTH = ("squared", "logistic", "huber", "squared_hinge")
TOPOLOGIES = ("ring", "path", "grid", "complete", "star", "2-cycle", "erdos-renyi")


def make_problem(
    rng: np.random.Generator, split: str, loss: str, penalty: str, sparse: bool, intercept: bool
) -> Problem:
    m, p = int(rng.integers(4, 40)), int(rng.integers(2, 30))
    X = rng.normal(size=(m, p)) * np.exp(rng.normal(size=p) * rng.choice([0.0, 0.7]))
    if sparse:
        X = sp.csr_array(X * (rng.random(size=(m, p)) < 0.4))
    y = np.asarray(X @ rng.normal(size=p)) + rng.normal(size=m)
    if loss in CLASSIFIERS:
        y = np.where(y > np.median(y), 1.0, -1.0)
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], size=m) if rng.random() < 0.3 else None
    alpha = float(np.exp(rng.uniform(-2, 2)))
    chosen: object = {
        "box": Table(l1=np.asarray(0.3), lo=np.asarray(-0.2), hi=np.asarray(0.4)),
        "nonneg": L1(0.5, lo=0.0),
        "group": GroupLasso(rng.integers(0, max(1, p // 3), size=p)),
        "mixed": Table(l1=rng.uniform(0.1, 1.0, size=p), l2=np.where(np.arange(p) < p // 2, 0.0, 2.0)),
        "half": L1(rng.uniform(0.1, 1.0, size=p), hi=np.where(rng.random(p) < 0.5, 0.3, np.inf)),
    }.get(penalty, penalty)
    ratio = float(rng.uniform(0.1, 0.9)) if penalty == "elasticnet" else None
    return Problem.glm(
        X, y, loss=loss, penalty=chosen, alpha=alpha, l1_ratio=ratio, split=split, sample_weight=weight,
        fit_intercept=intercept,
    )  # fmt: skip


def optimum(problem: Problem) -> float:
    """The best objective known, from one node; its own gap says how far it can be from the optimum."""
    result = glmesh.solve(
        problem, n_nodes=1, method=Cola(local_passes=30), tol=1e-13, max_rounds=1500, record_every=100
    )
    return result.objective


def false_by(problem: Problem, run: Run, best: float) -> float:
    """How much the true suboptimality of what is certified exceeds the bound; negative if it does not."""
    assert run.certificate is not None
    x, v = run.certified_state()
    if problem.spec.split == "samples":
        worst = max(problem.objective(problem.composite.f.gradient(row)) for row in v)
    else:
        worst = problem.objective(*problem.coefficients(x, problem.composite.columns.dot(x)))
    return worst - best - run.certificate.bound


@prop(400)
@given(
    st.integers(0, 2**32 - 1),
    st.one_of(
        st.tuples(
            st.just("features"), st.sampled_from(SMOOTH),
            st.sampled_from(("l1", "l2", "elasticnet", "box", "nonneg", "group", "half", "mixed")),
        ),
        st.tuples(st.just("samples"), st.sampled_from(sorted(functions.LOSSES)), st.sampled_from(("l2", "elasticnet"))),
    ),
    st.booleans(),
    st.sampled_from(TOPOLOGIES),
    st.integers(1, 20),
)  # fmt: skip
def test_no_certificate_is_ever_false(
    number: int, case: tuple[str, str, str], sparse: bool, topology: str, n_nodes: int
) -> None:
    rng = np.random.default_rng(number)
    split, loss, penalty = case
    problem = make_problem(rng, split, loss, penalty, sparse, split == "features" and bool(rng.random() < 0.3))
    best = optimum(problem)
    passes = int(rng.choice([1, 5]))
    run = Run(
        problem,
        method=Cola(local_passes=passes),
        topology=topology,
        n_nodes=n_nodes,
        partition=str(rng.choice(["shuffled", "contiguous"])),
        seed=number % 1000,
        certify=True,
    )
    seen = None
    for _ in range(int(rng.choice([60, 200, 600]))):
        next(run)
        if run.certificate is not seen and run.certificate is not None:
            seen = run.certificate
            assert false_by(problem, run, best) <= 1e-12 * (1 + abs(best))
            assert seen.objective_low <= best * (1 + 1e-12) + 1e-12 or np.isinf(seen.bound)


def test_nodes_that_need_a_scaled_point_beside_nodes_that_do_not() -> None:
    """Plain L1 columns on one node make everybody scale; the others' conjugates must count then."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 12))
    y = X @ rng.normal(size=12) + rng.normal(size=30)
    penalty = Table(l1=np.repeat([50.0, 0.0], [3, 9]), l2=np.repeat([0.0, 20.0], [3, 9]))
    problem = Problem.glm(X, y, penalty=penalty)
    best = optimum(problem)
    run = Run(problem, topology="complete", n_nodes=4, partition="contiguous", certify=True)
    for _ in range(200):
        next(run)
        if run.certificate is not None:
            assert false_by(problem, run, best) <= 1e-12 * best
    assert run.certificate.bound < 1e-3 * best


def ring_problem(kind: str) -> Problem:
    rng = np.random.default_rng(3)
    tall = np.linalg.qr(rng.normal(size=(120, 48)))[0] * 10 + rng.normal(size=(120, 48)) * 0.3
    wide = np.linalg.qr(rng.normal(size=(80, 60)))[0].T * 3 + rng.normal(size=(60, 80)) * 0.05
    target = tall @ (rng.normal(size=48) * (rng.random(48) < 0.4)) + rng.normal(size=120)
    labels = np.where(wide @ rng.normal(size=80) + 0.3 * rng.normal(size=60) > 0, 1.0, -1.0)
    return {
        "lasso": lambda: Problem.glm(tall, target, penalty="l1", alpha=10.0),
        "elastic net": lambda: Problem.glm(tall, target, penalty="elasticnet", alpha=10.0),
        "ridge": lambda: Problem.glm(tall, target, penalty="l2", alpha=10.0),
        "ridge by samples": lambda: Problem.glm(wide, labels, penalty="l2", alpha=3.0, split="samples"),
        "svm": lambda: Problem.glm(wide, labels, loss="hinge", alpha=1.0, split="samples"),
        "logistic": lambda: Problem.glm(wide, labels, loss="logistic", alpha=1.0, split="samples"),
        "logistic by features": lambda: Problem.glm(tall, np.sign(target), loss="logistic", alpha=1.0),
        "sparse logistic": lambda: Problem.glm(tall, np.sign(target), loss="logistic", penalty="l1", alpha=5.0),
        "group lasso": lambda: Problem.glm(tall, target, penalty=GroupLasso(np.arange(48) // 4), alpha=20.0),
        "lasso with intercept": lambda: Problem.glm(tall, target, penalty="l1", alpha=10.0, fit_intercept=True),
    }[kind]()


QUICK = ["lasso", "ridge by samples", "logistic"]
REST = ["svm", "elastic net", "ridge", "logistic by features", "sparse logistic", "group lasso", "lasso with intercept"]


@pytest.mark.parametrize("kind", [*QUICK, *(REST if SOAK else ())])
def test_a_certificate_stops_a_run_on_a_ring_of_16(kind: str, record_property) -> None:
    problem = ring_problem(kind)
    result = glmesh.solve(
        problem, method=Cola(local_passes=5), tol=1e-6, stop="certificate", max_rounds=20_000, record_every=20_000
    )
    assert result.status is Status.CERTIFIED
    best = optimum(problem)
    assert -1e-12 <= (result.objective - best) / abs(best) <= 1e-6
    assert result.gap <= 1e-6 * abs(result.objective)
    assert result.gap >= result.objective - best
    by_gap = glmesh.solve(problem, method=Cola(local_passes=5), tol=1e-6, max_rounds=20_000, record_every=10)
    record_property("rounds to certify 1e-6", f"{result.rounds} (global gap: {by_gap.rounds})")
    assert result.rounds <= 3 * by_gap.rounds + 100


def test_every_node_concludes_the_same() -> None:
    problem = ring_problem("lasso")
    runs = [Run(problem, n_nodes=6, certify=True, n_blocks=jobs) for jobs in (1, 6)]
    for run in runs:
        for _ in range(60):
            next(run)
    certificates = [certifier.latest for run in runs for certifier in run.nodes.certifiers]
    assert len(certificates) == 7
    assert all(certificate == certificates[0] for certificate in certificates)
    assert np.isfinite(certificates[0].bound)


def test_records_ride_along() -> None:
    """A certificate costs bytes, but no communication of its own."""
    problem = ring_problem("lasso")
    momentum = glmesh.Cola(acceleration="momentum")
    plain = glmesh.solve(problem, method=momentum, stop="rounds", max_rounds=100)
    certified = glmesh.solve(problem, method=momentum, stop="certificate", tol=0.0, max_rounds=100)
    assert plain.communications == certified.communications == 100
    assert plain.bytes < certified.bytes < 1.2 * plain.bytes
    assert np.array_equal(plain.x, certified.x)


def test_the_printed_proposition_is_false() -> None:
    """Proposition 1 as printed accepts every epsilon at a state in perfect consensus that is far from optimal."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 16))
    y = X @ rng.normal(size=16) + rng.normal(size=40)
    problem = Problem.glm(X, y, penalty=L1(lo=-5.0, hi=5.0), alpha=5.0)
    form, n_nodes = problem.composite, 8
    best = glmesh.solve(problem, n_nodes=1, method=Cola(local_passes=30), tol=1e-12, max_rounds=500)
    x = 0.9 * best.x
    shared = form.columns.dot(x)
    w = form.f.gradient(shared)
    u = -form.columns.transposed_dot(w)
    suboptimality = form.f.value(shared) + form.g.value(x) - best.objective
    left = [
        shared @ w + form.g.take(own).value(x[own]) + form.g.take(own).conjugate(u[own])
        for own in np.array_split(np.arange(16), n_nodes)
    ]
    assert max(left) < 0  # condition (14) holds for every epsilon, and (15) too: nobody disagrees
    assert suboptimality > 1e-3 * best.objective


def test_relative_needs_an_objective_away_from_zero() -> None:
    from glmesh.core.records import Certificate

    assert Certificate(0, 1.0, -0.5, 0.5).relative == np.inf
    assert Certificate(0, 1.0, 10.0, 11.0).relative == pytest.approx(0.1)
    assert Certificate(0, 1.0, -11.0, -10.0).relative == pytest.approx(0.1)
