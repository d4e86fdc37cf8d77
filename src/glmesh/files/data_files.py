"""Data files, read by name.

| name ends in                                    | holds                                         | X         |
|-------------------------------------------------|-----------------------------------------------|-----------|
| `.svm` `.libsvm` `.svmlight` `.txt` or anything | svmlight text, `label index:value ...`        | csr_array |
| `.csv` `.tsv`                                   | a table of text, with or without a header     | ndarray   |
| `.parquet` `.feather`                           | a table, read by pyarrow (an extra)           | ndarray   |
| `.npz`                                          | `X, y`                                        | ndarray   |
| `.npz`                                          | `data, indices, indptr, shape` (scipy's), `y` | csr_array |

Text and .npz may be compressed further: `.svm.xz`, `.csv.gz`, `.svm.bz2`. All numbers become float64; whether they are
finite is for the contract or the problem to check. Reading needs no scikit-learn.
"""

import zipfile
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.sparse import csc_array, csr_array

from glmesh.contract import MISSING, DataTable
from glmesh.errors import InvalidInput, UnreadableFile
from glmesh.files import arrow, svmlight, tables
from glmesh.files.assembly import Roles
from glmesh.files.columns import number
from glmesh.files.layout import no_samples
from glmesh.files.streams import is_compressed, kind_of, opened, refuse_foreign
from glmesh.files.svmlight import IndexBase
from glmesh.types import Array, Matrix, SampleMatrix, Vector

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
    table = _numbers(read_table(path, target=target, n_features=n_features))
    return table.X, _targets(table)


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
    index_base: IndexBase = "auto",
    texts: tuple[str, ...] = (),
    gaps: bool = False,
) -> DataTable:
    """Read a data file with the names of its columns, as it comes from pandas, R, Excel or a database.

    Parameters
    ----------
    path : str or path
        The file; the end of its name says what it holds.
    target : str or int, optional
        Column of y, by name or position in the file; default the last that is neither `ids` nor `weight`.
    ids : str, optional
        Column of a table, or array of an .npz, with the names of the rows.
    weight : str, optional
        Column of a table, or array of an .npz, with the sample weights.
    header : {"auto", "yes", "no"}, default "auto"
        Whether the first line of a .csv or .tsv names the columns. "auto": it does if it holds a text that is neither a
        number nor a missing mark, and does not if it holds numbers; where it may be either, it is refused.
    encoding : str, default "utf-8"
        Of a .csv or .tsv: "latin-1", "utf-16", ...; a byte order mark in the file goes before it.
    missing : tuple of str
        Cells that stand for a missing value; default those of pandas, R and Excel.
    n_features : int, optional
        p of an svmlight file, which leaves out what is zero; of another file, p is compared with it.
    has_target : bool, default True
        False: y may be absent, as in a table that is to be predicted. Then all columns but `ids` and `weight` are
        features, and y is None, unless `target` is given and there.
    index_base : {"auto", 0, 1}, default "auto"
        First index of an svmlight file. "auto": 1, or 0 if the file uses a 0; sites that share features must agree.
    texts : tuple of str
        Names of features whose cells are kept as they are written, for formulas; names that the file lacks are ignored.
    gaps : bool, default False
        True: a missing weight is NaN, since the caller leaves such rows out; False: it is refused.

    Returns
    -------
    DataTable
        X with NaN in the place of missing values, y as numbers, or as texts if a label is no number, and all names. A
        column that holds text is NaN in X, and listed in `texts`.

    Raises
    ------
    UnreadableFile
        The file is missing, damaged, empty, or not what its name says; the message names the line.
    InvalidData
        A row has no name or another row's, or no weight.
    InvalidInput
        `target`, `ids` or `weight` is no column of the file, or two.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from glmesh.files import data_files
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "patients.csv")
    ...     _ = path.write_text("age;bmi;ill\\n41;22,5;no\\n57;NA;yes\\n")
    ...     table = data_files.read_table(path)
    >>> table.names, table.read_as
    (('age', 'bmi'), 'UTF-8 text, delimiter semicolon, decimal comma, names in line 1')
    >>> table.X
    array([[41. , 22.5],
           [57. ,  nan]])
    >>> table.labels
    ('no', 'yes')
    """
    path, roles = Path(path), Roles(target, ids, weight, has_target, texts, gaps)
    kind = kind_of(path)
    if kind in tables.ENDINGS:
        table = tables.read(path, kind == ".tsv", header, encoding, missing, roles)
    elif kind in arrow.ENDINGS:
        table = arrow.read(path, missing, roles)
    elif target is not None and has_target:
        raise _no_column(path, target)
    elif kind == ".npz":
        table = _read_npz(path, ids, weight)
    elif ids is not None or weight is not None:
        what = "names of rows; leave ids out" if ids is not None else "weights; leave weight out"
        raise InvalidInput(f"{path}: svmlight files have no {what}, or use a .csv or .npz")
    else:
        refuse_foreign(path, "svmlight text")
        X, y, base = svmlight.read(path, n_features, index_base)
        read_as = f"svmlight text, which names no columns; indices count from {base}"
        table = DataTable(str(path), _canonical(X), None, y, read_as=read_as, index_base=base)
    if table.m == 0:
        raise no_samples(path)
    if n_features not in (None, table.X.shape[1]) and has_target:
        raise UnreadableFile(f"{path}: has {table.X.shape[1]} features, expected n_features={n_features}")
    return table


