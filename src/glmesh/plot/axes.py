"""A figure of one's own in the style of the gallery: empty axes, and the names of lines beside them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glmesh.plot.figures import INK, new_figure, plain_axes
from glmesh.types import Vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# the colours of Okabe and Ito (jfly.uni-koeln.de/color), which people with a colour vision deficiency can tell apart
COLOURS = {
    "blue": "#0072B2",
    "orange": "#E69F00",
    "green": "#009E73",
    "red": "#D55E00",
    "pink": "#CC79A7",
    "sky": "#56B4E9",
    "black": "#000000",
    "yellow": "#F0E442",  # too pale for lines and text
    "ink": INK,
    "grey": "#6b7580",  # dark enough for text
}


def subplots(
    rows: int = 1, columns: int = 1, *, width: float = 5.4, height: float = 4.0, **options: Any
) -> "tuple[Figure, Any]":
    """Return an empty figure and its axes, in the style of the gallery, without pyplot.

    Axes have a light grid and no box, and draw lines in the colours of Okabe and Ito. At the default width text can
    still be read on a phone.

    Parameters
    ----------
    rows, columns : int, default 1
        Axes below and beside each other.
    width, height : float, default 5.4 and 4.0
        Size of the figure, in inches.
    **options
        Options of matplotlib's `Figure.subplots`, such as sharex, or gridspec_kw.

    Returns
    -------
    figure : matplotlib.figure.Figure
        The figure, with constrained layout.
    axes : matplotlib.axes.Axes, or array of Axes
        One of them, or an array as of `Figure.subplots`.

    Raises
    ------
    ImportError
        matplotlib is not installed.

    Examples
    --------
    >>> from glmesh import plot
    >>> figure, axes = plot.subplots()
    >>> lines = axes.plot([1, 2, 3], label="a line")
    >>> lines[0].get_color() == plot.COLOURS["blue"]
    True
    """
    figure = new_figure(width, height)
    axes = figure.subplots(rows, columns, **options)
    for one in np.ravel(axes):
        style(one)
    return figure, axes


def style(axes: "Axes") -> None:
    """Give axes the style of the gallery: a light grid, no box, and lines in the colours of Okabe and Ito.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Axes, mostly with nothing drawn yet.

    Examples
    --------
    >>> from glmesh import plot
    >>> figure, axes = plot.subplots()
    >>> inset = axes.inset_axes((0.6, 0.6, 0.3, 0.3))
    >>> plot.style(inset)
    >>> inset.spines["top"].get_visible()
    False
    """
    axes.set_prop_cycle(color=list(COLOURS.values())[:7])
    axes.set_axisbelow(True)
    for loc in ("left", "center", "right"):
        axes.set_title("", loc=loc, fontsize="medium", color=INK)
    plain_axes(axes)


def label_lines(axes: "Axes", *, size: float = 10.0, names: "Sequence[str] | None" = None) -> None:
    """Write each line's label at its right end, in its colour, instead of a legend.

    Labels of lines that end at the right edge stand outside of the axes, and move apart where they collide. Call it
    last: it goes by the limits that the axes then have.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Axes whose lines have labels; those without, and those that end outside of the axes, are left out.
    size : float, default 10.0
        Size of the text, in points.
    names : sequence of str, optional
        Labels to write; default: those of all lines.

    Examples
    --------
    >>> from glmesh import plot
    >>> figure, axes = plot.subplots()
    >>> _ = axes.plot([0, 1], [0, 1], label="ours"), axes.plot([0, 1], [0, 1.01], label="theirs")
    >>> plot.label_lines(axes)
    >>> [text.get_text() for text in axes.texts]
    ['ours', 'theirs']
    """
    figure = axes.figure.figure  # the whole, also of a subfigure
    figure.draw_without_rendering()  # the layout decides how high the axes are
    inside: list[tuple[float, float, str, object]] = []  # (y, x, label, colour), x and y as parts of the axes
    edge: list[tuple[float, float, str, object]] = []
    for line in axes.lines:
        label, points = str(line.get_label()), np.asarray(line.get_xydata(), dtype=np.float64)
        points = points[np.isfinite(points).all(axis=1)]
        if label.startswith("_") or (names is not None and label not in names) or not len(points):
            continue
        x, y = axes.transAxes.inverted().transform(axes.transData.transform(points[-1]))
        if -0.01 <= y <= 1.01:
            (edge if x > 0.98 else inside).append((float(y), min(float(x), 1.0), label, line.get_color()))
    edge.sort(key=lambda end: end[0])
    line_height = 1.25 * size / 72 * figure.dpi / axes.get_window_extent().height
    heights = [*(y for y, *_ in inside), *moved_apart([y for y, *_ in edge], line_height)]
    for (y, x, label, colour), height in zip([*inside, *edge], heights, strict=True):
        moved = abs(height - y) > 1e-3
        axes.annotate(
            label,
            (x, y),
            xytext=(x + 0.03, height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            color=colour,
            fontsize=size,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 0}
            if moved
            else None,
        )


def moved_apart(heights: Sequence[float], least: float) -> Vector:
    """Return heights that are `least` apart and nearest to the given ones, which ascend, in the sum of squares.

    With k * least taken off the k-th, these are the nearest ascending numbers: neighbours that are out of order are
    pooled into their mean.
    """
    pools: list[tuple[float, int]] = []  # (mean, how many)
    for k, height in enumerate(heights):
        mean, count = height - k * least, 1
        while pools and pools[-1][0] > mean:
            before, many = pools.pop()
            mean, count = (before * many + mean * count) / (many + count), many + count
        pools.append((mean, count))
    means: Vector = np.array([mean for mean, count in pools for _ in range(count)])
    return means + least * np.arange(len(heights))
