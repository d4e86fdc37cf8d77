"""Objectives by name: functions from X, y and a split to a Problem."""

from collections.abc import Callable

import numpy as np

from glmesh.problem import Problem, Split
from glmesh.types import SampleMatrix, Vector

Objective = Callable[[SampleMatrix, Vector, Split], Problem]

_PART = 100  # the Lasso has alpha = alpha_max / 100, where alpha_max is the smallest that makes w zero


def lasso(X: SampleMatrix, y: Vector, split: Split) -> Problem:
    """Return the problem 1/2 ``|Xw - y|^2`` + alpha ``|w|_1``, alpha a hundredth of the least that makes w zero."""
    return Problem.glm(X, y, penalty="l1", alpha=float(np.abs(X.T @ y).max()) / _PART, split=split)


def ridge(X: SampleMatrix, y: Vector, split: Split) -> Problem:
    """Return the problem 1/2 ``|Xw - y|^2`` + 1/2 ``|w|^2``."""
    return Problem.glm(X, y, alpha=1.0, split=split)


def logistic(X: SampleMatrix, y: Vector, split: Split) -> Problem:
    """Return the problem sum_i log(1 + exp(-y_i x_i.w)) + 1/2 ``|w|^2``."""
    return Problem.glm(X, y, loss="logistic", alpha=1.0, split=split)


OBJECTIVES: dict[str, Objective] = {"lasso": lasso, "ridge": ridge, "logistic": logistic}
