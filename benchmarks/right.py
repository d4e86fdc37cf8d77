"""Default estimators on raw columns: do they end right, and in which time beside scikit-learn's?

    GLMESH_DATA=... python benchmarks/right.py [--only SUBSTRING] [--cache FILE] [--report]

Every estimator is fitted with its defaults once, which compiles kernels, then up to five times in turn with
scikit-learn's counterpart with its defaults, of which the shortest times count, as others use the machine too; and once
with tol=1e-7. Seconds are those of the clock, "cpu" those of the process, all of its threads together (on a busy
machine scikit-learn's may count threads of BLAS that wait). "above" is the objective above the best that is known
(scikit-learn at tight tolerance, a conic solver, or the fit itself), relative; several classes are one against the
rest, and the worst class counts, but LogisticRegression fits them together. `--cache` keeps the references between runs.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import machine, table, write
from scipy.special import logsumexp
from sklearn import datasets, linear_model, svm
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier

import glmesh
from glmesh.functions import LOSSES

LIMIT = 20.0  # [s] a fit may take
REPEATS = 5  # of a fit that is timed, at most,
PATIENCE = 3.0  # [s] and as many as take so long


def from_file(name: str, n_features: int) -> tuple[Any, np.ndarray]:
    """Return (X, y) of a data set in the folder that GLMESH_DATA names; dense where a tenth is not zero."""
    with lzma.open(Path(os.environ["GLMESH_DATA"]) / f"{name}.svm.xz") as file:
        X, y = datasets.load_svmlight_file(file, n_features=n_features)
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return (X.toarray() if X.nnz > 0.2 * X.shape[0] * X.shape[1] else X), y


SETS: dict[str, tuple[str, Callable[[], tuple[Any, np.ndarray]]]] = {
    "breast cancer": ("classes", lambda: datasets.load_breast_cancer(return_X_y=True)),
    "wine": ("classes", lambda: datasets.load_wine(return_X_y=True)),
    "digits": ("classes", lambda: datasets.load_digits(return_X_y=True)),
    "madelon": ("classes", lambda: from_file("madelon", 500)),
    "leukemia": ("classes", lambda: from_file("leukemia", 7129)),
    "a9a": ("classes", lambda: from_file("a9a", 123)),
    "w8a": ("classes", lambda: from_file("w8a", 300)),
    "diabetes": ("numbers", lambda: datasets.load_diabetes(return_X_y=True)),
    "housing": ("numbers", lambda: from_file("housing", 13)),
    "abalone": ("numbers", lambda: from_file("abalone_scale", 8)),
    "cadata": ("numbers", lambda: from_file("cadata", 8)),
}


@dataclass(frozen=True)
class Case:
    """An estimator with its defaults, its objective, and its counterpart in scikit-learn."""

    ours: Callable[..., Any]
    theirs: Callable[[], Any] | None  # defaults of scikit-learn
    loss: str
    scale: Callable[[Any, int], tuple[float, float, float]]  # (model, m) -> factor of the losses, l1, l2
    penalised_intercept: bool = False
    options: tuple[tuple[str, Any], ...] = ()  # of the loss


def by_c(l1_ratio: float = 0.0) -> Callable[[Any, int], tuple[float, float, float]]:
    return lambda model, m: (model.C, l1_ratio, 1.0 - l1_ratio)


def by_alpha(l1_ratio: float) -> Callable[[Any, int], tuple[float, float, float]]:
    """The elastic net's scaling: losses are averaged."""
    return lambda model, m: (1.0 / m, _alpha(model) * l1_ratio, _alpha(model) * (1 - l1_ratio))


def _alpha(model: Any) -> float:
    """The factor of the penalty; None stands for 1 in estimators that are given a loss."""
    alpha = getattr(model, "alpha_", getattr(model, "alpha", 0.0))
    return 1.0 if alpha is None else float(alpha)


def catalogue(model: Any, m: int) -> tuple[float, float, float]:
    return 1.0, 0.0, _alpha(model)


