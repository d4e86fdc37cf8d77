import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from glmesh import Problem, solve
from glmesh.contract import Column, Contract
from glmesh.errors import InvalidData, UnreadableFile, UnsuitablePair
from glmesh.files import model_files
from glmesh.files.model_files import Model

MODEL = Model(
    coef=np.array([1.0, -2.0, 0.1]),
    intercept=0.5,
    loss="logistic",
    penalty="elasticnet",
    alpha=1e-3,
    l1_ratio=0.3,
    classes=(2.0, 7.0),
    info={"nodes": 16, "gap": 3.1e-4, "topology": "ring of Zürich"},
    contract=Contract(
        "ill", (Column("age", low=0.0, high=130.0, unit="years"), Column("größe"), Column("b")), (2.0, 7.0)
    ),
    federation="three hospitals",
    digest="00ff",
    sites=("alice", "bob"),
    without=("dora",),
)
X = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.25, 0.0]])
META = {"loss": "hinge", "penalty": "l2", "alpha": 1.0, "l1_ratio": 0.0, "classes": None, "info": {}}
ORIGIN = {"contract": None, "federation": "", "digest": "", "sites": [], "without": []}


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    MODEL.save(tmp_path / "m.npz")
    loaded = model_files.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.coef, MODEL.coef)
    assert vars(loaded) | {"coef": None} == vars(MODEL) | {"coef": None}


def test_regression_and_numpy_scalars(tmp_path: Path) -> None:
    info: dict[str, Any] = {"rounds": np.int64(9), "gap": np.float32(0.5)}
    replace(MODEL, classes=None, intercept=np.float64(2), info=info).save(str(tmp_path / "plain_name"))
    loaded = model_files.load(str(tmp_path / "plain_name"))
    assert loaded.classes is None
    assert loaded.info == {"rounds": 9, "gap": 0.5}


def test_decision_and_prediction() -> None:
    np.testing.assert_allclose(MODEL.decision(X), [1.5, -1.5, 0.0])
    np.testing.assert_array_equal(MODEL.predict(X), [7, 2, 2])
    np.testing.assert_array_equal(replace(MODEL, classes=None).predict(X.tolist()), MODEL.decision(X))


def test_probability_does_not_overflow() -> None:
    extreme = MODEL.predict_probability(np.array([[1e4, 0, 0], [-1e4, 0, 0], [-0.5, 0, 0]]))
    np.testing.assert_array_equal(extreme, [1, 0, 0.5])
    with pytest.raises(UnsuitablePair, match="hinge loss has no probabilities; use decision"):
        replace(MODEL, loss="hinge").predict_probability(X)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_matrix])
def test_sparse_may_lack_trailing_columns(kind: Any) -> None:
    np.testing.assert_allclose(MODEL.decision(kind(X)), MODEL.decision(X))
    np.testing.assert_allclose(MODEL.decision(kind(X[:, :2])), MODEL.decision(X))


