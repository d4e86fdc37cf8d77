"""A trained model, and the file that holds it.

The file is an npz archive of plain arrays, so NumPy alone can read it and nothing in it is ever executed:

| key         | dtype        | holds                                      |
|-------------|--------------|--------------------------------------------|
| `coef`      | float64 (p,) | coefficients, in the order of X's columns  |
| `intercept` | float64 ()   | added to X @ coef                          |
| `meta`      | uint8 (n,)   | everything else, as JSON in UTF-8          |

`meta` is an object with `format` = "glmesh-model", `version` = 1, and the fields of `Model` other than the arrays:
`loss`, `penalty`, `alpha`, `l1_ratio`, `classes` (two numbers or null) and `info`. A reader refuses another version.
"""

import json
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit

from glmesh.archive import write_atomically
from glmesh.datasets import read_arrays
from glmesh.errors import InvalidData, UnreadableFile, UnsuitablePair
from glmesh.types import AnyArray, Vector

FORMAT = "glmesh-model"
VERSION = 1


@dataclass(frozen=True, eq=False)
class Model:
    """x ↦ xᵀcoef + intercept, and how it was trained."""

    coef: Vector
    intercept: float
    loss: str
    penalty: str
    alpha: float
    l1_ratio: float
    classes: tuple[float, float] | None = None  # of the negative and the positive side; None for a regression
    info: dict[str, str | float | int] = field(default_factory=dict)  # anything worth keeping about the run

    def decision(self, X: AnyArray) -> Vector:
        """X @ coef + intercept. A sparse X may lack trailing columns: svmlight files drop what is zero."""
        if not issparse(X):
            X = np.asarray(X, dtype=np.float64)
        p = len(self.coef)
        if X.ndim != 2 or X.shape[1] > p or (X.shape[1] < p and not issparse(X)):
            raise InvalidData(f"X has shape {X.shape}, expected {p} columns: those the model was trained on")
        scores: Vector = X @ self.coef[: X.shape[1]] + self.intercept
        return scores

    def predict(self, X: AnyArray) -> Vector:
        """The class on x's side of the plane; for a regression, the decision itself."""
        scores = self.decision(X)
        return scores if self.classes is None else np.where(scores > 0, self.classes[1], self.classes[0])

    def predict_probability(self, X: AnyArray) -> Vector:
        """P(positive class | x) = 1 / (1 + exp(-decision)), which only the logistic loss stands for."""
        if self.loss != "logistic":
            raise UnsuitablePair(
                f"the {self.loss} loss has no probabilities; use decision, or train with loss='logistic'"
            )
        probabilities: Vector = expit(self.decision(X))
        return probabilities

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model whole or not at all: a crash leaves the old file."""
        meta = {
            "format": FORMAT,
            "version": VERSION,
            "loss": self.loss,
            "penalty": self.penalty,
            "alpha": float(self.alpha),
            "l1_ratio": float(self.l1_ratio),
            "classes": self.classes and [float(label) for label in self.classes],
            "info": self.info,
        }
        text = json.dumps(meta, default=np.generic.item)  # NumPy's scalars as Python's
        arrays: dict[str, Any] = {
            "coef": np.asarray(self.coef, dtype=np.float64),
            "intercept": np.float64(self.intercept),
            "meta": np.frombuffer(text.encode(), dtype=np.uint8),
        }
        write_atomically(path, lambda stream: np.savez(stream, **arrays))


def load(path: str | PathLike[str]) -> Model:
    """Read what `Model.save` wrote."""
    path = Path(path)
    arrays = read_arrays(path, (), optional=("coef", "intercept", "meta"))
    meta = _meta(arrays.get("meta", np.array(0)), path)
    coef, intercept = arrays.get("coef"), arrays.get("intercept")
    if coef is None or intercept is None or (coef.ndim, coef.dtype.kind, intercept.size) != (1, "f", 1):
        raise UnreadableFile(f"{path}: expected a vector 'coef' and a number 'intercept'; save the model again")
    try:
        return Model(
            coef=coef.astype(np.float64),
            intercept=float(intercept.item()),
            loss=str(meta["loss"]),
            penalty=str(meta["penalty"]),
            alpha=float(meta["alpha"]),
            l1_ratio=float(meta["l1_ratio"]),
            classes=None if meta["classes"] is None else _pair(*meta["classes"]),
            info=dict(meta["info"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableFile(f"{path}: key 'meta' lacks or spoils a field ({error!r}); save the model again") from error


def _meta(array: np.ndarray[Any, Any], path: Path) -> dict[str, Any]:
    try:
        meta = json.loads(array.tobytes())
    except (ValueError, RecursionError):
        meta = None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise UnreadableFile(f"{path}: not a glmesh model; expected a file that Model.save wrote")
    if meta.get("version") != VERSION:
        raise UnreadableFile(
            f"{path}: is a glmesh model of version {meta.get('version')}, expected {VERSION}; upgrade glmesh"
        )
    return meta


def _pair(negative: float, positive: float) -> tuple[float, float]:
    return float(negative), float(positive)