CLASSES = {
    "LogisticRegression": Case(glmesh.LogisticRegression, linear_model.LogisticRegression, "logistic", by_c()),
    "LogisticRegression l1": Case(
        lambda **o: glmesh.LogisticRegression("l1", **o),
        lambda: linear_model.LogisticRegression(l1_ratio=1.0, solver="saga"),
        "logistic",
        by_c(1.0),
    ),
    "LinearSVC": Case(glmesh.LinearSVC, svm.LinearSVC, "squared_hinge", by_c(), True),
    "LinearSVC hinge": Case(
        lambda **o: glmesh.LinearSVC(loss="hinge", **o), lambda: svm.LinearSVC(loss="hinge"), "hinge", by_c(), True
    ),
    "GLMClassifier": Case(glmesh.GLMClassifier, linear_model.LogisticRegression, "logistic", catalogue),
    "GLMClassifier hinge": Case(lambda **o: glmesh.GLMClassifier("hinge", **o), None, "hinge", catalogue),
    "GLMClassifier squared_hinge": Case(
        lambda **o: glmesh.GLMClassifier("squared_hinge", **o), None, "squared_hinge", catalogue
    ),
    "GLMClassifier smoothed_hinge": Case(
        lambda **o: glmesh.GLMClassifier("smoothed_hinge", **o), None, "smoothed_hinge", catalogue
    ),
}
NUMBERS = {
    "Ridge": Case(glmesh.Ridge, linear_model.Ridge, "squared", lambda model, m: (2.0, 0.0, 2.0 * model.alpha)),
    "Lasso": Case(glmesh.Lasso, linear_model.Lasso, "squared", by_alpha(1.0)),
    "ElasticNet": Case(glmesh.ElasticNet, linear_model.ElasticNet, "squared", by_alpha(0.5)),
    "LassoCV": Case(glmesh.LassoCV, linear_model.LassoCV, "squared", by_alpha(1.0)),
    "ElasticNetCV": Case(glmesh.ElasticNetCV, linear_model.ElasticNetCV, "squared", by_alpha(0.5)),
    "LinearSVR": Case(
        glmesh.LinearSVR, svm.LinearSVR, "epsilon_insensitive", by_c(), True, options=(("epsilon", 0.0),)
    ),
    "LinearSVR squared": Case(
        lambda **o: glmesh.LinearSVR(loss="squared_epsilon_insensitive", **o),
        lambda: svm.LinearSVR(loss="squared_epsilon_insensitive", dual=True),
        "squared_epsilon_insensitive",
        by_c(),
        True,
        options=(("epsilon", 0.0),),
    ),
    "GLMRegressor": Case(glmesh.GLMRegressor, linear_model.Ridge, "squared", catalogue),
    "GLMRegressor huber": Case(
        lambda **o: glmesh.GLMRegressor("huber", **o), linear_model.HuberRegressor, "huber", catalogue
    ),
    "GLMRegressor epsilon_insensitive": Case(
        lambda **o: glmesh.GLMRegressor("epsilon_insensitive", **o), None, "epsilon_insensitive", catalogue
    ),
    "GLMRegressor quantile": Case(
        lambda **o: glmesh.GLMRegressor("quantile", **o),
        lambda: linear_model.QuantileRegressor(alpha=0.0),
        "quantile",
        catalogue,
    ),
}


