"""Checkpoints: a run that is cut, killed or continued goes on to the last bit alike, and foreign files are refused."""

import hashlib
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from glmesh import Cocoa, Cola, Network, Problem, Run, Status, solve
from glmesh.engine import checkpoint
from glmesh.errors import InvalidInput, UnreadableFile
from glmesh.files import model_files
from glmesh.functions import GroupLasso
from glmesh.network import mixing, topology
from glmesh.solvers import CoordinateDescent, NodewiseSolver, SklearnCoordinateDescent
from tests.cases import SOAK, cases, prop
from tests.transports.test_faulty import RING, fault_plans

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 20))
Y = X @ RNG.standard_normal(20) + RNG.standard_normal(30)
LABELS = np.where(Y > 0, 1.0, -1.0)
SPARSE = sp.csr_array(X * (RNG.random(X.shape) < 0.3))
WEIGHT = 0.5 + RNG.random(30)
MORE = RNG.standard_normal((30, 3))
NODES = 6
CLOCK = Network(latency=0.01, bandwidth=1e5, nonzeros_per_second=[1e4, 2e4, 3e4, 1e4, 2e4, 3e4])


def advance(run, rounds):
    for _ in range(rounds):
        next(run)
    return run


def plain(value):
    """Equal for equal bits, NaN included, whether a number is Python's or NumPy's."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.kind, value.tobytes()
    if isinstance(value, float | np.floating):
        return float(value).hex()
    if isinstance(value, bool | int | np.integer):
        return int(value)
    if is_dataclass(value):
        return [plain(getattr(value, one.name)) for one in fields(value)]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    assert value is None or isinstance(value, str), value
    return value


def figures(run):
    """All that a caller can see of a run, except how long it took on the wall."""
    names = (
        "rounds x estimates theta communications bytes certificate events up members skipped work_saved n_blocks seed"
    )
    seen = {name: getattr(run, name) for name in names.split()}
    seen |= {"measures": run.measure(), "faults": run.faults.to_dict()}
    if run.network is not None:
        seen["seconds"] = run.seconds
    if run.certificate is not None:
        seen["certified"] = run.certified_state()
    return plain(seen)


def outcome(result):
    """All of a result, except how long it took on the wall."""
    names = "x coef intercept estimates rounds communications bytes gap objective certificate events presence faults"
    seen = {name: getattr(result, name) for name in names.split()}
    seen |= {"skipped": result.skipped, "work_saved": result.work_saved, "status": result.status.name}
    return plain(seen | {key: values for key, values in result.history.items() if key != "seconds"})


# --- cut at any round ----------------------------------------------------------------------------------------


def lasso():
    return Problem.glm(X, Y, penalty="l1", alpha=3.0)


def ridge():
    return Problem.glm(X, Y, alpha=2.0)


def svm():
    return Problem.glm(SPARSE, LABELS, loss="hinge", split="samples", alpha=0.3)


def logistic_dual():
    return Problem.glm(X, LABELS, loss="logistic", split="samples")


def group_lasso():
    return Problem.glm(X, Y, penalty=GroupLasso(np.arange(20) % 7), alpha=2.0)


def with_intercept():
    return Problem.glm(X, LABELS, loss="logistic", penalty="elasticnet", fit_intercept=True)


def weighted():
    return Problem.glm(X, Y, penalty="elasticnet", alpha=3.0, sample_weight=WEIGHT, fit_intercept=True)


def apart(split="samples", **options):
    parts = np.array_split(np.arange(30 if split == "samples" else 20), NODES)
    if split == "samples":
        return Problem.from_nodes([(SPARSE[part], LABELS[part], WEIGHT[part]) for part in parts], **options)
    return Problem.from_nodes([(X[:, part], Y) for part in parts], split=split, **options)


def group_lasso_apart():
    return apart("features", penalty=[GroupLasso(np.arange(len(p)) % 2) for p in np.array_split(np.arange(20), NODES)])


W = np.full((NODES, NODES), 0.5 / NODES) + 0.5 * np.eye(NODES)
HEAVY = {
    "random": [{"dropout": 0.2, "loss": 0.2, "duplicate": 0.3, "delay": 0.4, "links": 0.1}],
    "seed": 3,
}
SOME = {
    "random": [{"loss": 0.05, "duplicate": 0.3, "delay": 0.1}],
    "down": [{"node": 2, "from": 5, "until": 8, "model": "reset"}],
}
RESETS = {"random": [{"dropout": 0.2, "loss": 0.2, "delay": 0.3, "model": "reset", "until": 30}]}
COMINGS = {
    "join": [{"node": 2, "round": 7}, {"node": 0, "round": 20}],
    "leave": [{"node": 4, "round": 11}, {"node": 5, "round": 17, "model": "reset"}, {"node": 3, "round": 25}],
    "random": [{"loss": 0.2, "delay": 0.2}],
}
SPLIT = {"partition": [{"groups": [[0, 1, 2], [3, 4, 5]], "from": 4, "until": 15}], "random": [{"duplicate": 0.3}]}
SLOW = {
    "straggler": [{"node": 1, "theta": 0.9}, {"node": 2, "delay": 0.5, "from": 3}, {"node": 4, "theta": 1, "until": 9}],
    "down": [{"node": 0, "from": 5, "until": 9}],
}
GRAPHS = {"graphs": [RING[:3], RING[3:], RING], "random": [{"loss": 0.1}]}


def more_features(run):
    run.add_columns(3, MORE)
    run.remove_columns([0, 7, 21])


def more_samples(run):
    run.add_columns(2, X[:3] + 0.5, [1.0, -1.0, 1.0])
    run.remove_columns([1, 12, 13])


def fewer_groups(run):
    run.remove_columns(np.flatnonzero(np.arange(20) % 7 == 2))


SETTINGS = {
    "matrix": (lasso, {}),
    "matrix_certified": (ridge, {"certify": True}),
    "matrix_certified_l1_on_a_grid": (lasso, {"certify": True, "topology": "grid", "n_blocks": 3}),
    "ledger": (lasso, {"method": Cola(gossip="flows")}),
    "sums": (lasso, {"method": Cola(acceleration="sums"), "certify": True, "n_blocks": 2}),
    "newton": (logistic_dual, {"method": Cola(acceleration="newton"), "certify": True, "n_blocks": 2}),
    "newton_under_faults": (logistic_dual, {"method": Cola(acceleration="newton"), "faults": HEAVY}),
    "sums_under_faults": (lasso, {"method": Cola(acceleration="sums"), "faults": HEAVY}),
    "momentum_certified": (ridge, {"method": Cola(acceleration="momentum"), "certify": True, "n_blocks": 2}),
    "chebyshev_and_safe_sigma": (lasso, {"method": Cola(gossip="chebyshev", gossip_steps=2, sigma="safe")}),
    "printed": (lasso, {"method": Cola.printed()}),
    "ledger_certified": (lasso, {"method": Cola(gossip="flows"), "certify": True, "tol": 1e8}),
    "heavy": (lasso, {"faults": HEAVY}),
    "heavy_certified": (ridge, {"faults": HEAVY, "certify": True, "tol": 1e-2, "n_blocks": 3}),
    "heavy_by_samples": (logistic_dual, {"faults": HEAVY, "certify": True, "network": CLOCK}),
    "heavy_matrix_gossip": (ridge, {"faults": HEAVY, "method": Cola(gossip="matrix"), "n_blocks": 3}),
    "some_certified": (ridge, {"faults": SOME, "certify": True, "tol": 0.05, "n_blocks": 3, "topology": "complete"}),
    "resets": (lasso, {"faults": RESETS, "certify": True}),
    "comings_and_goings": (lasso, {"faults": COMINGS, "certify": True, "topology": "complete"}),
    "comings_and_goings_by_samples": (
        svm,
        {"faults": COMINGS, "n_blocks": 3, "network": CLOCK, "topology": "complete"},
    ),
    "partition": (ridge, {"faults": SPLIT, "certify": True}),
    "stragglers": (lasso, {"faults": SLOW, "network": CLOCK, "n_blocks": 3}),
    "stragglers_with_ledger": (svm, {"faults": SLOW | {"random": [{"loss": 0.1}]}, "network": CLOCK, "certify": True}),
    "graphs": (ridge, {"faults": GRAPHS, "certify": True}),
    "graphs_matrix_gossip": (ridge, {"faults": {"graphs": GRAPHS["graphs"]}, "network": CLOCK}),
    "time_budget": (lasso, {"method": Cola(local_passes=4, time_budget=0.01), "network": CLOCK}),
    "logistic_dual": (logistic_dual, {"certify": True, "n_blocks": 3}),
    "svm": (svm, {"partition": "balanced", "topology": "star"}),
    "group_lasso": (group_lasso, {"certify": True, "method": Cola(gamma=0.5, gossip_steps=3)}),
    "intercept": (
        with_intercept,
        {"certify": True, "method": Cola(local_passes=[1, 9, 9, 0, 9, 9], local_accuracy=0.2)},
    ),
    "weights": (weighted, {"partition": np.arange(20) % NODES, "topology": "erdos-renyi", "seed": 7}),
    "cocoa": (lasso, {"method": Cocoa(local_passes=2), "certify": True, "n_blocks": 3}),
    "cocoa_with_ledger": (ridge, {"method": Cocoa(gossip="flows"), "faults": {"random": [{"loss": 0.2}]}}),
    "sklearn": (lasso, {"method": Cola(solver=SklearnCoordinateDescent("random")), "n_blocks": 2, "n_nodes": 3}),
    "shuffled": (lasso, {"method": Cola(local_passes=3, solver=CoordinateDescent("shuffled")), "faults": HEAVY}),
    "own_mixing": (ridge, {"mixing": W, "topology": "complete", "certify": True}),
    "own_mixing_with_ledger": (ridge, {"mixing": W, "topology": "complete", "faults": HEAVY, "n_blocks": 3}),
    "numpy_numbers": (
        lambda: Problem.glm(X, Y, penalty="elasticnet", alpha=np.float32(3), l1_ratio=np.float64(0.3)),
        {
            "method": Cola(gamma=np.float64(0.5), local_passes=np.array([1, 2, 3, 1, 2, 3]), gossip_steps=np.int64(2)),
            "network": Network(latency=np.float64(0.01), nonzeros_per_second=np.full(NODES, 1e4)),
            "seed": np.int64(4),
        },
    ),
    "apart_by_samples": (lambda: apart(loss="hinge"), {"certify": True, "n_blocks": 3}),
    "apart_by_features": (lambda: apart("features", penalty="l1"), {"faults": COMINGS, "topology": "complete"}),
    "apart_groups": (group_lasso_apart, {"certify": True}),
    "new_features": (lasso, {"certify": True, "n_blocks": 3}, more_features),
    "new_features_with_ledger": (ridge, {"faults": HEAVY, "certify": True}, more_features),
    "new_samples": (logistic_dual, {"certify": True}, more_samples),
    "new_samples_apart": (lambda: apart(loss="logistic"), {"faults": HEAVY, "certify": True}, more_samples),
    "new_features_apart": (lambda: apart("features"), {"certify": True}, more_features),
    "fewer_groups": (group_lasso, {"faults": HEAVY, "n_blocks": 3}, fewer_groups),
}
ROUNDS, CHANGED = 40, 12


def start(name):
    problem, options, *change = SETTINGS[name]
    return Run(problem(), **{"n_nodes": NODES, "seed": 5, "n_blocks": 1} | options), (change or [None])[0]


@pytest.mark.parametrize("name", SETTINGS)
def test_a_run_that_is_cut_goes_on_to_the_last_bit(name, tmp_path):
    """The run is saved and resumed over and over; one that never was tells what it must be like."""
    rng = np.random.default_rng(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "little"))
    series = rng.integers(0, ROUNDS, (cases(50) // 5, 5)).tolist()
    looks = {*range(3, ROUNDS, 4), *np.ravel(series).tolist()}
    straight, change = start(name)
    expected = {}
    for round in range(ROUNDS):
        if round == CHANGED and change is not None:
            change(straight)
        if round in looks:
            expected[round] = figures(straight)
        next(straight)
    straight.close()
    for cuts in series:
        run = start(name)[0]
        for round in range(ROUNDS):
            if round == CHANGED and change is not None:
                change(run)
            for _ in range(cuts.count(round)):
                without = bool(rng.integers(2))
                run.save(tmp_path / "run", data=not without)
                run.close()
                run = Run.resume(tmp_path / "run", run.problem if without else None)
            if round in looks:
                assert figures(run) == expected[round], (round, cuts)
            next(run)
        run.close()


def test_every_setting_does_what_its_name_says():
    """Else the test above would compare nothing with nothing."""
    names = (
        "heavy",
        "matrix_certified",
        "some_certified",
        "comings_and_goings",
        "resets",
        "stragglers",
        "ledger_certified",
        "partition",
    )
    runs = {name: advance(start(name)[0], ROUNDS) for name in names}
    for name in ("some_certified", "ledger_certified", "partition"):
        assert runs[name].certificate.round > 0
    assert np.isfinite(runs["matrix_certified"].certificate.bound)
    assert {event.kind for event in runs["comings_and_goings"].events} == {"join", "freeze", "leave"}
    assert runs["comings_and_goings"].membership.frozen
    assert runs["heavy"].exchange.delayed
    assert any(runs["resets"].faults.resets(round, NODES).any() for round in range(ROUNDS))
    assert runs["stragglers"].seconds > 0.5
    assert advance(runs["ledger_certified"], 100).skipped > 0
    for run in runs.values():
        run.close()


@prop(50)
@given(fault_plans(NODES, RING, 20), st.integers(0, 30), st.booleans(), st.sampled_from([1, 3]), st.booleans())
def test_a_run_under_any_plan_goes_on_to_the_last_bit(tmp_path_factory, plan, cut, certify, jobs, by_samples):
    path = tmp_path_factory.mktemp("cut") / "run"
    problem = logistic_dual() if by_samples else lasso()
    options = {"n_nodes": NODES, "faults": plan, "certify": certify, "n_blocks": jobs, "network": CLOCK}
    with Run(problem, **options) as straight, Run(problem, **options) as first:
        advance(first, cut).save(path)
        with Run.resume(path) as run:
            advance(straight, cut)
            for _ in range(35 - cut):
                assert figures(run) == figures(straight)
                next(run), next(straight)
            assert figures(run) == figures(straight)


@pytest.mark.parametrize("name", ["matrix_certified", "heavy_certified", "comings_and_goings", "new_features"])
def test_saving_every_round_changes_nothing(name, tmp_path):
    (saved, change), (straight, _) = start(name), start(name)
    for round in range(30):
        if round == CHANGED and change is not None:
            change(saved), change(straight)
        saved.save(tmp_path / "run", data=round % 2 == 0)
        next(saved), next(straight)
        if round % 5 == 0:
            assert figures(saved) == figures(straight)
    assert figures(saved) == figures(straight)
    assert [file.name for file in tmp_path.iterdir()] == ["run"]
    saved.close(), straight.close()


def test_a_resumed_run_can_be_changed_as_the_run_itself(tmp_path):
    for name, change in (("heavy_certified", more_features), ("new_samples_apart", more_samples)):
        run = advance(start(name)[0], 9)
        run.save(tmp_path / "run")
        again = Run.resume(tmp_path / "run")
        change(run), change(again)
        assert figures(advance(again, 15)) == figures(advance(run, 15))
        run.close(), again.close()


def test_restoring_replaces_all_that_a_run_was(tmp_path):
    with Run(lasso(), n_nodes=NODES) as run, Run(lasso(), n_nodes=NODES, warm_start=np.ones(20)) as other:
        advance(run, 4).save(tmp_path / "run")
        advance(other, 4).measure()
        other.restore(tmp_path / "run")
        assert figures(other) == figures(run)
        assert figures(advance(other, 3)) == figures(advance(run, 3))


def test_a_file_does_not_grow_with_the_rounds(tmp_path):
    """The certificate's memos come and go every 26 rounds, so the largest of as many are compared."""
    faults = {
        "random": [{"dropout": 0.1, "loss": 0.1, "delay": 0.2, "duplicate": 0.2}],
        "join": [{"node": 2, "round": 7}],
        "leave": [{"node": 4, "round": 11}],
    }
    options = {"n_nodes": NODES, "certify": True, "tol": 1e-3}
    with Run(lasso(), faults=faults, **options) as run:

        def largest():
            sizes = []
            for _ in range(13):
                advance(run, 2).save(tmp_path / "run")
                sizes.append((tmp_path / "run").stat().st_size)
            return max(sizes)

        advance(run, 50)
        early = largest()
        advance(run, 400)
        assert largest() <= 1.1 * early
        assert run.rounds == 502


