"""Data files, read by name.

| name ends in                                    | holds                                         | X         |
|-------------------------------------------------|-----------------------------------------------|-----------|
| `.svm` `.libsvm` `.svmlight` `.txt` or anything | svmlight text, `label index:value ...`        | csr_array |
| `.csv` `.tsv`                                   | a table of numbers, with or without a header  | ndarray   |
| `.npz`                                          | `X, y`                                        | ndarray   |
| `.npz`                                          | `data, indices, indptr, shape` (scipy's), `y` | csr_array |

Each may be compressed further: `.svm.xz`, `.csv.gz`, `.svm.bz2`. All numbers become float64; whether they are
finite is for the problem to check.
"""

import bz2
import csv
import gzip
import io
import lzma
import zipfile
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy.sparse import csc_array, csr_array

from glmesh.errors import InvalidInput, UnreadableFile
from glmesh.types import AnyArray, Matrix, Vector

DECOMPRESS: dict[str, Callable[[Path], Any]] = {".gz": gzip.GzipFile, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile}
_DELIMITER = {".csv": ",", ".tsv": "\t"}
_SPARSE = ("data", "indices", "indptr", "shape")


def load(
    path: str | PathLike[str], *, target: str | int | None = None, n_features: int | None = None
) -> tuple[AnyArray, Vector]:
    """Read the samples X (m × p) and the labels y (m).

    `target` is the column of a table that holds y, by name or position; by default the last.
    `n_features` is p. Svmlight files leave out what is zero, so a test set needs the p of its training set.
    Their indices count from 1, or from 0 if the file uses a 0.
    """
    path = Path(path)
    named = path.with_suffix("") if path.suffix.lower() in DECOMPRESS else path
    kind = named.suffix.lower()
    if target is not None and kind not in _DELIMITER:
        raise InvalidInput(f"{path}: target={target!r} picks a column of a .csv or .tsv; leave it out")
    if kind == ".npz":
        X, y = _read_npz(path)
    elif kind in _DELIMITER:
        X, y = _read_table(path, _DELIMITER[kind], target)
    else:
        X, y = _read_svmlight(path, n_features)
    if len(y) != X.shape[0]:
        raise UnreadableFile(f"{path}: y has {len(y)} labels, expected {X.shape[0]}, one for each row of X")
    if len(y) == 0:
        raise _empty(path)
    if n_features not in (None, X.shape[1]):
        raise UnreadableFile(f"{path}: has {X.shape[1]} features, expected n_features={n_features}")
    return X, y


def load_part(
    path: str | PathLike[str], part: int, parts: int, *, target: str | int | None = None
) -> tuple[AnyArray, Vector, bool]:
    """One of so many parts of the data: (X, y, whether the columns of X are the indices in the file, from 0 or from 1).

    A name with "{rank}" in it stands for one file per part. Any other must be svmlight text as it is, of which a part
    is the lines that begin in its share of the bytes; nobody reads the others.
    """
    own = "{rank}" in str(path)
    path = Path(str(path).replace("{rank}", str(part)))
    packed = path.suffix.lower() in DECOMPRESS
    kind = (path.with_suffix("") if packed else path).suffix.lower()
    if own and kind in (".npz", *_DELIMITER):
        return *load(path, target=target), False
    if target is not None:
        raise InvalidInput(f"{path}: target={target!r} picks a column of a .csv or .tsv; leave it out")
    if not own and (packed or kind in (".npz", *_DELIMITER)):
        raise InvalidInput(
            f"{path}: cannot be read in parts; give svmlight text that is not compressed, or one file for each rank, "
            "with {rank} in its name"
        )
    if own:
        return *_parse_svmlight(path), True
    try:
        size = path.stat().st_size
    except OSError:
        raise UnreadableFile(f"{path}: no such file; check the name and the folder") from None
    begin, end = size * part // parts, size * (part + 1) // parts
    return *_parse_svmlight(path, (begin, end)), True


def demo() -> tuple[Matrix, Vector]:
    """The 64-feature diabetes data of Efron et al. (2004): 442 patients, centred, columns of norm 1.

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
    """Read the arrays of the first layout an npz archive has all keys of, and the `optional` ones it has."""
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
    with archive.open(name) as member:
        try:
            return np.lib.format.read_array(member, allow_pickle=False)
        except ValueError as error:
            raise UnreadableFile(
                f"{path}: key {name.removesuffix('.npy')!r} cannot be read ({error}); "
                "expected a plain array of numbers, not pickled objects"
            ) from error


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The decompressed bytes of a file; what goes wrong while reading them is an UnreadableFile."""
    try:
        with DECOMPRESS.get(path.suffix.lower(), partial(open, mode="rb"))(path) as stream:
            yield stream
    except FileNotFoundError:
        raise UnreadableFile(f"{path}: no such file; check the name and the folder") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise UnreadableFile(f"{path}: cannot be read to its end ({error}); write or copy it again") from error


