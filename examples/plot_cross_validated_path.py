"""
A path, and where to stop on it
===============================

How strong should the penalty of a Lasso be? The nodes try thirty weights on five folds each, inside every node, in as
many messages as one fit takes. Above, coefficients enter one by one as the penalty falls; below, the error on
patients that were held out says where to stop.
"""

# %%
# Ten measurements of 442 diabetes patients, dealt out to eight nodes.
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

import glmesh
from glmesh import plot

X, y = load_diabetes(return_X_y=True)
X = scale(X)
names = ["age", "sex", "bmi", "pressure", "cholesterol", "LDL", "HDL", "chol./HDL", "triglycerides", "glucose"]

# %%
# The folds of a cross-validation travel together, and so do the weights of a path.
model = glmesh.LassoCV(alphas=60, eps=1e-3, cv=5, n_nodes=8).fit(X, y)
alphas, coefs, gaps = glmesh.lasso_path(X, y, alphas=60, eps=1e-3, n_nodes=8, fit_intercept=True)
print(f"alpha {model.alpha_:.3g} of {len(model.alphas_)}, in {model.communications_} communications")

# %%
# The penalty falls from left to right.
figure, (above, below) = plot.subplots(2, height=6.2, sharex=True, gridspec_kw={"height_ratios": [2, 1]})
red, grey, blue = plot.COLOURS["red"], plot.COLOURS["grey"], plot.COLOURS["blue"]
chosen = int(np.argmin(np.abs(alphas - model.alpha_)))
for name, line in zip(names, coefs, strict=True):
    kept = line[chosen] != 0
    above.plot(alphas, line, label=name, linewidth=2 if kept else 1.2, linestyle="-" if kept else (0, (4, 2)))
above.set_title("coefficients [points of progression per standard deviation]", loc="left", fontsize=10)
below.plot(model.alphas_, np.sqrt(model.mse_path_), color=grey, linewidth=0.8)
below.plot(model.alphas_, np.sqrt(model.mse_path_.mean(axis=1)), color=blue, linewidth=2.2)
below.set_title("error on held-out patients, root mean square [points]", loc="left", fontsize=10)
below.text(1.0, 57.5, "each fold", color=grey)
below.text(20, 66, "their mean", color=blue)
for axes in (above, below):
    axes.axvline(model.alpha_, color=red, linewidth=1.4, linestyle=(0, (5, 3)))
    axes.set(xscale="log", xlim=(alphas[0], alphas[-1]))
    axes.minorticks_off()
below.annotate(
    f"best: {model.alpha_:.2f}",
    (model.alpha_, below.get_ylim()[1]),
    (-5, -5),
    textcoords="offset points",
    ha="right",
    va="top",
    color=red,
)
below.set_xlabel("alpha, the weight of the penalty")
plot.label_lines(above)
