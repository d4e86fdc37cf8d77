"""What is fitted, by name: X, y and a split to a Problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from glmesh.problem.problem import Problem
from glmesh.types import AnyArray, Vector

Split = Literal["features", "samples"]
Objective = Callable[[AnyArray, Vector, Split], Problem]

_PART = 100  # of the smallest alpha that makes all coefficients zero


def lasso(X: AnyArray, y: Vector, split: Split) -> Problem:
    """1/2 |Xw - y|^2 + alpha |w|_1, at a hundredth of the smallest alpha that makes w zero."""
    return Problem.glm(X, y, penalty="l1", alpha=float(np.abs(X.T @ y).max()) / _PART, split=split)


def ridge(X: AnyArray, y: Vector, split: Split) -> Problem:
    """1/2 |Xw - y|^2 + 1/2 |w|^2."""
    return Problem.glm(X, y, alpha=1.0, split=split)


def logistic(X: AnyArray, y: Vector, split: Split) -> Problem:
    """sum log(1 + exp(-y x.w)) + 1/2 |w|^2."""
    return Problem.glm(X, y, loss="logistic", alpha=1.0, split=split)


OBJECTIVES: dict[str, Objective] = {"lasso": lasso, "ridge": ridge, "logistic": logistic}
