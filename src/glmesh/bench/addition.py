"""Data sets, objectives and methods of one's own, from one small file of Python.

    DATASETS = {"mine": lambda: (X, y)}
    OBJECTIVES = {"weak ridge": lambda X, y, split: Problem.glm(X, y, alpha=0.01, split=split)}
    METHODS = {"NIDS, as given": lambda: Nids(0.01), "mine": MyMethod}

Any of the three may be missing. A method is a class, or a function that returns an object, with `prepare` and `round`
(`glmesh.core.protocols.Method`); nothing has to be inherited.
"""

import runpy
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from glmesh.bench.contenders import Contender, Make
from glmesh.bench.data import DataSet
from glmesh.bench.objectives import Objective
from glmesh.errors import InvalidInput
from glmesh.types import Data


@dataclass(frozen=True)
class Addition:
    """Data sets, objectives and methods, by name, that a Python file of the user adds to a benchmark."""

    datasets: dict[str, Callable[[], tuple[Data, ArrayLike]]] = field(default_factory=dict)
    objectives: dict[str, Objective] = field(default_factory=dict)  # functions of X, y and split that return a Problem
    methods: dict[str, Contender] = field(default_factory=dict)

    def load(self, name: str) -> DataSet:
        """Return the data set with this name, which its function in DATASETS makes.

        If the labels y have two values, they become 1 (the larger) and -1.
        """
        X, y = self.datasets[name]()
        y = np.asarray(y, dtype=np.float64)
        return DataSet(name, X, np.where(y == y.max(), 1.0, -1.0) if len(np.unique(y)) == 2 else y, "your own", True)


def read(path: str) -> Addition:
    """Run a Python file and return its dicts DATASETS, OBJECTIVES and METHODS; raise InvalidInput if it has none."""
    names = runpy.run_path(path)
    found = {key: names.get(key, {}) for key in ("DATASETS", "OBJECTIVES", "METHODS")}
    if not any(found.values()):
        raise InvalidInput(f"{path}: defines none of DATASETS, OBJECTIVES and METHODS")
    for key, entries in found.items():
        if not isinstance(entries, dict) or not all(callable(Contender.of(one).make) for one in entries.values()):
            raise InvalidInput(f"{path}: {key} must be a dict from names to functions")
    methods = {name: _contender(path, name, entry) for name, entry in found["METHODS"].items()}
    return Addition(found["DATASETS"], found["OBJECTIVES"], methods)


def _contender(path: str, name: str, entry: Contender | Make) -> Contender:
    """Return an entry of METHODS as a Contender; `entry` is one already, or a callable that returns a method.

    Raise InvalidInput, with the file's `path` and the entry's name, if the callable returns no object with `prepare`
    and `round`.
    """
    contender = Contender.of(entry)
    made = contender.make()
    if not callable(getattr(made, "prepare", None)) or not callable(getattr(made, "round", None)):
        raise InvalidInput(
            f"{path}: METHODS[{name!r}] makes a {type(made).__name__}, expected a method: an object with "
            "prepare(setup) and round(block, state)"
        )
    return contender