# --- solve(checkpoint=...) -----------------------------------------------------------------------------------

LONG = 100


def long_solve(path, **options):
    """What the child process that is killed does."""
    settings = {
        "stop": "certificate",
        "tol": 0.0,
        "n_nodes": NODES,
        "max_rounds": LONG,
        "record_every": 7,
        "n_jobs": 2,
        "faults": HEAVY,
        "network": CLOCK,
        "checkpoint": path,
        "checkpoint_every": 2,
    }
    return solve(weighted(), **settings | options)


@pytest.fixture(scope="module")
def uninterrupted():
    return outcome(long_solve(None))


def start_child(path, begun):
    """A solve that goes on from round `begun`, and stands still 30 rounds later if nobody has killed it by then."""
    code = (
        "import sys, time; from tests.engine.test_checkpoint import long_solve; "
        "long_solve(sys.argv[1], callback=lambda run: time.sleep(0.015 if run.rounds < int(sys.argv[2]) else 3600))"
    )
    command = [sys.executable, "-c", code, str(path), str(begun + 30)]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE)


def rounds_in(path):
    return checkpoint.read(path)["state"]["rounds"]


@pytest.mark.waits
@pytest.mark.parametrize("seed", range(max(2, cases(20))))
def test_a_killed_solve_goes_on_to_the_last_bit(seed, tmp_path, uninterrupted):
    rng, path = np.random.default_rng(seed), tmp_path / "run"
    reached = [0]
    for _ in range(int(rng.integers(1, 4)) if SOAK else 1):
        with start_child(path, reached[-1]) as child:
            while child.poll() is None and not (path.exists() and rounds_in(path) > reached[-1]):
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.3))
            child.kill()
            assert child.wait() == -9, child.stderr.read()
        reached.append(rounds_in(path))
    assert all(a < b for a, b in pairwise(reached))
    assert reached[-1] < LONG
    assert outcome(long_solve(path)) == uninterrupted
    assert rounds_in(path) == LONG


