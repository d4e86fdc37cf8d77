"""A small curve of the relative gap as inline SVG, on a log scale whose floor stands for 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.types import Vector

WIDTH, HEIGHT = 300, 130  # [px] of the picture
LEFT, RIGHT, TOP, BOTTOM = 40, 46, 12, 22  # [px] margins for labels
SMALLEST, LARGEST = 1e-99, 1e99  # values beyond are drawn there


@dataclass(frozen=True, eq=False)
class Curve:
    """Relative gaps by communications, both of shape (n,); gaps that are negative or not finite are not drawn."""

    communications: Vector
    gaps: Vector

    @property
    def points(self) -> tuple[Vector, Vector]:
        """Return (communications, gaps) of the points that can be drawn."""
        across, up = np.asarray(self.communications, np.float64), np.asarray(self.gaps, np.float64)
        keep = np.isfinite(across) & np.isfinite(up) & (up >= 0)
        return across[keep], up[keep]


def svg(curves: Sequence[Curve], goal: float | None) -> str:
    """Return curves as one SVG element without script, style or id; "" if no curve has two points.

    A gap of 0 lies at the floor, a decade below all else, which is marked 0. `goal` is the relative gap that was aimed
    at, drawn as a broken line; None: there was none. The end of each curve is marked, of a single one with its value.
    """
    drawn = [(x, y) for x, y in (curve.points for curve in curves) if len(x) > 1]
    if not drawn:
        return ""
    scale = _Scale.of(drawn, goal if goal is not None and 0 < goal < math.inf else None)
    parts = [
        f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' role='img' font-size='10' "
        "fill='currentColor' style='max-width:100%;height:auto'>",
        "<title>relative duality gap by communications, on a log scale</title>",
        f"<path d='M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}' fill='none' stroke='currentColor' "
        "stroke-opacity='.4'/>",
    ]
    for exponent, label in scale.marks():
        parts.append(f"<text x='{LEFT - 4}' y='{scale.up(exponent) + 3:.1f}' text-anchor='end'>{label}</text>")
    if scale.goal is not None:
        y = scale.up(math.log10(scale.goal))
        parts.append(
            f"<path class='goal' d='M{LEFT} {y:.1f}H{WIDTH - RIGHT}' stroke='#2f9e5b' stroke-dasharray='4 3'/>"
            f"<text x='{LEFT + 3}' y='{y - 3:.1f}' fill='#2f9e5b'>goal {scale.goal:.0e}</text>"
        )
    for across, gaps in drawn:
        places = " ".join(
            f"{scale.across(a):.1f},{scale.up(b):.1f}" for a, b in zip(across, scale.logs(gaps), strict=True)
        )
        at, to = places.rpartition(" ")[2].split(",")
        parts.append(
            f"<polyline points='{places}' fill='none' stroke='#3b82c4' stroke-width='1.8'/>"
            f"<circle class='end' cx='{at}' cy='{to}' r='3' fill='#3b82c4'/>"
        )
    if len(drawn) == 1:
        last = float(drawn[0][1][-1])
        parts.append(f"<text x='{float(at) + 6:.1f}' y='{float(to) + 3:.1f}'>{f'{last:.0e}' if last else '0'}</text>")
    parts.append(
        f"<text x='{WIDTH - RIGHT}' y='{HEIGHT - 6}' text-anchor='end'>{scale.most:,.0f} communications</text></svg>"
    )
    return "".join(parts)


@dataclass(frozen=True)
class _Scale:
    """Axes of a picture: communications from `least` to `most`, exponents of ten from `low` to `high`."""

    least: float
    most: float
    low: float  # exponent of the floor
    high: float
    zero: bool  # whether the floor stands for 0
    goal: float | None

    @staticmethod
    def of(drawn: Sequence[tuple[Vector, Vector]], goal: float | None) -> _Scale:
        """Return the axes that show all points (communications, gaps) and the goal; None: there is no goal."""
        across, gaps = (np.concatenate([one[k] for one in drawn]) for k in (0, 1))
        logs = np.log10(np.append(gaps[gaps > 0], [goal / 2.0] if goal else []).clip(SMALLEST, LARGEST))
        low, high = (math.floor(logs.min()), math.ceil(logs.max())) if len(logs) else (-16, 0)
        zero = bool((gaps == 0).any())
        return _Scale(float(across.min()), float(across.max()), low - zero, max(high, low + 1), zero, goal)

    def across(self, x: float) -> float:
        """Return the pixels from the left of a number of communications."""
        return LEFT + (WIDTH - LEFT - RIGHT) * (x - self.least) / ((self.most - self.least) or 1.0)

    def up(self, exponent: float) -> float:
        """Return the pixels from the top of 10^exponent."""
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - exponent) / (self.high - self.low)

    def logs(self, gaps: Vector) -> Vector:
        """Return log10 of gaps >= 0; the floor for 0."""
        return np.where(gaps > 0, np.log10(np.where(gaps > 0, gaps, 1.0).clip(SMALLEST, LARGEST)), self.low)

    def marks(self) -> list[tuple[float, str]]:
        """Return [(exponent of ten, label)] of the marks at the upper end, halfway down, and at the lower end."""
        lowest = self.low + self.zero  # of the decades
        decades = sorted({self.high, (self.high + lowest) // 2, lowest}, reverse=True)
        return [(one, f"1e{one:.0f}") for one in decades] + ([(self.low, "0")] if self.zero else [])
