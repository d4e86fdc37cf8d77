"""
The karate club learns
======================

Zachary's karate club: 34 people, and who talks to whom. Every member gets two columns of a table that nobody sees as
a whole, and they fit a model by talking to friends alone. Agreement grows in the middle of the club and reaches the
edge last; after 64 rounds everybody knows what all columns together predict, to about a hundredth.
"""

# %%
# The club comes with networkx; 200 patients with 68 features are made up.
import networkx as nx
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm

import glmesh
from glmesh import plot

club = nx.karate_club_graph()
rng = np.random.default_rng(3)
X = rng.normal(size=(200, 68))
y = X @ rng.normal(size=68) + rng.normal(size=200)
problem = glmesh.Problem.glm(X, y, alpha=20.0)

# %%
# Every member has an estimate of the predictions for all patients, and averages it with the estimates of friends. How
# far is it from what all columns together predict at that moment?
rounds = [1, 4, 8, 16, 32, 64]
apart = {}
method = glmesh.Cola(acceleration="momentum")
with glmesh.Run(problem, topology=club, method=method) as run:
    while run.rounds < rounds[-1]:
        t, together = next(run), run.product(run.x)
        apart[t] = np.linalg.norm(run.estimates - together, axis=1) / np.linalg.norm(together)

# %%
# The same club six times. Dark is far from agreement, yellow is near.
figure, axes = plot.subplots(3, 2, height=7.4)
places = nx.kamada_kawai_layout(club)
points = np.array([places[node] for node in club])
lines = [(places[a], places[b]) for a, b in club.edges()]
scale = LogNorm(1e-2, 10)
for panel, t in zip(axes.flat, rounds, strict=True):
    panel.add_collection(LineCollection(lines, colors=plot.COLOURS["grey"], linewidths=0.5, zorder=1))
    drawn = panel.scatter(*points.T, c=apart[t], cmap="viridis_r", norm=scale, s=75, edgecolor="white", zorder=2)
    panel.set_title(f"round {t}", loc="left")
    panel.set_axis_off()
figure.colorbar(
    drawn,
    ax=axes,
    location="bottom",
    shrink=0.8,
    aspect=40,
    label="distance from what all predict together, relative",
)
arrow = {"arrowstyle": "-", "color": plot.COLOURS["ink"], "linewidth": 0.8, "shrinkB": 4}
for node, name, at in ((0, "Mr. Hi", (0.02, 0.92)), (33, "the officer", (0.72, 0.02))):
    axes[0, 0].annotate(name, points[node], at, textcoords="axes fraction", arrowprops=arrow, fontsize=9)