class _Lines:
    """The lines of a stream that begin in a span of bytes, keeping count for whoever has to name a bad one."""

    def __init__(self, stream: IO[bytes], span: tuple[int, int] | None = None) -> None:
        self.read = stream.read  # scikit-learn takes what has a read method for an open file
        self._stream, self._span = stream, span
        self.number = 0
        self.line = b""

    def __iter__(self) -> Iterator[bytes]:
        place, end = (0, None) if self._span is None else self._span
        if place:
            self._stream.seek(place - 1)
            place += len(self._stream.readline()) - 1  # the rest of a line that begins before
        for line in self._stream:
            if end is not None and place >= end:
                return
            self.number, self.line, place = self.number + 1, line, place + len(line)
            yield line


def _parse_svmlight(path: Path, span: tuple[int, int] | None = None, base: Any = True) -> tuple[Any, Vector]:
    """The lines that begin in these bytes; `base` True: columns are the file's indices, "auto": they count from 0."""
    from sklearn.datasets import load_svmlight_file  # takes seconds, which models and other files do not need

    with opened(path) as stream:
        lines = _Lines(stream, span)
        try:
            X, y = load_svmlight_file(lines, zero_based=base)
        except (ValueError, OverflowError) as error:
            start = lines.line[:40].decode("ascii", "backslashreplace").strip()
            where = f"line {lines.number}{f' after byte {span[0]}' if span and span[0] else ''}"
            raise UnreadableFile(
                f"{path}, {where}: expected 'label index:value index:value ...' with ascending "
                f"indices, got {start!r} ({error}); for a table, name the file .csv or .tsv"
            ) from error
    return _canonical(X), y


def _read_svmlight(path: Path, n_features: int | None) -> tuple[csr_array, Vector]:
    X, y = _parse_svmlight(path, base="auto")
    if n_features is None:
        if len(y) and X.nnz == 0:
            raise UnreadableFile(f"{path}: no line has a feature; expected 'label index:value ...', or n_features")
    elif X.shape[1] > n_features:
        row = np.searchsorted(X.indptr, np.argmax(X.indices >= n_features), side="right")
        raise UnreadableFile(
            f"{path}: has {X.shape[1]} features (sample {row} is the first to go beyond), expected at most "
            f"n_features={n_features}; is it of the same data set?"
        )
    else:
        X.resize(len(y), n_features)
    return _canonical(X), y


def _read_table(path: Path, delimiter: str, target: str | int | None) -> tuple[Matrix, Vector]:
    values = array("d")
    header: list[str] = []
    width = 0
    with opened(path) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
        rows = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            for row in filter(None, rows):
                if not width:
                    width = len(row)
                    if width == 1:
                        raise UnreadableFile(
                            f"{path}, line {rows.line_num}: has one cell, expected features and a target "
                            f"separated by {delimiter!r}"
                        )
                    if any(cell.strip() and not _is_number(cell) for cell in row):
                        header = [cell.strip() for cell in row]
                        continue
                if len(row) != width:
                    raise UnreadableFile(
                        f"{path}, line {rows.line_num}: has {len(row)} cells, expected {width} as in the first line"
                    )
                try:
                    values.extend(map(float, row))
                except ValueError:
                    column = next(i for i, cell in enumerate(row) if not _is_number(cell))
                    name = f"{column} ({header[column]})" if header else f"{column}"
                    raise UnreadableFile(
                        f"{path}, line {rows.line_num}, column {name}: expected a number, got {row[column]!r}; "
                        "encode or drop what is not a number"
                    ) from None
        except csv.Error as error:
            raise UnreadableFile(f"{path}, line {rows.line_num}: {error}; expected plain or quoted cells") from error
        except UnicodeDecodeError as error:
            raise UnreadableFile(f"{path}: {error}; expected UTF-8 text, so convert it") from error
    if not values:
        raise _empty(path)
    table = np.asarray(values).reshape(-1, width)
    column = _find_column(target, header, width, path)
    return np.delete(table, column, axis=1), table[:, column].copy()


def _empty(path: Path) -> UnreadableFile:
    return UnreadableFile(f"{path}: holds no samples, expected at least one; was it written to its end?")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _find_column(target: str | int | None, header: list[str], width: int, path: Path) -> int:
    if target is None:
        return width - 1
    named = [i for i, name in enumerate(header) if name == target]
    if len(named) == 1:
        return named[0]
    if not named:
        with suppress(ValueError, IndexError):
            return range(width)[int(target)]
    raise InvalidInput(
        f"{path}: target={target!r} names {len(named)} columns, expected one"
        + (f" of {', '.join(header)}," if header else ": there is no header, so give")
        + f" a position from 0 to {width - 1}"
    )


def _read_npz(path: Path) -> tuple[AnyArray, Vector]:
    arrays = read_arrays(path, ("X", "y"), (*_SPARSE, "y"), optional=("format",))

    def numbers(key: str, ndim: int, kinds: str = "biuf") -> np.ndarray[Any, Any]:
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


def _canonical(X: Any) -> csr_array:
    """X as CSR with sorted, unique indices, of 32 bits where they fit: what the kernels are compiled for."""
    X = csr_array(X)
    X.sum_duplicates()
    if max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X
