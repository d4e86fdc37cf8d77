"""
One site in the wrong units
===========================

One of ten sites sends its outcomes in tenths: every number there is ten times too large. Nobody can look into its
table. Least squares believes it all and is far off everywhere; Huber's loss lets no patient pull harder than a limit,
and stays with the nine sites that are right.
"""

# %%
# Body mass index and the progression of diabetes, at ten sites. The last one uses other units.
import numpy as np
from sklearn.datasets import load_diabetes

import glmesh
from glmesh import plot
from glmesh.functions import HuberLoss

X, y = load_diabetes(return_X_y=True, scaled=False)
bmi = X[:, [2]] - 26
parts = list(zip(np.array_split(bmi, 10), np.array_split(y, 10), strict=True))
wrong = [*parts[:9], (parts[9][0], 10 * parts[9][1])]

# %%
# Three fits over a ring: with all units right, and with the mistake by both losses. A patient's pull is limited from
# 50 points on.
right = glmesh.GLMRegressor(loss="squared", alpha=0.0).fit_nodes(parts)
squares = glmesh.GLMRegressor(loss="squared", alpha=0.0).fit_nodes(wrong)
huber = glmesh.GLMRegressor(loss=HuberLoss(delta=50.0), alpha=0.0).fit_nodes(wrong)

# %%
# All patients, on a scale that has room for the mistaken ones.
figure, axes = plot.subplots(height=4.8)
red, blue, green, grey = (plot.COLOURS[name] for name in ("red", "blue", "green", "grey"))
for k, (own, target) in enumerate(wrong):
    axes.scatter(own + 26, target, s=13, color=red if k == 9 else grey, alpha=0.7, edgecolor="none")
line = np.linspace(-8, 16, 50)[:, None]
axes.plot(line + 26, right.predict(line), color="black", linewidth=5, alpha=0.25, label="as it should be")
axes.plot(line + 26, huber.predict(line), color=blue, linewidth=2, label="Huber")
axes.plot(line + 26, squares.predict(line), color=red, linewidth=2, label="least squares")
axes.text(18.3, 2900, "the site in tenths", color=red)
axes.text(38.5, 30, "nine other sites", color=plot.COLOURS["ink"], ha="right")
axes.set(yscale="log", ylim=(20, 4000), xlim=(17.5, 42.5), xlabel="body mass index [kg/m²]")
axes.set(yticks=[30, 100, 300, 1000, 3000], yticklabels=["30", "100", "300", "1000", "3000"])
axes.minorticks_off()
axes.set_title("progression of diabetes within a year [points]", loc="left")
plot.label_lines(axes)
