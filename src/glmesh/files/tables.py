"""Tables of text (.csv, .tsv) as pandas, R, Excel, NumPy and polars write them."""

import csv
from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from glmesh.contract import DataTable
from glmesh.errors import UnreadableFile
from glmesh.files import arrow
from glmesh.files.assembly import FileColumns, Roles
from glmesh.files.columns import ColumnData, ColumnReader, number
from glmesh.files.layout import TextLayout, look, no_samples
from glmesh.files.streams import opened_text
from glmesh.types import Indices

ENDINGS = (".csv", ".tsv")
_ROWS = 4096  # [rows] that are cut into columns at a time


def read(path: Path, tab: bool, header: str, encoding: str, missing: tuple[str, ...], roles: Roles) -> DataTable:
    """Read a table of text (.csv, .tsv) and return it; `tab`: its delimiter is a tab.

    `header` is "auto", "yes" or "no". Columns that are named by `roles` need a header. A large plain file is read by
    pyarrow where it is installed; where that gives up, the file is read line by line, with the same bits, and what is
    wrong is named with its line. `encoding` is that of a file without a byte order mark, `missing` are the cells that
    stand for missing values.
    """
    marks = frozenset(missing)
    layout = look(path, tab, "yes" if roles.need_names and header == "auto" else header, encoding, marks)
    chosen = roles.find(path, layout.names, layout.width)
    found = arrow.read_text(path, layout, missing, chosen) if arrow.is_worth_it(path) else None
    if found is None:
        columns, lines = _read(path, layout, marks, chosen.kept)
        if not layout.decimal and any(map(_has_comma, columns)):  # the first fraction stands far down
            layout = replace(layout, decimal=",")
            columns, lines = _read(path, layout, marks, chosen.kept)
    else:
        columns, plain = found
        lines = None if plain else _lines(path, layout)
    return FileColumns(path, columns, layout.names, chosen, layout.first_line, lines).table(str(layout))


def _has_comma(column: ColumnData) -> bool:
    """Return whether the first text of a column is a number with a decimal comma."""
    return column.text is not None and "," in column.text[1] and number(column.text[1], ",") is not None


def _read(
    path: Path, layout: TextLayout, missing: frozenset[str], kept: frozenset[int]
) -> tuple[list[ColumnData], Indices | None]:
    """Return (columns, lines) of a table of text, read line by line; a ColumnData per column.

    `lines` has the line of the file where each row begins, shape (m,), and is None if rows are consecutive lines.
    `missing` are the cells that stand for missing values; columns at the positions `kept` store their cells as written.
    `layout` says how the table is written.
    """
    readers = [ColumnReader(missing, layout.decimal, k in kept) for k in range(layout.width)]
    lines = array("q")
    rows = _rows(path, layout)
    while some := list(islice(rows, _ROWS)):
        lines.extend(line for line, _ in some)
        for reader, cells in zip(readers, zip(*(row for _, row in some), strict=True), strict=True):
            reader.extend(cells)
    if not lines:
        raise no_samples(path)
    return [reader.finish() for reader in readers], _unless_consecutive(np.asarray(lines), layout)


def _rows(path: Path, layout: TextLayout) -> Iterator[tuple[int, list[str]]]:
    """Yield (line of the file where the row begins, its cells) for the rows below the header.

    Blank lines are left out, and rows of empty cells at the end of the file, which Excel writes. `layout` says how the
    table is written.
    """
    width, start = layout.width, layout.first_line
    with opened_text(path, layout.encoding) as text:
        for _ in range(layout.first_line - 1):
            text.readline()
        rows = csv.reader(text, delimiter=layout.delimiter, strict=True)
        empty: list[tuple[int, list[str]]] = []
        try:
            for row in rows:
                line, start = start, layout.first_line + rows.line_num
                if not row or (len(row) == 1 < width and not row[0].strip()):
                    continue
                if len(row) != width:
                    if len(row) < width or any(map(str.strip, row[width:])):
                        raise _wrong_width(path, line, row, layout)
                    del row[width:]
                if not any(row):
                    empty.append((line, row))
                    continue
                if empty:
                    yield from empty
                    empty.clear()
                yield line, row
        except csv.Error as error:
            raise UnreadableFile(f"{path}, line {start}: {error}; expected plain or quoted cells") from error


def _wrong_width(path: Path, line: int, row: list[str], layout: TextLayout) -> UnreadableFile:
    """Return the UnreadableFile for a row with another number of cells than the table has columns.

    `line` is where the row begins in the file, `layout` says how wide the table is.
    """
    whose = "the header has names" if layout.names else "the first line has"
    title = layout.names is not None and layout.width == 1
    remedy = (
        f"line {layout.first_line - 1} looks like a title; delete all lines above the names of the columns"
        if title
        else "mend the line, and quote cells that hold the delimiter"
    )
    return UnreadableFile(
        f"{path}, line {line}: has {len(row)} cell{'s' if len(row) > 1 else ''}, expected {layout.width} as {whose} "
        f"(delimiter {layout.delimiter!r}); {remedy}"
    )


def _lines(path: Path, layout: TextLayout) -> Indices | None:
    """Return the line of the file where each row begins, shape (m,); None if rows are consecutive lines."""
    return _unless_consecutive(np.fromiter((line for line, _ in _rows(path, layout)), dtype=np.int64), layout)


def _unless_consecutive(lines: Indices, layout: TextLayout) -> Indices | None:
    """Return `lines`, the line of the file where each of m rows begins, shape (m,), or None if they are consecutive.

    Consecutive lines count up from `layout.first_line`.
    """
    return None if lines[0] == layout.first_line and lines[-1] - lines[0] == len(lines) - 1 else lines
