"""How far what is reported can be off because the fit is not at the exact optimum: the certificate, in words of tables.

The theorem is in the notes of `Accuracy`; data, model and rounding of sums are another matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from glmesh.inference.covariance import standard_errors
from glmesh.methods.totals.likelihood.statistics import FitStatistics, factor_of_inverse, inverse
from glmesh.types import Matrix, Vector

# [entry] relative error of a scaled Hessian that inversion multiplies by its condition: sums of rounded products have
# about 1e-15, and raw columns a hundred times as far from 0 as they are wide lose two digits
ENTRY_ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Bounds on the distance of reported numbers from those at the exact estimate; NaN where nothing is proven.

    Parameters
    ----------
    coefficients : array of shape (k,)
        Bound on the distance of each coefficient from the exact estimate, in its standard errors.
    standard_errors : float
        Factor f >= 1: each exact standard error is within 1 / f and f times the reported one. It is proven for standard
        errors of the model, except with the links probit and cloglog, and with links that are not convex. It allows for
        the rounding of a Hessian, which a large condition number multiplies.
    deviance : float
        Bound on the deviance less that of the exact estimate.

    Notes
    -----
    With lambda = sqrt(g'H^-1 g) and R, the largest concordance of a row, x = R lambda <= 1/2 proves that the optimum w*
    exists, that abs(w* - w)_H <= rho = -ln(1 - x) / R, that (1 - x) H <= H* <= H / (1 - x), and that the loss is within
    ((1 - x) ln(1 - x) + x) / R^2 of the least. A coefficient is then within rho sqrt((H^-1)_jj) of the exact one.

    Where standard errors are those of an expected Hessian I, the logarithm of a row's part of I changes by at most
    a R rho on the way to w*, and that of the variance V by v R rho, where (a, v) is `Family.drifts`. So I* is within a
    factor exp(a R rho) of I. With s the root of Pearson's X^2 and e = w* - w, abs(ds) <= sqrt(e'I e) + v R rho s / 2,
    where e'I e <= kappa exp(a R rho) rho^2 and kappa is the largest eigenvalue of I relative to H.
    """

    coefficients: Vector
    standard_errors: float
    deviance: float

    @classmethod
    def of_statistics(cls, statistics: FitStatistics, covariance: Matrix, kind: str) -> Self:
        """Return the bounds for coefficients whose standard errors come from `covariance`, shape (k, k), of a kind."""
        errors = standard_errors(covariance)
        off = statistics.distance * standard_errors(inverse(statistics.hessian))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = off / errors
        f = _factor(statistics) * (1.0 + ENTRY_ROUNDING * _condition(statistics.hessian)) if kind == "model" else np.nan
        return cls(ratio, f, 2.0 * statistics.gap)

    @property
    def worst(self) -> float:
        """Return the largest of the bounds on coefficients, in standard errors; NaN: nothing is proven."""
        return float(self.coefficients.max()) if len(self.coefficients) else np.nan

    def z_values(self, z: Vector) -> tuple[Vector, Vector]:
        """Return (lower, upper) bounds on the absolute exact z values, given the k reported ones; NaN: not proven."""
        f = self.standard_errors
        return np.maximum(np.abs(z) - self.coefficients, 0.0) / f, (np.abs(z) + self.coefficients) * f


def _condition(matrix: Matrix) -> float:
    """Return the condition number of a positive definite matrix that is scaled to a diagonal of ones."""
    size = np.sqrt(np.diag(matrix))
    return float(np.linalg.cond(matrix / size / size[:, None]))


def _factor(statistics: FitStatistics) -> float:
    """Return the factor within which the model's standard errors are proven; NaN: they are not."""
    if (
        statistics.is_least_squares
    ):  # H is constant, and the dispersion falls by at most twice the gap per degree of freedom
        lowest = statistics.deviance - 2.0 * statistics.gap
        return float(np.sqrt(statistics.deviance / lowest)) if lowest > 0 else np.nan
    family = statistics.fitted.family
    if family is None or (family.canonical and family.dispersion is not None):
        return float(1.0 / np.sqrt(1.0 - statistics.hessian_error))
    if family.drifts is None or statistics.fitted.concordance is None:
        return np.nan
    moved = statistics.fitted.concordance * statistics.distance
    spread = float(np.exp(0.5 * family.drifts[0] * moved))
    if family.dispersion is not None:
        return spread
    C = factor_of_inverse(statistics.hessian)
    kappa = float(np.linalg.eigvalsh(C.T @ statistics.information @ C)[-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.sqrt(kappa) * spread * statistics.distance / np.sqrt(statistics.pearson)
    grown = float(np.exp(0.5 * family.drifts[1] * moved))
    least = 1.0 / grown - step
    return spread * max(grown * (1.0 + step), 1.0 / least) if least > 0 else np.nan
