"""
Three hospitals, one table, and its forest plot
===============================================

Who comes back within a year? Three hospitals fit a logistic regression together and get the table that every
biostatistician knows, with standard errors and intervals: that of the pooled data, digit by digit, with a proof of
how near it is. The picture shows what it is worth: each hospital alone (thin) is far less certain, and they
contradict each other.
"""

# %%
# ``glmesh demo --files DIR --raw`` writes three invented tables as hospitals have them: each with another order of
# columns, and with gaps. Here patients with a gap are left out.
import tempfile

import numpy as np
import pandas as pd

import glmesh
from glmesh import plot
from glmesh.cli.demo_files import write_raw

with tempfile.TemporaryDirectory() as folder:
    tables = {path.stem: pd.read_csv(path).dropna() for path in write_raw(folder)}


# %%
# Each hospital makes numbers of its own table, in steps that are worth talking about.
def prepared(table):
    """Return a hospital's part: its patients' features, and who was readmitted."""
    X = pd.DataFrame(
        {
            "age, 10 years": table["age"] / 10,
            "male": (table["sex"] == "male").astype(float),
            "bmi, 5 kg/m²": table["bmi"] / 5,
            "systolic, 20 mmHg": table["systolic"] / 20,
            "ever smoked": (table["smoker"] != "never").astype(float),
            "earlier stays": table["stays"].astype(float),
        }
    )
    return X, table["readmitted"].astype(float)


parts = {name: prepared(table) for name, table in tables.items()}
model = glmesh.GLMRegressor(family="binomial").fit_nodes(list(parts.values()))
summary = model.summary(exponentiate=True)
print(summary)

# %%
# Alone, for comparison.
alone = {name: glmesh.GLMRegressor(family="binomial", n_nodes=1).fit(*part) for name, part in parts.items()}

# %%
# Odds ratios with 95 % intervals: right of the line more are readmitted.
figure, axes = plot.subplots(height=5.2)
blue, grey, ink = plot.COLOURS["blue"], plot.COLOURS["grey"], plot.COLOURS["ink"]
terms = list(summary.terms)[1:]  # without the intercept
for row, (ratio, _, _, _, low, high) in enumerate(summary.columns[1:]):
    axes.plot([low, high], [row, row], color=blue, linewidth=3, solid_capstyle="butt")
    axes.plot([ratio], [row], color=blue, marker="D", markersize=8)
    axes.text(4.6, row, f"{ratio:.2f} ({low:.2f}, {high:.2f})", color=blue, va="center", fontsize=9)
    for k, (name, own) in enumerate(alone.items()):
        ends, at = np.exp(own.conf_int()[row + 1]), row + 0.22 + 0.16 * k
        axes.plot(ends, [at, at], color=grey, linewidth=1.2)
        axes.plot(np.exp(own.coef_[[row]]), [at], color=grey, marker="o", markersize=4)
        if row == 0:
            axes.text(ends[1] * 1.05, at, name, color=grey, va="center", fontsize=9)
axes.text(4.6, -0.55, "together", color=blue, fontsize=9)
axes.axvline(1, color=ink, linewidth=1)
axes.set(xscale="log", xlim=(0.5, 4.4), ylim=(len(terms) - 0.3, -0.4), yticks=range(len(terms)), yticklabels=terms)
axes.set_xlabel("odds ratio of being readmitted")
axes.set_xticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
axes.minorticks_off()
axes.grid(visible=False, axis="y")