@pytest.mark.parametrize("stop", ["gap", "certificate", "rounds"])
@pytest.mark.parametrize("faults", [None, HEAVY])
def test_a_solve_that_was_stopped_goes_on_as_if_it_had_not_been(stop, faults, tmp_path):
    method = Cola(acceleration="momentum")  # which takes long enough to be stopped
    options = {"stop": stop, "tol": 1e-3, "n_nodes": NODES, "faults": faults, "network": CLOCK, "method": method}
    whole = solve(ridge(), max_rounds=40, **options)
    straight = outcome(whole)
    for last in ({"max_rounds": 11}, {"callback": lambda run: run.rounds == 11}):
        path = tmp_path / f"run-{len(list(tmp_path.iterdir()))}"
        part = solve(ridge(), checkpoint=path, checkpoint_every=4, **{"max_rounds": 40} | last, **options)
        assert part.rounds == 11
        assert part.status in (Status.STOPPED_BY_CALLBACK, Status.OUT_OF_ROUNDS, Status.ROUNDS_DONE)
        again = solve(ridge(), checkpoint=path, max_rounds=40, **options)
        assert outcome(again) == straight
        assert plain(again.history["seconds"]) == plain(whole.history["seconds"])
        done = path.read_bytes()
        assert outcome(solve(ridge(), checkpoint=path, max_rounds=40, **options)) == straight  # nothing left to do
        assert len(path.read_bytes()) == len(done)


