"""
Digits, seen through eight slits
================================

Eight nodes look at handwritten digits, each through a slit one pixel wide: a node knows its column of every image,
and no node knows an image. Together they learn to read. The pictures are the coefficients, put together from the
eight slits: where ink speaks for a digit (blue) and where against it (red).
"""

# %%
# 1,797 images of 8 by 8 pixels. Half of them is kept for testing.
import numpy as np
from sklearn.datasets import load_digits

import glmesh
from glmesh import plot

digits = load_digits()
images, labels = digits.images / 16.0, digits.target
train, test = slice(0, 900), slice(900, None)

# %%
# Each part has a column of pixels of all images. One digit against the rest, ten times, in the same messages.
model = glmesh.LogisticRegression(C=0.1, split="features", multi_class="ovr", tol=1e-4)
model.fit_nodes([(images[train, :, column], labels[train]) for column in range(8)])
by_slits = images.transpose(0, 2, 1).reshape(len(images), 64)  # columns of pixels, one after the other
accuracy = model.score(by_slits[test], labels[test])
alone = [
    glmesh.LogisticRegression(C=0.1, multi_class="ovr", tol=1e-4, n_nodes=1, topology="path")
    .fit(images[train, :, column], labels[train])
    .score(images[test, :, column], labels[test])
    for column in range(8)
]
print(f"together {accuracy:.1%}, the best slit alone {max(alone):.1%}")

# %%
# The ten digits. A thin line shows where most writers leave ink; the grey lines are the borders of the slits.
figure, axes = plot.subplots(3, 4, height=4.9)
coefs = model.coef_.reshape(10, 8, 8).transpose(0, 2, 1)
most = np.abs(coefs).max()
axes[2, 2].text(0, 0.95, f"together\n{accuracy:.0%} right", color=plot.COLOURS["blue"], va="top", fontsize=13)
axes[2, 3].text(0, 0.95, f"best slit\nalone {max(alone):.0%}", color=plot.COLOURS["red"], va="top", fontsize=13)
for digit, panel in enumerate(axes.flat):
    panel.set_axis_off()
    if digit > 9:
        continue
    panel.imshow(coefs[digit], cmap="RdBu", vmin=-most, vmax=most)
    ink = np.pad(images[labels == digit].mean(axis=0), 1)  # closes the line where ink touches the edge
    panel.contour(np.arange(-1, 9), np.arange(-1, 9), ink, levels=[0.45], colors="black", linewidths=1.0)
    panel.set_title(f"{digit}", loc="left", pad=2)
    for border in np.arange(0.5, 7):
        panel.axvline(border, color=plot.COLOURS["grey"], linewidth=0.5)
