"""Curves of several runs side by side; needs matplotlib (`pip install glmesh[plot]`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glmesh.bench.trace import Trace
from glmesh.formatting import size
from glmesh.plot.figures import new_figure
from glmesh.types import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _GREY, _RULE = "#333333", "#9aa5b1", "#dde0e4"
_COLOURS = (
    "#2563a8",
    "#d9822b",
    "#3f8f5f",
    "#b3446c",
    "#7b5ea7",
    "#8c6d46",
    "#4bb0c9",
    "#a3a832",
    "#555555",
    "#e377c2",
)
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
LABELS = {
    "communications": "communications",
    "bytes": "bytes sent",
    "seconds": "seconds",
    "round": "rounds",
    "suboptimality": "suboptimality, relative to the optimum",
    "of_start": "suboptimality, relative to that at zero",
    "consensus": "consensus violation",
}


def curves(
    traces: Sequence[Trace],
    paths: Sequence[Path],
    *,
    x: Sequence[str],
    y: str = "suboptimality",
    title: str = "",
    floor: float = 0.0,
    log_x: bool = False,
) -> None:
    """A panel for each of x, a line for each trace; every path gets the picture in the format of its name.

    floor: a line ends where it reaches it (a reference is proven only so far).
    """
    wide = len(x) > 1
    figure = new_figure(3.6 * len(x) + (2.6 if wide else 3.4), 3.6)
    panels = figure.subplots(1, len(x), squeeze=False, sharey=True)[0]
    for panel, key in zip(panels, x, strict=True):
        for number, trace in enumerate(traces):
            dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
            _line(panel, trace.history, key, y, trace.name, _COLOURS[number % len(_COLOURS)], dash, floor)
        _finish(panel, key, log_x)
    panels[0].set_ylabel(LABELS[y], color=_INK)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8.5)
    if title:
        figure.suptitle(title, color=_INK, fontsize=11)
    for path in paths:
        # no date in the file, so that the same run gives the same picture
        metadata: dict[str, Any] = {"Date": None} if path.suffix == ".svg" else {"Software": None}
        figure.savefig(path, dpi=80, metadata=metadata)


def _line(
    axes: Axes, history: Mapping[str, Vector], x: str, y: str, label: str, colour: str, dash: Any, floor: float
) -> None:
    across, up = history[x], history[y]
    if floor > 0 and (reached := up <= floor).any():
        end = int(np.argmax(reached)) + 1
        across, up = across[:end], np.maximum(up[:end], floor)
    keep = np.isfinite(up) & (up > 0) & np.isfinite(across)
    if x != "round":
        keep &= across > 0
    marker = "o" if keep.sum() == 1 else ""
    axes.semilogy(across[keep], up[keep], label=label, color=colour, linestyle=dash, linewidth=1.5, marker=marker)


def _finish(axes: Axes, x: str, log_x: bool) -> None:
    from matplotlib.ticker import FuncFormatter

    if log_x:
        axes.set_xscale("log")
    if x == "bytes":
        axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: size(tick)))
    if not log_x:
        axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel(LABELS[x], color=_INK)
    axes.grid(color=_RULE, linewidth=0.7)
    axes.tick_params(color=_GREY, labelcolor=_INK, labelsize=8.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_GREY)
