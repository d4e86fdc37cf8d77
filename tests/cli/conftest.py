"""Folders, files and Ctrl-C for tests of the command line."""

import os
import signal
import tomllib
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file

from glmesh.cli.progress import Progress
from tests.cli.calls import run


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def data(folder):
    """Files of 40 samples: numbers.csv (with a header), labels.svm (-1 and 1), and the arrays."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 5)).round(3)
    y = (X @ [1.0, -2.0, 0.0, 0.5, 0.0] + 0.1 * rng.standard_normal(40) + 1).round(3)
    signs = np.where(y > 1, 1.0, -1.0)
    np.savetxt("numbers.csv", np.c_[X, y], delimiter=",", header="a,b,c,d,e,price", comments="", fmt="%.6g")
    dump_svmlight_file(X, signs, "labels.svm", zero_based=False)
    return X, y, signs


@pytest.fixture
def interrupted(monkeypatch):
    """Runs a command and presses Ctrl-C after its first round."""
    shown = Progress.__call__

    def press(*arguments):
        pressed = []

        def show(self, run):
            if not pressed:
                pressed.append(True)
                os.kill(os.getpid(), signal.SIGINT)
            return shown(self, run)

        monkeypatch.setattr(Progress, "__call__", show)
        return run(*arguments)

    return press


PLAN = """
seed = 3

[[random]]
dropout = 0.3
loss = 0.1
until = 30

[[join]]
node = 3
round = 5

[[leave]]
node = 1
round = 20
"""


@pytest.fixture
def plan(folder):
    Path("plan.toml").write_text(PLAN)
    return tomllib.loads(PLAN)
