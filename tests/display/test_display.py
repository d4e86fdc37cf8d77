"""What people see of a fit: text and HTML of results and estimators."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

import glmesh
from glmesh import Problem, Status, solve
from glmesh.display import Curve, Overview, bound_in_words
from glmesh.display.curve import HEIGHT, svg
from glmesh.errors import UnsuitablePair
from glmesh.inference import Summary
from glmesh.methods import Nids
from tests.cases import cases
from tests.notebooks import bundle_of, html_of

EVIL = "<script>alert('1')</script>\"&"


class Page(HTMLParser):
    """Tags, attributes and text of HTML; an end tag that fits no begin fails."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.get_starttag_text().endswith("/>") or self.open[-1:] == [tag]:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def page_of(html: str) -> Page:
    """The HTML, which is whole and refers to nothing outside it, and has no script."""
    page = Page(html)
    assert not page.open
    for tag, attributes in page.tags:
        assert tag not in ("script", "link", "img", "iframe", "object", "embed", "use", "image", "base", "meta", "form")
        for name, value in attributes.items():
            assert name not in ("src", "href", "srcset", "xlink:href")
            assert not name.startswith("on")
            assert "url(" not in (value or "")
    assert "@import" not in html
    assert "url(" not in html
    assert "http" not in html
    return page


def frame(n: int = 60, p: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(n, p)), columns=["age", "bmi", EVIL, "stays", *map(str, range(4, p))][:p])


@pytest.fixture(scope="module")
def results() -> dict[str, glmesh.Result]:
    X = frame()
    y = 2.0 * X["age"] - X["bmi"]
    return {
        "ridge": solve(Problem.glm(X, y, alpha=1.0), n_nodes=4),
        "rounds": solve(Problem.glm(X, y, penalty="l1", alpha=0.1), n_nodes=4, max_rounds=2, tol=1e-12),
        "family": solve(
            Problem.glm(X, np.round(np.exp(y / 4)), family="poisson", alpha=0, fit_intercept=True), n_nodes=3
        ),
    }


def test_a_result_tells_verdict_coefficients_by_name_and_cost(results):
    ridge = results["ridge"]
    assert repr(ridge).startswith("<Result Converged")
    assert f"age {ridge.coef[0]:.4g}, bmi {ridge.coef[1]:.4g}" in repr(ridge)
    text = str(ridge.summary())
    assert re.search(r"^  age  .*\+{20}$", text.replace(EVIL, ""), re.M)
    assert f"{ridge.communications:,} communications" in text
    assert bound_in_words(ridge.gap, ridge.objective) in text
    assert ridge.summary().to_frame()["coef"].to_dict() == dict(zip(ridge.names, ridge.coef, strict=True))


def test_the_html_of_a_result_escapes_names_and_needs_nothing_from_outside(results):
    for result in results.values():
        page = page_of(html_of(result))
        assert EVIL in page.text
        assert "<script>" not in html_of(result)
        assert result.cost in page.text
        assert "ring, " in page.text
        assert "details" in dict(page.tags)


def test_a_fit_without_a_penalty_has_the_table_and_others_an_overview(results):
    table = results["family"].summary(level=0.9)
    assert isinstance(table, Summary)
    assert table.terms == ("Intercept", "age", "bmi", EVIL, "stays")
    assert isinstance(results["ridge"].summary(), Overview)
    with pytest.raises(UnsuitablePair, match="no standard errors"):
        results["ridge"].summary(exponentiate=True)


def test_a_fit_that_did_not_converge_says_so_in_words_and_by_its_mark(results):
    stopped = results["rounds"]
    assert stopped.status is Status.OUT_OF_ROUNDS
    assert not stopped.reached
    assert ">!</b>" in html_of(stopped)
    assert ">✓</b>" in html_of(results["ridge"])
    assert "raise max_rounds" in str(stopped.summary())


