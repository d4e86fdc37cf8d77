"""What totals say of a fit does not depend on how rows are dealt out, and can be kept in a file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glmesh.errors import InvalidData
from glmesh.functions.families import Binomial, Gamma, NegativeBinomial, Poisson, Tweedie
from glmesh.methods.totals.likelihood.statistics import FitStatistics, factor_of_inverse, inverse
from tests.inference.fits import Table

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 3)) * [1.0, 100.0, 0.01]
COEF = np.array([0.3, 0.002, -10.0, 0.5])
Y = RNG.poisson(np.exp(X @ COEF[:-1] + 0.5)).astype(float)
WEIGHT = np.where(np.arange(60) % 7 == 0, 0.0, RNG.uniform(0.5, 2.0, 60))


def numbers(statistics):
    arrays = [
        statistics.hessian,
        statistics.information,
        *(statistics.meats[name] for name in sorted(statistics.meats)),
    ]
    scalars = [
        statistics.loss,
        statistics.pearson,
        statistics.null_loss,
        statistics.log_likelihood,
        statistics.weight,
        *statistics.targets,
        statistics.n,
    ]
    return np.concatenate([np.ravel(one) for one in arrays] + [np.array(scalars)])


@pytest.mark.parametrize("family", [Poisson(), NegativeBinomial(theta=1.5), Tweedie(power=1.3)], ids=lambda f: f.name)
def test_statistics_do_not_depend_on_who_holds_which_rows(family):
    labels = np.arange(60) // 12
    tables = [
        Table(family, X, Y, weight=WEIGHT, clusters=labels, cuts=cuts) for cuts in ((), (24,), (12, 12, 48))
    ]  # the last has a node without rows
    one, *others = (numbers(table.statistics(COEF)) for table in tables)
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-11)


def test_rows_of_weight_0_do_not_count():
    kept = WEIGHT > 0
    wild = np.where(kept[:, None], X, 1e3)
    with_them = Table(Poisson(), wild, Y, weight=WEIGHT, clusters=np.arange(60) // 12, cuts=(12, 36)).statistics(COEF)
    clusters = (np.arange(60) // 12)[kept]
    without = Table(Poisson(), X[kept], Y[kept], weight=WEIGHT[kept], clusters=clusters, cuts=()).statistics(COEF)
    assert with_them.n == kept.sum()
    assert (with_them.clusters, with_them.full) == (5, 0)
    np.testing.assert_allclose(numbers(with_them), numbers(without), rtol=1e-11)


def test_statistics_can_be_kept_in_a_file():
    table = Table(Gamma(link="inverse"), np.abs(X), Y + 1, weight=WEIGHT, aliased=(2,), clusters=np.arange(60) // 12)
    statistics = table.statistics(np.array([0.1, 0.01, 0.0, 1.0]), concordance=0.25, decrement=1e-9)
    tree = statistics.to_dict()
    again = FitStatistics.of_dict(tree)
    assert again.fitted.family == statistics.fitted.family
    np.testing.assert_array_equal(numbers(again), numbers(statistics))
    np.testing.assert_equal(
        [again.aic, again.distance, again.gap], [statistics.aic, statistics.distance, statistics.gap]
    )
    assert again.fitted.names == statistics.fitted.names
    assert (again.fitted.free == statistics.fitted.free).all()
    assert (
        FitStatistics.of_dict(replace(table, family=Tweedie(power=1.2)).statistics(COEF).to_dict()).fitted.family.power
        == 1.2
    )


def test_a_damaged_record_is_refused():
    tree = Table(Poisson(), X, Y).statistics(COEF).to_dict()
    with pytest.raises(ValueError, match="hessian"):
        FitStatistics.of_dict({**tree, "hessian": tree["hessian"][:2]})
    with pytest.raises(ValueError, match="3 names"):
        FitStatistics.of_dict({**tree, "fitted": {**tree["fitted"], "names": ["a", "b", "c"]}})
    with pytest.raises(KeyError):
        FitStatistics.of_dict({**tree, "fitted": {**tree["fitted"], "family": {"name": "cauchy"}}})


def test_units_of_columns_do_not_matter_to_an_inverse():
    units = 10.0 ** np.array([-12.0, 0.0, 5.0, 14.0])
    A = RNG.normal(size=(9, 4))
    M = (A.T @ A) * np.outer(units, units)
    C = factor_of_inverse(M)
    np.testing.assert_allclose(C @ C.T * np.outer(units, units), np.linalg.inv(A.T @ A), rtol=1e-10)
    np.testing.assert_allclose(inverse(M) @ M, np.eye(4), atol=1e-9 * units.max() / units.min())
    with pytest.raises(InvalidData, match="not positive definite"):
        inverse(np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_the_null_model_has_the_mean_of_all_targets():
    y = (np.median(Y) < Y).astype(float)
    statistics = Table(Binomial(link="probit"), X, y, weight=WEIGHT).statistics(COEF * 0.1)
    mean = WEIGHT @ y / WEIGHT.sum()
    expected = -2 * WEIGHT.sum() * (mean * np.log(mean) + (1 - mean) * np.log(1 - mean))
    assert statistics.null_deviance == pytest.approx(expected, rel=1e-10)
    assert np.isnan(Table(Binomial(link="probit"), X, np.zeros(60)).statistics(COEF * 0.1).null_deviance)
