"""Estimators from formulas: tables that are apart, with texts and gaps, give the pooled table's fit in statsmodels."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.base import clone

import glmesh
from glmesh.errors import InvalidData, InvalidInput


def hospital(seed: int, n: int, sexes: list[str], wards: list[str]) -> pd.DataFrame:
    """A table with texts and gaps."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"age": rng.normal(50, 10, n), "bmi": rng.normal(25, 4, n)})
    data["sex"], data["ward"] = rng.choice(sexes, n), rng.choice(wards, n)
    data["dose"] = rng.normal(size=n) + 0.02 * data["age"] + 0.5 * (data["sex"] == "m")
    data["visits"] = rng.poisson(np.exp(0.01 * data["age"] + 0.2 * (data["ward"] == "c")))
    data["ill"] = np.where(rng.random(n) < 1 / (1 + np.exp(-(data["age"] - 50) / 10)), "yes", "no")
    data["years"], data["time"] = rng.uniform(1, 3, n), rng.exponential(1, n) + 0.01
    data["event"] = (rng.random(n) < 0.7).astype(int)
    data.loc[rng.choice(n, 7, replace=False), "sex"] = None
    data.loc[rng.choice(n, 5, replace=False), "bmi"] = np.nan
    return data


# other levels, other orders of levels and of columns, a site that lacks levels, gaps
PARTS = [
    hospital(0, 150, ["m", "f"], ["c", "a"]),
    hospital(1, 100, ["f"], ["b", "c"])[::-1].sample(frac=1, axis=1, random_state=0),
    hospital(2, 200, ["f", "m"], ["a", "b", "d"]),
]
POOLED = pd.concat(PARTS, ignore_index=True)
CASES = [
    ("dose ~ standardize(age) + C(sex) + center(bmi):C(ward)", "gaussian", sm.families.Gaussian(), ["sex", "bmi"]),
    ("visits ~ age*sex + C(ward, Treatment('b'))", "poisson", sm.families.Poisson(), ["sex"]),
    ("visits ~ bs(age, knots=[45, 55], lower_bound=0, upper_bound=120) + ward - 1", "poisson",
     sm.families.Poisson(), []),
    ("np.exp(dose) ~ np.log(age) + I(bmi > 25)*sex", "gamma",
     sm.families.Gamma(sm.families.links.Log()), ["sex", "bmi"]),
    ("event ~ cr(age, knots=[50], lower_bound=30, upper_bound=70) + bmi:sex - 1", "binomial",
     sm.families.Binomial(), ["sex", "bmi"]),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "family", "theirs", "gaps"), CASES, ids=[one[0] for one in CASES])
def test_tables_apart_give_the_names_and_the_fit_of_the_pooled_table_in_statsmodels(
    formula: str, family: str, theirs: Any, gaps: list[str]
) -> None:
    link = "log" if family == "gamma" else None
    model = glmesh.GLMRegressor.from_formula(formula, PARTS, family=family, link=link)
    whole = POOLED.dropna(subset=gaps)  # I(bmi > 25) is False in statsmodels where bmi is missing, and is missing here
    wanted = smf.glm(formula, whole, family=theirs).fit(tol=1e-13, maxiter=100)
    table = model.summary().to_frame()
    assert list(table.index) == list(wanted.params.index)
    assert np.max(np.abs(table["coef"] - wanted.params) / wanted.bse) <= 1e-6
    np.testing.assert_allclose(table["std err"], wanted.bse, rtol=1e-6)
    left_out = 450 - len(whole)
    assert (model.rows_, model.rows_left_out_) == (450, left_out)
    said = f"Rows: 450, of which {left_out} were left out because of missing values." if left_out else "Rows: 450, none"
    assert said in str(model.summary())
    new = POOLED.dropna().head(9)[["ward", "sex", "bmi", "age"]]
    np.testing.assert_allclose(model.predict(new), wanted.predict(new), rtol=1e-6)


def test_one_table_is_dealt_out_and_gives_the_same_fit() -> None:
    formula = "dose ~ age + C(sex) + bmi:C(ward)"
    apart = glmesh.GLMRegressor.from_formula(formula, PARTS, family="gaussian")
    pooled = glmesh.GLMRegressor.from_formula(formula, POOLED, family="gaussian", n_nodes=4)
    np.testing.assert_allclose(pooled.coef_, apart.coef_, rtol=1e-9)
    assert pooled.feature_names_in_.tolist() == apart.feature_names_in_.tolist()


