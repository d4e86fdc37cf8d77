"""What pyarrow reads: Parquet and Feather files, and large plain tables of text faster than line by line."""

from __future__ import annotations

import io
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from glmesh.contract import DataTable
from glmesh.errors import UnreadableFile
from glmesh.files.assembly import Chosen, FileColumns, Roles
from glmesh.files.columns import ColumnData, ColumnReader, clean
from glmesh.files.layout import no_samples
from glmesh.files.streams import kind_of, opened, refuse_foreign
from glmesh.types import Vector

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv

    from glmesh.files.layout import TextLayout

ENDINGS = (".parquet", ".feather")
WORTH_IT = 1 << 22  # [bytes] of a file from which on pyarrow's start (a third of a second) is soon made up for
_LINE_FEED = ord("\n")


def is_worth_it(path: Path) -> bool:
    """Return whether a file has WORTH_IT (4 MB) bytes or more and pyarrow is installed to read it."""
    return path.stat().st_size >= WORTH_IT and find_spec("pyarrow") is not None


class _CountingStream(io.RawIOBase):
    """A binary stream that counts the lines and the quotes that were read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self.lines, self.quotes, self._last = stream, 0, 0, b"\n"

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next `size` bytes of the stream (-1: all), and count their lines and quotes."""
        content = self._stream.read(size)
        if content:
            self.lines += int(np.count_nonzero(np.frombuffer(content, np.uint8) == _LINE_FEED))  # 10 times bytes.count
            if b"\r" in content:
                self.lines += content.count(b"\r") - content.count(b"\r\n")
            if b'"' in content:
                self.quotes += content.count(b'"')
            self.lines -= self._last == b"\r" and content[:1] == b"\n"  # one line end, in two pieces
            self._last = content[-1:]
        elif self._last not in b"\r\n":  # the last line has no end
            self.lines, self._last = self.lines + 1, b"\n"
        return content


def read_text(
    path: Path, layout: TextLayout, missing: tuple[str, ...], chosen: Chosen, quoted: bool = False
) -> tuple[list[ColumnData], bool] | None:
    """Read a table of text by pyarrow; return (columns, whether each row is one line without quotes), or None.

    None is returned if a line of the file is not as `layout`, found from its first lines, says. `missing` are the cells
    that stand for missing values, `chosen` are the columns of target, row names and weights. If `quoted`, cells may
    span lines, which takes longer. pyarrow takes quotes more lightly than the reader in `tables`, which counts the
    lines again where there are any.
    """
    import pyarrow as pa
    from pyarrow import csv

    options = _csv_options(layout, missing, chosen, quoted)
    with opened(path) as stream:
        counted = _CountingStream(stream)
        try:
            table = csv.read_csv(counted, *options)
        except (pa.ArrowException, UnicodeError):
            return None
    if not quoted and counted.quotes != layout.quotes:
        return read_text(path, layout, missing, chosen, quoted=True)
    if not table.num_rows or all(column[-1].as_py() in (None, "") for column in table.columns):
        return None
    marks, kept = frozenset(missing), chosen.kept
    numbers = _numbers(table, {k for k in range(layout.width) if chosen.is_feature(layout.names, k)})
    columns = [
        ColumnData(numbers[k], "number") if k in numbers else _texts(column, marks, layout.decimal, k in kept)
        for k, column in enumerate(table.columns)
    ]
    plain = counted.lines - layout.first_line + 1 == table.num_rows and counted.quotes == layout.quotes
    return columns, plain


def _csv_options(
    layout: TextLayout, missing: tuple[str, ...], chosen: Chosen, quoted: bool
) -> tuple[csv.ReadOptions, csv.ParseOptions, csv.ConvertOptions]:
    """Return what pyarrow is told of a table of text; the arguments are those of `read_text`."""
    import pyarrow as pa
    from pyarrow import csv

    types = {
        str(k): pa.float64() if kind == "number" and k not in chosen.kept - {chosen.target} else pa.string()
        for k, kind in enumerate(layout.kinds)
    }
    return (
        csv.ReadOptions(
            skip_rows=layout.first_line - 1,
            column_names=list(types),
            encoding=layout.encoding.removesuffix("-sig"),
        ),
        csv.ParseOptions(delimiter=layout.delimiter, newlines_in_values=quoted),
        csv.ConvertOptions(column_types=types, null_values=list(missing), decimal_point=layout.decimal or "."),
    )


