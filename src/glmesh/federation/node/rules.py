"""What a site asks of its own data before it contributes: rules of its node file, checked before each total.

The others learn that the site refuses, its own user the rule and the value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from glmesh.federation.config.site import SiteRules
from glmesh.federation.totals import Refusal
from glmesh.methods import Rows
from glmesh.types import SampleMatrix, Vector

SEEN_ALONE = 0.1  # coefficients per row at which totals of a difference determine no row: 10 rows a coefficient (v6)
FEWER_COLUMNS = "leave columns out, or bring more rows together"  # what would do where d / n is too large
# [products] of a Gram matrix and its eigenvectors, (m + 10 d) d^2, above which no leverages are computed, because that
# would take seconds
MOST_WORK = 5e8
LEAST_LEVEL = 5  # rows of each value of a two-valued column over all sites (v6: 5, DataSHIELD nfilter.tab: 3)


@dataclass(frozen=True)
class RuleBook:
    """A site's rules, with the facts on its data and federation that they depend on; its methods raise Refusal."""

    rules: SiteRules
    name: str  # of the site
    constant: bool  # whether totals of two sets of members differ by what the others contribute, at whatever point
    may_change: bool  # whether members may be left out, or come late
    kinked: str = ""  # name of the loss if it has kinks
    rows_changed: int = 0  # rows of the file that differ from those of the last contribution

    def _refuse(self, why: str) -> Refusal:
        """Return (not raise) the Refusal with the text `why` for this site's user.

        Others read that the site refuses.
        """
        return Refusal(why, public=f"refused by {self.name}")

    def check_alone(self, block: Rows) -> None:
        """Raise Refusal if the site's data alone, as far as it tells before a fit, forbids that it contributes."""
        self.check_data(block, changed=False)

    def check_data(self, block: Rows, *, changed: bool) -> None:
        """Raise Refusal for too few rows at the site, too few changed rows, or a loss whose totals show single rows.

        `changed`: members or data are others than at an earlier contribution. `block` has the site's rows.
        """
        rules, n, d = self.rules, len(block.y[0]), block.p + block.fit_intercept
        if self.kinked and not rules.reveal_support:
            raise self._refuse(
                f"the {self.kinked} loss has kinks, and its totals show the rows at the kink; use squared_hinge or "
                "huber, or let every site write reveal_support = true into [rules] of its node file"
            )
        self._check_change(d)
        if n < rules.least_rows:
            raise self._refuse(f"{n} rows, least_rows = {rules.least_rows}")
        counts = [int((block.y[0] == side).sum()) for side in (-1.0, 1.0)] if block.loss.classifies else []
        if any(0 < one < rules.least_class for one in counts):
            raise self._refuse(
                f"{min(one for one in counts if one)} rows of a class, least_class = {rules.least_class}"
            )
        alone = self.constant and (changed or self.may_change)
        most = min(SEEN_ALONE, rules.most_columns) if alone else rules.most_columns
        if d / n > most:
            why = (
                "; with this loss the totals of two sets of members give their difference away, and members may change"
                if alone
                else ""
            )
            raise self._refuse(
                f"{d} coefficients for {n} rows are {d / n:.2f} a row, at most {most:g}{why}; {FEWER_COLUMNS}"
            )

    def _check_change(self, d: int) -> None:
        """Raise Refusal if some rows of the file have changed, but fewer than max(10, 3 d), d coefficients.

        Totals before and after would tell what these rows are.
        """
        rows, least = self.rows_changed, max(10, 3 * d)
        if 0 < rows < least and not self.rules.small_changes:
            raise self._refuse(
                f"{rows} rows of the data file have changed since the last fit; from {least} on the difference of two "
                "totals tells nothing of single rows. Write small_changes = true into [rules] if that may be"
            )

    def check_point(self, block: Rows, scale: Vector, point: tuple[Vector, float, bool]) -> None:
        """Raise Refusal if one row, or few rows, make up most of the Hessian at a point.

        It is never raised if the Hessian is zero there. `scale`, shape (p + 1,), divides the columns and ones; `point`
        is what `TotalMethod.trial` returns.
        """
        rules, X = self.rules, block.X[0]
        w, intercept, majorant = point
        z = np.asarray(X @ w) + intercept
        h = np.asarray(block.dual.conjugate_majorant(-z) if majorant else block.dual.conjugate_curvature(-z))
        traces = h * squared_norms(X, scale)
        if not h.any():
            return
        share, spread = float(traces.max() / traces.sum()), float(h.sum() ** 2 / (h**2).sum())
        if share > rules.largest_share:
            raise self._refuse(f"one row is {share:.2f} of the trace, largest_share = {rules.largest_share:g}")
        if spread < rules.effective_rows:
            raise self._refuse(f"curvature of {spread:.1f} rows, effective_rows = {rules.effective_rows:g}")

    def check_all(self, d: int, n: float) -> None:
        """Raise Refusal if d coefficients are more than 0.1 (SEEN_ALONE) for each of the n rows at all sites."""
        if d / n > SEEN_ALONE:
            raise self._refuse(
                f"{d} coefficients for {n:.0f} rows at all sites are {d / n:.2f} a row, at most 0.1; {FEWER_COLUMNS}"
            )


