"""Columns of a table: cells of text become numbers, truth values, or are found to be text."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from glmesh.types import Indices, Vector

TRUTH = {
    form: value for word, value in (("true", 1.0), ("false", 0.0)) for form in (word, word.upper(), word.capitalize())
} | {"T": 1.0, "F": 0.0}
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})( .*)?")
_DATES_TRIED = 50  # [texts] of a column that must look like dates


@dataclass(frozen=True, eq=False)
class ColumnData:
    """One column of a data file, read: its m values as numbers, its kind, and its texts if it holds any.

    `values` has shape (m,), NaN where a cell is missing or text; `kind` is "number", "boolean" or "text"; `text` is
    (row, content) of the first cell that is no number, `levels` counts distinct texts, `cells` are the cells as
    written, or None.
    """

    values: Vector  # (m,) numbers, 1 and 0 for true and false; NaN where a cell is missing or text
    kind: str  # "number", "boolean" or "text"
    text: tuple[int, str] | None = None  # row and content of the first cell that is no number; None: there is none
    levels: int = 0  # distinct texts
    looks: str = ""  # what the texts look like: "dates", "names of rows" (all are distinct), or nothing of these
    cells: tuple[str, ...] | None = None  # the cells as written, "" where one is missing; None: they were not kept

    def spread(self, places: Indices) -> ColumnData:
        """Return a ColumnData whose row k is row places[k] of this one; each row of this one must occur in `places`."""
        text = self.text and (int(np.argmax(places == self.text[0])), self.text[1])
        once = len(places) == len(self.values)
        cells = None if self.cells is None else tuple(np.array(self.cells, dtype=object)[places])
        looks = "" if self.looks == _NAMES and not once else self.looks
        return replace(self, values=self.values[places], text=text, cells=cells, looks=looks)


_NAMES = "names of rows"


class ColumnReader:
    """Reads the cells of one column, some rows at a time; `finish` returns them as ColumnData."""

    def __init__(self, missing: frozenset[str], decimal: str, keep: bool) -> None:
        self._missing, self._comma = missing, decimal == ","
        self._values = array("d")
        self._numbers = 0  # cells that are numbers
        self._texts = 0  # cells that are neither numbers nor missing
        self._words: dict[str, int] = {}  # the distinct ones of these, and the row of each
        self._cells: list[str] | None = [] if keep else None

    def extend(self, cells: Sequence[str]) -> None:
        """Take in the cells, as written, of the next rows."""
        if self._cells is not None:
            self._cells += ["" if cell in self._missing else cell for cell in map(clean, cells)]
        whole = "\n".join(cells)
        if whole.isascii() and "_" not in whole and not self._comma:
            try:
                self._values.extend(array("d", map(float, cells)))
            except ValueError:
                pass
            else:
                self._numbers += len(cells)
                return
        for cell in cells:
            self._values.append(self._value(cell.strip()))

    def _value(self, cell: str) -> float:
        """Return the number in a cell, 1 or 0 for true or false, NaN for a missing value or another text."""
        if cell in self._missing:
            return np.nan
        if cell not in self._words:
            value = number(cell, "," if self._comma else ".")
            if value is not None:
                self._numbers += 1
                return value
            self._words[cell] = len(self._values)
        self._texts += 1
        return TRUTH.get(cell, np.nan)

    def finish(self) -> ColumnData:
        """Return the ColumnData of all cells so far.

        Its kind is "boolean" if all cells are true, false or missing. Of T and F both must occur: a column of F alone
        may be false, female or a grade.
        """
        values = np.asarray(self._values)
        cells = None if self._cells is None else tuple(self._cells)
        if not self._words:
            return ColumnData(values, "number", cells=cells)
        words = self._words.keys()
        row, word = next((row, word) for word, row in self._words.items())
        if not self._numbers and words <= TRUTH.keys() and len(words & {"T", "F"}) != 1:
            return ColumnData(values, "boolean", cells=cells)
        tried = list(words)[:_DATES_TRIED]
        looks = _NAMES if len(words) == self._texts > 1 and not self._numbers else ""
        looks = "dates" if all(map(_DATE.fullmatch, tried)) else looks
        return ColumnData(np.full(len(values), np.nan), "text", (row, word), len(words), looks, cells)


def clean(text: str) -> str:
    """Return a name or label without blanks around it, in Unicode's composed form (NFC).

    Some systems write an accented letter as one sign, others as a letter and its accent; both look alike.
    """
    return unicodedata.normalize("NFC", text.strip())


def number(cell: str, decimal: str = ".") -> float | None:
    """Return the number in a cell, None if the cell is no number.

    `decimal` ("." or ",") is the mark before the fraction.
    """
    if decimal == ",":
        cell = cell.replace(".", "_").replace(",", ".")
    if "_" in cell or not cell.isascii():  # Python reads 1_000 and digits of other scripts as numbers
        return None
    try:
        return float(cell)
    except ValueError:
        return None