class Objective:
    """The objective of one linear function, with its own arithmetic: no code of the fit."""

    def __init__(self, case: Case, model: Any, X: Any, y: np.ndarray) -> None:
        self.X, self.y = X, y
        self.c, self.l1, self.l2 = case.scale(model, len(y))
        self.loss = LOSSES[case.loss](**dict(case.options))
        self.name, self.penalised = case.loss, case.penalised_intercept

    def __call__(self, w: np.ndarray, b: float) -> float:
        z = self.X @ w + b
        penalty = self.l1 * np.abs(w).sum() + self.l2 / 2 * (w @ w)
        if self.penalised:
            penalty += self.l1 * abs(b) + self.l2 / 2 * b * b
        return self.c * float(self.losses(z).sum()) + float(penalty)

    def losses(self, z: np.ndarray) -> np.ndarray:
        y, margin, error = self.y, self.y * z, np.abs(z - self.y)
        return {
            "squared": lambda: error**2 / 2,
            "logistic": lambda: np.logaddexp(0.0, -margin),
            "hinge": lambda: np.maximum(0.0, 1 - margin),
            "squared_hinge": lambda: np.maximum(0.0, 1 - margin) ** 2,
            "smoothed_hinge": lambda: np.where(
                margin >= 1, 0.0, np.where(margin <= 0, 0.5 - margin, (1 - margin) ** 2 / 2)
            ),
            "huber": lambda: np.where(error <= 1.35, error**2 / 2, 1.35 * error - 1.35**2 / 2),
            "epsilon_insensitive": lambda: np.maximum(0.0, error - getattr(self.loss, "epsilon", 0.1)),
            "squared_epsilon_insensitive": lambda: np.maximum(0.0, error - getattr(self.loss, "epsilon", 0.1)) ** 2,
            "quantile": lambda: np.where(z < y, 0.5, 0.5) * error,
        }[self.name]()

    def references(self) -> list[float]:
        """Return the objective at what other solvers find at tight tolerances."""
        found = []
        for solve in (self._sklearn, self._conic):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found += [self(w, b) for w, b in solve()]
            except Exception as error:
                print("   ", type(error).__name__, str(error)[:90])
        return [value for value in found if np.isfinite(value)]

    def _sklearn(self) -> list[tuple[np.ndarray, float]]:
        X, y, m = self.X, self.y, len(self.y)
        if self.name == "squared":
            if self.l1:
                alpha = (self.l1 + self.l2) / (self.c * m)
                ratio = self.l1 / (self.l1 + self.l2)
                model = linear_model.ElasticNet(alpha=alpha, l1_ratio=ratio, tol=1e-12, max_iter=100_000)
                Xf = X.toarray() if sp.issparse(X) else X
                return [(np.ravel(model.fit(Xf, y).coef_), float(model.intercept_))]
            model = linear_model.Ridge(alpha=self.l2 / self.c, solver="svd")
            return [(np.ravel(model.fit(X, y).coef_), float(np.ravel(model.intercept_)[0]))]
        if self.name == "logistic" and not self.l1:
            solver = "newton-cholesky" if X.shape[1] < 2000 else "lbfgs"
            model = linear_model.LogisticRegression(C=self.c / self.l2, solver=solver, tol=1e-12, max_iter=20_000)
            return [(np.ravel(model.fit(X, y).coef_), float(model.intercept_[0]))]
        return []

    def _conic(self) -> list[tuple[np.ndarray, float]]:
        """Return what Clarabel finds, with columns divided by powers of two."""
        import cvxpy as cp

        X, y, (m, p) = self.X, self.y, self.X.shape
        if m > 25_000 and self.name in ("logistic", "squared", "smoothed_hinge"):
            return []
        norms = np.sqrt(np.asarray((X.multiply(X) if sp.issparse(X) else X * X).sum(axis=0)).ravel() / m)
        scale = np.exp2(np.round(np.log2(np.where(norms > 0, norms, 1.0))))
        A = X @ sp.diags_array(1 / scale) if sp.issparse(X) else X / scale
        u, b = cp.Variable(p), cp.Variable()
        z = A @ u + b
        margin, error = cp.multiply(y, z), z - y
        epsilon = getattr(self.loss, "epsilon", 0.0)
        total = {
            "squared": lambda: cp.sum_squares(error) / 2,
            "logistic": lambda: cp.sum(cp.logistic(-margin)),
            "hinge": lambda: cp.sum(cp.pos(1 - margin)),
            "squared_hinge": lambda: cp.sum_squares(cp.pos(1 - margin)),
            "smoothed_hinge": lambda: cp.sum(cp.huber(cp.pos(1 - margin), 1.0)) / 2,
            "huber": lambda: cp.sum(cp.huber(error, 1.35)) / 2,
            "epsilon_insensitive": lambda: cp.sum(cp.pos(cp.abs(error) - epsilon)),
            "squared_epsilon_insensitive": lambda: cp.sum_squares(cp.pos(cp.abs(error) - epsilon)),
            "quantile": lambda: cp.sum(cp.abs(error)) / 2,
        }[self.name]()
        penalty = self.l1 * cp.norm1(cp.multiply(1 / scale, u)) if self.l1 else 0.0
        if self.l2:
            penalty = penalty + self.l2 / 2 * cp.sum_squares(cp.multiply(1 / scale, u))
        if self.penalised:
            penalty = penalty + (self.l1 * cp.abs(b) if self.l1 else 0) + self.l2 / 2 * cp.square(b)
        problem = cp.Problem(cp.Minimize(self.c * total + penalty))
        problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_gap_abs=1e-12, tol_feas=1e-10, time_limit=120.0)
        return [] if u.value is None else [(u.value / scale, float(b.value))]


