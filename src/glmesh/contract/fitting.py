"""A table put in the order of a contract by name, or refused with what does not fit and what would do."""

import re
import unicodedata
from dataclasses import dataclass, replace
from difflib import get_close_matches

import numpy as np
from scipy.sparse import issparse

from glmesh.contract.contract import Contract, doubled
from glmesh.contract.table import DataTable, TextColumn
from glmesh.errors import Mismatch
from glmesh.types import Labels, Vector
from glmesh.validation import LARGEST

_LISTED = 12  # [names] that a message lists of a long list
_LIKE_NUMBER = re.compile(r"[^\w]*\d[\d\s.,_'\u2019\u066b\u066c]*[^\w]*|[^\w]*0x[\da-f.]+[^\w]*", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Fitted:
    """Result of `fit`: a DataTable with its columns in the order of a contract, and what was done to get there.

    `extra` names the columns that the contract does not have, and that are left out; `reordered` says whether columns
    changed their order. `labels` are the class labels, empty for a regression; where they are texts, y of the table
    holds the position of each row's label in `labels` as a float.
    """

    table: DataTable
    extra: tuple[str, ...]  # names of columns of the file that the contract does not have, and that are left out
    reordered: bool  # the file has the columns in another order
    labels: tuple[str | float, ...]  # of the classes; y holds their positions where they are texts

    @property
    def y(self) -> Vector:
        """Return the targets of the table, shape (m,), float64; shape (0,) where the table has no target."""
        return np.empty(0) if self.table.y is None else np.asarray(self.table.y, dtype=np.float64)

    def remarks(self) -> list[str]:
        """Return sentences for people: that columns were reordered, and which are not used; an empty list if none."""
        said = []
        if self.reordered:
            said.append(f"{self.table.where}: the columns stand in another order; they were put in order by name")
        if self.extra:
            said.append(f"{self.table.where}: columns that are not used: {listed(self.extra)}")
        return said


def fit(table: DataTable, contract: Contract) -> Fitted:
    """Return a Fitted: the table with its features in the order of the contract, and its targets y as numbers.

    Mismatch says which column, label or kind does not fit the contract, or where a value is missing or too large.
    """
    if contract.header and contract.target and table.target != contract.target:
        found = "its target has no name" if table.target is None else f"its target is {table.target!r}"
        raise Mismatch(
            f"{table.where}: {found}, the contract's is {contract.target!r}; name the column {contract.target!r}"
        )
    fitted = fit_features(table, contract)
    _refuse_missing(fitted.table)
    _refuse_large(fitted.table)
    y, labels = _labels(fitted.table, contract)
    return replace(fitted, table=replace(fitted.table, y=y), labels=labels)


def fit_features(table: DataTable, contract: Contract) -> Fitted:
    """Return a Fitted: the table with the contract's features, in the contract's order; the targets y are left unread.

    Mismatch lists the names of both sides where a column is missing or doubled, and says which columns hold text or
    another kind of values than the contract says.
    """
    if contract.split == "features":  # every site has columns of its own
        chosen = np.arange(table.X.shape[1])
    else:
        chosen = _by_name(table, contract) if contract.header else _by_position(table, contract)
    names = table.names if contract.split == "features" or not contract.header else contract.names
    ordered = table.take(chosen, names)
    _refuse_text(ordered)
    _refuse_kinds(ordered, contract)
    kept = set(ordered.columns)
    extra = tuple(name for name in table.columns if contract.split == "samples" and name not in kept)
    return Fitted(ordered, extra, bool((np.diff(chosen) < 0).any()), contract.labels)


def _by_position(table: DataTable, contract: Contract) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the positions 0, 1, ... of all columns of the table, for a contract whose columns have no names.

    Raise Mismatch if the table has names, or another number of columns than the contract.
    """
    if table.names is not None:
        raise Mismatch(
            f"{table.where}: has a header ({listed(table.names)}), but the others have none and go by position; "
            "give all files a header with the same names, or none"
        )
    if table.X.shape[1] != len(contract.columns):
        raise Mismatch(f"{table.where}: has {table.X.shape[1]} features, expected {len(contract.columns)}")
    return np.arange(table.X.shape[1])


def _by_name(table: DataTable, contract: Contract) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the position in the table of each column of the contract, in the order of the contract.

    Raise Mismatch if the table has no names, lacks a column of the contract, or has one of them twice.
    """
    if table.names is None:
        raise Mismatch(
            f"{table.where}: has no header, so its columns cannot be found by name; expected {listed(contract.names)}; "
            "give a table whose first line has the names"
        )
    twice = [name for name in doubled(table.names) if name in contract.names]
    if twice:
        raise Mismatch(f"{table.where}: has the column {twice[0]!r} twice; keep one of them")
    missing = [name for name in contract.names if name not in table.names]
    if missing:
        spare = [name for name in table.names if name not in contract.names]
        raise Mismatch(
            f"{table.where}: lacks the column{'s' if len(missing) > 1 else ''} {listed(missing)}"
            f"{nearest(missing, spare)}; expected {listed(contract.names)}; the file has {listed(table.names)}"
        )
    places = {name: k for k, name in enumerate(table.names)}
    return np.array([places[name] for name in contract.names], dtype=np.int64)


def nearest(missing: list[str], spare: list[str]) -> str:
    """Return " (is 'Age' meant to be 'age'? rename it)" if a name in `spare` resembles one in `missing`, else "".

    `missing` are names that a contract has and a table lacks, `spare` names that only the table has.
    """
    for name in missing:
        close = get_close_matches(name, spare, n=1, cutoff=0.75)
        same = [other for other in spare if other.casefold().strip() == name.casefold().strip()]
        if same or close:
            return f" (is {(same or close)[0]!r} meant to be {name!r}? rename it)"
    return ""


def _refuse_text(table: DataTable) -> None:
    """Raise Mismatch if a feature of the table holds text; the message names the columns."""
    held = list(table.texts)
    if held:
        raise Mismatch(
            f"{table.where}: {_columns(held)} text; write numbers instead (one "
            "0/1 column per level, the same levels in all files), or take the columns out",
            private=next((_first_text(one) for one in table.text_columns if one.name in held), ""),
        )


def _first_text(column: TextColumn) -> str:
    """Return a sentence with the line number and the text of the first cell of a column that is no number.

    Only the column's own site may see the sentence. If the cell resembles a number, it also says how to write numbers.
    """
    said = f"line {column.line} holds {column.cell!r}"
    if not _LIKE_NUMBER.fullmatch(column.cell):
        return said
    return (
        f"{said}; if that is a number, write it with the decimal mark of the whole file, without thousands "
        "separators, blanks or units"
    )


def _refuse_missing(table: DataTable) -> None:
    """Raise Mismatch if a feature or the target of the table lacks a value (NaN, or "" among texts).

    A sparse matrix of features is not checked.
    """
    holes = np.isnan(table.X) if isinstance(table.X, np.ndarray) else np.zeros((0, 0), dtype=np.bool_)
    names = [table.columns[k] for k in np.flatnonzero(holes.any(axis=0))]
    rows = np.flatnonzero(holes.any(axis=1)) if names else np.flatnonzero(table.missing_labels)
    if len(rows):
        one = holes.sum() == 1 if names else len(rows) == 1
        what = _columns(names) if names else f"the target {table.target or ''!r} has"
        raise Mismatch(
            f"{table.where}: {what} {'a missing value' if one else 'missing values'}; fill them in, or take the rows "
            f"{'or columns ' if names else ''}out",
            private=f"the first is in line {table.line(int(rows[0]))}",
        )


def _refuse_large(table: DataTable) -> None:
    """Raise Mismatch if a value of the features or of the target is infinite, or so large that its square is.

    A sparse matrix of features is not checked.
    """
    columns = [(name, table.column(k)) for k, name in enumerate(table.columns)] if not issparse(table.X) else []
    if table.y is not None and table.y.dtype.kind == "f":
        columns.append((table.target or "the target", np.asarray(table.y, dtype=np.float64)))
    for name, values in columns:
        wrong = np.abs(values) > LARGEST
        if wrong.any():
            row = int(np.argmax(wrong))
            raise Mismatch(
                f"{table.where}: {_columns([name])} a value that is not finite or whose square is not; mend it, take "
                "the row out, or write the column in another unit",
                private=f"line {table.line(row)} holds {values[row]:g}",
            )


def _refuse_kinds(table: DataTable, contract: Contract) -> None:
    """Raise Mismatch for a value other than 0 and 1 in a column that the contract calls boolean."""
    for k, column in enumerate(contract.columns):
        if column.kind == "boolean":
            values = table.column(k)
            wrong = ~(np.isnan(values) | (values == 0) | (values == 1))
            if wrong.any():
                line = table.line(int(np.argmax(wrong)))
                raise Mismatch(
                    f"{table.where}: column {column.name!r} must hold 0 and 1 only, and does not",
                    private=f"line {line} holds {values[np.argmax(wrong)]:g}",
                )


def _labels(table: DataTable, contract: Contract) -> tuple[Labels | None, tuple[str | float, ...]]:
    """Return (targets, class labels) of a table; targets are float64 of shape (m,), or None if the table has none.

    The class labels are a tuple of the contract's labels, empty for a regression. Targets that are texts are replaced
    by their positions in the contract's labels. Raise Mismatch for a label that the contract does not have.
    """
    if table.y is None:
        return None, contract.labels
    if not contract.labels:
        if table.y.dtype.kind != "f":
            raise Mismatch(f"{table.where}: the target {table.target or ''!r} holds text; a regression needs numbers")
        return table.y, ()
    found = table.labels
    other = [label for label in found if label not in contract.labels]
    if other:
        raise Mismatch(
            f"{table.where}: has the labels {spoken(found)}, expected {spoken(contract.labels)}; "
            "code the labels alike in all files"
        )
    if all(isinstance(label, float) for label in contract.labels):
        return table.y, contract.labels
    codes = {str(label): float(code) for code, label in enumerate(contract.labels)}
    return np.array([codes[str(label)] for label in table.y]), contract.labels


def _columns(names: tuple[str, ...] | list[str]) -> str:
    """Return the subject and verb of a message about the named columns: "column age has", or "columns age, bmi have".

    A table whose columns have no names gives positions, "0" or "1", as names: "column 0 has".
    """
    plain = [name.removeprefix("column ") for name in names]
    return f"column {plain[0]} has" if len(plain) == 1 else f"columns {listed(plain)} have"


def listed(names: tuple[str, ...] | list[str]) -> str:
    r"""Return names joined by commas, only the first ones where there are many: "age, bmi, ... (30 in all)".

    A name with a blank at an end, an invisible character or a decomposed accent is written as an ASCII literal:
    'age\u0301'.
    """
    said = ", ".join(_visible(name) for name in names[:_LISTED])
    return said if len(names) <= _LISTED else f"{said}, ... ({len(names)} in all)"


def _visible(name: str) -> str:
    """Return the name, or its quoted ASCII literal if it has a blank at an end, invisible or decomposed characters."""
    plain = name == name.strip() and name.isprintable() and unicodedata.is_normalized("NFC", name)
    return name if plain else ascii(name)


def spoken(labels: tuple[str | float, ...]) -> str:
    """Return class labels joined by commas, as a person writes them: "no, yes", or "0, 1" without decimal points."""
    return listed([label if isinstance(label, str) else plain_number(label) for label in labels])


def plain_number(value: float) -> str:
    """Return the shortest decimal text that float64 reads as `value`, without a final ".0": "0.3", and "1" for 1.0."""
    return repr(float(value)).removesuffix(".0")
