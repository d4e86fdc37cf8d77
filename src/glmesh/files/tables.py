"""Tables of numbers in text: .csv and .tsv, with or without a header."""

import csv
import io
from array import array
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from glmesh.contract import DataTable
from glmesh.errors import InvalidData, InvalidInput, UnreadableFile
from glmesh.files.streams import opened
from glmesh.types import Matrix, Vector

DELIMITER = {".csv": ",", ".tsv": "\t"}


def read(
    path: Path, delimiter: str, target: str | int | None, ids: str | None
) -> tuple[Matrix, Vector, list[str] | None]:
    """Read a table of numbers; return (X of shape (m, p), y of shape (m,), names of the m rows or None without `ids`).

    `target` is the column of y, by name or position in the file; None is the last that is not `ids`. `ids` is the
    header of the column with the rows' names. With `ids` the first line is the header; else it is one if it holds a
    cell that is neither empty nor a number.
    """
    table = _Table(path, ids)
    with opened(path) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
        rows = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            for row in filter(None, rows):
                table.add(row, f"{path}, line {rows.line_num}", delimiter)
        except csv.Error as error:
            raise UnreadableFile(f"{path}, line {rows.line_num}: {error}; expected plain or quoted cells") from error
        except UnicodeDecodeError as error:
            raise UnreadableFile(f"{path}: {error}; expected UTF-8 text, so convert it") from error
    return table.split(target)


@dataclass
class _Table:
    """Rows of a table of numbers, taken in line by line; `split` returns them as arrays."""

    path: Path
    ids: str | None  # the header of the column with the rows' names
    header: list[str] = field(default_factory=list)  # names of the columns; empty without a header
    width: int = 0  # [cells] of every row; 0 before the first line
    at: int | None = None  # position of the column `ids`; None without
    names: list[str] = field(default_factory=list)  # of the rows; empty without `ids`
    values: "array[float]" = field(default_factory=lambda: array("d"))  # row by row; 0 for a name

    def add(self, row: list[str], where: str, delimiter: str) -> None:
        """Take in one line of the file, cut into cells; the first may be the header.

        `where` (file and line) and `delimiter` stand in errors.
        """
        if not self.width:
            self.width = len(row)
            if self.width == 1:
                raise UnreadableFile(
                    f"{where}: has one cell, expected features and a target separated by {delimiter!r}"
                )
            if self.ids is not None or any(cell.strip() and not _is_number(cell) for cell in row):
                self.header = [cell.strip() for cell in row]
                self.at = self._position_of_ids()
                return
        if len(row) != self.width:
            raise UnreadableFile(f"{where}: has {len(row)} cells, expected {self.width} as in the first line")
        if self.at is not None:
            self.names.append(row[self.at])
            row[self.at] = "0"
        try:
            self.values.extend(map(float, row))
        except ValueError:
            column = next(i for i, cell in enumerate(row) if not _is_number(cell))
            name = f"{column} ({self.header[column]})" if self.header else f"{column}"
            raise UnreadableFile(
                f"{where}, column {name}: expected a number, got {row[column]!r}; encode or drop what is not a number"
            ) from None

    def split(self, target: str | int | None) -> tuple[Matrix, Vector, list[str] | None]:
        """Return (X of shape (m, p), y of shape (m,), names of the rows or None); `target` is as in `read`."""
        if not self.values:
            raise no_samples(self.path)
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InvalidData(f"{self.path}: two rows have the name {twice!r}")
        label = self._position_of_target(target)
        table = np.asarray(self.values).reshape(-1, self.width)
        X = np.delete(table, [label] if self.at is None else [label, self.at], axis=1)
        return X, table[:, label].copy(), None if self.at is None else self.names

    def _position_of_ids(self) -> int | None:
        """Return the position of the column `ids`, None without `ids`; raise InvalidInput if the header lacks it."""
        if self.ids is None:
            return None
        if self.ids not in self.header:
            raise InvalidInput(f"{self.path}: no column {self.ids!r}; there are {', '.join(self.header)}")
        return self.header.index(self.ids)

    def _position_of_target(self, target: str | int | None) -> int:
        """Return the position, from 0, of the column that `target` names; None is the last that is not `ids`."""
        if target is None:
            return self.width - 1 - (self.at == self.width - 1)
        named = [i for i, name in enumerate(self.header) if name == target]
        if not named:
            with suppress(ValueError, IndexError):
                named = [range(self.width)[int(target)]]
        if len(named) != 1:
            raise InvalidInput(
                f"{self.path}: target={target!r} names {len(named)} columns, expected one"
                + (f" of {', '.join(self.header)}," if self.header else ": there is no header, so give")
                + f" a position from 0 to {self.width - 1}"
            )
        if named[0] == self.at:
            raise InvalidInput(f"{self.path}: target={target!r} and ids={self.ids!r} are one column, expected two")
        return named[0]


def no_samples(path: Path) -> UnreadableFile:
    """Return the UnreadableFile to be raised for a data file without a sample."""
    return UnreadableFile(f"{path}: holds no samples, expected at least one; was it written to its end?")


def _is_number(cell: str) -> bool:
    """Return whether the text of a cell can be read as a float."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def read_table(
    path: Path,
    delimiter: str,
    *,
    target: str | int | None,
    ids: str | None,
    weight: str | None,
    header: str,
    encoding: str,
    missing: tuple[str, ...],
    has_target: bool,
) -> DataTable:
    """Read a table with the names of its columns; columns with text are NaN in X and listed in `texts`."""
    with opened(path) as stream, io.TextIOWrapper(stream, encoding.replace("utf-8", "utf-8-sig"), newline="") as text:
        rows = [[cell.strip() for cell in row] for row in csv.reader(text, delimiter=delimiter) if row]
    named = header == "yes" or (
        header == "auto" and any(cell not in missing and not _is_number(cell) for cell in rows[0])
    )
    names = rows.pop(0) if named else None
    if not rows:
        raise no_samples(path)
    width = len(rows[0])
    columns = list(zip(*rows, strict=True))
    at = {key: names.index(key) for key in (ids, weight) if names and key}
    label: int | None = None
    if isinstance(target, str) and names and target in names:
        label = names.index(target)
    elif target is not None and (isinstance(target, int) or target.lstrip("-").isdigit()):
        label = range(width)[int(target)]
    elif target is None and has_target:
        label = max(k for k in range(width) if k not in at.values())
    elif has_target:
        raise InvalidInput(f"{path}: no column {target!r}")

    def numbers(k: int) -> Vector | None:
        try:
            return np.array([np.nan if cell in missing else float(cell) for cell in columns[k]])
        except ValueError:
            return None

    features = [k for k in range(width) if k != label and k not in at.values()]
    values = {k: numbers(k) for k in range(width)}
    X = np.column_stack([np.full(len(rows), np.nan) if values[k] is None else values[k] for k in features])
    y = None if label is None else values[label] if values[label] is not None else np.array(columns[label])
    return DataTable(
        str(path),
        X,
        None if names is None else tuple(names[k] for k in features),
        y,
        None if names is None or label is None else names[label],
        None if ids is None else list(columns[at[ids]]),
        None if weight is None else values[at[weight]],
        tuple(names[k] if names else f"column {k}" for k in features if values[k] is None),
        1 + named,
    )