def _numbers(table: DataTable) -> DataTable:
    """Return the table itself if no feature holds text; else raise UnreadableFile, which names the first that does."""
    if table.text_columns:
        one = table.text_columns[0]
        column = one.name if table.names is None else f"column {one.position} ({one.name})"
        raise UnreadableFile(
            f"{table.where}, line {one.line}, {column}: expected a number, got {one.cell!r}; encode or drop what "
            "is not a number"
        )
    return table


def _targets(table: DataTable) -> Vector:
    """Return the labels as float64, shape (m,); raise UnreadableFile, which names the line, if one is text."""
    y = table.y
    assert y is not None  # has_target
    if y.dtype.kind == "f":
        return y.astype(np.float64, copy=False)
    row = next(k for k, label in enumerate(y.tolist()) if label and number(str(label)) is None)
    column = "target" if table.target is None else f"target {table.target!r}"
    raise UnreadableFile(
        f"{table.where}, line {table.line(row)}, {column}: expected a number, got {str(y[row])!r}; encode what is not "
        "a number"
    )


def is_table(path: str | PathLike[str]) -> bool:
    """Return whether a file's name is that of a table: .csv or .tsv, also if compressed, .parquet or .feather."""
    return kind_of(Path(path)) in (*tables.ENDINGS, *arrow.ENDINGS)


def _no_column(path: Path, target: str | int) -> InvalidInput:
    """Return the InvalidInput for a `target` column that was asked of a file that is no table."""
    return InvalidInput(f"{path}: target={target!r} picks a column of a .csv, .tsv, .parquet or .feather; leave it out")


def load_part(
    path: str | PathLike[str], part: int, parts: int, *, target: str | int | None = None
) -> tuple[SampleMatrix, Vector, bool]:
    """Read one of `parts` parts of a data file; return (X of shape (m_part, p_part), y of shape (m_part,), raw).

    A name with "{rank}" in it stands for one file per part. Any other must be svmlight text without compression, of
    which a part is the lines that begin in its share of the bytes; the others are not read. Where raw is True, column j
    of X is index j of the file, and only all parts together tell whether indices count from 0 or from 1. `target` is
    the column of y in a file per part, by name or position; None: the last.
    """
    own = "{rank}" in str(path)
    path = Path(str(path).replace("{rank}", str(part)))
    plain = kind_of(path) != ".npz" and not is_table(path)
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
    """Return (begin, end), the range of bytes of part number `part`, from 0, of a file cut into about equal parts.

    `parts` is the number of parts.
    """
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


def read_arrays(path: Path, *layouts: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Array]:
    """Return key -> array of an .npz file, for the keys of the first layout that is complete and those of `optional`.

    A layout is a tuple of keys; keys of `optional` that the file lacks are left out. UnreadableFile is raised if no
    layout is complete, or if the file is damaged.
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


def _read_array(archive: zipfile.ZipFile, name: str, path: Path) -> Array:
    """Return one array of an open .npz archive without unpickling; raise UnreadableFile if it is no plain array.

    `name` is that of the array's file in the archive.
    """
    with archive.open(name) as member:
        try:
            return np.lib.format.read_array(member, allow_pickle=False)
        except ValueError as error:
            raise UnreadableFile(
                f"{path}: key {name.removesuffix('.npy')!r} cannot be read ({error}); "
                "expected a plain array of numbers, not pickled objects"
            ) from error


def _read_npz(path: Path, ids: str | None, weight: str | None) -> DataTable:
    """Return the table of an .npz file: X (m, p), CSR if stored sparse, y (m,), arrays named `ids` and `weight`."""
    X, y = _read_samples(path)
    if len(y) != X.shape[0]:
        raise UnreadableFile(f"{path}: y has {len(y)} labels, expected {X.shape[0]}, one for each row of X")
    names = None if ids is None else [str(name) for name in _per_row(path, ids, len(y)).tolist()]
    weights = None if weight is None else _per_row(path, weight, len(y)).astype(np.float64)
    return DataTable(str(path), X, None, y, ids=names, weight=weights, read_as="NumPy arrays, which name no columns")


def _read_samples(path: Path) -> tuple[SampleMatrix, Vector]:
    """Return (X, y) of an .npz file: float64 of shapes (m, p) and (m,), X as CSR if it was stored sparse."""
    arrays = read_arrays(path, ("X", "y"), (*_SPARSE, "y"), optional=("format",))

    def numbers(key: str, ndim: int, kinds: str = "biuf") -> Array:
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


def _per_row(path: Path, key: str, n_rows: int) -> Array:
    """Return the array `key` of an .npz file; raise UnreadableFile unless its shape is (n_rows,)."""
    values = read_arrays(path, (key,))[key]
    if values.shape != (n_rows,):
        raise UnreadableFile(f"{path}: {key!r} has shape {values.shape}, expected one name for each of {n_rows} rows")
    return values


def _canonical(X: csr_array | csc_array) -> csr_array:
    """Return X as CSR with sorted, unique indices, of 32 bits where they fit: what the kernels are compiled for."""
    matrix = csr_array(X)
    matrix.sum_duplicates()
    if max(matrix.nnz, *matrix.shape) <= np.iinfo(np.int32).max:
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return matrix
