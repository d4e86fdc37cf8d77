"""Named data sets: files of the user's where there are any, else stand-ins of the same shape.

Files are looked for in the folder that is named, or in that of the environment variable GLMESH_DATA. Features that
occur in no sample are left out: their coefficient is zero whatever the method, and rivals need not send it (of RCV1's
47,236 features 28,192 occur in the subset).
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from glmesh.errors import InvalidInput, UnreadableFile
from glmesh.files import data_files
from glmesh.types import SampleMatrix, Vector
from glmesh.validation import unknown

VARIABLE = "GLMESH_DATA"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"


@dataclass(frozen=True, eq=False)
class DataSet:
    """Samples X, shape (m, p), and labels y of -1 and 1, shape (m,), with a word on where they are from."""

    name: str  # key of ENTRIES, or that of the user
    X: SampleMatrix  # (m, p)
    y: Vector  # (m,) labels -1 and 1
    source: str  # name of the file, "stand-in" or "your own"
    real: bool  # whether it is no stand-in

    @property
    def density(self) -> float:
        """Return the fraction of the entries of X that are not zero, in [0, 1]."""
        filled = self.X.nnz if sp.issparse(self.X) else np.count_nonzero(self.X)
        return float(filled) / float(self.X.shape[0] * self.X.shape[1])


@dataclass(frozen=True)
class Dataset:
    """A named data set of ENTRIES: the files that hold it, and the shape of the random data that stands in for it."""

    title: str  # name for people
    files: tuple[str, ...]  # file names; the first that exists is read
    n_features: int | None  # p; None: as many as the file has
    shape: str  # samples x features and density, of the paper's table or of the file
    stand_in: tuple[int, int, int]  # samples, features and nonzeros a row
    unit: bool = False  # whether rows are scaled to norm one
    split_at: float = 0.0  # labels above are +1; 0: the largest label is


ENTRIES = {
    "rcv1": Dataset(
        "RCV1 binary",
        ("rcv1_subsets.binary.svm.xz", "rcv1_train.binary.bz2", "rcv1_train.binary", "rcv1_test.binary.bz2"),
        47_236,
        "677K x 47K, 1.6e-3",
        (900, 600, 40),
        unit=True,
    ),
    "url": Dataset(
        "URL reputation",
        ("url_subset.svm.xz", "url_combined_normalized.bz2", "url_combined.bz2"),
        3_231_961,
        "2M x 3M, 3.5e-5",
        (600, 900, 12),
        unit=True,
    ),
    "webspam": Dataset(
        "webspam (trigram)",
        ("webspam_wc_normalized_trigram.svm.xz", "webspam_wc_normalized_trigram.svm.bz2", "webspam.svm.xz"),
        None,
        "350K x 16M, 2.0e-4",
        (300, 1500, 15),
        unit=True,
    ),
    "epsilon": Dataset(
        "epsilon",
        ("epsilon_normalized.bz2", "epsilon_normalized.xz", "epsilon_normalized"),
        2_000,
        "400K x 2K, 1.0",
        (800, 60, 60),
        unit=True,
    ),
    "news20": Dataset(
        "news20, classes 1-10 against 11-20",
        ("news20.svm.xz", "news20.bz2"),
        62_061,
        "16K x 62K, 1.3e-3",
        (400, 1200, 12),
        unit=True,
        split_at=10.5,
    ),
    "a9a": Dataset("a9a", ("a9a.svm.xz", "a9a"), 123, "33K x 123, 0.11", (1200, 40, 5)),
    "w8a": Dataset("w8a", ("w8a.svm.xz", "w8a"), 300, "50K x 300, 0.039", (1200, 60, 4)),
}


def load(name: str, *, folder: str | os.PathLike[str] | None = None, real: bool | None = None) -> DataSet:
    """Return the samples X, shape (m, p), and labels y of -1 and 1, shape (m,), of a named data set.

    `name` is a key of ENTRIES: "rcv1", "url", "webspam", "epsilon", "news20", "a9a" or "w8a". `folder` has the files;
    None is the folder in the environment variable GLMESH_DATA. `real` None reads a file if there is one, and else draws
    a small random stand-in; True raises UnreadableFile where there is no file; False always draws the stand-in.
    """
    if name not in ENTRIES:
        raise InvalidInput(f"{unknown('data set', name, ENTRIES)}, or add one of your own")
    entry = ENTRIES[name]
    path = None if real is False else find(entry, folder)
    if path is None and real:
        raise UnreadableFile(
            f"{entry.title}: no file {' or '.join(entry.files)} in {_folder(folder) or 'any folder'}; get it from "
            f"{_LIBSVM} and name its folder with --data or {VARIABLE}"
        )
    if path is None:
        return DataSet(name, *stand_in(*entry.stand_in, seed=sum(map(ord, name))), "stand-in", False)
    X, y = data_files.load(path, n_features=entry.n_features)
    X = X[:, np.flatnonzero(np.asarray(abs(X).sum(axis=0)).ravel() > 0)]  # features that occur
    if entry.unit:
        X = _unit_rows(X)
    y = y if entry.split_at else np.where(y == y.max(), 1.0, -1.0)
    return DataSet(name, X, np.where(y > entry.split_at, 1.0, -1.0), path.name, True)


def find(entry: Dataset, folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the path of the first file of a named data set that exists in `folder`; None if there is none.

    `folder` None is the folder in the environment variable GLMESH_DATA; without that, too, the result is None.
    """
    where = _folder(folder)
    if where is None:
        return None
    return next((where / name for name in entry.files if (where / name).exists()), None)


def _folder(folder: str | os.PathLike[str] | None) -> Path | None:
    """Return the folder of the data files: `folder`, else that in the environment variable GLMESH_DATA, else None."""
    named = folder if folder is not None else os.environ.get(VARIABLE)
    return Path(named) if named else None


def _unit_rows(X: SampleMatrix) -> SampleMatrix:
    """Return X with each row scaled to Euclidean norm 1; rows of zeros stay."""
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel() if sp.issparse(X) else (X * X).sum(axis=1))
    factors = 1.0 / np.where(norms > 0, norms, 1.0)
    return sp.csr_array(sp.diags_array(factors) @ X) if sp.issparse(X) else X * factors[:, None]


def stand_in(m: int, p: int, per_row: int, *, seed: int) -> tuple[SampleMatrix, Vector]:
    """Return (X, y), a random data set: X of shape (m, p) with `per_row` nonzeros a row, y labels -1 and 1.

    Rows have norm 1. Features are as frequent as words are (about 1/rank^0.8); labels come from sparse coefficients and
    noise.
    """
    rng = np.random.default_rng(seed)
    if per_row >= p:
        X = rng.normal(size=(m, p)) @ np.diag(1.0 / np.sqrt(1.0 + np.arange(p)))
        X /= np.linalg.norm(X, axis=1)[:, None]
    else:
        share = 1.0 / (1.0 + np.arange(p)) ** 0.8
        rows = [rng.choice(p, size=per_row, replace=False, p=share / share.sum()) for _ in range(m)]
        values = np.abs(rng.normal(size=(m, per_row))) + 0.2
        values /= np.linalg.norm(values, axis=1)[:, None]
        starts = np.arange(m + 1) * per_row
        X = sp.csr_array((values.ravel(), np.concatenate(rows).astype(np.int32), starts), shape=(m, p))
        X.sort_indices()
    truth = np.where(rng.random(p) < 0.3, rng.normal(size=p), 0.0)
    score = X @ truth
    noise = 0.3 * score.std() * rng.normal(size=m)
    return X, np.where(score + noise > np.median(score), 1.0, -1.0)
