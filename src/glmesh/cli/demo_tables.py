"""Tables of `glmesh demo`: the fit of three hospitals beside the pooled one, and beside what each finds alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glmesh.cli import demo_files
from glmesh.inference import Summary
from glmesh.types import Vector

if TYPE_CHECKING:
    import pandas as pd

_STEPS = 100  # [Newton steps] at most of scikit-learn, which takes about six


@dataclass(frozen=True, eq=False)
class Fits:
    """One model, fitted in three ways: by all hospitals together, by each alone, and to all rows in one place."""

    together: Summary  # by all hospitals, data apart
    alone: dict[str, Summary]  # by each hospital to its own rows, by name
    pooled: dict[str, tuple[float, float]]  # by scikit-learn to all rows in one place: coefficient, standard error

    def differences(self) -> tuple[float, float]:
        """Return how far `together` is from `pooled`, the largest over all terms.

        The numbers are the difference of coefficients, in standard errors, and that of standard errors, as a part of
        each.
        """
        pairs = [(*self.together.columns[k, :2], *self.pooled[term]) for k, term in enumerate(self.together.terms)]
        coef, error, other, other_error = np.array(pairs).T
        return float(np.abs((coef - other) / other_error).max()), float(np.abs(error / other_error - 1.0).max())


def alone(folder: Path) -> dict[str, Summary]:
    """Return the table that each hospital gets from its own rows, by name; its table is in the folder."""
    from glmesh import GLMRegressor  # with scikit-learn, which no other command needs

    return {
        name: GLMRegressor.from_formula(
            demo_files.FORMULA, rows, family="binomial", n_nodes=1
        ).result_.inference.summary()
        for name, rows in tables(folder).items()
    }


def pooled(folder: Path) -> dict[str, tuple[float, float]]:
    """Return {term: (coefficient, standard error)} of all hospitals' rows in one place, by scikit-learn.

    The design is formulaic's, standard errors are those of the inverse information.
    """
    import pandas as pd
    from formulaic import model_matrix
    from sklearn.linear_model import LogisticRegression

    y, X = model_matrix(demo_files.FORMULA, pd.concat(tables(folder).values(), ignore_index=True))
    design, target = X.to_numpy(float), np.ravel(y.to_numpy(float))
    fit = LogisticRegression(C=np.inf, fit_intercept=False, solver="newton-cholesky", tol=1e-12, max_iter=_STEPS)
    coef: Vector = fit.fit(design, target).coef_[0]
    share = 1.0 / (1.0 + np.exp(-design @ coef))
    errors = np.sqrt(np.diag(np.linalg.inv(design.T @ (design * (share * (1.0 - share))[:, None]))))
    return dict(zip(X.columns, zip(coef.tolist(), errors.tolist(), strict=True), strict=True))


def tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the hospitals' tables as data frames, as they are in the folder, by name."""
    import pandas as pd

    return {name: pd.read_csv(folder / f"{name}.csv") for name in demo_files.HOSPITALS}


def beside_text(fits: Fits) -> str:
    """Return a table for people: coefficients with intervals by the hospitals together, beside the pooled fit."""
    heads = ["coef", "std err", "[0.025", "0.975]", "coef", "std err"]
    form = "{:<21}" + "{:>9}" * 4 + "  {:>9}{:>9}"
    lines = [f"{'':<21}{'together, data apart':>36}  {'pooled':>18}", form.format("", *heads)]
    for term, row in zip(fits.together.terms, fits.together.columns, strict=True):
        numbers = [*row[[0, 1, 4, 5]], *fits.pooled[term]]
        lines.append(form.format(term, *(f"{number:.4f}" for number in numbers)))
    return "\n".join(lines)


def alone_text(fits: Fits) -> str:
    """Return a table for people: coefficients with standard errors of each hospital alone, and of all together."""
    columns = {f"{name} alone": summary for name, summary in fits.alone.items()} | {"together": fits.together}
    lines = [f"{'':<20}" + "".join(f"{name:>15}" for name in columns)]
    for term in fits.together.terms:
        cells = [_cell(summary, term) for summary in columns.values()]
        lines.append(f"{term:<20}" + "".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines)


def _cell(summary: Summary, term: str) -> str:
    """Return "0.444 (0.139)", coefficient and standard error of a term; a dash where the fit does not have it."""
    if term not in summary.terms:
        return "–"
    coef, error = summary.columns[summary.terms.index(term), :2]
    return f"{coef:.3f} ({error:.3f})"
