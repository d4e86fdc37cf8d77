"""Shared set-up: kernels never run from a stale cache, and a soak leaves a report."""

from __future__ import annotations

import hashlib
import os
import platform
import signal
import time
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
    """Counts tests and seconds per file, and collects the figures that tests leave with `record_property`."""

    def __init__(self) -> None:
        self.began = time.time()
        self.files: dict[str, list[float]] = {}
        self.figures: list[str] = []
        self.failed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.files.setdefault(report.nodeid.split("::")[0], []).append(report.duration)
            self.failed += report.failed
            for name, value in report.user_properties:
                self.figures.append(f"- `{report.nodeid.split('::')[-1]}`: {name} = {value}")

    def pytest_sessionfinish(self) -> None:
        rows = [f"| {file} | {len(times)} | {sum(times):.0f} |" for file, times in sorted(self.files.items())]
        total = sum(len(times) for times in self.files.values())
        _REPORT.write_text(
            "# Soak: the whole numbers of the acceptance (`make soak`)\n\n"
            f"{total} tests, {self.failed} failed, {time.time() - self.began:.0f} s on {os.cpu_count()} cores, "
            f"Python {platform.python_version()}.\n\n| file | tests | seconds |\n|---|---|---|\n"
            + "\n".join(rows)
            + "\n\nFigures seen:\n\n"
            + "\n".join(sorted(self.figures))
            + "\n"
        )


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    if SOAK and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(_SoakReport(), "soak-report")