@pytest.mark.parametrize("stop", ["gap", "certificate"])
@pytest.mark.parametrize("faults", [None, {"random": [{"loss": 0.1, "until": 40}]}])
def test_a_solve_goes_on_with_a_tighter_tolerance(stop, faults, tmp_path):
    options = {"stop": stop, "n_nodes": NODES, "faults": faults, "checkpoint": tmp_path / "run"}
    options["method"] = Cola(acceleration="momentum")
    rough = solve(ridge(), tol=0.1, **options)
    fine = solve(ridge(), tol=1e-9, **options)
    status = Status.CONVERGED if stop == "gap" else Status.CERTIFIED
    assert (rough.status, fine.status) == (status, status)
    assert 0 < rough.rounds < fine.rounds
    assert fine.gap <= 1e-9 * abs(fine.objective)
    assert fine.history["round"].tolist() == list(range(fine.rounds + 1))
    if stop == "gap":  # by certificate nodes whose part is done rest, and that depends on tol
        assert outcome(fine) == outcome(solve(ridge(), tol=1e-9, **options | {"checkpoint": None}))


def test_a_solve_goes_on_with_any_number_of_threads(tmp_path):
    path, seen = tmp_path / "run", []
    options = {"stop": "rounds", "n_nodes": NODES, "faults": HEAVY}
    solve(lasso(), max_rounds=5, n_jobs=3, checkpoint=path, **options)
    look = {"callback": lambda run: seen.append(run.nodes.setup.threads.n_jobs)}
    again = solve(lasso(), max_rounds=9, n_jobs=2, checkpoint=path, **look, **options)
    assert seen == [2] * 4
    assert outcome(again) == outcome(solve(lasso(), max_rounds=9, n_jobs=1, **options))


