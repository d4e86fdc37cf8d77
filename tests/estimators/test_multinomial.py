"""Classes that are fitted together: scikit-learn's logistic regression, files, warm starts, and what is refused."""

import json

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks

import glmesh
from glmesh.cli.app import main
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.files import model_files
from glmesh.functions import Softmax
from tests.cases import SOAK

IRIS, FLOWERS = load_iris(return_X_y=True)
IRIS = scale(IRIS)
NAMES = np.array(["setosa", "versicolor", "virginica"])[FLOWERS]
SETS = {"iris": load_iris, "wine": load_wine, "digits": load_digits}
CASES = [(name, C) for name in SETS for C in (0.1, 1.0, 10.0) if SOAK or name != "digits"]
TIGHT = {"n_nodes": 3, "tol": 3e-13}
GLMClassifier = glmesh.GLMClassifier


@parametrize_with_checks([GLMClassifier(family="multinomial", alpha=1.0, n_nodes=2)])
def test_checks_of_scikit_learn_accept_classes_that_are_fitted_together(estimator, check):
    check(estimator)


@pytest.mark.parametrize("weighing", [None, "balanced"])
@pytest.mark.parametrize(("name", "C"), CASES)
def test_three_or_more_classes_are_scikit_learns(name, C, weighing):
    X, y = SETS[name](return_X_y=True)
    X, weight = scale(X), None if weighing else np.random.default_rng(0).integers(1, 4, len(y)) / 2.0
    ours = glmesh.LogisticRegression(C=C, class_weight=weighing, **TIGHT).fit(X, y, weight)
    theirs = LogisticRegression(C=C, class_weight=weighing, tol=1e-11, solver="newton-cholesky").fit(X, y, weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, rtol=0, atol=5e-6)  # not penalised
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), atol=1e-6, rtol=1e-6)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.dual_gap_ <= 3e-13 * ours.result_.objective
    assert ours.n_iter_.shape == (1,)


def test_without_an_intercept_it_is_scikit_learns_too():
    X = IRIS + 0.3
    ours = glmesh.LogisticRegression(fit_intercept=False, **TIGHT).fit(X, NAMES)
    theirs = LogisticRegression(fit_intercept=False, tol=1e-11, solver="newton-cholesky").fit(X, NAMES)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_array_equal(ours.intercept_, np.zeros(3))


def test_a_classifier_without_a_penalty_has_the_first_class_as_reference():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.array(["a", "b", "c"])[(X @ [[1.0, 0.0, -1.0], [0.0, 1.0, 0.5]] + rng.gumbel(size=(300, 3))).argmax(axis=1)]
    model = GLMClassifier(family="multinomial", alpha=0.0, n_nodes=3).fit(X, y)
    theirs = LogisticRegression(C=np.inf, tol=1e-12, solver="newton-cholesky").fit(X, y)
    assert (model.coef_[0] == 0.0).all()
    assert model.intercept_[0] == 0.0
    np.testing.assert_allclose(model.coef_, theirs.coef_ - theirs.coef_[0], atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), theirs.predict_proba(X), atol=1e-7)
    assert model.result_.standard_errors_off <= 1e-6


