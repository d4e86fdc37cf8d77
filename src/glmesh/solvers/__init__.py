"""Local solvers: how a node improves its own variables between two exchanges."""

from glmesh.solvers.base import LocalSolver, NodeTask, NodewiseSolver, Subproblems
from glmesh.solvers.compiled import CoordinateDescent
from glmesh.solvers.sklearn import SklearnCoordinateDescent

__all__ = [
    "CoordinateDescent",
    "LocalSolver",
    "NodeTask",
    "NodewiseSolver",
    "SklearnCoordinateDescent",
    "Subproblems",
]
