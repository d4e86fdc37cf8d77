"""Charts as SVG whose text has the same size on every screen: places are percents of the width, sizes are pixels.

A chart's SVG is its plotting area alone; labels hang over its edges into the margins that the style sheet leaves.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.page.axes import ticks
from glmesh.page.words import AWAY, DONE, UNKNOWN, number, ten
from glmesh.types import Vector

HEIGHT = 190  # [px] of the plotting area
NETWORK = 340, 230  # [px] width and height of a network
RADIUS = 78  # [px] of the circle on which its members are
SHORT = 2  # [characters] of a name that fits into a member's circle
LABEL = 15  # [px] between two labels at the ends of lines
ROOM = 0.1  # share of the height below the goal, for its word
COLOURS = 7  # that the style sheet has for lines
LONGEST = 11  # [characters] of a label at the end of a line, which has to fit into the margin
ALIKE = 0.02  # share of width or height below which two lines cannot be told apart

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A named line of a chart, in pieces: between two of them nothing is known, as while a site was away."""

    name: str
    pieces: tuple[tuple[Point, ...], ...]
    colour: int = 0

    @property
    def points(self) -> list[Point]:
        """Return the points (x, y) of all pieces, in order."""
        return [point for piece in self.pieces for point in piece]


@dataclass(frozen=True)
class Upright:
    """What the vertical axis of a chart is like: its scale, a value that is aimed at, and how values are told."""

    logarithmic: bool = False
    goal: float = 0.0  # drawn as a broken line; 0: there is none
    told: Callable[[float], str] = number  # makes text of a value


def text(value: object) -> str:
    """Return a value as text in which the characters that HTML gives a meaning are escaped."""
    return html.escape(str(value))


def merged(lines: Sequence[Line], axes: Axes) -> list[Line]:
    """Return the lines, with those that cannot be told apart on the axes made one, which has all their names."""
    groups: list[list[Line]] = []
    for line in lines:
        for group in groups:
            if _alike(group[0], line, axes):
                group.append(line)
                break
        else:
            groups.append([line])
    out = []
    for group in groups:
        longest = max(group, key=lambda one: one.points[-1][0] - one.points[0][0])
        out.append(Line(", ".join(one.name for one in group), longest.pieces, group[0].colour))
    return out


def _alike(one: Line, other: Line, axes: Axes) -> bool:
    """Return whether two lines lie on each other: the same ends and, wherever either has a point, the same height."""
    (x1, y1), (x2, y2) = (_places(line, axes) for line in (one, other))
    if len(one.pieces) != len(other.pieces) or abs(x1[0] - x2[0]) > ALIKE * 100 or abs(x1[-1] - x2[-1]) > ALIKE * 100:
        return False
    at = np.concatenate([x1, x2])
    return bool(np.abs(np.interp(at, x1, y1) - np.interp(at, x2, y2)).max() <= ALIKE * HEIGHT)


def _places(line: Line, axes: Axes) -> tuple[Vector, Vector]:
    """Return (percents from the left, pixels from the top) of a line's points."""
    return np.array([axes.across(x) for x, _ in line.points]), np.array([axes.down(y) for _, y in line.points])


@dataclass(frozen=True)
class Axes:
    """The ranges of a chart; of a logarithmic one the vertical range is in powers of ten."""

    left: float
    right: float
    low: float
    high: float
    floor: float | None  # power of ten that stands for 0; None: there is no 0
    logarithmic: bool

    @staticmethod
    def of(lines: Sequence[Line], upright: Upright, start: float | None) -> Axes:
        """Return the axes on which all points of the lines and the goal can be seen; they begin at `start` if given."""
        xs = [x for line in lines for x, _ in line.points]
        ys = [y for line in lines for _, y in line.points]
        left = min(xs) if start is None else start
        furthest = max([*xs, left])
        right = furthest if furthest > left else left + 1.0
        if not upright.logarithmic:
            return Axes(left, right, 0.0, max([*ys, 0.0]) or 1.0, None, logarithmic=False)
        low, high = _powers([*ys, upright.goal], upright.goal)
        floor = low - 1.0 if any(y == 0 for y in ys) else None
        return Axes(left, right, low if floor is None else floor, max(high, low + 1.0), floor, logarithmic=True)

    def across(self, x: float) -> float:
        """Return the percent of the width at which x lies."""
        return 100.0 * (x - self.left) / (self.right - self.left)

    def down(self, y: float) -> float:
        """Return the pixels from the top at which y lies."""
        if self.logarithmic:
            y = math.log10(y) if y > 0 else self.low
        return HEIGHT * (self.high - y) / (self.high - self.low)

    def levels(self, told: Callable[[float], str]) -> list[tuple[float, str]]:
        """Return (pixels from the top, label) of the marks of the vertical axis."""
        if not self.logarithmic:
            return [(self.down(y), told(y)) for y in ticks(self.low, self.high, parts=4)]
        marks = [y for y in ticks(self.low, self.high, whole=True, parts=4) if y != self.floor]
        at = [(HEIGHT * (self.high - y) / (self.high - self.low), ten(round(y))) for y in marks]
        return at if self.floor is None else [*at, (float(HEIGHT), "0")]