def test_a_fit_can_be_cloned_pickled_saved_and_made_anew(tmp_path: Path) -> None:
    model = glmesh.GLMRegressor.from_formula("visits ~ age + C(ward)", PARTS, family="poisson", offset="years")
    new = POOLED.dropna().head(3)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "design_")
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(new), model.predict(new))
    model.save(tmp_path / "m.npz")
    again = glmesh.load_model(tmp_path / "m.npz")
    assert again.design_ == model.design_
    np.testing.assert_array_equal(again.predict(new), model.predict(new))
    assert str(again.summary()) == str(model.summary())
    model.fit(np.eye(4)[:, :2], [1, 2, 3, 4])
    assert not hasattr(model, "design_")


def test_weights_and_offsets_are_columns() -> None:
    model = glmesh.PoissonRegressor.from_formula(
        "visits ~ age + sex", PARTS, alpha=0.0, offset="years", sample_weight="bmi"
    )
    whole = POOLED.dropna()
    wanted = smf.glm("visits ~ age + sex", whole, family=sm.families.Poisson(), offset=whole["years"],
        freq_weights=whole["bmi"]).fit(tol=1e-13)  # fmt: skip
    np.testing.assert_allclose(
        [model.intercept_, *model.coef_], wanted.params[["Intercept", "sex[T.m]", "age"]], rtol=1e-6
    )
    assert model.rows_left_out_ == len(POOLED) - len(whole)
    rates = glmesh.GLMRegressor.from_formula("visits ~ age + sex", PARTS, family="poisson", exposure="years")
    wanted = smf.glm("visits ~ age + sex", POOLED, family=sm.families.Poisson(), exposure=POOLED["years"]).fit(
        tol=1e-13
    )
    np.testing.assert_allclose([rates.intercept_, *rates.coef_], wanted.params, rtol=1e-6)


