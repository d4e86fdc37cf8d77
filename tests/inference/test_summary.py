"""The table of a fit as text, HTML and data frame, and which questions are refused."""

from __future__ import annotations

import numpy as np
import pytest

from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.functions.families import Binomial, Gamma, Gaussian, Poisson
from glmesh.inference import Inference
from tests.inference.fits import Table
from tests.notebooks import html_of

X = np.array([[0.0, 1.0], [1.0, 0.5], [2.0, -1.0], [3.0, 0.0], [4.0, 2.0], [5.0, -0.5], [6.0, 1.5], [7.0, 0.2]])
Y = np.array([1.0, 0.0, 2.0, 3.0, 2.0, 6.0, 9.0, 12.0])


def poisson(**options):
    table = Table(Poisson(), options.pop("X", X), Y, names=options.pop("names", ("age", "bmi <b>")), **options)
    return table, table.newton(np.append(np.zeros(table.X.shape[1]), np.log(Y.mean())), 12)


def fit(more=None, **options):
    table, coef = poisson(**options)
    return Inference(table.statistics(coef, **(more or {})), table.curves)


def test_text_has_header_table_and_proof():
    text = str(fit({"concordance": 0.5, "decrement": 8.5e-9}).summary())
    lines = text.splitlines()
    for name, value in (("Family:", "poisson"), ("Link:", "log"), ("Observations:", "8"), ("Df residuals:", "5")):
        assert any(name in line and value in line for line in lines), name
    for name in ("Log-likelihood:", "Deviance:", "Null deviance:", "Pearson chi2:", "AIC:", "BIC:", "Df model:"):
        assert name in text
    rows = [line.split()[0] for line in lines if line[:9] in ("Intercept", "age      ", "bmi <b>  ")]
    assert rows == ["Intercept", "age", "bmi"]
    assert lines[-2] == "Each coefficient is within 9e-09 standard errors of the exact estimate."
    assert lines[-1].startswith("Off by at most: standard errors 3e-09 of each, z values ")
    assert max(map(len, lines)) <= 80


def test_html_is_escaped():
    html = html_of(fit().summary())
    assert "bmi &lt;b&gt;" in html
    assert "<b>" not in html
    assert html.count("<tr>") == 7 + 1 + 3


def test_another_level_changes_the_last_two_columns():
    frame = fit().summary(0.9).to_frame()
    assert list(frame.columns) == ["coef", "std err", "z", "P>|z|", "[0.05", "0.95]"]
    np.testing.assert_allclose(frame[["[0.05", "0.95]"]], fit().conf_int(0.9))


def test_exponentiated_estimates():
    plain, ratios = fit().summary().to_frame(), fit().summary(exponentiate=True).to_frame()
    np.testing.assert_allclose(ratios["coef"], np.exp(plain["coef"]))
    np.testing.assert_allclose(ratios["std err"], np.exp(plain["coef"]) * plain["std err"])
    np.testing.assert_allclose(ratios[["z", "P>|z|"]], plain[["z", "P>|z|"]])
    np.testing.assert_allclose(ratios[["[0.025", "0.975]"]], np.exp(plain[["[0.025", "0.975]"]]))
    table = Table(Gaussian(), X, Y)
    with pytest.raises(UnsuitablePair, match="this model has the link identity"):
        Inference(table.statistics(table.newton(np.zeros(3), 1))).summary(exponentiate=True)


def test_t_is_used_where_the_dispersion_is_estimated_unless_told_otherwise():
    table = Table(Gamma(), X, Y + 1)
    ours = Inference(table.statistics(table.newton(np.array([0.0, 0.0, 1.0]), 20)))
    assert list(ours.summary().to_frame().columns[2:4]) == ["t", "P>|t|"]
    assert "Student's t with 5 degrees of freedom." in str(ours.summary())
    assert list(ours.summary(use_t=False).to_frame().columns[2:4]) == ["z", "P>|z|"]
    assert ours.summary(use_t=True).df == ours.statistics.df_resid == 5


def test_aliased_terms_are_na_and_change_nothing_else():
    doubled = np.column_stack([X[:, 0], 2 * X[:, 0], X[:, 1]])
    table, coef = poisson()
    aliased = Table(Poisson(), doubled, Y, names=("age", "twice", "bmi"), aliased=(1,))
    ours = Inference(aliased.statistics([coef[0], 0.0, coef[1], coef[2]]), aliased.curves)
    alone = Inference(table.statistics(coef), table.curves)
    frame = ours.summary().to_frame()
    assert frame.loc["twice"].isna().all()
    np.testing.assert_allclose(frame.drop("twice"), alone.summary().to_frame(), rtol=1e-10)
    assert ours.statistics.df_resid == alone.statistics.df_resid
    assert "NA" in str(ours.summary())
    assert np.isnan(ours.vcov("HC0")[2]).all()
    np.testing.assert_allclose(ours.conf_int(kind="profile")[[0, 1, 3]], alone.conf_int(kind="profile"), rtol=1e-8)
    with pytest.raises(UnsuitablePair, match="do not determine twice"):
        ours.wald_test("twice")
    np.testing.assert_allclose(ours.predict_interval(doubled[:2]), alone.predict_interval(X[:2]))


def test_an_offset_is_no_term_but_moves_predictions():
    offset = np.linspace(-0.5, 0.5, 8)
    ours = fit(offset=offset)
    assert ours.terms == ("Intercept", "age", "bmi <b>")
    ends = ours.predict_interval(X, offset=offset)
    np.testing.assert_allclose(ours.predict_interval(X), ends / np.exp(offset)[:, None])
    with pytest.raises(InvalidData, match=r"offset has shape \(3,\)"):
        ours.predict_interval(X, offset=np.zeros(3))


