"""Data files, read by name.

| name ends in                                    | holds                                         | X         |
|-------------------------------------------------|-----------------------------------------------|-----------|
| `.svm` `.libsvm` `.svmlight` `.txt` or anything | svmlight text, `label index:value ...`        | csr_array |
| `.csv` `.tsv`                                   | a table of numbers, with or without a header  | ndarray   |
| `.npz`                                          | `X, y`                                        | ndarray   |
| `.npz`                                          | `data, indices, indptr, shape` (scipy's), `y` | csr_array |

Each may be compressed further: `.svm.xz`, `.csv.gz`, `.svm.bz2`. All numbers become float64; whether they are
finite is for the problem to check. Reading needs no scikit-learn.
"""

import zipfile
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.sparse import csc_array, csr_array

from glmesh.contract import MISSING, DataTable
from glmesh.errors import InvalidInput, UnreadableFile
from glmesh.files import svmlight, tables
from glmesh.files.streams import is_compressed, kind_of, opened
from glmesh.types import Matrix, SampleMatrix, Vector

_SPARSE = ("data", "indices", "indptr", "shape")


def load(
    path: str | PathLike[str], *, target: str | int | None = None, n_features: int | None = None
) -> tuple[SampleMatrix, Vector]:
    """Read samples X and labels y from a file.

    Parameters
    ----------
    path : str or path
        The file; the end of its name says what it holds.
    target : str or int, optional
        Column of a table that holds y, by name or position; default the last.
    n_features : int, optional
        p. Svmlight files leave out what is zero, so a test set needs the p of its training set. Their indices count
        from 1, or from 0 if the file uses a 0. Default: as many as the file has.

    Returns
    -------
    X : ndarray or csr_array of shape (m, p)
        Samples.
    y : ndarray of shape (m,)
        Labels.

    Raises
    ------
    UnreadableFile
        The file is missing, damaged, empty, or not what its name says; the message names the line.
    InvalidInput
        `target` is no column of the file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from glmesh.files import data_files
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "houses.csv")
    ...     _ = path.write_text("rooms,price,floor\\n3,250,1\\n5,400,2\\n")
    ...     X, y = data_files.load(path, target="price")
    >>> X
    array([[3., 1.],
           [5., 2.]])
    >>> y
    array([250., 400.])
    """
    X, y, _ = _load(Path(path), target, None, n_features)
    return X, y


def read_table(
    path: str | PathLike[str],
    *,
    target: str | int | None = None,
    ids: str | None = None,
    weight: str | None = None,
    header: Literal["auto", "yes", "no"] = "auto",
    encoding: str = "utf-8",
    missing: tuple[str, ...] = MISSING,
    n_features: int | None = None,
    has_target: bool = True,
) -> DataTable:
    """Read a data file with the names that it has."""
    path = Path(path)
    if is_table(path):
        return tables.read_table(
            path,
            tables.DELIMITER[kind_of(path)],
            target=target,
            ids=ids,
            weight=weight,
            header=header,
            encoding=encoding,
            missing=missing,
            has_target=has_target,
        )
    X, y, names = _load(path, target, ids, n_features)
    return DataTable(str(path), X, None, y, ids=names)


def load_named(
    path: str | PathLike[str], *, target: str | int | None = None, ids: str | None = None
) -> tuple[SampleMatrix, Vector, list[str] | None]:
    """Read samples, labels and the names of the rows from a file.

    Parameters
    ----------
    path : str or path
        The file; the end of its name says what it holds.
    target : str or int, optional
        Column of a table that holds y, by name or position; default the last that is not `ids`.
    ids : str, optional
        Column of a table, or array of an .npz, with the names of the rows.

    Returns
    -------
    X : ndarray or csr_array of shape (m, p)
        Samples.
    y : ndarray of shape (m,)
        Labels.
    names : list of m str, or None
        Names of the rows; None without `ids`.

    Raises
    ------
    UnreadableFile
        The file is missing, damaged, empty, or not what its name says; the message names the line.
    InvalidData
        Two rows of a table have one name.
    InvalidInput
        `target` or `ids` is no column of the file, or the format has no names of rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from glmesh.files import data_files
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "patients.csv")
    ...     _ = path.write_text("age,patient,ill\\n41,ann,0\\n57,ben,1\\n")
    ...     X, y, names = data_files.load_named(path, ids="patient")
    >>> names
    ['ann', 'ben']
    >>> y
    array([0., 1.])
    """
    return _load(Path(path), target, ids, None)


