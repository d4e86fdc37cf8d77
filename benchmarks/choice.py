"""What the cost model of `acceleration="auto"` expects, beside what runs need: totals, sums and rounds of momentum.

GLMESH_DATA=folder python benchmarks/choice.py
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import common
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from glmesh import Cola, Problem, Run
from glmesh.core.block import NetworkInfo
from glmesh.files import data_files
from glmesh.methods import choice
from glmesh.network import topology

TOL = 1e-6  # relative duality gap
MOST = {"newton": 100, "sums": 400, "momentum": 4_000}  # rounds of a run
SECONDS = 15.0  # of a run
GRAPHS = ("complete", "torus", "ring")
SMALL = {"breast cancer": load_breast_cancer, "wine": load_wine, "diabetes": load_diabetes, "digits": load_digits}
TEXT = ("rcv1", "news20")
Rounds = tuple[int, bool]  # (rounds made, whether TOL was reached)


def steepest(X, y, loss: str) -> float:
    """lambda_max."""
    return float(np.abs(X.T @ (y if loss == "squared" else y / 2)).max())


def objectives(name: str, X, y, split: str) -> Iterator[tuple[str, Callable[[], Problem]]]:
    for loss in ("squared", "logistic"):
        l1 = steepest(X, y, loss) / 100
        if split == "features":
            yield f"{name}, {loss}, L1", lambda loss=loss, l1=l1: Problem.glm(X, y, loss=loss, penalty="l1", alpha=l1)
        yield f"{name}, {loss}, L2", lambda loss=loss: Problem.glm(X, y, loss=loss, split=split)
    if split == "samples":
        yield f"{name}, hinge, L2", lambda: Problem.glm(X, y, loss="hinge", split=split)


def by_features() -> Iterator[tuple[str, Callable[[], Problem]]]:
    for name, load in SMALL.items():
        data = load()
        y = np.where(data.target > data.target.mean(), 1.0, -1.0)
        yield from objectives(name, StandardScaler().fit_transform(data.data), y, "features")
    folder = Path(os.environ["GLMESH_DATA"])
    for name in ("madelon", "leukemia"):
        X, y = data_files.load(folder / f"{name}.svm.xz")
        X = StandardScaler().fit_transform(X.toarray() if sp.issparse(X) else X)
        yield from objectives(name, X, np.where(y > 0, 1.0, -1.0), "features")
    for name in TEXT:
        yield from objectives(name, *common.load(name), "features")


def by_rows() -> Iterator[tuple[str, Callable[[], Problem]]]:
    for name, load in SMALL.items():
        data = load()
        y = np.where(data.target > data.target.mean(), 1.0, -1.0)
        yield from objectives(f"{name}, raw", data.data, y, "samples")
        yield from objectives(name, StandardScaler().fit_transform(data.data), y, "samples")
    X, y = data_files.load(Path(os.environ["GLMESH_DATA"]) / "a9a.svm.xz")
    yield from objectives("a9a", X, np.where(y > 0, 1.0, -1.0), "samples")


def needed(problem: Problem, acceleration: str, graph: str) -> Rounds:
    """Rounds to TOL; looked at when they have grown by 5 %."""
    began, look = time.perf_counter(), 1
    with Run(problem, method=Cola(acceleration=acceleration), topology=graph, n_nodes=16, n_jobs=1) as run:
        while run.rounds < MOST[acceleration] and time.perf_counter() - began < SECONDS:
            next(run)
            if run.rounds < look:
                continue
            look = run.rounds + max(1, run.rounds // 20)
            measured = run.measure()
            if measured.gap <= TOL * abs(measured.objective):
                return run.rounds, True
        return run.rounds, False


def told(rounds: Rounds) -> str:
    return f"{'' if rounds[1] else '> '}{rounds[0]:,}"


def taken(problem: Problem, graph: str) -> str:
    info = NetworkInfo.of_graph(topology.build(graph, 16, 0), 0)
    return choice.estimates(choice.Task.of(problem), info)[0].name


def per_sum(momentum: Rounds, sums: Rounds) -> str:
    """Rounds of momentum per sum; a bound where one of them did not arrive."""
    if not momentum[1] and not sums[1]:
        return "–"
    sign = ("> " if not momentum[1] else "") + ("< " if not sums[1] else "")
    return f"{sign}{momentum[0] / sums[0]:.1f}"


def features_table() -> str:
    rows = []
    for name, make in by_features():
        problem = make()
        sums = needed(problem, "sums", "complete")  # as many on any graph
        row: list[object] = [name, told(sums)]
        for graph in GRAPHS:
            momentum = needed(problem, "momentum", graph)
            row += [told(momentum), per_sum(momentum, sums), taken(problem, graph)]
        rows.append(row)
        print(row, flush=True)
    header = ["split by features", "sums"]
    for graph in GRAPHS:
        header += [f"momentum, {graph}", "per sum", "taken"]
    return common.table(header, rows)


def rows_table() -> str:
    rows = []
    for name, make in by_rows():
        problem = make()
        found = [needed(problem, way, "complete") for way in ("newton", "sums", "momentum")]
        rows.append([name, *map(told, found), taken(problem, "ring")])
        print(rows[-1], flush=True)
    return common.table(["split by samples", "totals", "sums", "momentum, complete graph", "taken, ring"], rows)


def main() -> None:
    began = time.perf_counter()
    with threadpool_limits(1):
        rows, features = rows_table(), features_table()
    expected = common.table(
        ["constant", "value"],
        [
            [f"`{name}`", value]
            for name, value in vars(choice).items()
            if name.isupper() and isinstance(value, int | float)
        ],
    )
    common.write(
        "choice",
        f"""# What the cost model expects, and what runs need

{common.machine()}

Rounds to a relative duality gap of {TOL:g}, 16 nodes, alpha = 1 (L2) or lambda_max/100 (L1), no intercept; `> 400`: not
reached in that many, or in {SECONDS:g} s. Runs are looked at when their rounds have grown by 5 %. *Taken* is what `auto` takes
without `network=`. The number of sums is the same on all graphs.

{expected}

## Rows

Totals need a few rounds on any columns. On raw columns sums and momentum often do not arrive, so `SUMS` stands for many.

{rows}

## Features

A sum costs 8 exchanges on the ring of 16, 4 on the torus and 1 where all are neighbours, twice that and not flooded where
vectors are long. It pays where momentum needs more rounds than that for the progress of one sum: `ROUNDS_PER_SUM` +
`ROUNDS_PER_ROOT` times the root of the graph's condition number (1, 2 and 5.1 here), `QUADRATIC_FACTOR` times as many
if loss and penalty are quadratic, `SPARSE_FACTOR` times as many on sparse data (RCV1 and news20).

{features}

This took {time.perf_counter() - began:.0f} s.
""",
    )


if __name__ == "__main__":
    main()
