"""The negative binomial's theta, estimated with the coefficients, is that of statsmodels' NegativeBinomial."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

import glmesh
from glmesh.cli.models import parse_family
from glmesh.engine.result import Status
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import NegativeBinomial


def drawn(theta, n=300):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1]
    mu = np.exp(0.5 + 0.3 * X[:, 0])
    return X, (rng.negative_binomial(theta, theta / (theta + mu)) if theta else rng.binomial(10, 0.5, n)).astype(float)


def reference(X, y, ours, offset=None):
    """Statsmodels' tight fit, from our estimates."""
    model = sm.NegativeBinomial(y, sm.add_constant(X, prepend=False), offset=offset)
    theta = ours.statistics.fitted.family.theta
    start = np.concatenate([ours.coef[: X.shape[1]], [ours.intercept, 1.0 / theta]])
    return model.fit(method="newton", maxiter=200, tol=1e-14, disp=0, start_params=start)


@pytest.mark.parametrize(("theta", "n_nodes"), [(2.0, 1), (0.3, 3), (10.0, 16)])
@pytest.mark.parametrize("shifted", [False, True])
def test_theta_and_its_standard_error_are_those_of_statsmodels(theta, n_nodes, shifted):
    X, y = drawn(theta)
    offset = 0.3 * np.cos(np.arange(len(y))) if shifted else None
    model = glmesh.GLMRegressor(family=NegativeBinomial(None), n_nodes=n_nodes).fit(X, y, offset=offset)
    ours = model.result_
    theirs = reference(X, y, ours, offset)
    found = ours.statistics.fitted.family.theta
    off = np.append(ours.coef[:3], ours.intercept) - theirs.params[:-1]
    assert np.abs(off / theirs.bse[:-1]).max() < 1e-6
    assert abs(1.0 / found - theirs.params[-1]) < 1e-6 * theirs.bse[-1]
    assert ours.statistics.shape_error == pytest.approx(theirs.bse[-1] * found**2, rel=1e-6)
    np.testing.assert_allclose(ours.statistics.log_likelihood, theirs.llf, rtol=1e-10)
    np.testing.assert_allclose([ours.statistics.aic, ours.statistics.bic], [theirs.aic, theirs.bic], rtol=1e-10)
    assert "theta = " in str(model.summary())
    given = glmesh.GLMRegressor(family=NegativeBinomial(found), n_nodes=2).fit(X, y, offset=offset)
    np.testing.assert_allclose(model.vcov(), given.vcov(), rtol=1e-5)


def test_a_likelihood_ratio_is_of_fits_with_a_theta_each():
    X, y = drawn(2.0)
    whole = glmesh.GLMRegressor(family=NegativeBinomial(None), n_nodes=3).fit(X, y)
    small = glmesh.GLMRegressor(family=NegativeBinomial(None), n_nodes=3).fit(X[:, :2], y)
    a, b = (reference(Z, y, one.result_).llf for Z, one in ((X, whole), (X[:, :2], small)))
    assert whole.lr_test(small).statistic == pytest.approx(2 * (a - b), rel=1e-6)
    given = glmesh.GLMRegressor(family=NegativeBinomial(2.0), n_nodes=3).fit(X[:, :2], y)
    with pytest.raises(UnsuitablePair, match="same family"):
        whole.lr_test(given)


def test_counts_without_more_variance_than_poissons_have_no_theta():
    X, y = drawn(None)
    problem = glmesh.Problem.glm(X, y, family=NegativeBinomial(None), alpha=0.0, fit_intercept=True)
    result = glmesh.solve(problem, n_nodes=3)
    assert result.status is Status.NO_OPTIMUM
    assert "take family='poisson'" in result.message


def test_a_saved_model_and_a_resumed_fit_know_the_theta_that_was_estimated(tmp_path):
    X, y = drawn(2.0)
    model = glmesh.GLMRegressor(family=NegativeBinomial(None), n_nodes=3).fit(X, y)
    model.save(tmp_path / "model.npz")
    again = glmesh.load_model(tmp_path / "model.npz")
    assert again.family == model.result_.statistics.fitted.family
    assert str(again.summary()) == str(model.summary())
    assert again.score(X, y) == model.score(X, y)
    problem = glmesh.Problem.glm(X, y, family=NegativeBinomial(None), alpha=0.0, fit_intercept=True)
    file = tmp_path / "run"
    glmesh.solve(problem, n_nodes=3, max_rounds=4, checkpoint=file)
    assert glmesh.solve(problem, n_nodes=3, checkpoint=file).coef.tobytes() == model.coef_.tobytes()


def test_a_theta_that_is_not_known_is_refused_where_it_is_needed():
    X, y = drawn(2.0)
    with pytest.raises(UnsuitablePair, match="without a penalty"):
        glmesh.GLMRegressor(family=NegativeBinomial(None), alpha=1.0, n_nodes=2).fit(X, y)
    with pytest.raises(InvalidInput, match="ask the fitted model"):
        NegativeBinomial(None).losses(y, y)
    assert parse_family("negative_binomial=estimated") == NegativeBinomial(None)
    with pytest.raises(InvalidInput, match="or 'estimated'"):
        parse_family("negative_binomial=some")
