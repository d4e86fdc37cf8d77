"""
Reading the proof
=================

A run tells two stories: how far the answer is from the best one, which nobody in the network can know, and how far it
is *at most*, which every node proves from its neighbours' messages. The proof never lies below the truth, and the run
ends when the proof, not the truth, reaches the goal.
"""

# %%
# A Lasso on 442 patients and 65 features (ten measurements, their squares and products), split by features: each of
# 16 nodes knows four or five columns of the table and no other.
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import PolynomialFeatures, scale

import glmesh
from glmesh import plot

X, y = load_diabetes(return_X_y=True)
X = scale(PolynomialFeatures(2, include_bias=False).fit_transform(scale(X)))
y = y - y.mean()
problem = glmesh.Problem.glm(X, y, penalty="l1", alpha=np.abs(X.T @ y).max() / 20)

# %%
# The run that proves its answer, with momentum, which sends a vector each round.
goal = 1e-5
method = glmesh.Cola(acceleration="momentum")
result = glmesh.solve(problem, method=method, n_nodes=16, tol=goal, stop="certificate")
print(result.message)

# %%
# For the truth a second fit goes on until nothing is left to improve.
best = glmesh.solve(problem, method=glmesh.Cola(acceleration="sums"), n_nodes=16, tol=1e-13).objective
rounds, truth = result.history["round"], np.maximum(result.history["objective"] / best - 1, 1e-12)
known = np.isfinite(result.history["certificate"])
proven = result.history["certificate"][known] / result.history["objective"][known]

# %%
# What is between the two curves is the price of a proof that needs nobody who sees everything.
figure, axes = plot.subplots(height=4.4)
blue, orange, green = plot.COLOURS["blue"], plot.COLOURS["orange"], plot.COLOURS["green"]
upper = 10 ** np.interp(rounds, rounds[known], np.log10(proven), left=np.nan)
axes.fill_between(rounds, truth, upper, color=plot.COLOURS["sky"], alpha=0.25, linewidth=0)
axes.plot(rounds, truth, color=blue, linewidth=2)
axes.plot(rounds[known], proven, color=orange, marker="o", markersize=4)
axes.axhline(goal, color=green, linewidth=1.2, linestyle=(0, (5, 3)))
axes.plot([rounds[-1]], [proven[-1]], color=orange, marker="o", markersize=10)
end = int(rounds[-1])
axes.annotate(
    f"round {end}: all nodes\nknow, and stop",
    (end, proven[-1]),
    xytext=(-8, 60),
    textcoords="offset points",
    ha="right",
    arrowprops={"arrowstyle": "-", "color": plot.COLOURS["ink"], "linewidth": 0.7},
)
axes.text(0, goal / 1.5, f"goal {goal:g}", color=green, va="top")
axes.text(190, 0.1, "proven by every node", color=orange)
axes.text(8, 3e-7, "the truth, which\nnobody in the\nnetwork knows", color=blue, va="top")
axes.set(yscale="log", ylim=(1e-9, 10), xlim=(0, 1.04 * end), xlabel="rounds")
axes.set_title("distance from the best objective, relative", loc="left")
axes.minorticks_off()
