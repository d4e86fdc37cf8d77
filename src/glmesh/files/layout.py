"""How a table of text is laid out: encoding, delimiter, decimal mark and header, found out from its first lines."""

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glmesh.errors import InvalidInput, UnreadableFile
from glmesh.files.columns import TRUTH, ColumnReader, clean, number
from glmesh.files.streams import opened, opened_text, refuse_foreign
from glmesh.validation import one_of

_SAMPLE = 1 << 18  # [characters] of the file that are looked at
_DELIMITERS = ("\t", ";", "|", ",")  # in the order of preference where several would do: a comma may be a decimal mark
_FRACTION = re.compile(r"\s*[+-]?\d*([.,])\d+([eE][+-]?\d+)?\s*")
_SPOKEN = {"\t": "tab", " ": "space", ",": "comma", ";": "semicolon", "|": "|"}


@dataclass(frozen=True)
class TextLayout:
    """How a table of text is written, found from its first lines: encoding, delimiter, decimal mark, header, kinds.

    `names` are those of the columns, None without a header; `width` is the number of columns; `first_line` is the line
    of the file where the rows begin; `kinds` are "number", "boolean" or "text".
    """

    encoding: str
    delimiter: str
    decimal: str  # "." or ","; empty: no number with a fraction was seen
    names: tuple[str, ...] | None  # of the columns, empty for one without a name; None: there is no header
    width: int  # [columns] of the table; what stands behind them in a line must be empty
    first_line: int  # line of the file where the rows begin
    kinds: tuple[str, ...]  # of the columns, as far as the first lines tell: "number", "boolean" or "text"
    quotes: int  # quotes in the lines above the rows

    def __str__(self) -> str:
        mark = {"": "", ".": ", decimal point", ",": ", decimal comma"}[self.decimal]
        header = f"names in line {self.first_line - 1}" if self.names else "no header"
        encoding = self.encoding.removesuffix("-sig").upper()
        return f"{encoding} text, delimiter {_SPOKEN.get(self.delimiter, self.delimiter)}{mark}, {header}"


def look(path: Path, tab: bool, header: str, encoding: str, missing: frozenset[str]) -> TextLayout:
    """Return the layout of a table of text, found from its first lines; raise UnreadableFile where they do not tell it.

    `tab` is the delimiter of a .tsv; other files may have a comma, semicolon, tab or "|", and a space if no other is
    there. `header` is "yes", "no", or "auto": a first line with text is a header, one of numbers is none. `encoding` is
    used where the file has no byte order mark; `missing` are the cells that stand for missing values.
    """
    refuse_foreign(path, "a table of text")
    encoding = _encoding(path, encoding)
    with opened_text(path, encoding) as text:
        sample = text.read(_SAMPLE)
        whole = not text.read(1)
    if "\0" in sample:
        raise UnreadableFile(
            f"{path}: holds zero bytes, expected text; if a Windows program wrote it as 'Unicode text', say --encoding "
            "utf-16-le"
        )
    every = io.StringIO(sample, newline="").readlines()
    offset, delimiter = _separator_line(sample)
    if offset:
        sample = re.split("\r\n|\r|\n", sample, maxsplit=1)[-1]
    sample = sample.removeprefix("# ")  # as NumPy begins a header
    try:
        delimiter = "\t" if tab else delimiter or _delimiter(sample, whole)
        lines = _rows(sample, delimiter, whole, offset, strict=whole)
    except csv.Error as error:
        raise UnreadableFile(f"{path}, line {error.args[1]}: {error.args[0]}; expected plain or quoted cells") from None
    if not lines:
        raise no_samples(path)
    cells = [row for _, _, row in lines]
    decimal = "." if delimiter == "," else _decimal(cells)
    named = _has_header(f"{path}, line {lines[0][0]}", cells, header, decimal, missing)
    names, width = _names(cells) if named else (None, max(map(_filled, cells)))
    first_line = lines[0][1] + 1 if named else lines[0][0]
    kinds = []
    for k in range(width):
        reader = ColumnReader(missing, decimal, False)
        reader.extend([row[k] for row in cells[named:] if k < len(row)])
        kinds.append(reader.finish().kind)
    return TextLayout(
        encoding,
        delimiter,
        decimal,
        names,
        width,
        first_line,
        tuple(kinds),
        "".join(every[: first_line - 1]).count('"'),
    )


def no_samples(path: Path) -> UnreadableFile:
    """Return the UnreadableFile to be raised for a data file without a sample."""
    return UnreadableFile(f"{path}: holds no samples, expected at least one; was it written to its end?")


def _encoding(path: Path, encoding: str) -> str:
    """Return the name of the codec that reads a file: what its byte order mark says, else `encoding`."""
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise InvalidInput(f"encoding {encoding!r} is unknown; utf-8, latin-1, cp1252 and utf-16 are usual") from None
    with opened(path) as stream:
        head = stream.read(4)
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return name


