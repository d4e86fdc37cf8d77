"""A trained model, and the file that holds it.

The file is an npz archive of plain arrays, so NumPy alone can read it and nothing in it is ever executed:

| key         | dtype        | holds                                      |
|-------------|--------------|--------------------------------------------|
| `coef`      | float64 (p,) | coefficients, in the order of X's columns  |
| `intercept` | float64 ()   | added to X @ coef                          |
| `meta`      | uint8 (n,)   | everything else, as JSON in UTF-8          |

`meta` is an object with `format` = "glmesh-model", `version` = 2, and the fields of `Model` other than the arrays:
`loss`, `penalty`, `alpha`, `l1_ratio`, `classes` (numbers or texts, or null) and `info`. With c > 2 classes, each
against the rest, `coef` is (c, p) and `intercept` (c,). A reader refuses a version that it does not know; version 1
had two classes, both numbers.
"""

import json
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit

from glmesh.errors import InvalidData, UnreadableFile, UnsuitablePair
from glmesh.files.archive import write_atomically
from glmesh.files.data_files import read_arrays
from glmesh.types import Data, Matrix, Vector

FORMAT = "glmesh-model"
VERSION = 2


@dataclass(frozen=True, eq=False)
class Model:
    """x ↦ xᵀcoef + intercept, and how it was trained."""

    coef: Vector | Matrix
    intercept: float | Vector
    loss: str
    penalty: str
    alpha: float
    l1_ratio: float
    classes: tuple[float | str, ...] | None = None  # of the negative and the positive side; None for a regression
    info: dict[str, str | float | int] = field(default_factory=dict)  # anything worth keeping about the run

    def decision(self, X: Data) -> Vector:
        """X @ coef + intercept, with more than two classes a column each.

        A sparse X may lack trailing columns: svmlight files drop what is zero.
        """
        if not issparse(X):
            X = np.asarray(X, dtype=np.float64)
        p = self.coef.shape[-1]
        if X.ndim != 2 or X.shape[1] > p or (X.shape[1] < p and not issparse(X)):
            raise InvalidData(f"X has shape {X.shape}, expected {p} columns: those the model was trained on")
        scores: Vector = X @ self.coef[..., : X.shape[1]].T + self.intercept
        return scores

    def predict(self, X: Data) -> Vector:
        """The class on x's side of the plane, or with the largest decision; for a regression, the decision itself."""
        scores = self.decision(X)
        if self.classes is None:
            return scores
        predicted: Vector = np.array(self.classes)[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0) * 1]
        return predicted

    def predict_probability(self, X: Data) -> Vector:
        """P(positive class | x) = 1 / (1 + exp(-decision)), which only the logistic loss stands for.

        With more than two classes a column each, made to sum up to one.
        """
        if self.loss != "logistic":
            raise UnsuitablePair(
                f"the {self.loss} loss has no probabilities; use decision, or train with loss='logistic'"
            )
        probabilities: Vector = expit(self.decision(X))
        return probabilities / probabilities.sum(axis=1, keepdims=True) if probabilities.ndim == 2 else probabilities

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model whole or not at all: a crash leaves the old file."""
        meta = {
            "format": FORMAT,
            "version": VERSION,
            "loss": self.loss,
            "penalty": self.penalty,
            "alpha": float(self.alpha),
            "l1_ratio": float(self.l1_ratio),
            "classes": self.classes and [_label(label) for label in self.classes],
            "info": self.info,
        }
        text = json.dumps(meta, default=np.generic.item)  # NumPy's scalars as Python's
        arrays: dict[str, Any] = {
            "coef": np.asarray(self.coef, dtype=np.float64),
            "intercept": np.asarray(self.intercept, dtype=np.float64),
            "meta": np.frombuffer(text.encode(), dtype=np.uint8),
        }
        write_atomically(path, lambda stream: np.savez(stream, **arrays))


def load(path: str | PathLike[str]) -> Model:
    """Read what `Model.save` wrote."""
    path = Path(path)
    arrays = read_arrays(path, (), optional=("coef", "intercept", "meta"))
    meta = _meta(arrays.get("meta", np.array(0)), path)
    coef, intercept = arrays.get("coef"), arrays.get("intercept")
    if coef is None or intercept is None or coef.dtype.kind != "f" or coef.ndim not in (1, 2):
        raise UnreadableFile(f"{path}: expected a vector 'coef' and a number 'intercept'; save the model again")
    if intercept.size != (1 if coef.ndim == 1 else len(coef)):
        raise UnreadableFile(f"{path}: expected an 'intercept' for each row of 'coef'; save the model again")
    try:
        return Model(
            coef=coef.astype(np.float64),
            intercept=float(intercept.item()) if coef.ndim == 1 else intercept.astype(np.float64),
            loss=str(meta["loss"]),
            penalty=str(meta["penalty"]),
            alpha=float(meta["alpha"]),
            l1_ratio=float(meta["l1_ratio"]),
            classes=_classes(meta["classes"], coef),
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
    if meta.get("version") not in (1, VERSION):
        raise UnreadableFile(
            f"{path}: is a glmesh model of version {meta.get('version')}, expected {VERSION}; upgrade glmesh"
        )
    return meta


def _label(label: Any) -> float | str:
    return label if isinstance(label, str) else float(label)


def _classes(labels: Any, coef: np.ndarray[Any, Any]) -> tuple[float | str, ...] | None:
    if labels is None:
        return None
    if len(labels) != (2 if coef.ndim == 1 else len(coef)):
        raise ValueError(f"{len(labels)} classes for coefficients of shape {coef.shape}")
    return tuple(_label(label) for label in labels)
