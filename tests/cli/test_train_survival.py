"""`glmesh train --family cox`, with strata and clusters: the model of statsmodels' PHReg, its file, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from glmesh import CoxRegressor
from glmesh.files import model_files
from glmesh.inference import Inference
from tests.cli.calls import run

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def trial(folder: Path) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 240
    frame = pd.DataFrame({"age": rng.normal(60, 9, n).round(1), "arm": rng.choice(["new", "old"], n)})
    frame["hospital"] = rng.choice(["north", "south", "west"], n)
    frame["days"] = np.ceil(60 * rng.exponential(np.exp(-0.03 * (frame.age - 60) - 0.4 * (frame.arm == "new"))))
    frame["died"] = (rng.random(n) < 0.7) * 1
    frame["ward"] = rng.integers(1, 21, n)
    frame.loc[:2, "hospital"] = None
    frame.loc[5, "age"] = np.nan
    frame.to_csv("trial.csv", index=False)
    frame.drop(columns=["arm", "ward"]).to_csv("numbers.csv", index=False)
    return frame


FORMULA = "Surv(days, died) ~ age + arm"


def test_strata_of_a_column_are_nodes_and_the_model_is_that_of_statsmodels(
    trial: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("train", "trial.csv", "--family", "cox", "--formula", FORMULA, "--strata", "hospital") == 0
    shown = capsys.readouterr().out
    assert "cox (ties efron) family, no penalty\n" in shown
    assert "over 3 nodes" in shown
    assert "rows: 240, of which 4 were left out" in shown
    whole = trial.dropna()
    wanted = sm.PHReg.from_formula("days ~ age + arm", whole, status=whole.died, strata=whole.hospital, ties="efron")
    found, model = wanted.fit(), model_files.load("glmesh-model.npz")
    assert model.names == ("arm[T.old]", "age")
    assert np.abs((model.coef - found.params) / found.bse).max() <= 1e-6
    assert model.statistics is not None
    np.testing.assert_allclose(Inference(model.statistics).summary().to_frame()["std err"], found.bse, rtol=1e-6)
    assert (model.contract.target if model.contract else "", model.info["strata"]) == ("days", "hospital")
    assert run("show", "glmesh-model.npz", "--exp") == 0
    assert "Cox proportional hazards" in capsys.readouterr().out
    whole.head(4)[["arm", "age"]].to_csv("new.csv", index=False)
    assert run("predict", "glmesh-model.npz", "new.csv", "--out", "out.txt") == 0
    np.testing.assert_allclose(
        np.loadtxt("out.txt"), (whole.arm == "old")[:4] * model.coef[0] + whole.age[:4] * model.coef[1], rtol=1e-12
    )


def test_without_a_formula_time_event_and_strata_are_no_features(trial: pd.DataFrame) -> None:
    options = ("--time", "days", "--event", "died", "--strata", "hospital", "--cluster", "hospital", "--quiet")
    assert run("train", "numbers.csv", "--family", "cox", *options) == 0
    model = model_files.load("glmesh-model.npz")
    whole = trial.dropna()
    own = CoxRegressor().fit(whole[["age"]], whole.days, whole.died, strata=whole.hospital, clusters=whole.hospital)
    assert model.names == ("age",)
    np.testing.assert_array_equal(model.coef, own.coef_)
    assert model.statistics is not None
    assert model.statistics.clusters == 3
    np.testing.assert_array_equal(Inference(model.statistics).vcov("cluster"), own.vcov("cluster"))
    assert run("train", "numbers.csv", "--family", "cox", *options[:4], "--quiet", "--out", "one.npz") == 2
    trial.drop(columns=["arm", "ward", "hospital"]).to_csv("numbers.csv", index=False)
    assert run("train", "numbers.csv", "--family", "cox", *options[:4], "--quiet", "--out", "one.npz") == 0
    assert model_files.load("one.npz").info["nodes"] == 1


def test_clusters_of_a_column_give_the_sandwich_of_statsmodels(
    trial: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("train", "trial.csv", "--family", "poisson", "--formula", "died ~ age + arm", "--cluster", "ward") == 0
    capsys.readouterr()
    assert run("show", "glmesh-model.npz", "--errors", "cluster") == 0
    assert "20 clusters" in capsys.readouterr().out
    whole = trial.dropna(subset=["age"])
    groups = {"groups": whole.ward}
    wanted = smf.glm("died ~ age + arm", whole, family=sm.families.Poisson()).fit(
        tol=1e-13, cov_type="cluster", cov_kwds=groups
    )
    statistics = model_files.load("glmesh-model.npz").statistics
    assert statistics is not None
    found = Inference(statistics).summary(vcov="cluster").to_frame()
    np.testing.assert_allclose(found["std err"], wanted.bse, rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--family", "cox"), "needs --time COLUMN and --event COLUMN"),
        (("--family", "cox", "--formula", "days ~ age"), "Surv(time, event) ~ ... go together"),
        (("--family", "poisson", "--formula", FORMULA), "Surv(time, event) ~ ... go together"),
        (("--family", "cox", "--formula", FORMULA, "--time", "age", "--event", "died"), "leave the options out"),
        (("--family", "cox", "--formula", FORMULA, "--target", "age"), "--target"),
        (("--family", "cox", "--formula", FORMULA, "--strata", "arm"), "is a column of the formula, too"),
        (("--family", "cox", "--formula", FORMULA, "--strata", "clinic"), "lacks the column clinic"),
        (("--family", "cox", "--formula", FORMULA, "--strata", "died"), "'died' is two"),
        (("--family", "cox", "--formula", FORMULA, "--strata", "hospital", "--missing", "refuse"), "missing value"),
        (("--family", "cox", "--formula", "Surv(age, ward) ~ days"), "must hold 0 and 1 only"),
        (("--family", "cox", "--formula", FORMULA, "--intercept"), "it would cancel"),
        (("--family", "cox", "--formula", FORMULA, "--link", "log"), "--link does not go with --family cox"),
        (("--family", "poisson", "--formula", "died ~ age", "--strata", "arm"), "--strata goes with --family cox"),
        (("--model", "ridge", "--cluster", "ward"), "--cluster goes with --family"),
        (("--family", "poisson", "--alpha", "1", "--formula", "died ~ age", "--cluster", "ward"), "standard errors"),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_line(
    trial: pd.DataFrame, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    assert run("train", "trial.csv", *options) == 2
    assert words in capsys.readouterr().err