def _separator_line(sample: str) -> tuple[int, str]:
    """Return (lines to skip, delimiter) of Excel's first line "sep=;"; (0, "") without such a line.

    `sample` is the beginning of the file's text.
    """
    found = re.match(r'"?sep=(.)"?(\r\n|\r|\n)', sample, re.IGNORECASE)
    return (1, found[1]) if found else (0, "")


def _rows(
    sample: str, delimiter: str, whole: bool, offset: int = 0, strict: bool = False
) -> list[tuple[int, int, list[str]]]:
    """Return (first line, last line, cells) of each row that is not blank in the text `sample`, the start of a file.

    Lines are counted from 1, plus `offset`. The last row may be cut off unless the sample is the `whole` file, and is
    then left out. If `strict`, csv.Error has (what is wrong, line where the row begins). `delimiter` separates cells.
    """
    out, start = [], offset + 1
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, strict=strict)
    try:
        for row in reader:
            if "".join(row).strip():
                out.append((start, offset + reader.line_num, row))
            start = offset + reader.line_num + 1
    except csv.Error as error:
        raise csv.Error(str(error), start) from None
    return out if whole or len(out) < 2 else out[:-1]


def _delimiter(sample: str, whole: bool) -> str:
    """Return the delimiter by which all lines of the text `sample` have the same number of cells, 2 or more.

    `whole`: the sample is all of the file. Lines below the first may have one cell more: R names rows without naming
    their column. If no delimiter fits, the one with the most cells in the first line is returned, so that the line that
    breaks the rule can be named.
    """
    counts = {one: [len(row) for _, _, row in _rows(sample, one, whole)] for one in (*_DELIMITERS, " ")}
    for one, (first, *below) in ((one, found or [0]) for one, found in counts.items()):
        if first > 1 and (set(below) <= {first} or set(below) == {first + 1}):
            return one
    return max(reversed(_DELIMITERS), key=lambda one: counts[one][:1])


def _decimal(cells: Sequence[Sequence[str]]) -> str:
    """Return the mark before most fractions, "." or ",", in rows of cells of a table; "" if there are none.

    The delimiter of the table is no comma.
    """
    marks = [found[1] for row in cells for cell in row if (found := _FRACTION.fullmatch(cell))]
    if not marks:
        return ""
    return "," if 2 * marks.count(",") > len(marks) else "."


def _has_header(where: str, cells: Sequence[Sequence[str]], header: str, decimal: str, missing: frozenset[str]) -> bool:
    """Return whether the first row of `cells` (rows of texts) is a header.

    `header` is "yes", "no" or "auto"; `decimal` is the mark before a fraction, `missing` are the cells that stand for
    missing values. Raise UnreadableFile, which names the file `where`, if the row may be header or data and `header` is
    "auto".
    """
    if one_of(header, "header", ("auto", "yes", "no")) != "auto":
        return header == "yes"
    first, *below = ([cell for cell in map(str.strip, row) if cell not in missing] for row in cells)
    if any(number(cell, decimal) is None and cell not in TRUTH for cell in first):
        return True
    if any(cell in TRUTH for cell in first):
        raise UnreadableFile(
            f"{where}: holds true, false and numbers only, which may be names of columns or data; say --header yes or "
            "--header no"
        )
    if _are_distinct_wholes(first) and any(_is_other(cell, decimal) for row in below for cell in row):
        raise UnreadableFile(
            f"{where}: holds whole numbers that are all distinct ({', '.join(first[:6])}"
            f"{', ...' if len(first) > 6 else ''}), and lines below hold others, so it may be names of columns or "
            "data; say --header yes (names) or --header no (data), or write names with letters"
        )
    return False


def _are_distinct_wholes(cells: Sequence[str]) -> bool:
    """Return whether there are cells, all of them whole numbers and no two equal, as names of columns may be."""
    return 0 < len(set(cells)) == len(cells) and all(re.fullmatch(r"[+-]?\d+", cell) for cell in cells)


def _is_other(cell: str, decimal: str) -> bool:
    """Return whether a cell is no whole number, or one that is written with a fraction, as 5.0.

    `decimal` is the mark before a fraction.
    """
    value = number(cell, decimal)
    return value is None or not value.is_integer() or (decimal or ".") in cell


def _names(cells: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], int]:
    """Return (names of the columns, number of columns) of a table with a header.

    A name is empty where the header's cell is; so is that of a first column of row names that R leaves out of the
    header.
    """
    names = [clean(cell) for cell in cells[0]]
    below = cells[1:]
    if below and all(len(row) == len(names) + 1 for row in below) and any(row[-1].strip() for row in below):
        names = ["", *names]
    width = max(_filled(names), max(map(_filled, below), default=0) if len(names) > _filled(names) else 0)
    return tuple(names[:width]), min(width, len(names))


def _filled(row: Sequence[str]) -> int:
    """Return the number of cells of a row up to the last that is not blank; 0 if all are."""
    return max((k for k, cell in enumerate(row, 1) if cell.strip()), default=0)
