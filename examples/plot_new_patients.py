"""
New patients while all are learning
===================================

Ten hospitals have nearly learned from 300 patients when one of them is given 60 more, and later another one. The
answer is worse at once, because the question has changed; but what was learned is kept. A fit that begins anew (grey)
needs twice to three times as many sums to come as far.
"""

# %%
# The rows of the breast cancer data. Each arrival is a round, a hospital, and the rows that it is given.
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import glmesh
from glmesh import plot

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
arrivals = {10: (3, slice(300, 360)), 20: (7, slice(360, 420))}


def problem_of(n):
    """Return a logistic regression on the first n patients."""
    return glmesh.Problem.glm(X[:n], y[:n], loss="logistic", alpha=1.0, split="samples")


def follow(n, rounds, news):
    """Begin with n patients, go on for some rounds, and return the distance from the best objective at each round."""
    curve, best = [], glmesh.solve(problem_of(n), n_nodes=10, tol=1e-13).objective
    with glmesh.Run(problem_of(n), n_nodes=10) as run:
        while run.rounds < rounds:
            if run.rounds in news:
                node, rows = news[run.rounds]
                run.add_columns(node, X[rows], y[rows])
                best = glmesh.solve(problem_of(rows.stop), n_nodes=10, tol=1e-13).objective
            next(run)
            curve.append(run.measure().objective / best - 1)
    return curve


# %%
# Newton's method on totals is the default where hospitals hold rows: a round is one sum over all hospitals.
goes_on = follow(300, 27, arrivals)
anew = {10: follow(360, 10, {}), 20: follow(420, 7, {})}
print(f"before and after the first arrival: {goes_on[9]:.0e}, {goes_on[10]:.0e}; four rounds later {goes_on[13]:.0e}")

# %%
# Below is better; the floor is rounding.
figure, axes = plot.subplots(height=4.6)
blue, grey, red = plot.COLOURS["blue"], plot.COLOURS["grey"], plot.COLOURS["red"]
for at, curve in anew.items():
    axes.plot(at + 1 + np.arange(len(curve)), np.maximum(curve, 1e-15), color=grey, marker="o", markersize=4)
    node, rows = arrivals[at]
    axes.axvline(at + 0.5, color=red, linewidth=1.2, linestyle=":")
    axes.text(at + 0.3, 1e3, f"{rows.stop - rows.start} patients at\nhospital {node}", color=red, ha="right", va="top")
axes.plot(1 + np.arange(len(goes_on)), np.maximum(goes_on, 1e-15), color=blue, marker="o", markersize=5, linewidth=2.2)
axes.text(7.2, 1e-7, "one run,\nwhich goes on", color=blue, ha="right", va="top")
axes.text(16.2, 0.1, "begun anew", color=grey)
axes.set(yscale="log", xlim=(0.5, 27.5), ylim=(3e-16, 3e3), xlabel="rounds, each a sum over all hospitals")
axes.set_title("distance from the best objective, relative", loc="left")
axes.minorticks_off()
