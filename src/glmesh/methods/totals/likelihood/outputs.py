"""Models of several linear predictors, as the multinomial one: their coefficients in a row, and what holds them.

A model of C predictors has the coefficients (w_0, b_0, w_1, b_1, ..., w_{C-1}, b_{C-1}), which methods see as one
vector of C (p + 1) numbers with an intercept, b_{C-1}, last; here they are rows (w_c, b_c), shape (C, p + 1). A vector
that is added to all rows changes no probability of a class, so the loss is flat along p + 1 directions: one for each
column, and one for the intercept. `gauge` fixes each of them once:

- A column without a penalty: the first class has the coefficient 0, as the reference class of statsmodels' MNLogit
  has. The others are then logarithms of odds against it.
- A column with L2 in its penalty: nothing is held. Only the penalty feels the shift, and it is smallest where the
  coefficients of the C classes add up to 0, as scikit-learn's do; a class that is held at 0 would be another model.
- A column with L1 alone: nothing is held. The penalty is smallest where a median of the C coefficients is 0; for an
  even C there may be several such points, of which `slimmed` takes one at which some class has exactly 0.
- Intercepts have no penalty: that of the first class is held at 0 during the fit. At the end `balanced_rows` moves all
  by minus their mean, as scikit-learn has them, unless the first class is the reference in all columns.
"""

from __future__ import annotations

import numpy as np

from glmesh.errors import UnsuitablePair
from glmesh.functions import Table
from glmesh.problem import ProblemSpec
from glmesh.types import Flags, Indices, Matrix


def gauge(penalty: Table, p: int, n_outputs: int, *, fit_intercept: bool) -> Table:
    """Return the penalty of all C (p + 1) coefficients, from that of the p columns, which is the same for all classes.

    What no penalty feels is held at 0, as the module's docstring says: coefficients of the first class in columns
    without a penalty, the intercept of the first class, and all intercepts without `fit_intercept`. UnsuitablePair is
    raised for an offset, and for bounds or a linear term in a column with neither L1 nor L2.
    """
    columns = penalty.kernel_rows(p)
    l1, l2, linear, lo, hi = columns.T
    if ((lo == hi) & (lo != 0)).any():
        raise UnsuitablePair("an offset that is the same for all classes changes no probability; leave it out")
    bare = (l1 == 0) & (l2 == 0)
    if (bare & (lo < hi) & (np.isfinite(lo) | np.isfinite(hi) | (linear != 0))).any():
        raise UnsuitablePair(
            "the multinomial loss knows coefficients but for a common shift of all classes, which bounds or a linear "
            "term do not fix; add an L1 or L2 penalty, or leave them out"
        )
    open_sides = [-np.inf, np.inf] if fit_intercept else [0.0, 0.0]
    out = np.tile(np.vstack([columns, [0.0, 0.0, 0.0, *open_sides]]), (n_outputs, 1))
    out[: p + 1][np.append(bare, True), 3:] = 0.0
    return Table(*out.T)


def coefficient_table(spec: ProblemSpec, width: int) -> Table:
    """Return the penalty of the coefficients of `Rows.p`, alpha included, for data of `width` columns.

    It must have a term per coefficient.
    """
    table = spec.penalty_of(None).as_table()
    assert table is not None
    if (outputs := spec.loss.n_outputs) == 1:
        return table
    whole = gauge(table, width, outputs, fit_intercept=spec.fit_intercept)
    return whole.take(np.arange(outputs * (width + 1) - 1))


def held(penalty: Table, rows: Matrix) -> Matrix:
    """Return coefficients of equal loss, shape (C, p + 1), at which what `gauge` holds for the first class is 0.

    `penalty` is that of all coefficients, as `gauge` returns it.
    """
    lo, hi = penalty.kernel_rows(rows.size).reshape(*rows.shape, 5)[0, :, 3:].T
    return rows - np.where((lo == 0) & (hi == 0), rows[0], 0.0)


def balanced_rows(penalty: Table, rows: Matrix) -> Matrix:
    """Return coefficients of equal loss, shape (C, p + 1), whose penalty is not larger than that of `rows`.

    `penalty` is that of all coefficients, as `gauge` returns it. Columns are those of `slimmed`. Free intercepts are
    moved to add up to 0, unless no column has a penalty, where the first class is the reference.
    """
    out = slimmed(penalty, rows)
    l1, l2, _, lo, _ = penalty.kernel_rows(rows.size).reshape(*rows.shape, 5)[-1].T
    if np.isneginf(lo[-1]) and ((l1 > 0) | (l2 > 0)).any():
        out[:, -1] -= out[:, -1].mean()
    return out


def slimmed(penalty: Table, rows: Matrix) -> Matrix:
    """Return coefficients of equal loss, shape (C, p + 1), where a median of each column with L1 alone is exactly 0.

    `penalty` is that of all coefficients, as `gauge` returns it; that of the result is not larger. Of two medians the
    one that is nearer to 0 is taken, the lower one if both are as near. Other columns are left as they are.
    """
    out, C = rows.copy(), len(rows)
    alone = _l1_alone(penalty, len(rows))
    medians = np.sort(out[:, alone], axis=0)[[(C - 1) // 2, C // 2]]
    nearer = np.abs(medians[1]) < np.abs(medians[0])
    out[:, alone] -= np.where(nearer, medians[1], medians[0])
    return out


def balanced(penalty: Table, rows: Matrix) -> Flags:
    """Return a mask of the coefficients, shape (C, p + 1), at 0 whose slope the others of their column determine.

    The slopes of all classes in a column add up to 0. With L1 alone, and one more of the other classes above 0 than
    below it, or the reverse, the slope of the class at 0 is exactly as large as L1 bears, wherever the others are
    stationary: it meets the condition of an optimum with no slack at all. `penalty` is that of all coefficients.
    """
    signs = np.sign(rows)
    columns = (signs == 0).sum(axis=0) == 1
    columns &= np.abs(signs.sum(axis=0)) == 1
    columns &= np.isin(np.arange(rows.shape[1]), _l1_alone(penalty, len(rows)))
    return np.asarray((signs == 0) & columns)


def shifts(penalty: Table, n_outputs: int, columns: Indices) -> bool:
    """Return whether a common shift of all classes in some column is free but for L1, so that the Hessian is flat.

    `penalty` is that of all coefficients, as `gauge` returns it, and `columns` are those of the Hessian, ascending.
    """
    if n_outputs == 1:
        return False
    alone = np.zeros((n_outputs, len(penalty.l1) // n_outputs), dtype=bool)
    alone.ravel()[columns] = True
    return bool(alone[:, _l1_alone(penalty, n_outputs)].all(axis=0).any())


def _l1_alone(penalty: Table, n_outputs: int) -> Indices:
    """Return the numbers of the columns whose penalty is L1 alone, without bounds."""
    l1, l2, linear, lo, hi = penalty.kernel_rows(len(penalty.l1)).reshape(n_outputs, -1, 5)[-1].T
    return np.flatnonzero((l1 > 0) & (l2 == 0) & (linear == 0) & np.isneginf(lo) & np.isposinf(hi))
