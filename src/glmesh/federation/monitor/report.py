"""Histories of nodes as one HTML page; plots are SVG made here, so there is no need of scripts or matplotlib."""

import html
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from glmesh.federation.monitor.axes import ticks
from glmesh.federation.monitor.forest import coefficients
from glmesh.federation.monitor.history import Figures, lines_since, read_lines
from glmesh.federation.monitor.screen import proof_text
from glmesh.federation.node.training import without_text
from glmesh.formatting import size

# Okabe and Ito (2008): told apart by colour-blind readers too
_COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
)
_W, _H = 720, 250  # [px] of a plot
_LEFT, _RIGHT, _BOTTOM = 70, 24, 44  # [px] margins for labels of the axes
_EVENTS = 20  # [lines] of each log below the plots
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; } td, th { padding: .2rem .8rem .2rem 0; text-align: left; }
svg { width: 100%; height: auto; } pre { background: #f4f4f4; padding: .6rem; overflow-x: auto; font-size: 13px; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; } pre { background: #262626; }
  svg text { fill: #ddd; } svg .axis { stroke: #777; } }
"""

Line = tuple[str, list[tuple[float, float]]]  # (name, points)


def page(folders: Sequence[str]) -> str:
    """Return an HTML page about the nodes whose state folders are given: a table, plots over time and last events."""
    runs = [(Path(folder), read_lines(Path(folder) / "history.jsonl")) for folder in folders]
    start = min((entries[0]["time"] for _, entries in runs if entries), default=0.0)
    names = [entries[-1]["node"] if entries else folder.name for folder, entries in runs]

    def lines(key: str) -> list[Line]:
        """Return a pair (name, points) for each node, to be drawn by `plot`; a point is (seconds, figure `key`).

        Seconds count from the first entry of any node.
        """
        return [
            (name, [(e["time"] - start, e[key]) for e in entries if e.get(key) is not None])
            for name, (_, entries) in zip(names, runs, strict=True)
        ]

    counted = any("tol_se" in entries[-1] for _, entries in runs if entries)
    what, key = ("Distance, in standard errors,", "standard_errors") if counted else ("Relative gap", "certificate")
    aim = "tol_se" if counted else "tol"
    goal = max((float(dict(entries[-1]).get(aim) or 0.0) for _, entries in runs if entries), default=0.0)
    revealed = sorted({e["revealed"] for _, entries in runs for e in entries if e.get("revealed")})
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>",
        f"<title>glmesh: {_text(', '.join(names))}</title><style>{_STYLE}</style>",
        f"<h1>{_text(', '.join(names))}</h1>",
        *(f"<p>{_text(said)}</p>" for said in revealed),
        _summary(names, runs),
        coefficients(folders),
        f"<h2>{what} that is proven</h2>" + plot(lines(key), "seconds", logarithmic=True, goal=goal),
        "<h2>Rounds</h2>" + plot(lines("round"), "seconds"),
        "<h2>Bytes sent</h2>" + plot(lines("bytes_sent"), "seconds", told=size),
        "<h2>Neighbours that were heard</h2>" + plot(_heard(names, runs, start), "seconds"),
    ]
    for name, (folder, _) in zip(names, runs, strict=True):
        told = "\n".join(_event(event) for event in lines_since(folder / "log.jsonl")[-_EVENTS:])
        parts.append(f"<h2>Last events of {_text(name)}</h2><pre>{_text(told)}</pre>")
    return "\n".join(parts) + "\n"


def _text(value: object) -> str:
    """Return a value as text in which the characters that HTML gives a meaning are escaped."""
    return html.escape(str(value))


def _event(event: dict[str, Any]) -> str:
    """Return an entry of a log as a line of text: time, event and fields."""
    fields = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("time", "node", "event"))
    return f"{time.strftime('%H:%M:%S', time.localtime(event['time']))} {event['event']} {fields}"


def _summary(names: list[str], runs: list[tuple[Path, list[Figures]]]) -> str:
    """Return an HTML table with a row per node: phase, rounds, gap, bytes sent and whose data, at its last entry.

    `runs` has (state folder, entries of its history) of each node, `names` their names.
    """
    rows = ["<tr><th>node<th>phase<th>rounds<th>proven<th>sent<th>seconds<th>whose data"]
    for name, (_, entries) in zip(names, runs, strict=True):
        last = entries[-1] if entries else {}
        cells = [
            name,
            "done" if name in last.get("done", ()) else last.get("phase", "no entry yet"),
            f"{last.get('round', 0):,}",
            proof_text(last, "{:.1e}") or "none",
            size(last.get("bytes_sent", 0)),
            f"{last.get('seconds', 0):.0f}",
            without_text(last.get("members", ()), last.get("without", ())) or ("all sites" if last else ""),
        ]
        rows.append("<tr>" + "".join(f"<td>{_text(cell)}" for cell in cells))
    covers = "<p>What is proven is about the optimiser on these rows, not about the data.</p>"
    return f"<table>{''.join(rows)}</table>{covers}"


def _heard(names: list[str], runs: list[tuple[Path, list[Figures]]], start: float) -> list[Line]:
    """Return a pair (name, points) for each node, to be drawn by `plot`; a point is (seconds, neighbours that were up).

    Seconds count from `start` [s since 1970].
    """
    return [
        (
            name,
            [(e["time"] - start, sum(n["state"] == "up" for n in e["neighbours"].values())) for e in entries],
        )
        for name, (_, entries) in zip(names, runs, strict=True)
    ]


def _logarithms(lines: Sequence[Line], goal: float) -> tuple[list[Line], float | None]:
    """Return (lines, floor): lines with log10 y for each y > 0, and with `floor` for 0, a whole decade below all else.

    A `goal` > 0 counts as one of them. The floor is None if no y is 0.
    """
    known = [math.log10(y) for _, points in lines for _, y in points if y > 0]
    lowest = math.floor(min([*known, *([math.log10(goal)] if goal > 0 else [])], default=-15.0))
    floor = lowest - 1.0
    drawn = [(name, [(x, math.log10(y) if y > 0 else floor) for x, y in points if y >= 0]) for name, points in lines]
    zero = any(y == 0 for _, points in lines for _, y in points)
    return drawn, floor if zero else None


def _curve(number: int, name: str, places: list[tuple[float, float]]) -> str:
    """Return the SVG of curve `number` through `places`, (x, y) in pixels, with its name in the legend."""
    colour, path = _COLOURS[number % len(_COLOURS)], " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    left, top = _LEFT + 160 * (number % 4), _H + 10 + 20 * (number // 4)
    end = "".join(f"<circle class='end' cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{colour}'/>" for x, y in places[-1:])
    return (
        f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>{end}"
        f"<text x='{left}' y='{top}' font-size='13' style='fill:{colour}'>— {_text(name)}</text>"
    )


def plot(
    lines: Sequence[Line],
    across: str,
    *,
    logarithmic: bool = False,
    told: Callable[[float], str] = "{:,g}".format,
    goal: float = 0.0,
) -> str:
    """Return a plot as SVG text: lines, each a pair (name, [(x, y), ...]), over a common horizontal axis.

    `across` is that axis's label. `logarithmic` draws the vertical axis in powers of ten; `told` makes text of its
    numbers. A `goal` > 0 of a logarithmic plot is drawn as a broken line; 0 is drawn at its floor. The end of each line
    is marked. Without any point the text is an HTML paragraph that says so.
    """
    shown, floor = _logarithms(lines, goal) if logarithmic else (list(lines), None)
    drawn = [point for _, points in shown for point in points]
    if not drawn:
        return "<p>Nothing to draw.</p>"
    xs, ys = zip(*drawn, strict=True)
    low, high = (math.floor(min(ys)), math.ceil(max(ys))) if logarithmic else (min(0.0, *ys), max(ys))
    aim = math.log10(goal) if logarithmic and goal > 0 else None
    if aim is not None:
        low, high = min(low, math.floor(aim)), max(high, math.floor(aim) + 1)  # room for its word
    high = high if high > low else low + 1.0
    right = max(xs) or 1.0

    def place(x: float, y: float) -> tuple[float, float]:
        """Return (pixels from the left, pixels from the top) of the point (x, y) of the plot."""
        return (
            _LEFT + (_W - _LEFT - _RIGHT) * x / right,
            10 + (_H - _BOTTOM - 20) * (high - y) / (high - low),
        )

    x0, y0 = place(0.0, low)
    x1, y1 = place(right, high)
    out = [f"<svg viewBox='0 0 {_W} {_H + 20 * ((len(shown) + 3) // 4)}' role='img'>"]
    out.append(f"<path class='axis' d='M{x0:.1f} {y1:.1f}V{y0:.1f}H{x1:.1f}' fill='none' stroke='#888'/>")
    for y in ticks(low, high, whole=True):
        text = "0" if y == floor else f"1e{y:.0f}" if logarithmic else told(y)
        up = place(0, y)[1]
        out.append(f"<path class='grid' d='M{x0:.1f} {up:.1f}H{x1:.1f}' stroke='#8884'/>")
        out.append(f"<text x='{x0 - 6:.1f}' y='{up + 4:.1f}' text-anchor='end' font-size='12'>{text}</text>")
    for x in ticks(0.0, right):
        out.append(
            f"<text x='{place(x, low)[0]:.1f}' y='{y0 + 18:.1f}' text-anchor='middle' font-size='12'>{x:,g}</text>"
        )
    out.append(f"<text x='{x1:.1f}' y='{y0 + 34:.1f}' text-anchor='end' font-size='12'>{_text(across)}</text>")
    if aim is not None:
        up = place(0, aim)[1]
        out.append(f"<path class='goal' d='M{x0:.1f} {up:.1f}H{x1:.1f}' stroke='#2f9e5b' stroke-dasharray='5 4'/>")
        out.append(
            f"<text x='{x0 + 4:.1f}' y='{up - 4:.1f}' font-size='12' style='fill:#2f9e5b'>goal {goal:.0e}</text>"
        )
    for number, (name, points) in enumerate(shown):
        out.append(_curve(number, name, [place(x, y) for x, y in points]))
    return "".join(out) + "</svg>"
