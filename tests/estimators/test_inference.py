"""Fitted estimators have the tables, tests and intervals of statsmodels, whoever holds the rows."""

from __future__ import annotations

import pickle
import re
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn.base import clone

import glmesh
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import NegativeBinomial
from tests.inference.test_statsmodels import CASES, TIGHT


def frame(n=150, seed=5):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1], columns=["age", "bmi", "dose"])
    data["exposure"] = rng.uniform(0.5, 3.0, n)
    z = data["age"] * 0.3 - data["bmi"] * 0.02 + data["dose"] + 0.2
    data["y"] = rng.poisson(np.exp(z) * data["exposure"]).astype(float)
    return data


@lru_cache
def fitted(n_nodes=3):
    data = frame()
    model = glmesh.GLMRegressor(family="poisson", n_nodes=n_nodes)
    return model.fit(data[["age", "bmi", "dose"]], data["y"], offset=np.log(data["exposure"]))


@pytest.mark.parametrize("n_nodes", [1, 3, 16])
def test_a_table_equals_that_of_a_formula_in_statsmodels(n_nodes):
    data = frame()
    theirs = smf.glm("y ~ age + bmi + dose", data, family=sm.families.Poisson(), offset=np.log(data["exposure"])).fit(
        **TIGHT
    )
    table = fitted(n_nodes).summary().to_frame()
    wanted = theirs.summary2().tables[1]
    assert list(table.index) == list(wanted.index) == ["Intercept", "age", "bmi", "dose"]
    assert list(table.columns) == ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]"]
    np.testing.assert_allclose(table, wanted, rtol=1e-6, atol=1e-9)
    statistics = fitted(n_nodes).result_.statistics
    np.testing.assert_allclose(statistics.null_deviance, theirs.null_deviance, rtol=1e-9)
    np.testing.assert_allclose([statistics.aic, statistics.bic], [theirs.aic, theirs.bic_llf], rtol=1e-9)
    robust = theirs.model.fit(cov_type="HC0", **TIGHT)
    np.testing.assert_allclose(np.sqrt(np.diag(fitted(n_nodes).vcov("HC0"))), robust.bse, rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["star98", "scotland", "scotland_weights", "cpunish", "fair_cloglog", "gaussian_log", "stackloss"]
)
def test_data_sets_of_statsmodels(name):
    table, options, target = CASES[name]()
    theirs = sm.GLM(target, np.column_stack([np.ones(len(table.y)), table.X]), **options).fit(**TIGHT)
    model = glmesh.GLMRegressor(family=table.family, n_nodes=3).fit(table.X, table.y, table.weight)
    ours = model.summary(use_t=False).to_frame()
    np.testing.assert_allclose((ours["coef"] - theirs.params) / theirs.bse, 0, atol=1e-6)
    np.testing.assert_allclose(ours["std err"], theirs.bse, rtol=1e-6)
    statistics = model.result_.statistics
    np.testing.assert_allclose(statistics.deviance, theirs.deviance, rtol=1e-8)
    np.testing.assert_allclose(statistics.null_deviance, theirs.null_deviance, rtol=1e-8)
    np.testing.assert_allclose(statistics.log_likelihood, theirs.llf, rtol=1e-7)
    if table.family.convex:
        assert model.summary().accuracy.worst <= 1e-6
        assert "within" in model.summary().proof
    else:
        assert model.summary().proof.startswith("a stationary point; no proof that it is the maximum")


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog"])
def test_the_null_model_with_an_offset_is_that_of_statsmodels(link):
    data = frame()
    y, offset = (data["y"] > 1).astype(float), data["age"] * 0.7 - 1
    links = {"logit": sm.families.links.Logit, "probit": sm.families.links.Probit, "cloglog": sm.families.links.CLogLog}
    theirs = sm.GLM(y, sm.add_constant(data[["dose"]]), family=sm.families.Binomial(links[link]()), offset=offset)
    model = glmesh.GLMRegressor(family="binomial", link=link, n_nodes=3).fit(data[["dose"]], y, offset=offset)
    assert model.result_.statistics.null_deviance == pytest.approx(theirs.fit(**TIGHT).null_deviance, rel=1e-9)


