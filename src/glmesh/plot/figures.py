"""Pictures of a run and of a network; needs matplotlib (`pip install glmesh[plot]`).

Figures are built without pyplot, so nothing here touches a display or a global state.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from glmesh.formatting import size
from glmesh.types import Flags, Matrix, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE, _ORANGE, _TINT, _INK, _GREY, _RULE = "#2563a8", "#d9822b", "#c9dcf0", "#333333", "#9aa5b1", "#dde0e4"
_LABELLED = 64  # more node numbers than this are too small to read
_RULED = 32  # more rows of who was there than this have no room for lines between them
_COLUMNS = 600  # of who was there; more would be narrower than a pixel, and drop out
_STRAIGHTENED = 200  # Kamada-Kawai draws the better picture, but is cubic in the nodes


def convergence(
    history: Mapping[str, Vector],
    *,
    path: str | PathLike[str] | None = None,
    title: str | None = None,
    presence: Matrix | None = None,
) -> "Figure":
    """Relative gap and consensus violation against communications and bytes, on a log scale.

    `history` has equally long arrays `communications`, `bytes`, `objective`, `gap`, `consensus` and, where nodes
    certified the gap themselves, `certificate` with NaN elsewhere. What is not finite and positive is left out.
    `presence` (`Result.presence`, with `round` in the history) adds who was there when, unless everybody always was.
    """
    seen = presence if presence is not None and _shows(presence, history) else None
    raster = 0.0 if seen is None else float(np.clip(0.1 * seen.shape[1], 0.8, 2.2))  # inches
    figure = new_figure(9.6, 4.0 if seen is None else 4.3 + raster)
    grid = figure.add_gridspec(1 if seen is None else 2, 2, height_ratios=None if seen is None else [raster, 3.0])
    left, right = (figure.add_subplot(grid[-1, column]) for column in (0, 1))
    curves = {"duality gap": _relative(history, "gap")}
    if "certificate" in history:
        curves["certified by the nodes"] = _relative(history, "certificate")
    _panel(left, history, curves, "duality gap, relative to the objective")
    _panel(right, history, {"": np.asarray(history["consensus"])}, "consensus violation")
    if seen is not None:
        _raster(figure.add_subplot(grid[0, 0], sharex=left), history, seen)
    return _finish(figure, path, title)


def topology(graph: Any, *, path: str | PathLike[str] | None = None, title: str | None = None) -> "Figure":
    """The network: one numbered dot per node, one line per link."""
    figure = new_figure(5.0, 5.0)
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


def new_figure(width: float, height: float) -> "Figure":
    """An empty figure of so many inches."""
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
    axes.minorticks_off()
    _plain_axes(axes)


def _shows(presence: Matrix, history: Mapping[str, Vector]) -> bool:
    """Whether there is something to see, and a width to show it in."""
    x = np.asarray(history["communications"])
    return bool(len(x) > 1 and x[-1] > x[0] and (presence < 1).any())


def _raster(axes: "Axes", history: Mapping[str, Vector], presence: Matrix) -> None:
    """A row per node, blue while it is there, orange while it is away, hatched while it is no member."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    x, rounds = np.asarray(history["communications"]), np.asarray(history["round"])
    n_rounds, n_nodes = presence.shape
    edges = np.interp(np.linspace(x[0], x[-1], 1 + min(n_rounds, _COLUMNS)), x, rounds)
    member, away = _shares(presence > 0, edges), _shares(presence == 0.5, edges)
    mix = np.divide(away, member, out=np.zeros_like(away), where=member > 0)[..., np.newaxis]
    colours = (1 - mix) * to_rgb(_TINT) + mix * to_rgb(_ORANGE)
    axes.patch.set(hatch="////", edgecolor=_GREY, linewidth=0)
    extent = (x[0], x[-1], n_nodes - 0.5, -0.5)
    crisp = "nearest" if n_nodes <= _LABELLED else "antialiased"
    axes.imshow(np.dstack([colours, member]), extent=extent, aspect="auto", interpolation=crisp)
    axes.set_xlim(x[0], x[-1])
    axes.set_title("who was there", color=_INK, fontsize=11, loc="left")
    axes.set_ylabel("node" if n_nodes <= _LABELLED else f"{n_nodes:,} nodes", color=_INK)
    if n_nodes <= _RULED:
        axes.hlines(np.arange(1, n_nodes) - 0.5, x[0], x[-1], colors="white", linewidths=0.7)
    axes.set_yticks(range(0, n_nodes, -(-n_nodes // 16)) if n_nodes <= _LABELLED else [])
    axes.tick_params(labelcolor=_INK, labelsize=7, length=0, labelbottom=False)
    axes.spines[:].set_visible(False)
    partly = " (paler: part of the time)" if n_rounds > _COLUMNS else ""
    keys = [Patch(color=_TINT, label="there")]
    if (presence == 0.5).any():
        keys.append(Patch(color=_ORANGE, label=f"away{partly}"))
    if (presence == 0).any():
        keys.append(Patch(facecolor="white", edgecolor=_GREY, hatch="////", linewidth=0, label="not a member"))
    legend = axes.legend(handles=keys, frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1), labelcolor=_INK)
    legend.set_in_layout(False)  # the place beside the raster is free


def _shares(flags: Flags, edges: Vector) -> Matrix:
    """The share of true rounds between two edges; a row per node."""
    n_rounds = len(flags)
    sums = np.concatenate([np.zeros((1, flags.shape[1])), np.cumsum(flags, axis=0)])
    upto = np.array([np.interp(edges, np.arange(n_rounds + 1), column) for column in sums.T])
    return np.clip(np.diff(upto) / np.diff(edges), 0.0, 1.0)


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


def training(
    histories: Sequence[Mapping[str, Vector]], *, path: str | PathLike[str] | None = None, title: str | None = None
) -> "Figure":
    """Objective, relative gap and consensus violation against rounds (above) and bytes (below).

    Each history is that of `Result.history`; several are those of one fit per class.
    """
    drawn = new_figure(10.5, 5.6)
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    for column, label in enumerate(("objective", "duality gap, relative", "consensus violation")):
        for row, against in enumerate(("round", "bytes")):
            axes, any_shown = drawn.add_subplot(2, 3, 3 * row + column + 1), False
            for history in histories:
                values = (
                    _relative(history, "gap")
                    if column == 1
                    else np.asarray(history[("objective", "", "consensus")[column]])
                )
                keep = np.isfinite(values) & ((values > 0) | (column == 0))
                any_shown |= bool(keep.any())
                axes.plot(np.asarray(history[against])[keep], values[keep], color=_BLUE, linewidth=1.4, alpha=0.8)
            if column > 0 and any_shown:
                axes.set_yscale("log")
                axes.minorticks_off()
            if row == 0:
                axes.set_title(label, color=_INK, fontsize=11, loc="left")
            axes.set_xlabel("rounds" if against == "round" else "bytes sent", color=_INK)
            axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], integer=True))
            if against == "bytes":
                axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: size(max(tick, 0.0))))
            _plain_axes(axes)
    return _finish(drawn, path, title)


