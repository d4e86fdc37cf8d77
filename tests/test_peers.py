"""Real networks: processes that talk over TLS, and what they do when things fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
