"""Files that take long to make, made once for all processes that run tests (pytest-xdist)."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder that `make(folder)` has filled, by whichever process came first; the others wait for it."""
    base = factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base  # that of all processes
    folder = root / name
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            made = Path(tempfile.mkdtemp(dir=root, prefix=name))
            make(made)  # if it fails, the next process tries, and fails with the cause, too
            made.rename(folder)
    return folder
