"""Time and memory of a round for 16 to 4,096 nodes on a torus, the data fixed.

python benchmarks/scale.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import common
import numpy as np

from glmesh import Problem, Run

NODES = (16, 64, 256, 1024, 4096)
D, N, PER_COLUMN = 10_000, 40_000, 25


def resident() -> int:
    """Bytes that the process holds now (the arrays of a run live from its start to its end)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def one(n_nodes: int) -> None:
    """In a process of its own, so that memory is this run's."""
    rng = np.random.default_rng(0)
    X = common.sparse(D, N, PER_COLUMN)
    problem = Problem.glm(X, rng.normal(size=D), penalty="l1", alpha=0.5)
    before = resident()
    began = time.perf_counter()
    run = Run(problem, topology="torus", n_nodes=n_nodes, n_jobs=1)
    setup = time.perf_counter() - began
    next(run)
    times = []
    while len(times) < 5 or (sum(times) < 3 and len(times) < 50):
        began = time.perf_counter()
        next(run)
        times.append(time.perf_counter() - began)
    memory = resident() - before
    degree = run.mixing.edges / n_nodes
    work = n_nodes * D * (degree + 1) + problem.composite.columns.nnz
    v, shared = run.estimates.mean(axis=0), problem.composite.columns.dot(run.x)
    error = np.linalg.norm(v - shared) / np.linalg.norm(shared)
    print(n_nodes, degree, setup, min(times), work, memory, error)


def main() -> None:
    rows = []
    for n_nodes in NODES:
        out = subprocess.run(
            [sys.executable, __file__, str(n_nodes)], check=True, capture_output=True, text=True
        ).stdout
        k, degree, setup, seconds, work, memory, error = map(float, out.split())
        vectors = 8 * k * D
        rows.append(
            [f"{int(k):,}", degree, setup, 1e3 * seconds, f"{work:.3g}", 1e9 * seconds / work, memory / 1e6, memory / vectors,
             f"{error:.0e}"]
        )  # fmt: skip
        print(rows[-1], flush=True)
    header = ["nodes", "degree", "set-up s", "ms a round", "arithmetic", "ns per unit of arithmetic", "memory MB",
              "memory / (8 K d)", "error of the mean"]  # fmt: skip
    common.write(
        "scale",
        "# Many nodes\n\n"
        f"{common.machine()}\n\nLasso on a torus, d = {D:,}, n = {N:,}, {N * PER_COLUMN:,} nonzeros, one thread. "
        "*Arithmetic* is K d (degree + 1) + nonzeros; if a round grows no faster, nanoseconds per unit do not grow. Memory is "
        "what the run adds to the process. The last column is |mean v_k - Ax| / |Ax|.\n\n"
        + common.table(header, rows)
        + "\n",
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one(int(sys.argv[1]))
    else:
        main()
