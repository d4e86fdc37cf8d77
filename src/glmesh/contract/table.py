"""Rows of a data file, or of a data frame, with the names that they came with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import issparse

from glmesh.types import Flags, Indices, Labels, SampleMatrix, Vector


@dataclass(frozen=True)
class TextColumn:
    """A column of a data file with text instead of numbers: name, line and text of its first such cell.

    `levels` counts its distinct texts; `looks` is "dates", "names of rows" (all texts are distinct), or ""; `position`
    is that of the column in the file, from 0.
    """

    name: str
    line: int  # of the file, with the first cell that is no number
    cell: str  # what stands there; for the site itself, not for others
    levels: int  # distinct texts
    looks: str = ""  # "dates", "names of rows" (all texts are distinct), or empty
    position: int = 0  # of the column in the file, from 0


@dataclass(frozen=True, eq=False)
class DataTable:
    """Rows of a data file or data frame: features X, targets y, sample weights, and names of columns and rows.

    X has shape (m, p) for m rows and p features, with NaN for missing values; y and the weights have shape (m,).
    `where` names the file, site or part of the data in messages. None stands for what the table does not have.
    """

    where: str
    X: SampleMatrix  # (m, p) features; NaN in the place of a missing value
    names: tuple[str, ...] | None  # of the p columns of X; None: the columns have no names, only positions
    y: Labels | None = None  # (m,) float64, or str where a label is no number; None: there is no target
    target: str | None = None  # name of the column of y; None: it has none
    ids: list[str] | None = None  # names of the m rows; None: they have none
    weight: Vector | None = None  # (m,) sample weights; None: all are 1
    first_line: int = 1  # line of the file that holds row 0
    lines: Indices | None = None  # (m,) line of the file where each row begins; None: they follow line by line
    text_columns: tuple[TextColumn, ...] = ()  # columns that hold text, which X has NaN for
    left_out: tuple[str, ...] = ()  # words on columns of the file that are not in the table: a column without a name
    read_as: str = ""  # how the file was read: encoding, delimiter, decimal mark, header
    index_base: int | None = None  # index in the file of column 0, 0 or 1; None: the file is no svmlight text
    # name -> its m cells as written, "" where one is missing, of columns whose texts were asked for
    cells: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    clusters: Labels | None = None  # (m,) labels of the rows' clusters, "" where missing; None: none are named

    @property
    def m(self) -> int:
        """Return the number of rows."""
        return int(self.X.shape[0])

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the p features, or "column 0", "column 1", ... where they have none."""
        return self.names if self.names is not None else tuple(f"column {k}" for k in range(self.X.shape[1]))

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the names of those features that hold text, which X has as NaN; empty if none does."""
        kept = set(self.columns)
        return tuple(one.name for one in self.text_columns if one.name in kept)

    @property
    def labels(self) -> tuple[str | float, ...]:
        """Return the distinct values of the targets y, ascending: floats or texts. A missing value is none of them.

        Return an empty tuple if the table has no targets.
        """
        if self.y is None:
            return ()
        found = np.unique(self.y[~self.missing_labels])
        return tuple(str(one) if found.dtype.kind in "UO" else float(one) for one in found)

    @property
    def missing_labels(self) -> Flags:
        """Return booleans, shape (m,) for m rows, True where the target y is missing: NaN or, among texts, "".

        Return shape (0,) if the table has no targets.
        """
        if self.y is None:
            return np.empty(0, dtype=np.bool_)
        return np.isnan(self.y) if self.y.dtype.kind == "f" else self.y == ""

    def line(self, row: int) -> int:
        """Return the number of the line of the file, counted from 1, where row number `row` (from 0) begins."""
        return self.first_line + row if self.lines is None else int(self.lines[row])

    def column(self, k: int) -> Vector:
        """Return column number `k` (from 0) of the features X as a dense vector of shape (m,), a number per row."""
        column = self.X[:, [k]]
        return np.asarray(column.toarray() if issparse(column) else column, dtype=np.float64)[:, 0]

    def rows(self, kept: Flags) -> DataTable:
        """Return the table with only the rows for which `kept`, shape (m,), is True; lines stay those of the file."""
        if kept.all():
            return self
        chosen = np.flatnonzero(kept)
        lines = np.array([self.line(int(row)) for row in chosen], dtype=np.int64)
        return replace(
            self,
            X=self.X[chosen],
            y=None if self.y is None else self.y[chosen],
            ids=None if self.ids is None else [self.ids[row] for row in chosen],
            weight=None if self.weight is None else self.weight[chosen],
            clusters=None if self.clusters is None else self.clusters[chosen],
            lines=lines,
            cells={name: tuple(cells[row] for row in chosen) for name, cells in self.cells.items()},
        )

    def take(self, chosen: Indices, names: tuple[str, ...] | None) -> DataTable:
        """Return the table with only some columns of the features X, in the order of their indices `chosen`.

        `names` are the names of those columns; None if columns have no names. Rows and targets stay.
        """
        same = np.array_equal(chosen, np.arange(self.X.shape[1]))  # then the memory is the same, and so are products
        X = self.X if same else self.X[:, chosen]
        return replace(self, X=X if issparse(X) else np.ascontiguousarray(X), names=names)
