"""A pooled problem of which this process holds the columns of its own nodes only.

All processes together hold each column once, in the order of nodes; what must be known of the rest (its size, who holds
what, the labels' range) is known to each.
"""

from __future__ import annotations

import copy

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.functions import Separable, Smooth
from glmesh.problem.node_data import CompositeObjective, NodeData
from glmesh.problem.partition import Partition
from glmesh.problem.problem import Problem
from glmesh.problem.spec import Model
from glmesh.types import Indices, Vector


class Shard(Problem):
    """The columns of the nodes first, first + 1, ... one below the other, and the facts of the whole problem."""

    def __init__(self, data: NodeData, agreed: Vector, dealt: Partition, first: int) -> None:
        super().__init__(data.model, [data], pooled=True)
        self._info, self.dealt, self.first = agreed, dealt, first
        self._form = data.settle(agreed)

    @property
    def n(self) -> int:
        """Number of variables, those of others included."""
        return len(self.dealt.order)

    @property
    def n_nodes(self) -> int:
        """K."""
        return self.dealt.n_nodes

    @property
    def agreed(self) -> Vector:
        """The facts of the whole problem."""
        return self._info

    @property
    def classes(self) -> tuple[float, float] | None:
        """The two labels (negative, positive) of a classification."""
        return (float(-self._info[5]), float(self._info[4])) if self.model.loss.classifies else None

    def _place(self, node: int) -> tuple[int, int]:
        """Where a node's columns are among those that are held here."""
        starts = self.dealt.starts
        return int(starts[node] - starts[self.first]), int(starts[node + 1] - starts[self.first])

    def node_form(self, node: int, own: Indices, agreed: Vector | None) -> CompositeObjective:
        """Of a node that is hosted here."""
        a, b = self._place(node)
        return CompositeObjective(self.form.columns.between(a, b), *self.node_functions(node, own, agreed))

    def node_functions(self, node: int, own: Indices, agreed: Vector | None) -> tuple[Smooth, Separable]:
        """(f, g) of the same."""
        return self.form.f, self.form.g.take(np.arange(*self._place(node)))

    def node_data(self, node: int, own: Indices) -> NodeData:
        """The data of the same."""
        return self.parts[0].shrunk(np.arange(*self._place(node)))

    def _remodelled(self, model: Model) -> Problem:
        new = copy.copy(self)
        new.model = model
        new._own()
        new._form = CompositeObjective(self.form.columns, *new.parts[0].functions(self._info))
        return new

    def objective(self, coef: Vector, intercept: float = 0.0) -> float:
        """Nobody holds the data that this takes."""
        raise InvalidInput("this process holds a part of the data only; run.measure() looks at all of it together")
