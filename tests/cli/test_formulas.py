"""Formulas in the commands: train, predict and show on one table, and a federation from its first command on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from glmesh.cli import main
from glmesh.federation.config import Federation, keys
from glmesh.files import model_files
from tests.cases import LIMIT
from tests.peers import FORK, free_ports


def patients(seed: int, n: int, wards: list[str]) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"age": rng.normal(50, 10, n).round(2), "years": rng.uniform(1, 3, n).round(3)})
    data["sex"], data["ward"] = rng.choice(["m", "f"], n), rng.choice(wards, n)
    data["smokes"] = rng.choice(["TRUE", "FALSE"], n)
    data["visits"] = rng.poisson(np.exp(0.01 * data["age"] + 0.2 * (data["ward"] == "c")))
    data["dose"] = (rng.normal(size=n) + 0.02 * data["age"]).round(3)
    data["ill"] = np.where(rng.random(n) < 1 / (1 + np.exp(-(data["age"] - 50) / 10)), "yes", "no")
    data.loc[rng.choice(n, 4, replace=False), "sex"] = None
    data.loc[rng.choice(n, 3, replace=False), "age"] = np.nan
    return data


@pytest.fixture(autouse=True)
def pooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    data = patients(0, 300, ["c", "a", "b"])
    data.to_csv("all.csv", index=False)
    return data


def test_train_takes_a_formula_and_predict_takes_raw_tables(
    pooled: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    formula = "visits ~ age*sex + C(ward, Treatment('b')) + smokes"
    assert (
        main(["train", "all.csv", "--formula", formula, "--family", "poisson", "--exposure", "years", "--nodes", "3"])
        == 0
    )
    shown = capsys.readouterr().out
    numeric = pooled.assign(smokes=(pooled["smokes"] == "TRUE") * 1)
    wanted = smf.glm(formula, numeric, family=sm.families.Poisson(), exposure=numeric["years"]).fit(tol=1e-13)
    lacking = len(pooled) - int(wanted.nobs)
    assert f"rows: 300, of which {lacking} were left out because of missing values" in shown
    assert f"Rows: 300, of which {lacking} were left out" in shown
    model = model_files.load("glmesh-model.npz")
    assert model.version == 4
    assert model.design is not None
    assert model.design.names == tuple(wanted.params.index[1:])
    assert model.names == (*model.design.names, "years")
    assert np.max(np.abs([model.intercept, *model.coef[:-1]] - wanted.params) / wanted.bse) <= 1e-6
    assert main(["show", "glmesh-model.npz"]) == 0
    assert f"Rows: 300, of which {lacking} were left out" in capsys.readouterr().out

    new = numeric.dropna().head(5).sample(frac=1, axis=1, random_state=0)
    new.assign(smokes=new["smokes"].map({1: "true", 0: "false"})).to_csv("new.csv", index=False)
    assert main(["predict", "glmesh-model.npz", "new.csv", "--out", "p.txt"]) == 0
    assert "columns that are not used" in capsys.readouterr().err
    np.testing.assert_allclose(np.loadtxt("p.txt"), wanted.predict(new, exposure=new["years"]), rtol=1e-6)

    assert main(["predict", "glmesh-model.npz", "all.csv"]) == 2
    assert "column 'sex': holds a missing value" in capsys.readouterr().err
    assert main(["predict", "glmesh-model.npz", "all.csv", "--missing", "empty", "--out", "p.txt"]) == 0
    assert f"{lacking} rows with a missing value have an empty answer" in capsys.readouterr().err
    answers = Path("p.txt").read_text().split("\n")[:-1]
    assert [line == "" for line in answers] == pooled[["age", "sex"]].isna().any(axis=1).tolist()
    new.assign(ward=["c", "c", "x", "c", "c"]).to_csv("new.csv", index=False)
    assert main(["predict", "glmesh-model.npz", "new.csv"]) == 2
    said = capsys.readouterr().err
    assert "column ward has a level that the model does not know; it knows a, b, c" in said
    assert "line 4 holds 'x'" in said


def test_labels_may_be_texts_and_a_penalised_loss_takes_a_formula_too(
    pooled: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "all.csv", "--formula", "ill ~ age + sex", "--family", "binomial", "--out", "b.npz"]) == 0
    assert "ill: yes counts as 1, no as 0" in capsys.readouterr().out
    assert main(["train", "all.csv", "--formula", "ill ~ age + sex", "--model", "logistic", "--alpha", "0.1",
        "--tol", "1e-9", "--out", "l.npz"]) == 0  # fmt: skip
    assert "rows" in capsys.readouterr().out
    binomial, logistic = model_files.load("b.npz"), model_files.load("l.npz")
    assert logistic.classes == ("no", "yes")
    assert logistic.intercept != 0.0
    np.testing.assert_allclose(binomial.coef, logistic.coef, rtol=0.05)
    assert main(["show", "l.npz"]) == 0
    assert "ill ~ age + sex" in capsys.readouterr().out
    assert main(["train", "all.csv", "--formula", "np.log(years) ~ age - 1", "--model", "ridge", "--out", "r.npz"]) == 0
    assert model_files.load("r.npz").intercept == 0.0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--formula", "ill ~ age", "--target", "dose", "--model", "logistic"], "leave --target out"),
        (["--formula", "dose ~ age + weight", "--model", "ridge"], "lacks the column weight"),
        (["--formula", "dose ~ poly(age, 2)", "--model", "ridge"], "write the powers"),
        (["--formula", "dose ~ age - 1", "--intercept", "--model", "ridge"], "exclude each other"),
        (["--formula", "dose ~ age", "--missing", "refuse", "--model", "ridge"], "missing value"),
        (["--formula", "ward ~ age", "--family", "binomial"], "has 3 labels"),
        (["--formula", "visits ~ years", "--exposure", "years", "--family", "poisson"], "cannot be an offset"),
        (["--formula", "Surv(years, visits) ~ age", "--model", "ridge"], "go together"),
        (["--formula", "dose ~ age + C(site)", "--model", "ridge"], "lacks the column site"),
        (["--target", "dose", "--model", "ridge"], "text"),
    ],
)
def test_train_refuses_what_does_not_go_together(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "all.csv", *options]) == 2
    assert says in capsys.readouterr().err


def test_rows_with_gaps_are_dropped_without_a_formula_where_a_family_is_fitted_or_the_user_says_so(
    pooled: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    pooled[["age", "years", "dose"]].to_csv("n.csv", index=False)
    assert main(["train", "n.csv", "--model", "ridge"]) == 2
    assert "missing values" in capsys.readouterr().err
    for options in (["--family", "gaussian"], ["--model", "ridge", "--missing", "drop"]):
        assert main(["train", "n.csv", *options]) == 0
        assert "rows: 300, of which 3 were left out because of missing values" in capsys.readouterr().out
        assert model_files.load("glmesh-model.npz").rows == (300, 3)
    assert main(["train", "n.csv", "--family", "gaussian", "--missing", "refuse"]) == 2
    pooled.assign(w=1.0)[["age", "w", "dose"]].mask(pooled["age"].isna()).to_csv("n.csv", index=False)
    assert main(["train", "n.csv", "--family", "gaussian", "--sample-weight", "w"]) == 0
    assert "of which 3 were" in capsys.readouterr().out


def _run(arguments: list[str]) -> None:
    """In a process of its own: a command."""
    raise SystemExit(main(arguments))


@pytest.mark.waits
def test_a_federation_with_a_formula_from_its_first_command_to_its_model(capsys: pytest.CaptureFixture[str]) -> None:
    held = {name: patients(k, 90, wards) for k, (name, wards) in enumerate(
        {"ann": ["a", "b"], "ben": ["c", "b"], "eve": ["b", "c", "a"]}.items())}  # fmt: skip
    for name, data in held.items():
        data.to_csv(f"{name}.csv", index=False)
    keys.make(Path("keys"), list(held))
    formula = "dose ~ age + C(ward) + sex"
    init = [
        "federation",
        "init",
        "fed.toml",
        "--model",
        "ridge",
        "--alpha",
        "0",
        "--tol",
        "1e-12",
        "--formula",
        formula,
    ]
    assert main([*init, "--like", "eve.csv", "--levels"]) == 0
    shown = capsys.readouterr().out
    assert "levels of ward, the first is the reference: a, b, c" in shown
    assert "rare levels are refused, rows with missing values are left out" in shown
    data = Federation.read("fed.toml").data
    assert data is not None
    assert [(one.name, one.kind, one.levels) for one in data.columns] == [
        ("age", "number", ()), ("ward", "category", ("a", "b", "c")), ("sex", "category", ("f", "m")),
    ]  # fmt: skip
    Path("fed.toml").unlink()
    assert main([*init, "--like", "eve.csv"]) == 0
    data = Federation.read("fed.toml").data
    assert data is not None
    assert not any(one.levels for one in data.columns)
    ports = free_ports(3)
    assert (
        main(["federation", "add", "fed.toml", *(f"{name}={name}.csv" for name in held), "--port", str(ports[0])]) == 0
    )
    assert main(["federation", "check", "fed.toml"]) == 0
    assert formula in capsys.readouterr().out
    processes = [
        FORK.Process(target=_run, args=(["node", str(Path.cwd() / f"{name}.toml"), "--plain"],)) for name in held
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(LIMIT)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    wanted = smf.ols(formula, pd.concat(held.values())).fit()
    models = [model_files.load(f"{name}.state/model.npz") for name in held]
    for model in models:
        assert model.names == tuple(wanted.params.index[1:])
        assert np.max(np.abs([model.intercept, *model.coef] - wanted.params) / wanted.bse) <= 1e-6
        np.testing.assert_array_equal(model.coef, models[0].coef)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--formula", "dose ~ age + C(site)"], "reveal_sites = true"),
        (["--formula", "dose ~ age", "--split", "features"], "needs method 'totals'"),
        (["--formula", "dose ~ age", "--no-intercept"], "the formula has an intercept"),
        (["--formula", "dose ~ age", "--target", "ill", "--like", "all.csv"], "leave --target out"),
        (["--levels", "--like", "all.csv", "--missing", "drop"], "--levels goes with --formula"),
        (["--levels", "--formula", "dose ~ age"], "about the file of --like"),
        (["--rare-levels", "drop"], "go with a formula"),
    ],
)
def test_init_refuses_what_does_not_go_together(
    options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["federation", "init", "fed.toml", "--model", "ridge", *options]) == 2
    assert says in capsys.readouterr().err
    assert not Path("fed.toml").exists()
