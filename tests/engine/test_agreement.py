"""Solutions beside scikit-learn's, or beside an interior-point solver's where scikit-learn does not have the problem.

The full product of cases (GLMESH_SOAK=1) is loss x penalty x split x graph x K, and weights and intercepts on fewer
networks; by default every tenth of it, chosen so that each loss, penalty, split, graph and K appears.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from dataclasses import dataclass
from functools import lru_cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from scipy.optimize import minimize, nnls
from scipy.special import expit
from sklearn import linear_model, svm

from glmesh import Cola, Problem, Status, solve
from glmesh.functions import L1, L2, LOSSES, Box, GroupLasso, NonNegative
from tests.cases import SOAK
from tests.catalogue import TEXTBOOK

SMOOTH = ("squared", "logistic", "huber", "squared_hinge")
LABELLED = tuple(name for name, loss in LOSSES.items() if loss.classifies)
PENALTIES = {
    "features": ("l2", "l1", "elasticnet", "box", "nonneg", "group"),
    "samples": ("l2", "elasticnet", "box", "nonneg"),
}
RATIO = 0.2  # l1_ratio of the elastic net
ALPHA = 0.4
LO, HI = -0.3, 0.35  # of the box
GRAPHS, SIZES = ("ring", "grid", "complete"), (1, 3, 16)


@dataclass(frozen=True)
class Task:
    """A problem of the catalogue on one fixed data set per kind of loss and split."""

    loss: str
    penalty: str
    split: str
    variant: str = "plain"  # or weighted, intercept, weighted_intercept

    def __str__(self) -> str:
        return "-".join((self.loss, self.penalty, self.split, self.variant))

    @property
    def intercept(self) -> bool:
        return self.variant in ("intercept", "weighted_intercept")

    @property
    def strongly_convex(self) -> bool:
        """Whether coefficients are determined: an L2 part, or squared loss of independent columns."""
        has_l2 = self.penalty in ("l2", "elasticnet") or self.split == "samples"
        return has_l2 or (self.loss == "squared" and not self.intercept)

    @property
    def weight(self):
        rng = np.random.default_rng(9)
        return 0.5 + rng.random(len(self.data[1])) if self.variant.startswith("weighted") else None

    @property
    def data(self):
        return data_of(self.loss in LABELLED, self.split)

    def problem(self, *, sparse=False):
        X, y = self.data
        bounds = {"lo": LO, "hi": HI}
        penalty = {
            "box": Box(**bounds) if self.split == "features" else L2(1.0, **bounds),
            "nonneg": L1(1.0, lo=0.0) if self.split == "features" else L2(1.0, lo=0.0),
            "group": GroupLasso(groups(X.shape[1])),
        }.get(self.penalty, self.penalty)
        return Problem.glm(
            sp.csr_array(X) if sparse else X,
            y,
            loss=self.loss,
            penalty=penalty,
            alpha=ALPHA,
            l1_ratio=RATIO if self.penalty == "elasticnet" else None,
            split=self.split,
            sample_weight=self.weight,
            fit_intercept=self.intercept,
        )


def groups(p):
    return np.arange(p) % (p // 3)


@lru_cache
def data_of(labelled, split):
    """Well conditioned for CoLA: the columns of A are nearly orthogonal, and remain so if some rows are left out."""
    rng = np.random.default_rng(1)
    m, p = (60, 24) if split == "features" else (18, 240)
    X = np.linalg.qr(rng.standard_normal((max(m, p), min(m, p))))[0]
    X = 1.5 * (X if m > p else X.T) + 0.05 * rng.standard_normal((m, p))
    z = X @ rng.standard_normal(p)
    if labelled:  # noisy, so that few margins are beyond the flat end of a loss
        return X, np.where((z > 0) ^ (rng.random(m) < 0.3), 1.0, -1.0)
    return X, z + 0.3 * rng.standard_normal(m)


# --- references ----------------------------------------------------------------------------------------------


@lru_cache
def reference(task: Task):
    """(coefficients, intercept, objective) of the best model that somebody else finds."""
    coef, intercept = by_scikit_learn(task) or by_quasi_newton(task) or by_interior_points(task)
    return coef, intercept, task.problem().objective(coef, intercept)


def by_scikit_learn(task: Task):
    X, y = task.data
    weight = np.ones(len(y)) if task.weight is None else task.weight
    tight = {"fit_intercept": task.intercept, "tol": 1e-14, "max_iter": 10**6}
    mean = ALPHA / weight.sum()  # Lasso and ElasticNet divide the loss by the sum of the weights
    exact = {**tight, "C": 1 / ALPHA, "random_state": 0}
    dual = {**exact, "tol": 1e-11, "max_iter": 20_000}  # liblinear never reaches less, and would go on for seconds
    model = {
        ("squared", "l2"): lambda: linear_model.Ridge(ALPHA, fit_intercept=task.intercept, solver="cholesky"),
        ("squared", "l1"): lambda: linear_model.Lasso(mean, **tight),
        ("squared", "nonneg"): lambda: linear_model.Lasso(mean, positive=True, **tight),
        ("squared", "elasticnet"): lambda: linear_model.ElasticNet(mean, l1_ratio=RATIO, **tight),
        ("logistic", "l2"): lambda: logistic(0.0, solver="lbfgs", **{**exact, "tol": 1e-10}),
        ("logistic", "l1"): lambda: logistic(1.0, solver="saga", **exact),
        ("logistic", "elasticnet"): lambda: logistic(RATIO, solver="saga", **exact),
        ("hinge", "l2"): lambda: svm.LinearSVC(loss="hinge", **dual),
        ("squared_hinge", "l2"): lambda: svm.LinearSVC(loss="squared_hinge", **dual),
        ("epsilon_insensitive", "l2"): lambda: svm.LinearSVR(epsilon=0.1, **dual),
        ("squared_epsilon_insensitive", "l2"): lambda: svm.LinearSVR(
            epsilon=0.1, loss="squared_epsilon_insensitive", **dual
        ),
    }.get((task.loss, task.penalty))
    if (task.loss, task.penalty) == ("squared", "nonneg") and task.split == "samples":
        return None  # an L2 penalty there, not Lasso's
    if model is None or (task.intercept and task.loss == "squared_hinge"):  # LinearSVC penalises its intercept
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tolerances that cannot be reached are asked for on purpose
        fitted = model().fit(X, y, sample_weight=weight)
    return np.ravel(fitted.coef_), float(np.ravel(fitted.intercept_)[0])


def logistic(l1_ratio, **options):
    """LogisticRegression whatever scikit-learn calls its penalty this year."""
    if tuple(int(part) for part in sklearn.__version__.split(".")[:2]) < (1, 8):
        options["penalty"] = {0.0: "l2", 1.0: "l1"}.get(l1_ratio, "elasticnet")
        l1_ratio = l1_ratio if options["penalty"] == "elasticnet" else None
    return linear_model.LogisticRegression(l1_ratio=l1_ratio, **options)


def by_quasi_newton(task: Task):
    """Logistic loss on a box: smooth, and the one loss that Clarabel's cones do not solve to ten digits."""
    if task.loss != "logistic" or task.penalty not in ("box", "nonneg"):
        return None
    X, y = task.data
    weight = np.ones(len(y)) if task.weight is None else task.weight
    l1 = ALPHA * (task.split == "features" and task.penalty == "nonneg")  # linear on x >= 0
    l2 = ALPHA * (task.split == "samples")

    def value_and_gradient(wb):
        w, b = wb[:-1], wb[-1] * task.intercept
        margin = y * (X @ w + b)
        slope = -weight * y * expit(-margin)
        value = weight @ np.logaddexp(0.0, -margin) + l1 * w.sum() + l2 / 2 * w @ w
        return value, np.r_[X.T @ slope + l1 + l2 * w, slope.sum() * task.intercept]

    bound = (LO, HI) if task.penalty == "box" else (0.0, None)
    bounds = [bound] * X.shape[1] + [(None, None)]
    tight = {"ftol": 0.0, "gtol": 1e-12, "maxiter": 10**5, "maxfun": 10**6, "maxcor": 50}
    found = minimize(value_and_gradient, np.zeros(len(bounds)), jac=True, bounds=bounds, options=tight)
    return found.x[:-1], float(found.x[-1])