@pytest.mark.parametrize(
    "name",
    ["matrix_certified", "momentum_certified", "sums", "newton", "some_certified", "apart_groups", "logistic_dual"],
)
def test_a_run_goes_on_in_any_number_of_blocks(name, tmp_path):
    """The file holds the state of all nodes; who goes on from it hosts them as it likes."""
    problem, options = SETTINGS[name][:2]
    options = {"n_nodes": NODES, "seed": 5} | options
    path = tmp_path / "run"
    with Run(problem(), **options | {"n_blocks": 1}) as straight:
        advance(straight, 8)
        seen = []
        for before, after in ((3, 2), (2, 5), (5, 1)):
            with Run(problem(), **options | {"n_blocks": before}) as run:
                advance(run, 8)
                run.save(path, data=False)
            with Run(problem(), **options | {"n_blocks": after}) as run:
                run.restore(path)
                seen.append(figures(advance(run, 12)) | {"n_blocks": 1})
        assert seen == [figures(advance(straight, 12))] * 3
    assert Run.resume(path, problem(), n_jobs=2).n_blocks == 5


def test_a_file_of_run_save_and_one_of_solve_are_alike(tmp_path):
    """What solve keeps can be looked into as a run, and solve goes on from what a run saved."""
    path = tmp_path / "run"
    solve(lasso(), stop="rounds", max_rounds=6, n_nodes=NODES, checkpoint=path)
    with Run.resume(path, lasso()) as run, Run(lasso(), n_nodes=NODES) as straight:
        assert figures(run) == figures(advance(straight, 6))
        advance(run, 2).save(path)
    again = solve(lasso(), stop="rounds", max_rounds=10, n_nodes=NODES, checkpoint=path)
    assert plain(again.x) == plain(solve(lasso(), stop="rounds", max_rounds=10, n_nodes=NODES).x)


