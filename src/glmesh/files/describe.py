"""What a data file holds that its owner should know of before it is used; no rows are shown."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glmesh.contract import DataTable
from glmesh.contract.contract import doubled
from glmesh.contract.fitting import listed, plain_number
from glmesh.files.columns import number
from glmesh.types import Vector

_MANY = 20  # [rows] from which on whole numbers that are all distinct are remarkable
_ID = re.compile(r"(?:^|[ _.-])(id|ids|nr|no|number|index|key|code|patient|subject|record|case)(?:$|[ _.-])", re.I)
_SENTINEL = re.compile(r"-9+|99+")
_CLASSES = 20  # [labels] up to which each is counted
_EXACT = 2.0**53  # whole numbers up to this are float64 numbers


@dataclass(frozen=True)
class DataFinding:
    """One remark on a table: its kind such as "missing", the columns it is about, what was found, and the remedy.

    `warns` is False for what is only told.
    """

    kind: str  # "constant", "missing", "id", "date", "sentinel", "digits", "text", "header", "left out" or "labels"
    columns: tuple[str, ...]  # names, with what was found in each; empty: it is about the whole table
    says: str  # what was found
    advice: str = ""  # what would do
    warns: bool = True  # False: it is only told

    def __str__(self) -> str:
        columns = f": {listed(self.columns)}" if self.columns else ""
        return f"{self.says}{columns}{f'; {self.advice}' if self.advice else ''}"


def describe(table: DataTable) -> list[DataFinding]:
    """Return remarks on a table for its owner; columns of a sparse X are not looked at.

    Parameters
    ----------
    table : DataTable
        What `read_table` returned.

    Returns
    -------
    list of DataFinding
        Each has a sentence (`str`), the columns it is about, and whether it is a warning. None names a row's values.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.contract import DataTable
    >>> from glmesh.files.describe import describe
    >>> X = np.array([[1.0, -999.0], [1.0, 37.5], [1.0, 36.9]])
    >>> for finding in describe(DataTable("a.csv", X, ("ward", "temperature"), np.array([0.0, 1.0, 1.0]), "ill")):
    ...     print(finding)
    one value only: ward; it tells a model nothing; take the columns out
    far from all other values: temperature (-999, once); if it stands for 'missing', write NA
    the target ill has the labels 0 (1 row), 1 (2 rows)
    """
    found: dict[str, list[str]] = {kind: [] for kind in _SAID}
    for one in table.text_columns:
        found["date" if one.looks == "dates" else "id" if one.looks else "text"].append(
            f"{one.name} ({one.levels:,} levels)" if not one.looks else one.name
        )
    if isinstance(table.X, np.ndarray):
        texts = set(table.texts)
        for k, name in enumerate(table.columns):
            if name not in texts:
                for kind, told in _remarks(table, name, table.X[:, k]):
                    found[kind].append(told)
    out = [DataFinding(kind, tuple(columns), *_SAID[kind]) for kind, columns in found.items() if columns]
    return [*_about_names(table), *out, *_about_target(table)]


_SAID = {  # kind: (what the columns are, what would do)
    "text": (
        "text",
        "a formula takes it as a category, with a column per level beside the first (--formula); without one take "
        "the columns out",
    ),
    "date": ("looks like dates", "write a duration in days or years instead, or take the columns out"),
    "id": ("looks like names or numbers of rows", "say --ids, or take the columns out"),
    "missing": ("missing values", "fill them in, or take the rows or columns out"),
    "constant": ("one value only", "it tells a model nothing; take the columns out"),
    "sentinel": ("far from all other values", "if it stands for 'missing', write NA"),
    "digits": ("whole numbers beyond 2^53", "their last digits are lost; subtract an offset first"),
}


def _remarks(table: DataTable, name: str, column: Vector) -> Iterator[tuple[str, str]]:
    """Yield (kind of finding, text) for a column of numbers called `name`; the text says the name and what was found.

    `column` has shape (m,), NaN where a value is missing.
    """
    missing = np.isnan(column)
    n_missing = int(np.count_nonzero(missing))
    if n_missing:
        share = f"{n_missing:,} of {len(column):,}, first in line {table.line(int(np.argmax(missing)))}"
        yield "missing", f"{name} ({'all' if n_missing == len(column) else share})"
    values = column[~missing] if n_missing else column
    if len(values) < 2:
        return
    low, high = float(values.min()), float(values.max())
    if low == high:
        yield "constant", name
        return
    for extreme in (low, high):
        if times := _times_apart(values, extreme):
            yield "sentinel", f"{name} ({plain_number(extreme)}, {'once' if times == 1 else f'{times:,} times'})"
    if not np.isfinite([low, high]).all():
        return
    if bool((values[:_MANY] % 1 == 0).all()) and bool((values % 1 == 0).all()):
        yield from ((kind, name) for kind in _about_wholes(name, values, low, high))


def _about_wholes(name: str, values: Vector, low: float, high: float) -> Iterator[str]:
    """Yield the kinds of findings ("date", "id", "digits") on a column `name` of integers from `low` to `high`.

    `values` are the column's values.
    """
    if len(values) >= _MANY:
        if _are_dates(values, low, high):
            yield "date"
        elif _number_rows(name, values, low, high):
            yield "id"
    if max(-low, high) > _EXACT:
        yield "digits"


def _times_apart(values: Vector, extreme: float) -> int:
    """Return how often `extreme` occurs if it looks like a code for "missing", such as -999; else 0.

    `extreme` is the smallest or largest value. It is a code if it is written in nines and farther from all other values
    than those are from each other.
    """
    if not _SENTINEL.fullmatch(f"{extreme:.17g}"):
        return 0
    others = values[values != extreme]
    gap = max(others.min() - extreme, extreme - others.max())
    return len(values) - len(others) if gap > others.max() - others.min() else 0


def _number_rows(name: str, values: Vector, low: float, high: float) -> bool:
    """Return whether distinct whole numbers look like numbers of rows: sorted, dense, or in a column named like ids.

    `low` and `high` are the smallest and the largest of `values`; `name` is that of the column.
    """
    if len(np.unique(values)) < len(values):
        return False
    steps = np.diff(values)
    return bool(_ID.search(name) or (steps > 0).all() or (steps < 0).all() or high - low < 2 * len(values))


def _are_dates(values: Vector, low: float, high: float) -> bool:
    """Return whether whole numbers are days written as 20240131, or seconds since 1970 between 2001 and 2100.

    `low` and `high` are the smallest and the largest of `values`.
    """
    if low >= 19000101 and high <= 21001231:
        month, day = values // 100 % 100, values % 100
        return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())
    return low >= 1e9 and high <= 4.2e9


def _about_names(table: DataTable) -> Iterator[DataFinding]:
    """Yield DataFindings on the header: columns that are left out, names that occur twice, names that are numbers."""
    if table.left_out:
        yield DataFinding("left out", (), f"left out: {listed(table.left_out)}", warns=False)
    names = (*(table.names or ()), *([table.target] if table.target else []))
    if twice := doubled(names):
        yield DataFinding("header", tuple(twice), "names that two columns have", "give each a name of its own")
    if numbers := tuple(name for name in names if number(name) is not None):
        yield DataFinding("header", numbers, "names that are numbers", "if the first line is data, say --header no")


def _about_target(table: DataTable) -> Iterator[DataFinding]:
    """Yield DataFindings on the labels: how many are missing, how often each occurs, or their range if many."""
    if table.y is None:
        return
    name = "the target" if table.target is None else f"the target {table.target}"
    n_missing = int(np.count_nonzero(table.missing_labels))
    if n_missing:
        line = table.line(int(np.argmax(table.missing_labels)))
        said = f"{name} is missing in {n_missing:,} row{'s' if n_missing > 1 else ''}, first in line {line}"
        yield DataFinding("missing", (), said, "take the rows out")
    labels, counts = np.unique(table.y[~table.missing_labels], return_counts=True)
    if len(labels) > _CLASSES:
        text = table.y.dtype.kind != "f"
        extent = "texts" if text else f"numbers from {labels[0]:g} to {labels[-1]:g}"
        yield DataFinding("labels", (), f"{name} holds {len(labels):,} distinct {extent}", warns=text)
    elif len(labels):
        shown = [
            f"{label if isinstance(label, str) else plain_number(label)} ({times:,} row{'s' if times > 1 else ''})"
            for label, times in zip(labels.tolist(), counts.tolist(), strict=True)
        ]
        alone = len(labels) == 1
        said = f"has one label only, {shown[0]}; a model needs two" if alone else f"has the labels {', '.join(shown)}"
        yield DataFinding("labels", (), f"{name} {said}", warns=alone)
