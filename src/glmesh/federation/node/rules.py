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
from glmesh.methods.totals.likelihood.cone import CLASSES, COUNTS, SHARES, kind
from glmesh.methods.totals.traits import Traits
from glmesh.types import Flags, SampleMatrix, Vector

SEEN_ALONE = 0.1  # coefficients per row at which totals of a difference determine no row: 10 rows a coefficient (v6)
FEWER_COLUMNS = "leave columns out, or bring more rows together"  # what would do where d / n is too large
# [products] of a Gram matrix and its eigenvectors, (m + 10 d) d^2, above which no leverages are computed, because that
# would take seconds
MOST_WORK = 5e8
LEAST_LEVEL = 5  # rows of each value of a two-valued column over all sites (v6: 5, DataSHIELD nfilter.tab: 3)


@dataclass(frozen=True)
class RuleBook:
    """A site's rules, with what of its data and federation they depend on; its methods raise Refusal."""

    rules: SiteRules
    name: str  # of the site
    constant: bool  # whether totals of two sets of members differ by what the others contribute, at whatever point
    may_change: bool  # whether members may be left out, or come late
    kinked: str = ""  # name of the loss if it has kinks
    rows_changed: int = 0  # rows of the file that differ from those of the last contribution
    clusters_changed: int = 0  # clusters that differ, as sets of rows, from those of a contribution; 0: none do

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
        rules, n, d = self.rules, n_rows(block), n_coefficients(block)
        if self.kinked and not rules.reveal_support:
            raise self._refuse(
                f"the {self.kinked} loss has kinks, and its totals show the rows at the kink; use squared_hinge or "
                "huber, or let every site write reveal_support = true into [rules] of its node file"
            )
        self._check_change(d)
        if n < rules.least_rows:
            raise self._refuse(f"{n} rows, least_rows = {rules.least_rows}")
        whose, counts = class_counts(block)
        if any(0 < one < rules.least_class for one in counts):
            raise self._refuse(f"{min(one for one in counts if one)} {whose}, least_class = {rules.least_class}")
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
        rules = self.rules
        w, intercept, majorant = point
        if block.loss.by_likelihood:
            curvatures = block.likelihoods[0].row_curvatures(np.append(w, intercept))
        else:
            z = np.asarray(block.X[0] @ w) + intercept
            h = block.dual.conjugate_majorant(-z) if majorant else block.dual.conjugate_curvature(-z)
            curvatures = np.asarray(h)[None]
        sizes = row_sizes(block, scale)
        for h in curvatures[curvatures.any(axis=1)]:
            h = h / h.max()  # products and squares would overflow, or underflow
            share, spread = dominance(h, h * sizes)
            if share > rules.largest_share:
                why = f"one row is {share:.2f} of the trace, largest_share = {rules.largest_share:g}"
                raise self._refuse(f"{why}{_perhaps_separated(block)}")
            if spread < rules.effective_rows:
                why = f"curvature of {spread:.1f} rows, effective_rows = {rules.effective_rows:g}"
                raise self._refuse(f"{why}{_perhaps_separated(block)}")

    def check_sums(self, d: int, sizes: Vector) -> None:
        """Raise Refusal if sums of d products of all of the site's rows, before a fit, would show few of these.

        `sizes`, shape (m,), is what each row adds to the trace of these sums.
        """
        if len(sizes) < self.rules.least_rows:
            raise self._refuse(f"{len(sizes)} rows, least_rows = {self.rules.least_rows}")
        if self.shows_few(d, np.ones(len(sizes)), sizes):
            raise self._refuse(
                f"few of this site's {len(sizes)} rows make up most of what center and standardize would sum up; take "
                "numbers that all agree on: I((x - 50) / 10)"
            )

    def check_shape(self, sizes: Vector) -> None:
        """Raise Refusal if few rows make up most of the sum of `sizes`, shape (m,), from which a shape is estimated."""
        if sizes.any() and self.shows_few(1, sizes, sizes):
            share, spread = dominance(sizes, sizes)
            raise self._refuse(
                f"theta would be estimated from few rows: one is {share:.2f} of the sum, spread over {spread:.1f}; let "
                "the federation file give a number, theta = 2"
            )

    def shows_few(self, d: int, weights: Vector, traces: Vector, *, alone: bool = False) -> bool:
        """Return whether a sum of outer products over some of the site's rows, in d coordinates, would show few rows.

        Rows with a weight above 0 are in it; `traces` is what each adds to its trace. Nothing is shown by no row at
        all. Else the rules about rows per coefficient, and about the rows that a Hessian is spread over, hold here too.
        `alone`: others may learn the site's own sum, from the difference of those of two sets of members.
        """
        rules, n = self.rules, int(np.count_nonzero(weights))
        if not n:
            return False
        share, spread = dominance(weights, traces)
        most = min(SEEN_ALONE, rules.most_columns) if alone else rules.most_columns
        least = max(float(rules.least_class), d / most)
        return n < least or share > rules.largest_share or spread < rules.effective_rows

    def shows_few_clusters(self, d: int, sizes: Vector) -> bool:
        """Return whether a sum over the site's clusters, of matrices of d x d numbers, would show few of them.

        `sizes`, shape (n,), is how large each is; those of size 0 are not in it. Nothing is shown by none at all.
        """
        n = int(np.count_nonzero(sizes))
        return n > 0 and (n < self.rules.least_clusters or self.shows_few(d, sizes, sizes))

    def shows_changed_clusters(self, d: int) -> bool:
        """Return whether the difference from an earlier sum would show few clusters, because few have changed since.

        They are fewer than max(10, 3 d), where d is the number of coefficients.
        """
        return 0 < self.clusters_changed < max(10, 3 * d) and not self.rules.small_changes

    def shows_constant(self, block: Rows, scale: Vector, *, changed: bool) -> bool:
        """Return whether a sum of outer products of all rows, the same at every point, would tell too much of a site.

        Where members may change, the difference of two such sums is one site's; `changed` and `scale` are those of
        `check_data` and `check_point`.
        """
        used, alone = (block.weight[0] > 0).astype(np.float64), changed or self.may_change
        return self.shows_few(n_coefficients(block), used, used * row_sizes(block, scale), alone=alone)

    def check_all(self, d: int, n: float) -> None:
        """Raise Refusal if d coefficients are more than 0.1 (SEEN_ALONE) for each of the n rows at all sites."""
        if d / n > SEEN_ALONE:
            raise self._refuse(
                f"{d} coefficients for {n:.0f} rows at all sites are {d / n:.2f} a row, at most 0.1; {FEWER_COLUMNS}"
            )


