"""Data sets, objectives and methods of one's own, from one small file of Python.

    DATASETS = {"mine": lambda: (X, y)}
    OBJECTIVES = {"weak ridge": lambda X, y, split: Problem.glm(X, y, alpha=0.01, split=split)}
    METHODS = {"NIDS, as given": lambda: Nids(0.01)}

Any of the three may be missing.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glmesh.bench.contenders import Contender
from glmesh.bench.data import Data
from glmesh.bench.objectives import Objective
from glmesh.errors import InvalidInput


@dataclass(frozen=True)
class Addition:
    """What a file adds."""

    datasets: dict[str, Callable[[], Any]] = field(default_factory=dict)
    objectives: dict[str, Objective] = field(default_factory=dict)
    methods: dict[str, Contender] = field(default_factory=dict)

    def load(self, name: str) -> Data:
        """A data set of the file's; its larger label is +1."""
        X, y = self.datasets[name]()
        y = np.asarray(y, dtype=np.float64)
        return Data(name, X, np.where(y == y.max(), 1.0, -1.0) if len(np.unique(y)) == 2 else y, "your own", True)


def read(path: str) -> Addition:
    """Runs the file and takes its three names."""
    names = runpy.run_path(path)
    found = {key: names.get(key, {}) for key in ("DATASETS", "OBJECTIVES", "METHODS")}
    if not any(found.values()):
        raise InvalidInput(f"{path}: defines none of DATASETS, OBJECTIVES and METHODS")
    for key, entries in found.items():
        if not isinstance(entries, dict) or not all(callable(e) or isinstance(e, Contender) for e in entries.values()):
            raise InvalidInput(f"{path}: {key} must be a dict from names to functions")
    methods = {
        name: entry if isinstance(entry, Contender) else Contender(entry) for name, entry in found["METHODS"].items()
    }
    return Addition(found["DATASETS"], found["OBJECTIVES"], methods)
