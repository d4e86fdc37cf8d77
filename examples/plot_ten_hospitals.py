"""
Ten hospitals, alone and together
=================================

Ten hospitals with 4 to 140 patients each want to tell malignant from benign tumours. Alone the small ones guess;
together, while no patient's record leaves its hospital, every one of them predicts as if the data had been pooled.
"""

# %%
# The hospitals are very unequal. Which patient comes to which is drawn twelve times, and a quarter is kept for
# testing.
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import scale

import glmesh
from glmesh import plot

X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
sizes = np.array([4, 5, 7, 10, 14, 20, 32, 70, 124, 140])


def error_alone(X_own, y_own, X_test, y_test):
    """Return the share of wrong predictions; a hospital that has seen one kind only predicts that kind."""
    if len(set(y_own)) == 1:
        return np.mean(y_test != y_own[0])
    return np.mean(y_test != LogisticRegression(solver="newton-cholesky").fit(X_own, y_own).predict(X_test))


# %%
# Each hospital alone; all of them together, on a ring; and the pooled fit, which nobody may make.
alone, together, pooled = [], [], []
for seed in range(12):
    train, test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    ends = np.cumsum(sizes)[:-1]
    hospitals = list(zip(np.split(train, ends), np.split(y_train, ends), strict=True))
    alone.append([error_alone(*own, test, y_test) for own in hospitals])
    mesh = glmesh.LogisticRegression(topology="ring").fit_nodes(hospitals)
    together.append(np.mean(y_test != mesh.predict(test)))
    pooled.append(np.mean(y_test != LogisticRegression(solver="newton-cholesky").fit(train, y_train).predict(test)))
alone = 100 * np.array(alone)
assert together == pooled  # to the last patient

# %%
# A pale dot is one draw, a full one the mean of twelve. The arrows are what each hospital wins by taking part.
figure, axes = plot.subplots(height=4.4)
blue, orange = plot.COLOURS["blue"], plot.COLOURS["orange"]
best = 100 * np.mean(together)
rng = np.random.default_rng(0)  # moves dots aside that would cover each other
axes.scatter(
    (sizes * (1 + 0.02 * rng.standard_normal((12, 10)))).ravel(),
    alone.ravel(),
    s=14,
    color=orange,
    alpha=0.35,
    edgecolor="none",
)
axes.scatter(sizes, alone.mean(axis=0), s=55, color=orange, edgecolor="white", zorder=4)
for size, mean in zip(sizes, alone.mean(axis=0), strict=True):
    axes.annotate(
        "", (size, best), xytext=(size, mean), arrowprops={"arrowstyle": "-|>", "color": blue, "linewidth": 1.4}
    )
axes.axhline(best, color=blue, linewidth=2.5)
axes.text(3.6, best - 0.4, f"all together: {best:.1f} %, as if pooled", color=blue, va="top")
axes.text(8, 27, "each alone", color=orange)
axes.set(xscale="log", xlim=(3.4, 185), ylim=(0, 40), xlabel="patients of the hospital", xticks=sizes[[0, 2, 4, 6, 8]])
axes.set_xticklabels([f"{size}" for size in sizes[[0, 2, 4, 6, 8]]])
axes.set_title("wrong diagnoses on new patients [%]", loc="left")
axes.minorticks_off()
