"""Real networks: processes that talk over TLS, and what they do when things fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Lasso, LogisticRegression

from glmesh import Cola, Problem, Run
from glmesh.files.data_files import load
from tests.cases import SOAK
from tests.peers import Proxies, sites

pytestmark = pytest.mark.waits


def _classification(m: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, p))
    return X, np.where(X @ rng.normal(size=p) + rng.normal(size=m) > 0, 1.0, -1.0)


def _unequal(m: int, K: int) -> list[np.ndarray]:
    ends = np.cumsum(np.arange(1, K + 1)) * m // (K * (K + 1) // 2)
    return np.split(np.arange(m), ends[:-1])


@pytest.mark.parametrize("split", ["samples", "features"])
def test_the_same_trajectory_as_in_the_simulator(split: str, tmp_path: Path) -> None:
    K, rounds = (16 if SOAK else 4), 90
    X, y = _classification(40 * K, 5 * K)
    if split == "samples":
        parts = [(X[rows], y[rows]) for rows in _unequal(len(y), K)]
        problem = {"loss": "logistic", "split": split}
    else:
        parts = [(X[:, columns], X[:, 0] * 0 + y) for columns in _unequal(5 * K, K)]
        problem = {"loss": "squared", "penalty": "l1", "alpha": 5.0, "split": split}
    said = {"tol": 1e-12, "aligned": split == "features"}
    with sites(tmp_path, parts, problem=problem | said) as peers:
        peers.start(options=["--patient", "--rounds", str(rounds)])
        assert peers.wait() == [3] * K, peers.output()
        run = Run(
            Problem.from_nodes(parts, **problem),
            method=Cola(gossip="flows"),
            topology="ring",
            certify=True,
            tol=1e-12,
        )
        for t in run:
            if t == rounds:
                break
        starts = run.partition.starts
        for k in range(K):
            state = peers.saved(k)["state"]
            assert state.round == rounds
            assert np.array_equal(state.x, run.x[starts[k] : starts[k + 1]])
            assert np.array_equal(state.gossip.v[0], run.estimates[k])


def _objective(parts: list[tuple[np.ndarray, np.ndarray]], alpha: float, w: np.ndarray) -> float:
    X, y = np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    return float(np.logaddexp(0.0, -y * (X @ w)).sum() + alpha / 2 * w @ w)


def _best(parts: list[tuple[np.ndarray, np.ndarray]], alpha: float) -> float:
    X, y = np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    reference = LogisticRegression(C=1 / alpha, fit_intercept=False, tol=1e-10, solver="newton-cholesky").fit(X, y)
    return _objective(parts, alpha, reference.coef_[0])


def test_faults_in_one_long_lived_federation(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """SIGKILL and restart, SIGSTOP, a lost disk and a late joiner; the certificate at the end is true."""
    K, alpha, kills, away = 5, (0.003 if SOAK else 0.03), (30 if SOAK else 2), (200 if SOAK else 20)
    X, y = _classification(500, 30)
    parts = [(X[rows], y[rows]) for rows in np.array_split(np.arange(500), K)]
    rng = np.random.default_rng(1)
    problem = {"loss": "logistic", "split": "samples", "alpha": alpha}
    with sites(tmp_path, parts, problem=problem, late=[4], every=25) as peers:
        peers.start(0, 1, 2, 3)
        peers.until(lambda: peers.round(0) >= 50)
        peers.start(4)  # the late joiner
        peers.until(lambda: len(peers.history(0)[-1]["members"]) == K)
        peers.kill(2, signal.SIGSTOP)
        stopped, at = time.monotonic(), peers.round(0)
        peers.until(lambda: peers.round(0) >= at + 20)  # the others go on without the node that is stopped
        record_property("seconds until 20 rounds after a SIGSTOP", round(time.monotonic() - stopped, 2))
        peers.until(lambda: all(any(e["peer"] == "n2" for e in peers.events(k, "silent")) for k in (1, 3)))
        peers.until(lambda: peers.round(0) >= at + away)
        peers.kill(2, signal.SIGCONT)
        for number in range(kills):
            victim = int(rng.integers(K))
            if peers.ended(victim):
                break  # the run was over before the last kill
            peers.kill(victim)
            if number == 0:
                peers.lose_disk(victim)
            if number % 2:  # back at once, or after the others have gone on
                other = (victim + 1) % K
                before = peers.round(other)
                peers.until(lambda o=other, b=before: peers.round(o) > b or peers.ended(o))
            peers.start(victim)
            before = peers.round(victim)
            peers.until(lambda v=victim, b=before: peers.round(v) > b or peers.ended(v))
        assert number == kills - 1
        assert peers.wait() == [0] * K, peers.output()
        infos = [peers.model(k).info for k in range(K)]
        assert len({info["certified_round"] for info in infos}) == 1
        assert peers.imbalance() < 1e-10
        best = _best(parts, alpha)
        for k in range(K):
            value = _objective(parts, alpha, peers.model(k).coef)
            assert value - best <= infos[k]["gap"] * (1 + 1e-9)
            assert value <= best * (1 + 1e-6)
        record_property("rounds", infos[0]["rounds"])
        record_property("imbalance", peers.imbalance())


@pytest.mark.parametrize("wire", ["float64", "float32"])
def test_logistic_regression_by_samples(wire: str, tmp_path: Path) -> None:
    """As a9a: sparse, binary, unequal parts; every node ends with the whole model."""
    K, alpha = 4, 10.0
    rng = np.random.default_rng(0)
    X = sp.csr_array((rng.random((800, 60)) < 0.12).astype(float))
    y = np.where(X @ rng.normal(size=60) + 0.5 * rng.normal(size=800) > 0, 1.0, -1.0)
    parts = [(X[rows], y[rows]) for rows in _unequal(800, K)]
    problem = {"loss": "logistic", "split": "samples", "alpha": alpha, "tol": 1e-6}
    with sites(tmp_path, parts, problem=problem, network={"wire": wire}) as peers:
        peers.start()
        assert peers.wait() == [0] * K, peers.output()
        dense = [(X.toarray(), y) for X, y in parts]
        best = _best(dense, alpha)
        for k in range(K):
            model = peers.model(k)
            assert abs(_objective(dense, alpha, model.coef) - best) <= 1e-6 * best
            assert model.classes == (-1.0, 1.0)
            assert model.info["relative_gap"] <= 1e-6
        assert peers.imbalance() < 1e-10
        sent = peers.history(0)[-1]["bytes_sent"] / peers.history(0)[-1]["round"]
        assert sent < 2 * (60 * (8 if wire == "float64" else 4) + 500)


@pytest.mark.skipif("GLMESH_DATA" not in os.environ or not SOAK, reason="needs the real a9a, and minutes")
def test_a9a_on_eight_peers(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    X, y = load(Path(os.environ["GLMESH_DATA"]) / "a9a.svm.xz")
    K, alpha = 8, 100.0
    order = np.random.default_rng(0).permutation(len(y))
    parts = [(X[order[rows]], y[order[rows]]) for rows in _unequal(len(y), K)]
    problem = {"loss": "logistic", "split": "samples", "alpha": alpha}
    with sites(tmp_path, parts, problem=problem) as peers:
        began = time.monotonic()
        peers.start()
        assert peers.wait() == [0] * K, peers.output()
        record_property("seconds", round(time.monotonic() - began))
        dense = [(X.toarray(), y) for X, y in parts]
        best = _best(dense, alpha)
        excess = max(_objective(dense, alpha, peers.model(k).coef) / best - 1.0 for k in range(K))
        assert abs(excess) <= 1e-6
        record_property("rounds", peers.model(0).info["rounds"])
        record_property("objective above scikit-learn's, relative", excess)
        record_property("imbalance", peers.imbalance())


def test_lasso_by_features_and_a_prediction_together(tmp_path: Path) -> None:
    K, alpha = (8 if SOAK else 3), 30.0
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12 * K)) + 0.5
    y = X[:, :6] @ rng.normal(size=6) + 3.0 + 0.3 * rng.normal(size=200)
    columns = _unequal(12 * K, K)
    problem = {"loss": "squared", "penalty": "l1", "alpha": alpha, "split": "features", "fit_intercept": True}
    problem["aligned"] = True
    with sites(tmp_path, [(X[:, own], y) for own in columns], problem=problem) as peers:
        peers.start()
        assert peers.wait() == [0] * K, peers.output()
        reference = Lasso(alpha=alpha / 200, tol=1e-12, max_iter=100_000).fit(X, y)
        coef = np.concatenate([peers.model(k).coef for k in range(K)])

        def objective(w: np.ndarray, b: float) -> float:
            return float(0.5 * np.sum((X @ w + b - y) ** 2) + alpha * np.abs(w).sum())

        best = objective(reference.coef_, reference.intercept_)
        assert abs(objective(coef, peers.model(0).intercept) - best) <= 1e-6 * best
        new = rng.normal(size=(7, 12 * K))
        for k, own in enumerate(columns):
            np.savetxt(tmp_path / f"new{k}.csv", new[:, own], delimiter=",", fmt="%.17g")
            arguments = ["predict", str(tmp_path / f"n{k}.state" / "model.npz"), str(tmp_path / f"new{k}.csv")]
            peers.run(k, [*arguments, "--node", str(tmp_path / f"n{k}.toml"), "--out", str(tmp_path / f"out{k}.csv")])
        assert peers.wait() == [0] * K, peers.output()
        predictions = [np.loadtxt(tmp_path / f"out{k}.csv") for k in range(K)]
        assert all(np.array_equal(predictions[0], other) for other in predictions)
        np.testing.assert_allclose(predictions[0], reference.predict(new), rtol=1e-3, atol=1e-3)


def test_a_site_that_never_returns_is_given_up(tmp_path: Path) -> None:
    """The model is that of the others: a share of rows is never left with a neighbour, whatever an older file says."""
    K, alpha = 4, 0.05  # so small that seven hundred rounds are needed, and the kill comes in time
    X, y = _classification(240, 12)
    parts = [(X[rows], y[rows]) for rows in np.array_split(np.arange(240), K)]
    for gone in ("reset", "freeze") if SOAK else ("freeze",):
        (tmp_path / gone).mkdir()
        problem = {"loss": "logistic", "split": "samples", "alpha": alpha, "tol": 1e-8}
        network = {"gone_after": 5.0, "gone": gone}
        with sites(tmp_path / gone, parts, problem=problem, network=network, every=5) as peers:
            peers.start()
            peers.until(lambda p=peers: p.round(1) >= 5)
            peers.kill(1)
            assert peers.wait([0, 2, 3]) == [4] * 3, peers.output()
            assert all(peers.model(k).without == ("n1",) for k in (0, 2, 3))
            assert "without n1 (3 of 4 sites)" in peers.output()
            events = [event for k in (0, 2, 3) for event in peers.events(k, "gone")]
            assert {(event["peer"], event["model"]) for event in events} == {("n1", "reset")}
            left = [parts[k] for k in (0, 2, 3)]
            w = [peers.model(k).coef for k in (0, 2, 3)]
            assert all(_objective(left, alpha, one) <= _best(left, alpha) * (1 + 1e-8) for one in w)
            assert not any(peers.saved(k)["adopted"] or peers.saved(k)["handovers"] for k in (0, 2, 3))


@pytest.mark.skipif(not SOAK, reason="seconds of waiting; sites that never return are tested always")
def test_the_share_of_a_site_that_never_returns_stays_counted_by_features(tmp_path: Path) -> None:
    K, alpha = 4, 0.01
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 40)) @ rng.normal(size=(40, 40))
    y = X @ rng.normal(size=40)
    columns = np.array_split(np.arange(40), K)
    problem = {"loss": "squared", "split": "features", "aligned": True, "alpha": alpha, "tol": 1e-7}
    network = {"gone_after": 5.0, "gone": "freeze"}
    with sites(tmp_path, [(X[:, own], y) for own in columns], problem=problem, network=network, every=5) as peers:
        peers.start()
        peers.until(lambda: peers.round(1) >= 5)
        peers.kill(1)
        assert peers.wait([0, 2, 3]) == [4] * 3, peers.output()
        assert [k for k in (0, 2, 3) if peers.saved(k)["adopted"]] == [0]
        constant = peers.saved(0)["adopted"][1]
        Z = np.concatenate([X[:, columns[k]] for k in (0, 2, 3)], axis=1)
        w = np.concatenate([peers.model(k).coef for k in (0, 2, 3)])

        def objective(w: np.ndarray) -> float:
            return float(0.5 * np.sum((Z @ w + constant - y) ** 2) + 0.5 * alpha * w @ w)

        best = objective(np.linalg.solve(Z.T @ Z + alpha * np.eye(Z.shape[1]), Z.T @ (y - constant)))
        assert objective(w) - best <= 1e-6 * best
        assert peers.imbalance_with(constant, [0, 2, 3]) < 1e-10


def test_a_lost_disk_by_features_comes_back_with_the_same_targets_and_not_with_others(tmp_path: Path) -> None:
    X, y = _classification(60, 12)
    columns = np.array_split(np.arange(12), 3)
    problem = {"loss": "logistic", "split": "features", "aligned": True, "tol": 1e-15, "max_rounds": 10**9}
    with sites(tmp_path, [(X[:, own], y) for own in columns], problem=problem, every=5) as peers:
        peers.start()
        peers.until(lambda: peers.round(1) >= 5)
        peers.kill(1)
        before = peers.round(0)
        peers.start(1)
        peers.until(lambda: peers.round(1) > before)
        peers.kill(1)
        peers.lose_disk(1)
        before = peers.round(0)
        peers.start(1)
        peers.until(lambda: peers.round(1) > before)
        peers.kill(1)
        peers.lose_disk(1)
        other = y.copy()
        other[7] = -other[7]
        np.savez(tmp_path / "n1.npz", X=X[:, columns[1]], y=other)
        peers.start(1)
        assert peers.wait([1]) == [2], peers.output()
        said = peers.events(1, "end") + peers.events(1, "error")
        assert "its target or its sample weights are not those of" in said[-1]["why"]
        at = peers.round(0)
        peers.until(lambda: peers.round(0) > at + 5)  # the others go on


@pytest.mark.skipif(not SOAK, reason="half a minute of waiting; sites that never return are tested always")
def test_a_site_that_was_given_up_takes_part_again(tmp_path: Path) -> None:
    K, alpha = 4, 0.05
    X, y = _classification(240, 12)
    parts = [(X[:, own], y) for own in np.array_split(np.arange(12), K)]
    problem = {"loss": "logistic", "split": "features", "alpha": alpha, "tol": 1e-14, "max_rounds": 10**9}
    problem["aligned"] = True
    with sites(tmp_path, parts, problem=problem, network={"gone_after": 5.0}, every=5) as peers:
        peers.start()
        peers.until(lambda: peers.round(1) >= 20)
        peers.kill(1)
        peers.until(lambda: all(peers.history(k)[-1]["members"] == ["n0", "n2", "n3"] for k in (0, 2, 3)))
        peers.until(lambda: bool(peers.saved(0)["adopted"]))  # the share of n1 is counted by its successor
        peers.start(1)
        peers.until(lambda: all(len(peers.history(k)[-1]["members"]) == K for k in range(K)))
        peers.until(lambda: not peers.saved(0)["adopted"])
        at = peers.round(0)
        # certificates among all members again, and better and better ones: the sum is right
        peers.until(lambda: all(_proven(peers.history(k)[-1], at) < 1e-2 for k in range(K)))


@pytest.mark.skipif(not SOAK, reason="a quarter of a minute of waiting; other faults are tested always")
@pytest.mark.parametrize("given_up", [False, True])
def test_the_ring_falls_apart_and_heals(given_up: bool, tmp_path: Path) -> None:
    """Two links are cut for a while, by proxies that stop; both halves go on, and together they prove the answer.

    Even if each half has given the other one up meanwhile; then they must not be done before they meet again.
    """
    K, alpha = 4, 0.05
    X, y = _classification(240, 12)
    parts = [(X[rows], y[rows]) for rows in np.array_split(np.arange(240), K)]
    problem = {"loss": "logistic", "split": "samples", "alpha": alpha, "tol": 1e-15 if given_up else 1e-7}
    network = {"gone_after": 5.0 if given_up else 600.0}
    with (
        sites(tmp_path, parts, problem=problem, network=network) as peers,
        Proxies([peers.ports[1], peers.ports[0]]) as proxies,
    ):
        peers.write_node(2, neighbours={"n1": f"127.0.0.1:{proxies.ports[0]}"})  # the larger number dials
        peers.write_node(3, neighbours={"n0": f"127.0.0.1:{proxies.ports[1]}"})
        peers.start()
        peers.until(lambda: peers.round(0) >= 20)
        proxies.cut()
        peers.until(lambda: any(event["peer"] == "n3" for event in peers.events(0, "down")))
        present = 2 if given_up else K
        peers.until(lambda: all(len(peers.history(k)[-1]["members"]) == present for k in range(K)))
        before = [peers.round(k) for k in range(K)]
        peers.until(lambda: all(peers.round(k) > before[k] + 5 for k in range(K)))  # both halves work on
        proxies.heal()
        if not given_up:
            assert peers.wait() == [0] * K, peers.output()
            assert peers.imbalance() < 1e-10
            assert _objective(parts, alpha, peers.model(3).coef) <= _best(parts, alpha) * (1 + 1e-7)
            return
        peers.until(lambda: all(len(peers.history(k)[-1]["members"]) == K for k in range(K)))
        at = max(peers.round(k) for k in range(K))
        peers.until(lambda: all(_proven(peers.history(k)[-1], at) < 1e-3 for k in range(K)))


def _proven(entry: dict[str, Any], after: int) -> float:
    """The relative gap that is proven, by a certificate about a round after this one."""
    return entry["certificate"] if entry["certificate"] and entry["certificate_round"] > after else np.inf


@pytest.mark.skipif(not SOAK, reason="five processes, three times")
@pytest.mark.parametrize("what", ["another width", "no file", "another federation file"])
def test_a_refusal_crosses_a_ring_of_processes(what: str, tmp_path: Path) -> None:
    X, y = _classification(150, 6)
    parts = [(X[rows], y[rows]) for rows in np.array_split(np.arange(150), 5)]
    if what == "another width":
        parts[2] = (parts[2][0][:, :5], parts[2][1])
    with sites(tmp_path, parts, problem={"loss": "logistic", "split": "samples"}) as peers:
        if what == "no file":
            (tmp_path / "n2.npz").unlink()
        if what == "another federation file":
            replace(peers.federation, name="x", problem=replace(peers.federation.problem, alpha=2.0)).write(
                tmp_path / "wrong.toml"
            )
            peers.write_node(2, federation="wrong.toml")
        peers.start()
        assert peers.wait() == [2] * 5, peers.output()
        for k in (0, 1, 3, 4):
            assert "n2 cannot take part: " in peers.events(k, "error")[0]["why"]
        assert not any((tmp_path / f"n{k}.state" / "model.npz").exists() for k in range(5))


def test_sigterm_pauses_a_node(tmp_path: Path) -> None:
    X, y = _classification(120, 8)
    parts = [(X[rows], y[rows]) for rows in np.array_split(np.arange(120), 3)]
    problem = {"loss": "logistic", "split": "samples", "alpha": 0.01, "tol": 1e-8}
    with sites(tmp_path, parts, problem=problem, every=10**6) as peers:
        peers.start()
        peers.until(lambda: peers.round(1) >= 10)
        peers.kill(1, signal.SIGTERM)
        assert peers.wait([1]) == [130]
        at = peers.saved(1)["state"].round
        assert at >= 10
        peers.start(1)
        if SOAK:
            assert peers.wait() == [0] * 3, peers.output()
        else:  # it takes part again; to its end a run with restarts goes in the test of faults
            peers.until(lambda: peers.round(1) >= at + 20)
        assert peers.events(1, "resumed")[0]["round"] == at


def test_a_node_imports_neither_scikit_learn_nor_matplotlib(tmp_path: Path) -> None:
    code = "import sys, tests.peers_warm; print([name for name in ('sklearn', 'matplotlib') if name in sys.modules])"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "[]"
