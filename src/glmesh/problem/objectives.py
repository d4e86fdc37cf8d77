"""The objective of data on nodes as f(Ax) + g(x), over the columns of all nodes and over those of one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from glmesh.errors import UnsuitablePair
from glmesh.functions import Separable, Smooth
from glmesh.linalg import Columns
from glmesh.problem.node_data import CompositeObjective, NodeData
from glmesh.problem.spec import ProblemSpec
from glmesh.problem.summary import DataSummary
from glmesh.types import Indices, Vector

if TYPE_CHECKING:
    from glmesh.problem.partition import Partition


class NodeObjectives:
    """Objective of a generalised linear model on the data of nodes, or on pooled data; base of `Problem`.

    `spec` has loss, penalty and split, and `parts` the data of each node, or the pooled data alone.
    """

    spec: ProblemSpec
    parts: list[NodeData]
    pooled: bool  # whether `parts` is pooled data
    dealt: Partition | None = None  # columns of the nodes, where a process holds those of some nodes only
    first: int = 0  # the first of these nodes
    _composite: CompositeObjective | None = None

    @property
    def composite(self) -> CompositeObjective:
        """CompositeObjective f(Ax) + g(x) over all columns, in the user's order; only a simulation has all of them.

        Raise UnsuitablePair for loss and penalty that cannot be written f(Ax) + g(x) with this split.
        """
        if self._composite is None:
            summary = self.summary
            each = [part.compose(summary, k) for k, part in enumerate(self.parts)]
            columns = each[0].columns if len(each) == 1 else Columns.join([one.columns for one in each])
            g = each[0].g.join([one.g for one in each], [one.columns.n for one in each])
            self._composite = CompositeObjective(columns, each[0].f, g)
        return self._composite

    @cached_property
    def primal(self) -> CompositeObjective:
        """CompositeObjective f(Xw) + g(w) over the rows of all nodes, split by samples: f the loss, g the penalty.

        Only a simulation has all rows. An intercept that is not penalised is left out.
        """
        summary = self.summary
        rows = Columns.join([part.columns.widen(summary.width) for part in self.parts])
        y = np.concatenate([part.targets(summary) for part in self.parts])
        f = self.spec.loss.smooth(y, np.concatenate([part.weight for part in self.parts]))
        if f is None:
            raise UnsuitablePair(f"the {self.spec.loss.name} loss is not smooth")
        return CompositeObjective(Columns.of(rows.to_scipy().T), f, self.spec.penalty_of(None))

    def node_composite(self, node: int, own: Indices, summary: DataSummary | None) -> CompositeObjective:
        """Return the CompositeObjective f(Ax) + g(x) over the columns of one node.

        `own` are the indices of those columns in the user's matrix. `summary` is the merged DataSummary of all nodes
        where data was given per node; None: the data is pooled.
        """
        if summary is None:
            whole = self.composite
            return CompositeObjective(whole.columns.take(own), whole.f, whole.g.take(own))
        held, order = self.parts[node].compose(summary, node), self._order(own)
        return held if order is None else CompositeObjective(held.columns.take(order), held.f, held.g.take(order))

    def node_functions(self, node: int, own: Indices, summary: DataSummary | None) -> tuple[Smooth, Separable]:
        """Return the functions (f, g) of f(Ax) + g(x) over the columns `own` of one node, without making the matrix A.

        `own` are the indices of those columns in the user's matrix. `summary` is the merged DataSummary of all nodes
        where data was given per node; None: the data is pooled.
        """
        if summary is None:
            return self.composite.f, self.composite.g.take(own)
        f, g = self.parts[node].functions(summary, node)
        order = self._order(own)
        return f, g if order is None else g.take(order)

    def _order(self, own: Indices) -> Indices | None:
        """Return the permutation that puts a node's stored columns in the order `own`; None if it is the identity.

        `own` are the indices of the node's columns in the user's matrix.
        """
        order = own - own.min(initial=self.n)
        return None if np.array_equal(order, np.arange(len(order))) else order

    def node_data(self, node: int, own: Indices) -> NodeData:
        """Return the NodeData of one node, whose columns have the indices `own` in the user's matrix."""
        return self.parts[0].shrunk(own) if self.pooled else self.parts[node]

    @property
    def summary(self) -> DataSummary:
        """DataSummary of all nodes' data, merged: width of the data, range of the targets, sum of weights."""
        return DataSummary.merge([part.summary() for part in self.parts])

    @property
    def classes(self) -> tuple[float, float] | None:
        """Labels (negative, positive) of a classification; None for a regression."""
        return self.summary.classes if self.spec.loss.classifies else None

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the p features in the order of the coefficients; None if the data came without names."""
        if self.spec.split == "samples":
            return self.parts[0].names
        each = [part.names for part in self.parts]
        return None if None in each else tuple(name for names in each for name in names or ())

    @property
    def n(self) -> int:
        """Number of variables, the columns of A."""
        return sum(part.columns.n for part in self.parts)

    def coefficients(self, x: Vector, shared: Vector) -> tuple[Vector, float]:
        """Return (coef, intercept) of a solution.

        Parameters
        ----------
        x : array of shape (n,)
            Variables in the user's order.
        shared : array of shape (d,)
            Ax, or an estimate of it.

        Returns
        -------
        coef : array of shape (p,)
            x split by features, grad f(shared) split by samples.
        intercept : float
            0 without intercept.
        """
        f = self.composite.f
        if self.spec.split == "samples":
            return self.model_of(f.gradient(shared))
        return x.copy(), f.offset(shared)

    def model_of(self, w: Vector) -> tuple[Vector, float]:
        """Return (coefficients (p,), intercept) from a gradient w of f, (d,), which is the model split by samples."""
        return self.composite.f.split(w)

    def objective(self, coef: Vector, intercept: float | Vector = 0.0) -> float:
        """Return the objective at given coefficients.

        Parameters
        ----------
        coef : array of shape (p,) or (C, p)
            Coefficients w; of the multinomial family a row for each class.
        intercept : float or array of shape (C,), default 0.0
            b; of no effect on a problem without intercept.

        Returns
        -------
        float
            sum_i s_i loss(y_i, x_i.w + b) + alpha penalty(w); infinite outside the bounds of the penalty.

        Examples
        --------
        >>> import numpy as np
        >>> from glmesh import Problem
        >>> Problem.glm(np.eye(3), np.array([3.0, -2.0, 0.5]), penalty="l1").objective(np.array([2.0, -1.0, 0.0]))
        4.125
        """
        if not self.spec.has_form:
            summary, b = self.summary, intercept if self.spec.fit_intercept else 0.0
            penalty = sum(self.spec.penalty_of(None).value(row) for row in np.atleast_2d(coef))
            return penalty + sum(part.loss_at(coef, b, summary) for part in self.parts)
        assert isinstance(intercept, float | int | np.number)  # of one linear predictor
        f, g, columns = self.composite.f, self.composite.g, self.composite.columns
        if self.spec.split == "samples":
            return f.penalty_of(coef) + g.conjugate(-columns.transposed_dot(f.join(coef, intercept)))
        return f.value_with(columns.dot(coef), intercept) + g.value(coef)

    @property
    def holds_all(self) -> bool:
        """Whether this process holds the data of all nodes; False where others hold a part of it."""
        return True

    @property
    def n_nodes(self) -> int | None:
        """Number K of nodes that hold the data; None for pooled data, which a run deals out."""
        return None if self.pooled else len(self.parts)
