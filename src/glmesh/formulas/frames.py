"""Columns by name, of numbers or of texts, as formulas need them, from a data file or a data frame."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from glmesh.contract import DataTable
from glmesh.contract.fitting import listed, nearest
from glmesh.errors import InvalidData, Mismatch
from glmesh.types import Array, Flags, Indices, Vector
from glmesh.validation import is_missing

Texts = npt.NDArray[np.object_]  # (m,) str, or None where a value is missing
SITE = "site"  # the variable that stands for the site itself
_TRUTH = {"False": 0.0, "True": 1.0}


class Series(Protocol):
    """Protocol of a column of a data frame: what is asked of one of pandas or polars."""

    def to_numpy(self) -> Array:
        """Return the values, shape (m,)."""


class DataFrame(Protocol):
    """Protocol of a data frame: what is asked of one of pandas or polars."""

    @property
    def columns(self) -> Iterable[str]:
        """Names of the columns, in their order."""

    def __getitem__(self, name: str, /) -> Series:
        """Return the column of that name."""

    def __len__(self) -> int:
        """Return the number of rows."""


@dataclass(frozen=True, eq=False)
class Frame:
    """A table as a formula sees it: m rows, and columns by name that hold numbers or texts.

    A column of numbers is float64 of shape (m,), NaN where a value is missing; a column of texts is an array of str,
    None where one is missing.
    """

    where: str  # what messages call the table
    m: int  # rows
    columns: Mapping[str, Vector | Texts]
    lines: Indices | None = None  # (m,) line of the file where a row begins, or number of the row; None: 0, 1, ...
    unit: str = "row"  # what `lines` count: "line" of a file, or "row"
    orders: Mapping[str, tuple[str | float, ...]] = field(default_factory=dict)  # categories of a column, in order
    site: str | float | None = None  # what `SITE` is in all rows, unless a column has that name; None: not known

    @staticmethod
    def of_table(table: DataTable, site: str | None = None, categories: Collection[str] = ()) -> Frame:
        """Return the frame of a table that was read with the texts of its columns, of the member `site`, if any.

        Columns named in `categories` hold texts, whatever their cells look like.
        """
        columns: dict[str, Vector | Texts] = {}
        texts = {*table.texts, *categories}
        for k, name in enumerate(table.names or ()):
            if name in texts:
                cells = table.cells.get(name)
                if cells is None:
                    continue
                columns[name] = np.array([cell or None for cell in cells], dtype=object)
            else:
                columns[name] = table.column(k)
        if table.y is not None and table.target:
            y = table.y
            columns[table.target] = (
                y.astype(np.float64) if y.dtype.kind == "f" else np.array([str(one) or None for one in y], dtype=object)
            )
        lines = np.array([table.line(row) for row in range(table.m)], dtype=np.int64)
        return Frame(table.where, table.m, columns, lines, "line", site=site)

    @staticmethod
    def of_data_frame(data: DataFrame, names: Iterable[str], where: str, site: str | float | None = None) -> Frame:
        """Return the frame of the columns `names` of a data frame of pandas or polars; those it lacks are left out.

        Columns of truth values become texts, "False" and "True", which formulas take as levels, as statsmodels does.
        Raise InvalidData for dates and for anything that is no data frame.
        """
        if not hasattr(data, "columns") or not hasattr(data, "to_numpy"):
            raise InvalidData(
                f"{where} is {type(data).__name__}; a formula needs a data frame, whose columns have names"
            )
        columns: dict[str, Vector | Texts] = {}
        orders: dict[str, tuple[str | float, ...]] = {}
        held = list(data.columns)
        for name in names:
            if held.count(name) > 1:
                raise InvalidData(f"{where} has the column {name!r} twice; keep one of them")
            if name in held:
                columns[name] = _column(data[name], f"{where}, column {name!r}")
                categories = getattr(getattr(data[name], "cat", None), "categories", None)
                if categories is not None:
                    orders[name] = tuple(_level(one) for one in list(categories))
        return Frame(where, len(data), columns, orders=orders, site=site)

    def place(self, row: int) -> str:
        """Return where a row stands, for messages to the table's own user: "line 7"."""
        return f"{self.unit} {row if self.lines is None else int(self.lines[row])}"

    def require(self, names: Iterable[str]) -> None:
        """Raise Mismatch, which lists the names of both sides, if the frame lacks one of the columns `names`."""
        wanted = list(dict.fromkeys(names))
        missing = [name for name in wanted if name not in self.columns and not (name == SITE and self.site is not None)]
        if missing:
            spare = [name for name in self.columns if name not in wanted]
            raise Mismatch(
                f"{self.where}: lacks the column{'s' if len(missing) > 1 else ''} {listed(missing)}"
                f"{nearest(missing, spare)}, which the formula names; it has {listed(list(self.columns))}"
            )

    def is_text(self, name: str) -> bool:
        """Return whether a column holds texts; the site itself is one, unless sites have numbers."""
        if name not in self.columns:
            return isinstance(self.site, str)
        return self.columns[name].dtype.kind == "O"

    def numbers(self, name: str) -> Vector:
        """Return a column as float64, shape (m,), NaN where a value is missing; raise Mismatch if it holds text.

        Truth values are 1 and 0.
        """
        column = self.columns[name] if name in self.columns else np.full(self.m, self.site)
        if column.dtype.kind != "O":
            return np.asarray(column, dtype=np.float64)
        if {one for one in column if one is not None} <= _TRUTH.keys():
            return np.array([np.nan if one is None else _TRUTH[one] for one in column])
        row = next(k for k, one in enumerate(column) if one is not None and one not in _TRUTH)
        raise Mismatch(
            f"{self.where}: column {name} holds text, and the formula computes with it; write numbers, or C({name}) "
            "for a category",
            private=f"{self.place(row)} holds {column[row]!r:.60}",
        )

    def values(self, name: str) -> list[str | float | None]:
        """Return a column as a list of texts or numbers, None where a value is missing."""
        if name not in self.columns:
            return [self.site] * self.m
        column = self.columns[name]
        if column.dtype.kind == "O":
            return list(column)
        return [None if one != one else one for one in column.tolist()]

    def complete(self, names: Iterable[str]) -> Flags:
        """Return flags, shape (m,), True for the rows that lack no value in the columns `names`."""
        whole = np.ones(self.m, dtype=np.bool_)
        for name in names:
            column = self.columns.get(name)
            if column is not None:
                if column.dtype.kind == "O":
                    whole &= np.array([one is not None for one in column], dtype=np.bool_)
                else:
                    whole &= ~np.isnan(np.asarray(column, dtype=np.float64))
        return whole

    def take(self, rows: Flags) -> Frame:
        """Return the frame with only the rows for which `rows`, shape (m,), is True."""
        if rows.all():
            return self
        lines = np.arange(self.m, dtype=np.int64) if self.lines is None else self.lines
        columns = {name: column[rows] for name, column in self.columns.items()}
        return replace(self, m=int(np.count_nonzero(rows)), columns=columns, lines=lines[rows])