def test_a_result_draws_its_goal_and_its_end(results, tmp_path):
    ridge = results["ridge"]
    left, _ = ridge.plot(tmp_path / "r.png", title="ridge").axes
    assert (tmp_path / "r.png").stat().st_size > 1000
    assert any(text.get_text().startswith("goal") for text in left.texts)
    assert len(left.collections) == 1


def test_coefficients_of_a_fit_without_optimum_are_not_passed_off_as_estimates():
    X = frame()
    result = solve(Problem.glm(X, (X["age"] > 0) * 1, family="binomial", alpha=0, fit_intercept=True), n_nodes=2)
    assert result.status is Status.NO_OPTIMUM
    assert "they estimate nothing" in str(result.summary())
    assert "they estimate nothing" in page_of(html_of(result)).text
    assert "Largest coefficients" not in repr(result)
    with pytest.warns(ConvergenceWarning):
        model = glmesh.GLMRegressor(family="binomial", n_nodes=2).fit(X, (X["age"] > 0) * 1)
    assert "they estimate nothing" in str(model.summary())


def test_a_diverged_fit_can_be_shown():
    broken = Overview(title="x", verdict="Diverged.", good=False, terms=("a", "b"), coef=np.array([np.nan, np.inf]))
    assert "nan" in str(broken)
    page_of(html_of(broken))
    nothing = Overview(title="x", verdict="y", good=True, terms=("a",), coef=np.zeros(1))
    assert "1 of 1 coefficients are 0" in str(nothing)
    assert nothing.line == ""


@pytest.mark.parametrize("names", [None, ("age", "bmi", "sex", "stays")])
def test_long_models_are_cut_and_say_so(names):
    coef = np.arange(1.0, 101.0)
    terms = tuple(f"x{k}" for k in range(100))
    long = Overview(title="x", verdict="y", good=True, terms=terms, coef=coef)
    assert "the 40 largest of 100 coefficients that are not 0" in str(long)
    page = page_of(html_of(long))
    assert "the 8 largest of 100" in page.text
    assert "x99" in page.text
    assert "x91" not in page.text


def test_how_it_was_computed_names_model_method_network_and_who_holds_what():
    X = frame()
    for method, split, name, holds in (
        (Nids(), "features", "Nids", "rows"),
        (None, "features", "Cola", "columns"),
        (None, "samples", "ProximalNewton", "rows"),
    ):
        result = solve(Problem.glm(X, X["age"], alpha=0.5, split=split), method=method, topology="star", n_nodes=4)
        how = dict(result.how)
        assert how["model"] == "squared, l2, alpha 0.5"
        assert how["network"] == f"star, 4 nodes with 3 links; each holds {holds}"
        assert how["method"] == name


def test_the_curve_of_a_certified_run_is_what_the_nodes_proved_and_ends_within_the_goal():
    X = frame()
    problem = Problem.glm(X, 2 * X["age"] - X["stays"], penalty="l1", alpha=5.0)
    result = solve(problem, n_nodes=4, tol=1e-5, stop="certificate")
    assert result.status is Status.CERTIFIED
    assert result.curve.points[1][-1] == pytest.approx(result.relative_gap, rel=1e-3)
    assert result.relative_gap <= 1e-5


# --- proofs in words


@pytest.mark.parametrize(
    ("gap", "objective", "says"),
    [
        (0.0, 5.0, "the best possible, up to rounding"),
        (1e-3, 1.0, "at most 0.2 % above"),
        (0.0039e-2, 1.0, "at most 0.004 % above"),
        (1e-3, -1.0, "at most 0.1 % above"),
        (2.0, 3.0, "at most 2 above"),
        (1.0, 0.0, "at most 1 above"),
        (np.inf, 1.0, ""),
        (np.nan, 1.0, ""),
    ],
)
def test_a_gap_in_words_is_an_upper_bound(gap, objective, says):
    said = bound_in_words(gap, objective)
    assert says in said
    assert bool(said) == bool(says)


