"""Figures of runs, networks and paths of penalties, by matplotlib (`pip install glmesh[plot]`).

Figures are built without pyplot, so nothing here touches a display or a global state; matplotlib is imported when the
first figure is made.
"""

import pathlib
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np

from glmesh.files.archive import write_atomically
from glmesh.formatting import size
from glmesh.types import Flags, Matrix, Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#333333"  # of text
BLUE, ORANGE, TINT, GREY, RULE = "#2563a8", "#d9822b", "#c9dcf0", "#9aa5b1", "#dde0e4"
GREEN = "#2f7d4f"  # of the goal
_DECADES = 7  # ticks of a log axis at most
_LABELLED = 64  # [nodes] numbers of more than this are too small to read
_RULED = 32  # [nodes] rows of a presence raster that have room for lines between them
_COLUMNS = 600  # [columns] of a presence raster; more would be narrower than a pixel, and drop out
_STRAIGHTENED = 200  # [nodes] Kamada-Kawai draws the better picture, but is cubic in the nodes

Path = str | PathLike[str]  # of the picture; its ending says the format


def convergence(
    history: Mapping[str, Vector],
    *,
    path: Path | None = None,
    title: str | None = None,
    presence: Matrix | None = None,
    tol: float | None = None,
) -> "Figure":
    """Draw relative gap and consensus violation against communications and bytes, on a log scale with a floor for 0.

    Parameters
    ----------
    history : mapping of str to array
        `Result.history`: equally long arrays `communications`, `bytes`, `objective`, `gap`, `consensus` and, where
        nodes certified the gap themselves, `certificate` with NaN elsewhere. Zeros lie at the floor of the axis; what
        is negative or not finite is left out. The end of each curve is marked.
    path : str or path, optional
        File to write, whole or not at all: .png, .pdf, .svg or what else matplotlib knows; default: none.
    title : str, optional
        Heading of the figure; default: none.
    presence : array of shape (n_rounds, K), optional
        `Result.presence`, with `round` in the history: adds which node was there in which round, unless all always
        were.
    tol : float, optional
        `Result.tol`, the relative gap that was the goal: drawn as a line; default: none.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which can be changed further.

    Raises
    ------
    ImportError
        matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, plot, solve
    >>> X = np.random.default_rng(0).normal(size=(30, 8))
    >>> result = solve(Problem.glm(X, X[:, 0], alpha=1.0), n_nodes=4)
    >>> figure = plot.convergence(result.history, title="ridge on a ring of 4")
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['duality gap, relative to the objective', 'consensus violation']
    """
    seen = presence if presence is not None and _shows(presence, history) else None
    raster = 0.0 if seen is None else float(np.clip(0.1 * seen.shape[1], 0.8, 2.2))  # inches
    figure = new_figure(9.6, 4.0 if seen is None else 4.3 + raster)
    grid = figure.add_gridspec(1 if seen is None else 2, 2, height_ratios=None if seen is None else [raster, 3.0])
    left, right = (figure.add_subplot(grid[-1, column]) for column in (0, 1))
    curves = {"duality gap": _relative(history, "gap")}
    if "certificate" in history:
        curves["certified by the nodes"] = _relative(history, "certificate")
    _panel(left, history, curves, "duality gap, relative to the objective", tol)
    _panel(right, history, {"": np.asarray(history["consensus"])}, "consensus violation")
    _say_agreed(right, [history])
    if seen is not None:
        _raster(figure.add_subplot(grid[0, 0], sharex=left), history, seen)
    return finish(figure, path, title)