def _level(value: object) -> str | float:
    """Return a category of a data frame as a level: a number as a float, anything else as a text."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    return float(value) if isinstance(value, int | float | np.integer | np.floating) else str(value)


def _column(series: Series, where: str) -> Vector | Texts:
    """Return a column of a data frame as float64, or as texts and None; raise InvalidData for dates."""
    values = np.asarray(series.to_numpy())
    if values.dtype.kind in "mM":
        raise InvalidData(f"{where} holds dates; numbers are needed, say days since a date that all tables share")
    if values.dtype.kind in "iuf":
        return np.asarray(values, dtype=np.float64)
    found = [None if is_missing(one) else _level(one) for one in values.tolist()]
    return as_column(found)


def as_column(values: Sequence[str | float | None]) -> Vector | Texts:
    """Return values as a column of a Frame: float64 if all that are not None are numbers, else texts."""
    if all(isinstance(one, float) for one in values if one is not None):
        return np.array([np.nan if one is None else one for one in values], dtype=np.float64)
    return np.array([None if one is None else plain(one) for one in values], dtype=object)


def plain(level: str | float) -> str:
    """Return a level as it stands in the names of columns: a text as it is, a whole number without ".0"."""
    return level if isinstance(level, str) else repr(float(level)).removesuffix(".0")