def by_interior_points(task: Task):
    X, y = task.data
    w, b = cp.Variable(X.shape[1]), cp.Variable() if task.intercept else 0.0
    z = X @ w + b
    width, q, eps, delta = 1.0, 0.5, 0.1, 1.35  # the losses' defaults
    loss = {
        "squared": lambda: cp.square(z - y) / 2,
        "logistic": lambda: cp.logistic(-cp.multiply(y, z)),
        "huber": lambda: cp.huber(z - y, delta) / 2,
        "hinge": lambda: cp.pos(1 - cp.multiply(y, z)),
        "squared_hinge": lambda: cp.square(cp.pos(1 - cp.multiply(y, z))),
        "smoothed_hinge": lambda: cp.huber(cp.pos(1 - cp.multiply(y, z)), width) / (2 * width),
        "epsilon_insensitive": lambda: cp.pos(cp.abs(z - y) - eps),
        "squared_epsilon_insensitive": lambda: cp.square(cp.pos(cp.abs(z - y) - eps)),
        "quantile": lambda: q * cp.pos(y - z) + (1 - q) * cp.pos(z - y),
    }[task.loss]()
    square, l1 = cp.sum_squares(w) / 2, cp.norm1(w)
    penalty = {
        "l2": lambda: square,
        "l1": lambda: l1,
        "elasticnet": lambda: RATIO * l1 + (1 - RATIO) * square,
        "box": lambda: 0.0 if task.split == "features" else square,
        "nonneg": lambda: l1 if task.split == "features" else square,
        "group": lambda: sum(cp.norm2(w[groups(X.shape[1]) == label]) for label in np.unique(groups(X.shape[1]))),
    }[task.penalty]()
    lo, hi = {"box": (LO, HI), "nonneg": (0.0, np.inf)}.get(task.penalty, (-np.inf, np.inf))
    bounds = [bound for side, bound in ((lo, w >= lo), (hi, w <= hi)) if np.isfinite(side)]
    weight = np.ones(len(y)) if task.weight is None else task.weight
    problem = cp.Problem(cp.Minimize(weight @ loss + ALPHA * penalty), bounds)
    for tol in (1e-13, 1e-12, 1e-11, 1e-10):  # as tight as it will go
        with warnings.catch_warnings(), contextlib.suppress(cp.SolverError):
            warnings.simplefilter("ignore")  # "may be inaccurate": the last digits that were asked for
            problem.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol, tol_ktratio=1e3 * tol)
            if problem.status == cp.OPTIMAL:
                break
    assert w.value is not None
    return np.clip(w.value, lo, hi), float(b.value) if task.intercept else 0.0


