"""Real sites that hold columns of the same rows and make masked totals over TLS."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import Lasso, LogisticRegression, Ridge

from glmesh.federation.monitor.doctor import examine
from glmesh.federation.node.training import TrainingOutcome
from glmesh.federation.predict import predict_together
from glmesh.types import Matrix, Vector
from tests.cases import LIMIT
from tests.loopback import Loopback

pytestmark = pytest.mark.waits

NAMES = ("alice", "bob", "carol", "dora")


def table(X: Matrix, y: Vector, first: int) -> str:
    """Columns as CSV with the names of the rows, in which every number is read back as it is."""
    head = ",".join(["id", *(f"x{first + j}" for j in range(X.shape[1])), "y"])
    rows = (
        ",".join([f"row{i}", *(repr(float(v)) for v in row), repr(float(t))])
        for i, (row, t) in enumerate(zip(X, y, strict=True))
    )
    return "\n".join([head, *rows]) + "\n"


def federate(folder: Path, X: Matrix, y: Vector, sizes: tuple[int, ...], **options: Any) -> Loopback:
    """A federation of sites that hold columns and make totals."""
    problem = {"split": "features", "method": "totals", "fit_intercept": True, "tol": 1e-6} | options.pop("problem", {})
    ends = np.cumsum(sizes)
    parts = zip(NAMES, np.split(X[:, : ends[-1]], ends[:-1], axis=1), ends - np.array(sizes), strict=False)
    files = {name: table(part, y, int(first)) for name, part, first in parts}
    return Loopback.make(folder, files, problem=problem, node={"ids": "id"} | options.pop("node", {}), **options)


def cancer() -> tuple[Matrix, Vector]:
    X, y = load_breast_cancer(return_X_y=True)
    return X, y.astype(float)


def diabetes() -> tuple[Matrix, Vector]:
    X, y = load_diabetes(return_X_y=True)
    return X / X.std(axis=0), y


def coefficients(made: Loopback) -> Vector:
    return np.concatenate([made.model(member.name).coef for member in made.federation.members])


CASES: Mapping[str, tuple[Any, dict[str, Any], Any]] = {
    "raw logistic": (
        cancer,
        {"loss": "logistic", "alpha": 1.0},
        LogisticRegression(tol=1e-12, solver="newton-cholesky"),
    ),
    "ridge": (diabetes, {"loss": "squared", "alpha": 1.0}, Ridge(alpha=1.0)),
    "lasso": (diabetes, {"loss": "squared", "penalty": "l1", "alpha": 442.0}, Lasso(alpha=1.0, tol=1e-12)),
}


@pytest.mark.parametrize("case", CASES)
def test_sites_with_columns_learn_what_one_site_with_all_columns_would(case: str, tmp_path: Path) -> None:
    data, objective, reference = CASES[case]
    X, y = data()
    sizes = (X.shape[1] - 2 * (X.shape[1] // 3), X.shape[1] // 3, X.shape[1] // 3)
    made = federate(tmp_path, X, y, sizes, problem=objective | {"tol": 1e-9}, network={"topology": "ring"})
    made.run()
    assert made.errors == {}
    reference.fit(X, y)
    expected = np.ravel(reference.coef_)
    scale = X.std(axis=0)
    for name in NAMES[:3]:
        assert made.endings[name].outcome is TrainingOutcome.CERTIFIED
        assert made.model(name).info["relative_gap"] <= 1e-9
        assert made.model(name).intercept == made.model("alice").intercept
    assert abs((coefficients(made) - expected) * scale).max() < 1e-3 * abs(expected * scale).max()
    assert abs(made.model("alice").intercept - float(np.ravel(reference.intercept_)[0])) < 1e-2


def test_the_doctor_foretells_messages_and_finds_nothing_wrong(tmp_path: Path) -> None:
    X, y = cancer()
    made = federate(tmp_path, X, y, (10, 10, 10), problem={"loss": "logistic", "alpha": 1.0})
    seen = {one.what: one for one in examine(tmp_path / "alice.toml")}
    assert {one.level for what, one in seen.items() if not what.startswith("neighbour")} == {"ok"}
    assert "over the columns of all sites" in seen["privacy"].seen
    told = int(seen["messages"].seen.split()[1])
    made.run()
    assert made.errors == {}
    sent = made.model("alice").info["communications"]
    assert isinstance(sent, int)
    assert sent <= told <= 2 * sent


def test_sites_put_their_scores_together_with_models_of_totals(tmp_path: Path) -> None:
    X, y = cancer()
    made = federate(tmp_path, X, y, (10, 10, 10), problem={"loss": "logistic", "alpha": 1.0})
    made.run()
    assert made.errors == {}
    found: dict[str, Matrix] = {}

    def predict(name: str, own: Matrix) -> None:
        model, scores = predict_together(tmp_path / f"{name}.toml", made.model(name), own)
        found[name] = scores[:, 0] * model.coef[0] + model.intercept

    parts = zip(NAMES, np.split(X, 3, axis=1), strict=False)
    threads = [threading.Thread(target=predict, args=part, daemon=True) for part in parts]
    for one in threads:
        one.start()
    for one in threads:
        one.join(LIMIT)
    expected = X @ coefficients(made) + made.model("alice").intercept
    for name in NAMES[:3]:
        np.testing.assert_allclose(found[name], expected, atol=1e-9)
