"""
Visits, and how long there was to make them
===========================================

How often does a patient come? Some were followed for a year, some died after a month, and who is ill comes often and
dies early. A Poisson regression with the time at risk as an exposure gets the rates right (dots on the line). One
that forgets it believes that the sickest come half as often as they do.
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
    tables = [pd.read_csv(path) for path in write(folder)]
for table in tables:
    table["log_years"] = np.log(table["days"] / 365)

# %%
# The logarithm of the years at risk is an offset: a column whose coefficient is 1.
formula = "visits ~ age + bmi + stays + C(smoker, Treatment('never'))"
model = glmesh.GLMRegressor.from_formula(formula, tables, family="poisson", offset="log_years")
forgetful = glmesh.GLMRegressor.from_formula(formula, tables, family="poisson")
print(model.summary(exponentiate=True))

# %%
# Patients are put in ten groups by the rate that the model expects; each group is a dot.
patients = pd.concat(tables).dropna()
visits, years = patients["visits"].to_numpy(), patients["days"].to_numpy() / 365
with_exposure, without = model.predict(patients.assign(log_years=0.0)), forgetful.predict(patients)
group = np.searchsorted(np.quantile(with_exposure, np.linspace(0, 1, 11)[1:-1]), with_exposure)
time = np.array([years[group == k].sum() for k in range(10)])
seen = np.array([visits[group == k].sum() for k in range(10)])
expected = [
    [np.average(rates[group == k], weights=years[group == k]) for k in range(10)] for rates in (with_exposure, without)
]

# %%
# Rates on both axes, with 95 % intervals of what was seen.
figure, axes = plot.subplots(height=5.0)
axes.plot([0.5, 3], [0.5, 3], color=plot.COLOURS["grey"], linewidth=1)
for rates, colour in zip(expected, ("blue", "red"), strict=True):
    spread = 1.96 * np.sqrt(seen) / time
    axes.errorbar(rates, seen / time, yerr=spread, fmt="o", color=plot.COLOURS[colour], markersize=7, elinewidth=1)
axes.set(xscale="log", yscale="log", xlim=(0.5, 2.7), ylim=(0.5, 2.7), aspect="equal")
axes.set_xticks([0.5, 1, 2], ["0.5", "1", "2"])
axes.set_yticks([0.5, 1, 2], ["0.5", "1", "2"])
axes.text(0.98, 2.3, "without\nthe exposure", color=plot.COLOURS["red"], ha="right", va="top")
axes.text(1.65, 1.25, "with the\nexposure", color=plot.COLOURS["blue"], va="top")
axes.set_xlabel("visits a year that the model expects")
axes.set_title("visits a year, as seen in ten groups of patients", loc="left", fontsize=10)
axes.minorticks_off()
