"""Small pictures for a terminal, made of braille dots or, with `ascii=True`, of plain characters."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil, floor
from typing import NamedTuple

import networkx as nx
import numpy as np

from glmesh.types import Vector

_BRAILLE = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # the bit of each dot in a character
_MARGIN = 8  # [columns] left of the axis, for "1.5e-04 "
_NUMBERED = 40  # [nodes] numbers of more than this run into each other

Dot = tuple[int, int]


def curve(
    xs: Sequence[float] | Vector,
    ys: Sequence[float] | Vector,
    *,
    width: int = 64,
    height: int = 12,
    title: str = "",
    xlabel: str = "",
    ascii: bool = False,
    goal: float | None = None,
) -> str:
    """Return a text that draws y against x with y on a log scale, without what is negative or not finite.

    A y of 0 lies at the floor, a decade below all else, and is marked 0; the end of the curve is marked too.

    Parameters
    ----------
    xs, ys : sequence of float
        Points, joined in order; equally many.
    width, height : int, default 64 and 12
        Characters of a line, with its labels, and lines of the curve.
    title : str, default ""
        A line above.
    xlabel : str, default ""
        A word below the axis, where there is room.
    ascii : bool, default False
        Whether to draw with plain characters instead of braille dots.
    goal : float, optional
        A y that is aimed at: drawn as a broken line that begins with "goal"; default: none.

    Returns
    -------
    str
        Lines without a newline at the end.

    Examples
    --------
    >>> from glmesh import plot
    >>> print(plot.curve([0, 10, 20], [1.0, 0.1, 0.01], width=30, height=5, ascii=True))
      1e+00 +...
            |   .....
            |        .....
            |             .....
      1e-02 +                  ..o
            +---------------------
             0                  20
    """
    x, y = np.asarray(xs, dtype=np.float64), np.asarray(ys, dtype=np.float64)
    keep = np.isfinite(x) & np.isfinite(y) & (y >= 0)
    if not keep.any():
        return "\n".join(filter(None, (title, "(nothing to draw)")))
    x, y = x[keep], y[keep]
    aims = [goal] if goal is not None and 0 < goal < np.inf else []
    scale = _LogScale.of(y, aims)
    across = (x - x.min()) / (np.ptp(x) or 1.0)
    canvas = _Canvas(max(width - _MARGIN - 1, 1), height, ascii)
    dots = [canvas.dot(a, b) for a, b in zip(across, scale.up(scale.logs(y)), strict=True)]
    for aim in np.log10(aims):
        canvas.rule(canvas.line(scale.up(aim)), "goal")
    canvas.lines(pairwise(dots[:1] + dots))
    canvas.write(dots[-1], "o" if ascii else "●")
    labels = {canvas.line(scale.up(at)): label for at, label in scale.marks(height)}
    tick, rule, corner, dash = "+|+-" if ascii else "┤│└─"
    lines = [f"{title:^{width}}"] if title else []
    for i, row in enumerate(canvas.rows()):
        lines.append(f"{labels.get(i, ''):>{_MARGIN - 1}} {tick if i in labels else rule}{row}")
    first, last = f"{x.min():.6g}", f"{x.max():.6g}"
    spare = canvas.width - len(first) - len(last)
    middle = f"{xlabel if len(xlabel) <= spare - 2 else '':^{max(spare, 1)}}"
    lines += [" " * _MARGIN + corner + dash * canvas.width, " " * (_MARGIN + 1) + first + middle + last]
    return "\n".join(line.rstrip() for line in lines)


def graph(nx_graph: nx.Graph, *, width: int = 40, height: int = 18, ascii: bool = False) -> str:
    """Return a text that draws a network on a circle, its nodes numbered in order from the top and clockwise.

    Parameters
    ----------
    nx_graph : networkx.Graph
        The network.
    width, height : int, default 40 and 18
        Characters of a line, and lines.
    ascii : bool, default False
        Whether to draw with plain characters instead of braille dots.

    Returns
    -------
    str
        Lines without a newline at the end; "(no nodes)" for an empty network.

    Examples
    --------
    >>> from glmesh import plot, topology
    >>> print(plot.graph(topology.build("ring", 4), width=9, height=5, ascii=True))
       .0.
      .   .
    3.     .1
      .   .
       .2.
    """
    nodes = list(nx_graph)
    if not nodes:
        return "(no nodes)"
    canvas = _Canvas(width, height, ascii)
    angles = 2 * np.pi * np.arange(len(nodes)) / len(nodes)
    dots = {
        node: canvas.dot(0.5 + 0.5 * np.sin(angle), 0.5 + 0.5 * np.cos(angle))
        for node, angle in zip(nodes, angles, strict=True)
    }
    canvas.lines((dots[a], dots[b]) for a, b in nx_graph.edges())
    for i, dot in enumerate(dots.values()):
        canvas.write(dot, str(i) if len(nodes) <= _NUMBERED else "o" if ascii else "●")
    return "\n".join(row.rstrip() for row in canvas.rows())


class _LogScale(NamedTuple):
    """A log axis that goes from 10^low up to 10^high; if `zero`, the value 0 is drawn at its lower end."""

    low: float  # exponent of ten at the lower end
    high: float  # exponent of ten at the upper end
    zero: bool  # whether 0 is drawn, at the lower end

    @staticmethod
    def of(y: Vector, aims: list[float]) -> "_LogScale":
        """Return the axis that spans all values y >= 0, array of shape (m,), and all `aims` > 0.

        Zeros among y lie a decade below all else.
        """
        spans = np.log10([*y[y > 0], *aims] or [1e-16]).clip(-99, 99)  # labels reach no further
        zero = bool((y == 0).any())
        low, high = float(np.floor(spans.min())) - 1 if zero else float(spans.min()), float(spans.max())
        return _LogScale(low, high, zero) if high - low >= 1e-6 else _LogScale(low - 0.5, high + 0.5, zero)

    def logs(self, y: Vector) -> Vector:
        """Return log10(y), in the shape of y, clipped to [-99, 99]; the lower end of the axis where y is 0."""
        return np.where(y > 0, np.log10(np.where(y > 0, y, 1.0)).clip(-99, 99), self.low)

    def up(self, exponents: Vector | float) -> Vector:
        """Return how far up the axis the values 10^exponents are: 0 at its lower end, 1 at the upper one."""
        return (np.asarray(exponents, dtype=np.float64) - self.low) / (self.high - self.low)

    def marks(self, height: int) -> list[tuple[float, str]]:
        """Return [(exponent of ten, label)] of the marks on this axis when it is drawn over `height` lines.

        Marks are at decades, at most one in two lines of characters; an axis with fewer than two decades has its ends
        and its middle marked.
        """
        first, last = ceil(self.low), floor(self.high)
        step = max(ceil(2 * (last - first + 1) / height), 1)
        decades = [decade for decade in range(first, last + 1) if decade % step == 0]
        marks: list[tuple[float, str]] = [(decade, f"1e{decade:+03d}") for decade in decades]
        if len(decades) < 2:
            marks = [(at, f"{10.0**at:.1e}") for at in (self.low, (self.low + self.high) / 2, self.high)]
        return [*marks, (self.low, "0")] if self.zero else marks


class _Canvas:
    """A drawing area of `height` lines of `width` characters: 4 × 2 dots in each (braille), or one (ascii).

    A dot is (row from the top, column from the left), two integers.
    """

    def __init__(self, width: int, height: int, ascii: bool) -> None:
        self.width, self._height, self._ascii = width, height, ascii
        self._bits = np.array([[1]]) if ascii else _BRAILLE
        self._dots = np.zeros((height * self._bits.shape[0], width * self._bits.shape[1]), dtype=bool)
        self._text: dict[tuple[int, int], str] = {}
        self._below: dict[tuple[int, int], str] = {}  # shown where there is no dot

    def dot(self, x: float, y: float) -> Dot:
        """Return the dot (row from the top, column from the left) at the point (x, y) of the unit square, y upwards."""
        rows, columns = self._dots.shape
        return round((1 - y) * (rows - 1)), round(x * (columns - 1))

    def cell(self, dot: Dot) -> tuple[int, int]:
        """Return (line, column) of the character that holds a dot; a dot is (row, column) on the grid of dots."""
        return dot[0] // self._bits.shape[0], dot[1] // self._bits.shape[1]

    def line(self, y: Vector) -> int:
        """Return the number of the line of characters, counted from the top, that holds the height y, in [0, 1]."""
        return self.cell(self.dot(0, float(y)))[0]

    def lines(self, segments: Iterable[tuple[Dot, Dot]]) -> None:
        """Set the dots of straight lines; each segment is a pair of dots (row, column), the ends of a line."""
        for (top, left), (bottom, right) in set(segments):
            n = max(abs(top - bottom), abs(left - right)) + 1
            down, across = np.linspace(top, bottom, n), np.linspace(left, right, n)
            self._dots[down.round().astype(int), across.round().astype(int)] = True

    def rule(self, line: int, word: str) -> None:
        """Draw a broken horizontal line through line `line` of characters, with `word` at its left end.

        It shows only where the canvas has no dots.
        """
        self._below |= {(line, column): "-" if self._ascii else "╌" for column in range(0, self.width, 2)}
        self._below |= {(line, i): sign for i, sign in enumerate(f"{word} "[: self.width])}

    def write(self, dot: Dot, text: str) -> None:
        """Put text over the dots, beginning at the character of `dot`, (row, column) on the grid of dots.

        Text that would stick out is moved inside the canvas.
        """
        line, column = self.cell(dot)
        column = max(min(column, self.width - len(text)), 0)
        self._text |= {(line, column + i): sign for i, sign in enumerate(text)}

    def rows(self) -> list[str]:
        """Return the lines of the canvas as texts of `width` characters each."""
        down, across = self._bits.shape
        cells = self._dots.reshape(self._height, down, self.width, across)
        codes = np.einsum("idja,da->ij", cells, self._bits)
        glyphs = np.where(codes == 0, " ", "." if self._ascii else (codes + 0x2800).astype(np.uint32).view("U1"))
        for place, sign in self._below.items():
            glyphs[place] = sign if codes[place] == 0 else glyphs[place]
        for place, sign in self._text.items():
            glyphs[place] = sign
        return ["".join(line) for line in glyphs]
