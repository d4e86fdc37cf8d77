"""Which columns of a file are features, labels, names of rows and weights, and the table that they make."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glmesh.contract import DataTable, TextColumn
from glmesh.errors import InvalidData, InvalidInput, UnreadableFile
from glmesh.files.columns import ColumnData, clean
from glmesh.types import Indices, Labels, Matrix, Vector

_ROWS = 2048  # [rows] that are put together at a time


@dataclass(frozen=True)
class Chosen:
    """Positions in a file, from 0, of the columns of target, row names and weights; None where the file has none."""

    target: int | None
    ids: int | None
    weight: int | None
    texts: frozenset[int] = frozenset()  # features whose cells are needed as they are written
    gaps: bool = False  # whether a weight may be missing

    @property
    def kept(self) -> frozenset[int]:
        """Return the positions of columns whose cells are needed as they are written: labels, row names, texts."""
        return frozenset(k for k in (self.target, self.ids) if k is not None) | self.texts

    def is_feature(self, names: Sequence[str] | None, k: int) -> bool:
        """Return whether column k has a name, or no column has one (names None), and none of the three roles."""
        return k not in (self.target, self.ids, self.weight) and _is_named(names, k)


@dataclass(frozen=True)
class Roles:
    """Columns of target, row names and weights, as the caller of a reader names them; None: not named.

    Without a name the target is the last column that has no other role; `has_target` False says that it may be missing.
    """

    target: str | int | None = None  # of y, by name or position; None: the last that is neither ids nor weight
    ids: str | None = None  # of the names of the rows; None: they have none
    weight: str | None = None  # of the sample weights; None: there are none
    has_target: bool = True  # False: y may be missing from the file, and is not looked for unless `target` names it
    texts: tuple[str, ...] = ()  # names of features whose cells are needed as they are written; ignored if not there
    gaps: bool = False  # whether a weight may be missing, because its row will be left out

    @property
    def need_names(self) -> bool:
        """Return whether columns are asked for by name, so that the file must have a header."""
        return self.ids is not None or self.weight is not None

    def find(self, path: Path, names: Sequence[str] | None, width: int) -> Chosen:
        """Return the positions of target, row names and weights in a file of `width` columns, as a Chosen.

        `names` are those of the columns, None without a header. InvalidInput, which lists the names of the file, is
        raised for a column that is not there, or has two roles.
        """
        ids, weight = (_named(path, name, names) for name in (self.ids, self.weight))
        if ids is not None and ids == weight:
            raise InvalidInput(f"{path}: ids and weight are one column, {self.ids!r}, expected two")
        target = self._target(path, names, width, {ids, weight})
        for what, at, name in (("ids", ids, self.ids), ("weight", weight, self.weight)):
            if target is not None and target == at:
                raise InvalidInput(f"{path}: target={self.target!r} and {what}={name!r} are one column, expected two")
        wanted = set(self.texts)
        texts = frozenset(k for k, name in enumerate(names or ()) if name in wanted)
        return Chosen(target, ids, weight, texts - {target, ids, weight}, self.gaps)

    def _target(self, path: Path, names: Sequence[str] | None, width: int, others: set[int | None]) -> int | None:
        """Return the position of the column of the target; None if the file has none and `has_target` is False.

        `names` are those of the `width` columns, None without a header; `others` are positions that have another role.
        """
        if self.target is None:
            named = [k for k in range(width) if k not in others and _is_named(names, k)]
            return named[-1] if named and self.has_target else None
        places = _places(names, self.target) or _position(self.target, width)
        if not places and not self.has_target:
            return None
        if len(places) == 1 and _is_named(names, places[0]):
            return places[0]
        said = ", ".join(filter(None, names or ()))
        expected = f"one of {said}," if said else "one: there is no header, so give"
        raise InvalidInput(
            f"{path}: target={self.target!r} names {len(places)} columns, expected {expected} a position from 0 to "
            f"{width - 1}"
        )


def _named(path: Path, wanted: str | None, names: Sequence[str] | None) -> int | None:
    """Return the position of the column named `wanted`, None if that is None.

    Raise InvalidInput unless there is one.
    """
    if wanted is None:
        return None
    places = _places(names, wanted)
    if len(places) != 1:
        found = f"{len(places)} columns {wanted!r}, expected one" if places else f"no column {wanted!r}"
        raise InvalidInput(f"{path}: {found}; there are {', '.join(filter(None, names or ())) or 'no names'}")
    return places[0]


def _places(names: Sequence[str] | None, wanted: str | int) -> list[int]:
    """Return the positions of the columns with the name `wanted`; empty if there are none, or columns have no names."""
    exact = [k for k, name in enumerate(names or ()) if name == wanted]
    if exact or not isinstance(wanted, str):
        return exact
    return [k for k, name in enumerate(names or ()) if name and name == clean(wanted)]


def _is_named(names: Sequence[str] | None, k: int) -> bool:
    """Return whether column k has a name in `names`, where "" is none.

    True for every k if `names` is None: no header.
    """
    return names is None or bool(names[k])


def _position(target: str | int, width: int) -> list[int]:
    """Return [k] for a target that is a position among `width` columns, from the end if negative; empty for others."""
    try:
        return [range(width)[int(target)]]
    except (ValueError, IndexError):
        return []


@dataclass(frozen=True, eq=False)
class FileColumns:
    """All columns of a file, of which `table` makes the samples, the labels, the names of rows and the weights."""

    path: Path
    columns: Sequence[ColumnData]
    names: Sequence[str] | None  # of the columns, "" for one without a name; None: there is no header
    chosen: Chosen
    first_line: int = 1  # line of the file that holds row 0
    lines: Indices | None = None  # (m,) line of the file where each row begins; None: they follow line by line

    def table(self, read_as: str) -> DataTable:
        """Return the table that the columns make; `read_as` says how the file was read.

        A first column without a name holds names or numbers of rows, as R and pandas write them, and is left out. Any
        other column without a name must be empty.
        """
        columns, names, chosen = self.columns, self.names, self.chosen
        features, left_out = self._features()
        texts = tuple(self._text(k) for k in features if columns[k].text is not None)
        weight = None if chosen.weight is None else self._weights(chosen.weight)
        return DataTable(
            str(self.path),
            _matrix([columns[k].values for k in features]),
            None if names is None else tuple(names[k] for k in features),
            None if chosen.target is None else _labels(columns[chosen.target]),
            None if names is None or chosen.target is None else names[chosen.target],
            None if chosen.ids is None else self._ids(columns[chosen.ids]),
            weight,
            self._line(0),
            self.lines,
            texts,
            tuple(left_out),
            read_as,
            cells={name: cells for k, name in enumerate(names or ()) if (cells := self._cells(k)) is not None},
        )

    def _cells(self, k: int) -> tuple[str, ...] | None:
        """Return the cells of column k, as written, if its texts were asked for; None: they were not."""
        return self.columns[k].cells if k in self.chosen.texts else None

    def _line(self, row: int) -> int:
        """Return the line of the file, from 1, where a row, counted from 0, begins."""
        return self.first_line + row if self.lines is None else int(self.lines[row])

    def _features(self) -> tuple[list[int], list[str]]:
        """Return (positions of the features, texts on columns that are left out).

        Raise UnreadableFile for an unnamed column.
        """
        features, left_out = [], []
        for k, column in enumerate(self.columns):
            if k in (self.chosen.target, self.chosen.ids, self.chosen.weight):
                continue
            if _is_named(self.names, k):
                features.append(k)
            elif k == 0:
                left_out.append("the first column, which has no name (numbers or names of rows)")
            elif column.kind != "number" or not np.isnan(column.values).all():
                after = f"the column after {self.names[k - 1]!r}" if self.names and self.names[k - 1] else f"column {k}"
                raise UnreadableFile(
                    f"{self.path}: {after} has no name in line {self.first_line - 1}, but values below; name it, or "
                    "take it out (if that line is a title, delete all lines above the names of the columns)"
                )
        if not features:
            raise UnreadableFile(
                f"{self.path}: has {len(self.columns)} column{'s' if len(self.columns) > 1 else ''} and no feature "
                "beside the target; expected columns separated by ',', ';', tab or '|'"
            )
        return features, left_out

    def _text(self, k: int) -> TextColumn:
        """Return the TextColumn of column k, which holds text: name, first cell with text and its line, levels."""
        column = self.columns[k]
        row, cell = column.text or (0, "")
        name = f"column {k}" if self.names is None else self.names[k]
        return TextColumn(name, self._line(row), cell, column.levels, column.looks, k)

    def _weights(self, k: int) -> Vector:
        """Return the sample weights in column k, shape (m,); raise InvalidData if one is missing or text."""
        column = self.columns[k]
        values, wrong = column.values, np.isnan(column.values)
        if wrong.any() and not (self.chosen.gaps and column.text is None):
            row = int(np.argmax(wrong)) if column.text is None else column.text[0]
            name = f" ({self.names[k]})" if self.names is not None else ""
            raise InvalidData(
                f"{self.path}, line {self._line(row)}, column {k}{name}: a weight must be a number, "
                "and is missing or text; a row that does not count has weight 0"
            )
        return values

    def _ids(self, column: ColumnData) -> list[str]:
        """Return the names of the m rows; raise InvalidData if one is missing, or two rows have the same."""
        names = list(column.cells or ())
        seen: dict[str, int] = {}
        for row, name in enumerate(names):
            if not name:
                raise InvalidData(
                    f"{self.path}, line {self._line(row)}: the row has no name in the column of ids; give it one"
                )
            if seen.setdefault(name, row) != row:
                raise InvalidData(
                    f"{self.path}: two rows have the name {name!r}, lines {self._line(seen[name])} and "
                    f"{self._line(row)}; ids must be distinct"
                )
        return names


def _matrix(columns: Sequence[Vector]) -> Matrix:
    """Return X of shape (m, p), row by row in memory, from its p columns of shape (m,).

    Where these are the columns of one such matrix, in its order, it is returned itself.
    """
    whole = columns[0].base
    if whole is not None and whole.shape == (len(columns[0]), len(columns)) and whole.flags.c_contiguous:
        places = [column.ctypes.data - whole.ctypes.data for column in columns if column.base is whole]
        if places == list(range(0, whole.strides[0], whole.itemsize)):
            return whole
    X = np.empty((len(columns[0]), len(columns)))
    for start in range(0, len(X), _ROWS):  # as many rows at a time as fit a cache
        for j, column in enumerate(columns):
            X[start : start + _ROWS, j] = column[start : start + _ROWS]
    return X


def _labels(column: ColumnData) -> Labels:
    """Return y of shape (m,): numbers, or the cells as written if one of them is text."""
    return column.values if column.kind != "text" else np.array(column.cells, dtype=np.str_)