def read(path: Path, missing: tuple[str, ...], roles: Roles) -> DataTable:
    """Return the table of a Parquet or Feather file; cells of its text columns are read as those of a .csv are.

    `missing` are texts that stand for missing values, `roles` names the columns of target, row names and weights.
    """
    kind = kind_of(path)
    if find_spec("pyarrow") is None:
        raise UnreadableFile(
            f"{path}: {kind[1:]} files need pyarrow; pip install 'glmesh[tables]', or write it as .csv"
        )
    import pyarrow as pa
    from pyarrow import feather, parquet

    with opened(path) as stream:
        head = stream.read(4)
    if head not in (b"PAR1", b"ARRO"):
        refuse_foreign(path, f"a {kind[1:]} file")
    try:
        table = (parquet.read_table if head == b"PAR1" else feather.read_table)(path)
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(f"{path}: not a whole {kind[1:]} file ({error}); write or copy it again") from error
    if not table.num_rows:
        raise no_samples(path)
    names = ["" if name.startswith("__index_level_") else clean(name) for name in table.column_names]
    chosen, marks = roles.find(path, names, len(names)), frozenset(missing)
    columns = [_typed(path, table[k], name, marks, chosen, k) for k, name in enumerate(table.column_names)]
    what = "Parquet" if head == b"PAR1" else "Feather"
    return FileColumns(path, columns, names, chosen).table(f"{what} file, which names its columns")


def _numeric(column: pa.ChunkedArray, kind: str, *, written: bool) -> ColumnData:
    """Return a column of numbers or truth values as ColumnData of this `kind`; `written`: with its cells as text."""
    from pyarrow import types

    values = _floats(column)
    if written and types.is_integer(column.type):  # which float64 tells apart up to 2^53 only
        return ColumnData(values, kind, cells=tuple(_as_text(column).to_pylist()))
    cells = tuple("" if one != one else _written(one) for one in values.tolist()) if written else None
    return ColumnData(values, kind, cells=cells)


def _typed(
    path: Path, column: pa.ChunkedArray, name: str, missing: frozenset[str], chosen: Chosen, k: int
) -> ColumnData:
    """Return column k of a Parquet or Feather file as ColumnData, by the type that the file gives it.

    `name` is that of the column, `missing` are texts that stand for missing values; cells of a column that `chosen`
    keeps (labels or row names) are stored as written.
    """
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    numeric = any(is_kind(kind) for is_kind in (types.is_integer, types.is_floating, types.is_decimal))
    text = any(is_kind(kind) for is_kind in (types.is_string, types.is_large_string, types.is_string_view))
    if k == chosen.ids or (not numeric and (types.is_temporal(kind) or types.is_dictionary(column.type))):
        column = _as_text(column)
    elif numeric or types.is_boolean(kind) or types.is_null(kind):
        return _numeric(column, "boolean" if types.is_boolean(kind) else "number", written=k in chosen.texts)
    elif not text:
        raise UnreadableFile(
            f"{path}: column {name!r} holds {kind}, expected numbers, truth values or text; take it out"
        )
    return _texts(column.fill_null(""), missing, ".", k in chosen.kept)


def _written(value: float) -> str:
    """Return a number as a cell of a table has it: 3, not 3.0."""
    return repr(value).removesuffix(".0")


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return an arrow column of any type as one of texts, "" where a value is missing."""
    import pyarrow as pa

    return pa.chunked_array([["" if value is None else str(value) for value in column.to_pylist()]], pa.string())


def _floats(column: pa.ChunkedArray) -> Vector:
    """Return an arrow column of numbers or truth values as float64, NaN where a value is missing."""
    import pyarrow as pa

    values: Vector = column.cast(pa.float64(), safe=False).to_numpy()
    return values


def _numbers(table: pa.Table, features: Collection[int]) -> dict[int, Vector]:
    """Return k -> column k, shape (m,), for the columns of float64 of an arrow table; NaN where a value is missing.

    Those in `features` are the columns of one matrix, row by row in memory, so that X need not be put together again.
    """
    import pyarrow as pa

    wanted = [k for k, kind in enumerate(table.schema.types) if pa.types.is_float64(kind)]
    inside = [k for k in wanted if k in features]
    X = np.empty((table.num_rows, len(inside)))
    numbers = {k: np.empty(table.num_rows) for k in wanted if k not in features}
    numbers |= {k: X[:, j] for j, k in enumerate(inside)}

    def fill(start: int, batch: pa.RecordBatch) -> None:
        for k, out in numbers.items():
            out[start : start + len(batch)] = batch.column(k).to_numpy(zero_copy_only=False)

    batches = table.to_batches()  # each about as many rows as fit a cache
    with ThreadPoolExecutor(pa.cpu_count()) as pool:  # most of the time the system takes, to make memory
        list(pool.map(fill, accumulate(map(len, batches), initial=0), batches))
    return numbers


def _texts(column: pa.ChunkedArray, missing: frozenset[str], decimal: str, keep: bool) -> ColumnData:
    """Return an arrow column of texts as ColumnData, parsing each distinct text once.

    `missing` are the texts that stand for missing values, `decimal` is the mark before a fraction; `keep` stores the
    cells as written.
    """
    import pyarrow as pa

    coded = column.cast(pa.large_string()).combine_chunks().dictionary_encode()
    reader = ColumnReader(missing, decimal, keep)
    reader.extend(coded.dictionary.to_pylist())
    return reader.finish().spread(coded.indices.to_numpy().astype(np.int64))
