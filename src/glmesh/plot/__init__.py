"""Pictures: of matplotlib's (`convergence`, `topology`, `training`, `selection`) and of text (`curve`, `graph`).

Draws what it is given, arrays and graphs; knows no run and no method. Importing it does not import matplotlib.
"""

from glmesh.plot.figures import convergence, topology, training
from glmesh.plot.paths import selection
from glmesh.plot.terminal import curve, graph

__all__ = ["convergence", "curve", "graph", "selection", "topology", "training"]