def _powers(values: Sequence[float], goal: float) -> tuple[int, int]:
    """Return the whole powers of ten (low, high) between which all positive `values` lie; (0, 0) if none is positive.

    A `goal` > 0 that is close to the lower end has room for its word below.
    """
    logs = [math.log10(value) for value in values if value > 0] or [0.0]
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    if goal > 0 and math.log10(goal) < low + ROOM * (high - low):
        low = math.floor(math.log10(goal) - ROOM * (high - low))
    return low, high


def chart(
    lines: Sequence[Line], across: str, label: str, upright: Upright = Upright(), *, start: float | None = None
) -> str:
    """Return a chart as HTML, or "" if the lines have no point.

    `across` names the horizontal axis, which begins at `start` (None: at the first point); `label` says what is drawn,
    for readers that do not see it; `upright` is the vertical axis. Lines that cannot be told apart are drawn as
    one; each line has its name and its last value at its end.
    """
    given = [line for line in lines if line.points]
    if not given:
        return ""
    axes, goal = Axes.of(given, upright, start), upright.goal
    drawn = merged(given, axes)
    out = [f"<div class='chart'><svg width='100%' height='{HEIGHT}' role='img' aria-label='{text(label)}'>"]
    for y, words in axes.levels(upright.told):
        out.append(f"<line class='grid' x1='0' x2='100%' y1='{y:.1f}' y2='{y:.1f}'/>")
        out.append(f"<text x='-6' y='{y + 4:.1f}' text-anchor='end'>{text(words)}</text>")
    for x in ticks(axes.left, axes.right, whole=across.endswith("s") and axes.right - axes.left >= 4, parts=4):
        out.append(f"<text x='{axes.across(x):.2f}%' y='{HEIGHT + 17}' text-anchor='middle'>{x:,g}</text>")
    out.append(f"<text class='quiet' x='100%' y='{HEIGHT + 34}' text-anchor='end'>{text(across)}</text>")
    if goal > 0:
        y = axes.down(goal)
        out.append(f"<line class='goal' x1='0' x2='100%' y1='{y:.1f}' y2='{y:.1f}'/>")
        out.append(f"<text class='goal' x='4' y='{y + 15:.1f}'>goal {text(number(goal))}</text>")
    out.append(f"<svg viewBox='0 0 100 {HEIGHT}' preserveAspectRatio='none' width='100%' height='{HEIGHT}'>")
    for line in drawn:
        for piece in line.pieces:
            places = " ".join(f"{axes.across(x):.2f},{axes.down(y):.1f}" for x, y in piece)
            out.append(f"<polyline class='c{line.colour % COLOURS}' points='{places}'/>")
    out.append("</svg>")
    out += _ends(drawn, axes, upright.told)
    return "".join(out) + "</svg></div>"


