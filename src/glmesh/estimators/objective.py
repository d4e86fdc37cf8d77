"""Objectives as scikit-learn scales them, and training data, made into problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glmesh.core.block import NetworkInfo
from glmesh.engine.scatter import scatter
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import LOSSES, Loss, Separable, Softmax, Table
from glmesh.methods.choice import least_seconds
from glmesh.methods.totals.choice import method_on_totals
from glmesh.methods.totals.likelihood.statistics import INTERCEPT
from glmesh.methods.totals.nodes import OnTotals
from glmesh.parallel import SINGLE_PROCESS, ProcessGroup
from glmesh.problem import Problem, ProblemSpec, Split, refusals, shorter
from glmesh.types import Indices, SampleMatrix, Vector
from glmesh.validation import number_in

T = TypeVar("T")
Intercept = Literal["none", "free", "penalised"]


def number(value: object, name: str, *, positive: bool = False) -> float:
    """Return the parameter `name` as a float; raise InvalidInput unless it is finite and >= 0 (> 0 if positive)."""
    if positive:
        return number_in(value, name, "a finite number > 0", lambda number: 0 < number < np.inf)
    return number_in(value, name, "a finite number >= 0", lambda number: 0 <= number < np.inf)


def elastic_net(l1_ratio: float, *, positive: bool = False) -> Table:
    """Return the penalty l1_ratio sum_i abs(w_i) + (1 - l1_ratio)/2 sum_i w_i^2, on w >= 0 if positive."""
    share = number_in(l1_ratio, "l1_ratio", "between 0 and 1", lambda ratio: 0 <= ratio <= 1)
    low = np.asarray(0.0 if positive else -np.inf)
    return Table(l1=np.asarray(share), l2=np.asarray(1.0 - share), lo=low)


@dataclass(frozen=True)
class Objective:
    """The objective of an estimator: weight * sum_i s_i loss(y_i, x_i.w + b) + alpha * penalty(w).

    w are the coefficients, b is the intercept, s_i the weight of sample i.
    """

    loss: Loss | str
    penalty: Separable | str
    alpha: float  # factor of the penalty
    l1_ratio: float | None = None  # share of L1 in "elasticnet"
    weight: float = 1.0  # factor of all losses
    intercept: Intercept = "free"  # b is not penalised
    intercept_scaling: float = 1.0  # value of the constant feature that a penalised intercept is the coefficient of
    unit: float = 1.0  # the estimator's documented objective divided by this one

    @property
    def n_classes(self) -> int | None:
        """Return the number of classes that are fitted together, by the multinomial loss; None for other losses."""
        return None if isinstance(self.loss, str) or self.loss.name != Softmax.name else self.loss.n_outputs

    def options(self) -> dict[str, Any]:
        """Return {loss, penalty, alpha, l1_ratio, fit_intercept}, keyword arguments of `Problem.glm`."""
        return {
            "loss": self.loss,
            "penalty": self.penalty,
            "alpha": self.alpha,
            "l1_ratio": self.l1_ratio,
            "fit_intercept": self.intercept == "free",
        }

    def on_totals(self, n_features: int, n_samples: int) -> OnTotals | None:
        """Return the method on totals for data of this shape, if one suits loss and penalty; None: CoLA is to be used.

        In a method on totals nodes hold samples and compute the same coefficients from sums over all nodes.
        """
        spec = ProblemSpec.of(self.loss, self.penalty, self.alpha, self.l1_ratio, "samples", self.intercept == "free")
        p = n_features + int(self.intercept == "penalised")
        return method_on_totals(spec.loss, spec.penalty_of(None), p, n_samples)

    def splits(self, n_features: int, n_samples: int) -> dict[Split, UnsuitablePair | None]:
        """Return {"samples": reason, "features": reason}: why data cannot be split that way, or None where it can.

        A reason is an UnsuitablePair, not raised, whose text names loss and penalty.
        """
        refused = refusals(self.loss, self.penalty, self.alpha, self.l1_ratio, self.intercept == "free")
        return refused if self.on_totals(n_features, n_samples) is None else refused | {"samples": None}

    def choose(
        self, split: str, n_samples: int, n_features: int, stop: str, network: Callable[[], NetworkInfo] | None = None
    ) -> Split:
        """Return "samples" or "features", what nodes are to hold: as `split` says or, if "auto", what is cheaper.

        The cost model says what is cheaper on the network that `network()` returns; with `network` None the split with
        the shorter message is taken where methods on totals do not suit. Raise UnsuitablePair if the split, or with
        "auto" any split, is impossible. `stop` matters because without totals there is no certificate for a free
        intercept split by samples.
        """
        named = _named_split(split)
        refused = self.splits(n_features, n_samples)
        if named is not None:
            reason = refused[named]
            if reason is not None:
                raise reason
            return named
        allowed = [one for one, reason in refused.items() if reason is None]
        if not allowed:
            raise UnsuitablePair(" ".join(str(reason) for reason in refused.values()))
        totals = self.on_totals(n_features, n_samples) is not None
        if not totals and stop == "certificate" and self.intercept == "free" and "features" in allowed:
            return "features"  # split by samples a free intercept has no certificate
        if len(allowed) == 1:
            return allowed[0]
        if network is None:
            return "samples" if totals else shorter(allowed, n_samples, n_features)
        info = network()
        return min(allowed, key=lambda one: self._seconds(one, n_samples, n_features, info))

    def _seconds(self, split: Split, n_samples: int, n_features: int, info: NetworkInfo) -> float:
        """Return the seconds that the messages of a fit with this split take, as the cost model expects.

        `info` has the constants of the network that the model needs.
        """
        spec = ProblemSpec.of(self.loss, self.penalty, self.alpha, self.l1_ratio, split, self.intercept == "free")
        return least_seconds(spec, (n_samples, n_features + int(self.intercept == "penalised")), info)


def catalogue_objective(
    loss: str | Loss,
    penalty: str | Separable,
    alpha: float,
    l1_ratio: float | None,
    *,
    fit_intercept: bool,
    classifies: bool,
) -> Objective:
    """Return the objective sum_i s_i loss_i + alpha penalty, where s_i are sample weights, for a loss of the catalogue.

    Raise InvalidInput unless the loss is one for classification (`classifies` True) or for regression (False).
    """
    kinds = [name for name, kind in LOSSES.items() if kind.classifies is classifies]
    if (loss if isinstance(loss, str) else getattr(loss, "name", None)) not in kinds:
        raise InvalidInput(f"loss must be one of {', '.join(kinds)}, or such a Loss; got {loss!r}")
    return Objective(loss, penalty, number(alpha, "alpha"), l1_ratio, intercept="free" if fit_intercept else "none")


@dataclass(frozen=True)
class TrainingData:
    """Samples to learn from, pooled or with one part per node, and whether nodes hold samples or features."""

    parts: list[tuple[SampleMatrix, Vector, Vector]]  # (X, y, sample weights); a single one if pooled
    pooled: bool  # all data is in one part; else there is a part per node
    split: Split  # what a node holds: "samples" or "features"
    processes: ProcessGroup = SINGLE_PROCESS  # processes that fit together
    deal: Mapping[str, Any] | None = (
        None  # n_nodes and seed, where each process has rows of its own; None: all have all
    )
    names: tuple[str, ...] | None = None  # of the features, in the order of the coefficients; None: they have none
    offsets: Sequence[Vector] | None = None  # added to the linear predictors, one array per part; None: there are none
    clusters: Sequence[Indices] | None = None  # (m_k,) numbers of the clusters inside each part; None: there are none

    def with_targets(self, targets: list[Vector], weights: list[Vector]) -> TrainingData:
        """Return a copy with other targets and sample weights, one vector of each per part.

        A part is the data of one node, or all data where it is pooled.
        """
        new = [(X, y, w) for (X, _, _), y, w in zip(self.parts, targets, weights, strict=True)]
        return replace(self, parts=new)

    def rows(self, chosen: list[Indices]) -> TrainingData:
        """Return a copy of this data that has only the rows with numbers chosen[k] of each part k."""
        new = [(X[rows], y[rows], w[rows]) for (X, y, w), rows in zip(self.parts, chosen, strict=True)]
        offsets = None if self.offsets is None else [own[rows] for own, rows in zip(self.offsets, chosen, strict=True)]
        return replace(self, parts=new, offsets=offsets)

    def only(self, chosen: list[Indices]) -> TrainingData:
        """Return a copy of this data with sample weight 0 for all rows of part k but those numbered chosen[k]."""
        weights = [np.zeros_like(w) for _, _, w in self.parts]
        for own, rows, (_, _, w) in zip(weights, chosen, self.parts, strict=True):
            own[rows] = w[rows]
        return self.with_targets([y for _, y, _ in self.parts], weights)

    def of_all(self, own: list[T]) -> list[T]:
        """Return the lists `own` of all processes joined, if each process has rows of its own; else `own` itself.

        In the first case it is an all-gather, which all processes call together.
        """
        return own if self.deal is None else self.processes.all_gather(own)

    @property
    def targets(self) -> tuple[npt.NDArray[np.generic], Vector]:
        """Return (y, weights) of all samples, each of shape (m,).

        Split by features all parts have the same samples, which are counted once.
        """
        some = self.parts[:1] if self.split == "features" else self.parts
        pool = self.of_all([(y, weight) for _, y, weight in some])
        return np.concatenate([y for y, _ in pool]), np.concatenate([weight for _, weight in pool])

    @property
    def total_weight(self) -> float:
        """Return the sum of the weights of all samples; split by features the samples of the parts count once."""
        some = self.parts[:1] if self.split == "features" else self.parts
        return float(sum(self.of_all([float(weight.sum()) for _, _, weight in some])))

    def shape_of_variables(self, objective: Objective) -> tuple[int, ...]:
        """Return the shape of the variables that a fit on this data has, which a warm start must have.

        Split by features, there is one per feature, and one for a penalised intercept. Split by samples with a method
        on totals there is one per feature and one for an intercept, of classes that are fitted together a row for each;
        without such a method, one dual variable per sample.
        """
        if self.split == "features":
            return (int(sum(X.shape[1] for X, _, _ in self.parts)) + int(objective.intercept == "penalised"),)
        if self.method(objective) is not None:
            width = self.n_features + int(self.offsets is not None) + int(objective.intercept != "none")
            return (width,) if objective.n_classes is None else (objective.n_classes, width)
        return (sum(self.of_all([int(X.shape[0]) for X, _, _ in self.parts])),)

    @property
    def n_features(self) -> int:
        """Return the number of features of each part.

        It is defined for data split by samples, whose parts all have the same features.
        """
        return int(self.parts[0][0].shape[1])

    def method(self, objective: Objective) -> OnTotals | None:
        """Return the method on totals if nodes hold samples and one suits the objective; None: CoLA is to be used."""
        if self.split != "samples":
            return None
        return objective.on_totals(self.n_features, sum(self.of_all([int(X.shape[0]) for X, _, _ in self.parts])))

    def problems(self, objective: Objective, others: Iterable[TrainingData]) -> list[Problem]:
        """Return [problem of this data, problem of each of `others`], all with the same objective.

        `others` have the same rows with other targets and weights. All problems share one matrix, unless each process
        has rows of its own, which travel with their targets.
        """
        if self.deal is not None:
            return [self.problem(objective), *(other.problem(objective) for other in others)]
        first = self.problem(objective)
        targets = [([y for _, y, _ in o.parts], [objective.weight * w for _, _, w in o.parts]) for o in others]
        return [first, *(first.with_targets(y, weights) for y, weights in targets)]

    def problem(self, objective: Objective) -> Problem:
        """Return the Problem of minimising an objective on this data.

        A penalised intercept becomes the coefficient of a constant feature.
        """
        parts, names = [(X, y, objective.weight * weight) for X, y, weight in self.parts], self.names
        if objective.intercept == "penalised":
            names = None if names is None else (*names, INTERCEPT)
            at = range(len(parts)) if self.split == "samples" else [len(parts) - 1]  # one more feature, at one node
            for k in at:
                X, y, weight = parts[k]
                parts[k] = with_constant(X, objective.intercept_scaling), y, weight
        options = objective.options() | {"split": self.split}
        if self.pooled:
            X, y, weight = parts[0]
            options["offset"] = None if self.offsets is None else self.offsets[0]
            if self.deal is not None:
                return scatter(X, y, self.processes, sample_weight=weight, **self.deal, **options).named(names)
            return Problem.glm(X, y, sample_weight=weight, **options).named(names)
        made = Problem.from_nodes(parts, offsets=self.offsets, **options).named(names)
        return made if self.clusters is None else made.with_clusters(self.clusters)


def with_constant(X: SampleMatrix, value: float) -> SampleMatrix:
    """Return X, shape (m, p), with one more column whose entries are `value`, shape (m, p + 1); sparse stays sparse."""
    if sp.issparse(X):
        return sp.hstack([X, sp.csr_array(np.full((X.shape[0], 1), value))], format=X.format)
    return np.hstack([X, np.full((X.shape[0], 1), value)])


def _named_split(split: str) -> Split | None:
    """Return the split that the parameter `split` names; None for "auto"; raise InvalidInput for any other text."""
    if split not in ("auto", "samples", "features"):
        raise InvalidInput(f"split must be 'auto', 'samples' or 'features', got {split!r}")
    if split == "auto":
        return None
    return "samples" if split == "samples" else "features"
