"""Curves of several runs side by side; needs matplotlib (`pip install glmesh[plot]`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glmesh.bench.trace import Trace
from glmesh.formatting import size
from glmesh.plot.figures import INK, new_figure, plain_axes, save

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

    def draw(self, folder: Path, *endings: str) -> None:
        """Write the picture into a folder, as one file for each ending, such as ".png"."""
        figure = new_figure(3.6 * len(self.x) + (2.6 if len(self.x) > 1 else 3.4), 3.6)
        plots = figure.subplots(1, len(self.x), squeeze=False, sharey=True)[0]
        for axes, key in zip(plots, self.x, strict=True):
            for number, trace in enumerate(self.traces):
                self._line(axes, key, trace, number)
            _finish(axes, key, self.log_x)
        plots[0].set_ylabel(LABELS[self.y], color=INK)
        figure.legend(*plots[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8.5)
        figure.suptitle(self.title, color=INK, fontsize=11)
        for ending in endings:
            # no date in the file, so that the same run gives the same picture
            metadata = {"Date": None} if ending == ".svg" else {"Software": None}
            save(figure, folder / f"{self.name}{ending}", dpi=80, metadata=metadata)

    def _line(self, axes: Axes, x: str, trace: Trace, number: int) -> None:
        """Draw one trace into `axes`: a cost named `x`, such as "bytes", on the x axis, the panel's error on y.

        `number` is the trace's place in the panel, and decides its colour and dash.
        """
        across, up = trace.history[x], trace.history[self.y]
        if self.floor > 0 and (reached := up <= self.floor).any():
            end = int(np.argmax(reached)) + 1
            across, up = across[:end], np.maximum(up[:end], self.floor)
        keep = np.isfinite(up) & (up > 0) & np.isfinite(across)
        if x != "round":
            keep &= across > 0
        colour, dash = _COLOURS[number % len(_COLOURS)], _DASHES[number // len(_COLOURS) % len(_DASHES)]
        marker = "o" if keep.sum() == 1 else ""
        style = {"color": colour, "linestyle": dash, "linewidth": 1.5, "marker": marker}
        axes.semilogy(across[keep], up[keep], label=trace.name, **style)


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
    axes.tick_params(labelsize=8.5)
