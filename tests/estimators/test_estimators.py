"""Estimators as scikit-learn expects them, and what users of neighbouring projects report."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
from sklearn import datasets, linear_model, svm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.estimator_checks import estimator_checks_generator

import glmesh
from glmesh import Problem, Status, solve
from glmesh.engine.path import solve_path
from glmesh.errors import InvalidInput
from glmesh.estimators.cross_validation import folds_of
from glmesh.estimators.objective import TrainingData
from glmesh.files import model_files
from glmesh.functions import SmoothedHingeLoss

# every estimator with its defaults but for the tolerance: scikit-learn compares fits with weights to fits with repeated
# samples to seven digits
ESTIMATORS = [
    glmesh.Ridge,
    glmesh.Lasso,
    glmesh.ElasticNet,
    glmesh.LassoCV,
    glmesh.ElasticNetCV,
    glmesh.LinearSVR,
    glmesh.GLMRegressor,
    glmesh.LogisticRegression,
    glmesh.LinearSVC,
    glmesh.GLMClassifier,
    glmesh.PoissonRegressor,
    glmesh.GammaRegressor,
    glmesh.TweedieRegressor,
]
CHECKS = [(estimator, check) for kind in ESTIMATORS for estimator, check in estimator_checks_generator(kind(tol=1e-10))]


@pytest.mark.parametrize(
    ("estimator", "check"), CHECKS, ids=lambda one: getattr(getattr(one, "func", one), "__name__", type(one).__name__)
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_checks_of_scikit_learn_accept_all_estimators(estimator, check):
    check(estimator)


X, Y = datasets.load_diabetes(return_X_y=True)
X = StandardScaler().fit_transform(X)[:120]
Y = Y[:120]
IRIS, FLOWERS = datasets.load_iris(return_X_y=True)
IRIS = StandardScaler().fit_transform(IRIS)
NAMES = np.array(["setosa", "versicolor", "virginica"])[FLOWERS]
SMALL = {"n_nodes": 4, "tol": 1e-8}


@pytest.mark.parametrize("kind", [glmesh.Ridge, glmesh.ElasticNet, glmesh.LinearSVR, glmesh.GLMRegressor])
def test_data_that_is_apart_gives_what_pooled_data_gives(kind):
    options = {"tol": 1e-9, "split": "samples", "max_rounds": 30_000}
    parts = [(X[:20], Y[:20]), (sp.csr_array(X[20:90]), Y[20:90]), (X[90:], Y[90:], np.ones(30))]
    apart, pooled = kind(**options).fit_nodes(parts), kind(n_nodes=3, **options).fit(X, Y)
    np.testing.assert_allclose(apart.coef_, pooled.coef_, rtol=1e-3, atol=1e-3)
    assert apart.intercept_ == pytest.approx(pooled.intercept_, rel=1e-4)
    assert apart.n_features_in_ == 10
    assert len(apart.result_.estimates) == 3


def test_features_may_be_apart():
    parts = [(X[:, :3], Y), (X[:, 3:4], Y), (sp.csc_array(X[:, 4:]), Y)]
    apart = glmesh.Lasso(tol=1e-9, split="features").fit_nodes(parts)
    assert (apart.split_, apart.n_features_in_) == ("features", 10)
    np.testing.assert_allclose(apart.coef_, linear_model.Lasso(tol=1e-10).fit(X, Y).coef_, atol=1e-4)
    assert glmesh.Ridge(tol=1e-9, split="features").fit_nodes(parts).split_ == "features"
    assert glmesh.Ridge(tol=1e-9).fit_nodes([(X[:60], Y[:60]), (X[60:], Y[60:])]).split_ == "samples"


def test_a_node_may_have_one_class_or_nothing():
    order = np.argsort(FLOWERS, kind="stable")
    parts = [(IRIS[order[:50]], NAMES[order[:50]]), (IRIS[order[50:]], NAMES[order[50:]]), (IRIS[:0], NAMES[:0])]
    model = glmesh.LogisticRegression(tol=1e-8).fit_nodes(parts, classes=["setosa", "virginica", "versicolor"])
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    reference = linear_model.LogisticRegression(tol=1e-10).fit(IRIS, NAMES)
    assert (model.predict(IRIS) == reference.predict(IRIS)).all()
    np.testing.assert_allclose(model.predict_proba(IRIS), reference.predict_proba(IRIS), atol=1e-3)
    apart = glmesh.LogisticRegression(tol=1e-8, multi_class="ovr").fit_nodes(parts, classes=NAMES)
    reference = OneVsRestClassifier(linear_model.LogisticRegression(tol=1e-10)).fit(IRIS, NAMES)
    assert (apart.predict(IRIS) == reference.predict(IRIS)).all()
    np.testing.assert_allclose(apart.predict_proba(IRIS), reference.predict_proba(IRIS), atol=1e-3)


@pytest.mark.parametrize("n_nodes", [1, 40])
def test_one_node_and_more_nodes_than_samples_find_the_same_model(n_nodes):
    """One, and more than there are samples or features."""
    model = glmesh.Ridge(n_nodes=n_nodes, tol=1e-9).fit(X[:25], Y[:25])
    np.testing.assert_allclose(model.coef_, linear_model.Ridge().fit(X[:25], Y[:25]).coef_, rtol=1e-3, atol=1e-3)


def test_csr_csc_and_float32_data_give_the_same_model():
    dense = glmesh.Lasso(alpha=0.5, **SMALL).fit(X, Y)
    for matrix in (sp.csr_matrix(X), sp.csc_array(X), np.asfortranarray(X), X.tolist()):
        np.testing.assert_allclose(glmesh.Lasso(alpha=0.5, **SMALL).fit(matrix, Y).coef_, dense.coef_, atol=1e-9)
        np.testing.assert_allclose(dense.predict(matrix), dense.predict(X))
    near = glmesh.Lasso(alpha=0.5, **SMALL).fit(X.astype(np.float32), Y)
    np.testing.assert_allclose(near.coef_, dense.coef_, atol=1e-3)


def test_pipelines_grids_and_pandas_work_as_with_scikit_learn():
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(10)])
    model = glmesh.Lasso(**SMALL).fit(frame, pandas.Series(Y))
    assert model.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])
    grid = GridSearchCV(
        make_pipeline(StandardScaler(), glmesh.LogisticRegression(n_nodes=2, tol=1e-5)),
        {"logisticregression__C": [0.01, 1.0]},
        cv=2,
    ).fit(IRIS, NAMES)
    assert grid.best_params_ == {"logisticregression__C": 1.0}
    assert "LogisticRegression" in estimator_html_repr(grid.best_estimator_)


def test_a_pickle_leaves_the_data_behind():
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(2000, 20))
    model = glmesh.Ridge(n_nodes=2, tol=1e-3).fit(wide, wide[:, 0])
    kept = pickle.dumps(model)
    assert len(kept) < wide.nbytes / 4
    again = pickle.loads(kept)
    np.testing.assert_array_equal(again.predict(wide), model.predict(wide))
    assert again.result_.history["gap"][-1] == model.result_.history["gap"][-1]
    assert model.result_.problem is not None
    assert clone(model).get_params() == model.get_params()


MODELS = {
    "ridge": (lambda: glmesh.Ridge(**SMALL), X, Y),
    "lasso_cv": (lambda: glmesh.LassoCV(alphas=3, cv=2, **SMALL), X, Y),
    "svr": (lambda: glmesh.LinearSVR(n_nodes=2, tol=1e-4), X, Y),
    "quantile": (lambda: glmesh.GLMRegressor("quantile", n_nodes=2, tol=1e-3), X, Y),
    "logistic": (lambda: glmesh.LogisticRegression(**SMALL), IRIS[:100], NAMES[:100]),
    "logistic_of_three": (lambda: glmesh.LogisticRegression(**SMALL), IRIS, NAMES),
    "logistic_against_the_rest": (lambda: glmesh.LogisticRegression(multi_class="ovr", **SMALL), IRIS, NAMES),
    "multinomial": (lambda: glmesh.GLMClassifier(family="multinomial", alpha=1.0, **SMALL), IRIS, NAMES),
    "multinomial_of_two": (
        lambda: glmesh.GLMClassifier(family="multinomial", alpha=1.0, **SMALL),
        IRIS[:100],
        NAMES[:100],
    ),
    "svc_of_three": (lambda: glmesh.LinearSVC(n_nodes=2, tol=1e-4), IRIS, FLOWERS),
    "smoothed_hinge": (lambda: glmesh.GLMClassifier(SmoothedHingeLoss(0.5), n_nodes=2, tol=1e-4), IRIS, NAMES),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_in_files_and_as_plain_scikit_learn_predict_alike(name, tmp_path):
    make, data, target = MODELS[name]
    model = make().fit(data, target)
    plain = model.to_sklearn()
    assert type(plain).__module__.startswith("sklearn")
    model.save(tmp_path / "model.npz")
    again = glmesh.load_model(tmp_path / "model.npz")
    assert type(again) is type(model)
    for other in (plain, again):
        np.testing.assert_array_equal(other.predict(data), model.predict(data))
    if hasattr(model, "classes_"):
        scores = model.decision_function(data)
        np.testing.assert_allclose(plain.decision_function(data), scores, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(again.classes_, model.classes_)
        if hasattr(model, "predict_proba"):
            np.testing.assert_allclose(plain.predict_proba(data), model.predict_proba(data), rtol=1e-9)
    stored = model_files.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(stored.predict(data), model.predict(data))


def test_a_file_of_glmesh_train_is_an_estimator(tmp_path):
    model_files.Model(X[0], 1.5, "huber", "elasticnet", 2.0, 0.25).save(tmp_path / "model")
    model = glmesh.load_model(tmp_path / "model")
    assert isinstance(model, glmesh.GLMRegressor)
    assert (model.loss, model.penalty, model.alpha, model.l1_ratio) == ("huber", "elasticnet", 2.0, 0.25)
    np.testing.assert_allclose(model.predict(X), X @ X[0] + 1.5)


def test_paths_are_scikit_learns_and_warm_starts_pay():
    alphas, coefs, gaps = glmesh.lasso_path(X, Y, alphas=30, eps=1e-2, n_nodes=8, tol=1e-6)
    theirs = linear_model.lasso_path(X, Y, alphas=alphas, tol=1e-10)
    np.testing.assert_allclose(coefs, theirs[1], atol=5e-3 * np.abs(theirs[1]).max())
    total = (Y**2).sum() / (2 * len(Y))
    assert (gaps <= 1e-6 * total).all()
    problem = Problem.glm(X, Y, penalty="l1", alpha=1.0)
    options = {"n_nodes": 8, "tol": 1e-4, "record_every": 2}
    warm = solve_path(problem, alphas * len(Y), **options)
    cold = [solve(problem.with_alpha(a * len(Y)), **options).communications for a in alphas]
    assert warm.communications < sum(cold) / 3
    enet = glmesh.enet_path(X, Y, l1_ratio=0.7, alphas=[1.0, 10.0], n_nodes=2, tol=1e-9, return_n_iter=True)
    theirs = linear_model.enet_path(X, Y, l1_ratio=0.7, alphas=[1.0, 10.0], tol=1e-12)
    np.testing.assert_allclose(enet[1], theirs[1], atol=1e-3)
    assert len(enet[3]) == 2


@pytest.mark.parametrize("weighted", [False, True])
def test_cross_validation_is_scikit_learns(weighted):
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(Y)) if weighted else None
    ours = glmesh.LassoCV(alphas=6, eps=0.05, cv=3, n_nodes=3, tol=1e-8).fit(X, Y, weight)
    theirs = linear_model.LassoCV(alphas=ours.alphas_, cv=3, tol=1e-8).fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(ours.mse_path_, theirs.mse_path_, rtol=1e-3)
    assert ours.alpha_ == pytest.approx(theirs.alpha_)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-2)
    if not weighted:
        np.testing.assert_allclose(
            ours.alphas_, linear_model.LassoCV(alphas=6, eps=0.05, cv=3).fit(X, Y).alphas_, rtol=1e-10
        )


def test_folds_are_made_inside_each_node():
    parts = [(X[:70], Y[:70]), (X[70:117], Y[70:117]), (X[117:], Y[117:])]
    model = glmesh.ElasticNetCV(l1_ratio=[0.2, 0.8], alphas=[1.0, 30.0], cv=4, tol=1e-6, split="samples")
    model.fit_nodes(parts)
    assert model.mse_path_.shape == (2, 2, 4)
    ratio, at = np.unravel_index(model.mse_path_.mean(axis=2).argmin(), (2, 2))
    assert (model.l1_ratio_, model.alpha_) == ([0.2, 0.8][ratio], [30.0, 1.0][at])
    assert model.split_ == "samples"
    assert model.communications_ > 0
    assert np.isfinite(model.mse_path_).all()
    data = TrainingData([(X, y, np.ones(len(y))) for X, y in parts], pooled=False, split="samples")
    train, test = next(folds_of(data, 4))
    assert [len(rows) for rows in test] == [18, 12, 1]
    assert all(not set(a) & set(b) for a, b in zip(train, test, strict=True))
    with pytest.raises(InvalidInput, match="a number of folds"):
        glmesh.ElasticNetCV(cv=KFold(3), split="samples", alphas=2).fit_nodes(parts)


def test_warm_starts_go_on_from_the_last_fit():
    model = glmesh.Lasso(warm_start=True, **SMALL).fit(X, Y)
    first, found = model.result_.history["objective"][1], model.result_.objective  # known after the first total
    assert model.fit(X, Y).result_.history["objective"][1] == pytest.approx(found, rel=1e-6)
    assert glmesh.Lasso(**SMALL).fit(X, Y).result_.history["objective"][1] == first


def test_parts_of_rows_take_an_l1_penalty_or_none():
    parts = [(X[:50], Y[:50]), (X[50:], Y[50:])]
    ours, theirs = glmesh.Lasso(tol=1e-10).fit_nodes(parts), linear_model.Lasso(tol=1e-12).fit(X, Y)
    np.testing.assert_allclose([*ours.coef_, ours.intercept_], [*theirs.coef_, theirs.intercept_], atol=1e-6)
    ours, theirs = glmesh.Ridge(alpha=0.0, tol=1e-10).fit_nodes(parts), linear_model.LinearRegression().fit(X, Y)
    np.testing.assert_allclose([*ours.coef_, ours.intercept_], [*theirs.coef_, theirs.intercept_], atol=1e-6)


def test_a_fit_tells_certificates_and_warns_of_what_does_not_converge(capsys):
    model = glmesh.LogisticRegression(stop="certificate", n_nodes=3, tol=1e-3, verbose=1).fit(IRIS[:100], NAMES[:100])
    assert model.result_.status is Status.CERTIFIED
    assert "LogisticRegression, split by samples: Certified" in capsys.readouterr().err
    with pytest.warns(ConvergenceWarning, match="raise max_rounds or relax tol"):
        glmesh.LogisticRegression(max_iter=2, n_nodes=3).fit(IRIS[:100], NAMES[:100])


def test_a_plot_has_a_line_per_class_in_six_panels(tmp_path):
    model = glmesh.LinearSVC(n_nodes=2, tol=1e-3).fit(IRIS, NAMES)
    figure = model.plot(tmp_path / "fit.png")
    assert len(figure.axes) == 6
    assert [len(axes.lines) for axes in figure.axes] == [3, 3, 4, 4, 3, 3]  # the gap's panels have the goal too
    assert (tmp_path / "fit.png").stat().st_size > 1000


def test_class_weights_are_scikit_learns():
    weight = {"setosa": 1.0, "versicolor": 5.0}
    ours = glmesh.LinearSVC(class_weight=weight, C=0.1, tol=1e-9, n_nodes=2).fit(IRIS[:100], NAMES[:100])
    theirs = svm.LinearSVC(class_weight=weight, C=0.1, tol=1e-10, max_iter=100_000).fit(IRIS[:100], NAMES[:100])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    ours = glmesh.LinearSVC(class_weight="balanced", C=0.1, tol=1e-9, n_nodes=2).fit(IRIS[30:], NAMES[30:])
    theirs = svm.LinearSVC(class_weight="balanced", C=0.1, tol=1e-10, max_iter=100_000).fit(IRIS[30:], NAMES[30:])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


WRONG = {
    "alpha": (lambda: glmesh.Lasso(alpha=-1).fit(X, Y), "alpha must be a finite number >= 0, got -1"),
    "C": (lambda: glmesh.LinearSVR(C=0).fit(X, Y), "C must be a finite number > 0, got 0"),
    "l1_ratio": (lambda: glmesh.ElasticNet(l1_ratio=2).fit(X, Y), "l1_ratio must be between 0 and 1, got 2"),
    "split": (lambda: glmesh.Lasso(split="rows").fit(X, Y), "split must be 'auto', 'samples' or 'features'"),
    "pair": (lambda: glmesh.GLMClassifier("hinge", split="features").fit(IRIS, FLOWERS), "hinge loss has no form"),
    "hinge": (lambda: glmesh.LinearSVC(loss="hinge", penalty="l1").fit(IRIS, FLOWERS), "penalty='l1' goes with"),
    "loss": (lambda: glmesh.LinearSVC(loss="log").fit(IRIS, FLOWERS), "loss must be 'squared_hinge' or 'hinge'"),
    "penalty": (lambda: glmesh.LogisticRegression(None).fit(IRIS, FLOWERS), "for none say C=float"),
    "kind": (lambda: glmesh.GLMRegressor("hinge").fit(X, Y), "loss must be one of squared, huber"),
    "parts": (lambda: glmesh.Ridge().fit_nodes([]), "parts is empty"),
    "part": (lambda: glmesh.Ridge().fit_nodes([X]), "part 0 must be"),
    "nan": (lambda: glmesh.Ridge().fit_nodes([(X, Y), (X * np.nan, Y)]), "part 1: X holds NaN at row 0, column 0"),
    "rows": (lambda: glmesh.Ridge().fit_nodes([(X, Y[:5])]), "part 0: X has 120 rows, y has shape"),
    "widths": (lambda: glmesh.Ridge(split="samples").fit_nodes([(X, Y), (X[:, :2], Y)]), "same features"),
    "one_class": (lambda: glmesh.LinearSVC().fit(IRIS[:50], NAMES[:50]), "one class only"),
    "weightless": (
        lambda: glmesh.LogisticRegression().fit(IRIS[:100], NAMES[:100], (FLOWERS[:100] == 0) * 2.0),
        "all samples of the class 'versicolor' have weight 0; leave these samples out",
    ),
    "weightless_by_class": (
        lambda: glmesh.LogisticRegression(class_weight={0: 0, 1: 1}).fit(IRIS[:100], FLOWERS[:100]),
        "all samples of the class 0 have weight 0",
    ),
    "weightless_of_three": (
        lambda: glmesh.LinearSVC(n_nodes=3).fit_nodes([(IRIS, NAMES, (FLOWERS == 1) * 1.0)]),
        "all samples of the class 'setosa' and of the class 'virginica' have weight 0",
    ),
    "alphas": (lambda: glmesh.lasso_path(X, Y, alphas=[0.0]), "alphas must be positive"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_parameters_and_data_are_refused_by_name(name):
    wrong, message = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        wrong()


def test_a_node_needs_no_scikit_learn():
    code = "import sys, glmesh; assert 'Lasso' in dir(glmesh); print('glmesh.estimators' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "False"


def test_folds_and_weights_travel_in_the_same_totals():
    options = {"n_nodes": 4, "topology": "complete"}
    few = glmesh.LassoCV(alphas=3, cv=2, **options).fit(X, Y)
    many = glmesh.LassoCV(alphas=20, cv=10, **options).fit(X, Y)
    assert few.communications_ == many.communications_ <= 5  # two totals, and three maxima for units


def test_several_classes_take_the_communications_of_the_slowest():
    model = glmesh.LogisticRegression(n_nodes=4, multi_class="ovr").fit(IRIS, NAMES)
    each = [glmesh.LogisticRegression(n_nodes=4).fit(IRIS, name == NAMES) for name in model.classes_]
    assert [result.communications for result in model.result_] == [one.result_.communications for one in each]
    assert model.n_iter_.tolist() == [one.n_iter_[0] for one in each]
    assert np.array_equal(model.coef_, np.vstack([one.coef_ for one in each]))
    assert np.array_equal(model.dual_gap_, [one.dual_gap_ for one in each])


def test_cross_validation_that_cannot_converge_says_what_to_do():
    with pytest.warns(ConvergenceWarning) as caught:
        glmesh.LassoCV(alphas=2, cv=2, n_nodes=2, max_rounds=1).fit(X, Y)
    expected = (
        "4 of 4 fits of the cross-validation stopped before the tolerance was reached; raise max_rounds or relax tol"
    )
    assert expected in [str(one.message) for one in caught]


@pytest.mark.parametrize("copies", ["no column twice", "a column twice"])
@pytest.mark.parametrize("scale", [1.0, 1e6])
@pytest.mark.parametrize(
    "estimator", [glmesh.Lasso, glmesh.ElasticNet, glmesh.LassoCV, lambda: glmesh.GLMRegressor(penalty="l1")]
)
def test_an_l1_penalty_smaller_than_the_rounding_of_large_columns_is_proven(estimator, scale, copies):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 6))
    y = scale * (X @ rng.normal(size=6) + rng.normal(size=120))
    X *= 10.0 ** np.array([9, -6, 3, 0, 6, -3])
    if copies == "a column twice":
        X[:, 4] = X[:, 0]
    model = estimator().fit(X, y)
    assert model.result_.status is Status.CONVERGED
