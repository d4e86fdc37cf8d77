"""
Three hospitals, one table, and its forest plot
===============================================

Who comes back within a year? Three hospitals fit a logistic regression together and get the table that every
biostatistician knows, with standard errors and intervals: that of the pooled data, digit by digit, with a proof of
how near it is. The picture shows what it is worth: each hospital alone (thin) is far less certain, and bob, who has
no present smokers, cannot say a thing about them.
"""

# %%
# ``glmesh demo --files DIR`` writes three invented tables as hospitals have them: with text and gaps, and each
# with another order of columns.
import tempfile

import pandas as pd

import glmesh
from glmesh import plot
from glmesh.cli.demo_files import write

with tempfile.TemporaryDirectory() as folder:
    tables = {path.stem: pd.read_csv(path) for path in write(folder)}

# %%
# A formula says what to fit, in steps that are worth talking about. The hospitals agree on the levels of the factors;
# rows with a gap are left out, and counted.
formula = "readmitted ~ I(age / 10) + sex + I(bmi / 5) + I(systolic / 20) + C(smoker, Treatment('never')) + stays"
model = glmesh.GLMRegressor.from_formula(formula, tables, family="binomial")
summary = model.summary(exponentiate=True)
print(summary)

# %%
# Alone, for comparison.
alone = {
    name: glmesh.GLMRegressor.from_formula(formula, table, family="binomial", n_nodes=1).summary(exponentiate=True)
    for name, table in tables.items()
}

# %%
# Odds ratios with 95 % intervals: right of the line more are readmitted.
rows = {
    "I(age / 10)": "age, 10 years",
    "sex[T.male]": "male",
    "I(bmi / 5)": "bmi, 5 kg/m²",
    "I(systolic / 20)": "systolic, 20 mmHg",
    "C(smoker, Treatment('never'))[T.past]": "smoked once",
    "C(smoker, Treatment('never'))[T.present]": "smokes",
    "stays": "earlier stays",
}
figure, axes = plot.subplots(height=5.8)
blue, grey, ink = plot.COLOURS["blue"], plot.COLOURS["grey"], plot.COLOURS["ink"]
for row, term in enumerate(rows):
    ratio, _, _, _, low, high = summary.columns[summary.terms.index(term)]
    axes.plot([low, high], [row, row], color=blue, linewidth=3, solid_capstyle="butt")
    axes.plot([ratio], [row], color=blue, marker="D", markersize=8)
    axes.text(11.8, row, f"{ratio:.2f} ({low:.2f}, {high:.2f})", color=blue, va="center", fontsize=9)
    for k, (name, own) in enumerate(alone.items()):
        at = row + 0.22 + 0.16 * k
        if term in own.terms:
            ratio, _, _, _, low, high = own.columns[own.terms.index(term)]
            axes.plot([low, high], [at, at], color=grey, linewidth=1.2)
            axes.plot([ratio], [at], color=grey, marker="o", markersize=4)
        if row == 0:
            axes.text(high * 1.06, at, name, color=grey, va="center", fontsize=9)
axes.text(11.8, -0.6, "together", color=blue, fontsize=9)
axes.axvline(1, color=ink, linewidth=1)
axes.set(xscale="log", xlim=(0.5, 11), ylim=(len(rows) - 0.3, -0.4), yticks=range(len(rows)), yticklabels=rows.values())
axes.set_xlabel("odds ratio of being readmitted")
axes.set_xticks([0.5, 1, 2, 4, 8], ["0.5", "1", "2", "4", "8"])
axes.minorticks_off()
axes.grid(visible=False, axis="y")
