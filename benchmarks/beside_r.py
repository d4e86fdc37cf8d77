"""The three hospitals' models beside R's own glm, confint, sandwich and coxph on the pooled rows.

`python benchmarks/beside_r.py` writes benchmarks/reports/beside_r.md; it needs Rscript with the packages survival and
sandwich (Debian: r-base-core, r-cran-survival, r-cran-sandwich).
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from common import machine

import glmesh
from glmesh.cli import main

REPORT = Path(__file__).parent / "reports" / "beside_r.md"
SITES = ("alice", "bob", "carol")
TERMS = "age + C(sex) + bmi + C(smoker) + stays"
NAMES = {
    "(Intercept)": "Intercept",
    "sexmale": "C(sex)[T.male]",
    "smokerpast": "C(smoker)[T.past]",
    "smokerpresent": "C(smoker)[T.present]",
}
CODE = """
suppressMessages({library(survival); library(sandwich)})
tables <- lapply(c("alice.csv", "bob.csv", "carol.csv"), read.csv, na.strings = c("", "NA"))
pooled <- do.call(rbind, lapply(tables, function(table) table[names(tables[[1]])]))
pooled$hospital <- rep(c("alice", "bob", "carol"), sapply(tables, nrow))
pooled$sex <- factor(pooled$sex)
pooled$smoker <- factor(pooled$smoker)
strict <- glm.control(epsilon = 1e-15, maxit = 100)
written <- function(file, ...) write.csv(format(data.frame(...), digits = 17), file)
of_glm <- function(file, fit) {  # started at its end, since glm's standard errors are those of the step before
  fit <- update(fit, start = coef(fit))
  errors <- sapply(c("HC0", "HC1", "HC2", "HC3"), function(kind) sqrt(diag(vcovHC(fit, kind))))
  written(file, coef = coef(fit), error = sqrt(diag(vcov(fit))), errors, confint.default(fit),
          deviance = deviance(fit), null = fit$null.deviance, aic = AIC(fit), n = nobs(fit))
}
of_glm("binomial.txt", glm(readmitted ~ age + sex + bmi + smoker + stays, binomial, pooled, control = strict))
of_glm("poisson.txt", glm(visits ~ age + sex + bmi + smoker + stays + offset(log(days)), poisson, pooled,
                          control = strict))
of_glm("gaussian.txt", glm(systolic ~ age + sex + bmi + smoker + stays, gaussian, pooled, control = strict))
of_glm("Gamma.txt", glm(bmi ~ age + sex + smoker + stays, Gamma("log"), pooled, control = strict))
cox <- coxph(Surv(days, died) ~ age + sex + bmi + smoker + stays + strata(hospital), pooled,
             control = coxph.control(eps = 1e-14, toler.chol = 1e-15, iter.max = 100))
written("cox.txt", coef = coef(cox), error = sqrt(diag(vcov(cox))), confint(cox))
cat(R.version.string)
"""
MODELS = {  # file that R writes -> (family, formula, exposure)
    "binomial": ("binomial", f"readmitted ~ {TERMS}", None),
    "poisson": ("poisson", f"visits ~ {TERMS}", "days"),
    "gaussian": ("gaussian", f"systolic ~ {TERMS}", None),
    "Gamma": ("gamma", "bmi ~ age + C(sex) + C(smoker) + stays", None),
}


def of_r(name: str, terms: pd.Index) -> pd.DataFrame:
    """Return what R wrote of a model, by the terms of a table of ours."""
    table = pd.read_csv(f"{name}.txt", index_col=0)
    table.index = pd.Index([NAMES.get(term, term) for term in table.index])
    return table.loc[terms]


def largest(here: np.ndarray, there: np.ndarray, unit: np.ndarray) -> str:
    """Return the largest difference of two arrays, in units of each, as text."""
    return f"{np.max(np.abs(np.asarray(here) - np.asarray(there)) / np.abs(unit)):.0e}"


def row_of_glm(name: str, tables: list[pd.DataFrame]) -> str:
    """Return the line of the report about a model of R's glm."""
    family, formula, exposure = MODELS[name]
    options = ({} if exposure is None else {"exposure": exposure}) | ({"link": "log"} if name == "Gamma" else {})
    model = glmesh.GLMRegressor.from_formula(formula, tables, family=family, **options)
    ours = model.summary(use_t=False).to_frame()
    r = of_r(name, ours.index)
    error = r["error"].to_numpy()
    robust = max(
        (largest(np.sqrt(np.diag(model.vcov(kind))), r[kind], r[kind]) for kind in ("HC0", "HC1", "HC2", "HC3")),
        key=float,
    )
    intervals = largest(ours.iloc[:, 4:6], r[["X2.5..", "X97.5.."]], error[:, None])
    deviance = largest(model.result_.statistics.deviance, r["deviance"].to_numpy(), r["deviance"].to_numpy())
    n = int(r["n"].iloc[0])
    cells = (
        largest(ours["coef"], r["coef"], error),
        largest(ours["std err"], error, error),
        robust,
        intervals,
        deviance,
    )
    return f"| `glm(..., {name})` | {n:,} | {' | '.join(cells)} |"


def row_of_cox(tables: list[pd.DataFrame]) -> str:
    """Return the line of the report about R's coxph, with a baseline of its own for each hospital."""
    ours = glmesh.CoxRegressor.from_formula(f"Surv(days, died) ~ {TERMS}", tables).summary().to_frame()
    r = of_r("cox", ours.index)
    error = r["error"].to_numpy()
    intervals = largest(ours.iloc[:, 4:6], r[["X2.5..", "X97.5.."]], error[:, None])
    cells = (largest(ours["coef"], r["coef"], error), largest(ours["std err"], error, error), "", intervals, "")
    return f"| `coxph(..., strata(hospital))` | | {' | '.join(cells)} |"


def run() -> None:
    """Fit the models here and in R, and write the report."""
    main(["demo", "--files", "."])
    version = subprocess.run(["Rscript", "-e", CODE], check=True, capture_output=True, text=True).stdout
    tables = [pd.read_csv(f"{site}.csv") for site in SITES]
    rows = [*(row_of_glm(name, tables) for name in MODELS), row_of_cox(tables)]
    REPORT.write_text(
        f"""# Beside R

The tables of three hospitals (`glmesh demo --files`), apart here and pooled in R. {version}. {machine()}.

Largest differences: of coefficients and of the ends of 95 % intervals in standard errors, of standard errors and of the deviance as a share of R's.

| R | rows | coefficients | standard errors | HC0 to HC3 (`vcovHC`) | intervals | deviance |
|---|---|---|---|---|---|---|
"""
        + "\n".join(rows)
        + "\n\nR's `glm` iterates to `epsilon = 1e-15` and is started again at its end, because its standard errors are those of the step before. Ties of `coxph` are Efron's in both. The sandwiches of a Gamma with a log link differ because `vcovHC` takes the expected information as bread, and glmesh [the observed one](../../docs/inference.md).\n\n"
        "`python benchmarks/beside_r.py` makes this page.\n"
    )
    print(REPORT.read_text())


if __name__ == "__main__":
    import os

    with TemporaryDirectory() as folder:
        os.chdir(folder)
        run()
