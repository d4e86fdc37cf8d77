"""Offsets: columns whose coefficient is held at 1, the last of the data, so that they travel like any other column."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from glmesh.errors import InvalidData, InvalidInput
from glmesh.functions import Table
from glmesh.problem.named import Names, check_known, named_matrix, refuse_permuted
from glmesh.problem.spec import ProblemSpec
from glmesh.types import Data, Matrix, SampleMatrix, Vector
from glmesh.validation import LARGEST, are_usable, unusable

OFFSET = "(offset)"  # name of the column, in brackets because users' columns are not


def with_offset(X: Data, offset: ArrayLike, name: str) -> tuple[Data, Names]:
    """Return (X with the offset as its last column, names of the columns); names are None if X has none.

    Messages call the data `name`. Raise InvalidData for an offset of another length, one that is not finite, or one
    that has the rows of X in another order.
    """
    refuse_permuted(X, offset, f"the offset of {name}", name)
    X, names = named_matrix(X, name)
    column = checked_offset(offset, X.shape[0] if hasattr(X, "shape") else len(X), f"the offset of {name}")
    own = None if names is None else (*names, OFFSET)
    if sp.issparse(X):
        return sp.hstack([X, sp.csr_array(column[:, None])], format="csr"), own
    return np.hstack([np.asarray(X, dtype=np.float64), column[:, None]]), own


def checked_offset(offset: ArrayLike, m: int, what: str) -> Vector:
    """Return an offset as a float64 vector of shape (m,).

    Raise InvalidData, which calls the offset `what`, for another length, a text, or a value that is not finite.
    """
    check_known(offset, what)
    try:
        column = np.asarray(offset, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"{what} holds values that are no numbers; give a number per row") from None
    if column.shape != (m,):
        raise InvalidData(f"{what} has shape {column.shape}; X has {m} rows, and each needs one")
    if not are_usable(column):
        at = int(np.argmax(~(np.abs(column) <= LARGEST)))
        raise InvalidData(unusable(float(column[at]), f"{what} holds", f"at row {at}"))
    return column


def put_last(X: SampleMatrix, at: int) -> tuple[Matrix, list[int]]:
    """Return (X as an array with its column number `at` last, the numbers of all columns in the new order)."""
    order = [k for k in range(int(X.shape[1])) if k != at] + [at]
    return np.array(X.toarray() if sp.issparse(X) else X, dtype=np.float64)[:, order], order


def hold_offset(spec: ProblemSpec, p: int) -> ProblemSpec:
    """Return `spec` for p columns, the last of which is an offset: its coefficient is held at 1.

    Raise InvalidInput for penalties that are not a term per coefficient.
    """
    table = None if isinstance(spec.penalty, list) else spec.penalty.as_table()
    if table is None or not spec.loss.by_likelihood:
        raise InvalidInput("an offset goes with family=..., and a penalty with a term per coefficient")
    rows = np.vstack([table.kernel_rows(p - 1), [0.0, 0.0, 0.0, 1.0, 1.0]])
    return replace(spec, penalty=Table(*rows.T), offset=True)
