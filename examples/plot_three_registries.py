"""
Three registries that know different things
===========================================

Not the patients are apart here but the columns: one registry has the mean of each measurement, one its standard
error, one its worst value. Each keeps its columns, all three learn one model, and for every patient one sees how much
each registry had to say, and that they can contradict each other.
"""

# %%
# The 30 columns of the breast cancer data come in three blocks of ten.
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

import glmesh
from glmesh import plot

data = load_breast_cancer()
X, malignant = scale(data.data), 1 - data.target
train, test, y_train, y_test = train_test_split(X, malignant, test_size=60, random_state=1, stratify=malignant)
registries = {"means": slice(0, 10), "standard errors": slice(10, 20), "worst values": slice(20, 30)}

# %%
# ``split="features"`` says that each part has columns of its own and that all have the same patients.
model = glmesh.LogisticRegression(split="features").fit_nodes(
    [(train[:, columns], y_train) for columns in registries.values()]
)
print(model.result_.message)

# %%
# What a registry contributes to a patient's log odds is a number that it can compute alone.
parts = {name: test[:, columns] @ model.coef_[0, columns] for name, columns in registries.items()}
score = np.sum(list(parts.values()), axis=0) + model.intercept_[0]
order = np.argsort(score)

# %%
# One column per patient: bars above zero speak for a malignant tumour. The dot is the verdict, filled if it is
# malignant in truth.
figure, axes = plot.subplots(height=4.6)
above, below = np.zeros(60), np.zeros(60)
for part, colour in zip(parts.values(), ("blue", "orange", "green"), strict=True):
    own = part[order]
    axes.bar(range(60), own, bottom=np.where(own > 0, above, below), color=plot.COLOURS[colour], width=1.0, alpha=0.85)
    above, below = above + own.clip(0), below + own.clip(None, 0)
ill = y_test[order] == 1
axes.scatter(np.flatnonzero(ill), score[order][ill], s=26, color="black", zorder=4)
axes.scatter(np.flatnonzero(~ill), score[order][~ill], s=26, color="white", edgecolor="black", zorder=4)
axes.axhline(0, color="black", linewidth=0.8)
figures_of = ((name, plot.COLOURS[colour]) for name, colour in zip(parts, ("blue", "orange", "green"), strict=True))
for line, (name, colour) in enumerate(figures_of):
    axes.text(0.03, 0.93 - 0.07 * line, name, color=colour, transform=axes.transAxes, fontweight="bold")
axes.text(0.03, 0.72, "● malignant  ○ benign: their sum", transform=axes.transAxes)
axes.set(xlim=(-0.7, 59.7), xticks=[], xlabel="60 patients whom no registry had learned from, by score")
axes.set_title("contribution to the log odds of a malignant tumour", loc="left")
axes.grid(visible=False, axis="x")
