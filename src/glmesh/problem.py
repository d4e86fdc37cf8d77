"""A generalised linear model as f(Ax) + g(x), and back.

Split by features (form A): A = X, x the coefficients, f the loss, g the penalty.
Split by samples (form B): the columns of A are samples, x the dual variables, f the conjugate of the penalty, g the
duals of the losses; the model is w = grad f(Ax).
"""

from __future__ import annotations

import copy
import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.sparse as sp

from glmesh.columns import Columns
from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.functions import (
    LOSSES,
    Anchored,
    ConjugateOf,
    GroupLasso,
    Loss,
    Profiled,
    Separable,
    Smooth,
    Squared,
    SquaredLoss,
    Table,
)
from glmesh.types import AnyArray, Indices, Vector

Split = Literal["features", "samples"]


@dataclass(frozen=True, eq=False)
class Form:
    """f(Ax) + g(x) over the columns that somebody holds: all of them, or one node's."""

    columns: Columns
    f: Smooth
    g: Separable


@dataclass(frozen=True, eq=False)
class Model:
    """What is to be fitted: loss, penalty and split, checked for having a form."""

    loss: Loss
    penalty: Separable | list[Separable]
    penalty_name: str
    alpha: float
    l1_ratio: float | None
    split: Split
    fit_intercept: bool
    anchor: float = 0.0  # where a free intercept is held, split by samples; `solve` moves it

    @staticmethod
    def of(
        loss: str | Loss,
        penalty: str | Separable | Sequence[Separable],
        alpha: float,
        l1_ratio: float | None,
        split: str,
        fit_intercept: bool,
    ) -> Model:
        """Validates the options and refuses a pair without a form, by name."""
        loss = _loss(loss)
        if not isinstance(alpha, int | float | np.number) or not 0 <= float(alpha) < np.inf:
            raise InvalidInput(f"alpha must be a finite number >= 0, got {alpha!r}")
        if split not in ("features", "samples"):
            raise InvalidInput(f"split must be 'features' or 'samples', got {split!r}")
        name, parts = _penalty(penalty, l1_ratio)
        scaled = [part.scaled(float(alpha)) for part in parts]
        _check_list(penalty, scaled, split)
        _check_pair(loss, scaled, name, split)
        one = scaled[0] if not isinstance(penalty, list | tuple) else scaled
        ratio = {"l1": 1.0, "l2": 0.0, "elasticnet": 0.5 if l1_ratio is None else float(l1_ratio)}.get(name)
        return Model(loss, one, name, float(alpha), ratio, split, fit_intercept)  # type: ignore[arg-type]

    def penalty_of(self, node: int | None) -> Separable:
        """The penalty that a node applies (None: the pooled data)."""
        if isinstance(self.penalty, list):
            return self.penalty[node or 0]
        return self.penalty


