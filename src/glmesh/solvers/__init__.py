"""Local solvers: how a node improves its own variables between two exchanges."""

from glmesh.solvers.base import LocalSolver, NodeTask, NodewiseSolver, Subproblems, local_gap
from glmesh.solvers.compiled import CoordinateDescent
from glmesh.solvers.sklearn import SklearnCoordinateDescent

__all__ = [
    "CoordinateDescent",
    "LocalSolver",
    "NodeTask",
    "NodewiseSolver",
    "SklearnCoordinateDescent",
    "Subproblems",
    "local_gap",
]
