"""Local solvers: how a node decreases its own subproblem between two exchanges.

`LocalSolver` is the protocol that methods call, `NodewiseSolver` the base for a solver of one's own. A solver sees the
columns, the penalty and the gradient of the loss at a node's estimate; the loss itself, the network and the messages
may not enter.
"""

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
