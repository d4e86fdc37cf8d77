"""A pooled problem of which this process holds the columns of its own nodes only.

All processes together hold each column once, in the order of nodes; every process knows the number of all columns, the
partition and the summary of all data.
"""

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidInput
from glmesh.functions import Separable, Smooth
from glmesh.problem.named import Names
from glmesh.problem.node_data import CompositeObjective, NodeData
from glmesh.problem.partition import Partition
from glmesh.problem.problem import Problem
from glmesh.problem.spec import ProblemSpec
from glmesh.problem.summary import DataSummary
from glmesh.types import Indices, Vector


class Shard(Problem):
    """A problem on pooled data of which this process holds the columns of the nodes first, first + 1, ... only.

    `data` are those columns; `summary` is the merged DataSummary of all processes; `dealt` is the Partition of all
    columns over all nodes.
    """

    dealt: Partition

    def __init__(self, data: NodeData, summary: DataSummary, dealt: Partition, first: int) -> None:
        super().__init__(data.spec, [data], pooled=True)
        self._summary, self.dealt, self.first = summary, dealt, first
        self._names: Names = None  # of all features, where this process holds some of them
        data.check(summary)

    @property
    def holds_all(self) -> bool:
        """False: other processes hold the data of other nodes."""
        return False

    def in_common(self) -> dict[str, object]:
        """Return {name: value} of what all processes must have equal: the number of variables and the partition."""
        return {"variables": self.n, "partition": [self.dealt.order, self.dealt.starts]}

    @property
    def n(self) -> int:
        """Number n of variables of the whole problem, including those that other processes hold."""
        return len(self.dealt.order)

    @property
    def n_nodes(self) -> int:
        """Number K of nodes, over all processes."""
        return self.dealt.n_nodes

    @property
    def summary(self) -> DataSummary:
        """DataSummary of the data of all nodes of all processes, merged."""
        return self._summary

    def named(self, names: Sequence[str] | None) -> Problem:
        """Return the problem with these names of all p features, those of other processes too; None: as it is."""
        if self.spec.split == "samples":
            return super().named(names)
        self._names = self._names if names is None else tuple(names)
        return self

    @property
    def feature_names(self) -> Names:
        """Names of all p features in the order of the coefficients; None if the data came without names."""
        return super().feature_names if self.spec.split == "samples" else self._names

    def _place(self, node: int) -> tuple[int, int]:
        """Return (begin, end), the positions of a node's columns among those of this process, end excluded."""
        starts = self.dealt.starts
        return int(starts[node] - starts[self.first]), int(starts[node + 1] - starts[self.first])

    def node_composite(self, node: int, own: Indices, summary: DataSummary | None) -> CompositeObjective:
        """Return the CompositeObjective f(Ax) + g(x) over the columns of one node that this process hosts.

        `own` and `summary` are not read.
        """
        a, b = self._place(node)
        return CompositeObjective(self.composite.columns.between(a, b), *self.node_functions(node, own, summary))

    def node_functions(self, node: int, own: Indices, summary: DataSummary | None) -> tuple[Smooth, Separable]:
        """Return the functions (f, g) of f(Ax) + g(x) over the columns of one node that this process hosts.

        `own` and `summary` are not read. A is the data matrix, x are the variables of all nodes.
        """
        return self.composite.f, self.composite.g.take(np.arange(*self._place(node)))

    def node_data(self, node: int, own: Indices) -> NodeData:
        """Return the NodeData of a node of this process; `own` is not read."""
        return self.parts[0].shrunk(np.arange(*self._place(node)))

    def _respecified(self, spec: ProblemSpec) -> Problem:
        """Return a copy of this shard with another specification of loss, penalty and split."""
        new = copy.copy(self)
        new.spec, new.parts = spec, [self.parts[0].with_spec(spec)]
        if self._composite is not None:
            new._composite = CompositeObjective(self._composite.columns, *new.parts[0].functions(self._summary))
        return new

    def with_targets(self, targets: Sequence[ArrayLike], weights: Sequence[ArrayLike]) -> Problem:
        """Raise InvalidInput: a process cannot change the targets of rows that other processes hold."""
        raise InvalidInput("this process holds a part of the data only; scatter the rows with their other targets")

    def objective(self, coef: Vector, intercept: float | Vector = 0.0) -> float:
        """Raise InvalidInput: no process holds all the data that the objective depends on."""
        raise InvalidInput("this process holds a part of the data only; run.measure() looks at all of it together")