class MultinomialObjective(Objective):
    """The objective of all classes together, a function of coefficients (C, p) and intercepts (C,)."""

    def __call__(self, w: Any, b: Any) -> float:
        z = self.X @ w.T + b
        losses = logsumexp(z, axis=1) - z[np.arange(len(z)), self.y.astype(int)]
        return self.c * float(losses.sum()) + float(self.l1 * np.abs(w).sum() + self.l2 / 2 * (w * w).sum())

    def _sklearn(self) -> list[tuple[Any, Any]]:
        if self.l1:
            return []
        solver = "newton-cholesky" if self.X.shape[1] < 2000 else "lbfgs"
        model = linear_model.LogisticRegression(C=self.c / self.l2, solver=solver, tol=1e-12, max_iter=20_000)
        model.fit(self.X, self.y)
        return [(model.coef_, model.intercept_)]

    def _conic(self) -> list[tuple[Any, Any]]:
        import cvxpy as cp

        if len(self.y) > 1000:
            return []
        scale = np.exp2(np.round(np.log2(np.sqrt((self.X * self.X).mean(axis=0)))))
        n = int(self.y.max()) + 1
        u, b = cp.Variable((self.X.shape[1], n)), cp.Variable((1, n))
        z = (self.X / scale) @ u + np.ones((len(self.y), 1)) @ b
        own = np.eye(n)[self.y.astype(int)]
        total = self.c * (cp.sum(cp.log_sum_exp(z, axis=1)) - cp.sum(cp.multiply(own, z)))
        w = cp.multiply((1 / scale)[:, None] * np.ones((1, n)), u)
        problem = cp.Problem(cp.Minimize(total + self.l1 * cp.sum(cp.abs(w)) + self.l2 / 2 * cp.sum_squares(w)))
        problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-10, tol_gap_abs=1e-12, tol_feas=1e-10, time_limit=120.0)
        return [] if u.value is None else [((u.value / scale[:, None]).T, b.value[0])]


def functions_of(model: Any) -> list[tuple[Any, Any]]:
    """Return (coefficients, intercept) of each linear function of a fitted model, or of all together."""
    if fits_together(model):
        return [(model.coef_, model.intercept_)]
    coef, intercept = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    return [(w, float(b)) for w, b in zip(coef, np.broadcast_to(intercept, len(coef)), strict=True)]


def fits_together(model: Any) -> bool:
    """Return whether a fitted model has several classes that were fitted together."""
    return len(getattr(model, "classes_", ())) > 2 and not isinstance(model.result_, list)


def objectives(case: Case, model: Any, X: Any, y: np.ndarray, kind: str) -> list[Objective]:
    if kind == "numbers":
        return [Objective(case, model, X, y.astype(float))]
    if fits_together(model):
        return [MultinomialObjective(case, model, X, np.searchsorted(model.classes_, y).astype(float))]
    classes = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    return [Objective(case, model, X, np.where(y == one, 1.0, -1.0)) for one in classes]


