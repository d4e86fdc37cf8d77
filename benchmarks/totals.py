"""How many totals Newton's method takes to a proven relative gap of 1e-6, from zero, beside the figures of its design.

    GLMESH_DATA=... python benchmarks/totals.py [--only SUBSTRING] [--report]

Rows are on a ring of 16 (those of covtype on a ring of 4), columns are as they come, and there is a free intercept. An
L1 penalty has a hundredth of the least weight at which all coefficients are zero; an L2 penalty has the weight 1. A
round is one total; "bytes" are those of all nodes together. The design's figures are of a prototype on pooled data.
"""

from __future__ import annotations

import argparse
import bz2
import lzma
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import load, machine, table, write
from sklearn import datasets

from glmesh import Problem, Result, solve
from glmesh.functions import LOSSES
from glmesh.methods import ProximalNewton

TOLERANCE = 1e-6
MOST_BYTES = 420e6  # of RCV1
MOST_TOTALS = 10  # of RCV1
NODES = {"covtype": 4}
# certified totals of the design's table, by set and objective
DESIGN = {
    "a9a": {"logistic l1": 6, "logistic l2": 7, "huber l1": 5, "squared_hinge l1": 7},
    "w8a": {"logistic l1": 9, "logistic l2": 11, "huber l1": 4, "squared_hinge l1": 10},
    "madelon": {"logistic l1": 4, "logistic l2": 5, "huber l1": 5, "squared_hinge l1": 4},
    "covtype": {"logistic l1": 3, "logistic l2": 7},
    "breast cancer": {"logistic l1": 7, "logistic l2": 9, "huber l1": 5, "squared_hinge l1": 7},
}
SQUARED = {"squared l1": 2, "squared l2": 2}


def from_file(name: str, n_features: int, opener: Callable[..., Any] = lzma.open) -> tuple[Any, np.ndarray]:
    """Return (X, y) of a file in the folder that GLMESH_DATA names, labels -1 and 1; dense if a fifth is not zero."""
    with opener(Path(os.environ["GLMESH_DATA"]) / name) as file:
        X, y = datasets.load_svmlight_file(file, n_features=n_features)
    X, y = sp.csr_array(X), np.where(y == y.max(), 1.0, -1.0)
    return (X.toarray() if X.nnz > 0.2 * X.shape[0] * X.shape[1] else X), y


def breast_cancer() -> tuple[Any, np.ndarray]:
    X, y = datasets.load_breast_cancer(return_X_y=True)
    return X, np.where(y == 1, 1.0, -1.0)


SETS: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "a9a": lambda: from_file("a9a.svm.xz", 123),
    "w8a": lambda: from_file("w8a.svm.xz", 300),
    "madelon": lambda: from_file("madelon.svm.xz", 500),
    "covtype": lambda: from_file("covtype.libsvm.binary.svm.bz2", 54, bz2.open),
    "breast cancer": breast_cancer,
}


def constant_slopes(loss: str, y: np.ndarray) -> np.ndarray:
    """Return the slopes of the losses, shape (m,), at the best constant prediction, which bisection finds."""
    dual = LOSSES[loss]().dual(y, np.ones_like(y))
    low, high = float(y.min()) - 40.0, float(y.max()) + 40.0
    for _ in range(200):
        middle = (low + high) / 2
        slopes = -dual.conjugate_subgradient(np.full_like(y, -middle))
        low, high = (middle, high) if slopes.sum() < 0 else (low, middle)
    return slopes


def largest_l1(loss: str, X: Any, y: np.ndarray) -> float:
    """Return the least weight of an L1 penalty at which all coefficients are zero."""
    return float(np.abs(X.T @ constant_slopes(loss, y)).max())


def problem_of(objective: str, X: Any, y: np.ndarray) -> Problem:
    loss, penalty = objective.split()
    alpha = largest_l1(loss, X, y) / 100 if penalty == "l1" else 1.0
    return Problem.glm(X, y, loss=loss, penalty=penalty, alpha=alpha, split="samples", fit_intercept=True)


def totals(name: str, objective: str, X: Any, y: np.ndarray) -> tuple[Result, float]:
    """Return (result, seconds) of Newton's method on totals."""
    problem = problem_of(objective, X, y)
    began = time.perf_counter()
    nodes = NODES.get(name, 16)
    result = solve(problem, method=ProximalNewton(), n_nodes=nodes, tol=TOLERANCE, stop="certificate", max_rounds=200)
    return result, time.perf_counter() - began


def row(name: str, objective: str, limit: float, X: Any, y: np.ndarray) -> list[object]:
    result, seconds = totals(name, objective, X, y)
    gaps = " ".join(f"{gap / abs(value):.0e}" for gap, value in zip(*measures(result), strict=True))
    proven = result.status.name == "CERTIFIED"
    judged = "yes" if proven and result.rounds <= limit else "no"
    design = limit if objective in SQUARED else limit - 1
    print(
        name,
        objective,
        result.rounds,
        f"(design {design}) {result.bytes / 1e6:.3g} MB {seconds:.2f} s",
        gaps,
        flush=True,
    )
    return [name, objective.replace("_", " "), result.rounds, design, judged, result.bytes / 1e6, seconds]


def measures(result: Result) -> tuple[np.ndarray, np.ndarray]:
    """Return (gaps, objectives) after each total."""
    return result.history["gap"][1:], result.history["objective"][1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    rows = []
    for name, objectives in DESIGN.items():
        limits = {key: value + 1 for key, value in objectives.items()} | SQUARED
        chosen = {key: limit for key, limit in limits.items() if options.only in f"{name} {key}"}
        if chosen:
            X, y = SETS[name]()
            rows += [row(name, objective, limit, X, y) for objective, limit in chosen.items()]
    if options.only in "rcv1 logistic l1":
        X, y = load("rcv1")
        wide = row("rcv1", "logistic l1", MOST_TOTALS + 1, X, y)
        wide[4] = "yes" if wide[4] == "yes" and wide[2] <= MOST_TOTALS and wide[5] <= MOST_BYTES / 1e6 else "no"
        rows.append(wide)
    kept = sum(one[4] == "yes" for one in rows)
    summary = (
        f"{kept} of {len(rows)} keep the limit: one total more than the design, two for the squared loss, and for RCV1 "
        f"{MOST_TOTALS} totals and {MOST_BYTES / 1e6:g} MB."
    )
    print(summary)
    if options.report:
        header = ["set", "objective", "totals", "design", "within the limit", "MB", "seconds"]
        write(
            "totals", f"# Totals of Newton's method\n\n{machine()}\n\n{__doc__}\n{summary}\n\n{table(header, rows)}\n"
        )


if __name__ == "__main__":
    main()
