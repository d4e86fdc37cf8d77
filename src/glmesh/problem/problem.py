"""A generalised linear model as f(Ax) + g(x), and back.

Split by features (form A): A = X, x the coefficients, f the loss, g the penalty.
Split by samples (form B): the columns of A are samples, x the dual variables, f the conjugate of the penalty, g the
duals of the losses; the model is w = grad f(Ax).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from glmesh.errors import InvalidData, InvalidInput
from glmesh.functions import Anchored, GroupLasso, Loss, Profiled, Separable, Smooth
from glmesh.linalg.columns import Columns
from glmesh.problem.node_data import CompositeObjective, NodeData
from glmesh.problem.spec import Model, Split
from glmesh.types import AnyArray, Indices, Vector


def _sized(penalty: Separable, n: int) -> bool:
    try:
        penalty.check_size(n)
    except InvalidInput:
        return False
    return True


class Problem:
    """min_w sum_i s_i loss(y_i, x_i.w + b) + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2), over a network.

    Make one with `Problem.glm` (pooled data, to be spread over simulated nodes) or `Problem.from_nodes` (data that is
    already apart).
    """

    def __init__(self, model: Model, parts: list[NodeData], pooled: bool) -> None:
        self.model = model
        self.parts = parts
        self.pooled = pooled
        self._form: CompositeObjective | None = None

    @staticmethod
    def glm(
        X: AnyArray,
        y: AnyArray,
        *,
        loss: str | Loss = "squared",
        penalty: str | Separable = "l2",
        alpha: float = 1.0,
        l1_ratio: float | None = None,
        split: Split = "features",
        sample_weight: AnyArray = None,
        fit_intercept: bool = False,
    ) -> Problem:
        """A problem on pooled data.

        `loss` is a name (`glmesh.functions.LOSSES` lists them) or a `Loss` with its own parameter. `squared` is half
        the square, `squared_hinge` is max(0, 1 - m)^2; nothing is averaged. `penalty` is "l2", "l1", "elasticnet" or a
        `Separable`; it is multiplied by `alpha`. With `fit_intercept` the intercept is not penalised.
        Labels of a classification may be any two numbers; the larger is the positive class.
        """
        if isinstance(penalty, list | tuple):
            raise InvalidInput("pooled data has one penalty; a list, one per node, goes with Problem.from_nodes")
        model = Model.of(loss, penalty, alpha, l1_ratio, split, fit_intercept)
        data = NodeData(model, X, y, sample_weight)
        if data.m == 0 or data.p == 0:
            raise InvalidData(f"X is empty: {data.m} rows, {data.p} columns")
        problem = Problem(model, [data], pooled=True)
        problem._form = data.settle(data.facts())
        return problem

    @staticmethod
    def from_nodes(
        parts: Sequence[tuple[AnyArray, ...]],
        *,
        loss: str | Loss = "squared",
        penalty: str | Separable | Sequence[Separable] = "l2",
        alpha: float = 1.0,
        l1_ratio: float | None = None,
        split: Split = "samples",
        fit_intercept: bool = False,
    ) -> Problem:
        """A problem on data that is already apart: one (X_k, y_k) or (X_k, y_k, sample_weight_k) per node.

        Split by samples a node holds its rows and their labels; split by features its columns, and the same y and
        weights as everybody (coefficients come back in node order). What nodes must know of each other is agreed on
        by neighbour messages when a run starts. `penalty` may be a list, one per node.
        """
        model = Model.of(loss, penalty, alpha, l1_ratio, split, fit_intercept)
        if not len(parts):
            raise InvalidData("parts is empty: give one (X, y) per node")
        if isinstance(model.penalty, list) and len(model.penalty) != len(parts):
            raise InvalidInput(f"{len(model.penalty)} penalties for {len(parts)} nodes")
        holders = []
        for k, part in enumerate(parts):
            if not isinstance(part, tuple | list) or len(part) not in (2, 3):
                raise InvalidData(f"part {k} must be (X, y) or (X, y, sample_weight)")
            weight = part[2] if len(part) == 3 else None
            holders.append(NodeData(model, part[0], part[1], weight, f" of node {k}"))
        if not any(part.m for part in holders) or not any(part.p for part in holders):
            raise InvalidData(f"all {len(holders)} parts are empty")
        return Problem(model, holders, pooled=False)

    @property
    def form(self) -> CompositeObjective:
        """f(Ax) + g(x) over all columns, in the user's order: the bird's-eye view that only a simulation has."""
        if self._form is None:
            forms = [part.settle(self.agreed, k) for k, part in enumerate(self.parts)]
            columns = Columns.join([form.columns for form in forms])
            g = forms[0].g.join([form.g for form in forms], [form.columns.n for form in forms])
            self._form = CompositeObjective(columns, forms[0].f, g)
        return self._form

    def node_form(self, node: int, own: Indices, agreed: Vector | None) -> CompositeObjective:
        """f(Ax) + g(x) of a node that holds these columns; agreed: the network's facts, for data that is apart."""
        if agreed is None:
            form = self.form
            return CompositeObjective(form.columns.take(own), form.f, form.g.take(own))
        form = self.parts[node].settle(agreed, node)
        order = self._order(own)
        return form if order is None else CompositeObjective(form.columns.take(order), form.f, form.g.take(order))

    def node_functions(self, node: int, own: Indices, agreed: Vector | None) -> tuple[Smooth, Separable]:
        """(f, g) of the same."""
        if agreed is None:
            return self.form.f, self.form.g.take(own)
        f, g = self.parts[node].functions(agreed, node)
        order = self._order(own)
        return f, g if order is None else g.take(order)

    def _order(self, own: Indices) -> Indices | None:
        """Of a node's columns, where its data is apart; None: as they are."""
        order = own - own.min(initial=self.n)
        return None if np.array_equal(order, np.arange(len(order))) else order

    def node_data(self, node: int, own: Indices) -> NodeData:
        """What a node that holds these columns holds."""
        return self.parts[0].shrunk(own) if self.pooled else self.parts[node]

    @property
    def classes(self) -> tuple[float, float] | None:
        """The two labels (negative, positive) of a classification."""
        if not self.model.loss.classifies:
            return None
        values = [part.y for part in self.parts if part.m]
        return float(min(v.min() for v in values)), float(max(v.max() for v in values))

    @property
    def n(self) -> int:
        """Number of variables (columns of A)."""
        return sum(part.columns.n for part in self.parts)

    def grown(
        self, part: int, X: AnyArray, y: AnyArray = None, sample_weight: AnyArray = None, penalty: AnyArray = None
    ) -> Problem:
        """The problem with more columns at the end of a holder's; `penalty` is theirs (default: as that of all)."""
        holder = self.parts[part]
        new = holder.grown(X, y, sample_weight)
        n, more = holder.columns.n, new.columns.n - holder.columns.n
        if self.classes is not None and self.model.split == "samples":
            strange = [label for label in new.y[holder.m :] if label not in self.classes]
            if strange:
                raise InvalidData(
                    f"new labels hold {strange[0]:g}; the classes are {self.classes[0]:g}, {self.classes[1]:g}"
                )
        old = self.model.penalty_of(part)
        if penalty is not None and (self.model.split == "samples" or type(penalty) is not type(old)):
            raise InvalidInput(f"penalty of new columns: a {type(old).__name__}, and only split by features")
        if self.model.split == "samples":
            return self._with(part, new, old)
        if penalty is None and not _sized(old, n + more):
            raise InvalidInput(
                f"the penalty has an entry per column; give the new ones theirs: penalty={type(old).__name__}(...)"
            )
        if penalty is not None:
            penalty = penalty.scaled(self.model.alpha)
            penalty.check_size(more)
            old = old.join([old, penalty], [n, more])
        return self._with(part, new, old)

    def shrunk(self, part: int, kept: Indices) -> Problem:
        """The problem with these of a holder's columns only."""
        penalty = self.model.penalty_of(part)
        if self.model.split == "features":
            if isinstance(penalty, GroupLasso) and np.isin(np.delete(penalty.groups, kept), penalty.groups[kept]).any():
                raise InvalidInput("the columns of a group go together: remove all of them or none")
            penalty = penalty.take(kept)
        new = self._with(part, self.parts[part].shrunk(kept), penalty)
        if new.n == 0:
            raise InvalidInput("no column would be left")
        return new

    def _with(self, part: int, holder: NodeData, penalty: Separable) -> Problem:
        penalties: Separable | list[Separable] = penalty
        if isinstance(self.model.penalty, list):
            penalties = [*self.model.penalty[:part], penalty, *self.model.penalty[part + 1 :]]
        elif not self.pooled and penalty is not self.model.penalty and self.model.split == "features":
            penalties = [penalty if k == part else self.model.penalty for k in range(len(self.parts))]
        others = [holder if k == part else other for k, other in enumerate(self.parts)]
        new = Problem(replace(self.model, penalty=penalties), others, self.pooled)._own()
        _ = new.form  # refuses what has no form before anything is changed
        return new

    def _own(self) -> Problem:
        """With holders that have this problem's model."""
        self.parts = [copy.copy(part) for part in self.parts]
        for part in self.parts:
            part.model = self.model
        return self

    def with_alpha(self, alpha: float) -> Problem:
        """The same with another weight of the penalty."""
        model = self.model
        if not isinstance(alpha, int | float | np.number) or not 0 < float(alpha) < np.inf or not model.alpha > 0:
            raise InvalidInput(
                f"alpha must be a finite number > 0, before and after; got {model.alpha!r} and {alpha!r}"
            )
        factor = float(alpha) / model.alpha
        parts = [one.scaled(factor) for one in model.penalty] if isinstance(model.penalty, list) else None
        penalty = model.penalty.scaled(factor) if parts is None else parts  # type: ignore[union-attr]
        return self._remodelled(replace(model, alpha=float(alpha), penalty=penalty))

    def anchored(self, intercept: float) -> Problem:
        """The same with the free intercept of a split by samples held elsewhere."""
        return self._remodelled(replace(self.model, anchor=float(intercept)))

    def _remodelled(self, model: Model) -> Problem:
        """The same matrix, other functions."""
        new = Problem(model, self.parts, self.pooled)._own()
        agreed = new.agreed
        both = [part.functions(agreed, k) for k, part in enumerate(new.parts)]
        g = both[0][1].join([g for _, g in both], [part.columns.n for part in new.parts])
        new._form = CompositeObjective(self.form.columns, both[0][0], g)
        return new

    @property
    def agreed(self) -> Vector:
        """The maxima of the holders' facts."""
        return np.asarray(np.max([part.facts() for part in self.parts], axis=0))

    def coefficients(self, x: Vector, shared: Vector) -> tuple[Vector, float]:
        """(coef, intercept) of the variables x (in the user's order) and a shared vector, Ax or an estimate of it."""
        form = self.form
        if self.model.split == "samples":
            return self.model_of(form.f.gradient(shared))
        return x.copy(), form.f.offset(shared) if isinstance(form.f, Profiled) else 0.0

    def model_of(self, w: Vector) -> tuple[Vector, float]:
        """(coef, intercept) of a gradient w of f, split by samples."""
        f = self.form.f
        return f.split(w) if isinstance(f, Anchored) else (w, 0.0)

    def objective(self, coef: Vector, intercept: float = 0.0) -> float:
        """The user-level primal objective at these coefficients."""
        form = self.form
        if isinstance(form.f, Anchored):
            w = form.f.join(coef, intercept)
            return form.f.free.conjugate(coef) + form.g.conjugate(-form.columns.transposed_dot(w))
        if self.model.split == "samples":
            return form.f.conjugate(coef) + form.g.conjugate(-form.columns.transposed_dot(coef))
        shared = form.columns.dot(coef)
        if isinstance(form.f, Profiled):
            return form.f.f.value(shared + intercept * form.f.direction) + form.g.value(coef)
        return form.f.value(shared) + form.g.value(coef)

    def __repr__(self) -> str:
        where = "pooled" if self.pooled else f"on {len(self.parts)} nodes"
        model = self.model
        return f"<Problem {model.loss.name} + {model.penalty_name}, alpha={model.alpha:g}, by {model.split}, {where}>"
