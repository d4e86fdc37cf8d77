"""Ends of profile intervals are where a direct refit has the deviance that the level asks for."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions.families import Poisson
from glmesh.inference import Inference
from tests.inference.fits import Table
from tests.inference.test_statsmodels import TIGHT, both


@pytest.mark.parametrize("name", ["star98", "scotland", "cpunish", "cpunish_negative_binomial", "fair_probit"])
def test_at_an_end_a_refit_of_the_others_has_risen_by_the_quantile(name):
    _, theirs, ours, _ = both(name)
    totals = []

    def counting(points):
        totals.append(len(points))
        return both(name)[0].curves(points)

    df = theirs.df_resid if ours.statistics.dispersion_is_estimated else None
    quantile = stats.chi2.ppf(0.9, 1) if df is None else stats.t.ppf(0.95, df) ** 2
    ends = Inference(ours.statistics, counting).conf_int(0.9, kind="profile")
    assert len(totals) <= 5
    model, k = theirs.model, ours.statistics.rank
    offset = np.zeros(len(model.endog)) if model.offset is None else model.offset
    for j in (0, 1, k - 1):
        column = (j - 1) % k  # theirs have the intercept last
        fixed = model.exog[:, column]
        for end in ends[j]:
            refit = sm.GLM(
                model.data.orig_endog,
                np.delete(model.exog, column, axis=1),
                family=model.family,
                offset=offset + end * fixed,
            ).fit(**TIGHT)
            rise = (refit.deviance - theirs.deviance) / theirs.scale
            # the deviance is flat to first order in the other coefficients, so its digits are those of the end
            slope = 2 * np.sqrt(quantile)
            assert (rise - quantile) / slope == pytest.approx(0, abs=1e-6)


def test_ends_that_are_not_found_are_nan():
    _, _, ours, _ = both("cpunish")
    k = ours.statistics.rank
    nowhere = Inference(ours.statistics, lambda points: [(np.inf, np.zeros(k), np.eye(k))] * len(points))
    assert np.isnan(nowhere.conf_int(kind="profile")).all()


def test_far_steps_are_shortened():
    # few counts: the likelihood is far from a parabola
    X = np.array([[0.0], [0.0], [1.0], [1.0], [2.0]])
    y = np.array([0.0, 1.0, 0.0, 0.0, 6.0])
    table = Table(Poisson(), X, y)
    coef = table.newton(np.array([1.0, -1.0]), 30)
    ours = Inference(table.statistics(coef), table.curves)
    ends = ours.conf_int(0.999, kind="profile")
    for end in ends[1]:
        fixed = sm.GLM(y, np.ones((5, 1)), family=sm.families.Poisson(), offset=end * X[:, 0]).fit(**TIGHT)
        assert fixed.deviance - ours.statistics.deviance == pytest.approx(stats.chi2.ppf(0.999, 1), rel=1e-8)


def test_what_profiles_cannot_do_is_refused():
    _, _, ours, _ = both("cpunish")
    with pytest.raises(UnsuitablePair, match="take kind='wald'"):
        Inference(ours.statistics).conf_int(kind="profile")
    with pytest.raises(InvalidInput, match="vcov='HC0' is for kind='wald'"):
        ours.conf_int(kind="profile", vcov="HC0")
    with pytest.raises(InvalidInput, match="level must be between 0 and 1"):
        ours.conf_int(95)
