"""Trained models, and the files that hold them.

The file is an npz archive of plain arrays, so NumPy alone can read it and nothing in it is ever executed:

| key         | dtype        | holds                                      |
|-------------|--------------|--------------------------------------------|
| `coef`      | float64 (p,) | coefficients, in the order of X's columns  |
| `intercept` | float64 ()   | added to X @ coef                          |
| `meta`      | uint8 (n,)   | everything else, as JSON in UTF-8          |
| `statistics_...` | float64 | sums at the end of a fit without a penalty |

With c > 2 classes, each against the rest, and with the multinomial loss, `coef` is (c, p) and `intercept` (c,). `meta`
is an object:

| field                       | holds                                                                                  |
|-----------------------------|----------------------------------------------------------------------------------------|
| `format`, `version`         | "glmesh-model", 3; 4 with a design                                                     |
| `loss`, `penalty`           | names of what was minimised                                                            |
| `alpha`, `l1_ratio`         | weight of the penalty, share of L1 in it                                               |
| `classes`                   | labels, numbers or texts; null for a regression                                        |
| `contract`                  | names of the features in the order of `coef`, target, labels (`Contract.to_dict`);     |
|                             | its `split` is "features" if `coef` is one site's share; null: columns have no names   |
| `design`                    | of a model that was fitted by a formula: formula, terms, variables with their levels,  |
|                             | and the names of the columns in the order of `coef` (`Design.to_dict`); the columns of |
|                             | `contract` are then those of the tables; null or absent: the columns are the features  |
| `statistics`                | numbers and names beside the arrays `statistics_...` (`FitStatistics`), those that are |
|                             | not finite as "nan", "inf" or "-inf"; null or absent: none                             |
| `federation`, `digest`      | name of the federation and digest of its file; "" without                              |
| `sites`, `without`          | members whose rows (or columns) are in the model, and those whose are not; [] without  |
| `info`                      | texts and numbers about the run, by name; with a family its link and parameters, and   |
|                             | as `exposure` the column whose logarithm is added                                      |

A reader refuses a version that it does not know. Version 3 has no design; version 2 lacks `contract`, `federation`,
`digest`, `sites` and `without`; version 1 also had two classes at most, both numbers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, softmax

from glmesh.contract import Contract
from glmesh.errors import InvalidData, UnreadableFile, UnsuitablePair
from glmesh.files.archive import write_atomically
from glmesh.files.data_files import read_arrays
from glmesh.formulas import Design
from glmesh.functions import FAMILIES, Family, Softmax
from glmesh.methods.totals.likelihood.statistics import MEATS, FitStatistics
from glmesh.types import Array, Data, Matrix, Tree, Vector

FORMAT = "glmesh-model"
VERSION = 3
DESIGNED = 4  # version of files with a design, which earlier readers cannot apply
NOT_FINITE = ("nan", "inf", "-inf")  # how numbers that JSON does not have are written
MATRICES = ("gradient", "hessian", "information", "targets")  # arrays of `FitStatistics` beside its meats
STATISTICS = tuple(f"statistics_{name}" for name in (*MATRICES, *MEATS))  # keys of a file that hold them


@dataclass(frozen=True, eq=False)
class Model:
    """A linear model x -> x.coef + intercept, and how it was trained.

    Parameters
    ----------
    coef : array of shape (p,) or (c, p)
        Coefficients; a row per class where there are c > 2, each against the rest, or with the multinomial loss.
    intercept : float, or array of shape (c,)
        Added to x.coef.
    loss, penalty : str
        Names of what was minimised.
    alpha, l1_ratio : float
        Weight of the penalty, and the share of L1 in it.
    classes : tuple, optional
        Labels, of the negative and the positive side where there are two; None for a regression.
    info : dict, default {}
        Anything worth keeping about the run: texts and numbers by name.
    contract : Contract, optional
        Names of the features in the order of the coefficients, target and labels. Its split is "features" if the
        coefficients are one site's share, and "samples" if they are all there are, however they were trained. None, or
        a contract without header: columns go by position.
    federation, digest : str, default ""
        Name of the federation that trained the model, and the digest of its file.
    statistics : FitStatistics, optional
        What totals at the end of a fit without a penalty say, from which the table of coefficients is made; None: there
        were none.
    sites, without : tuple of str, default ()
        Members of the federation whose data are in the model, and those whose data are not.
    version : int, default 3
        Version of the file that the model was read from.
    design : Design, optional
        What makes the features of the columns of a table, where the model was fitted by a formula; None: the columns
        are the features.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.files.model_files import Model
    >>> model = Model(np.array([1.0, -1.0]), 0.5, "logistic", "l2", alpha=1.0, l1_ratio=0.0, classes=(0.0, 1.0))
    >>> model.predict([[2.0, 1.0], [0.0, 1.0]])
    array([1., 0.])
    """

    coef: Vector | Matrix
    intercept: float | Vector
    loss: str
    penalty: str
    alpha: float
    l1_ratio: float
    classes: tuple[float | str, ...] | None = None
    info: dict[str, str | float | int] = field(default_factory=dict)
    contract: Contract | None = None
    statistics: FitStatistics | None = None
    federation: str = ""
    digest: str = ""
    sites: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    version: int = VERSION
    design: Design | None = None

    @property
    def names(self) -> tuple[str, ...] | None:
        """Return the names of the p features, in the order of the coefficients; None: columns go by position."""
        if self.design is not None:
            return *self.design.names, *self.beside
        return (self.contract.names or None) if self.contract is not None and self.contract.header else None

    @property
    def beside(self) -> tuple[str, ...]:
        """Return the names of features that are no columns of the design, such as an offset; empty without a design."""
        if self.design is None or self.contract is None:
            return ()
        return tuple(name for name in self.contract.names if name not in self.design.wanted)

    @property
    def rows(self) -> tuple[int, int] | None:
        """Return (rows that there were, those left out because of missing values); None: the model does not say."""
        if "rows_left_out" not in self.info:
            return None
        return int(self.info["rows"]), int(self.info["rows_left_out"])

    @property
    def is_share(self) -> bool:
        """Return whether the coefficients are those of one site's columns only, in a split by features."""
        if self.contract is not None:
            return self.contract.split == "features"
        return "node" in self.info and self.info.get("split") == "features"  # as files of version 2 say it

    @property
    def family(self) -> Family | None:
        """Return the family of distributions with its link, which `info` has; None: the loss is none of a family."""
        if self.loss not in FAMILIES:
            return None
        kind = FAMILIES[self.loss]
        known = {one.name: self.info[one.name] for one in fields(kind) if one.name in self.info}
        return kind(**known)  # type: ignore[arg-type]

    @property
    def lacks(self) -> str:
        """Return words on why the model has no names of features; "" if it has them."""
        if self.names is not None:
            return ""
        if self.version < VERSION:
            return f"is a model file of version {self.version}, which has no names of features, target and sites"
        return "has no names of features, since it was trained on data without names"

    def decision(self, X: Data) -> Vector:
        """Return X @ coef + intercept, of shape (m,), or (m, c) with a row of coefficients for each of c classes.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, p)
            Samples; a sparse X may lack trailing columns, since svmlight files drop what is zero.

        Returns
        -------
        array
            Decisions.

        Raises
        ------
        InvalidData
            X has other columns than the model.
        """
        if not issparse(X):
            X = np.asarray(X, dtype=np.float64)
        p = self.coef.shape[-1]
        if X.ndim != 2 or X.shape[1] > p or (X.shape[1] < p and not issparse(X)):
            raise InvalidData(f"X has shape {X.shape}, expected {p} columns: those the model was trained on")
        if "exposure" in self.info and self.names is not None:
            at = self.names.index(str(self.info["exposure"]))
            X = np.array(X.toarray() if issparse(X) else X)
            if not (X[:, at] > 0).all():
                raise InvalidData(f"the exposure {self.names[at]!r} is not > 0 in every row; leave such rows out")
            X[:, at] = np.log(X[:, at])
        scores: Vector = X @ self.coef[..., : X.shape[1]].T + self.intercept
        return scores

    def predict(self, X: Data) -> Vector:
        """Return (m,) labels by the sign, or by the largest, of the decisions; of a regression the expected targets.

        These are the decisions or, with a family, the inverse link of them.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, p)
            Samples.

        Returns
        -------
        array
            Labels, or expected targets of a regression.
        """
        scores = self.decision(X)
        if self.classes is None:
            return scores if self.family is None else self.family.mean(scores)
        predicted: Vector = np.array(self.classes)[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0) * 1]
        return predicted

    def predict_probability(self, X: Data) -> Vector:
        """Return P(positive class) = 1 / (1 + exp(-decision)) of each sample; it needs a logistic or multinomial loss.

        With the multinomial loss the probability of a class is exp(decision) divided by the sum over all classes.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, p)
            Samples.

        Returns
        -------
        array
            Probabilities of shape (m,); with c > 2 classes (m, c), which sum up to one.

        Raises
        ------
        UnsuitablePair
            The model was trained with another loss.
        """
        if self.loss == Softmax.name:
            together = softmax(self.decision(X), axis=1)
            return np.asarray(together[:, 1] if together.shape[1] == 2 else together)
        if self.loss != "logistic":
            raise UnsuitablePair(
                f"the {self.loss} loss has no probabilities; use decision, or train with loss='logistic'"
            )
        probabilities: Vector = expit(self.decision(X))
        return probabilities / probabilities.sum(axis=1, keepdims=True) if probabilities.ndim == 2 else probabilities

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file, whole or not at all: a crash leaves the old file.

        Parameters
        ----------
        path : str or path
            The file.
        """
        meta = {
            "format": FORMAT,
            "version": VERSION if self.design is None else DESIGNED,
            "loss": self.loss,
            "penalty": self.penalty,
            "alpha": float(self.alpha),
            "l1_ratio": float(self.l1_ratio),
            "classes": self.classes and [_label(label) for label in self.classes],
            "info": self.info,
            "contract": self.contract and self.contract.to_dict(),
            "design": self.design and self.design.to_dict(),
            "statistics": None,
            "federation": self.federation,
            "digest": self.digest,
            "sites": list(self.sites),
            "without": list(self.without),
        }
        arrays: dict[str, Any] = {}
        if self.statistics is not None:
            meta["statistics"], arrays = packed_statistics(self.statistics)
        text = json.dumps(meta, default=np.generic.item, allow_nan=False)  # NumPy's scalars as Python's
        write_atomically(
            path,
            lambda stream: np.savez(
                stream,
                coef=np.asarray(self.coef, dtype=np.float64),
                intercept=np.asarray(self.intercept, dtype=np.float64),
                meta=np.frombuffer(text.encode(), dtype=np.uint8),
                **arrays,
            ),
        )


def load(path: str | PathLike[str]) -> Model:
    """Read what `Model.save` wrote.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    Model
        The model.

    Raises
    ------
    UnreadableFile
        The file is missing, damaged, of a later version, or no model.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from glmesh.files import model_files
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.npz")
    ...     model_files.Model(np.ones(2), 0.0, "squared", "l2", alpha=1.0, l1_ratio=0.0).save(path)
    ...     model = model_files.load(path)
    >>> model.coef
    array([1., 1.])
    """
    path = Path(path)
    arrays = read_arrays(path, (), optional=("coef", "intercept", "meta", *STATISTICS))
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
            **(_origin(meta, coef.shape[-1]) if meta["version"] >= 3 else {}),
            statistics=unpacked_statistics(meta.get("statistics"), arrays),
            version=meta["version"],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableFile(f"{path}: key 'meta' lacks or spoils a field ({error!r}); save the model again") from error


def packed_statistics(statistics: FitStatistics) -> tuple[Tree, dict[str, Array]]:
    """Return (tree, arrays): `FitStatistics.to_dict` with JSON alone, and its matrices, {key of the file: array}."""
    tree = statistics.to_dict()
    arrays = {f"statistics_{name}": value for name, value in tree.items() if isinstance(value, np.ndarray)}
    arrays |= {f"statistics_{name}": value for name, value in tree["meats"].items()}
    own = {name: value for name, value in tree.items() if not isinstance(value, np.ndarray)}
    plain = {name: _as_json(value) for name, value in own.items() if name not in ("meats", "fitted")}
    fitted = {name: _as_json(value) for name, value in tree["fitted"].items()}
    return plain | {"fitted": fitted}, arrays


def _as_json(value: object) -> object:
    """Return an array as a list, a number that is not finite as a text of NOT_FINITE, any other value as it is.

    JSON has no such numbers, and readers other than Python's refuse what Python would write for them.
    """
    if isinstance(value, np.ndarray):
        return [_as_json(one) for one in value.tolist()]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def unpacked_statistics(tree: Tree | None, arrays: Mapping[str, Array]) -> FitStatistics | None:
    """Return the statistics that `packed_statistics` took apart; None: the file has none.

    ValueError or KeyError say that they are spoiled.
    """
    if tree is None:
        return None
    found = {name: arrays[f"statistics_{name}"] for name in MATRICES if f"statistics_{name}" in arrays}
    meats = {name: arrays[f"statistics_{name}"] for name in MEATS if f"statistics_{name}" in arrays}
    tree = {name: _from_json(value) for name, value in tree.items()}
    fitted = {name: _from_json(value) for name, value in tree["fitted"].items()}
    fitted |= {"coef": np.array(fitted["coef"], dtype=np.float64)}
    fitted |= {name: np.array(fitted[name], dtype=bool) for name in ("held", "aliased")}
    return FitStatistics.of_dict({**tree, **found, "meats": meats, "fitted": fitted})


def _from_json(value: Any) -> Any:
    """Return the number that a text of NOT_FINITE stands for, and any other value as it is."""
    return float(value) if isinstance(value, str) and value in NOT_FINITE else value


def _meta(array: Array, path: Path) -> Tree:
    """Return the key `meta` of a model file as a dict; raise UnreadableFile for another format or version.

    `array` holds its JSON as bytes, and `path` names the file in messages.
    """
    try:
        meta = json.loads(array.tobytes())
    except (ValueError, RecursionError):
        meta = None
    if not isinstance(meta, dict) or meta.get("format") != FORMAT:
        raise UnreadableFile(f"{path}: not a glmesh model; expected a file that Model.save wrote")
    if meta.get("version") not in range(1, DESIGNED + 1):
        raise UnreadableFile(
            f"{path}: is a glmesh model of version {meta.get('version')}, expected 1 to {DESIGNED}; upgrade glmesh"
        )
    return meta


def _origin(meta: Tree, p: int) -> Tree:
    """Return the fields of `Model` that came with version 3, as a dict: contract, federation, digest, sites, without.

    The design is that of version 4. ValueError is raised if the contract names other than p columns. `meta` is the JSON
    object of the file, p the number of coefficients.
    """
    contract = None if meta["contract"] is None else Contract.of(meta["contract"])
    design = None if meta.get("design") is None else Design.of(meta["design"])
    width = 0 if contract is None else len(contract.columns)
    if design is not None:
        width += len(design.names) - len(design.variables)
    if width and width != p:
        raise ValueError(f"{width} names for {p} coefficients")
    names = {key: tuple(str(name) for name in meta[key]) for key in ("sites", "without")}
    return {
        "contract": contract,
        "design": design,
        "federation": str(meta["federation"]),
        "digest": str(meta["digest"]),
        **names,
    }


def _label(label: str | float) -> float | str:
    """Return a class label as a text or a float, the types that a model file holds."""
    return label if isinstance(label, str) else float(label)


def _classes(labels: Sequence[str | float] | None, coef: Array) -> tuple[float | str, ...] | None:
    """Return the class labels of a model file as a tuple; None for a regression.

    Raise ValueError if their number does not fit the shape of the coefficients `coef`.
    """
    if labels is None:
        return None
    if len(labels) != (2 if coef.ndim == 1 else len(coef)):
        raise ValueError(f"{len(labels)} classes for coefficients of shape {coef.shape}")
    return tuple(_label(label) for label in labels)