@pytest.mark.parametrize("seed", range(cases(100)))
def test_the_percentage_bounds_the_excess_over_every_optimum_that_the_gap_allows(seed):
    rng = np.random.default_rng(seed)
    objective, gap = rng.normal() * 10 ** rng.uniform(-3, 3), 10 ** rng.uniform(-9, 1)
    said = re.search(r"at most (\S+) (%)?", bound_in_words(gap, objective))
    best = objective - gap
    excess = 100 * (objective - best) / abs(best) if said.group(2) else objective - best
    assert float(said.group(1)) >= excess * (1 - 1e-9)


# --- the small curve


def test_a_gap_of_0_is_at_the_floor_the_goal_is_drawn_and_the_end_is_marked():
    drawn = svg([Curve(np.array([0, 4, 8]), np.array([1.0, 1e-2, 0.0]))], 1e-4)
    page_of(drawn)
    floor = re.search(r"<text[^>]*y='([\d.]+)'[^>]*>0</text>", drawn).group(1)
    end = re.search(r"class='end' cx='([\d.]+)' cy='([\d.]+)'", drawn)
    assert float(end.group(2)) == pytest.approx(float(floor) - 3, abs=0.11)
    goal = re.search(r"class='goal' d='M[\d.]+ ([\d.]+)H", drawn)
    assert 0 < float(goal.group(1)) < float(end.group(2)) < HEIGHT
    assert "goal 1e-04" in drawn


@pytest.mark.parametrize("gaps", [[], [1.0], [np.inf, 0.0], [np.nan, -1.0, 2.0]])
def test_a_curve_of_fewer_than_two_points_is_left_out(gaps):
    assert svg([Curve(np.arange(len(gaps)), np.array(gaps))], 1e-4) == ""


@pytest.mark.parametrize("gaps", [[0.0, 0.0], [1e-320, 1e300], [3.0, 3.0]])
@pytest.mark.parametrize("goal", [None, 0.0, 1e-6, np.inf])
def test_odd_curves_are_drawn_inside_the_picture(gaps, goal):
    drawn = svg([Curve(np.array([5, 5]), np.array(gaps))], goal)
    for place in re.search(r"points='([^']*)'", drawn).group(1).split():
        assert 0 <= float(place.split(",")[1]) <= HEIGHT


# --- estimators


def test_a_fit_with_as_many_coefficients_as_rows_shows_itself_without_a_table():
    X = frame(3, 2)
    model = glmesh.GLMRegressor(family="gaussian", n_nodes=1).fit(X, [1.0, 2.0, 4.0])
    for fit in (model, model.result_):
        page = page_of(html_of(fit))
        assert "std err" not in page.text
        assert "bmi" in page.text
        assert repr(fit)
        with pytest.raises(UnsuitablePair, match="3 rows and 3 coefficients"):
            fit.summary()


def test_the_html_of_a_fit_without_a_penalty_has_its_table_folded_away(results, tmp_path):
    X = frame()
    for fit in (results["family"], glmesh.PoissonRegressor(alpha=0.0, n_nodes=2).fit(X, np.round(np.exp(X["age"])))):
        page = page_of(html_of(fit))
        assert "Table with standard errors" in page.text
        assert "std err" in page.text
        assert page.text.count(EVIL) == 2  # as a coefficient, and in the table
    fit.save(tmp_path / "p.npz")
    assert "std err" in page_of(html_of(glmesh.load_model(tmp_path / "p.npz"))).text
    assert "std err" not in html_of(results["ridge"])


@pytest.fixture(scope="module")
def cancer() -> tuple[pd.DataFrame, pd.Series]:
    data = load_breast_cancer(as_frame=True)
    return data.data.iloc[:, :6], data.target