@pytest.mark.parametrize("ties", ["efron", "breslow"])
def test_hazard_ratios_are_those_of_phreg(ties):
    rng = np.random.default_rng(11)
    data = pd.DataFrame(rng.normal(size=(120, 2)), columns=["age", "dose"])
    data["site"] = rng.integers(0, 3, 120)
    data["time"] = np.ceil(10 * rng.exponential(np.exp(-0.5 * data["age"])))
    data["event"] = rng.uniform(size=120) < 0.7
    X = data[["age", "dose"]]
    reg = sm.PHReg(data["time"], X, status=data["event"] * 1, strata=data["site"], ties=ties)
    theirs = reg.fit(method="newton", maxiter=100, tol=1e-14, disp=0)
    model = glmesh.CoxRegressor(ties=ties).fit(X, data["time"], data["event"], strata=data["site"])
    ours, statistics = model.summary().to_frame(), model.result_.statistics
    assert list(ours.index) == ["age", "dose"]
    np.testing.assert_allclose(ours["coef"], theirs.params, rtol=1e-6)
    np.testing.assert_allclose(ours["std err"], theirs.bse, rtol=1e-6)
    np.testing.assert_allclose(ours["P>|z|"], theirs.pvalues, rtol=1e-5)
    np.testing.assert_allclose(statistics.log_likelihood, theirs.llf, rtol=1e-9)
    assert statistics.null_deviance == pytest.approx(-2 * reg.loglike(np.zeros(2)), rel=1e-9)
    assert model.summary(exponentiate=True).to_frame()["coef"].to_numpy() == pytest.approx(model.hazard_ratios_)
    assert (np.diff(model.conf_int(kind="profile")) > 0).all()
    with pytest.raises(UnsuitablePair, match="take 'HC1'"):
        model.vcov("HC3")
    with pytest.raises(UnsuitablePair, match="no single mean"):
        model.predict_interval(X)


def test_the_sandwich_of_cox_is_that_of_phreg_with_a_cluster_for_each_row():
    rng = np.random.default_rng(12)
    X = rng.normal(size=(100, 2))
    time, event = rng.exponential(np.exp(-0.5 * X[:, 0])), rng.uniform(size=100) < 0.7
    reg = sm.PHReg(time, X, status=event * 1, ties="breslow")
    theirs = reg.fit(groups=np.arange(100), method="newton", maxiter=100, tol=1e-14, disp=0)
    model = glmesh.CoxRegressor(ties="breslow").fit(X, time, event)
    np.testing.assert_allclose(model.vcov("HC0"), theirs.cov_params(), rtol=1e-6)


def test_classes_that_are_fitted_together_have_the_table_of_mnlogit():
    data = sm.datasets.anes96.load_pandas()
    X, y = data.exog[["logpopul", "selfLR", "age", "educ"]], data.endog.to_numpy()
    theirs = sm.MNLogit(y, sm.add_constant(X)).fit(method="newton", maxiter=100, tol=1e-14, disp=0)
    model = glmesh.GLMClassifier(family="multinomial", alpha=0.0, n_nodes=3).fit(X, y)
    ours = model.summary().to_frame()
    assert list(ours.index[:6]) == ["1.0: Intercept", *(f"1.0: {name}" for name in X), "2.0: Intercept"]
    errors = theirs.bse.to_numpy().T.ravel()
    np.testing.assert_allclose((ours["coef"] - theirs.params.to_numpy().T.ravel()) / errors, 0, atol=1e-6)
    np.testing.assert_allclose(ours["std err"], errors, rtol=1e-6)
    statistics = model.result_.statistics
    np.testing.assert_allclose(statistics.log_likelihood, theirs.llf, rtol=1e-9)
    np.testing.assert_allclose(statistics.null_deviance, -2 * theirs.llnull, rtol=1e-9)
    np.testing.assert_allclose([statistics.aic, statistics.bic], [theirs.aic, theirs.bic], rtol=1e-9)
    assert model.summary().accuracy.worst <= 1e-6
    assert statistics.df_resid == theirs.df_resid
    robust = sm.MNLogit(y, sm.add_constant(X)).fit(method="newton", maxiter=100, tol=1e-14, disp=0, cov_type="HC0")
    np.testing.assert_allclose(np.sqrt(np.diag(model.vcov("HC0"))), robust.bse.to_numpy().T.ravel(), rtol=1e-6)
    profile = model.conf_int(kind="profile")
    assert (np.abs(profile - model.conf_int()) < 0.2 * errors[:, None]).all()
    binary = glmesh.GLMClassifier(alpha=0.0, n_nodes=2).fit(X, y > 3)
    assert "GLMRegressor(family='binomial')" in binary.summary().remark
    with pytest.raises(UnsuitablePair, match=r"GLMRegressor\(family='binomial'\)"):
        binary.vcov()


