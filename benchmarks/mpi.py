"""What an exchange between ranks costs, beside a bare mpi4py ring that moves the same bytes in the same run.

`python benchmarks/mpi.py` starts mpiexec by itself and writes reports/mpi.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from common import machine, table, write

NODES = 16
LENGTHS = {47_236: 400, 1_000_000: 30}  # of a vector, and exchanges in a repetition
REPEATS = 9


def exchanges(width: int, count: int) -> dict[str, list[float]]:
    """Seconds and processor seconds of an exchange, of ours and of the bare ring, in turn."""
    from mpi4py import MPI

    from glmesh.core.messages import Outbox
    from glmesh.network import mixing, topology
    from glmesh.transports.mpi import ranks

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    seen: dict[str, list[float]] = {"ours": [], "bare": [], "ours cpu": [], "bare cpu": []}
    with ranks() as processes:
        hosted = processes.local_blocks(NODES, 1)
        exchange = processes.exchange(mixing.metropolis(topology.build("ring", NODES, 0)), hosted)
        rows = exchange.allocate(0, width)
        rows[:] = rank
        scalars = np.full((len(rows), 2), float(rank))
        bare, numbers = np.full((len(rows) + 2, width), float(rank)), np.zeros((4, 2))
        first, last = bare[:1], bare[len(rows) - 1 : len(rows)]
        below, above = bare[len(rows) : len(rows) + 1], bare[len(rows) + 1 :]

        def ours() -> None:
            exchange.exchange([Outbox(rows, scalars)])

        def ring() -> None:
            requests = [
                comm.Irecv(below, before, 1), comm.Irecv(above, after, 2),
                comm.Isend(first, before, 2), comm.Isend(last, after, 1),
                comm.Irecv(numbers[2], before, 3), comm.Irecv(numbers[3], after, 4),
                comm.Isend(numbers[0], before, 4), comm.Isend(numbers[1], after, 3),
            ]  # fmt: skip
            MPI.Request.Waitall(requests)

        for repeat in range(REPEATS + 1):
            for name, step in (("ours", ours), ("bare", ring)):
                comm.Barrier()
                wall, cpu = time.perf_counter(), time.process_time()
                for _ in range(count):
                    step()
                if repeat:
                    seen[name].append((time.perf_counter() - wall) / count)
                    seen[f"{name} cpu"].append((time.process_time() - cpu) / count)
    return seen


def rounds(width: int) -> float:
    """Rounds a second of a whole run: a Lasso with 64 features and 100 nonzeros in each."""
    from glmesh import Problem, solve

    rng = np.random.default_rng(0)
    places = np.stack([rng.choice(width, 100, replace=False) for _ in range(64)])
    X = sp.csc_array((rng.normal(size=6400), places.ravel(), np.arange(65) * 100), shape=(width, 64))
    problem = Problem.glm(X, X @ rng.normal(size=64), penalty="l1", alpha=0.1)
    count = max(LENGTHS[width] // 3, 10)
    options = {"n_nodes": NODES, "stop": "rounds", "max_rounds": count, "record_every": count, "runtime": "mpi"}
    return count / solve(problem, **options).seconds


def on_a_rank() -> None:
    from mpi4py import MPI

    found = {}
    for width, count in LENGTHS.items():
        seen = MPI.COMM_WORLD.gather(exchanges(width, count))
        speed = rounds(width)
        if seen is not None:
            found[width] = {name: float(np.median([one[name] for one in seen])) for name in seen[0]} | {"rounds": speed}
    if MPI.COMM_WORLD.Get_rank() == 0:
        print(json.dumps(found))


def main() -> None:
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpiexec is None:
        sys.exit("there is no mpiexec: pip install 'glmesh[mpi]'")
    lines = []
    for n_ranks in (2, 4):
        command = [mpiexec, "-n", str(n_ranks), sys.executable, __file__, "rank"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for width, seen in found.items():
            ours, bare, ours_cpu, bare_cpu = (1000 * seen[name] for name in ("ours", "bare", "ours cpu", "bare cpu"))
            lines.append(
                [n_ranks, f"{int(width):,}", ours, bare, ours / bare, ours_cpu, bare_cpu, ours_cpu / bare_cpu,
                 seen["rounds"]]
            )  # fmt: skip
    header = ["ranks", "numbers in a vector", "exchange (ms)", "bare ring (ms)", "ratio", "CPU (ms)", "bare CPU (ms)",
              "CPU ratio", "rounds/s of a Lasso"]  # fmt: skip
    write(
        "mpi",
        "# Exchanges between ranks (`python benchmarks/mpi.py`)\n\n"
        f"{machine()}.\n\n{NODES} nodes on a ring, as many on each rank: a vector and two numbers go each way between "
        "neighbouring ranks. The bare ring moves the same bytes with mpi4py's Isend, Irecv and Waitall, in turn with "
        f"ours. Medians over {REPEATS} repetitions and all ranks.\n\n" + table(header, lines) + "\n",
    )


if __name__ == "__main__":
    on_a_rank() if sys.argv[1:] == ["rank"] else main()
