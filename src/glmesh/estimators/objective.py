"""Objectives as scikit-learn scales them, and training data, made into problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import LOSSES, Loss, Separable, Table
from glmesh.problem import Problem, Split, refusals, shorter
from glmesh.types import Indices, SampleMatrix, Vector
from glmesh.validation import number_in

Intercept = Literal["none", "free", "penalised"]


def number(value: object, name: str, *, positive: bool = False) -> float:
    """Return a finite number >= 0 (> 0 if positive) as a float; refuse any other value of the parameter `name`."""
    if positive:
        return number_in(value, name, "a finite number > 0", lambda number: 0 < number < np.inf)
    return number_in(value, name, "a finite number >= 0", lambda number: 0 <= number < np.inf)


def elastic_net(l1_ratio: float, *, positive: bool = False) -> Table:
    """Return the penalty l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2, on w >= 0 if positive."""
    share = number_in(l1_ratio, "l1_ratio", "between 0 and 1", lambda ratio: 0 <= ratio <= 1)
    low = np.asarray(0.0 if positive else -np.inf)
    return Table(l1=np.asarray(share), l2=np.asarray(1.0 - share), lo=low)


@dataclass(frozen=True)
class Objective:
    """weight sum_i s_i loss(y_i, x_i.w + b) + alpha penalty(w), the objective that is solved."""

    loss: Loss | str
    penalty: Separable | str
    alpha: float
    l1_ratio: float | None = None
    weight: float = 1.0
    intercept: Intercept = "free"
    intercept_scaling: float = 1.0  # of a penalised intercept
    unit: float = 1.0  # factor from this objective to the user's

    def options(self) -> dict[str, Any]:
        """Return loss, penalty and intercept as arguments of `Problem.glm`."""
        return {
            "loss": self.loss,
            "penalty": self.penalty,
            "alpha": self.alpha,
            "l1_ratio": self.l1_ratio,
            "fit_intercept": self.intercept == "free",
        }

    def splits(self) -> dict[Split, UnsuitablePair | None]:
        """Return for either split why it cannot be, or None where it can."""
        return refusals(self.loss, self.penalty, self.alpha, self.l1_ratio, self.intercept == "free")

    def choose(self, split: str, n_samples: int, n_features: int, stop: str) -> Split:
        """Return the split that was asked for; with "auto" the possible one with the shorter message."""
        if split not in ("auto", "samples", "features"):
            raise InvalidInput(f"split must be 'auto', 'samples' or 'features', got {split!r}")
        refused = self.splits()
        if split != "auto":
            reason = refused[split]  # type: ignore[index]
            if reason is not None:
                raise reason
            return split  # type: ignore[return-value]
        allowed = [one for one, reason in refused.items() if reason is None]
        if not allowed:
            raise UnsuitablePair(" ".join(str(reason) for reason in refused.values()))
        if stop == "certificate" and self.intercept == "free" and "features" in allowed:
            return "features"  # split by samples a free intercept has no certificate
        return shorter(allowed, n_samples, n_features)


def catalogue_objective(
    loss: str | Loss,
    penalty: str | Separable,
    alpha: float,
    l1_ratio: float | None,
    *,
    fit_intercept: bool,
    classifies: bool,
) -> Objective:
    """Return sum_i s_i loss + alpha penalty for a loss of the catalogue that classifies, or does not."""
    kinds = [name for name, kind in LOSSES.items() if kind.classifies is classifies]
    if (loss if isinstance(loss, str) else getattr(loss, "name", None)) not in kinds:
        raise InvalidInput(f"loss must be one of {', '.join(kinds)}, or such a Loss; got {loss!r}")
    return Objective(loss, penalty, number(alpha, "alpha"), l1_ratio, intercept="free" if fit_intercept else "none")


@dataclass(frozen=True)
class TrainingData:
    """Samples to learn from: pooled, or apart with one part per node."""

    parts: list[tuple[SampleMatrix, Vector, Vector]]  # (X, y, sample weights); a single one if pooled
    pooled: bool
    split: Split

    def with_targets(self, targets: list[Vector], weights: list[Vector]) -> TrainingData:
        """Return these samples with other targets and weights, one vector per part."""
        new = [(X, y, w) for (X, _, _), y, w in zip(self.parts, targets, weights, strict=True)]
        return TrainingData(new, self.pooled, self.split)

    def rows(self, chosen: list[Indices]) -> TrainingData:
        """Return the rows chosen[k] of each part k."""
        new = [(X[rows], y[rows], w[rows]) for (X, y, w), rows in zip(self.parts, chosen, strict=True)]
        return TrainingData(new, self.pooled, self.split)

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all samples."""
        if self.split == "features":
            return float(self.parts[0][2].sum())
        return float(sum(weight.sum() for _, _, weight in self.parts))

    def n_variables(self, objective: Objective) -> int:
        """Return the number of variables of the problem: one per sample, or one per feature."""
        if self.split == "samples":
            return int(sum(X.shape[0] for X, _, _ in self.parts))
        return int(sum(X.shape[1] for X, _, _ in self.parts)) + int(objective.intercept == "penalised")

    def problem(self, objective: Objective) -> Problem:
        """Return the problem of minimising an objective on this data."""
        parts = [(X, y, objective.weight * weight) for X, y, weight in self.parts]
        if objective.intercept == "penalised":
            at = range(len(parts)) if self.split == "samples" else [len(parts) - 1]  # one more feature, at one node
            for k in at:
                X, y, weight = parts[k]
                parts[k] = with_constant(X, objective.intercept_scaling), y, weight
        options = objective.options() | {"split": self.split}
        if self.pooled:
            X, y, weight = parts[0]
            return Problem.glm(X, y, sample_weight=weight, **options)
        return Problem.from_nodes(parts, **options)


def with_constant(X: SampleMatrix, value: float) -> SampleMatrix:
    """Return X with a constant column at its end; sparse stays sparse."""
    if sp.issparse(X):
        return sp.hstack([X, sp.csr_array(np.full((X.shape[0], 1), value))], format=X.format)
    return np.hstack([X, np.full((X.shape[0], 1), value)])
