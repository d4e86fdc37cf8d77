"""Pictures: of matplotlib's (`convergence`, `topology`, `training`, `selection`) and of text (`curve`, `graph`).

For figures of one's own there are empty axes (`subplots`), names beside lines (`label_lines`), `style` and `COLOURS`.

Draws what it is given, arrays and graphs; knows no run and no method. Importing it does not import matplotlib.
"""

from glmesh.plot.axes import COLOURS, label_lines, style, subplots
from glmesh.plot.figures import convergence, topology, training
from glmesh.plot.paths import selection
from glmesh.plot.terminal import curve, graph

__all__ = [
    "COLOURS",
    "convergence",
    "curve",
    "graph",
    "label_lines",
    "selection",
    "style",
    "subplots",
    "topology",
    "training",
]
