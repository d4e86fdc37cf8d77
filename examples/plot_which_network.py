"""
Which network?
==============

The same Lasso over sixteen nodes, seven ways to connect them. More links mean fewer rounds to wait for and more bytes
to send: between the path, where news take fifteen rounds from end to end, and the complete graph a torus or a
hypercube is the bargain. A star has few links, but all of them end at one node.
"""

# %%
# Made-up data: 64 features, four for each node, of which eight matter.
import networkx as nx
import numpy as np
from matplotlib.collections import LineCollection

import glmesh
from glmesh import plot

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 64))
y = X[:, :8] @ rng.normal(size=8) + 0.5 * rng.normal(size=300)
problem = glmesh.Problem.glm(X, y, penalty="l1", alpha=30.0)

# %%
# On each network the objective must come within a millionth of the best.
names = ["path", "ring", "star", "grid", "torus", "hypercube", "complete"]
method = glmesh.Cola(acceleration="momentum")
results = {name: glmesh.solve(problem, method=method, topology=name, n_nodes=16, tol=1e-6) for name in names}
for name, result in results.items():
    print(f"{name:10} {result.message}")


# %%
# Each row is a network, the rounds it takes, and the bytes that travel.
def places(name, graph):
    """Return {node: (x, y)} for the drawing of a network."""
    if name == "path":
        return {node: (np.cos(0.7 * node), node / 8 - 1) for node in graph}
    if name == "grid":
        return {node: (node % 4 / 1.5 - 1, node // 4 / 1.5 - 1) for node in graph}
    return nx.shell_layout(graph, [[0], range(1, 16)], scale=2) if name == "star" else nx.circular_layout(graph)


figure, axes = plot.subplots(7, 3, height=7.0, gridspec_kw={"width_ratios": [1.0, 2, 2]})
blue, orange, grey = plot.COLOURS["blue"], plot.COLOURS["orange"], plot.COLOURS["grey"]
most = {key: max(getattr(result, key) for result in results.values()) for key in ("rounds", "bytes")}
axes[0, 1].set_title("rounds", loc="left")
axes[0, 2].set_title("sent, in all", loc="left")
for row, (name, result) in zip(axes, results.items(), strict=True):
    graph = glmesh.topology.build(name, 16)
    at = places(name, graph)
    row[0].add_collection(LineCollection([(at[a], at[b]) for a, b in graph.edges()], colors=grey, linewidths=0.7))
    row[0].scatter(*np.array(list(at.values())).T, s=14, color=blue, zorder=3)
    row[0].set(aspect="equal", xlim=(-1.15, 1.15), ylim=(-1.15, 1.15))
    row[0].set_axis_off()
    shown = {"rounds": (f"{result.rounds:,}", blue), "bytes": (f"{result.bytes / 1e6:.0f} MB", orange)}
    for axis, (key, (text, colour)) in zip(row[1:], shown.items(), strict=True):
        axis.barh([0], [getattr(result, key)], color=colour, height=0.55)
        axis.text(getattr(result, key) + 0.03 * most[key], 0, text, va="center")
        axis.set(xlim=(0, 1.35 * most[key]), ylim=(-0.6, 0.9))
        axis.set_axis_off()
    row[1].text(0, 0.42, name, color=plot.COLOURS["ink"])