@pytest.mark.parametrize("wrong", [np.ones((2, 4)), np.ones((2, 2)), np.ones(3), sparse.csr_array(np.ones((2, 4)))])
def test_wrong_columns_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidData, match="expected 3 columns"):
        MODEL.decision(wrong)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.npz"
    MODEL.save(path)
    before = path.read_bytes()

    def full_disk(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        replace(MODEL, intercept=9.0).save(path)
    assert path.read_bytes() == before
    assert [*tmp_path.iterdir()] == [path]


def test_every_truncation_and_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    MODEL.save(path)
    content = path.read_bytes()
    for end in range(0, len(content), 31):
        path.write_bytes(content[:end])
        with pytest.raises(UnreadableFile, match=r"m\.npz"):
            model_files.load(path)
    for i in range(0, len(content), 11):
        path.write_bytes(content[:i] + bytes([content[i] ^ 0x55]) + content[i + 1 :])
        try:
            loaded = model_files.load(path)
        except UnreadableFile:
            continue
        np.testing.assert_array_equal(loaded.coef, MODEL.coef)  # only dates and the like of the archive were hit
        assert vars(loaded) | {"coef": None} == vars(MODEL) | {"coef": None}


@pytest.mark.parametrize(
    ("meta", "says"),
    [
        (None, "not a glmesh model"),
        ([1], "not a glmesh model"),
        ({"format": "other"}, "not a glmesh model"),
        ({"format": "glmesh-model", "version": 5}, "version 5, expected 1 to 4; upgrade glmesh"),
        ({"format": "glmesh-model", "version": 3} | META, r"KeyError\('contract'\)"),
        (
            {"format": "glmesh-model", "version": 3} | META | ORIGIN | {"contract": {"target": "y", "colour": 1}},
            "colour",
        ),
        (
            {"format": "glmesh-model", "version": 3}
            | META
            | ORIGIN
            | {"contract": Contract("y", (Column("a"),)).to_dict()},
            "1 names for 2 coefficients",
        ),
        ({"format": "glmesh-model", "version": 1}, r"KeyError\('loss'\)"),
        ({"format": "glmesh-model", "version": 1} | META | {"classes": [1]}, "lacks or spoils"),
        ({"format": "glmesh-model", "version": 1} | META | {"alpha": "much"}, "lacks or spoils"),
    ],
)
def test_foreign_meta(tmp_path: Path, meta: Any, says: str) -> None:
    arrays: dict[str, Any] = {} if meta is None else {"meta": np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)}
    np.savez(tmp_path / "m.npz", coef=np.ones(2), intercept=np.float64(0), **arrays)
    with pytest.raises(UnreadableFile, match=says):
        model_files.load(tmp_path / "m.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"coef": np.ones(2)},
        {"coef": np.ones((2, 2)), "intercept": 0.0},
        {"coef": np.array(["a"]), "intercept": 0.0},
        {"coef": np.ones(2), "intercept": np.ones(2)},
        {"coef": np.ones(2), "intercept": np.array("x")},
    ],
)
def test_unsuitable_arrays(tmp_path: Path, arrays: dict[str, Any]) -> None:
    text = json.dumps({"format": "glmesh-model", "version": 1} | META)
    np.savez(tmp_path / "m.npz", meta=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
    with pytest.raises(UnreadableFile, match="save the model again"):
        model_files.load(tmp_path / "m.npz")


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    np.savez(tmp_path / "m.npz", coef=np.ones(2), intercept=0.0, meta=np.array([{"format": "glmesh-model"}]))
    with pytest.raises(UnreadableFile, match=r"key 'meta' cannot be read .* pickled"):
        model_files.load(tmp_path / "m.npz")


@pytest.mark.parametrize("version", [1, 2])
def test_older_files_are_read_and_say_what_they_lack(tmp_path: Path, version: int) -> None:
    text = json.dumps({"format": "glmesh-model", "version": version} | META)
    np.savez(tmp_path / "m.npz", meta=np.frombuffer(text.encode(), dtype=np.uint8), coef=np.ones(2), intercept=0.0)
    loaded = model_files.load(tmp_path / "m.npz")
    assert (loaded.contract, loaded.names, loaded.sites, loaded.is_share) == (None, None, (), False)
    assert loaded.lacks == f"is a model file of version {version}, which has no names of features, target and sites"
    loaded.save(tmp_path / "again.npz")
    assert "trained on data without names" in model_files.load(tmp_path / "again.npz").lacks


def test_a_model_with_names_lacks_nothing_and_columns_by_position_have_no_names(tmp_path: Path) -> None:
    assert (MODEL.names, MODEL.lacks) == (("age", "größe", "b"), "")
    numbered = replace(MODEL, contract=Contract("", tuple(Column(f"column {k}") for k in range(3)), header=False))
    numbered.save(tmp_path / "m.npz")
    assert model_files.load(tmp_path / "m.npz").names is None


def test_one_sites_share_of_a_features_split_is_known_in_every_version(tmp_path: Path) -> None:
    share = replace(MODEL, contract=replace(MODEL.contract, split="features"))
    share.save(tmp_path / "m.npz")
    assert model_files.load(tmp_path / "m.npz").is_share
    assert not MODEL.is_share
    assert replace(MODEL, contract=None, info={"node": "alice", "split": "features"}).is_share
    assert not replace(MODEL, contract=None, info={"split": "features"}).is_share, "`glmesh train` has all columns"


def test_meta_is_json_that_every_reader_takes_although_statistics_are_not_all_finite(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(60, 2)), Contract("y", (Column("age"), Column("inf")))
    result = solve(Problem.glm(X, rng.random(60) < 0.5, family="binomial", alpha=0.0, fit_intercept=True), n_nodes=3)
    assert result.statistics is not None
    unknown = replace(result.statistics, shape_error=np.nan, pearson=np.inf)
    model = Model(result.coef, float(result.intercept), "binomial", "l2", 0.0, 0.0, contract=names, statistics=unknown)
    model.save(tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz") as file:
        json.loads(file["meta"].tobytes(), parse_constant=pytest.fail)
    loaded = model_files.load(tmp_path / "m.npz").statistics
    assert loaded is not None
    assert np.isnan(loaded.shape_error)
    assert loaded.pearson == np.inf
    assert loaded.fitted.names == unknown.fitted.names
