"""Estimators beside scikit-learn's: objective, coefficients, intercepts and predictions, on the data sets it brings.

The full product (GLMESH_SOAK=1) is estimator x data x split x K x graph; by default a twentieth of it.
"""

from __future__ import annotations

import itertools
import warnings
from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import datasets, linear_model, svm
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import glmesh
from tests.cases import SOAK

TIGHT = 1e-9
NETWORKS = list(itertools.product((1, 4, 16), ("ring", "complete")))


@lru_cache
def data(name):
    """(X, y, sample weights)."""
    rng = np.random.default_rng(3)
    if name == "text":  # few words of many in each text
        X = sp.random(150, 120, density=0.06, random_state=4, format="csr")
        return X, X @ rng.normal(size=120) + 0.1 * rng.normal(size=150), None
    if name == "text_labels":
        X, y, _ = data("text")
        return X, np.where(y > np.median(y), "spam", "ham"), None
    if name == "weighted":
        X, y, _ = data("diabetes")
        return X, y, rng.integers(0, 4, len(y)) * 0.5
    if name == "weighted_labels":
        X, y, _ = data("breast_cancer")
        return X, y, rng.integers(0, 4, len(y)) * 0.5
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name == "digits":  # three classes of ten, every fourth sample: the same problem, sooner
        keep = np.flatnonzero(y < 3)[::4]
        X, y = X[keep], y[keep]
    return StandardScaler().fit_transform(X), y, None


REGRESSIONS = ("diabetes", "text", "weighted")
LABELS = ("breast_cancer", "wine", "iris", "digits", "text_labels", "weighted_labels")
# name: (ours, scikit-learn's, data, splits)
PAIRS = {
    "ridge": (glmesh.Ridge, linear_model.Ridge, {}, REGRESSIONS, ("features", "samples")),
    "lasso": (glmesh.Lasso, linear_model.Lasso, {"alpha": 0.02}, REGRESSIONS, ("features",)),
    "elastic_net": (glmesh.ElasticNet, linear_model.ElasticNet, {"alpha": 0.1}, REGRESSIONS, ("features", "samples")),
    "svr": (glmesh.LinearSVR, svm.LinearSVR, {"C": 0.1, "epsilon": 0.1}, REGRESSIONS, ("samples",)),
    "squared_svr": (
        glmesh.LinearSVR,
        svm.LinearSVR,
        {"C": 0.1, "epsilon": 0.1, "loss": "squared_epsilon_insensitive"},
        REGRESSIONS,
        ("samples",),
    ),
    "logistic_l2": (glmesh.LogisticRegression, linear_model.LogisticRegression, {}, LABELS, ("features", "samples")),
    "logistic_l1": (
        glmesh.LogisticRegression,
        linear_model.LogisticRegression,
        {"l1_ratio": 1.0},
        LABELS,
        ("features",),
    ),
    "svc": (glmesh.LinearSVC, svm.LinearSVC, {"C": 0.1}, LABELS, ("features", "samples")),
    "hinge": (glmesh.LinearSVC, svm.LinearSVC, {"C": 0.1, "loss": "hinge"}, LABELS, ("samples",)),
}
CASES = [
    (name, on, split, K, graph)
    for name, (_, _, _, sets, splits) in PAIRS.items()
    for on in sets
    for split in splits
    for K, graph in NETWORKS
]


@lru_cache
def theirs(name, on):
    """scikit-learn's, as tight as it goes."""
    _, kind, options, _, _ = PAIRS[name]
    X, y, weight = data(on)
    model = kind(**options, tol=1e-12, max_iter=200_000)
    if name == "logistic_l1":
        model.set_params(solver="saga", tol=1e-9, max_iter=5000)
    if name == "logistic_l2":
        model.set_params(solver="newton-cholesky" if not sp.issparse(X) else "lbfgs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "logistic" in name and len(np.unique(y)) > 2:
            model = OneVsRestClassifier(model).fit(X, y)
            model.coef_ = np.vstack([one.coef_ for one in model.estimators_])
            model.intercept_ = np.concatenate([one.intercept_ for one in model.estimators_])
            return model
        return model.fit(X, y, weight) if weight is not None else model.fit(X, y)


def objective(name, estimator, coef, intercept, X, y, weight):
    """The user's objective, in the estimator's own words, of one linear function."""
    c = np.ones(len(y)) if weight is None else weight
    z = X @ coef + intercept
    p = estimator.get_params()
    if name in ("ridge", "lasso", "elastic_net"):
        if name == "ridge":
            return (c * (y - z) ** 2).sum() + p["alpha"] * coef @ coef
        ratio = p.get("l1_ratio", 1.0)
        net = ratio * np.abs(coef).sum() + (1 - ratio) / 2 * coef @ coef
        return (c * (y - z) ** 2).sum() / (2 * c.sum()) + p["alpha"] * net
    if "svr" in name:
        off = np.maximum(np.abs(y - z) - p["epsilon"], 0)
        loss = off**2 if name == "squared_svr" else off
        return p["C"] * (c * loss).sum() + (coef @ coef + intercept**2) / 2
    if "logistic" in name:
        net = np.abs(coef).sum() if name == "logistic_l1" else coef @ coef / 2
        return p["C"] * (c * np.logaddexp(0, -y * z)).sum() + net
    off = np.maximum(1 - y * z, 0)
    return p["C"] * (c * (off if name == "hinge" else off**2)).sum() + (coef @ coef + intercept**2) / 2


SLOW = ("hinge", "svr", "logistic_l1")  # to these accuracies
QUICK = [case for case in CASES if case[0] not in SLOW and case[1] != "digits"][::13]
QUICK += [("hinge", "iris", "samples", 4, "complete")]


@pytest.mark.parametrize(("name", "on", "split", "K", "graph"), CASES if SOAK else QUICK)
def test_the_answer_is_scikit_learns(name, on, split, K, graph):
    kind, _, options, _, _ = PAIRS[name]
    X, y, weight = data(on)
    estimator = kind(**options, split=split, n_nodes=K, topology=graph, tol=TIGHT, max_rounds=50_000)
    if "logistic" in name:
        estimator.set_params(multi_class="ovr")
    estimator.fit(X, y, weight)
    reference = theirs(name, on)
    classifies = hasattr(estimator, "classes_")
    ours_coef, ours_b = np.atleast_2d(estimator.coef_), np.atleast_1d(estimator.intercept_)
    their_coef, their_b = np.atleast_2d(reference.coef_), np.atleast_1d(reference.intercept_)
    for turn, (coef, b, other, other_b) in enumerate(zip(ours_coef, ours_b, their_coef, their_b, strict=True)):
        target = y
        if classifies:
            positive = estimator.classes_[1 if len(ours_coef) == 1 else turn]
            target = np.where(y == positive, 1.0, -1.0)
        mine = objective(name, estimator, coef, b, X, target, weight)
        best = objective(name, estimator, other, other_b, X, target, weight)
        assert mine <= best * (1 + 1e-6)
        size = np.linalg.norm(np.append(other, other_b))
        if mine >= best * (1 - 1e-9):  # else theirs is not the solution
            assert np.linalg.norm(np.append(coef - other, b - other_b)) <= 1e-4 * size
    if classifies:
        clear = np.abs(np.atleast_2d(reference.decision_function(X).T)).min(axis=0) > 1e-3
        assert (estimator.predict(X) == reference.predict(X))[clear].all()
    else:
        np.testing.assert_allclose(estimator.predict(X), reference.predict(X), rtol=1e-3, atol=1e-3 * np.abs(y).max())
    assert estimator.split_ == split
