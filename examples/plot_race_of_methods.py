"""
A race of methods
=================

The same logistic regression on the same ring of sixteen nodes, by nine methods: those of the literature, their steps
tuned on this very problem, and ours. Left is better, because a node waits for its neighbours far longer than for its
processor.
"""

# %%
# 569 patients of the breast cancer data, dealt out to sixteen nodes.
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

import glmesh
from glmesh import Cola, plot
from glmesh.methods import DAdmm, Dapg, Dgd, Diging, Extra, Nids

X, y = load_breast_cancer(return_X_y=True)
problem = glmesh.Problem.glm(scale(X), y, loss="logistic", alpha=1.0, split="samples")

# %%
# ``"auto"`` tries step sizes out beforehand, for free. Nobody could do that in a real network.
theirs = {
    "DGD": Dgd("auto"),
    "DIGing": Diging("auto"),
    "EXTRA": Extra("auto"),
    "NIDS": Nids("auto"),
    "D-ADMM": DAdmm("auto"),
    "DAPG": Dapg(),
    "CoLA as published": Cola.printed(),
}
ours = {"ours, vectors only": Cola(acceleration="momentum"), "ours, by default": None}
most = 400  # communications
curves = {}
best = glmesh.solve(problem, tol=1e-13).objective
for name, method in (theirs | ours).items():
    run = glmesh.Run(problem, n_nodes=16, method=method)
    at, above = [], []
    while run.communications < most and not (above and above[-1] < 1e-13):
        next(run)
        at.append(run.communications)
        above.append(max(run.measure().objective / best - 1, 1e-15))
    curves[name] = at, above
    print(
        f"{name:20} {above[-1]:.0e} above the best after {run.communications} communications, {run.bytes / 1e6:.1f} MB"
    )

# %%
# Every line begins at the first model that all nodes have.
figure, axes = plot.subplots(height=5.2)
blue, grey = plot.COLOURS["blue"], plot.COLOURS["grey"]
for name, (at, above) in curves.items():
    axes.plot(at, above, label=name, color=blue if name in ours else grey, linewidth=2.6 if name in ours else 1.2)
axes.set(yscale="log", xlim=(0, most), ylim=(1e-10, 10), xlabel="communications that a node waited for")
axes.minorticks_off()
axes.text(100, 1e-8, "ours, by default", color=blue)
axes.set_title("distance from the best objective, relative", loc="left")
plot.label_lines(axes)