def _ends(lines: Sequence[Line], axes: Axes, told: Callable[[float], str]) -> list[str]:
    """Return the marks at the ends of lines, and beside them names and values, which do not cover each other."""
    ordered = sorted(lines, key=lambda line: axes.down(line.points[-1][1]))
    out, lowest = [], -math.inf
    room = LABEL * 2 if len(ordered) > 1 else LABEL
    bottom = HEIGHT - room * (len(ordered) - 1)
    for place, line in enumerate(ordered):
        x, y = line.points[-1]
        at, colour = axes.down(y), f"c{line.colour % COLOURS}"
        lowest = max(lowest + room, min(at, bottom + room * place))
        several = line.name.count(", ") + 1
        name = line.name if len(line.name) <= LONGEST else f"{several} sites" if several > 1 else line.name[:LONGEST]
        across = f"{axes.across(x):.2f}%"
        out.append(f"<circle class='{colour} end' cx='{across}' cy='{at:.1f}' r='4'><title>{text(line.name)}</title>")
        out.append(f"</circle><text class='{colour} name' x='{across}' dx='9' y='{lowest + 1:.1f}'>{text(name)}</text>")
        out.append(f"<text x='{across}' dx='9' y='{lowest + 15:.1f}'>{text(told(y))}</text>")
    return out


def strip(spans: Sequence[tuple[float, float, str, str]], marks: Sequence[tuple[float, str]]) -> str:
    """Return one lane as SVG: `spans` are (begin, end, presence, words) and `marks` (place, words), in percents."""
    out = ["<svg width='100%' height='22' role='img'>"]
    for begin, end, presence, words in spans:
        width = max(end - begin, 0.4)
        title = f"<title>{text(words)}</title>"
        kind, x = presence, f"x='{begin:.2f}%'"
        if presence == AWAY:
            out.append(f"<line class='away' x1='{begin:.2f}%' x2='{end:.2f}%' y1='11' y2='11'>{title}</line>")
        else:
            out.append(f"<rect class='{kind}' {x} width='{width:.2f}%' y='4' height='14' rx='3'>{title}</rect>")
    for place, words in marks:
        out.append(f"<line class='mark' x1='{place:.2f}%' x2='{place:.2f}%' y1='0' y2='22'>")
        out.append(f"<title>{text(words)}</title></line>")
    return "".join(out) + "</svg>"


def network(members: Sequence[str], presence: dict[str, str], links: Sequence[tuple[str, str, bool]]) -> str:
    """Return the network as SVG: members on a circle, filled if they are here, hollow and broken if they are away.

    `links` are (name, name, whether the link is up).
    """
    width, height = NETWORK
    around = {
        name: (
            width / 2 + 1.25 * RADIUS * math.sin(2 * math.pi * k / len(members)),
            height / 2 - 4 - RADIUS * math.cos(2 * math.pi * k / len(members)),
        )
        for k, name in enumerate(members)
    }
    away = [name for name in members if presence.get(name) == AWAY]
    told = f"network of {len(members)} sites" + (f", {', '.join(away)} away" if away else ", all are here")
    out = [f"<svg class='network' viewBox='0 0 {width} {height}' role='img' aria-label='{text(told)}'>"]
    for one, other, up in links:
        if one in around and other in around:
            (x1, y1), (x2, y2) = around[one], around[other]
            kind = "link" if up else "link away"
            out.append(f"<line class='{kind}' x1='{x1:.0f}' y1='{y1:.0f}' x2='{x2:.0f}' y2='{y2:.0f}'/>")
    short = all(len(name) <= SHORT for name in members)
    few = len(members) <= (16 if short else 12)
    for name, (x, y) in around.items():
        kind = presence.get(name, UNKNOWN)
        out.append(f"<circle class='site {kind}' cx='{x:.0f}' cy='{y:.0f}' r='{13 if few else 7}'>")
        out.append(f"<title>{text(name)}: {kind}</title></circle>")
        if few:
            out += _name(name, x, y, "" if short else {DONE: "✓", UNKNOWN: "?"}.get(kind, ""), short)
    return "".join(out) + "</svg>"


def _name(name: str, x: float, y: float, sign: str, short: bool) -> list[str]:
    """Return the name of a member, whose circle is at (x, y): in the circle if it is short, else beside it.

    In the circle is then the `sign` of the member's state.
    """
    said = text(name) if short else sign
    inside = f"<text class='inside' x='{x:.0f}' y='{y + 5:.0f}' text-anchor='middle'>{said}</text>"
    if short:
        return [inside]
    at = y + 30 if y > NETWORK[1] / 2 - 3 else y - 19
    return [inside, f"<text x='{x:.0f}' y='{at:.0f}' text-anchor='middle'>{text(name[:16])}</text>"]
