"""Pictures of a run and of a network; needs matplotlib (`pip install glmesh[plot]`).

Figures are built without pyplot, so nothing here touches a display or a global state.
"""

from collections.abc import Mapping
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from glmesh.text import size
from glmesh.types import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _INK, _GREY, _RULE = "#2563a8", "#d9822b", "#333333", "#9aa5b1", "#dde0e4"
_LABELLED = 64  # more node numbers than this are too small to read
_STRAIGHTENED = 200  # Kamada-Kawai draws the better picture, but is cubic in the nodes


def convergence(
    history: Mapping[str, Vector], *, path: str | PathLike[str] | None = None, title: str | None = None
) -> "Figure":
    """Relative gap and consensus violation against communications and bytes, on a log scale.

    `history` has equally long arrays `communications`, `bytes`, `objective`, `gap`, `consensus` and, where nodes
    certified the gap themselves, `certificate` with NaN elsewhere. What is not finite and positive is left out.
    """
    figure = _figure(9.6, 4.0)
    left, right = figure.subplots(1, 2)
    curves = {"duality gap": _relative(history, "gap")}
    if "certificate" in history:
        curves["certified by the nodes"] = _relative(history, "certificate")
    _panel(left, history, curves, "duality gap, relative to the objective")
    _panel(right, history, {"": np.asarray(history["consensus"])}, "consensus violation")
    return _finish(figure, path, title)


def topology(graph: Any, *, path: str | PathLike[str] | None = None, title: str | None = None) -> "Figure":
    """The network: one numbered dot per node, one line per link."""
    figure = _figure(5.0, 5.0)
    from matplotlib.collections import LineCollection

    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))
    places = _layout(graph)
    links = [(places[a], places[b]) for a, b in graph.edges()]
    width = np.clip(10 / np.sqrt(max(len(links), 1)), 0.2, 1.4)
    axes.add_collection(LineCollection(links, colors=_GREY, linewidths=width, zorder=1))
    x, y = np.reshape([*places.values()], (-1, 2)).T
    size = float(np.clip(9000 / max(len(places), 1), 12, 420))
    axes.scatter(x, y, s=size, color=_BLUE, edgecolors="white", linewidths=0.5, zorder=2)
    if len(places) <= _LABELLED:
        for node, (x, y) in places.items():
            axes.text(x, y, str(node), color="white", fontsize=0.42 * size**0.5, ha="center", va="center")
    return _finish(figure, path, title)


def _figure(width: float, height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install glmesh[plot]") from error
    return Figure(figsize=(width, height), layout="constrained")


def _finish(figure: "Figure", path: str | PathLike[str] | None, title: str | None) -> "Figure":
    if title:
        figure.suptitle(title, color=_INK, fontsize=12)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _relative(history: Mapping[str, Vector], key: str) -> Vector:
    with np.errstate(all="ignore"):
        return np.asarray(history[key]) / np.abs(history["objective"])


def _panel(axes: "Axes", history: Mapping[str, Vector], curves: Mapping[str, Vector], label: str) -> None:
    """The first curve as a line, the second as points."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_title(label, color=_INK, fontsize=11, loc="left")
    x, sent = np.asarray(history["communications"]), np.asarray(history["bytes"])
    line = {"color": _BLUE, "linewidth": 1.8}
    points = {"color": _ORANGE, "linestyle": "", "marker": "o", "markersize": 4}
    shown: list[Vector] = []
    for style, (name, values) in zip((line, points), curves.items(), strict=False):
        keep = np.isfinite(values) & (values > 0)
        if keep.any():
            single = {"marker": "o"} if keep.sum() == 1 else {}
            shown.append(values[keep].clip(1e-300, 1e300))  # so that the limits are numbers too
            axes.semilogy(x[keep], shown[-1], label=name, clip_on=False, **(style | single))
    if not shown:
        axes.text(0.5, 0.5, "nothing above zero", color=_INK, ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    if len(shown) > 1:
        axes.legend(frameon=False)
    every = np.log10(np.concatenate(shown))  # to whole decades
    axes.set_ylim(10.0 ** np.floor(every.min()), 10.0 ** (np.floor(every.max()) + 1))
    if x[-1] > x[0]:
        axes.set_xlim(x[0], x[-1])
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    else:
        axes.set_xticks(x[:1])
    axes.set_xlabel("communications, and bytes sent", color=_INK)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:,.0f}\n{size(np.interp(tick, x, sent))}"))
    axes.grid(color=_RULE, linewidth=0.7)
    axes.tick_params(color=_GREY, labelcolor=_INK)
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_GREY)


def _layout(graph: Any) -> dict[Any, Vector]:
    """A circle for rings, chains and what contains them in order, a star around its hub, else springs."""
    nodes = list(graph)
    K = len(nodes)
    tree = graph.number_of_edges() == K - 1
    if all(graph.has_edge(a, b) for a, b in pairwise(nodes if tree else nodes + nodes[:1])):
        return _circle(nodes)
    hubs = [node for node in nodes if graph.degree(node) == K - 1]
    if tree and hubs:
        return _circle([node for node in nodes if node != hubs[0]]) | {hubs[0]: np.zeros(2)}
    places: dict[Any, Vector] = nx.spring_layout(graph, seed=0)
    if K <= _STRAIGHTENED and nx.is_connected(graph):
        places = nx.kamada_kawai_layout(graph, pos=places)
    return places


def _circle(nodes: list[Any]) -> dict[Any, Vector]:
    """Evenly spaced, from the top and clockwise."""
    angles = 2 * np.pi * np.arange(len(nodes)) / max(len(nodes), 1)
    return {node: np.array([np.sin(angle), np.cos(angle)]) for node, angle in zip(nodes, angles, strict=True)}
