"""Shared set-up: kernels never run from a stale cache, and a soak leaves a report."""

from __future__ import annotations

import hashlib
import os
import platform
import signal
import subprocess
from pathlib import Path

import pytest

import glmesh.kernels
from tests.cases import SOAK

_REPORT = Path(__file__).parent.parent / "benchmarks" / "reports" / "soak.md"


def _drop_stale_kernels() -> None:
    """numba notices a change of the file a kernel is in, but not of the files it calls into."""
    folder = Path(glmesh.kernels.__file__).parent
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()
    stamp = folder / "__pycache__" / "sources.sha256"
    if not stamp.exists() or stamp.read_text() != digest:
        for cached in [*folder.glob("__pycache__/*.nbi"), *folder.glob("__pycache__/*.nbc")]:
            cached.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(digest)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        _drop_stale_kernels()
    # a shell that runs the tests in the background starts them with Ctrl-C ignored, and some tests press it
    signal.signal(signal.SIGINT, signal.default_int_handler)


class _SoakReport:
    """A row per file: tests, failures, seconds, and the figures that tests leave with `record_property`.

    Files that did not run keep their rows from before, with the commit that they are about: a whole soak takes most of
    an hour, and one file of it (GLMESH_SOAK=1 pytest FILE) may be soaked alone. Rows of files that are gone go.
    """

    _HEAD = "| file | tests | failed | seconds | commit |"

    def __init__(self) -> None:
        self.rows: dict[str, list[float]] = {}  # tests, failed, seconds
        self.figures: dict[str, list[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            file, _, test = report.nodeid.partition("::")
            row = self.rows.setdefault(file, [0, 0, 0.0])
            row[0], row[1], row[2] = row[0] + 1, row[1] + report.failed, row[2] + report.duration
            for name, value in report.user_properties:
                self.figures.setdefault(file, []).append(f"- `{test}`: {name} = {value}")

    def pytest_sessionfinish(self) -> None:
        git = ["git", "-C", str(_REPORT.parent), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
        before = _REPORT.read_text(encoding="utf-8") if _REPORT.exists() else ""
        table, figures = before.partition(self._HEAD)[2].partition("\n## ")[::2]
        rows = {line.split(" | ")[0][2:]: line for line in table.splitlines() if line.startswith("| tests/")}
        said = dict(part.split("\n\n", 1) for part in figures.split("\n## ") if "\n\n" in part)
        root = _REPORT.parents[2]
        rows = {file: line for file, line in rows.items() if (root / file).exists()}
        said = {file: text for file, text in said.items() if (root / file).exists()}
        for file, (tests, failed, seconds) in self.rows.items():
            rows[file] = f"| {file} | {tests:.0f} | {failed:.0f} | {seconds:.0f} | {commit} |"
            said[file] = "\n".join(sorted(self.figures.get(file, [])))
        _REPORT.write_text(
            "# Soak: the whole numbers of the acceptance (`make soak`)\n\n"
            f"{os.cpu_count()} cores, Python {platform.python_version()}; seconds are the sums over tests.\n\n"
            f"{self._HEAD}\n|---|---|---|---|---|\n"
            + "\n".join(rows[file] for file in sorted(rows))
            + "\n"
            + "".join(f"\n## {file}\n\n{said[file].strip()}\n" for file in sorted(said) if said[file].strip()),
            encoding="utf-8",
        )


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if SOAK and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_SoakReport(), "soak-report")
