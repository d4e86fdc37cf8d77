"""
Blocks that switch on
=====================

Each measurement may act in a straight line, with a bend, or with two; that makes a block of three coefficients. A
group Lasso takes or leaves whole blocks. As the penalty falls, measurement after measurement switches on, each in the
network that holds it: a node has all columns of its own measurements and no others.
"""

# %%
# Nine measurements (sex has no bends), each with its square and cube made orthogonal to what came before.
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

import glmesh
from glmesh import plot
from glmesh.functions import GroupLasso

data, y = load_diabetes(return_X_y=True, scaled=False)
names = ["age", "sex", "bmi", "blood pressure", "cholesterol", "LDL", "HDL", "chol./HDL", "triglycerides", "glucose"]
data, names = np.delete(data, 1, axis=1), [name for name in names if name != "sex"]
blocks = [np.sqrt(len(y)) * np.linalg.qr(np.vander(scale(column), 4, increasing=True))[0][:, 1:] for column in data.T]

# %%
# One part per measurement, and so nine nodes; all know the outcome. The penalty is the sum of the blocks' norms.
penalty = [GroupLasso(np.zeros(3, dtype=int))] * 9
parts = [(block, y - y.mean()) for block in blocks]
strongest = max(np.linalg.norm(block.T @ (y - y.mean())) for block in blocks)
alphas = strongest * np.geomspace(0.98, 0.01, 40)
norms, start = [], None
for alpha in alphas:
    problem = glmesh.Problem.from_nodes(parts, penalty=penalty, alpha=alpha, split="features")
    start = glmesh.solve(problem, topology="ring", tol=1e-5, warm_start=start, record_every=5)
    norms.append(np.linalg.norm(start.coef.reshape(9, 3), axis=1))
norms = np.array(norms)

# %%
# Each row is a measurement, in the order in which they switch on. White is exactly zero.
figure, axes = plot.subplots(height=4.4)
first = np.argmax(norms > 1e-9, axis=0)
order = np.lexsort((-norms[-1], first))
shown = np.where(norms > 1e-9, norms, np.nan).T[order]
edges = np.geomspace(0.98, 0.01, 41)
drawn = axes.pcolormesh(edges, np.arange(10), shown, cmap="viridis_r")
axes.hlines(np.arange(1, 9), 0.01, 0.98, color="white", linewidth=2)
axes.set(xscale="log", yticks=np.arange(9) + 0.5, yticklabels=[names[j] for j in order], xlim=(0.98, 0.01))
axes.set_xlabel("penalty, as a part of the one that switches all off")
axes.invert_yaxis()
axes.minorticks_off()
axes.set_title("norm of a measurement's three coefficients", loc="left")
figure.colorbar(drawn, ax=axes, pad=0.02, label="points of progression")
axes.grid(visible=False)