def test_a_fitted_estimator_shows_its_fit_and_others_scikit_learns_box(cancer):
    model = glmesh.LogisticRegression(n_nodes=3)
    assert "sk-" in html_of(model)
    assert repr(model.fit(*cancer)) == "LogisticRegression(n_nodes=3)"
    page = page_of(html_of(model))
    assert "sk-" not in html_of(model)
    assert "mean concave" not in page.text
    assert "mean smoothness" in page.text
    assert "Converged" in page.text
    assert "LogisticRegression(n_nodes=3)" in page.text
    bundle = bundle_of(model)
    assert bundle == {"text/plain": repr(model), "text/html": html_of(model)}
    assert "sk-" in bundle_of(clone(model))["text/html"]
    assert "LogisticRegression" in html_of(make_pipeline(model))


def test_scikit_learns_display_text_is_kept(cancer):
    from sklearn import config_context

    model = glmesh.Ridge(n_nodes=2).fit(*cancer)
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert bundle_of(model) == {"text/plain": "Ridge(n_nodes=2)"}


def test_the_overview_of_a_penalised_fit_says_why_there_are_no_standard_errors(cancer):
    model = glmesh.GLMRegressor(family="binomial", alpha=1.0, n_nodes=2).fit(*cancer)
    assert "penalty (l2, alpha=1)" in model.summary().remark
    assert list(model.summary().to_frame().index) == ["Intercept", *cancer[0].columns]
    with pytest.raises(UnsuitablePair, match="penalty"):
        model.summary(vcov="HC0")


def test_classes_have_their_names_and_a_file_has_its_coefficients(tmp_path):
    iris = load_iris(as_frame=True)
    kinds = iris.target_names[iris.target]
    for options in ({}, {"multi_class": "ovr"}):
        model = glmesh.LogisticRegression(n_nodes=2, **options).fit(iris.data, kinds)
        overview = model.summary()
        assert "setosa: petal length (cm)" in overview.terms
        assert [name for name, _ in overview.intercepts] == [f"{kind}: Intercept" for kind in iris.target_names]
        page_of(html_of(model))
        model.save(tmp_path / "iris.npz")
        again = glmesh.load_model(tmp_path / "iris.npz")
        pd.testing.assert_frame_equal(again.summary().to_frame(), overview.to_frame())
        page_of(html_of(again))
        assert "✓" in html_of(model)
        assert "✓" not in html_of(again)  # the file does not say how the fit ended


# --- names of columns


def test_names_are_kept_from_data_frames_to_results():
    X = frame()
    y = X["age"] - X["bmi"]
    halves = [X.iloc[:30], X.iloc[30:]]
    columns = [X.iloc[:, :1], X.iloc[:, 1:]]
    split = {"features": [(part, y) for part in columns], "samples": [(part, y.loc[part.index]) for part in halves]}
    names = tuple(X.columns)
    for how in ("features", "samples"):
        assert solve(Problem.glm(X, y, split=how), n_nodes=2).names == names
        assert solve(Problem.from_nodes(split[how], split=how)).names == names
        assert glmesh.Ridge(n_nodes=2, split=how).fit(X, y).result_.names == names
        assert glmesh.Ridge(n_nodes=2, split=how).fit_nodes(split[how]).result_.names == names
    assert solve(Problem.glm(X.to_numpy(), y), n_nodes=2).names is None
    survival = glmesh.CoxRegressor().fit(X, np.random.default_rng(2).exponential(size=len(X)), X["stays"] > 0)
    assert survival.result_.names == names
    assert dict(survival.result_.how)["network"] == "one node alone"
    svm = glmesh.LinearSVC(n_nodes=2).fit(X, y > 0)
    assert svm.result_.names == (*names, "Intercept")
    noisy = np.exp(y + np.random.default_rng(1).normal(size=len(X)))
    family = Problem.glm(X, noisy, family="gamma", link="log", alpha=0, offset=np.zeros(len(X)), fit_intercept=True)
    result = solve(family, n_nodes=2)
    assert result.names == (*names, "(offset)")
    assert result.summary().terms == ("Intercept", *names)
