"""
What to expect, and how sure to be
==================================

A mean says what to expect of a patient, and not how far off it may be. Three quantile regressions, fitted by eight
hospitals together, say between which values eight in ten patients will be. The higher the body mass index, the wider
the band: an average alone would have hidden that.
"""

# %%
# Eight hospitals with 55 patients each; one straight line for each quantile.
import numpy as np
from sklearn.datasets import load_diabetes

import glmesh
from glmesh import plot
from glmesh.functions import QuantileLoss

X, y = load_diabetes(return_X_y=True, scaled=False)
bmi = X[:, [2]]
hospitals = list(zip(np.array_split(bmi, 8), np.array_split(y, 8), strict=True))

# %%
# Each quantile is a fit of its own: losses with a kink are solved by an interior-point method on totals.
levels = [0.1, 0.5, 0.9]
models = {level: glmesh.GLMRegressor(loss=QuantileLoss(level), alpha=0.0).fit_nodes(hospitals) for level in levels}
grid = np.array([[18.0], [42.0]])
low, middle, high = (models[level].predict(grid) for level in levels)
below = [np.mean(y < models[level].predict(bmi)) for level in levels]

# %%
# The band, and who is outside of it.
figure, axes = plot.subplots(height=4.6)
blue, red, grey = plot.COLOURS["blue"], plot.COLOURS["red"], plot.COLOURS["grey"]
outside = (y < models[0.1].predict(bmi)) | (y > models[0.9].predict(bmi))
axes.fill_between(grid[:, 0], low, high, color=blue, alpha=0.15, linewidth=0)
axes.scatter(bmi[~outside], y[~outside], s=14, color=blue, alpha=0.55, edgecolor="none")
axes.scatter(bmi[outside], y[outside], s=16, color=red, alpha=0.8, edgecolor="none")
for curve, level, share, width in zip((low, middle, high), levels, below, (1.2, 2.4, 1.2), strict=True):
    axes.plot(grid, curve, color=blue, linewidth=width, label=f"{share:.0%} are below" if level != 0.5 else "half")
axes.set(xlim=(17.5, 42), ylim=(0, 450), xlabel="body mass index [kg/m²]")
axes.set_title("progression of diabetes within a year [points]", loc="left")
axes.text(18.2, 420, f"{outside.mean():.0%} of the patients lie outside", color=red)
plot.label_lines(axes)
