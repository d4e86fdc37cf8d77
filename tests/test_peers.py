"""Real networks: processes that talk over TLS, and what they do when things fail."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from glmesh import Cola, Problem, Run
from tests.cases import SOAK
from tests.peers import sites


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
    with sites(tmp_path, parts, problem=problem | {"tol": 1e-12}) as peers:
        peers.start(options=["--patient", "--rounds", str(rounds)])
        assert peers.wait(120) == [3] * K, peers.output()
        run = Run(
            Problem.from_nodes(parts, **problem),
            method=Cola(gossip="ledger"),
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
    K, alpha, kills, pause = 5, 0.01, (30 if SOAK else 3), (20.0 if SOAK else 3.0)
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
        peers.until(lambda: peers.round(0) >= at + 20)  # the others go on without it
        record_property("seconds until 20 rounds after a SIGSTOP", round(time.monotonic() - stopped, 2))
        assert time.monotonic() - stopped < pause + 10
        time.sleep(max(pause - (time.monotonic() - stopped), 0.0))
        peers.kill(2, signal.SIGCONT)
        for number in range(kills):
            victim = int(rng.integers(K))
            if peers.processes[victim].exitcode is not None:
                break  # they were quicker
            peers.kill(victim)
            if number == 0:
                peers.lose_disk(victim)
            time.sleep(float(rng.uniform(0.0, 0.5)))
            peers.start(victim)
            before = peers.round(victim)
            peers.until(lambda v=victim, b=before: peers.round(v) > b or peers.processes[v].exitcode is not None)
        assert number == kills - 1
        assert peers.wait(240 if SOAK else 90) == [0] * K, peers.output()
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
