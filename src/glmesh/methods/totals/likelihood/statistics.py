"""What is known of a fit by maximum likelihood when it ends: sums over all nodes, from which inference is made.

Nothing here is about a single row; everything can be kept in a model file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from glmesh.errors import InvalidData
from glmesh.functions.families import FAMILIES
from glmesh.functions.family import Family
from glmesh.methods.totals.model import from_triangle
from glmesh.types import Flags, Matrix, Tree, Vector

INTERCEPT = "Intercept"  # as statsmodels' formulas call it
# R times the decrement up to which there is a proof; the theorem has 1, but separated data come near 1 by rounding
PROVABLE = 0.5
HELD_BACK = -1  # number of clusters whose sums the rules of a real site held back
CLUSTERS_HELD_BACK = (
    "No standard errors by clusters: few clusters of some site would have shown in their sums, so its rules held these "
    "back."
)
MEATS = ("HC0", "HC2", "HC3", "cluster")


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedModel:
    """A model of d coefficients as its fit left it, and what was fitted: all that needs no sum over rows.

    Parameters
    ----------
    names : tuple of d str
        Names of the coefficients; of each linear predictor the last one is the intercept.
    coef : array of shape (d,)
        Coefficients; 0 where they are aliased.
    held : mask of shape (d,)
        Coefficients that equal bounds hold: an offset's 1, or the 0 of an intercept that the model has not.
    aliased : mask of shape (d,)
        Coefficients whose columns are combinations of others, so that the data do not determine them.
    model : str
        Name of the family, "multinomial" or "cox".
    family : Family, optional
        The family, with its link; None for a model of another kind.
    outputs : int, default 1
        Number of linear predictors of a row, whose coefficients stand one after the other.
    penalty : str, default ""
        What the penalty was, in words; "": none.
    method : str, default "MaximumLikelihood"
        What fitted the model.
    concordance : float, optional
        R of the certificate at these coefficients: the largest over all rows of what `Likelihood.concordances` returns;
        None: the loss is not convex, so that nothing is proven.
    decrement : float, default 0
        Newton's decrement as the method bounds it, rounding included; the larger of it and that of the sums counts.
    """

    names: tuple[str, ...]
    coef: Vector
    held: Flags
    aliased: Flags
    model: str
    family: Family | None = None
    outputs: int = 1
    penalty: str = ""
    method: str = "MaximumLikelihood"
    concordance: float | None = None
    decrement: float = 0.0

    def __post_init__(self) -> None:
        d = len(self.coef)
        if not (len(self.names) == len(self.held) == len(self.aliased) == d) or self.outputs < 1 or d % self.outputs:
            raise InvalidData(
                f"{len(self.names)} names, {len(self.held)} and {len(self.aliased)} flags for {d} coefficients of "
                f"{self.outputs} linear predictors; expected one of each per coefficient"
            )

    @property
    def free(self) -> Flags:
        """Return a mask of the d coefficients that were fitted: neither held nor aliased."""
        return ~(self.held | self.aliased)

    @property
    def is_intercept(self) -> Flags:
        """Return a mask of the d coefficients that are intercepts, whether they are held or not."""
        block = len(self.coef) // self.outputs
        flags: Flags = np.arange(len(self.coef)) % block == block - 1
        return flags


@dataclass(frozen=True, eq=False, kw_only=True)
class FitStatistics:
    """A fitted model of k free coefficients, and the sums over all rows of all nodes at its coefficients.

    Matrices and the gradient are those of the k free coefficients, in their order, and of dispersion 1.

    Parameters
    ----------
    fitted : FittedModel
        The model.
    n : int
        Number of rows with a weight > 0.
    weight : float
        Sum of the weights.
    loss : float
        Half the deviance; of a model without family minus its log-likelihood.
    gradient : array of shape (k,)
        Gradient of the loss: 0 but for what the certificate bounds.
    hessian : array of shape (k, k)
        Observed Hessian of the loss, whose inverse is the bread of sandwiches.
    information : array of shape (k, k)
        Expected Hessian of the loss; the observed one if the link is canonical, or the model has no family.
    meats : dict of arrays of shape (k, k)
        Sums of outer products of scores: "HC0"; "HC2" and "HC3" with leverages; "cluster" of the clusters' sums.
    targets : array of shape (2,)
        Sums of w y and w y^2; 0 without a family.
    pearson : float
        Pearson's X^2, the sum of w (y - mu)^2 / V(mu); NaN without a family.
    clusters : int, default 0
        Number of clusters; 0: none were named; -1: they were, and the rules of a real site held their sums back.
    full : int, default 0
        Number of rows whose leverage is 1; HC2 and HC3 do not exist if there is one.
    null_loss : float, default NaN
        Loss of the null model, which has an intercept and the offset only; NaN: not known.
    family_log_likelihood : float, default NaN
        Log-likelihood at `likelihood_dispersion`, constants included; NaN without a family, or if it is not known.
    shape_error : float, default NaN
        Standard error of the family's shape (theta of the negative binomial), where it was estimated; NaN: it was not.
    between : float, default NaN
        Sum over the sites of g_k' I_k^-1 g_k, g_k the gradient and I_k the expected Hessian of site k's rows; NaN: a
        site's rules held it back.
    between_rank : int, default 0
        Sum over the sites of the ranks of I_k.
    """

    fitted: FittedModel
    n: int
    weight: float
    loss: float
    gradient: Vector
    hessian: Matrix
    information: Matrix
    meats: dict[str, Matrix]
    targets: Vector = field(default_factory=lambda: np.zeros(2))
    pearson: float = np.nan
    clusters: int = 0
    full: int = 0
    null_loss: float = np.nan
    family_log_likelihood: float = np.nan
    shape_error: float = np.nan
    between: float = np.nan
    between_rank: int = 0

    def __post_init__(self) -> None:
        k = int(self.fitted.free.sum())
        for name, matrix in (("hessian", self.hessian), ("information", self.information), *self.meats.items()):
            if matrix.shape != (k, k):
                raise InvalidData(f"{name} of a fit has shape {matrix.shape}, expected {(k, k)}")
        if self.gradient.shape != (k,):
            raise InvalidData(f"gradient of a fit has shape {self.gradient.shape}, expected {(k,)}")

    # --- how it is made

    @classmethod
    def of_first(cls, fitted: FittedModel, sums: Mapping[str, Vector], scale: Vector | None = None) -> Self:
        """Return the statistics that the first total at the final point tells, from the sums of its fields.

        `scale`, shape (d,), are the powers of two that columns were divided by; None: 1.
        """
        units = _units(fitted, scale)
        hessian = _matrix(sums["hessian"], units)
        return cls(
            fitted=fitted,
            n=round(float(sums["rows"][0])),
            weight=float(sums["weight"][0]),
            loss=float(sums["loss"][0]),
            gradient=sums["gradient"] * units,
            hessian=hessian,
            information=_matrix(sums["information"], units) if "information" in sums else hessian,
            meats=_meats(sums, units),
            targets=np.array(sums["targets"], dtype=np.float64) if "targets" in sums else np.zeros(2),
            pearson=_known(sums, "pearson"),
            clusters=round(float(sums["clusters"][0])) if "clusters" in sums else 0,
            **_between(sums),
        )

    def with_second(self, sums: Mapping[str, Vector], scale: Vector | None = None) -> Self:
        """Return the statistics with what the second total at the final point adds, from the sums of its fields.

        `scale` is that of `of_first`.
        """
        return replace(
            self,
            meats=self.meats | _meats(sums, _units(self.fitted, scale)),
            full=round(float(sums["full"][0])) if "full" in sums else 0,
            null_loss=float(sums["null_loss"][0]) if "null_loss" in sums else np.nan,
            clusters=round(float(sums["clusters"][0])) if "clusters" in sums else self.clusters,
            family_log_likelihood=_known(sums, "log_likelihood"),
            **_between(sums),
        )

    # --- what it says

    @property
    def rank(self) -> int:
        """Return k, the number of coefficients that were fitted: the model's degrees of freedom, intercept included."""
        return len(self.gradient)

    @property
    def df_resid(self) -> int:
        """Return n - k, the residual degrees of freedom; weights do not count as rows."""
        return self.n - self.rank

    @property
    def dispersion_is_estimated(self) -> bool:
        """Return whether the family's dispersion is estimated from the data, rather than known."""
        return self.fitted.family is not None and self.fitted.family.dispersion is None

    @property
    def dispersion(self) -> float:
        """Return phi: 1 where it is known, else X^2 / (n - k), as statsmodels and R have it; NaN if n <= k."""
        family = self.fitted.family
        if family is None:
            return 1.0
        if family.dispersion is not None:
            return family.dispersion
        return self.pearson / self.df_resid if self.df_resid > 0 else np.nan

    @property
    def is_least_squares(self) -> bool:
        """Return whether the model is linear with normal errors, so that its formulas are exact."""
        family = self.fitted.family
        return family is not None and family.name == "gaussian" and family.link == "identity"

    @property
    def likelihood_dispersion(self) -> float:
        """Return the phi of the log-likelihood: `dispersion`; deviance / n, its maximiser, for least squares.

        So does statsmodels. R takes the deviance / n for gamma and inverse Gaussian models, too.
        """
        return self.deviance / self.n if self.is_least_squares and self.n else self.dispersion

    @property
    def log_likelihood(self) -> float:
        """Return the log-likelihood, constants included, at `likelihood_dispersion`; NaN if it is not known."""
        return -self.loss if self.fitted.family is None else self.family_log_likelihood

    @property
    def deviance(self) -> float:
        """Return twice the loss: the deviance, unscaled; without a family minus twice the log-likelihood."""
        return 2.0 * self.loss

    @property
    def null_deviance(self) -> float:
        """Return the deviance of the null model, which has an intercept and the offset; NaN if it is not known."""
        return 2.0 * self.null_loss

    @property
    def shape_is_estimated(self) -> bool:
        """Return whether the family has a shape, theta of the negative binomial, that was estimated."""
        return not np.isnan(self.shape_error)

    @property
    def parameters(self) -> int:
        """Return the number of parameters that AIC and BIC count: `rank`, and one for a shape that was estimated."""
        return self.rank + int(self.shape_is_estimated)

    @property
    def aic(self) -> float:
        """Return Akaike's criterion -2 log-likelihood + 2 k, as statsmodels has it; k counts an estimated theta.

        R counts an estimated dispersion as one more parameter: its value is larger by 2 for gaussian and, because of
        its other dispersion in the likelihood, another number for gamma and inverse Gaussian models.
        """
        return -2.0 * self.log_likelihood + 2.0 * self.parameters

    @property
    def bic(self) -> float:
        """Return -2 log-likelihood + k log(n), statsmodels' `bic_llf`; R counts an estimated dispersion, too."""
        return -2.0 * self.log_likelihood + self.parameters * float(np.log(self.n)) if self.n else np.nan

    @property
    def decrement(self) -> float:
        """Return lambda, Newton's decrement: the norm of the gradient in the inverse Hessian, or the method's bound."""
        own = float(np.linalg.norm(self.gradient @ factor_of_inverse(self.hessian)))
        return max(own, self.fitted.decrement)

    @property
    def hessian_error(self) -> float:
        """Return x = R lambda, for which (1 - x) H <= H* <= H / (1 - x) at the exact estimate; NaN: not proven."""
        R = self.fitted.concordance
        x = np.nan if R is None else R * self.decrement
        return x if x <= PROVABLE else np.nan

    @property
    def distance(self) -> float:
        """Return rho, a bound on the distance to the exact estimate in the norm of the Hessian; NaN: not proven.

        Then abs(a'(w* - w)) <= rho sqrt(a'H^-1 a) for every a. It is -ln(1 - R lambda) / R; where R is 0, lambda.
        """
        x, R = self.hessian_error, self.fitted.concordance
        return float(-np.log1p(-x) / R) if R else self.decrement if x == 0.0 else np.nan

    @property
    def gap(self) -> float:
        """Return a bound on the loss less that of the exact estimate; NaN: not proven.

        It is ((1 - x) ln(1 - x) + x) / R^2 with x = R lambda, at most lambda^2 / (2 (1 - x)), and that half if R is 0.
        """
        x, decrement = self.hessian_error, self.decrement
        if not x > 1e-4:  # the formula loses its digits; NaN stays NaN
            return decrement**2 / 2.0 / (1.0 - x)
        return float(((1.0 - x) * np.log1p(-x) + x) * (decrement / x) ** 2)

    def named(self, names: Sequence[str]) -> Self:
        """Return the statistics with the names of the data's columns, offset included, for one predictor per row."""
        return replace(self, fitted=replace(self.fitted, names=(*names, INTERCEPT)))

    # --- as plain data

    def to_dict(self) -> Tree:
        """Return the statistics as plain data for a file: texts, numbers, arrays, and lists and dicts of them."""
        fitted, family = self.fitted, self.fitted.family
        own = {name: value for name, value in vars(self).items() if name != "fitted"}
        said = {name: value for name, value in vars(fitted).items() if name != "family"}
        said["names"] = list(fitted.names)
        said["family"] = None if family is None else {"name": family.name, **asdict(family)}
        return {**own, "meats": dict(self.meats), "fitted": said}

    @classmethod
    def of_dict(cls, tree: Tree) -> Self:
        """Rebuild the statistics that `to_dict` flattened; a ValueError, KeyError or TypeError says that it did not."""
        said: dict[str, Any] = dict(tree["fitted"])
        if said["family"] is not None:
            options = dict(said["family"])
            said["family"] = FAMILIES[options.pop("name")](**options)
        said["names"] = tuple(said["names"])
        return cls(**{**tree, "fitted": FittedModel(**said)})


