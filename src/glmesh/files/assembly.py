"""Which columns of a file are features, labels, names of rows and weights, and the table that they make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glmesh.contract import DataTable, TextColumn
from glmesh.errors import InvalidData, InvalidInput, UnreadableFile
from glmesh.files.columns import ColumnData
from glmesh.types import Indices, Labels, Matrix, Vector

_ROWS = 2048  # [rows] that are put together at a time


@dataclass(frozen=True)
class Chosen:
    """Positions in the file of the columns that are no features; None: there is none."""

    target: int | None
    ids: int | None
    weight: int | None

    @property
    def kept(self) -> frozenset[int]:
        """Return the positions of columns whose cells are needed as they are written: labels and names of rows."""
        return frozenset(k for k in (self.target, self.ids) if k is not None)


@dataclass(frozen=True)
class Roles:
    """Columns that the caller names."""

    target: str | int | None = None  # of y, by name or position; None: the last that is neither ids nor weight
    ids: str | None = None  # of the names of the rows; None: they have none
    weight: str | None = None  # of the sample weights; None: there are none
    has_target: bool = True  # False: y may be missing from the file, and is not looked for unless `target` names it

    @property
    def need_names(self) -> bool:
        """Return whether the file must have a header."""
        return self.ids is not None or self.weight is not None

    def find(self, path: Path, names: Sequence[str] | None, width: int) -> Chosen:
        """Return where these columns stand in a file; InvalidInput says which names there are."""
        ids, weight = (self._named(path, what, names) for what in ("ids", "weight"))
        if ids is not None and ids == weight:
            raise InvalidInput(f"{path}: ids and weight are one column, {self.ids!r}, expected two")
        target = self._target(path, names, width, {ids, weight})
        for what, at, name in (("ids", ids, self.ids), ("weight", weight, self.weight)):
            if target is not None and target == at:
                raise InvalidInput(f"{path}: target={self.target!r} and {what}={name!r} are one column, expected two")
        return Chosen(target, ids, weight)

    def _named(self, path: Path, what: str, names: Sequence[str] | None) -> int | None:
        """Return the position of the column that `ids` or `weight` names; None if it names none."""
        name = getattr(self, what)
        if name is None:
            return None
        places = [k for k, one in enumerate(names or ()) if one == name]
        if len(places) != 1:
            found = f"{len(places)} columns {name!r}, expected one" if places else f"no column {name!r}"
            raise InvalidInput(f"{path}: {found}; there are {', '.join(filter(None, names or ())) or 'no names'}")
        return places[0]

    def _target(self, path: Path, names: Sequence[str] | None, width: int, others: set[int | None]) -> int | None:
        """Return the position of the column of y; None if the file has none and may have none."""
        if self.target is None:
            rest = [k for k in range(width) if k not in others and (names is None or names[k])]
            return rest[-1] if rest and self.has_target else None
        places = [k for k, name in enumerate(names or ()) if name == self.target]
        if not places:
            with suppress(ValueError, IndexError):
                places = [range(width)[int(self.target)]]
        if not places and not self.has_target:
            return None
        if len(places) != 1 or (names is not None and not names[places[0]]):
            said = [name for name in names or () if name]
            raise InvalidInput(
                f"{path}: target={self.target!r} names {len(places)} columns, expected one"
                + (f" of {', '.join(said)}," if said else ": there is no header, so give")
                + f" a position from 0 to {width - 1}"
            )
        return places[0]


def assemble(
    path: Path,
    columns: Sequence[ColumnData],
    names: Sequence[str] | None,
    chosen: Chosen,
    read_as: str,
    first_line: int = 1,
    lines: Indices | None = None,
) -> DataTable:
    """Return the table that the columns of a file make; `lines` and `first_line` are as in DataTable.

    A first column without a name holds names or numbers of rows, as R and pandas write them, and is left out. Any other
    column without a name must be empty.
    """

    def line(row: int) -> int:
        """Return the line of the file where a row begins."""
        return first_line + row if lines is None else int(lines[row])

    def called(k: int) -> str:
        """Return how messages name a column."""
        return f"column {k} ({names[k]})" if names is not None and names[k] else f"column {k}"

    features, left_out = _features(path, columns, names, chosen)
    texts = tuple(
        TextColumn(
            called(k) if names is None else names[k], line(found[0]), found[1], columns[k].levels, columns[k].looks, k
        )
        for k in features
        if (found := columns[k].text) is not None
    )
    target, ids, weight = (None if at is None else columns[at] for at in (chosen.target, chosen.ids, chosen.weight))
    if weight is not None and chosen.weight is not None:
        wrong = np.isnan(weight.values)
        if wrong.any():
            raise InvalidData(
                f"{path}, line {line(int(np.argmax(wrong)))}, {called(chosen.weight)}: a weight must be a number, and "
                "is missing or text; a row that does not count has weight 0"
            )
    return DataTable(
        str(path),
        _matrix([columns[k].values for k in features]),
        None if names is None else tuple(names[k] for k in features),
        None if target is None else _labels(target),
        None if names is None or chosen.target is None else names[chosen.target],
        None if ids is None else _ids(path, ids, line),
        None if weight is None else weight.values,
        tuple(one.name for one in texts),
        line(0),
        lines,
        texts,
        tuple(left_out),
        read_as,
    )


def _features(
    path: Path, columns: Sequence[ColumnData], names: Sequence[str] | None, chosen: Chosen
) -> tuple[list[int], list[str]]:
    """Return (positions of the features, words on columns that are left out); refuse values without a name."""
    features, left_out = [], []
    for k, column in enumerate(columns):
        if k in (chosen.target, chosen.ids, chosen.weight):
            continue
        if names is None or names[k]:
            features.append(k)
        elif k == 0:
            left_out.append("the first column, which has no name (numbers or names of rows)")
        elif column.kind != "number" or not np.isnan(column.values).all():
            raise UnreadableFile(f"{path}: column {k} has no name in the header, but values; name it, or take it out")
    if not features:
        raise UnreadableFile(
            f"{path}: has {len(columns)} column{'s' if len(columns) > 1 else ''} and no feature beside the target; "
            "expected columns separated by ',', ';', tab or '|'"
        )
    return features, left_out


def _matrix(columns: Sequence[Vector]) -> Matrix:
    """Return X of shape (m, p), row by row in memory, from its p columns of shape (m,)."""
    X = np.empty((len(columns[0]), len(columns)))
    for start in range(0, len(X), _ROWS):  # as many rows at a time as fit a cache
        for j, column in enumerate(columns):
            X[start : start + _ROWS, j] = column[start : start + _ROWS]
    return X


def _labels(column: ColumnData) -> Labels:
    """Return y: numbers, or the cells as they are written if one of them is text."""
    return column.values if column.kind != "text" else np.array(column.cells, dtype=np.str_)


def _ids(path: Path, column: ColumnData, line: Callable[[int], int]) -> list[str]:
    """Return the names of the rows; refuse a missing one, and one that two rows have."""
    names = list(column.cells or ())
    seen: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name:
            raise InvalidData(f"{path}, line {line(row)}: the row has no name in the column of ids; give it one")
        if seen.setdefault(name, row) != row:
            raise InvalidData(
                f"{path}: two rows have the name {name!r}, lines {line(seen[name])} and {line(row)}; "
                "ids must be distinct"
            )
    return names