def topology(graph: nx.Graph, *, path: Path | None = None, title: str | None = None) -> "Figure":
    """Draw a network: one numbered dot per node, one line per link.

    Parameters
    ----------
    graph : networkx.Graph
        The network, as of `glmesh.topology.build`.
    path : str or path, optional
        File to write, whole or not at all: .png, .pdf, .svg or what else matplotlib knows; default: none.
    title : str, optional
        Heading of the figure; default: none.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which can be changed further.

    Raises
    ------
    ImportError
        matplotlib is not installed.

    Examples
    --------
    >>> from glmesh import plot, topology
    >>> figure = plot.topology(topology.build("torus", 16), title="a torus")
    >>> len(figure.axes)
    1
    """
    figure = new_figure(5.0, 5.0)
    from matplotlib.collections import LineCollection

    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))
    places = _layout(graph)
    links = [(places[a], places[b]) for a, b in graph.edges()]
    width = np.clip(10 / np.sqrt(max(len(links), 1)), 0.2, 1.4)
    axes.add_collection(LineCollection(links, colors=GREY, linewidths=width, zorder=1))
    x, y = np.reshape([*places.values()], (-1, 2)).T
    size = float(np.clip(9000 / max(len(places), 1), 12, 420))
    axes.scatter(x, y, s=size, color=BLUE, edgecolors="white", linewidths=0.5, zorder=2)
    if len(places) <= _LABELLED:
        for node, (x, y) in places.items():
            axes.text(x, y, str(node), color="white", fontsize=0.42 * size**0.5, ha="center", va="center")
    return finish(figure, path, title)


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of `width` by `height` inches; raise ImportError if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install glmesh[plot]") from error
    return Figure(figsize=(width, height), layout="constrained")


def finish(figure: "Figure", path: Path | None, title: str | None) -> "Figure":
    """Give a figure the title `title` (None: none) and write it to the file `path` (None: no file); return it."""
    if title:
        figure.suptitle(title, color=INK, fontsize=12)
    if path is not None:
        save(figure, path, dpi=150)
    return figure


def head(axes: "Axes", text: str) -> None:
    """Write the heading of a panel above its left end."""
    axes.set_title(text, color=INK, fontsize=11, loc="left")


def save(figure: "Figure", path: Path, **options: Any) -> None:
    """Write a figure to the file `path`, whole or not at all, in the format that the name's ending says.

    A name without an ending gets .png. `options` are those of matplotlib's `Figure.savefig`.
    """
    path = pathlib.Path(path)
    path = path if path.suffix else path.with_name(f"{path.name}.png")
    write_atomically(path, lambda stream: figure.savefig(stream, format=path.suffix[1:], **options))


def _relative(history: Mapping[str, Vector], key: str) -> Vector:
    """Return history[key] / abs(history["objective"]), shape (n_records,); not finite where the objective is 0."""
    with np.errstate(all="ignore"):
        return np.asarray(history[key]) / np.abs(history["objective"])


def _panel(
    axes: "Axes", history: Mapping[str, Vector], curves: Mapping[str, Vector], label: str, goal: float | None = None
) -> None:
    """Draw one or two curves against communications into `axes`, y on a log scale: the first as a line, then as points.

    `curves` is {label: y values, one for each record of the history}. `label` is the heading, `goal` the y of a
    horizontal line (None: none). Ticks of the x axis show communications, and the bytes sent by then.
    """
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    head(axes, label)
    x, sent = np.asarray(history["communications"]), np.asarray(history["bytes"])
    line: dict[str, Any] = {"color": BLUE, "linewidth": 1.8}
    points: dict[str, Any] = {"color": ORANGE, "linestyle": "", "marker": "o", "markersize": 4}
    floor = log_axis(axes, list(curves.values()), goal)
    ends: list[tuple[str, float, float, float]] = []  # colour, x, y as drawn, value
    for style, (name, values) in zip((line, points), curves.items(), strict=False):
        keep = np.isfinite(values) & (values >= 0)
        if keep.any():
            drawn = above(values[keep], floor)
            axes.plot(x[keep], drawn, label=name, clip_on=False, **style)
            ends.append((style["color"], x[keep][-1], drawn[-1], values[keep][-1]))
    shown = len(ends)
    for number, end in enumerate(ends, 1):
        _end(axes, *end, told=number == shown)  # what nodes have proven is told, rather than what was measured
    if not shown:
        axes.text(0.5, 0.5, "nothing to draw", color=INK, ha="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    if shown > 1:
        axes.legend(frameon=False, loc="best")
    if x[-1] > x[0]:
        axes.set_xlim(x[0], x[-1])
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    else:
        axes.set_xticks(x[:1])
    axes.set_xlabel("communications, and bytes sent", color=INK)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:,.0f}\n{size(np.interp(tick, x, sent))}"))
    plain_axes(axes)


