"""`glmesh status` of a site that has ended: the coefficients of the model that this run wrote, and of no other."""

from pathlib import Path

import numpy as np
import pytest

import glmesh
from glmesh.cli.status import model_text
from glmesh.contract import Column, Contract
from glmesh.files import model_files
from glmesh.files.model_files import Model

SITES = ("alice", "bob")
FIGURES = {"node": "alice", "outcome": "certified", "why": "", "sites": list(SITES), "without": []}


def write(path: Path, split: str = "samples", names: tuple[str, ...] = ("age", "bmi")) -> Model:
    contract = Contract("y", tuple(map(Column, names)), split=split)
    info = {"status": "certified", "node": "alice"}
    model = Model(
        np.array([0.5, -1.0]), 0.25, "squared", "l2", 1.0, 0.0, info=info, contract=contract, sites=SITES
    )  # fmt: skip
    model.save(path)
    return model


def test_coefficients_are_shown_by_name(tmp_path):
    write(tmp_path / "model.npz")
    told = model_text(FIGURES, tmp_path / "model.npz").splitlines()
    assert told[:3] == [
        "  Intercept   0.25000",
        "  bmi        -1.00000  --------------------",
        "  age         0.50000  ++++++++++",
    ]
    assert told[-1].endswith("model.npz")


@pytest.mark.parametrize("change", [{"outcome": "refused"}, {"outcome": "no_optimum"}, {"sites": ["alice"]}])
def test_the_model_of_another_run_is_not_shown(tmp_path, change):
    assert model_text(FIGURES, tmp_path / "model.npz") == ""
    write(tmp_path / "model.npz")
    assert model_text(FIGURES | change, tmp_path / "model.npz") == ""


def test_a_family_has_its_table(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    fit = glmesh.PoissonRegressor(alpha=0.0, n_nodes=2).fit(X, np.random.default_rng(1).poisson(2.0, size=60))
    model = write(tmp_path / "model.npz")
    kept = {**vars(model), "statistics": fit.result_.statistics}
    Model(**kept).save(tmp_path / "model.npz")
    assert "std err" in model_text(FIGURES, tmp_path / "model.npz")
    assert model_files.load(tmp_path / "model.npz").statistics is not None
