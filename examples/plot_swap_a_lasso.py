"""
Swap a Lasso
============

``glmesh.Lasso`` takes the place of ``sklearn.linear_model.Lasso``, and so do its sisters: the same parameters, the
same objective, the same coefficients, learned by sixteen nodes of which none sees another's patients. Every dot lies
on the diagonal; the inset says how exactly.
"""

# %%
# 442 patients, ten measurements each, and how far their diabetes had gone a year later.
import numpy as np
from sklearn import linear_model
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

import glmesh
from glmesh import plot

X, y = load_diabetes(return_X_y=True)
X = scale(X)

# %%
# One word changes for each model: where the class comes from. The patients are dealt out to sixteen nodes on a ring,
# and each node talks to its two neighbours only.
models = {
    "Ridge": {"alpha": 100.0},
    "Lasso": {"alpha": 2.0},
    "ElasticNet": {"alpha": 0.5, "l1_ratio": 0.5},
}
pooled = {name: getattr(linear_model, name)(**options, tol=1e-10).fit(X, y) for name, options in models.items()}
apart = {name: getattr(glmesh, name)(**options).fit(X, y) for name, options in models.items()}
for name, model in apart.items():
    print(f"{name}: {model.result_.message}")

# %%
# Ten coefficients of each model, one fit against the other.
figure, axes = plot.subplots(height=5.0)
colours = dict(zip(models, ("blue", "orange", "green"), strict=True))
shapes = dict(zip(models, "osD", strict=True))
ends = (-13.5, 27)
axes.plot(ends, ends, color=plot.COLOURS["grey"], linewidth=1)
for name in models:
    style = {"color": plot.COLOURS[colours[name]], "marker": shapes[name], "edgecolor": "white", "linewidth": 0.6}
    axes.scatter(pooled[name].coef_, apart[name].coef_, s=55, zorder=3, **style)
names = ["age", "sex", "bmi", "blood pressure", "cholesterol", "LDL", "HDL", "chol./HDL", "triglycerides", "glucose"]
for j in (1, 2, 3):
    at = pooled["Lasso"].coef_[j], apart["Lasso"].coef_[j]
    axes.annotate(f"{names[j]}", at, xytext=(-9, 5), textcoords="offset points", ha="right")
zeros = np.sum([(pooled[name].coef_ == 0) & (apart[name].coef_ == 0) for name in models])
axes.annotate(f"{zeros} coefficients\nare 0 in both", (0, 0), xytext=(-9, 5), textcoords="offset points", ha="right")
axes.set(xlim=ends, ylim=ends, aspect="equal", xlabel="scikit-learn, data in one place", ylabel="glmesh, data apart")
axes.set_title("coefficients [points of progression per standard deviation]", loc="left", fontsize=10)

inset = axes.inset_axes((0.60, 0.11, 0.37, 0.25))
plot.style(inset)
for at, name in enumerate(models):
    most = np.abs(apart[name].coef_ - pooled[name].coef_).max()
    inset.plot([1e-15, most], [at, at], color=plot.COLOURS[colours[name]])
    inset.plot([most], [at], color=plot.COLOURS[colours[name]], marker=shapes[name], markersize=6)
    inset.text(2e-15, at + 0.22, name, color=plot.COLOURS[colours[name]], fontsize=9)
inset.set(xscale="log", xlim=(1e-15, 1), ylim=(-0.5, 2.9), yticks=[], xticks=[1e-12, 1e-6, 1])
inset.set_title("largest difference", loc="left", fontsize=9)
inset.grid(visible=False)