def fitted(make: Callable[[], Any], X: Any, y: np.ndarray) -> tuple[Any, np.ndarray, str]:
    """Return (model, seconds by the clock and of the process, what it warned of)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.perf_counter(), time.process_time()
        model = make().fit(X, y)
        seconds = np.array([time.perf_counter() - began[0], time.process_time() - began[1]])
    said = [str(one.message).split(":")[0][:40] for one in caught if issubclass(one.category, ConvergenceWarning)]
    return model, seconds, "; ".join(sorted(set(said)))


def shortest(makes: list[Callable[[], Any]], X: Any, y: np.ndarray) -> list[tuple[Any, np.ndarray, str]]:
    """Return what `fitted` does for each of several estimators, fitted in turn; of the seconds the least."""
    for make in makes:
        fitted(make, X, y)
    found = [fitted(make, X, y) for make in makes]
    turns = range(int(min(REPEATS - 1, PATIENCE / sum(one[1][0] for one in found))))
    for _ in turns:
        again = [fitted(make, X, y) for make in makes]
        found = [(m, np.minimum(s, other[1]), said) for (m, s, said), other in zip(found, again, strict=True)]
    return found


def run(
    name: str, kind: str, X: Any, y: np.ndarray, label: str, case: Case, cache: dict[str, list[float]]
) -> dict[str, Any]:
    makes: list[Callable[[], Any]] = [case.ours]
    if case.theirs is not None:
        theirs = case.theirs
        several = kind == "classes" and len(np.unique(y)) > 2 and label == "GLMClassifier"
        makes.append((lambda: OneVsRestClassifier(theirs())) if several else theirs)
    (model, seconds, warned), *others = shortest(makes, X, y)
    their_seconds = others[0][1] if others else np.full(2, np.nan)
    tight, _, tight_warned = fitted(lambda: case.ours(tol=1e-7), X, y)
    values = [
        [o(w, b) for o, (w, b) in zip(objectives(case, one, X, y, kind), functions_of(one), strict=True)]
        for one in (model, tight)
    ]
    key = f"{name} {label} {_alpha(model):.17g}" + " together" * fits_together(model)
    if key not in cache:
        cache[key] = [min(o.references(), default=np.inf) for o in objectives(case, model, X, y, kind)]
    both = zip(*values, cache[key], strict=True)
    same = _alpha(tight) == _alpha(model)
    above = [
        max((v - min(v, t if same else v, best)) / abs(min(v, t if same else v, best) or 1.0) for v, t, best in [e])
        for e in both
    ]
    both = zip(*values, cache[key], strict=True)
    above_tight = [(t - min(v, t, best)) / abs(min(v, t, best) or 1.0) if same else np.nan for v, t, best in both]
    results = model.result_ if isinstance(model.result_, list) else [model.result_]
    return {
        "set": name,
        "estimator": label,
        "split": model.split_,
        "ends": warned or "converged",
        "above": max(above),
        "tol=1e-7": max(above_tight),
        "ends (1e-7)": tight_warned or "converged",
        "rounds": max(r.rounds for r in results),
        "communications": max(r.communications for r in results),
        "seconds": float(seconds[0]),
        "scikit-learn": float(their_seconds[0]),
        "ratio": float(seconds[0] / their_seconds[0]),
        "cpu": float(seconds[1]),
        "cpu ratio": float(seconds[1] / their_seconds[1]),
        "reference": "yes" if np.isfinite(cache[key]).all() else "own",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    cache = json.loads(options.cache.read_text()) if options.cache and options.cache.exists() else {}
    rows = []
    for name, (kind, load) in SETS.items():
        cases = CLASSES if kind == "classes" else NUMBERS
        chosen = {label: case for label, case in cases.items() if options.only in f"{name} {label}"}
        if not chosen:
            continue
        X, y = load()
        for label, case in chosen.items():
            try:
                rows.append(run(name, kind, X, y, label, case, cache))
                row = rows[-1]
                print(
                    " ".join(f"{key}={v:.3g}" if isinstance(v, float) else f"{v}" for key, v in row.items()), flush=True
                )
            except Exception as error:
                rows.append({"set": name, "estimator": label, "ends": f"{type(error).__name__}: {str(error)[:60]}"})
                print(name, label, type(error).__name__, str(error)[:200], flush=True)
            if options.cache:
                options.cache.write_text(json.dumps(cache))
    bad = [
        row
        for row in rows
        if row["ends"] != "converged"
        or row["above"] > 1e-4
        or row["ends (1e-7)"] != "converged"
        or row["tol=1e-7"] > 1e-6
    ]
    good = [row for row in rows if "seconds" in row]
    slow = [f"{row['set']} {row['estimator']}" for row in good if row["seconds"] > 0.05 and row["ratio"] > 3]
    busy = [row for row in good if row["cpu"] > 0.05 and row["cpu ratio"] > 3]
    ratios = [row["ratio"] for row in good if np.isfinite(row["ratio"])]
    summary = (
        f"{len(rows)} fits: {len(rows) - len(bad)} right, {len(bad)} not. Seconds: {len(slow)} of {len(good)} take more "
        f"than 3 times scikit-learn's and more than 50 ms ({', '.join(slow) or 'none'}), {len(busy)} by the process's "
        f"seconds; the median ratio is {np.median(ratios):.2g}, the longest fit "
        f"{max(row['seconds'] for row in good):.3g} s (limit {LIMIT:g}). Load of the machine in the last 15 minutes: "
        f"{os.getloadavg()[2]:.1f}."
    )
    print(summary)
    if options.report:
        header = list(good[0])
        body = [[row.get(key, "") for key in header] for row in rows]
        write(
            "right",
            f"# Default estimators on raw columns\n\n{machine()}\n\n{__doc__}\n{summary}\n\n{table(header, body)}\n",
        )


if __name__ == "__main__":
    main()