def test_two_classes_fitted_together_have_a_row_each_and_half_the_penalty_of_one():
    X, y = IRIS[50:], NAMES[50:]
    both = GLMClassifier(family="multinomial", alpha=2.0, **TIGHT).fit(X, y)
    one = glmesh.GLMClassifier(alpha=1.0, **TIGHT).fit(X, y)
    assert both.coef_.shape == (2, 4)
    np.testing.assert_allclose(both.coef_[1] - both.coef_[0], one.coef_[0], atol=1e-5)
    np.testing.assert_allclose(both.decision_function(X), one.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(both.predict_proba(X), one.predict_proba(X), atol=1e-5)


def test_a_warm_start_is_taken_where_the_classes_are_as_many():
    model = glmesh.LogisticRegression(warm_start=True, n_nodes=2, tol=1e-9).fit(IRIS, NAMES)
    first = model.n_iter_[0]
    assert model.fit(IRIS, NAMES).n_iter_[0] < first
    again = model.fit(IRIS[:100], NAMES[:100])
    assert again.coef_.shape == (1, 4)
    assert again.fit(IRIS, NAMES).coef_.shape == (3, 4)


def test_files_say_whether_classes_were_fitted_together(tmp_path):
    path = tmp_path / "model.npz"
    for multi_class, loss in (("multinomial", "multinomial"), ("ovr", "logistic")):
        model = glmesh.LogisticRegression(multi_class=multi_class, n_nodes=2).fit(IRIS, NAMES)
        model.save(path)
        stored, again = model_files.load(path), glmesh.load_model(path)
        assert (stored.loss, again.multi_class) == (loss, multi_class)
        np.testing.assert_allclose(stored.predict_probability(IRIS), model.predict_proba(IRIS), rtol=1e-9)
        np.testing.assert_allclose(again.predict_proba(IRIS), model.predict_proba(IRIS), rtol=1e-12)


def test_an_older_file_of_several_classes_is_one_against_the_rest(tmp_path):
    path = tmp_path / "model.npz"
    old = {"estimator": "LogisticRegression", "params": json.dumps({"C": 2.0})}
    coef, intercept = np.arange(12.0).reshape(3, 4) / 10, np.arange(3.0)
    classes = ("setosa", "versicolor", "virginica")
    model_files.Model(coef, intercept, "logistic", "custom", 1.0, 0.0, classes, old).save(path)
    model = glmesh.load_model(path)
    p = 1 / (1 + np.exp(-(IRIS @ coef.T + intercept)))
    assert (model.C, model.multi_class) == (2.0, "ovr")
    np.testing.assert_allclose(model.predict_proba(IRIS), p / p.sum(axis=1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_predict_prints_probabilities_of_classes_that_were_fitted_together(tmp_path, capsys, classes):
    rows = NAMES != "virginica" if classes == 2 else NAMES != ""
    frame = pandas.DataFrame(IRIS[rows], columns=["a", "b", "c", "d"])
    model = GLMClassifier(family="multinomial", alpha=1.0, n_nodes=2).fit(frame, NAMES[rows])
    model.save(tmp_path / "model.npz")
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(tmp_path / "model.npz"), str(tmp_path / "new.csv"), "--probability"]) == 0
    printed = np.array([line.split(",") for line in capsys.readouterr().out.splitlines()], dtype=float)
    wanted = model.predict_proba(frame)
    np.testing.assert_allclose(printed, wanted if classes == 3 else wanted[:, 1:], atol=1e-12)
    assert main(["predict", str(tmp_path / "model.npz"), str(tmp_path / "new.csv")]) == 0
    assert capsys.readouterr().out.split() == model.predict(frame).tolist()


def test_what_classes_cannot_be_fitted_together_with_is_refused_with_what_would_do():
    with pytest.raises(UnsuitablePair, match="say split='samples', or fit one class against the rest: multi_class="):
        glmesh.LogisticRegression(split="features").fit(IRIS, NAMES)
    with pytest.raises(InvalidInput, match="local_passes is not for classes that are fitted together"):
        glmesh.LogisticRegression(local_passes=2).fit(IRIS, NAMES)
    with pytest.raises(UnsuitablePair, match="3 classes with 700 features have 2103 coefficients together"):
        glmesh.LogisticRegression().fit(np.tile(IRIS, 175), NAMES)
    with pytest.raises(InvalidInput, match="multi_class must be"):
        glmesh.LogisticRegression(multi_class="auto").fit(IRIS, NAMES)
    with pytest.raises(InvalidInput, match="family must be 'multinomial' or None"):
        GLMClassifier(family="poisson").fit(IRIS, NAMES)
    with pytest.raises(InvalidInput, match="give either loss='hinge' or family='multinomial'"):
        GLMClassifier("hinge", family="multinomial").fit(IRIS, NAMES)
    assert glmesh.LogisticRegression(split="features", multi_class="ovr").fit(IRIS, NAMES).split_ == "features"
    assert glmesh.LogisticRegression(split="features").fit(IRIS[:100], NAMES[:100]).split_ == "features"
    assert Softmax(3).n_outputs == 3


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_infinite_c_is_no_penalty_as_in_scikit_learn(n_classes, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3))
    y = (X @ rng.normal(size=(3, n_classes)) + 2.0 * rng.gumbel(size=(200, n_classes))).argmax(axis=1)
    ours = glmesh.LogisticRegression(C=np.inf, tol=1e-11, n_nodes=3).fit(X, y)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    ours.save(tmp_path / "model.npz")
    assert np.inf == glmesh.load_model(tmp_path / "model.npz").C
