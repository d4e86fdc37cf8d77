"""The test of whether sites differ: Chow's for least squares, near the likelihood ratio of interactions elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from glmesh import GLMRegressor
from glmesh.errors import UnsuitablePair
from tests.cases import SOAK, cases

F = sm.families
FAMILIES = {"gaussian": F.Gaussian(), "poisson": F.Poisson(), "binomial": F.Binomial(), "gamma": F.Gamma(F.links.Log())}


def sites(name, rng, apart=0.0, sizes=(120, 80, 200)):
    """Rows of unequal sites, whose slopes of the first column differ by `apart` from one to the next."""
    parts = []
    for k, m in enumerate(sizes):
        X = rng.normal(size=(m, 2))
        z = 0.3 + (0.4 + apart * (k - 1)) * X[:, 0] - 0.2 * X[:, 1]
        draws = {
            "gaussian": lambda z=z, m=m: z + rng.normal(size=m),
            "poisson": lambda z=z: rng.poisson(np.exp(z)),
            "binomial": lambda z=z, m=m: rng.random(m) < 1 / (1 + np.exp(-z)),
            "gamma": lambda z=z: rng.gamma(2.0, np.exp(z) / 2),
        }
        parts.append((X, draws[name]().astype(float)))
    return parts


def fitted(name, parts):
    return GLMRegressor(family=name, topology="complete").fit_nodes(parts)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_statistic_is_near_that_of_fits_with_all_interactions(name):
    parts = sites(name, np.random.default_rng(0), 0.1)
    found = fitted(name, parts).heterogeneity_test()
    X, y = np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])
    pooled = sm.GLM(y, sm.add_constant(X), family=FAMILIES[name]).fit(tol=1e-14)
    each = [sm.GLM(y, sm.add_constant(X), family=FAMILIES[name]).fit(tol=1e-14) for X, y in parts]
    fall = pooled.deviance - sum(one.deviance for one in each)
    assert found.df == 6
    if name == "gaussian":  # Chow's test, exactly
        assert found.statistic == pytest.approx(fall / 6 / (sum(one.deviance for one in each) / 391), rel=1e-9)
        assert (found.distribution, found.df_resid) == ("F", 391)
    elif name == "gamma":
        assert found.statistic == pytest.approx(fall / 6 / (sum(one.pearson_chi2 for one in each) / 391), rel=0.2)
    else:
        assert found.distribution == "chi2"
        assert found.statistic == pytest.approx(fall, rel=0.1)


@pytest.mark.parametrize("name", FAMILIES)
def test_its_size_is_the_level_and_it_finds_what_differs(name, record_property):
    n = cases(1000) if SOAK else 25
    rejected = {
        apart: np.mean([
            fitted(name, sites(name, np.random.default_rng([7, seed]), apart)).heterogeneity_test().p_value < 0.05
            for seed in range(n)
        ])
        for apart in (0.0, 0.3)
    }  # fmt: skip
    record_property("rejected at the level 0.05: equal sites, slopes 0.3 apart", f"{rejected[0.0]}, {rejected[0.3]}")
    spread = np.sqrt(0.05 * 0.95 / n)
    assert abs(rejected[0.0] - 0.05) < 4 * spread + 0.02  # chi2 and F are limits
    assert rejected[0.3] > 0.25 if name == "binomial" else rejected[0.3] > 0.9


def test_a_term_that_one_site_does_not_determine_is_compared_among_the_others():
    parts = sites("poisson", np.random.default_rng(3))
    parts[0][0][:, 1] = 0.0
    assert fitted("poisson", parts).heterogeneity_test().df == 5


def test_saved_models_have_it_and_one_site_is_refused(tmp_path):
    import glmesh

    parts = sites("poisson", np.random.default_rng(4))
    model = fitted("poisson", parts)
    model.save(tmp_path / "model.npz")
    assert glmesh.load_model(tmp_path / "model.npz").heterogeneity_test() == model.heterogeneity_test()
    with pytest.raises(UnsuitablePair, match="only one site has rows"):
        fitted("poisson", parts[:1]).heterogeneity_test()
    with pytest.raises(UnsuitablePair, match="penalty"):
        GLMRegressor(family="poisson", alpha=1.0).fit_nodes(parts).heterogeneity_test()