# --- what is refused -----------------------------------------------------------------------------------------

NUDGED = X.copy()
NUDGED[3, 4] = np.nextafter(NUDGED[3, 4], 9)
PATH = topology.build("path", NODES)
LAZY = 0.5 * np.eye(NODES) + 0.5 * mixing.metropolis(topology.build("ring", NODES)).matrix.toarray()
WAYS = "way to stop (certificate or not)"
OTHERS = {
    "data": ("data", {"problem": Problem.glm(NUDGED, Y, penalty="l1", alpha=3.0)}),
    "labels": ("data", {"problem": Problem.glm(X, Y + 1, penalty="l1", alpha=3.0)}),
    "sparse_data": ("data", {"problem": Problem.glm(sp.csr_array(X), Y, penalty="l1", alpha=3.0)}),
    "more_columns": ("problem", {"problem": Problem.glm(np.hstack([X, MORE]), Y, penalty="l1", alpha=3.0)}),
    "weights": ("data", {"problem": Problem.glm(X, Y, penalty="l1", alpha=3.0, sample_weight=WEIGHT)}),
    "loss": ("problem", {"problem": Problem.glm(X, Y, loss="huber", penalty="l1", alpha=3.0)}),
    "alpha": ("problem", {"problem": Problem.glm(X, Y, penalty="l1", alpha=3.1)}),
    "penalty": ("problem", {"problem": Problem.glm(X, Y, penalty="l2", alpha=3.0)}),
    "intercept": ("problem", {"problem": Problem.glm(X, Y, penalty="l1", alpha=3.0, fit_intercept=True)}),
    "split": ("problem", {"problem": logistic_dual()}),
    "passes": ("method", {"method": Cola(local_passes=2)}),
    "gossip": ("method", {"method": Cola(gossip="flows")}),
    "order": ("method", {"method": Cola(solver=CoordinateDescent("shuffled"))}),
    "cocoa": ("network", {"method": Cocoa()}),
    "topology": ("network", {"topology": "grid"}),
    "graph": ("network", {"topology": PATH}),
    "nodes": ("network", {"n_nodes": 5}),
    "mixing": ("network", {"mixing": LAZY}),
    "partition": ("partition", {"partition": "shuffled"}),
    "seed": ("seed", {"seed": 1}),
    "clock": ("clock", {"network": Network(latency=0.5)}),
    "no_clock": ("clock", {"network": None}),
    "certificate": (WAYS, {"stop": "certificate"}),
    "loss_of_messages": ("fault plan", {"faults": {"random": [{"loss": 0.2}]}}),
    "seed_of_the_plan": ("fault plan", {"faults": {"random": [{"loss": 0.1}], "seed": 1}}),
    "no_faults": ("fault plan", {"faults": None}),
}
BASE = {
    "problem": lasso(),
    "stop": "rounds",
    "n_nodes": NODES,
    "partition": "contiguous",
    "network": Network(),
    "faults": {"random": [{"loss": 0.1}]},
    "n_jobs": 3,
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    path = tmp_path_factory.mktemp("kept") / "run"
    solve(**BASE, max_rounds=5, checkpoint=path)
    return path


@pytest.mark.parametrize("name", OTHERS)
def test_a_checkpoint_of_another_run_is_refused(name, kept):
    part, change = OTHERS[name]
    before = kept.read_bytes()
    with pytest.raises(InvalidInput, match=re.escape(f"{kept} is a checkpoint of another run: its {part} differs")):
        solve(**BASE | change, max_rounds=9, checkpoint=kept)
    assert kept.read_bytes() == before
    assert [file.name for file in kept.parent.iterdir()] == ["run"]


def test_what_is_written_differently_but_is_the_same_is_taken(kept, tmp_path):
    path = tmp_path / "run"
    path.write_bytes(kept.read_bytes())
    same = {
        "method": Cola(local_passes=None),
        "topology": topology.build("ring", NODES),
        "mixing": mixing.metropolis(topology.build("ring", NODES)),
        "partition": np.array_split(np.arange(20), NODES),
        "faults": {"random": [{"loss": 0.1, "from": 0}], "seed": 0},
    }
    again = solve(**BASE | same, max_rounds=9, checkpoint=path)
    assert plain(again.x) == plain(solve(**BASE, max_rounds=9).x)


def test_a_file_without_data_needs_the_very_problem(tmp_path):
    with Run(lasso(), n_nodes=NODES) as run:
        advance(run, 3)
        run.save(tmp_path / "with")
        run.save(tmp_path / "without", data=False)
        assert (tmp_path / "without").stat().st_size < (tmp_path / "with").stat().st_size - X.nbytes
        with pytest.raises(InvalidInput, match="saved without its data; give the problem"):
            Run.resume(tmp_path / "without")
        for name in ("with", "without"):
            for other in (*(change["problem"] for _, change in OTHERS.values() if "problem" in change), apart()):
                with pytest.raises(InvalidInput, match=r"its (problem|data) differs"):
                    Run.resume(tmp_path / name, other)
            with Run.resume(tmp_path / name, lasso()) as again:
                assert figures(again) == figures(run)


@dataclass(frozen=True)
class OwnSolver(NodewiseSolver):
    def solve_node(self, task):
        return 0.9 * task.x


def test_a_solver_of_your_own_cannot_be_saved(tmp_path):
    method = Cola(solver=OwnSolver())
    with Run(lasso(), n_nodes=NODES, method=method) as run:
        advance(run, 2)
        for data in (True, False):
            with pytest.raises(InvalidInput, match=r"OwnSolver.*(warm_start|without)"):
                run.save(tmp_path / "run", data=data)
    with pytest.raises(InvalidInput, match="OwnSolver"):
        solve(lasso(), n_nodes=NODES, method=method, max_rounds=3, checkpoint=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# --- damage --------------------------------------------------------------------------------------------------


def test_damaged_files_are_told(kept, tmp_path):
    whole, path, rng = kept.read_bytes(), tmp_path / "run", np.random.default_rng(1)
    damaged = [whole[:end] for end in (0, 1, 30, len(whole) - 1, *rng.integers(2, len(whole) - 1, cases(1000)))]
    for at in (0, len(whole) - 1, *rng.integers(1, len(whole) - 1, cases(1000))):
        flipped = bytearray(whole)
        flipped[at] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    damaged += [whole + b"\0", whole[1:], whole + whole]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(UnreadableFile, match=re.escape(str(path))):
            Run.resume(path, BASE["problem"])
    with pytest.raises(UnreadableFile, match=re.escape(str(path))):
        solve(**BASE, max_rounds=9, checkpoint=path)
    assert path.read_bytes() == damaged[-1]


def test_other_files_are_told_by_kind(tmp_path):
    model_files.Model(X[0], 0.0, "squared", "l2", 1.0, 0.0).save(tmp_path / "model")
    np.savez(tmp_path / "arrays.npz", x=X)
    (tmp_path / "text").write_text("rounds = 3\n" * 100)
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    kinds = {
        "model": "looks like a glmesh model, expected a glmesh checkpoint",
        "arrays.npz": "another kind of zip or npz archive, expected a glmesh checkpoint",
        "text": "no file of glmesh",
        "empty": "is empty, expected a glmesh checkpoint",
        "folder": "is a folder, expected a glmesh checkpoint; name a file",
    }
    for name, message in kinds.items():
        path = tmp_path / name
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(UnreadableFile, match=re.escape(f"{path}: ") + ".*" + message):
            Run.resume(path)
        with pytest.raises(UnreadableFile, match=re.escape(f"{path}: ") + ".*" + message):
            solve(lasso(), n_nodes=NODES, max_rounds=2, checkpoint=path)
        assert before == (path.read_bytes() if path.is_file() else None)
    with pytest.raises(UnreadableFile, match="nowhere: no such file; check the name"):
        Run.resume(tmp_path / "nowhere")
    with pytest.raises(UnreadableFile, match="no such folder"):
        Run.resume(tmp_path / "nowhere" / "run")
    with Run(lasso(), n_nodes=NODES) as run:
        with pytest.raises(FileNotFoundError, match="no such folder"):
            run.save(tmp_path / "nowhere" / "run")
        with pytest.raises(IsADirectoryError, match="is a folder"):
            run.save(tmp_path / "folder")


@pytest.mark.parametrize("broken", ["replace", "fsync", "write_array"])
def test_a_save_that_fails_keeps_the_old_file(broken, tmp_path, monkeypatch):
    def fail(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    path = tmp_path / "run"
    with Run(lasso(), n_nodes=NODES, faults=HEAVY) as run:
        advance(run, 3).save(path)
        before, seen = path.read_bytes(), figures(run)
        advance(run, 2)
        with monkeypatch.context() as patch:
            patch.setattr(*((np.lib.format if broken == "write_array" else os), broken, fail))
            with pytest.raises(OSError, match="No space left"):
                run.save(path)
            with pytest.raises(OSError, match="No space left"):
                run.save(tmp_path / "other")
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["run"]
        with Run.resume(path) as again:
            assert figures(again) == seen
        run.save(path)  # and a failure does not hinder the next
        with Run.resume(path) as again:
            assert figures(again) == figures(run)