def _loss(loss: str | Loss) -> Loss:
    if isinstance(loss, Loss):
        return loss
    if loss not in LOSSES:
        near = difflib.get_close_matches(str(loss), LOSSES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise InvalidInput(f"unknown loss {loss!r}.{hint} Losses: {', '.join(LOSSES)}")
    return LOSSES[loss]()


def _penalty(penalty: str | Separable | Sequence[Separable], l1_ratio: float | None) -> tuple[str, list[Separable]]:
    if isinstance(penalty, list | tuple):
        if not penalty or not all(isinstance(part, Separable) for part in penalty):
            raise InvalidInput("a list of penalties holds one Separable per node")
        return "custom", list(penalty)
    if isinstance(penalty, Separable):
        if l1_ratio is not None:
            raise InvalidInput("l1_ratio goes with penalty='elasticnet'; a Separable carries its own weights")
        return "custom", [penalty]
    if penalty not in ("l1", "l2", "elasticnet"):
        raise InvalidInput(f"unknown penalty {penalty!r}; use 'l1', 'l2', 'elasticnet' or a Separable")
    if penalty != "elasticnet" and l1_ratio is not None:
        raise InvalidInput(f"l1_ratio goes with penalty='elasticnet', not with {penalty!r}")
    ratio = {"l1": 1.0, "l2": 0.0}.get(str(penalty), 0.5 if l1_ratio is None else l1_ratio)
    if not isinstance(ratio, int | float | np.number) or not 0 <= ratio <= 1:
        raise InvalidInput(f"l1_ratio must be between 0 and 1, got {l1_ratio!r}")
    return str(penalty), [Table(l1=np.asarray(float(ratio)), l2=np.asarray(1.0 - float(ratio)))]


def _check_list(penalty: str | Separable | Sequence[Separable], scaled: list[Separable], split: str) -> None:
    if not isinstance(penalty, list | tuple):
        return
    if split == "samples":
        raise UnsuitablePair("split by samples all nodes share one penalty; give one Separable, not a list")
    kinds = sorted({type(part).__name__ for part in scaled})
    if len(kinds) > 1:
        raise UnsuitablePair(f"the penalties of all nodes must be of one kind, got {' and '.join(kinds)}")


def _check_pair(loss: Loss, penalties: list[Separable], name: str, split: str) -> None:
    if split == "features":
        if loss.smooth(np.ones(1), np.ones(1)) is None:
            raise UnsuitablePair(
                f"the {loss.name} loss has no form split by features here. "
                "Use split='samples', or a smooth loss: squared, logistic, huber, squared_hinge."
            )
        return
    for penalty in penalties:
        if not isinstance(penalty, Table):
            raise UnsuitablePair(
                f"{type(penalty).__name__} cannot be split by samples: its conjugate is not smooth. "
                "Use split='features'."
            )
        if not penalty.strong_convexity > 0:
            what = {"l1": "a plain L1 penalty", "elasticnet": "an elastic net without L2 part"}.get(
                name, "a penalty without L2 part (or with alpha=0)"
            )
            raise UnsuitablePair(
                f"{what} cannot be split by samples: its conjugate is not smooth. Use split='features', or "
                "penalty='elasticnet' with l1_ratio < 1 (and alpha > 0)."
            )


class NodeData:
    """The raw data of one holder (a node, or the whole pool), and what it must agree on with the others."""

    def __init__(self, model: Model, X: AnyArray, y: AnyArray, sample_weight: AnyArray, where: str = "") -> None:
        self.model = model
        self.where = where
        self.columns = Columns.of(X, rows=model.split == "samples", name=f"X{where}")
        self.m = self.columns.n if model.split == "samples" else self.columns.d
        self.p = self.columns.d if model.split == "samples" else self.columns.n
        self.y = _vector(y, f"y{where}")
        if len(self.y) != self.m:
            raise InvalidData(f"X{where} has {self.m} rows but y has {len(self.y)} values")
        self.weight = np.ones(self.m) if sample_weight is None else _vector(sample_weight, f"sample_weight{where}")
        if len(self.weight) != self.m:
            raise InvalidData(f"X{where} has {self.m} rows but sample_weight has {len(self.weight)} values")
        if (self.weight < 0).any():
            raise InvalidData(f"sample_weight{where} has a negative value at {int(np.argmax(self.weight < 0))}")

    @staticmethod
    def restored(model: Model, columns: Columns, y: Vector, weight: Vector, where: str) -> NodeData:
        """From the very parts of another."""
        data = NodeData.__new__(NodeData)
        data.model, data.columns, data.y, data.weight, data.where = model, columns, y, weight, where
        by_samples = model.split == "samples"
        data.m, data.p = (columns.n, columns.d) if by_samples else (columns.d, columns.n)
        return data

    def facts(self) -> Vector:
        """What the nodes must agree on, as numbers of which the network takes the maximum."""
        if self.model.split == "samples":
            shared = [float(self.p), 0.0]
        else:
            digest = hashlib.blake2b(self.y.tobytes() + self.weight.tobytes(), digest_size=6).digest()
            shared = [float(self.m), float(int.from_bytes(digest, "little"))]
        low, high = (self.y.min(), self.y.max()) if self.m else (np.inf, -np.inf)
        return np.array([shared[0], -shared[0], shared[1], -shared[1], high, -low, self.weight.sum()])

    def grown(self, X: AnyArray, y: AnyArray, sample_weight: AnyArray) -> NodeData:
        """With more columns (features, or samples with their labels and weights) behind those it has."""
        where = f"{self.where} (new)" if self.where else " (new)"
        if self.model.split == "features":
            if y is not None or sample_weight is not None:
                raise InvalidInput("new features come without y and sample_weight: the samples are the same")
            y, sample_weight = self.y, self.weight
        elif y is None:
            raise InvalidInput("new samples need their labels: add_columns(node, X, y)")
        more = NodeData(self.model, X, y, sample_weight, where)
        if more.columns.d > self.columns.d or (more.columns.d < self.columns.d and more.columns.dense):
            kind = "rows" if self.model.split == "features" else "columns"
            raise InvalidData(f"X{where} has {more.columns.d} {kind}, the problem has {self.columns.d}")
        return self._of(
            Columns.join([self.columns, more.columns.widen(self.columns.d)]),
            np.concatenate([self.y, more.y]),
            np.concatenate([self.weight, more.weight]),
        )

    def shrunk(self, kept: Indices) -> NodeData:
        """With these of its columns only."""
        return (
            self._of(self.columns.take(kept), self.y[kept], self.weight[kept])
            if self.model.split == "samples"
            else (self._of(self.columns.take(kept), self.y, self.weight))
        )

    def _of(self, columns: Columns, y: Vector, weight: Vector) -> NodeData:
        new = copy.copy(self)
        new.columns = columns
        if self.model.split == "samples":
            new.m, new.y, new.weight = columns.n, y, weight
        else:
            new.p = columns.n
        return new

    def settle(self, agreed: Vector, node: int | None = None) -> Form:
        """The form of this holder's columns, once the network's maxima of the facts are known."""
        self._check(agreed)
        return Form(self.matrix(agreed), *self.functions(agreed, node))

    def _check(self, agreed: Vector) -> None:
        model, width = self.model, int(agreed[0])
        if model.split == "features" and agreed[0] != -agreed[1]:
            other = width if width != self.m else int(-agreed[1])
            raise InvalidData(
                f"split by features every node holds the same rows; X{self.where} has {self.m}, another node {other}"
            )
        if model.split == "features" and agreed[2] != -agreed[3]:
            raise InvalidData("split by features every node holds the same y and sample_weight; they differ")
        if model.split == "samples" and self.columns.dense and self.p != width:
            raise InvalidData(
                f"X{self.where} has {self.p} columns, another node has {width}; features must be the same"
            )

    def matrix(self, agreed: Vector) -> Columns:
        """A, as far as it is held here."""
        if self.model.split == "features":
            return self.columns if self._root is None else self.columns.scale_rows(self._root)
        columns = self.columns.widen(int(agreed[0]))
        return columns.with_row(self._intercept_entry(agreed)) if self.model.fit_intercept else columns

    @property
    def _root(self) -> Vector | None:
        """sqrt(c), which goes into the rows of a weighted squared loss: then tau = 1 whatever the weights."""
        weighted = isinstance(self.model.loss, SquaredLoss) and (self.weight != 1.0).any()
        return np.sqrt(self.weight) if weighted else None

    def _intercept_entry(self, agreed: Vector) -> float:
        """Split by samples: so large that the anchor holds the intercept a tenth as much as the losses do."""
        penalty = self.model.penalty_of(None)
        l2 = penalty.strong_convexity if np.isfinite(penalty.strong_convexity) else 1.0
        spread = float(agreed[4] + agreed[5])
        slopes_only = not self.model.loss.classifies and not self.model.loss.is_curved
        bend = float(agreed[6]) / (spread if slopes_only and spread > 0 else 1.0)
        return float(np.sqrt(10.0 * l2 / bend)) if bend > 0 else 1.0

    def functions(self, agreed: Vector, node: int | None = None) -> tuple[Smooth, Separable]:
        """(f, g), as far as they are held here."""
        model, y = self.model, self.y
        if model.loss.classifies:
            y = _signs(self.y, -agreed[5], agreed[4], model.loss.name, self.where)
        penalty = model.penalty_of(node)
        if model.split == "samples":
            assert isinstance(penalty, Table)  # checked when the model was made
            width = int(agreed[0])
            penalty.check_size(width)
            dual = model.loss.dual(y, self.weight)
            if model.fit_intercept:
                return Anchored(penalty, width, self._intercept_entry(agreed), model.anchor), dual
            return ConjugateOf(penalty), dual
        penalty.check_size(self.columns.n)
        root = self._root
        if isinstance(model.loss, SquaredLoss):
            f: Smooth = Squared(y if root is None else y * root)
        else:
            f = model.loss.smooth(y, self.weight)  # type: ignore[assignment]
        if model.fit_intercept:
            f = Profiled(f, np.ones(self.m) if root is None else root)  # type: ignore[arg-type]
        return f, penalty


def _vector(values: AnyArray, name: str) -> Vector:
    array = values.toarray() if sp.issparse(values) else np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InvalidData(f"{name} has shape {array.shape}; one number per sample is needed")
    if array.dtype.kind in "OUS":
        try:
            numbers = array.astype(np.float64) if array.dtype.kind == "O" else None
        except (TypeError, ValueError):
            numbers = None
        if numbers is None:
            first = str(array[0]) if len(array) else ""
            raise InvalidData(f"{name} holds {first!r}; numbers are needed here, encode labels as -1 and 1 first")
        array = numbers
    if array.dtype.kind not in "biuf":
        raise InvalidData(f"{name} holds {array.dtype}; real numbers are needed")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        at = int(np.flatnonzero(~np.isfinite(array))[0])
        raise InvalidData(f"{name} holds {'NaN' if np.isnan(array[at]) else 'infinity'} at position {at}")
    return array


def _signs(y: Vector, low: float, high: float, loss: str, where: str) -> Vector:
    """The smaller label is -1, the larger +1."""
    if not low < high:
        raise InvalidData(f"y holds one class only ({high:g}); the {loss} loss needs two")
    strange = (y != low) & (y != high)
    if strange.any():
        raise InvalidData(
            f"y{where} holds {y[int(np.argmax(strange))]:g} besides {low:g} and {high:g}; the {loss} loss needs two "
            "classes (for more, train one against the rest)"
        )
    return np.where(y == high, 1.0, -1.0)


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
        self._form: Form | None = None

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
    def form(self) -> Form:
        """f(Ax) + g(x) over all columns, in the user's order: the bird's-eye view that only a simulation has."""
        if self._form is None:
            forms = [part.settle(self.agreed, k) for k, part in enumerate(self.parts)]
            columns = Columns.join([form.columns for form in forms])
            g = forms[0].g.join([form.g for form in forms], [form.columns.n for form in forms])
            self._form = Form(columns, forms[0].f, g)
        return self._form

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
        new._form = Form(self.form.columns, both[0][0], g)
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
