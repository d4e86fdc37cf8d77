"""Time of reading a CSV file: pandas' C reader, glmesh, and glmesh without pyarrow, side by side.

    python benchmarks/read_csv.py [SIZE_MB] [--all]

SIZE_MB is the size of the file that is written first (default 500). Each reader runs in this process, best of two.
--all reads without pyarrow too, which takes some minutes.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from glmesh.files import arrow, data_files

COLUMNS = 20


def write(path: Path, megabytes: float) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as stream:
        stream.write(",".join([*(f"x{k}" for k in range(COLUMNS)), "y"]) + "\n")
        while stream.tell() < megabytes * 1e6:
            block = pd.DataFrame(rng.standard_normal((20_000, COLUMNS)))
            block[3] = rng.integers(0, 90, len(block))
            block[7] = block[7].where(rng.random(len(block)) < 0.9)  # some cells are missing
            block["y"] = rng.integers(0, 2, len(block))
            block.to_csv(stream, header=False, index=False)


def best(read: Callable[[], object]) -> float:
    times = []
    for _ in range(2):
        start = time.perf_counter()
        read()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    numbers = [float(text) for text in sys.argv[1:] if not text.startswith("--")]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "big.csv")
        write(path, numbers[0] if numbers else 500)
        size = path.stat().st_size / 1e6
        exact = pd.read_csv(path, float_precision="round_trip").to_numpy(dtype=float)
        table = data_files.read_table(path)
        assert table.y is not None
        assert np.column_stack([table.X, table.y]).tobytes() == exact.tobytes()
        del table, exact
        pandas = best(lambda: pd.read_csv(path, engine="c"))
        rows = [("pandas, C reader", pandas), ("glmesh", best(lambda: data_files.read_table(path)))]
        if "--all" in sys.argv:
            arrow.WORTH_IT = 1 << 60
            rows.append(("glmesh without pyarrow", best(lambda: data_files.read_table(path))))
        print(f"{size:.0f} MB, {COLUMNS + 1} columns; glmesh's bits are those of pandas' round_trip reader")
        for name, seconds in rows:
            print(f"{name:<24} {seconds:7.2f} s  {size / seconds:6.0f} MB/s  {pandas / seconds:5.2f} x pandas")


if __name__ == "__main__":
    main()
