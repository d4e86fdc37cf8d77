"""Curves of several runs side by side; needs matplotlib (`pip install glmesh[plot]`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glmesh.bench.trace import Trace
from glmesh.formatting import size
from glmesh.plot.figures import INK, above, goal_line, log_axis, new_figure, plain_axes, save
from glmesh.types import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = (
    *("#2563a8", "#d9822b", "#3f8f5f", "#b3446c", "#7b5ea7"),
    *("#8c6d46", "#4bb0c9", "#a3a832", "#555555", "#e377c2"),
)
_DASHES: tuple[object, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
LABELS = {  # of axes, by the names of KEYS
    "communications": "communications",
    "bytes": "bytes sent",
    "seconds": "seconds",
    "round": "rounds",
    "suboptimality": "suboptimality, relative to the optimum",
    "of_start": "suboptimality, relative to that at zero",
    "consensus": "consensus violation",
}


@dataclass(frozen=True, eq=False)
class Panel:
    """A picture of traces: plots side by side, each with another cost as x axis, and one error as y axis."""

    name: str  # name of the picture's files, without the ending
    title: str  # heading of the picture
    traces: Sequence[Trace]
    x: Sequence[str] = ("communications", "seconds")  # names of KEYS, one for each plot
    y: str = "of_start"  # a name of KEYS, on a log scale
    floor: float = 1e-12  # a line ends where it reaches this: a reference is proven only so far
    log_x: bool = False  # whether the x axes are on a log scale
    ours: Sequence[str] = ()  # names of traces that are drawn thick and above the others; empty: all alike
    goals: Sequence[float] = ()  # errors that were aimed at, drawn as broken lines

    def draw(self, folder: Path, *endings: str) -> None:
        """Write the picture into a folder, as one file for each ending, such as ".png"."""
        figure = new_figure(4.2 * len(self.x) + (3.0 if len(self.x) > 1 else 3.6), 4.4)
        plots = figure.subplots(1, len(self.x), squeeze=False, sharey=True)[0]
        shown = [self._errors(trace) for trace in self.traces]
        floor = log_axis(plots[0], [*shown, np.array(self.goals) / 2.0], None)  # goals are above the lower end
        for axes, key in zip(plots, self.x, strict=True):
            for number, trace in enumerate(self.traces):
                self._line(axes, key, trace, number, floor)
            for goal in self.goals:
                goal_line(axes, goal)
            _finish(axes, key, self.log_x)
        plots[0].set_ylabel(LABELS[self.y], color=INK)
        names = {label: line for line, label in zip(*plots[0].get_legend_handles_labels(), strict=True)}
        order = sorted(names, key=lambda label: label not in self.ours)  # ours first
        legend = figure.legend([names[label] for label in order], order, loc="outside right center", frameon=False)
        for text in legend.get_texts():
            text.set(fontsize=10, fontweight="bold" if text.get_text() in self.ours else "normal")
        figure.suptitle(self.title, color=INK, fontsize=13)
        for ending in endings:
            # no date in the file, so that the same run gives the same picture
            metadata = {"Date": None} if ending == ".svg" else {"Software": None}
            save(figure, folder / f"{self.name}{ending}", dpi=100, metadata=metadata)

    def _errors(self, trace: Trace) -> Vector:
        """Return the errors of a trace that are drawn, shape (n,): up to the first at the panel's floor or below.

        That one is drawn at the floor, the smallest error that the panel shows.
        """
        up = np.asarray(trace.history[self.y], dtype=np.float64)
        if self.floor > 0 and (reached := up <= self.floor).any():
            up = np.maximum(up[: int(np.argmax(reached)) + 1], self.floor)
        return up

    def _line(self, axes: Axes, x: str, trace: Trace, number: int, floor: float) -> None:
        """Draw one trace into `axes`: a cost named `x`, such as "bytes", on the x axis, the panel's error on y.

        `number` is the trace's place in the panel, and decides its colour and dash. An error of 0 is drawn at the y
        `floor`. The end of the line is marked.
        """
        up = self._errors(trace)
        across = np.asarray(trace.history[x])[: len(up)]
        keep = np.isfinite(up) & (up >= 0) & np.isfinite(across)
        if x != "round":
            keep &= across > 0
        colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number // len(_COLOURS) % len(_DASHES)]
        strong, faint = trace.name in self.ours, bool(self.ours) and trace.name not in self.ours
        xs, ys = across[keep], above(up[keep], floor)
        axes.plot(
            xs,
            ys,
            label=trace.name,
            color=colour,
            linestyle=dash,
            linewidth=2.8 if strong else 1.1 if faint else 1.8,
            zorder=3 if strong else 2,
            alpha=0.6 if faint else None,
        )
        size_of_end = 34 if strong else 14
        axes.scatter(xs[-1:], ys[-1:], s=size_of_end, color=colour, zorder=4, clip_on=False)


def _finish(axes: Axes, x: str, log_x: bool) -> None:
    """Label the x axis of a plot, whose values are the cost named `x`, such as "bytes".

    `log_x` gives that axis a log scale.
    """
    from matplotlib.ticker import FuncFormatter

    if log_x:
        axes.set_xscale("log")
    if x == "bytes":
        axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: size(tick)))
    if not log_x:
        axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(LABELS[x], color=INK)
    plain_axes(axes)
    axes.tick_params(labelsize=10)
