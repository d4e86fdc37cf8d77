"""What all estimators share: the network they learn over, validation, fitting, and what a fit leaves behind."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from glmesh.engine.result import Result, Status
from glmesh.engine.run import Run
from glmesh.engine.solve import solve
from glmesh.errors import InvalidData, InvalidInput, UnsuitablePair
from glmesh.functions import Loss, Separable
from glmesh.methods import Cola
from glmesh.problem.problem import Problem
from glmesh.problem.spec import Split, refusals, shorter
from glmesh.types import AnyArray, Vector

RECORD_EVERY = 5  # rounds between looks at the gap: a look costs about as much as a round


@dataclass(frozen=True)
class Objective:
    """weight sum_i s_i loss(y_i, x_i.w + b) + alpha penalty(w), and how the user's objective is scaled."""

    loss: Loss | str
    penalty: Separable | str
    alpha: float
    l1_ratio: float | None = None
    weight: float = 1.0
    intercept: Literal["none", "free", "penalised"] = "free"
    intercept_scaling: float = 1.0
    unit: float = 1.0  # the user's objective is so many times this one

    def options(self) -> dict[str, Any]:
        """As `Problem` takes it."""
        return {
            "loss": self.loss,
            "penalty": self.penalty,
            "alpha": self.alpha,
            "l1_ratio": self.l1_ratio,
            "fit_intercept": self.intercept == "free",
        }

    def splits(self) -> dict[Split, UnsuitablePair | None]:
        """Why it cannot be split by samples, or by features; None where it can."""
        return refusals(self.loss, self.penalty, self.alpha, self.l1_ratio, self.intercept == "free")

    def choose(self, split: str, n_samples: int, n_features: int, stop: str) -> Split:
        """The split that was asked for or, with "auto", of those that there are the one with the shorter message."""
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


@dataclass(frozen=True)
class Data:
    """Pooled data, or one (X, y, weight) per node."""

    parts: list[tuple[AnyArray, Vector, Vector]]
    pooled: bool
    split: Split

    def with_targets(self, targets: list[Vector], weights: list[Vector] | None = None) -> Data:
        """The same samples with other targets, and weights."""
        new = [
            (X, y, w if weights is None else weights[k])
            for k, ((X, _, w), y) in enumerate(zip(self.parts, targets, strict=True))
        ]
        return Data(new, self.pooled, self.split)

    def rows(self, chosen: list[AnyArray]) -> Data:
        """Of each part these rows only."""
        return Data(
            [(X[rows], y[rows], w[rows]) for (X, y, w), rows in zip(self.parts, chosen, strict=True)],
            self.pooled,
            self.split,
        )

    @property
    def total_weight(self) -> float:
        """Of all samples."""
        if self.split == "features":
            return float(self.parts[0][2].sum())
        return float(sum(weight.sum() for _, _, weight in self.parts))

    def n_variables(self, objective: Objective) -> int:
        """One per feature, or per sample."""
        if self.split == "samples":
            return int(sum(X.shape[0] for X, _, _ in self.parts))
        return int(sum(X.shape[1] for X, _, _ in self.parts)) + int(objective.intercept == "penalised")

    def problem(self, objective: Objective) -> Problem:
        """What is to be solved."""
        parts = [(X, y, objective.weight * weight) for X, y, weight in self.parts]
        if objective.intercept == "penalised":
            at = range(len(parts)) if self.split == "samples" else [len(parts) - 1]  # one more feature, at one node
            for k in at:
                X, y, weight = parts[k]
                parts[k] = with_ones(X, objective.intercept_scaling), y, weight
        options = objective.options() | {"split": self.split}
        if self.pooled:
            X, y, weight = parts[0]
            return Problem.glm(X, y, sample_weight=weight, **options)
        return Problem.from_nodes(parts, **options)


def with_ones(X: AnyArray, value: float) -> AnyArray:
    """X with a constant column behind the others; sparse stays sparse."""
    if sp.issparse(X):
        return sp.hstack([X, sp.csr_array(np.full((X.shape[0], 1), value))], format=X.format)
    return np.hstack([X, np.full((X.shape[0], 1), value)])


class NetworkEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator that learns over a network of nodes.

    Network options, common to all: n_nodes and topology of the simulated network (`fit`; `fit_nodes` has a node per
    part). split: who holds what, "samples", "features" or "auto", which takes the split that the pair of loss and
    penalty allows and whose message is shorter (`split_` says which). tol: relative duality gap at which to stop.
    max_rounds: at most so many rounds (`max_iter`, scikit-learn's name, means the same). local_passes: passes over its
    data that a node makes each round. stop: "gap", "certificate" (the nodes prove it themselves) or "rounds". runtime:
    "mpi" hosts the nodes on the ranks of an MPI program, each of which calls `fit` with the same arguments.
    random_state: of the way data is dealt out. n_jobs: threads. verbose: prints how it goes.
    """

    n_nodes: int
    topology: Any
    split: str
    tol: float
    max_rounds: int
    max_iter: int | None
    local_passes: int | None
    stop: str
    runtime: str
    random_state: Any
    n_jobs: int | None
    verbose: int

    # --- what subclasses say

    @abstractmethod
    def fit(self, X: AnyArray, y: AnyArray, sample_weight: AnyArray = None) -> Self:
        """Learns from pooled data, dealt out over a simulated network."""

    @abstractmethod
    def _objective(self, data: Data) -> Objective:
        """What is minimised on this data."""

    # --- validation

    def _validated(self, X: AnyArray, y: AnyArray, sample_weight: AnyArray, **checks: Any) -> Data:
        """Pooled data, checked; the split is chosen later."""
        X, y = validate_data(self, X, y, accept_sparse=("csr", "csc"), dtype=np.float64, **checks)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        return Data([(X, y, weight)], pooled=True, split="features")

    def _validated_parts(self, parts: Sequence[Any], split: str, *, numeric: bool) -> Data:
        """Data that is apart, checked: one (X, y) or (X, y, sample_weight) per node."""
        if not len(parts):
            raise InvalidData("parts is empty: give one (X, y) per node")
        checked = []
        for k, part in enumerate(parts):
            if not isinstance(part, tuple | list) or len(part) not in (2, 3):
                raise InvalidData(f"part {k} must be (X, y) or (X, y, sample_weight)")
            try:
                X = check_array(part[0], accept_sparse=("csr", "csc"), dtype=np.float64, ensure_min_samples=0)
                y = np.asarray(part[1], dtype=np.float64 if numeric else None)
                if y.shape != (X.shape[0],):
                    raise ValueError(f"X has {X.shape[0]} rows, y has shape {y.shape}")
                weight = part[2] if len(part) == 3 else None
                w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise InvalidData(f"part {k}: {error}") from error
            checked.append((X, y, w))
        widths = {X.shape[1] for X, _, _ in checked}
        if split == "samples" and len(widths) > 1:
            raise InvalidData(f"split by samples all parts have the same features, got {sorted(widths)} columns")
        self.n_features_in_ = sum(X.shape[1] for X, _, _ in checked) if split == "features" else widths.pop()
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return Data(checked, pooled=False, split=split)  # type: ignore[arg-type]

    def _split_of_parts(self, parts: Sequence[Any], objective: Objective) -> Split:
        """By samples if the pair allows that and all parts have as many columns, else by features."""
        widths = {np.shape(part[0])[1] for part in parts if len(np.shape(part[0])) == 2}
        if self.split != "auto":
            return objective.choose(self.split, 1, 1, self.stop)
        can = objective.splits()["samples"] is None and len(widths) == 1
        return objective.choose("samples" if can else "features", 1, 1, self.stop)

    # --- fitting

    def _solve(self, data: Data, objective: Objective, warm_start: Vector | None = None) -> Result:
        """One problem, over the network."""
        result = solve(
            data.problem(objective),
            **self._network(data),
            tol=self.tol,
            max_rounds=self._limit(),
            stop=self.stop,  # type: ignore[arg-type]
            record_every=RECORD_EVERY,
            warm_start=warm_start,
            callback=self._report if self.verbose else None,
        )
        if result.status not in (Status.CONVERGED, Status.CERTIFIED, Status.ROUNDS_DONE):
            warnings.warn(result.message, ConvergenceWarning, stacklevel=4)
        if self.verbose:
            sys.stderr.write(f"{type(self).__name__}, split by {data.split}: {result.message}\n")
        return result

    def _limit(self) -> int:
        return self.max_rounds if self.max_iter is None else self.max_iter

    def _network(self, data: Data) -> dict[str, Any]:
        """The options of a run."""
        seed = self.random_state
        if seed is None:
            seed = 0
        elif not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31 - 1)
        return {
            "method": Cola(local_passes=self.local_passes),
            "n_nodes": self.n_nodes if data.pooled else len(data.parts),
            "topology": self.topology,
            "seed": int(seed),
            "n_jobs": self.n_jobs,
            "runtime": self.runtime,
        }

    def _report(self, run: Run) -> None:
        if run.rounds % 100 == 0 and run.history:
            last = run.history[-1]
            sys.stderr.write(
                f"{type(self).__name__}: round {run.rounds}, objective {last['objective']:.6g}, gap {last['gap']:.2g}\n"
            )

    def _model(self, result: Result, objective: Objective) -> tuple[Vector, float]:
        """(coefficients, intercept)."""
        if objective.intercept == "penalised":
            return result.coef[:-1].copy(), objective.intercept_scaling * float(result.coef[-1])
        return result.coef.copy(), float(result.intercept)

    def _start(self, size: int, turn: int = 0) -> Vector | None:
        """Where an earlier fit ended, if that is asked for and fits."""
        before = getattr(self, "_variables", []) if getattr(self, "warm_start", False) else []
        return before[turn] if turn < len(before) and len(before[turn]) == size else None

    # --- what a fit leaves behind

    def _scores(self, X: AnyArray) -> AnyArray:
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=("csr", "csc"), dtype=np.float64, reset=False)
        return np.asarray(X @ self.coef_.T + self.intercept_)

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Objective, gap and consensus against rounds and bytes, as a figure; written to `path` if there is one."""
        from glmesh.plot import figures as plot

        check_is_fitted(self)
        results = self.result_ if isinstance(self.result_, list) else [self.result_]
        histories = [
            result.history | {key: self._unit * result.history[key] for key in ("objective", "gap")}
            for result in results
        ]
        return plot.training(histories, path=path, title=type(self).__name__)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model to a file of plain arrays, as `glmesh train` does; `glmesh.load_model` reads it."""
        from glmesh.estimators.export import save

        save(self, path)

    def to_sklearn(self) -> Any:
        """A fitted scikit-learn estimator with the same predictions."""
        from glmesh.estimators.export import to_sklearn

        return to_sklearn(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> Any:
        """Without the data that a result refers to: a model is small, and its data is private."""
        state = dict(super().__getstate__())
        if "result_" in state:
            results = state["result_"]
            state["result_"] = (
                [r.without_data() for r in results] if isinstance(results, list) else results.without_data()
            )
        return state