def _between(sums: Mapping[str, Vector]) -> dict[str, Any]:
    """Return what sums of a field "between" say, as fields of FitStatistics; {} if there is none."""
    if "between" not in sums:
        return {}
    return {"between": float(sums["between"][0]), "between_rank": round(float(sums["between"][1]))}


def term_names(columns: Sequence[str], classes: Iterable[object]) -> tuple[str, ...]:
    """Return the names of all coefficients: those of the columns, then "Intercept"; for each class, if there are any.

    Examples
    --------
    >>> from glmesh.methods.totals.likelihood.statistics import term_names
    >>> term_names(["age"], ["ill", "well"])
    ('ill: age', 'ill: Intercept', 'well: age', 'well: Intercept')
    """
    own = (*columns, INTERCEPT)
    return tuple(f"{one}: {name}" for one in classes for name in own) or own


def factor_of_inverse(matrix: Matrix) -> Matrix:
    """Return an upper triangular C, shape (k, k), with C C' = M^-1 for a positive definite M.

    M is scaled to a unit diagonal first, so the units of the columns do not matter. Raise InvalidData if it is not
    positive definite.
    """
    diagonal = np.diag(matrix)
    try:
        if not (diagonal > 0).all():
            raise LinAlgError
        scale = 1.0 / np.sqrt(diagonal)
        upper = cholesky(matrix * scale * scale[:, None])
    except LinAlgError:
        raise InvalidData(
            "the Hessian of the fit is not positive definite: the data do not determine all coefficients, or the fit "
            "did not end at a maximum; leave out columns that others determine"
        ) from None
    factor: Matrix = scale[:, None] * solve_triangular(upper, np.eye(len(matrix)))
    return factor


def inverse(matrix: Matrix) -> Matrix:
    """Return the inverse, shape (k, k), of a positive definite matrix; raise InvalidData if it is not."""
    factor = factor_of_inverse(matrix)
    return factor @ factor.T


def _known(sums: Mapping[str, Vector], name: str) -> float:
    """Return the first number of the field called `name`, a sum over all rows; NaN if there is no such field.

    NaN, too, if the sum lacks rows; the second number counts these.
    """
    if name not in sums or sums[name][1] > 0.5:
        return np.nan
    return float(sums[name][0])


def _units(fitted: FittedModel, scale: Vector | None) -> Vector:
    """Return what the columns of the k free coefficients were divided by, shape (k,)."""
    return np.ones(int(fitted.free.sum())) if scale is None else scale[fitted.free]


def _matrix(entries: Vector, units: Vector) -> Matrix:
    """Return the matrix, shape (k, k), of columns that were divided by `units`, from its upper triangle."""
    return from_triangle(entries, len(units)) * units * units[:, None]


def _meats(sums: Mapping[str, Vector], units: Vector) -> dict[str, Matrix]:
    """Return the meats that are among the sums of a total, each of shape (k, k), by name."""
    return {name: _matrix(sums[name], units) for name in MEATS if name in sums}
