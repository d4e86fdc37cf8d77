"""Svmlight text says nowhere whether its indices count from 0 or from 1: what follows is agreed, kept, or refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glmesh.cli import main
from glmesh.contract import Column, Contract
from glmesh.files import model_files
from tests.loopback import Loopback

W = np.array([2.0, -1.0, 0.5])
SITES = ("alice", "bob", "carol")


def _glmesh(line: str) -> int:
    return main(line.split())


def _rows(seed: int, m: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 3)).round(3)
    return X, (X @ W).round(3)


def _text(X: np.ndarray, y: np.ndarray, base: int, first: bool = True) -> str:
    """Svmlight text; without `first` it has no entry for the first column."""
    lines = (
        " ".join([f"{label:g}", *(f"{k + base}:{x:g}" for k, x in enumerate(row) if first or k)])
        for row, label in zip(X, y, strict=True)
    )
    return "".join(f"{line}\n" for line in lines)


def _without_first(seed: int) -> tuple[np.ndarray, np.ndarray]:
    X, _ = _rows(seed)
    X[:, 0] = 0.0
    return X, (X @ W).round(3)


def test_a_model_knows_where_the_indices_of_its_file_began(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.svm").write_text(_text(*_rows(0), 0))
    X, y = _without_first(1)
    Path("new.svm").write_text(_text(X, y, 0, first=False))  # by itself it would be taken to count from 1
    assert _glmesh("train train.svm --model ridge --alpha 1e-6 --nodes 2 --tol 1e-9 --quiet") == 0
    assert _glmesh("predict glmesh-model.npz new.svm") == 0
    np.testing.assert_allclose(np.array(capsys.readouterr().out.split(), dtype=float), y, atol=1e-2)
    Path("one.svm").write_text(_text(X, y, 1))
    assert _glmesh("predict glmesh-model.npz one.svm --index-base 1") == 0
    np.testing.assert_allclose(np.array(capsys.readouterr().out.split(), dtype=float), y, atol=1e-2)


def test_a_model_whose_indices_count_from_1_takes_no_0(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.svm").write_text(_text(*_rows(0), 1))
    Path("new.svm").write_text(_text(*_rows(1), 0))
    assert _glmesh("train train.svm --model ridge --nodes 2 --quiet") == 0
    assert _glmesh("predict glmesh-model.npz new.svm") == 2
    assert "new.svm: uses the index 0, expected indices from 1 on" in capsys.readouterr().err


@pytest.mark.parametrize(("base", "said"), [("auto", 1), ("0", 0), ("1", 1)])
def test_the_base_can_be_said(tmp_path: Path, monkeypatch: Any, capsys: Any, base: str, said: int) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.svm").write_text(_text(*_without_first(0), 0, first=False))
    assert _glmesh(f"train train.svm --model ridge --nodes 2 --index-base {base}") == 0
    assert f"; indices count from {said}" in capsys.readouterr().out
    model = model_files.load("glmesh-model.npz")
    assert model.contract is not None
    assert model.contract.index_base == said
    assert len(model.coef) == 3 - said
    assert _glmesh(f"describe train.svm --index-base {base}") == 0
    assert f"indices count from {said}" in capsys.readouterr().out
    assert _glmesh("train train.svm --model ridge --index-base 2") == 2
    assert "--index-base" in capsys.readouterr().err


def _federation(folder: Path, bases: dict[str, int | None], data: Contract | None = None) -> Loopback:
    """Three sites whose files count from 0; bob's has no entry in the first column."""
    made = Loopback.make(folder, dict.fromkeys(SITES, ""), problem={"loss": "squared"}, data=data)
    for k, name in enumerate(SITES):
        bob = name == "bob"
        rows = _without_first(k) if bob else _rows(k)
        (folder / f"{name}.svm").write_text(_text(*rows, 0, first=not bob))
        base = {} if bases.get(name) is None else {"index_base": bases[name]}
        made.write_node(name, made.federation, data=f"{name}.svm", **base)
    made.run()
    return made


@pytest.mark.waits
def test_a_site_that_may_count_from_1_beside_one_that_counts_from_0_is_asked(tmp_path: Path) -> None:
    made = _federation(tmp_path, {})
    assert set(made.errors) == set(SITES)
    for line in made.errors.values():
        assert "bob cannot take part: its svmlight file uses no index 0" in line
        assert "alice: count from 0" in line
        assert "index_base = 0 or 1 in the node file" in line
        assert "carol cannot" not in line


@pytest.mark.waits
@pytest.mark.parametrize("where", ["node file", "contract"])
def test_sites_agree_on_the_base(tmp_path: Path, where: str) -> None:
    columns = tuple(Column(f"column {k}") for k in range(3))
    data = Contract("", columns, header=False, index_base=0) if where == "contract" else None
    made = _federation(tmp_path, {"bob": 0} if where == "node file" else {}, data)
    assert not made.errors
    parts = (_rows(0), _without_first(1), _rows(2))
    X, y = np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    best = np.linalg.solve(X.T @ X + np.eye(3), X.T @ y)
    for name in SITES:
        np.testing.assert_allclose(made.model(name).coef, best, atol=1e-3)
        contract = made.model(name).contract
        assert contract is not None
        assert contract.index_base == 0


def test_the_base_is_in_the_file_that_init_writes(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    from glmesh.federation.config import Federation

    monkeypatch.chdir(tmp_path)
    Path("alice.svm").write_text(_text(*_without_first(0), 0, first=False))
    assert _glmesh("federation init fed.toml --model ridge --like alice.svm --index-base 0") == 0
    federation = Federation.read("fed.toml")
    assert federation.data is not None
    assert federation.data.index_base == 0
    assert len(federation.data.columns) == 3
    other = replace(federation, data=replace(federation.data, index_base=1))
    assert other.digest != federation.digest
    assert _glmesh("federation init other.toml --model ridge --index-base 0") == 2
    assert "are about the file of --like" in capsys.readouterr().err