def is_table(path: str | PathLike[str]) -> bool:
    """Return whether a file name ends in .csv or .tsv, also if compressed as in .csv.gz."""
    return kind_of(Path(path)) in tables.DELIMITER


def _load(
    path: Path, target: str | int | None, ids: str | None, n_features: int | None
) -> tuple[SampleMatrix, Vector, list[str] | None]:
    """Return (X of shape (m, p), y of shape (m,), names of the m rows or None without `ids`) of a data file."""
    kind, names = kind_of(path), None
    if target is not None and kind not in tables.DELIMITER:
        raise _no_column(path, target)
    if kind in tables.DELIMITER:
        X, y, names = tables.read(path, tables.DELIMITER[kind], target, ids)
    elif kind == ".npz":
        X, y = _read_npz(path)
        names = None if ids is None else _read_names(path, ids, len(y))
    elif ids is not None:
        raise InvalidInput(f"{path}: svmlight files have no names of rows; leave ids out, or use a .csv or .npz")
    else:
        X, y = svmlight.read(path, n_features)
        X = _canonical(X)
    if len(y) != X.shape[0]:
        raise UnreadableFile(f"{path}: y has {len(y)} labels, expected {X.shape[0]}, one for each row of X")
    if len(y) == 0:
        raise tables.no_samples(path)
    if n_features not in (None, X.shape[1]):
        raise UnreadableFile(f"{path}: has {X.shape[1]} features, expected n_features={n_features}")
    return X, y, names


def _no_column(path: Path, target: str | int) -> InvalidInput:
    """Return the InvalidInput for a `target` column that was asked of a file that is no table."""
    return InvalidInput(f"{path}: target={target!r} picks a column of a .csv or .tsv; leave it out")


def load_part(
    path: str | PathLike[str], part: int, parts: int, *, target: str | int | None = None
) -> tuple[SampleMatrix, Vector, bool]:
    """Read one of `parts` parts of a data file; return (X of shape (m_part, p_part), y of shape (m_part,), raw).

    A name with "{rank}" in it stands for one file per part. Any other must be svmlight text without compression, of
    which a part is the lines that begin in its share of the bytes; the others are not read. Where raw is True, column j
    of X is index j of the file, and only all parts together tell whether indices count from 0 or from 1.
    """
    own = "{rank}" in str(path)
    path = Path(str(path).replace("{rank}", str(part)))
    plain = kind_of(path) not in (".npz", *tables.DELIMITER)
    if own and not plain:
        return *load(path, target=target), False
    if target is not None:
        raise _no_column(path, target)
    if not own and (is_compressed(path) or not plain):
        raise InvalidInput(
            f"{path}: cannot be read in parts; give svmlight text that is not compressed, or one file for each rank, "
            "with {rank} in its name"
        )
    span = None if own else _share_of_bytes(path, part, parts)
    X, y = svmlight.parse(path, span)
    return _canonical(X), y, True


def _share_of_bytes(path: Path, part: int, parts: int) -> tuple[int, int]:
    """Return (begin, end) of part number `part` of a file that is cut into `parts` parts of about equal bytes."""
    try:
        size = path.stat().st_size
    except OSError:
        raise UnreadableFile(f"{path}: no such file; check the name and the folder") from None
    return size * part // parts, size * (part + 1) // parts


def demo() -> tuple[Matrix, Vector]:
    """Return the 64-feature diabetes data of Efron et al. (2004): X (442, 64), columns centred and of norm 1, y (442,).

    10 measurements, their 45 products and 9 squares; the square of the two-valued sex would repeat sex itself.
    """
    from sklearn.datasets import load_diabetes
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    X, y = load_diabetes(return_X_y=True)
    polynomial = PolynomialFeatures(degree=2, include_bias=False).fit(X)
    products = polynomial.transform(StandardScaler().fit_transform(X))
    sex_squared = polynomial.powers_[:, 1] == 2
    X = StandardScaler().fit_transform(products[:, ~sex_squared])
    return X / np.linalg.norm(X, axis=0), y - y.mean()


