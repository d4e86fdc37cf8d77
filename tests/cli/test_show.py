"""`glmesh show`: the table of a saved fit, and why a penalised model has none."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import glmesh
from glmesh.files import model_files
from glmesh.inference import Inference
from tests.cli.calls import run

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def counts(folder):
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"age": rng.normal(50, 10, 120).round(1), "bmi": rng.normal(27, 4, 120).round(1)})
    frame["visits"] = rng.poisson(np.exp(-2 + 0.03 * frame.age + 0.02 * frame.bmi))
    frame.to_csv("visits.csv", index=False)
    return frame


def test_a_fit_without_a_penalty_is_shown_as_the_table_of_statsmodels(counts, capsys):
    assert run("train", "visits.csv", "--family", "poisson", "--quiet") == 0
    model = model_files.load("glmesh-model.npz")
    found = smf.glm("visits ~ age + bmi", counts, family=__import__("statsmodels.api").api.families.Poisson()).fit()
    frame = Inference(model.statistics).summary().to_frame()
    assert list(frame.index) == ["Intercept", "age", "bmi"]
    assert list(frame.columns) == ["coef", "std err", "z", "P>|z|", "[0.025", "0.975]"]
    np.testing.assert_allclose(frame["std err"], found.bse, rtol=1e-5)
    np.testing.assert_allclose(frame["coef"], found.params, rtol=1e-5)
    capsys.readouterr()
    assert run("show", "glmesh-model.npz") == 0
    shown = capsys.readouterr().out
    for piece in ("Intercept", "age", "bmi", "P>|z|", "standard errors of the exact estimate", "AIC"):
        assert piece in shown
    assert run("show", "glmesh-model.npz", "--exp", "--level", 0.9, "--errors", "HC0") == 0
    shown = capsys.readouterr().out
    assert "0.05" in shown
    assert run("show", "glmesh-model.npz", "--sites") == 0
    assert f"{Inference(model.statistics).heterogeneity_test()}\n" in capsys.readouterr().out
    assert f"{np.exp(found.params['age']):.4f}" in shown


def test_a_penalised_model_is_shown_as_a_list_and_says_why_it_has_no_p_values(counts, capsys):
    assert run("train", "visits.csv", "--model", "ridge", "--intercept", "--quiet") == 0
    assert run("show", "glmesh-model.npz") == 0
    shown = capsys.readouterr().out
    assert "penalty" in shown
    assert "age" in shown
    assert run("show", "glmesh-model.npz", "--sites") == 2
    assert run("show", "glmesh-model.npz", "--exp") == 2
    assert "no standard errors" in capsys.readouterr().err


def test_an_estimator_keeps_its_table_in_its_model_file(counts, folder):
    fit = glmesh.GLMRegressor(family="poisson", n_nodes=3).fit(counts[["age", "bmi"]], counts["visits"])
    fit.save("kept.npz")
    kept = model_files.load("kept.npz").statistics
    for name in ("hessian", "gradient"):
        np.testing.assert_array_equal(getattr(kept, name), getattr(fit.result_.statistics, name))
    assert kept.log_likelihood == fit.result_.statistics.log_likelihood
    assert kept.fitted.family == fit.result_.statistics.fitted.family
