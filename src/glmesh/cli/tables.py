"""Tables for a terminal: aligned columns, long cells in several lines, some rows emphasised."""

import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

WIDEST = 120  # [characters] of a line, because longer ones are hard to follow
LEAST = 24  # [characters] of a column whose cells are broken into lines


def text_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    strong: Sequence[bool] = (),
    *,
    left: Sequence[int] = (0,),
    stream: TextIO | None = None,
) -> str:
    """Return a table as text no wider than the terminal, if its columns numbered `left` can be broken into lines.

    Columns numbered `left` begin at the left and are broken into lines, the others end at the right. Rows that are
    `strong` are bold where `stream` (default stdout) is a terminal, and begin with "*" elsewhere.
    """
    bold = (sys.stdout if stream is None else stream).isatty()
    flags = list(strong) or [False] * len(rows)
    widths = _fitting([max(map(len, column)) for column in zip(header, *rows, strict=True)], left)
    lines = ["  " + _line(header, widths, left), "  " + "  ".join("-" * width for width in widths)]
    for row, flag in zip(rows, flags, strict=True):
        for k, text in enumerate(_row_lines(row, widths, left)):
            mark = "* " if flag and not bold and k == 0 else "  "
            lines.append(f"{mark}\x1b[1m{text}\x1b[0m" if flag and bold else mark + text)
    return "\n".join(line.rstrip() for line in lines)


def _fitting(widths: list[int], left: Sequence[int]) -> list[int]:
    """Return the widths of columns in a table no wider than the terminal; those numbered `left` may be narrower."""
    spare = min(shutil.get_terminal_size((100, 24)).columns - 1, WIDEST) - 2 - 2 * (len(widths) - 1)
    fixed = sum(width for k, width in enumerate(widths) if k not in left)
    widest = max((cap for cap in range(LEAST, WIDEST) if _total(widths, left, cap) <= spare - fixed), default=LEAST)
    return [min(width, widest) if k in left else width for k, width in enumerate(widths)]


def _row_lines(row: Sequence[str], widths: Sequence[int], left: Sequence[int]) -> list[str]:
    """Return the lines of a row, whose cells are broken where they are wider than their column."""
    cells = [textwrap.wrap(cell, width) or [""] for cell, width in zip(row, widths, strict=True)]
    return [
        _line([cell[k] if k < len(cell) else "" for cell in cells], widths, left) for k in range(max(map(len, cells)))
    ]


def _total(widths: Sequence[int], left: Sequence[int], cap: int) -> int:
    """Return the sum of the widths of the columns numbered `left`, none of which is wider than `cap`."""
    return sum(min(widths[k], cap) for k in left)


def _line(cells: Sequence[str], widths: Sequence[int], left: Sequence[int]) -> str:
    """Return cells as one line of columns with these widths; those numbered `left` begin at the left."""
    each = zip(cells, widths, strict=True)
    return "  ".join(f"{cell:<{width}}" if k in left else f"{cell:>{width}}" for k, (cell, width) in enumerate(each))