def read_arrays(
    path: Path, *layouts: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, np.ndarray[Any, Any]]:
    """Return arrays of an .npz file by key: those of the first layout that is complete, and those of `optional` there.

    A layout is a tuple of keys. UnreadableFile is raised if none is complete, or if the file is damaged.
    """
    with opened(path) as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                if damaged := archive.testzip():
                    raise zipfile.BadZipFile(f"{damaged} fails its checksum")
                keys = {name.removesuffix(".npy"): name for name in archive.namelist()}
                layout = next((layout for layout in layouts if keys.keys() >= set(layout)), None)
                if layout is None:
                    expected = ", or ".join(" ".join(layout) for layout in layouts)
                    raise UnreadableFile(f"{path}: has the keys {' '.join(keys)}; expected {expected}")
                return {key: _read_array(archive, keys[key], path) for key in (*layout, *optional) if key in keys}
        except (zipfile.BadZipFile, RuntimeError) as error:  # RuntimeError: encrypted, or an unknown compression
            raise UnreadableFile(f"{path}: not a whole npz archive ({error}); write or copy it again") from error


def _read_array(archive: zipfile.ZipFile, name: str, path: Path) -> np.ndarray[Any, Any]:
    """Return one array of an open .npz archive without unpickling; raise UnreadableFile if it is no plain array."""
    with archive.open(name) as member:
        try:
            return np.lib.format.read_array(member, allow_pickle=False)
        except ValueError as error:
            raise UnreadableFile(
                f"{path}: key {name.removesuffix('.npy')!r} cannot be read ({error}); "
                "expected a plain array of numbers, not pickled objects"
            ) from error


def _read_npz(path: Path) -> tuple[SampleMatrix, Vector]:
    """Return (X, y) of an .npz file: X of shape (m, p), CSR if it was stored sparse, and y of shape (m,)."""
    arrays = read_arrays(path, ("X", "y"), (*_SPARSE, "y"), optional=("format",))

    def numbers(key: str, ndim: int, kinds: str = "biuf") -> np.ndarray[Any, Any]:
        """Return array `key`; raise UnreadableFile unless it has `ndim` dimensions and a dtype of one of `kinds`."""
        values = arrays[key]
        if values.ndim != ndim or values.dtype.kind not in kinds:
            what = "numbers" if "f" in kinds else "integers"
            raise UnreadableFile(
                f"{path}: key {key!r} has dtype {values.dtype} and shape {values.shape}, expected {ndim}-d {what}"
            )
        return values

    y = numbers("y", 1).astype(np.float64)
    if "X" in arrays:
        return numbers("X", 2).astype(np.float64), y
    layout = str(arrays.get("format", np.array("csr")).astype(str))
    if layout not in ("csr", "csc"):
        raise UnreadableFile(f"{path}: key 'format' is {layout!r}, expected csr or csc; save X.tocsr()")
    parts = numbers("data", 1).astype(np.float64), numbers("indices", 1, "iu"), numbers("indptr", 1, "iu")
    try:
        X = (csr_array if layout == "csr" else csc_array)(parts, shape=tuple(numbers("shape", 1, "iu")))
        X.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise UnreadableFile(
            f"{path}: the keys {' '.join(_SPARSE)} make no {layout} matrix ({error}); save those of X.tocsr()"
        ) from error
    return _canonical(X), y


def _read_names(path: Path, ids: str, n_rows: int) -> list[str]:
    """Return the array `ids` of an .npz file as a list of `n_rows` strings."""
    names = read_arrays(path, (ids,))[ids]
    if names.shape != (n_rows,):
        raise UnreadableFile(f"{path}: {ids!r} has shape {names.shape}, expected one name for each of {n_rows} rows")
    return [str(name) for name in names.tolist()]


def _canonical(X: Any) -> csr_array:
    """Return X as CSR with sorted, unique indices, of 32 bits where they fit: what the kernels are compiled for."""
    matrix = csr_array(X)
    matrix.sum_duplicates()
    if max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix
