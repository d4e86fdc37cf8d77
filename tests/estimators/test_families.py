"""Estimators of families: scikit-learn's objective and coefficients, offsets, data that is apart, and saved models."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn import linear_model
from sklearn.metrics import mean_tweedie_deviance

import glmesh
from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.functions import GroupLasso, NegativeBinomial

RNG = np.random.default_rng(3)
X = RNG.normal(size=(150, 3)) * [1.0, 20.0, 0.01] + [0.0, 100.0, 0.0]
ETA = 0.4 * X[:, 0] + 0.02 * (X[:, 1] - 100) + 0.3
COUNTS = RNG.poisson(np.exp(ETA)).astype(float)
COSTS = RNG.gamma(3.0, np.exp(ETA) / 3.0)
WEIGHT = RNG.integers(1, 4, 150).astype(float)
PAIRS = {
    "poisson": (glmesh.PoissonRegressor, linear_model.PoissonRegressor, {}, COUNTS),
    "gamma": (glmesh.GammaRegressor, linear_model.GammaRegressor, {}, COSTS),
    "tweedie 0": (glmesh.TweedieRegressor, linear_model.TweedieRegressor, {"power": 0}, COSTS),
    "tweedie 1.5": (glmesh.TweedieRegressor, linear_model.TweedieRegressor, {"power": 1.5}, COUNTS),
    "tweedie 3": (glmesh.TweedieRegressor, linear_model.TweedieRegressor, {"power": 3}, COSTS),
}

# power of the mean that the variance is proportional to
POWERS = {"poisson": 1, "gamma": 2, "tweedie 0": 0, "tweedie 1.5": 1.5, "tweedie 3": 3}


@pytest.mark.parametrize("name", list(PAIRS))
@pytest.mark.parametrize("alpha", [0.0, 0.1, 10.0])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of its own newton-cholesky
def test_the_objective_is_that_of_scikit_learn(name: str, alpha: float) -> None:
    ours, theirs, options, y = PAIRS[name]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    fit = ours(alpha=alpha, tol=1e-10, n_nodes=4, **options).fit(Z, y, WEIGHT)
    same = theirs(alpha=alpha, tol=1e-10, max_iter=10_000, solver="newton-cholesky", **options).fit(Z, y, WEIGHT)

    def objective(model) -> float:
        predictor = Z @ model.coef_ + model.intercept_
        mean = predictor if POWERS[name] == 0 else np.exp(predictor)
        deviance = mean_tweedie_deviance(y, mean, sample_weight=WEIGHT, power=POWERS[name])
        return float(deviance / 2 + alpha / 2 * model.coef_ @ model.coef_)

    assert objective(fit) == pytest.approx(objective(same), rel=1e-8)
    np.testing.assert_allclose(fit.predict(Z), same.predict(Z), rtol=1e-4)
    assert fit.score(Z, y, WEIGHT) == pytest.approx(same.score(Z, y, WEIGHT), abs=1e-6)
    np.testing.assert_allclose(fit.to_sklearn().predict(Z), fit.predict(Z))


def test_offsets_and_data_that_is_apart_give_the_pooled_estimate_of_statsmodels() -> None:
    offset = np.log(RNG.uniform(0.5, 2.0, len(X)))
    model = glmesh.GLMRegressor(family="poisson", n_nodes=5)
    pooled = model.fit(X, COUNTS, WEIGHT, offset)
    parts = [(X[k::3], COUNTS[k::3], WEIGHT[k::3], offset[k::3]) for k in range(3)]
    apart = glmesh.GLMRegressor(family="poisson").fit_nodes(parts)
    found = sm.GLM(
        COUNTS, sm.add_constant(X, prepend=False), family=sm.families.Poisson(), offset=offset, var_weights=WEIGHT
    ).fit(tol=1e-14)
    for fit in (pooled, apart):
        assert fit.coef_.shape == (3,)
        assert np.abs((np.append(fit.coef_, fit.intercept_) - found.params) / found.bse).max() < 1e-6
    np.testing.assert_allclose(pooled.predict(X, offset), found.fittedvalues, rtol=1e-6)


def test_a_family_takes_no_penalty_by_default_and_a_loss_takes_one() -> None:
    assert glmesh.GLMRegressor(family="gaussian", n_nodes=2).fit(X, COSTS).result_.problem.spec.alpha == 0.0
    assert glmesh.GLMRegressor(n_nodes=2).fit(X, COSTS).result_.problem.spec.alpha == 1.0


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not both"):
        glmesh.GLMRegressor("huber", family="poisson").fit(X, COUNTS)
    with pytest.raises(InvalidInput, match="offset"):
        glmesh.GLMRegressor().fit(X, COUNTS, offset=np.zeros(len(X)))
    with pytest.raises(InvalidData, match="offset"):
        glmesh.GLMRegressor(family="poisson").fit(X, COUNTS, offset=np.zeros(3))
    with pytest.raises(InvalidData, match="poisson"):
        glmesh.PoissonRegressor().fit(X, -COUNTS)
    with pytest.raises(InvalidData, match="offset"):
        glmesh.GLMRegressor(family="poisson").fit_nodes([(X, COUNTS, None, ETA), (X, COUNTS)])


@pytest.mark.parametrize(
    "model",
    [
        glmesh.GLMRegressor(family=NegativeBinomial(2.5), n_nodes=2),
        glmesh.GLMRegressor(family="gamma", link="log", n_nodes=2),
        glmesh.TweedieRegressor(power=1.5, n_nodes=2),
    ],
    ids=str,
)
def test_a_saved_model_predicts_the_same_means(model, tmp_path) -> None:
    model.fit(X, COSTS if "gamma" in str(model) else COUNTS)
    model.save(tmp_path / "model.npz")
    again = glmesh.load_model(tmp_path / "model.npz")
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_successes_and_failures_are_two_columns_as_in_statsmodels() -> None:
    trials = RNG.integers(0, 9, len(X))
    hits = RNG.binomial(trials, 1 / (1 + np.exp(-ETA)))
    counts = np.column_stack([hits, trials - hits])
    found = sm.GLM(counts[trials > 0], sm.add_constant(X)[trials > 0], family=sm.families.Binomial()).fit(tol=1e-14)
    model = glmesh.GLMRegressor(family="binomial", n_nodes=3).fit(X, counts)
    table = model.summary().to_frame()
    np.testing.assert_allclose((table["coef"] - found.params) / found.bse, 0, atol=1e-6)
    np.testing.assert_allclose(table["std err"], found.bse, rtol=1e-6)
    np.testing.assert_allclose(model.result_.statistics.log_likelihood, found.llf, rtol=1e-9)
    apart = glmesh.GLMRegressor(family="binomial").fit_nodes([(X[k::3], counts[k::3]) for k in range(3)])
    np.testing.assert_allclose(apart.coef_, model.coef_, rtol=1e-6)
    shares = np.divide(hits, trials, out=np.zeros(len(X)), where=trials > 0)
    assert model.score(X, counts) == pytest.approx(model.score(X, shares, trials))
    with pytest.raises(InvalidData, match="row 0 is"):
        glmesh.GLMRegressor(family="binomial").fit(X, -1 - counts)
    with pytest.raises(ValueError, match="1d array"):
        glmesh.GLMRegressor(family="poisson").fit(X, counts)


def test_tol_se_is_a_parameter_of_all_that_fit_by_likelihood() -> None:
    labels = (COUNTS > 2).astype(int) + (COUNTS > 5)
    for model, y in (
        (glmesh.PoissonRegressor(alpha=0.0, tol_se=0.3, n_nodes=2), COUNTS),
        (glmesh.GLMRegressor(family="poisson", tol_se=0.3, n_nodes=2), COUNTS),
        (glmesh.GLMClassifier(family="multinomial", tol_se=0.3, n_nodes=2), labels),
    ):
        loose, tight = model.fit(X, y).result_, model.set_params(tol_se=1e-9).fit(X, y).result_
        assert loose.rounds < tight.rounds
        assert tight.standard_errors_off <= 1e-9 < loose.standard_errors_off <= 0.3


def test_methods_and_penalties_that_do_not_fit_families_are_refused_with_what_would_do() -> None:
    problem = glmesh.Problem.glm(X, COUNTS, family="poisson", alpha=0.0)
    with pytest.raises(UnsuitablePair, match="leave method= away"):
        glmesh.solve(problem, n_nodes=3, method=glmesh.methods.Nids())
    with pytest.raises(UnsuitablePair, match="a term per coefficient"):
        glmesh.GLMRegressor(family="poisson", penalty=GroupLasso(np.array([0, 0, 1])), alpha=1.0).fit(X, COUNTS)
    with pytest.raises(InvalidInput, match=r"GLMRegressor\(family=...\)"):
        glmesh.GLMClassifier(family="binomial").fit(X, COUNTS > 1)
