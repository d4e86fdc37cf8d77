"""Shared by the benchmarks: data, the machine, Markdown."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from glmesh.files import data_files

REPORTS = Path(__file__).parent / "reports"
FILES = {
    "rcv1": ("rcv1_subsets.binary.svm.xz", 47236),
    "news20": ("news20.svm.xz", 62061),
}


def load(name: str) -> tuple[sp.csr_array, np.ndarray]:
    """A data set from the folder that the environment variable GLMESH_DATA names, labels -1 and 1, unit rows."""
    folder = os.environ.get("GLMESH_DATA")
    if not folder:
        sys.exit("set GLMESH_DATA to the folder that holds " + ", ".join(file for file, _ in FILES.values()))
    file, n_features = FILES[name]
    X, y = data_files.load(Path(folder) / file, n_features=n_features)
    if name == "news20":  # classes 1-10 against 11-20
        y = np.where(y <= 10, -1.0, 1.0)
    return normalize(X), np.where(y > 0, 1.0, -1.0)


def sparse(d: int, n: int, per_column: int) -> sp.csc_array:
    """A random d x n matrix with so many nonzeros in each column."""
    rng = np.random.default_rng(0)
    stripe = d // per_column
    rows = rng.integers(0, stripe, size=(n, per_column)) + np.arange(per_column) * stripe
    return sp.csc_array((rng.normal(size=rows.size), rows.ravel(), np.arange(n + 1) * per_column), shape=(d, n))


def machine() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0] if names else cpu
    import numba

    return (
        f"{cpu}, {os.cpu_count()} cores (shared with others), Python {platform.python_version()}, "
        f"numpy {np.__version__}, numba {numba.__version__}"
    )


def table(header: list[str], rows: list[list[object]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def write(name: str, text: str) -> None:
    REPORTS.mkdir(exist_ok=True)
    (REPORTS / f"{name}.md").write_text(text)
    print(text)