def test_profiles_tests_and_predictions():
    model, data = fitted(), frame()
    profile, wald = model.conf_int(kind="profile"), model.conf_int()
    assert profile.shape == wald.shape == (4, 2)
    assert 0 < np.abs(profile - wald).max() < 0.1 * np.diff(wald).max()
    offset = np.log(data["exposure"])
    smaller = clone(model).fit(data[["age"]], data["y"], offset=offset)
    test = model.lr_test(smaller)
    assert (test.df, test.distribution) == (2, "chi2")
    assert test.statistic == pytest.approx(smaller.result_.statistics.deviance - model.result_.statistics.deviance)
    assert model.wald_test(["bmi", "dose"]).statistic == pytest.approx(test.statistic, rel=0.1)
    X = data[["age", "bmi", "dose"]]
    ends, mean = model.predict_interval(X, offset=offset), model.predict(X, offset=offset)
    assert (ends[:, 0] < mean).all()
    assert (mean < ends[:, 1]).all()
    shuffled = X[["dose", "age", "bmi"]]
    with pytest.raises(ValueError, match="order"):
        model.predict_interval(shuffled)


def test_aliased_columns_are_na_whatever_the_fit_began_with():
    data = frame()
    X = data[["age", "bmi", "dose"]].assign(twice=2 * data["age"])
    model = glmesh.GLMRegressor(family="poisson", n_nodes=3, warm_start=True).fit(X, data["y"])
    table = model.summary().to_frame()
    assert table.isna().all(axis=1).sum() == 1
    alone = glmesh.GLMRegressor(family="poisson", n_nodes=3).fit(
        X.drop(columns=table.index[table["coef"].isna()]), data["y"]
    )
    np.testing.assert_allclose(table.dropna(), alone.summary().to_frame(), rtol=1e-6)


def test_scikit_learns_names_have_inference_without_a_penalty():
    data = frame()
    X = data[["age", "bmi"]]
    model = glmesh.GammaRegressor(alpha=0.0, n_nodes=3).fit(X, data["y"] + 1)
    theirs = sm.GLM(data["y"] + 1, sm.add_constant(X), family=sm.families.Gamma(sm.families.links.Log())).fit(**TIGHT)
    np.testing.assert_allclose(model.summary().to_frame()["std err"], theirs.bse, rtol=1e-6)
    assert "t" in model.summary().to_frame().columns


def test_inference_outlives_pickling_but_profiles_need_the_rows():
    again = pickle.loads(pickle.dumps(fitted()))
    pd.testing.assert_frame_equal(again.summary().to_frame(), fitted().summary().to_frame())
    with pytest.raises(UnsuitablePair, match="rows are not at hand"):
        again.conf_int(kind="profile")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_fits_that_have_no_standard_errors_say_why():
    data = frame()
    X, y = data[["age", "bmi"]], data["y"]
    for options, says in (
        ({"family": "poisson", "alpha": 0.5}, r"penalty \(l2, alpha=0.5\)"),
        ({"family": "poisson", "alpha": 0.5, "penalty": "l1"}, r"penalty \(l1, alpha=0.5\)"),
        ({"loss": "squared", "alpha": 0.1}, r"GLMRegressor\(family='gaussian'\)"),
        ({"family": "poisson", "max_rounds": 1}, "has not ended"),
    ):
        model = glmesh.GLMRegressor(n_nodes=2, **options).fit(X, y)
        with pytest.raises(UnsuitablePair, match=says):
            model.conf_int()
        assert re.search(says, str(model.summary()))
    with pytest.raises(InvalidInput, match="not on the same rows"):
        fitted().lr_test(glmesh.GLMRegressor(family="poisson", n_nodes=2).fit(X, y))
    other = glmesh.GLMRegressor(family=NegativeBinomial(theta=2.0), n_nodes=2).fit(X, y)
    with pytest.raises(UnsuitablePair, match="same family"):
        fitted().lr_test(other)
