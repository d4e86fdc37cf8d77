"""Communications, bytes and seconds of simulated networks on real data, beside solvers that see all of it.

GLMESH_DATA=folder python benchmarks/simulator.py [--data rcv1 news20] [--seconds 400]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import common
import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.svm import LinearSVC

import glmesh
from glmesh import Cola, Problem, Run
from glmesh.formatting import size
from glmesh.solvers import CoordinateDescent

GOALS = (1e-3, 1e-6)
MAX_ROUNDS = 20_000


def problems(X, y) -> dict[str, tuple[Problem, Problem]]:
    """name -> (the problem as it is run, a form of the same that one node solves fast for the reference)."""
    lasso = Problem.glm(X, y, penalty="l1", alpha=float(np.abs(X.T @ y).max()) / 100)
    hinge = Problem.glm(X, y, loss="hinge", alpha=1.0, split="samples")
    logistic = Problem.glm(X, y, loss="logistic", alpha=1.0)
    dual_logistic = Problem.glm(X, y, loss="logistic", alpha=1.0, split="samples")
    return {"Lasso": (lasso, lasso), "L2 logistic": (logistic, dual_logistic), "hinge": (hinge, hinge)}


def reference(name: str, problem: Problem, X, y) -> tuple[float, float]:
    """(best objective, relative duality gap that proves it), from a single node; a Lasso starts from celer's answer."""
    start = None
    if name == "Lasso":
        import celer

        alpha = problem.spec.alpha / X.shape[0]
        start = celer.Lasso(alpha, fit_intercept=False, tol=1e-12, max_iter=1000).fit(sp.csc_matrix(X), y).coef_
    method = Cola(local_passes=10, solver=CoordinateDescent(order="shuffled"))
    result = glmesh.solve(
        problem, n_nodes=1, method=method, tol=1e-8, max_rounds=1_000, record_every=10, warm_start=start
    )
    return result.objective, result.relative_gap