# --- cases ---------------------------------------------------------------------------------------------------

PAIRS = [
    *((loss, penalty, "features") for loss in SMOOTH for penalty in PENALTIES["features"]),
    *((loss, penalty, "samples") for loss in LOSSES for penalty in PENALTIES["samples"]),
]
NETWORKS = list(itertools.product(GRAPHS, SIZES))
PLAIN = [(Task(*pair), *network) for pair in PAIRS for network in NETWORKS]
WEIGHTED = [(Task(*pair, "weighted"), *network) for pair in PAIRS for network in (("ring", 3), ("complete", 16))]
INTERCEPT = [
    (Task(*pair, "intercept"), *network)
    for pair in PAIRS
    if pair[2] == "features"
    for network in (("grid", 1), ("ring", 3), ("complete", 16), ("ring", 16))
]
BOTH = [
    (Task(*pair, "weighted_intercept"), *network)
    for pair in PAIRS
    if pair[2] == "features"
    for network in (("ring", 3), ("complete", 16))
]
FULL = PLAIN + WEIGHTED + INTERCEPT + BOTH
# Nine networks to a pair, and 10 is prime to 9: every tenth walks through all of them and misses few pairs.
CASES = FULL if SOAK else FULL[::10]


def test_the_cases_cover_everything():
    for field in ("loss", "penalty", "split", "variant"):
        assert {getattr(case[0], field) for case in CASES} == {getattr(case[0], field) for case in FULL}
    assert {case[1:] for case in CASES} == set(NETWORKS)
    assert {(case[0].loss, case[0].split) for case in CASES} == {(case[0].loss, case[0].split) for case in FULL}


