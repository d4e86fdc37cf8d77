"""
Survival at three hospitals
===========================

Cox's proportional hazards, without a risk set that crosses a door: every hospital has a baseline of its own, and only
sums over its risk sets leave it. The model sorts the patients of every hospital into three groups; the curves, which
are plain counts, show how well.
"""

# %%
# The invented tables of three hospitals, as ``glmesh demo --files DIR`` writes them, with text and gaps.
import tempfile

import numpy as np
import pandas as pd

import glmesh
from glmesh import plot
from glmesh.cli.demo_files import write

with tempfile.TemporaryDirectory() as folder:
    tables = {path.stem: pd.read_csv(path) for path in write(folder)}

# %%
# The response is a time, and whether the patient died then or was alive when last seen. Every table is a stratum.
formula = "Surv(days, died) ~ age + bmi + systolic + stays + C(smoker, Treatment('never'))"
model = glmesh.CoxRegressor.from_formula(formula, tables)
print(model.summary(exponentiate=True))


# %%
# Kaplan and Meier's curve is the product, over days on which somebody dies, of the share who live on.
def kaplan_meier(days, died):
    """Return days, and the share of patients who are alive after each of them."""
    at = np.unique(days[died == 1])
    lives_on = [1 - np.sum((days == day) & (died == 1)) / np.sum(days >= day) for day in at]
    return np.concatenate([[0], at, [365]]), np.concatenate([[1.0], np.cumprod(lives_on), [np.prod(lives_on)]])


figure, axes = plot.subplots(3, 1, height=7.6, sharex=True)
known = {name: table.dropna() for name, table in tables.items()}
cuts = np.quantile(model.predict(pd.concat(known)), [1 / 3, 2 / 3])
for panel, (name, table) in zip(axes, known.items(), strict=True):
    group = np.searchsorted(cuts, model.predict(table))
    days, died = table["days"].to_numpy(), table["died"].to_numpy()
    for k, (risk, colour) in enumerate((("low", "green"), ("middle", "blue"), ("high", "red"))):
        own = group == k
        at, share = kaplan_meier(days[own], died[own])
        panel.step(at, 100 * share, where="post", color=plot.COLOURS[colour], linewidth=2, label=f"{risk} risk")
    panel.set(xlim=(0, 365), ylim=(0, 100), yticks=[0, 25, 50, 75, 100])
    panel.set_title(f"{name}: alive [%]", loc="left")
axes[2].set(xlabel="days", xticks=[0, 90, 180, 270, 365])
for panel in axes:
    plot.label_lines(panel)