def network(problem: Problem, topology: str, best: float, seconds: float) -> tuple[list[list[object]], float]:
    """Per goal [communications, bytes, seconds, relative gap then]; and the suboptimality at the end."""
    run = Run(problem, topology=topology, method=Cola.printed(), n_jobs=None)
    rows: list[list[object]] = []
    look, suboptimality = 1, np.inf
    while len(rows) < len(GOALS) and run.rounds < MAX_ROUNDS and run.seconds < seconds:
        next(run)
        if run.rounds < look:
            continue
        look = run.rounds + max(1, run.rounds // 100)  # a look costs more than a round; one in a hundred is enough
        measures = run.measure()
        suboptimality = (measures.objective - best) / abs(best)
        while len(rows) < len(GOALS) and suboptimality <= GOALS[len(rows)]:
            gap = f"{measures.gap / abs(measures.objective):.1e}"
            rows.append([run.communications, size(run.bytes), run.seconds, gap])
    run.close()
    while len(rows) < len(GOALS):
        rows.append([f"> {run.communications:,}", f"> {size(run.bytes)}", f"> {run.seconds:.0f}", ""])
    return rows, suboptimality


def overhead(problem: Problem, topology: str, rounds: int = 60) -> float:
    """The share of a round that is not spent in mixing, gradients and the local solver's kernel (one thread)."""
    import glmesh.core.messages
    import glmesh.solvers.compiled

    spent = 0.0

    def timed(function: Callable) -> Callable:
        def call(*args, **kwargs):
            nonlocal spent
            began = time.perf_counter()
            result = function(*args, **kwargs)
            spent += time.perf_counter() - began
            return result

        return call

    run = Run(problem, topology=topology, n_jobs=1)
    for _ in range(5):
        next(run)
    f = run.blocks[0].f
    kernels = (glmesh.core.messages.mix, glmesh.solvers.compiled.solve_nodes)
    glmesh.core.messages.mix, glmesh.solvers.compiled.solve_nodes = map(timed, kernels)
    f.gradient = timed(f.gradient)  # type: ignore[method-assign]
    try:
        began, spent = run.seconds, 0.0
        for _ in range(rounds):
            next(run)
        return 1 - spent / (run.seconds - began)
    finally:
        glmesh.core.messages.mix, glmesh.solvers.compiled.solve_nodes = kernels
        del f.gradient


def ladder(make: Callable[[float], object], X, y, tolerances) -> Iterator[tuple[float, np.ndarray]]:
    """(seconds, coefficients) for tighter and tighter tolerances; the first fit is done once more, warm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", UserWarning)
        make(tolerances[0]).fit(X, y)
        for tolerance in tolerances:
            began = time.perf_counter()
            model = make(tolerance).fit(X, y)
            yield time.perf_counter() - began, np.ravel(model.coef_)


def rivals(name: str, problem: Problem, m: int) -> dict[str, Callable[[float], object]]:
    import celer
    import skglm

    if name == "Lasso":
        alpha = problem.spec.alpha / m
        return {
            "scikit-learn Lasso": lambda tol: Lasso(alpha, fit_intercept=False, tol=tol, max_iter=100_000),
            "celer": lambda tol: celer.Lasso(alpha, fit_intercept=False, tol=tol, max_iter=1000),
            "skglm": lambda tol: skglm.Lasso(alpha, fit_intercept=False, tol=tol, max_iter=1000),
        }
    if name == "L2 logistic":
        return {
            "liblinear (dual)": lambda tol: LogisticRegression(
                C=1.0, solver="liblinear", dual=True, fit_intercept=False, tol=tol, max_iter=100_000
            ),
            "scikit-learn lbfgs": lambda tol: LogisticRegression(
                C=1.0, solver="lbfgs", fit_intercept=False, tol=tol, max_iter=100_000
            ),
        }
    return {
        "liblinear": lambda tol: LinearSVC(
            C=1.0, loss="hinge", dual=True, fit_intercept=False, tol=tol, max_iter=1_000_000
        ),
    }


def rival_rows(name: str, problem: Problem, best: float, X, y, budget: float) -> list[list[object]]:
    X = sp.csr_matrix(X) if name != "Lasso" else sp.csc_matrix(X)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    rows = []
    for label, make in rivals(name, problem, X.shape[0]).items():
        reached: list[str] = []
        spent, suboptimality = 0.0, np.inf
        for seconds, coef in ladder(make, X, y, [10.0**-k for k in range(1, 15)]):
            spent += seconds
            suboptimality = (problem.objective(coef) - best) / abs(best)
            while len(reached) < len(GOALS) and suboptimality <= GOALS[len(reached)]:
                reached.append(f"{seconds:.2f}")
            if len(reached) == len(GOALS) or spent > budget:
                break
        reached += [f"> {seconds:.0f} (at {suboptimality:.0e})"] * (len(GOALS) - len(reached))
        rows.append([label, "one machine, all data", "–", "–", reached[0], "–", "–", reached[1], "", ""])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="*", default=list(common.FILES))
    parser.add_argument("--seconds", type=float, default=400.0, help="cap of a run's own time")
    options = parser.parse_args()
    text = [
        "# Simulated networks on real data\n",
        f"{common.machine()}\n",
        "Printed CoLA, K = 16, default settings, one process; Lasso at lambda_max/100 and L2 logistic (alpha = 1) split by "
        "features, hinge (alpha = 1) split by samples. Suboptimality is relative to a reference that a duality gap proves. "
        f"Cap: {MAX_ROUNDS:,} rounds or {options.seconds:.0f} s. *Gap* is the global duality gap at that moment. *Overhead* "
        "is the share of a round outside mixing, gradients and the local solver's kernel (one thread). Rivals are tuned by "
        "their tolerance: the fastest fit that reaches the accuracy. Seconds exclude compilation and looking.\n",
    ]
    header = ["method", "network", "comms to 1e-3", "bytes", "seconds", "gap then", "comms to 1e-6", "bytes / seconds",
              "gap then", "overhead"]  # fmt: skip
    for data in options.data:
        X, y = common.load(data)
        for name, (problem, quick) in problems(X, y).items():
            best, gap = reference(name, quick, X, y)
            rows: list[list[object]] = []
            for topology in ("ring", "complete"):
                (loose, tight), last = network(problem, topology, best, options.seconds)
                share = overhead(problem, topology)
                end = f"{tight[1]} / {tight[2] if isinstance(tight[2], str) else round(float(tight[2]), 1)}"
                rows.append(
                    ["glmesh", topology, *loose, tight[0], end, tight[3] or f"(at {last:.0e})", f"{100 * share:.1f} %"]
                )
                print(data, name, rows[-1], flush=True)
            rows += [
                [row[0], row[1], "–", "–", row[4], "–", "–", row[7], "", ""]
                for row in rival_rows(name, problem, best, X, y, options.seconds / 4)
            ]
            shape = f"{X.shape[0]:,} × {X.shape[1]:,}, {X.nnz:,} nonzeros"
            text += [f"## {data} ({shape}): {name}\n", f"Reference proven to {gap:.0e} relative.\n"]
            text += [common.table(header, rows), ""]
            common.write("simulator", "\n".join(text))


if __name__ == "__main__":
    main()