def _say_agreed(axes: "Axes", histories: Sequence[Mapping[str, Vector]]) -> None:
    """Replace the curve in a panel of consensus violations by "all nodes hold the same model" if all are NaN."""
    if all(np.isnan(history["consensus"]).all() for history in histories):
        for text in list(axes.texts):
            text.remove()
        axes.text(0.5, 0.5, "all nodes hold the same model", color=INK, ha="center", transform=axes.transAxes)
        axes.set_axis_off()


def above(values: Vector, floor: float) -> Vector:
    """Return the values >= 0 as a log axis can show them: zeros become `floor`, others stay in [1e-300, 1e300]."""
    return np.where(values > 0, values.clip(1e-300, 1e300), floor)


def log_axis(axes: "Axes", curves: Sequence[Vector], goal: float | None) -> float:
    """Give axes a log y scale that spans all curves and the goal in whole decades, and draw the goal; return the floor.

    The floor is the y at which zeros are drawn: a decade below all else, and marked 0; it is NaN if no value is zero.
    `goal` None: there is no goal.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    values = np.concatenate([np.asarray(curve, dtype=np.float64) for curve in curves])
    values = values[np.isfinite(values) & (values >= 0)]
    if not len(values):
        return np.nan
    goals = [goal] if goal is not None and 0 < goal < np.inf else []
    below = [one / 2.0 for one in goals]  # below a goal, which would lie on the axis otherwise
    decades = np.floor(np.log10(np.concatenate([values[values > 0].clip(1e-300, 1e300), below])))
    # up to 1 at least, so that what is tiny looks tiny
    low, high = (int(decades.min()), max(int(decades.max()) + 1, 0)) if len(decades) else (-16, 0)
    floor = 10.0 ** (low - 1) if (values == 0).any() else np.nan
    step = -(-(high - low) // _DECADES)
    ticks = [10.0**decade for decade in range(high, low - 1, -step) if step == 1 or decade > low - 1 + step // 2]
    axes.set_yscale("log")
    axes.set_ylim(10.0**low if np.isnan(floor) else floor, 10.0**high)
    axes.yaxis.set_major_locator(FixedLocator(ticks if np.isnan(floor) else [*ticks, floor]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(
        FuncFormatter(lambda tick, _: "0" if tick == floor else f"$\\mathdefault{{10^{{{round(np.log10(tick))}}}}}$")
    )
    for one in goals:
        goal_line(axes, one)
    return floor


def goal_line(axes: "Axes", goal: float) -> None:
    """Draw the y that is aimed at as a broken horizontal line with its number at the left."""
    axes.axhline(goal, color=GREEN, linewidth=1.2, linestyle="--", label="_goal")
    axes.annotate(
        f"goal {goal:.3g}", (0, goal), xycoords=("axes fraction", "data"), xytext=(4, 3), color=GREEN, fontsize=9,
        textcoords="offset points", ha="left", va="bottom",
    )  # fmt: skip


def _end(axes: "Axes", color: str, x: float, drawn: float, value: float, *, told: bool) -> None:
    """Mark the end of a curve at (x, drawn) with a dot and, if it is `told`, the number `value`.

    `drawn` is the floor of the axis if the value is 0.
    """
    axes.scatter([x], [drawn], s=36, color=color, edgecolors="white", linewidths=0.8, zorder=5, clip_on=False)
    if told:
        axes.annotate(
            f"{value:.2g}", (x, drawn), xytext=(7, 0), textcoords="offset points", color=color, fontsize=9, ha="left",
            va="center", annotation_clip=False,
        )  # fmt: skip


def _shows(presence: Matrix, history: Mapping[str, Vector]) -> bool:
    """Return whether to draw a presence raster, (n_rounds, K): a node was away, and there were communications."""
    x = np.asarray(history["communications"])
    return bool(len(x) > 1 and x[-1] > x[0] and (presence < 1).any())


def _raster(axes: "Axes", history: Mapping[str, Vector], presence: Matrix) -> None:
    """Draw a row per node over the communications: blue where the node took part, orange where it was away.

    Rows are hatched while the node is no member. `presence` has shape (n_rounds, K): 1 took part, 0.5 was a member and
    away, 0 was no member.
    """
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    x, rounds = np.asarray(history["communications"]), np.asarray(history["round"])
    n_rounds, n_nodes = presence.shape
    edges = np.interp(np.linspace(x[0], x[-1], 1 + min(n_rounds, _COLUMNS)), x, rounds)
    member, away = _shares(presence > 0, edges), _shares(presence == 0.5, edges)
    mix = np.divide(away, member, out=np.zeros_like(away), where=member > 0)[..., np.newaxis]
    colours = (1 - mix) * to_rgb(TINT) + mix * to_rgb(ORANGE)
    axes.patch.set(hatch="////", edgecolor=GREY, linewidth=0)
    extent = (x[0], x[-1], n_nodes - 0.5, -0.5)
    crisp = "nearest" if n_nodes <= _LABELLED else "antialiased"
    axes.imshow(np.dstack([colours, member]), extent=extent, aspect="auto", interpolation=crisp)
    axes.set_xlim(x[0], x[-1])
    head(axes, "who was there")
    axes.set_ylabel("node" if n_nodes <= _LABELLED else f"{n_nodes:,} nodes", color=INK)
    if n_nodes <= _RULED:
        axes.hlines(np.arange(1, n_nodes) - 0.5, x[0], x[-1], colors="white", linewidths=0.7)
    axes.set_yticks(range(0, n_nodes, -(-n_nodes // 16)) if n_nodes <= _LABELLED else [])
    axes.tick_params(labelcolor=INK, labelsize=7, length=0, labelbottom=False)
    axes.spines[:].set_visible(False)
    partly = " (paler: part of the time)" if n_rounds > _COLUMNS else ""
    keys = [Patch(color=TINT, label="there")]
    if (presence == 0.5).any():
        keys.append(Patch(color=ORANGE, label=f"away{partly}"))
    if (presence == 0).any():
        keys.append(Patch(facecolor="white", edgecolor=GREY, hatch="////", linewidth=0, label="not a member"))
    legend = axes.legend(handles=keys, frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1), labelcolor=INK)
    legend.set_in_layout(False)  # the place beside the raster is free


def _shares(flags: Flags, edges: Vector) -> Matrix:
    """Return the fraction of the rounds between successive edges in which a node's flag is set, (K, n_edges - 1).

    `flags` has shape (n_rounds, K) for K nodes, `edges` are numbers of rounds, ascending.
    """
    n_rounds = len(flags)
    sums = np.concatenate([np.zeros((1, flags.shape[1])), np.cumsum(flags, axis=0)])
    upto = np.array([np.interp(edges, np.arange(n_rounds + 1), column) for column in sums.T])
    return np.clip(np.diff(upto) / np.diff(edges), 0.0, 1.0)


def _layout(graph: nx.Graph) -> dict[Hashable, Vector]:
    """Return {node: array (x, y)}, the place of every node in a drawing: on a circle, around a hub, or by springs."""
    nodes = list(graph)
    K = len(nodes)
    tree = graph.number_of_edges() == K - 1
    if all(graph.has_edge(a, b) for a, b in pairwise(nodes if tree else nodes + nodes[:1])):
        return _circle(nodes)
    hubs = [node for node in nodes if graph.degree(node) == K - 1]
    if tree and hubs:
        return _circle([node for node in nodes if node != hubs[0]]) | {hubs[0]: np.zeros(2)}
    places: dict[Hashable, Vector] = nx.spring_layout(graph, seed=0)
    if K <= _STRAIGHTENED and nx.is_connected(graph):
        places = nx.kamada_kawai_layout(graph, pos=places)
    return places


def _circle(nodes: list[Hashable]) -> dict[Hashable, Vector]:
    """Return {node: array (x, y)}: the nodes evenly spaced on the unit circle, clockwise from the top."""
    angles = 2 * np.pi * np.arange(len(nodes)) / max(len(nodes), 1)
    return {node: np.array([np.sin(angle), np.cos(angle)]) for node, angle in zip(nodes, angles, strict=True)}


def training(
    histories: Sequence[Mapping[str, Vector]],
    *,
    path: Path | None = None,
    title: str | None = None,
    tol: float | None = None,
) -> "Figure":
    """Draw objective, relative gap and consensus violation against rounds (above) and bytes (below).

    Gap and violation have a log scale with a floor for 0; the end of each curve is marked.

    Parameters
    ----------
    histories : sequence of mapping of str to array
        `Result.history` of each fit; a classifier of several classes has one fit per class.
    path : str or path, optional
        File to write, whole or not at all: .png, .pdf, .svg or what else matplotlib knows; default: none.
    title : str, optional
        Heading of the figure; default: none.
    tol : float, optional
        `Result.tol`, the relative gap that was the goal: drawn as a line; default: none.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, which can be changed further.

    Raises
    ------
    ImportError
        matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, plot, solve
    >>> X = np.random.default_rng(0).normal(size=(30, 8))
    >>> result = solve(Problem.glm(X, X[:, 0], alpha=1.0), n_nodes=4)
    >>> figure = plot.training([result.history])
    >>> len(figure.axes)
    6
    """
    drawn = new_figure(10.5, 5.6)
    for column, label in enumerate(("objective", "duality gap, relative", "consensus violation")):
        for row, against in enumerate(("round", "bytes")):
            axes = drawn.add_subplot(2, 3, 3 * row + column + 1)
            if row == 0:
                head(axes, label)
            _draw_histories(axes, histories, ("objective", "gap", "consensus")[column], against, tol)
    return finish(drawn, path, title)


def _draw_histories(
    axes: "Axes", histories: Sequence[Mapping[str, Vector]], key: str, against: str, tol: float | None
) -> None:
    """Draw "objective", "gap" or "consensus" of each history against "round" or "bytes"; `tol` is the gap's goal."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    is_gap, is_log = key == "gap", key != "objective"
    curves = [_relative(one, key) if is_gap else np.asarray(one[key]) for one in histories]
    proofs = [_relative(one, "certificate") for one in histories if is_gap and "certificate" in one]
    floor = log_axis(axes, [*curves, *proofs], tol if is_gap else None) if is_log else np.nan
    for history, values in zip(histories, curves, strict=True):
        keep = np.isfinite(values) & ((values >= 0) | (not is_log))
        xs, ys = np.asarray(history[against])[keep], above(values[keep], floor) if is_log else values[keep]
        axes.plot(xs, ys, color=BLUE, linewidth=1.4, alpha=0.8, clip_on=False)
        axes.scatter(xs[-1:], ys[-1:], s=20, color=BLUE, zorder=5, clip_on=False)
    if is_gap:
        _draw_proofs(axes, histories, against, floor)
    axes.set_xlabel("rounds" if against == "round" else "bytes sent", color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], integer=True))
    if against == "bytes":
        axes.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: size(max(tick, 0.0))))
    plain_axes(axes)
    if key == "consensus":
        _say_agreed(axes, histories)


def _draw_proofs(axes: "Axes", histories: Sequence[Mapping[str, Vector]], against: str, floor: float) -> None:
    """Draw the relative gaps that nodes certified themselves, as points over the cost `against`; 0 at the y `floor`."""
    for history in histories:
        proven = _relative(history, "certificate") if "certificate" in history else np.zeros(0)
        keep = np.isfinite(proven) & (proven >= 0)
        if keep.any():
            xs, ys = np.asarray(history[against])[keep], above(proven[keep], floor)
            axes.plot(xs, ys, color=ORANGE, linestyle="", marker="o", markersize=4, clip_on=False)


def plain_axes(axes: "Axes") -> None:
    """Give axes a light grid and take away their frame, except at the left and below."""
    axes.grid(color=RULE, linewidth=0.7)
    axes.tick_params(color=GREY, labelcolor=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(GREY)