def selection(
    alphas: Vector,
    mse_path: Matrix,
    alpha: float,
    *,
    coefs: Matrix | None = None,
    path: str | PathLike[str] | None = None,
    title: str | None = None,
) -> "Figure":
    """The error on held-out samples along a path of penalties, and the coefficients, if there are any."""
    drawn = new_figure(9.6 if coefs is not None else 5.4, 4.0)
    left = drawn.add_subplot(1, 1 if coefs is None else 2, 1)
    mean, spread = mse_path.mean(axis=1), mse_path.std(axis=1) / np.sqrt(max(mse_path.shape[1] - 1, 1))
    left.semilogx(alphas, mse_path, color=_GREY, linewidth=0.7, alpha=0.7)
    left.fill_between(alphas, mean - spread, mean + spread, color=_TINT, linewidth=0)
    left.semilogx(alphas, mean, color=_BLUE, linewidth=1.8)
    left.set_title("mean squared error on held-out samples", color=_INK, fontsize=11, loc="left")
    right = [] if coefs is None else [drawn.add_subplot(1, 2, 2)]
    for axes in right:
        assert coefs is not None
        axes.semilogx(alphas, coefs.T, linewidth=1.2)
        axes.set_title("coefficients", color=_INK, fontsize=11, loc="left")
    for axes in (left, *right):
        axes.axvline(alpha, color=_ORANGE, linewidth=1.4, linestyle="--")
        axes.set_xlabel("alpha", color=_INK)
        axes.invert_xaxis()
        _plain_axes(axes)
    left.annotate(f"{alpha:.3g}", (alpha, left.get_ylim()[1]), color=_ORANGE, ha="center", va="bottom")
    return _finish(drawn, path, title)


def _plain_axes(axes: "Axes") -> None:
    axes.grid(color=_RULE, linewidth=0.7)
    axes.tick_params(color=_GREY, labelcolor=_INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_GREY)
