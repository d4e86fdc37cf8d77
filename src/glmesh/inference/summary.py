"""The table of a fit, as text, as HTML and as a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.formatting import rounded_up, rows_text
from glmesh.inference.accuracy import Accuracy
from glmesh.methods.totals.likelihood.statistics import CLUSTERS_HELD_BACK, HELD_BACK, FitStatistics
from glmesh.types import Matrix

if TYPE_CHECKING:
    import pandas as pd

EPSILON = 2.0**-52  # relative error of a printed number, below which no bound is shown
WIDTH = 80  # [characters] of the table
# links with which exp(coefficient) is a ratio: of odds, of means, of rates of the complementary log-log model
RATIO_LINKS = ("logit", "log", "cloglog")
COVARIANCES = {"model": "model", "cluster": "clusters"}


def frame_of(values: Matrix, terms: Sequence[str], headings: Sequence[str]) -> pd.DataFrame:
    """Return numbers of shape (n_terms, n_headings) as a data frame of pandas, indexed by term.

    Raise InvalidInput where pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError:
        raise InvalidInput("to_frame needs pandas, which is not installed: pip install pandas") from None
    return pd.DataFrame(values, index=pd.Index(terms, name="term"), columns=headings)


@dataclass(frozen=True, eq=False, kw_only=True)
class Summary:
    """The table of a fit that users of R and statsmodels know; its text is `str(summary)`.

    Parameters
    ----------
    statistics : FitStatistics
        What totals say of the fit.
    terms : tuple of str
        Names of the rows.
    columns : array of shape (n_terms, 6)
        Coefficient, standard error, z or t, p value, lower and upper end of the interval; NaN where aliased.
    level : float
        Level of the intervals.
    vcov : str
        Kind of the covariance.
    df : int
        Degrees of freedom of Student's t; 0: the normal distribution was used.
    exponentiated : bool
        Whether coefficients, standard errors and intervals are those of exp(coefficient).
    accuracy : Accuracy
        How far the numbers can be off.
    rows : tuple of two int, optional
        Rows that there were, and how many of these were left out because of missing values; None: not known.
    """

    statistics: FitStatistics
    terms: tuple[str, ...]
    columns: Matrix
    level: float
    vcov: str
    df: int
    exponentiated: bool
    accuracy: Accuracy
    rows: tuple[int, int] | None = None

    @property
    def headings(self) -> list[str]:
        """Return the names of the six columns, as statsmodels has them."""
        below = (1.0 - self.level) / 2.0
        symbol = "t" if self.df else "z"
        return ["coef", "std err", symbol, f"P>|{symbol}|", f"[{below:.6g}", f"{1.0 - below:.6g}]"]

    @property
    def proof(self) -> str:
        """Return the sentence that says how near the fit is to the exact estimate, and what proves it."""
        family = self.statistics.fitted.family
        if family is not None and not family.convex:
            return (
                f"a stationary point; no proof that it is the maximum: the {family.name} family with the {family.link} "
                "link has a likelihood that is not concave"
            )
        worst = self.accuracy.worst
        if np.isnan(worst):
            return "no proof of how near the exact estimate is; fit again with more rounds"
        return f"each coefficient is within {rounded_up(worst):.0e} standard errors of the exact estimate"

    @property
    def precision(self) -> str:
        """Return the sentence on how far standard errors, z values and the deviance can be off; "": not proven."""
        accuracy, f = self.accuracy, self.accuracy.standard_errors
        if np.isnan(accuracy.deviance):
            return ""
        told = [f"deviance {rounded_up(max(accuracy.deviance, EPSILON)):.0e}"]
        if np.isfinite(f):
            symbol, largest = self.headings[2], float(np.nanmax(np.abs(self.columns[:, 2])))
            off = largest * (f - 1.0) + f * accuracy.worst
            told.append(f"{symbol} values {rounded_up(max(off, EPSILON)):.0e}")
            told.append(f"standard errors {rounded_up(max(f - 1.0, EPSILON)):.0e} of each")
        return f"Off by at most: {', '.join(told[::-1])}."

    @property
    def shape(self) -> str:
        """Return the estimated theta of the negative binomial with its standard error, as text."""
        theta = getattr(self.statistics.fitted.family, "theta", np.nan)
        return f"theta = {theta:.6g} (standard error {self.statistics.shape_error:.3g})"

    def to_frame(self) -> pd.DataFrame:
        """Return the table as a data frame of pandas, indexed by term; the intercept is "Intercept".

        Returns
        -------
        pandas.DataFrame
            Columns "coef", "std err", "z", "P>|z|", "[0.025", "0.975]"; "t" and "P>|t|" where Student's t was used.

        Raises
        ------
        InvalidInput
            pandas is not installed.
        """
        return frame_of(self.columns, self.terms, self.headings)

    def __str__(self) -> str:
        lines = [self._title().center(WIDTH).rstrip(), "=" * WIDTH]
        half = WIDTH // 2 - 1
        for left, right in self._statistics():
            lines.append("  ".join(f"{name + ':':<18}{value:>{half - 18}}" for name, value in (left, right)).rstrip())
        widths = [9, 9, 9, 9, 10, 10]
        wide = max(WIDTH - sum(widths), max(map(len, self.terms), default=0) + 1)
        heads = "".join(f"{head:>{width}}" for head, width in zip(self.headings, widths, strict=True))
        lines += ["=" * WIDTH, " " * wide + heads, "-" * max(WIDTH, wide + sum(widths))]
        for term, row in zip(self.terms, self._cells(), strict=True):
            cells = "".join(f"{' ' + cell:>{width}}" for cell, width in zip(row, widths, strict=True))
            lines.append(f"{term:<{wide}}{cells}")
        return "\n".join([*lines, "=" * WIDTH, *self._remarks()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return the table as HTML, for notebooks."""
        heads = "".join(f"<th>{escape(head)}</th>" for head in ["", *self.headings])
        statistics = "".join(
            f"<tr><th>{escape(a)}</th><td>{escape(b)}</td><th>{escape(c)}</th><td>{escape(d)}</td></tr>"
            for (a, b), (c, d) in self._statistics()
        )
        rows = "".join(
            f"<tr><th>{escape(term)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
            for term, row in zip(self.terms, self._cells(), strict=True)
        )
        remarks = "<br/>".join(escape(remark) for remark in self._remarks())
        return (
            f"<table><caption>{escape(self._title())}</caption>{statistics}</table>"
            f"<table><tr>{heads}</tr>{rows}</table><p>{remarks}</p>"
        )

    def _title(self) -> str:
        """Return the title of the table."""
        names = {"cox": "Cox proportional hazards", "multinomial": "Multinomial logistic regression"}
        return names.get(self.statistics.fitted.model, "Generalised linear model")

    def _statistics(self) -> list[tuple[tuple[str, str], tuple[str, str]]]:
        """Return the header: pairs of (name, value), two to a line."""
        statistics, fitted = self.statistics, self.statistics.fitted
        left = [
            ("Family", fitted.model),
            ("Link", fitted.family.link if fitted.family is not None else ""),
            ("Method", fitted.method),
            ("Covariance", COVARIANCES.get(self.vcov, self.vcov)),
            ("Observations", f"{statistics.n}"),
            ("Df residuals", f"{statistics.df_resid}"),
            ("Df model", f"{statistics.rank - int((fitted.is_intercept & fitted.free).sum())}"),
        ]
        right = [
            ("Log-likelihood", _number(statistics.log_likelihood)),
            ("Deviance", _number(statistics.deviance)),
            ("Null deviance", _number(statistics.null_deviance)),
            ("Pearson chi2", _number(statistics.pearson)),
            (
                "Dispersion",
                f"{_number(statistics.dispersion)}{'' if statistics.dispersion_is_estimated else ' (known)'}",
            ),
            ("AIC", _number(statistics.aic)),
            ("BIC", _number(statistics.bic)),
        ]
        return list(zip(left, right, strict=True))

    def _cells(self) -> list[list[str]]:
        """Return the texts of the six columns of each row; "NA" where a term is aliased."""
        aliased = np.isnan(self.columns[:, 0])
        return [
            ["NA"] * 6
            if gone
            else [*(_cell(row[i]) for i in range(2)), _fixed(row[2]), _fixed(row[3]), *map(_cell, row[4:])]
            for gone, row in zip(aliased, self.columns, strict=True)
        ]

    def _remarks(self) -> list[str]:
        """Return the sentences below the table: the proof first."""
        remarks = [self.proof[0].upper() + self.proof[1:] + "."]
        if self.rows is not None:
            remarks.append(f"Rows: {rows_text(*self.rows)}.")
        if self.precision:
            remarks.append(self.precision)
        if self.statistics.shape_is_estimated:
            remarks.append(f"{self.shape}, estimated beside the coefficients.")
            remarks.append("Standard errors and the proof of the coefficients are those at this theta.")
        if np.isnan(self.columns[:, 0]).any():
            remarks.append("NA: the column is a combination of others, so the data do not determine its coefficient.")
        if self.exponentiated:
            remarks.append("exp(coefficient) is shown, with standard errors by the delta method.")
        if self.df:
            remarks.append(f"Student's t with {self.df} degrees of freedom.")
        if self.vcov == "cluster":
            remarks.append(f"{self.statistics.clusters} clusters.")
        elif self.statistics.clusters == HELD_BACK:
            remarks.append(CLUSTERS_HELD_BACK)
        elif self.statistics.clusters:
            remarks.append(
                f"{self.statistics.clusters} clusters; their standard errors: vcov='cluster', --errors cluster."
            )
        return remarks


def _number(value: float) -> str:
    """Return a number of the header with six digits; "" if it is not known."""
    return "" if np.isnan(value) else f"{value:.6g}"


def _cell(value: float) -> str:
    """Return a number of the table with four digits in at most nine characters."""
    return f"{value:.4f}" if 1e-2 <= abs(value) < 1e4 else f"{value:.3g}"


def _fixed(value: float) -> str:
    """Return a z or p value with three decimals, as statsmodels does, or fewer digits where it is large."""
    return f"{value:.3f}" if abs(value) < 1e4 else f"{value:.3g}"