def test_clusters_are_a_column_or_the_site() -> None:
    formula = "visits ~ standardize(age) + ward"
    parts = [part.assign(doctor=np.arange(len(part)) // 9) for part in PARTS]
    parts[0].loc[3, "doctor"] = np.nan
    pooled = pd.concat([part.assign(home=k) for k, part in enumerate(parts)], ignore_index=True).dropna(
        subset=["doctor"]
    )
    doctors = pooled["home"] * 1000 + pooled["doctor"]
    for labels, name in ((doctors, "doctor"), (pooled["home"], "site")):
        model = glmesh.GLMRegressor.from_formula(formula, parts, family="poisson", clusters=name)
        own = pooled if name == "doctor" else pd.concat([part.assign(home=k) for k, part in enumerate(parts)])
        wanted = smf.glm(formula, own, family=sm.families.Poisson()).fit(
            tol=1e-13, cov_type="cluster", cov_kwds={"groups": labels if name == "doctor" else own["home"]}
        )
        np.testing.assert_allclose(model.summary(vcov="cluster").to_frame()["std err"], wanted.bse, rtol=1e-6)
        assert model.rows_left_out_ == (name == "doctor")
    one = glmesh.GLMRegressor.from_formula(
        formula, pooled.assign(doctors=doctors), family="poisson", clusters="doctors", n_nodes=3
    )
    apart = glmesh.GLMRegressor.from_formula(formula, parts, family="poisson", clusters="doctor")
    np.testing.assert_allclose(one.vcov("cluster"), apart.vcov("cluster"), rtol=1e-6)
    strata = glmesh.CoxRegressor.from_formula("Surv(time, event) ~ age", pooled, strata="home", clusters="doctor")
    assert strata.result_.statistics is not None
    assert strata.result_.statistics.clusters == pooled["doctor"].nunique()
    with pytest.raises(InvalidInput, match="Ridge has no standard errors, and so no clusters"):
        glmesh.Ridge.from_formula("visits ~ age", parts, clusters="doctor")
    with pytest.raises(InvalidInput, match="`site` stands for the node"):
        glmesh.GLMRegressor.from_formula(formula, pooled, family="poisson", clusters="site")


def test_a_response_of_two_texts_is_a_label_to_classifiers_and_its_second_level_a_success_to_regressions() -> None:
    labels = glmesh.GLMClassifier.from_formula("ill ~ age + sex", PARTS, alpha=0.0)
    assert labels.classes_.tolist() == ["no", "yes"]
    assert set(labels.predict(POOLED.dropna())) <= {"no", "yes"}
    shares = glmesh.GLMRegressor.from_formula("ill ~ age + sex", PARTS, family="binomial")
    wanted = smf.logit("success ~ age + sex", POOLED.assign(success=(POOLED["ill"] == "yes") * 1)).fit(
        disp=0, tol=1e-13
    )
    np.testing.assert_allclose(shares.coef_, wanted.params[["sex[T.m]", "age"]], rtol=1e-6)
    np.testing.assert_allclose(labels.coef_[0], shares.coef_, rtol=1e-3)
    several = glmesh.GLMClassifier.from_formula("ward ~ age + bmi", POOLED, family="multinomial")
    assert several.summary().to_frame().index.tolist()[:3] == ["b: Intercept", "b: age", "b: bmi"]


def test_cox_takes_time_and_event_and_its_strata_are_nodes_or_a_column() -> None:
    formula = "Surv(time, event) ~ age + sex"
    apart = glmesh.CoxRegressor.from_formula(formula, PARTS)
    named = pd.concat([part.assign(home=k) for k, part in zip("abc", PARTS, strict=True)], ignore_index=True)
    column = glmesh.CoxRegressor.from_formula(formula, named, strata="home")
    np.testing.assert_allclose(column.coef_, apart.coef_, rtol=1e-9)
    whole = named.dropna(subset=["sex"])
    wanted = sm.PHReg.from_formula(
        "time ~ age + sex", whole, status=whole["event"], strata=whole["home"], ties="efron"
    ).fit()
    assert np.max(np.abs(apart.summary().to_frame()["coef"].to_numpy() - wanted.params) / wanted.bse) <= 1e-6


def test_the_site_is_a_variable_with_the_names_of_the_tables() -> None:
    named = dict(zip(["north", "south", "west"], PARTS, strict=True))
    model = glmesh.GLMRegressor.from_formula("dose ~ age * C(site)", named, family="gaussian")
    pooled = pd.concat([part.assign(site=name) for name, part in named.items()])
    wanted = smf.ols("dose ~ age * C(site)", pooled).fit()
    table = model.summary().to_frame()
    assert list(table.index) == list(wanted.params.index)
    assert np.max(np.abs(table["coef"] - wanted.params) / wanted.bse) <= 1e-6
    numbered = glmesh.GLMRegressor.from_formula("dose ~ age + C(site)", PARTS, family="gaussian")
    assert numbered.feature_names_in_.tolist() == ["C(site)[T.1]", "C(site)[T.2]", "age"]


@pytest.mark.parametrize(
    ("kind", "formula", "options", "says"),
    [
        ("Ridge", "dose ~ age", {"offset": "years"}, "Ridge has no offset"),
        ("GLMRegressor", "dose ~ age", {"offset": "years", "exposure": "bmi"}, "exclude each other"),
        ("Ridge", "Surv(time, event) ~ age", {}, "needs a response"),
        ("CoxRegressor", "time ~ age", {}, r"needs Surv\(time, event\)"),
        ("GLMRegressor", "dose ~ bmi", {"missing": "refuse"}, "part 0 has a missing value in row .*, column 'bmi'"),
        ("GLMRegressor", "dose ~ bmi", {"missing": "no"}, "missing"),
        ("GLMRegressor", "dose ~ bmi", {"fit_intercept": False}, "the formula says whether there is an intercept"),
        ("GLMRegressor", "ward ~ bmi", {"family": "binomial"}, "text with 4 levels"),
        ("GLMRegressor", "dose ~ weight", {}, "part 0: lacks the column weight, which the formula names"),
        ("GLMRegressor", "dose ~ C(ward, Treatment('z'))", {}, "the reference is none of the levels, a, b, c, d"),
        ("GLMRegressor", "dose ~ C(ward, levels=['a', 'b'])", {}, "name all of them"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would_do(
    kind: str, formula: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidInput, match=says):
        getattr(glmesh, kind).from_formula(formula, PARTS, **options)


def test_tables_that_cannot_be_fitted_are_refused() -> None:
    with pytest.raises(InvalidInput, match="`site` stands for the node"):
        glmesh.GLMRegressor.from_formula("dose ~ bmi + C(site)", POOLED)
    with pytest.raises(InvalidInput, match="one level only, 'f'"):
        glmesh.GLMRegressor.from_formula("dose ~ age + sex", PARTS[1:2])
    with pytest.raises(InvalidData, match="no row is whole"):
        glmesh.GLMRegressor.from_formula("dose ~ age + sex", POOLED.assign(sex=None))
    with pytest.raises(InvalidData, match="expected a data frame"):
        glmesh.GLMRegressor.from_formula("dose ~ age", 3)
    dates = POOLED.assign(day=pd.Timestamp("2020-01-01"))
    with pytest.raises(InvalidData, match="holds dates"):
        glmesh.GLMRegressor.from_formula("dose ~ day", dates)


def test_categories_of_pandas_keep_their_order_and_lose_levels_that_no_row_has() -> None:
    kind = pd.CategoricalDtype(["d", "x", "c", "b", "a"])
    model = glmesh.GLMRegressor.from_formula(
        "dose ~ ward", [part.assign(ward=part["ward"].astype(kind)) for part in PARTS], family="gaussian"
    )
    assert model.feature_names_in_.tolist() == ["ward[T.c]", "ward[T.b]", "ward[T.a]"]
