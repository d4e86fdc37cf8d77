"""The problem min_x f(Ax) + g(x): its specification, the data of the nodes, and who holds which columns.

Data enters as users have it (X, y, sample weights) and leaves as columns of A with the functions f and g; solutions x
leave as coefficients and intercept. Nothing here knows of rounds, messages or methods.
"""

from glmesh.problem.node_data import CompositeObjective, NodeData
from glmesh.problem.partition import Partition, spread
from glmesh.problem.problem import Problem
from glmesh.problem.shard import Shard
from glmesh.problem.spec import SPLITS, ProblemSpec, Split, refusals, shorter
from glmesh.problem.summary import DataSummary

__all__ = [
    "SPLITS",
    "CompositeObjective",
    "DataSummary",
    "NodeData",
    "Partition",
    "Problem",
    "ProblemSpec",
    "Shard",
    "Split",
    "refusals",
    "shorter",
    "spread",
]