def check_folds(d: int, rows: Vector, n_sites: int) -> None:
    """Raise Refusal, which proposes fewer folds, unless each fold holds out max(10, 3 d) rows or more at all sites.

    d is the number of coefficients; `rows`, shape (F,), are the numbers of rows that each fold holds out, summed over
    all `n_sites` sites. All sites raise it.
    """
    least, n_folds = max(10, 3 * d), len(rows)
    if rows.min() >= least:
        return
    why = f"{n_folds} folds hold out {int(rows.min())} rows each at all sites, and {least} are needed"
    most = next((f for f in range(n_folds - 1, 1, -1) if rows.sum() / f - n_sites >= least), 0)
    do = f"write cv = {most} into [problem]" if most else "there are too few for any; write cv = 0 and an alpha"
    raise Refusal(f"{why}; {do}", public=f"{why}; {do}")


def largest_leverage(block: Rows) -> float | None:
    """Return the largest leverage of a row x_i, x_i' (X'X)^+ x_i, where X are the site's rows with a 1 behind them.

    None if that would take long to compute. Where it is near 1, a row has a direction for itself.
    """
    X, d = block.X[0], block.p + 1
    if (len(block.y[0]) + 10 * d) * d * d > MOST_WORK:
        return None
    whole = np.column_stack([X.toarray() if sp.issparse(X) else X, np.ones(len(block.y[0]))])
    whole /= np.maximum(np.sqrt((whole**2).sum(axis=0)), np.finfo(float).tiny)
    values, vectors = np.linalg.eigh(whole.T @ whole)
    kept = values > values.max() * d * np.finfo(float).eps
    return float(((whole @ vectors[:, kept]) ** 2 / values[kept]).sum(axis=1).max())


def squared_norms(X: SampleMatrix, scale: Vector) -> Vector:
    """Return the squared norm of each row of X, with a 1 behind it, after division by `scale`; shape (m,).

    `scale` has shape (p + 1,).
    """
    weights = scale**-2.0
    squares = X.power(2) @ weights[:-1] if sp.issparse(X) else np.einsum("ij,ij,j->i", X, X, weights[:-1])
    return np.asarray(squares + weights[-1])


def level_counts(X: SampleMatrix) -> Vector:
    """Return, for the p columns of X, how many rows are 1, then how many are neither 0 nor 1; shape (2 p,)."""
    if sp.issparse(X):
        places, p = X.indices, X.shape[1]
        ones = np.bincount(places[X.data == 1.0], minlength=p)
        others = np.bincount(places[(X.data != 1.0) & (X.data != 0.0)], minlength=p)
    else:
        ones, others = (X == 1.0).sum(axis=0), ((X != 0.0) & (X != 1.0)).sum(axis=0)
    return np.concatenate([ones, others]).astype(np.float64)


def rare_columns(counts: Vector, n: float) -> list[int]:
    """Return the numbers of the 0/1 columns of which one value is rare: in some rows, but fewer than LEAST_LEVEL.

    `counts` are those of `level_counts`, summed over the n rows of all sites. A column with one value only is not rare.
    """
    ones, others = counts.reshape(2, -1)
    fewer = np.minimum(ones, n - ones)
    return np.flatnonzero((others == 0) & (fewer > 0) & (fewer < LEAST_LEVEL)).tolist()