def test_intervals_beyond_the_link_are_infinite():
    x = np.linspace(1, 3, 12)[:, None]
    y = 1 / (0.05 + 0.4 * x[:, 0]) * np.tile([0.4, 1.8, 0.9], 4)
    table = Table(Gamma(link="inverse"), x, y)
    ours = Inference(table.statistics(table.newton(np.array([0.4, 0.2]), 20)))
    ends = ours.predict_interval([[0.0], [2.0]], 0.99)
    assert np.isinf(ends[0, 1])
    assert np.isfinite(ends[1]).all()
    assert (ends[:, 0] < ends[:, 1]).all()


def test_inflation_is_larger_for_columns_that_go_together():
    alone = fit().vif()
    together = fit(X=np.column_stack([X[:, 0], X[:, 0] + 0.1 * X[:, 1]])).vif()
    assert np.isnan(alone[0])
    assert (alone[1:] >= 1).all()
    assert (together[1:] > 50).all()


def test_a_penalty_leaves_no_inference():
    table, coef = poisson()
    with pytest.raises(UnsuitablePair, match=r"penalty \(l2, alpha=1\).*no p values.*alpha=0"):
        Inference(table.statistics(coef, penalty="l2, alpha=1"))


def test_what_the_fit_has_not_is_refused_by_name():
    ours = fit()
    for call, says in (
        (lambda: ours.vcov("HC4"), "kind must be"),
        (lambda: ours.vcov("cluster"), "no clusters were named"),
        (lambda: ours.predict_interval(X, kind="new"), "kind='mean'"),
        (lambda: ours.predict_interval(X[:, :1]), r"X has shape \(8, 1\)"),
        (lambda: ours.wald_test("weight"), "no term is called 'weight'; the terms are Intercept, age"),
        (lambda: ours.wald_test(np.eye(2)), r"expected \(q, 3\)"),
        (lambda: ours.wald_test(["age", "age"]), "not independent"),
        (lambda: ours.wald_test("age", [1.0, 2.0]), r"values have shape \(2,\)"),
    ):
        with pytest.raises(InvalidInput, match=says):
            call()


def test_clusters_must_be_several_and_bear_few_contrasts():
    with pytest.raises(UnsuitablePair, match="at least 2 clusters"):
        fit(clusters=np.zeros(8), cuts=()).vcov("cluster")
    two = fit(clusters=np.repeat([0, 1], [3, 5]), cuts=(3,))
    assert two.wald_test("age", vcov="cluster").df == 1
    with pytest.raises(InvalidInput, match="rank below the number of clusters"):
        two.wald_test(["age", "bmi <b>"], vcov="cluster")


def test_a_row_that_decides_a_coefficient_alone_has_no_hc3():
    dummy = np.column_stack([X[:, 0], np.arange(8) == 3])
    ours = fit(X=dummy)
    assert ours.statistics.full == 1
    with pytest.raises(UnsuitablePair, match="1 - leverage, which is 0 at 1 rows"):
        ours.vcov("HC3")
    assert np.isfinite(ours.vcov("HC1")).all()


def test_fits_that_are_not_nested_or_not_on_the_same_rows_are_refused():
    table, coef = poisson()
    large = Inference(table.statistics(coef))
    small = Table(Poisson(), X[:, :1], Y, names=("age",))
    fitted = small.newton(np.array([0.0, 1.0]), 12)
    smaller = Inference(small.statistics(fitted))
    test = large.lr_test(smaller)
    assert (test.df, test.distribution) == (1, "chi2")
    assert test.statistic == pytest.approx(smaller.statistics.deviance - large.statistics.deviance)
    assert "bmi <b> = 0" in repr(test)
    with pytest.raises(UnsuitablePair, match="bmi <b> is in the smaller model only"):
        smaller.lr_test(large)
    with pytest.raises(UnsuitablePair, match="they are equal"):
        large.lr_test(large)
    fewer = Table(Poisson(), X[:7, :1], Y[:7], names=("age",))
    with pytest.raises(UnsuitablePair, match="number of rows is 7 and 8"):
        large.lr_test(Inference(fewer.statistics(fewer.newton(np.array([0.0, 1.0]), 12))))
    moved = Table(Poisson(), X[:, :1], Y, names=("age",), offset=0.1 * X[:, 1])
    with pytest.raises(UnsuitablePair, match="null deviance"):
        large.lr_test(Inference(moved.statistics(moved.newton(np.array([0.0, 1.0]), 12))))
    other = Table(Gamma(), X[:, :1], Y + 1, names=("age",))
    with pytest.raises(UnsuitablePair, match="same family and link"):
        large.lr_test(Inference(other.statistics(other.newton(np.array([0.0, 1.0]), 20))))


def test_no_degrees_of_freedom_for_t_are_refused():
    table = Table(Gaussian(), X[:3], Y[:3], cuts=(1, 2))
    with pytest.raises(UnsuitablePair, match="3 rows and 3 coefficients"):
        Inference(table.statistics(table.newton(np.zeros(3), 1))).summary()


def test_a_model_of_two_groups_has_an_odds_ratio_by_hand():
    x = np.repeat([0.0, 1.0], [30, 50])[:, None]
    y = np.concatenate([np.repeat([0.0, 1.0], [20, 10]), np.repeat([0.0, 1.0], [15, 35])])
    table = Table(Binomial(), x, y)
    frame = Inference(table.statistics(table.newton(np.zeros(2), 10))).summary(exponentiate=True).to_frame()
    odds = (35 / 15) / (10 / 20)
    assert frame["coef"].iloc[1] == pytest.approx(odds)
    assert frame["std err"].iloc[1] == pytest.approx(odds * np.sqrt(1 / 20 + 1 / 10 + 1 / 15 + 1 / 35))
