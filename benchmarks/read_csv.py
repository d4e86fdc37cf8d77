"""Time of reading a CSV file: pandas' C reader, glmesh, and glmesh without pyarrow, side by side.

    python benchmarks/read_csv.py [SIZE_MB]

SIZE_MB is the size of the file that is written first (default 500). The readers take turns in this process, since others
may use the machine too; the best of five turns counts (of one without pyarrow). Writes reports/read_csv.md.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from common import machine, table, write

from glmesh.files import arrow
from glmesh.files.data_files import read_table

COLUMNS = 20
TURNS = 5


def write_csv(path: Path, megabytes: float) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as stream:
        stream.write(",".join([*(f"x{k}" for k in range(COLUMNS)), "y"]) + "\n")
        while stream.tell() < megabytes * 1e6:
            block = pd.DataFrame(rng.standard_normal((20_000, COLUMNS)))
            block[3] = rng.integers(0, 90, len(block))
            block[7] = block[7].where(rng.random(len(block)) < 0.9)  # some cells are missing
            block["y"] = rng.integers(0, 2, len(block))
            block.to_csv(stream, header=False, index=False)


def timed(read: Callable[[], object]) -> tuple[float, float]:
    """Return (seconds, seconds of CPU) of one call."""
    start, before = time.perf_counter(), os.times()
    read()
    after = os.times()
    return time.perf_counter() - start, after.user + after.system - before.user - before.system


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "big.csv")
        write_csv(path, float(sys.argv[1]) if len(sys.argv) > 1 else 500)
        size = path.stat().st_size / 1e6
        exact = np.column_stack([pd.read_csv(path, float_precision="round_trip").to_numpy(dtype=float)])
        readers = {"pandas, C reader": lambda: pd.read_csv(path, engine="c"), "glmesh": lambda: read_table(path)}
        seen = {name: [] for name in readers}
        for _ in range(TURNS):
            for name, read in readers.items():
                seen[name].append(timed(read))
        check(path, exact)
        arrow.WORTH_IT = 1 << 60
        seen["glmesh without pyarrow"] = [timed(lambda: read_table(path))]
        check(path, exact)
    best = {name: (min(wall for wall, _ in times), min(cpu for _, cpu in times)) for name, times in seen.items()}
    pandas = best["pandas, C reader"]
    rows = [
        [name, f"{wall:.2f} s", f"{size / wall:.0f} MB/s", f"{pandas[0] / wall:.2f}", f"{cpu:.2f} s",
         f"{pandas[1] / cpu:.2f}"]
        for name, (wall, cpu) in best.items()
    ]  # fmt: skip
    header = ["reader", "time", "speed", "of pandas", "CPU", "of pandas"]
    write(
        "read_csv",
        f"# Reading a CSV file (`python benchmarks/read_csv.py`)\n\n{size:.0f} MB, {COLUMNS + 1} columns, in the cache of the "
        f"system; {machine()}, pandas {pd.__version__}, pyarrow {version('pyarrow')}. Best of {TURNS} turns (of one without "
        f"pyarrow). What glmesh reads has the bits of pandas' `round_trip` reader.\n\n{table(header, rows)}\n",
    )


def check(path: Path, exact: np.ndarray) -> None:
    """Compare what glmesh reads with the exact numbers, bit by bit."""
    found = read_table(path)
    assert found.y is not None
    assert np.column_stack([found.X, found.y]).tobytes() == exact.tobytes()


if __name__ == "__main__":
    main()