def _perhaps_separated(block: Rows) -> str:
    """Return words on what may be behind few rows that carry a Hessian without a penalty; "" if there is one."""
    penalised = bool(block.penalty.kernel_rows(block.p)[:, :2].any())
    if penalised or not block.loss.by_likelihood or kind(block.loss) not in (SHARES, CLASSES):
        return ""
    return ". If that is because columns separate the classes, or nearly do, a penalty (alpha > 0) mends it"


def has_constant_curvature(block: Rows) -> bool:
    """Return whether the Hessian that totals bring, or the expected one at the end of a fit, is the same everywhere.

    So it is for the squared loss and, of the families, for gaussian with the identity and gamma with the log link.
    """
    loss = block.loss
    if not loss.by_likelihood:
        return not block.dual.has_smooth_conjugate or Traits.of(loss).quadratic
    if (family := loss.as_family) is None or family.has_unknown_shape:
        return False
    here, there = family.information(np.array([0.5, 1.5]))
    return bool(here == there)


def n_coefficients(block: Rows) -> int:
    """Return the number of design columns with the intercept, once however many classes; an offset does not count."""
    return int(block.X[0].shape[1]) - int(held_columns(block).sum()) + block.fit_intercept


def n_rows(block: Rows) -> int:
    """Return the number of the site's rows; of a Cox model with events those that are at risk at one of them."""
    at_risk = block.likelihoods[0].rows_at_risk if block.loss.compares_rows else 0
    return at_risk or len(block.y[0])


def held_columns(block: Rows) -> Flags:
    """Return a mask of the columns of X, true for those whose coefficient bounds hold for every class: an offset."""
    width = int(block.X[0].shape[1])
    rows = block.whole_penalty.kernel_rows(block.p + 1).reshape(block.loss.n_outputs, width + 1, 5)
    return np.asarray((rows[:, :-1, 3] == rows[:, :-1, 4]).all(axis=0))


def class_counts(block: Rows) -> tuple[str, list[int]]:
    """Return (what is counted, for messages; how many rows of the site there are of each class).

    A site refuses to take part if one of the numbers is above 0 and small, because a sum over few rows shows them. Of
    shares they are the rows with a success, and those with a failure; of counts the rows above 0, as the others add
    nothing to a sum of targets; of times the events. Other targets have none.
    """
    y, loss = block.y[0], block.loss
    y = y[block.weight[0] > 0]
    if loss.compares_rows:
        return "events", [int((y > 0).sum())]
    if loss.classifies:
        return "rows of a class", [int((y == side).sum()) for side in (-1.0, 1.0)]
    targets = kind(loss) if loss.by_likelihood else ""
    if targets == SHARES:
        return "rows of a class", [int((y > 0).sum()), int((y < 1).sum())]
    if targets == COUNTS:
        return "rows with a target above 0", [int((y > 0).sum())]
    return "rows of a class", np.bincount(y.astype(np.int64)).tolist() if targets == CLASSES else []


def dominance(weights: Vector, traces: Vector) -> tuple[float, float]:
    """Return (the largest row's share of the sum of `traces`, the number of rows that the weights are spread over).

    The latter is (sum h)^2 / sum h^2 of weights h >= 0, of which one at least must be above 0.
    """
    total = float(traces.sum())
    weights = weights / weights.max()  # squares of very small ones would underflow
    return float(traces.max() / total) if total > 0 else 0.0, float(weights.sum() ** 2 / (weights**2).sum())


def row_sizes(block: Rows, scale: Vector) -> Vector:
    """Return the squared norm of each of the site's rows, with a 1 behind it, in scaled units, shape (m,).

    `scale` has an entry for each coefficient; columns that are held do not count. Of a Cox model, which knows only
    differences of rows, it is the squared distance from their mean.
    """
    X, width = block.X[0], int(block.X[0].shape[1])
    own = np.append(np.where(held_columns(block), np.inf, scale[:width]), scale[width])
    if not block.loss.compares_rows:
        return squared_norms(X, own)
    dense = np.asarray(X.toarray() if sp.issparse(X) else X)
    own[-1] = np.inf
    return squared_norms(dense - dense.mean(axis=0), own)


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
    X = block.X[0][:, np.flatnonzero(~held_columns(block))]
    d = int(X.shape[1]) + 1
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
