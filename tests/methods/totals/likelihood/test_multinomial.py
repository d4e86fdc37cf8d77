"""Multinomial regression over a network: the models of scikit-learn and statsmodels, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
import statsmodels.api as sm
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

from glmesh import Problem, solve
from glmesh.engine.result import Status
from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.functions import Softmax, Table
from glmesh.inference import Inference
from glmesh.methods import Cola
from glmesh.methods.totals.likelihood.separation import Separation
from tests.cases import SOAK, cases

IRIS, FLOWERS = load_iris(return_X_y=True)
SETS = {"iris": load_iris, "wine": load_wine, "digits": load_digits}
CASES = [(name, C) for name in SETS for C in (0.1, 1.0, 10.0) if SOAK or name != "digits" or C == 1.0]
FREE = {"family": "multinomial", "fit_intercept": True}


def anes():
    """Return (X, y) of the American election study of 1996: five columns, and seven parties as class numbers."""
    data = sm.datasets.anes96.load_pandas()
    columns = [data.exog[name] for name in ("logpopul", "selfLR", "age", "educ", "income")]
    return np.column_stack(columns), np.asarray(data.endog, dtype=float)


@pytest.mark.parametrize(("name", "C"), CASES)
def test_with_l2_the_model_is_scikit_learns(name, C):
    X, y = SETS[name](return_X_y=True)
    X = scale(X)
    result = solve(Problem.glm(X, y, alpha=1.0 / C, **FREE), n_nodes=3, tol=1e-11)
    theirs = LogisticRegression(C=C, tol=1e-12, max_iter=500, solver="newton-cholesky").fit(X, y)
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.coef, theirs.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(result.intercept, theirs.intercept_, rtol=0, atol=1e-6)
    best = result.problem.objective(theirs.coef_, theirs.intercept_)
    assert result.objective == pytest.approx(best, rel=1e-8)
    assert result.objective == pytest.approx(result.problem.objective(result.coef, result.intercept), rel=1e-13)
    assert np.isnan(result.standard_errors_off)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_a_penalty_the_model_is_statsmodels_with_the_first_class_as_reference(fit_intercept):
    X, y = anes()
    result = solve(Problem.glm(X, y, alpha=0.0, family="multinomial", fit_intercept=fit_intercept), n_nodes=3)
    theirs = sm.MNLogit(y, sm.add_constant(X) if fit_intercept else X).fit(method="newton", tol=1e-14, disp=0)
    ours = np.column_stack([result.intercept, result.coef]) if fit_intercept else result.coef
    assert result.status is Status.CONVERGED
    assert (ours[0] == 0.0).all()
    assert np.abs((ours[1:] - theirs.params.T) / theirs.bse.T).max() <= 1e-6
    assert result.standard_errors_off <= 1e-6
    assert result.objective == pytest.approx(-theirs.llf, rel=1e-13)
    assert fit_intercept or (result.intercept == 0.0).all()


def test_without_a_penalty_inference_is_statsmodels():
    X, y = anes()
    result = solve(Problem.glm(X, y, alpha=0.0, **FREE), n_nodes=3)
    theirs = sm.MNLogit(y, sm.add_constant(X)).fit(method="newton", tol=1e-14, disp=0)
    ours = Inference(result.statistics)
    assert ours.terms[:7] == (
        *(f"1: {name}" for name in ("Intercept", "x0", "x1", "x2", "x3", "x4")),
        "2: Intercept",
    )
    np.testing.assert_allclose(ours.coef, theirs.params.T.ravel(), rtol=1e-7)
    np.testing.assert_allclose(ours.vcov(), theirs.cov_params(), rtol=1e-6, atol=1e-9)
    assert result.statistics.rank == 36
    shares = np.bincount(y.astype(int)) / len(y)
    assert result.statistics.null_loss == pytest.approx(-len(y) * (shares * np.log(shares)).sum(), rel=1e-12)


@pytest.mark.parametrize("missing", [False, True])
def test_directions_without_a_maximum_are_asked_for_only_where_a_class_may_have_no_rows(missing, monkeypatch):
    asked = []
    monkeypatch.setattr(Separation, "learn", _noted(Separation.learn, asked))
    X, y = load_iris(return_X_y=True)
    weight = np.where(y == 1, 0.0, 1.0) if missing else np.ones(len(y))
    problem = Problem.glm(
        scale(X), y, sample_weight=weight, penalty="l1", alpha=1.0, family="multinomial", fit_intercept=True
    )
    result = solve(problem, n_nodes=2, tol=1e-6, max_rounds=30)
    assert any(question is not None for question in asked) == missing
    assert missing or result.status is Status.CONVERGED


def _noted(learn, asked):
    """Return `learn` of a Separation, which appends the questions of totals to `asked` beside."""
    return lambda self, question, sums: asked.append(question) or learn(self, question, sums)


def stationary(result, l1, l2):
    """Return by how much a model of all classes misses the conditions of an optimum, relative to `l1`."""
    problem, coef = result.problem, result.coef
    X, y = problem.parts[0].columns.to_scipy().T, problem.parts[0].y.astype(int)
    P = Softmax(len(coef)).mean(np.asarray(X @ coef.T) + result.intercept)
    P[np.arange(len(y)), y] -= 1.0
    slopes = np.asarray(P.T @ X) + l2 * coef
    missed = np.where(coef != 0, np.abs(slopes + l1 * np.sign(coef)), np.maximum(np.abs(slopes) - l1, 0.0))
    return max(missed.max() / l1, np.abs(P.sum(axis=0)).max())


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize("l1_ratio", [0.5, 1.0])
@pytest.mark.parametrize("alpha", [0.5, 2.0, 10.0])
def test_l1_and_elastic_nets_meet_the_conditions_of_an_optimum(n_classes, l1_ratio, alpha):
    X, y = load_wine(return_X_y=True)
    others = np.random.default_rng(0).random(len(y)) < (0.2 if n_classes == 4 else 0.0)
    problem = Problem.glm(
        scale(X), np.where(others, 3, y), penalty="elasticnet", l1_ratio=l1_ratio, alpha=alpha, **FREE
    )
    result = solve(problem, n_nodes=3, tol=1e-11)
    assert result.status is Status.CONVERGED
    assert stationary(result, alpha * l1_ratio, alpha * (1 - l1_ratio)) <= 1e-4
    assert abs(result.intercept.sum()) <= 1e-12


def test_data_that_is_apart_and_sparse_gives_what_pooled_data_gives():
    X = IRIS - IRIS.mean(axis=0)
    pooled = solve(Problem.glm(X, FLOWERS, alpha=0.1, **FREE), n_nodes=3, tol=1e-11)
    parts = [(X[:50], FLOWERS[:50]), (sp.csr_array(X[50:120]), FLOWERS[50:120]), (X[120:], FLOWERS[120:])]
    apart = solve(Problem.from_nodes(parts, alpha=0.1, **FREE), tol=1e-11)  # a class at each of the first nodes
    np.testing.assert_allclose(apart.coef, pooled.coef, atol=1e-8)
    np.testing.assert_allclose(apart.intercept, pooled.intercept, atol=1e-8)
    for k in range(3):
        np.testing.assert_array_equal(apart.coef_of(k), apart.coef)


def test_a_warm_start_begins_at_the_model_whatever_its_common_shift():
    X, y = anes()
    problem = Problem.glm(X, y, alpha=0.0, **FREE)
    result = solve(problem, n_nodes=2)
    shifted = np.column_stack([result.coef, result.intercept]) + np.arange(6.0)
    for start in (result, shifted):
        again = solve(problem, n_nodes=2, warm_start=start)
        assert again.rounds < result.rounds
        np.testing.assert_allclose(again.coef, result.coef, atol=1e-9)
    with pytest.raises(InvalidInput, match="warm_start needs 7 x 5 finite coefficients"):
        solve(problem, n_nodes=2, warm_start=np.zeros(5))


def test_columns_that_depend_on_others_are_left_out_after_the_intercepts():
    X, y = anes()
    more = np.column_stack([X, np.ones(len(y)), X[:, 0] + X[:, 1]])
    plain, result = (solve(Problem.glm(one, y, alpha=0.0, **FREE), n_nodes=2) for one in (X, more))
    assert (result.coef[:, 5:] == 0.0).all()
    np.testing.assert_allclose(result.coef[:, :5], plain.coef, atol=1e-8)


def test_a_class_that_no_row_has_is_known_by_the_family():
    result = solve(Problem.glm(IRIS, FLOWERS, alpha=1.0, family=Softmax(5), fit_intercept=False), n_nodes=2)
    assert result.coef.shape == (5, 4)
    assert result.status is Status.CONVERGED


def test_what_is_no_class_number_and_what_does_not_fit_is_refused():
    with pytest.raises(InvalidData, match=r"holds 0\.5 at row 0, expected a class number"):
        Problem.glm(IRIS, np.where(FLOWERS == 0, 0.5, FLOWERS), **FREE)
    with pytest.raises(InvalidData, match="encode labels first"):
        Problem.glm(IRIS, np.array(["a", "b", "c"])[FLOWERS], **FREE)
    with pytest.raises(InvalidData, match="at least two"):
        Problem.glm(IRIS, np.zeros(150), **FREE)
    with pytest.raises(InvalidData, match="y of node 1 holds 2 at row 0, expected a class number"):
        solve(Problem.from_nodes([(IRIS[:50], FLOWERS[:50]), (IRIS[100:], FLOWERS[100:])], family=Softmax(2)))
    with pytest.raises(InvalidInput, match="has the link 'softmax' alone, got 'probit'"):
        Problem.glm(IRIS, FLOWERS, link="probit", **FREE)
    with pytest.raises(UnsuitablePair, match="use split='samples'"):
        Problem.glm(IRIS, FLOWERS, split="features", **FREE)
    with pytest.raises(UnsuitablePair, match="MaximumLikelihood"):
        solve(Problem.glm(IRIS, FLOWERS, **FREE), n_nodes=2, method=Cola(acceleration="momentum"))
    with pytest.raises(UnsuitablePair, match="an offset that is the same for all classes"):
        solve(Problem.glm(IRIS, FLOWERS, offset=np.ones(150), **FREE), n_nodes=2)
    with pytest.raises(UnsuitablePair, match="add an L1 or L2 penalty"):
        solve(Problem.glm(IRIS, FLOWERS, penalty=Table(lo=np.zeros(())), **FREE), n_nodes=2)


@pytest.mark.parametrize("seed", range(cases(200)))
def test_the_gap_covers_what_is_missing_at_every_tolerance(seed):
    rng = np.random.default_rng(seed)
    m, p, C = int(rng.integers(20, 80)), int(rng.integers(1, 8)), int(rng.integers(2, 7))
    X = rng.normal(size=(m, p)) * 10.0 ** rng.uniform(-1, 1, size=p)
    scores = X @ (rng.normal(size=(p, C)) / np.abs(X).max(axis=0)[:, None]) * 3 + rng.gumbel(size=(m, C))
    y = np.append(np.arange(C), scores.argmax(axis=1)[C:])
    ratio, alpha = float(rng.choice([1.0, 1.0, 0.5, 0.0])), float(10.0 ** rng.uniform(-2, 1))
    problem = Problem.glm(
        X, y, penalty="elasticnet", l1_ratio=ratio, alpha=alpha, family="multinomial", fit_intercept=rng.random() < 0.8
    )
    best = solve(problem, n_nodes=2, tol=1e-11)
    assert best.status is Status.CONVERGED
    for tol in (1e-1, 1e-2, 1e-4):
        result = solve(problem, n_nodes=2, tol=tol)
        assert result.objective - best.objective <= result.gap
