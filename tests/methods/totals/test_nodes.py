"""Nodes that hold rows and one model: hosted from any problem, and all that a run can do with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from glmesh import Problem, Result, Run, solve
from glmesh.engine.path import solve_path
from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.functions import Box, GroupLasso
from glmesh.methods import InteriorPoint, LimitedMemory, Nids, ProximalNewton, RowSpace
from glmesh.network import Network
from tests.scenes import advance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 6)) * 10.0 ** np.arange(-2, 4)
LABELS = np.where(X / 10.0 ** np.arange(-2, 4) @ RNG.normal(size=6) + RNG.normal(size=80) > 0, 3.0, 1.0)
Y = X @ RNG.normal(size=6) + RNG.normal(size=80)
WEIGHT = RNG.integers(0, 4, 80).astype(float)
NEWTON = ProximalNewton()


def logistic(**options: Any) -> Problem:
    given = {"loss": "logistic", "penalty": "l1", "alpha": 0.5, "split": "samples", "fit_intercept": True}
    return Problem.glm(options.pop("X", X), LABELS, sample_weight=WEIGHT, **given | options)


def apart(**options: Any) -> Problem:
    """The rows of `logistic` on five nodes, of which one has none."""
    ends = [10, 30, 30, 55]
    parts = zip(*(np.split(one, ends) for one in (X, LABELS, WEIGHT)), strict=True)
    given = {"loss": "logistic", "penalty": "l1", "alpha": 0.5, "fit_intercept": True}
    return Problem.from_nodes(list(parts), **given | options)


def best(problem: Problem, **options: Any) -> Result:
    return solve(problem, method=NEWTON, tol=1e-12, **{"n_nodes": 1, "max_rounds": 50} | options)


def same(a: Result | Run, b: Result | Run) -> None:
    """Both have the same bits, and took the same."""
    (ours, theirs) = ([one.estimates.tobytes(), one.communications, one.bytes, one.rounds] for one in (a, b))
    assert ours == theirs


# hosting

STORAGE = {
    "dense": lambda: logistic(),
    "fortran": lambda: logistic(X=np.asfortranarray(X)),
    "csr": lambda: logistic(X=sp.csr_array(X)),
    "csc": lambda: logistic(X=sp.csc_array(X)),
    "dense by features": lambda: logistic(split="features"),
    "csr by features": lambda: logistic(X=sp.csr_array(X), split="features"),
    "apart": lambda: apart(),
}


@pytest.mark.parametrize("name", STORAGE)
def test_nodes_hold_each_row_once_with_its_target_and_weight(name):
    run = Run(STORAGE[name](), method=NEWTON, n_nodes=5, n_blocks=2)
    rows = [
        np.column_stack([part.toarray() if sp.issparse(part) else part, y, s])
        for block in run.blocks
        for part, y, s in zip(block.X, block.y, block.weight, strict=True)
    ]
    assert len(rows) == 5
    assert all(part.flags.c_contiguous if isinstance(part, np.ndarray) else part.format == "csr"
               for block in run.blocks for part in block.X)  # fmt: skip
    expected = np.column_stack([X, np.where(LABELS == 3.0, 1.0, -1.0), WEIGHT])
    assert sorted(np.vstack(rows).tolist()) == sorted(expected.tolist())


@pytest.mark.parametrize("partition", ["shuffled", "contiguous", "balanced", np.arange(80) % 5])
def test_both_splits_deal_the_same_rows(partition):
    runs = [
        Run(logistic(split=split), method=NEWTON, n_nodes=5, partition=partition) for split in ("samples", "features")
    ]
    for ours, theirs in zip(*(run.blocks[0].X for run in runs), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", STORAGE)
def test_the_model_does_not_depend_on_storage_or_split(name):
    found, expected = best(STORAGE[name](), n_nodes=5), best(logistic())
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-6, atol=1e-9)
    assert found.objective == pytest.approx(logistic().objective(found.coef, found.intercept), rel=1e-10)


def test_narrow_parts_are_as_wide_as_the_widest():
    narrow = sp.csr_array(X[:40, :4])
    wide = sp.csr_array(X[40:])
    problem = Problem.from_nodes([(narrow, Y[:40]), (wide, Y[40:])], penalty="l1")
    whole = Problem.glm(np.vstack([np.c_[X[:40, :4], np.zeros((40, 2))], X[40:]]), Y, penalty="l1", split="samples")
    np.testing.assert_allclose(best(problem, n_nodes=2).coef, best(whole).coef, rtol=1e-7)


@pytest.mark.parametrize(
    ("problem", "error", "message"),
    [
        (lambda: Problem.from_nodes([(X[:, :3], Y), (X[:, 3:], Y)], split="features"), UnsuitablePair, "hold rows"),
        (lambda: Problem.glm(X, Y, penalty=GroupLasso([0, 0, 1, 1, 2, 2])), UnsuitablePair, "a term per coefficient"),
        (lambda: Problem.from_nodes([(X, Y), (X[:, :3], Y)]), InvalidData, "has 3 columns, another node has 6"),
    ],
)
def test_problems_that_have_no_rows_or_no_terms_are_refused(problem, error, message):
    with pytest.raises(error, match=message):
        Run(problem(), method=NEWTON, n_nodes=2)


# what a result means


def test_there_are_coefficients_alone():
    result = best(logistic(), n_nodes=4)
    assert result.x is None
    assert result.estimates.shape == (4, 6)
    assert all(np.array_equal(result.coef_of(node), result.coef) for node in range(4))
    assert np.isnan(result.history["h"]).all()
    assert np.isnan(result.history["consensus"]).all()
    assert result.history["gap"][0] == np.inf
    assert np.array_equal(result.history["round"], np.arange(result.rounds + 1))
    assert result.relative_gap <= 1e-12


def test_measuring_reads_what_nodes_know():
    run = advance(Run(logistic(), method=NEWTON, n_nodes=4), 4)
    for block in run.blocks:
        block.X[:] = []  # no pass over the data
    measured = run.measure()
    assert measured.objective == run.states[0].objective
    assert measured.gap == run.states[0].gap


def test_a_certificate_costs_nothing():
    gap, proof = (solve(logistic(), method=NEWTON, n_nodes=4, tol=1e-6, stop=stop) for stop in ("gap", "certificate"))
    assert (gap.status.name, proof.status.name) == ("CONVERGED", "CERTIFIED")
    same(gap, proof)
    assert gap.certificate is None
    assert proof.certificate is not None
    assert proof.certificate.bound == proof.gap == gap.gap
    assert proof.certificate.objective_low <= best(logistic()).objective <= proof.certificate.objective_high
    with pytest.raises(InvalidInput, match="summed on the way"):
        proof.certificate.work_left(1e-3)


@pytest.mark.parametrize("topology", ["ring", "star", "complete"])
def test_the_same_bits_for_any_blocks_threads_and_network(topology):
    one = advance(Run(logistic(), method=NEWTON, n_nodes=12, topology="path"), 8)
    for options in ({}, {"n_blocks": 5}, {"n_jobs": 3}, {"n_blocks": 12, "n_jobs": 2}):
        run = advance(Run(logistic(), method=NEWTON, n_nodes=12, topology=topology, **options), 8)
        assert run.estimates.tobytes() == one.estimates.tobytes()


@pytest.mark.parametrize("copied", [0, 2**20])
@pytest.mark.parametrize(
    ("loss", "method"), [("logistic", NEWTON), ("squared_hinge", NEWTON), ("hinge", InteriorPoint())]
)
def test_the_same_bits_for_any_blocks_where_dense_and_sparse_nodes_hold_their_own_rows(
    loss, method, copied, monkeypatch
):
    """Whether rows of several nodes are copied into one array, and which nodes share a block, is of no account."""
    rng = np.random.default_rng(0)
    parts = []
    for k, m in enumerate((30, 1, 0, 7, 64, 12)):
        X = rng.normal(size=(m, 4)) * (rng.random((m, 4)) < 0.5)
        parts.append((sp.csr_array(X) if k in (3, 4) else X, rng.choice([-1.0, 1.0], m)))
    results = set()
    for options in ({}, {"n_blocks": 2}, {"n_blocks": 6, "n_jobs": 2}, {"n_jobs": 3}):
        monkeypatch.setattr("glmesh.methods.totals.rows.MOST_COPIED", copied)
        problem = Problem.from_nodes(parts, loss=loss, alpha=0.1, split="samples", fit_intercept=True)
        run = advance(Run(problem, method=method, topology="ring", **options), 9)
        results.add((run.estimates.tobytes(), run.measure().gap))
    monkeypatch.setattr("glmesh.methods.totals.rows.MOST_COPIED", 2**20 - copied)
    run = advance(Run(problem, method=method, topology="ring", n_blocks=3), 9)
    assert results == {(run.estimates.tobytes(), run.measure().gap)}


def test_a_clock_counts_the_exchanges_of_totals():
    quick, slow = (
        advance(Run(logistic(), method=NEWTON, n_nodes=6, network=Network(latency=latency)), 3)
        for latency in (1e-9, 1.0)
    )
    assert slow.seconds - quick.seconds == pytest.approx(slow.communications, rel=1e-6)


# starts and changes


@pytest.mark.parametrize("kind", ["result", "coef", "with intercept"])
def test_warm_starts(kind):
    done = best(logistic())
    start = {"result": done, "coef": done.coef, "with intercept": np.append(done.coef, done.intercept)}[kind]
    again = solve(logistic(), method=NEWTON, n_nodes=4, warm_start=start, tol=1e-9)
    assert again.rounds <= (5 if kind == "coef" else 2)
    with pytest.raises(InvalidInput, match=r"needs 6 finite coefficients.*or 7 with the intercept last"):
        solve(logistic(), method=NEWTON, warm_start=np.zeros(5))


def test_another_weight_of_the_penalty_is_gone_on_with():
    run = advance(Run(logistic(), method=NEWTON, n_nodes=4), 8)
    run.set_alpha(3.0)
    assert np.isinf(run.measure().gap)
    advance(run, 10)
    np.testing.assert_allclose(run.estimates[2], best(logistic(alpha=3.0)).coef, rtol=1e-6, atol=1e-9)


def test_a_path():
    path = solve_path(logistic(), [8.0, 2.0, 0.5], method=NEWTON, n_nodes=4, tol=1e-10)
    for alpha, result in zip(path.alphas, path.results, strict=True):
        assert result.objective == pytest.approx(best(logistic(alpha=alpha)).objective, rel=1e-9)


@pytest.mark.parametrize("pooled", [True, False])
def test_rows_come_and_go(pooled):
    run = advance(Run(logistic() if pooled else apart(), method=NEWTON, n_nodes=5), 6)
    new = run.add_columns(3, 2 * X[:9], LABELS[:9], sample_weight=np.ones(9))
    assert len(new) == 9
    run.remove_columns(np.r_[new[:4], 0, 7])
    advance(run, 12)
    kept = np.delete(np.arange(80), [0, 7])
    data = np.vstack([X[kept], 2 * X[4:9]]), np.r_[LABELS[kept], LABELS[4:9]], np.r_[WEIGHT[kept], np.ones(5)]
    options = {"loss": "logistic", "penalty": "l1", "alpha": 0.5, "split": "samples", "fit_intercept": True}
    expected = best(Problem.glm(*data[:2], sample_weight=data[2], **options))
    np.testing.assert_allclose(run.estimates[0], expected.coef, rtol=1e-6, atol=1e-9)
    assert [event.kind for event in run.events][:1] == ["add_columns"]
    with pytest.raises(InvalidInput, match="make the problem with split='samples'"):
        Run(logistic(split="features"), method=NEWTON, n_nodes=5).add_columns(0, X[:, :1])


# files


@pytest.mark.parametrize(
    "method", [NEWTON, InteriorPoint(), RowSpace(), LimitedMemory()], ids=["newton", "kinks", "few rows", "L-BFGS"]
)
@pytest.mark.parametrize("data", [True, False])
@pytest.mark.parametrize(
    "faults", [None, {"seed": 1, "random": [{"loss": 0.1}], "down": [{"node": 1, "from": 3, "until": 6}]}]
)
def test_a_run_goes_on_from_a_file_to_the_last_bit(method: Any, data: bool, faults: Any, tmp_path: Path) -> None:
    loss = "hinge" if isinstance(method, InteriorPoint) else "logistic"
    penalty = "l1" if loss == "hinge" or method is NEWTON else "l2"
    problem, path = apart(loss=loss, penalty=penalty), tmp_path / "run"
    whole = Run(problem, method=method, n_nodes=5, faults=faults)
    advance(whole, 5)
    whole.save(path, data=data)
    resumed = Run.resume(path, None if data else problem)
    assert resumed.rounds == 5
    assert resumed.measure().gap == whole.measure().gap
    for run in (whole, resumed):
        advance(run, 8)
    same(whole, resumed)
    assert resumed.measure() == whole.measure() or np.isinf(whole.measure().gap)


def test_solve_goes_on_from_a_checkpoint(tmp_path):
    path, expected = tmp_path / "run", solve(logistic(), method=NEWTON, n_nodes=4, tol=1e-9)
    solve(logistic(), method=NEWTON, n_nodes=4, tol=1e-9, checkpoint=path, max_rounds=3)
    same(solve(logistic(), method=NEWTON, n_nodes=4, tol=1e-9, checkpoint=path), expected)


# faults


def test_faults_cost_exchanges_and_change_no_bit():
    plan = {"seed": 3, "random": [{"dropout": 0.1, "loss": 0.1, "delay": 0.1, "links": 0.1}]}
    quiet = solve(logistic(), method=NEWTON, n_nodes=6, tol=1e-9, stop="certificate")
    shaken = solve(logistic(), method=NEWTON, n_nodes=6, tol=1e-9, stop="certificate", faults=plan)
    assert shaken.status.name == "CERTIFIED"
    assert shaken.estimates.tobytes() == quiet.estimates.tobytes()
    assert shaken.communications > quiet.communications
    assert shaken.rounds > quiet.rounds  # of those in which a node was away


def test_who_joins_brings_rows_and_who_leaves_takes_them_along():
    plan = {"join": [{"node": 4, "round": 4}], "leave": [{"node": 0, "round": 9, "model": "reset"}]}
    run = Run(apart(), method=NEWTON, n_nodes=5, topology="complete", faults=plan, certify=True)
    for rounds, rows in ((4, slice(0, 55)), (9, slice(0, 80)), (25, slice(10, 80))):
        advance(run, rounds - run.rounds)
        options = {"loss": "logistic", "penalty": "l1", "alpha": 0.5, "split": "samples", "fit_intercept": True}
        members = Problem.glm(X[rows], LABELS[rows], sample_weight=WEIGHT[rows], **options)
        measured = run.measure()
        assert measured.objective == pytest.approx(
            members.objective(run.estimates[1], run.states[0].intercept), rel=1e-9
        )
        assert measured.objective - measured.gap <= best(members).objective * (1 + 1e-12)
    assert measured.gap <= 1e-9 * measured.objective
    assert [(event.round, event.kind, event.node) for event in run.events] == [(4, "join", 4), (9, "leave", 0)]


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"leave": [{"node": 0, "round": 9}]}, "acceleration='momentum'.*frozen"),
        ({"straggler": [{"node": 0, "theta": 0.5}]}, "theta is for methods with a local solver"),
        ({"straggler": [{"node": 0, "delay": 0.5}]}, "needs a clock"),
    ],
)
def test_plans_that_make_no_sense_with_totals_are_refused(plan, message):
    with pytest.raises(InvalidInput, match=message):
        Run(logistic(), method=NEWTON, n_nodes=4, faults=plan)


def test_a_straggler_delays_the_clock():
    plan, clock = {"straggler": [{"node": 0, "delay": 0.5}]}, Network()
    slow, quick = (
        advance(Run(logistic(), method=NEWTON, n_nodes=4, network=clock, faults=one), 6) for one in (plan, None)
    )
    assert slow.seconds == pytest.approx(quick.seconds + 3.0, rel=0.1)
    assert slow.estimates.tobytes() == quick.estimates.tobytes()


# others on such problems


@pytest.mark.parametrize("penalty", ["l1", Box(-0.1, 0.1)])
def test_consensus_methods_take_a_penalty_without_l2_part_by_rows(penalty):
    scaled = X / 10.0 ** np.arange(-2, 4)
    rows, features = (
        Problem.glm(scaled, LABELS, loss="logistic", penalty=penalty, split=split) for split in ("samples", "features")
    )
    found, expected = (
        solve(one, method=Nids(), n_nodes=4, max_rounds=200, record_every=20) for one in (rows, features)
    )
    assert found.status.name == expected.status.name == "CONVERGED"
    np.testing.assert_allclose(found.history["gap"], expected.history["gap"], rtol=1e-6)