WORST = {"objective": 0.0, "coef": 0.0}  # of the cases that this process has run


@pytest.mark.parametrize(("task", "graph", "n_nodes"), CASES, ids=lambda value: str(value))
def test_solutions_agree(task, graph, n_nodes):
    coef, intercept, best = reference(task)
    problem = task.problem(sparse=(hash_of(task) + n_nodes) % 2 == 0)
    # |coef - coef*|^2 <= 2 gap / mu, so this gap is enough for 1e-5 where coefficients are determined
    tol = 0.5e-10 * ALPHA * (1 - RATIO) / best if task.strongly_convex else 1e-8
    result = solve(
        problem,
        method=Cola(local_passes=5),
        topology=graph,
        n_nodes=n_nodes,
        tol=tol,
        max_rounds=50_000,
        record_every=25,
    )
    assert result.status is Status.CONVERGED, result.message
    found = problem.objective(result.coef, result.intercept)
    assert found == pytest.approx(result.objective, rel=1e-9)
    WORST["objective"] = max(WORST["objective"], abs(found - best) / best)
    assert abs(found - best) <= 1e-6 * best
    if task.strongly_convex:
        away = np.abs(result.coef - coef).max()
        WORST["coef"] = max(WORST["coef"], away)
        assert away <= 1e-5
        assert result.intercept == pytest.approx(intercept, abs=1e-5)


def test_the_worst_of_the_cases(record_property):
    """Goes into the soak report."""
    record_property("cases", len(CASES))
    record_property("worst relative error of an objective", f"{WORST['objective']:.1e}")
    record_property("worst error of a coefficient", f"{WORST['coef']:.1e}")
    assert WORST["objective"] <= 1e-6
    assert WORST["coef"] <= 1e-5


def hash_of(task):
    return sum(map(ord, str(task)))


@pytest.mark.parametrize("task", [Task(*pair, "weighted") for pair in PAIRS], ids=str)
def test_the_objective_is_the_textbooks(task):
    """sum_i s_i loss(y_i, x_i.w) + alpha penalty(w), evaluated without the problem."""
    X, y = task.data
    loss, problem = LOSSES[task.loss](), task.problem()
    w = 0.2 * np.random.default_rng(3).random(X.shape[1])  # inside every box
    square, l1 = w @ w / 2, np.abs(w).sum()
    labels = groups(len(w))
    penalty = {
        "l2": square,
        "l1": l1,
        "elasticnet": RATIO * l1 + (1 - RATIO) * square,
        "box": 0.0 if task.split == "features" else square,
        "nonneg": l1 if task.split == "features" else square,
        "group": sum(np.linalg.norm(w[labels == label]) for label in np.unique(labels)),
    }[task.penalty]
    expected = task.weight @ TEXTBOOK[task.loss](loss, y, X @ w) + ALPHA * penalty
    assert problem.objective(w) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("penalty", ["l2", "elasticnet"])
def test_both_splits_find_the_same_model(loss, penalty):
    """The primal problem split by features and its dual split by samples."""
    X, y = data_of(loss in LABELLED, "features")
    X, y = X[:20], y[:20]
    models = []
    for split in ("features", "samples"):
        problem = Problem.glm(X, y, loss=loss, penalty=penalty, alpha=1.0, split=split)
        models.append(solve(problem, method=Cola(local_passes=5), n_nodes=3, tol=1e-11, record_every=25))
    assert models[0].objective == pytest.approx(models[1].objective, rel=1e-8)
    np.testing.assert_allclose(models[0].coef, models[1].coef, atol=1e-5)


@pytest.mark.parametrize("penalty", ["none", "nonneg"])
def test_unpenalised_problems(penalty):
    """Without l1 or l2 the gap does not close (its dual point would have to be exact), but the solution is found."""
    X, y = data_of(False, "features")
    if penalty == "none":
        problem, best = Problem.glm(X, y, alpha=0.0), np.linalg.lstsq(X, y)[0]
    else:
        problem, best = Problem.glm(X, y, penalty=NonNegative()), nnls(X, y)[0]
    result = solve(problem, method=Cola(local_passes=5), n_nodes=3, stop="rounds", max_rounds=400, record_every=100)
    np.testing.assert_allclose(result.coef, best, atol=1e-8)
