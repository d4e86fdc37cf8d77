"""`glmesh train --family`: what it prints, what the model file predicts, and what it refuses."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from glmesh.files import model_files
from tests.cli.calls import run

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def claims(folder):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(50, 10, 200).round(1), "years": rng.uniform(0.5, 3, 200).round(2)})
    frame["bmi"] = rng.normal(27, 4, 200).round(1)
    frame["claims"] = rng.poisson(frame.years * np.exp(-2 + 0.02 * frame.age + 0.03 * frame.bmi))
    frame["rate"] = (frame.claims / frame.years).round(3)
    frame.to_csv("claims.csv", index=False)
    frame.drop(columns="rate").to_csv("counts.csv", index=False)
    return frame


def test_a_poisson_fit_with_exposure_has_an_intercept_no_penalty_a_proof_and_predicts_means(claims, capsys):
    assert run("train", "counts.csv", "--target", "claims", "--family", "poisson", "--exposure", "years") == 0
    shown = capsys.readouterr().out
    assert "poisson (link log) family, no penalty, with an intercept" in shown
    assert "proof" in shown
    assert "standard errors of the exact estimate" in shown
    X = sm.add_constant(claims[["age", "bmi"]])
    found = sm.GLM(claims.claims, X, family=sm.families.Poisson(), exposure=claims.years).fit(tol=1e-14)
    model = model_files.load("glmesh-model.npz")
    assert model.names == ("age", "bmi", "years")
    np.testing.assert_allclose([model.intercept, *model.coef], [*found.params, 1.0], rtol=1e-6)
    assert run("predict", "glmesh-model.npz", "claims.csv", "--out", "means.txt") == 0
    np.testing.assert_allclose(np.loadtxt("means.txt"), found.fittedvalues, rtol=1e-5)
    null = np.full(200, claims.claims.mean())
    explained = 1 - found.deviance / sm.families.Poisson().deviance(claims.claims, null)
    assert f"; deviance explained {explained:.4f} (root mean squared error" in capsys.readouterr().err


def test_predictions_of_probabilities_are_told_by_deviance_log_loss_and_accuracy(claims, capsys):
    claims.assign(any=(claims.claims > 0) * 1).drop(columns=["claims", "rate"]).to_csv("any.csv", index=False)
    assert run("train", "any.csv", "--family", "binomial", "--quiet") == 0
    assert run("predict", "glmesh-model.npz", "any.csv", "--out", "p.txt") == 0
    y, p = np.loadtxt("any.csv", delimiter=",", skiprows=1)[:, -1], np.loadtxt("p.txt")
    loss = -np.where(y == 1, np.log(p), np.log(1 - p))
    null = -y.mean() * np.log(y.mean()) - (1 - y.mean()) * np.log(1 - y.mean())
    right = int(((p > 0.5) == (y == 1)).sum())
    said = f"deviance explained {1 - loss.mean() / null:.4f} (log loss {loss.mean():.4g}, accuracy {right / 2:.2f} %"
    assert said in capsys.readouterr().err
    claims.assign(any=3.0).drop(columns=["claims", "rate"]).to_csv("any.csv", index=False)
    assert run("predict", "glmesh-model.npz", "any.csv", "--out", "p.txt") == 0
    assert "undefined, y holds values that the binomial family has not" in capsys.readouterr().err
    claims.assign(any=1.0).drop(columns=["claims", "rate"]).to_csv("any.csv", index=False)
    assert run("predict", "glmesh-model.npz", "any.csv", "--out", "p.txt") == 0
    assert "undefined, y is constant" in capsys.readouterr().err


def test_parameters_links_offsets_and_weights_are_those_of_statsmodels(claims, capsys):
    assert run("train", "counts.csv", "--family", "negative_binomial=2", "--sample-weight", "years", "--quiet") == 0
    X = sm.add_constant(claims[["age", "bmi"]])
    family = sm.families.NegativeBinomial(alpha=0.5)
    found = sm.GLM(claims.claims, X, family=family, var_weights=claims.years).fit(tol=1e-14)
    model = model_files.load("glmesh-model.npz")
    np.testing.assert_allclose([model.intercept, *model.coef], found.params, rtol=1e-5)
    assert (model.info["theta"], model.info["link"]) == (2.0, "log")


def test_theta_is_estimated_and_kept(claims, capsys):
    assert run("train", "counts.csv", "--family", "negative_binomial=estimated", "--no-intercept") in (0, 3)
    assert "negative_binomial (link log, theta estimated) family" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--family", "poison"), "did you mean 'poisson'"),
        (("--family", "poisson", "--model", "ridge"), "exclude each other"),
        (("--family", "poisson=2"), "no parameter"),
        (("--family", "tweedie=two"), "must be a number"),
        (("--family", "poisson", "--link", "probit"), "link"),
        (("--family", "poisson", "--split", "features"), "rows"),
        (("--family", "poisson", "--exposure", "year"), "no such column"),
        (("--family", "poisson", "--exposure", "years", "--offset", "bmi"), "exclude each other"),
        (("--family", "binomial"), "0 to 1"),
        (("--model", "ridge", "--offset", "bmi"), "goes with --family"),
        (("--family", "poisson", "--acceleration", "momentum"), "leave --acceleration"),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_line(claims, capsys, options, words):
    assert run("train", "counts.csv", *options) == 2
    assert words in capsys.readouterr().err
