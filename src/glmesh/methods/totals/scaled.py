"""Coefficients and penalty in units in which the columns of all nodes together have norms near one.

A column is divided by a power of two, so nothing is rounded by it: coefficients are multiplied by that power, and the
penalty's terms are changed to match. The intercept is the last coordinate; without one it is held at zero by bounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from glmesh.core.totals import NOTHING
from glmesh.functions import Table
from glmesh.methods.totals.rows import Rows
from glmesh.types import Flags, Indices, Matrix, Vector


def column_exponents(block: Rows) -> Indices:
    """Return the exponent of the norm of each column of each hosted node's rows, shape (n_hosted, p)."""
    squares = [np.asarray(x.power(2).sum(axis=0)) if sp.issparse(x) else np.einsum("ij,ij->j", x, x) for x in block.X]
    norms = np.sqrt(np.stack(squares))
    return np.where(norms > 0, np.frexp(norms)[1], NOTHING).astype(np.int64)


def scales(exponents: Indices) -> Vector:
    """Return the power of two that each column is divided by, shape (p,); 1 for a column that is zero everywhere."""
    return np.ldexp(1.0, np.where(exponents > NOTHING, exponents, 0).astype(np.int32))


@dataclass(frozen=True, eq=False)
class ScaledPenalty:
    """The penalty as a function of d = p + 1 scaled coefficients, the intercept last."""

    scale: Vector  # (p,) power of two that each column is divided by
    table: Table  # of d coordinates

    @staticmethod
    def of(block: Rows, scale: Vector) -> ScaledPenalty:
        """Return the penalty of a block's rows for columns that are divided by `scale`, shape (p,)."""
        rows = block.penalty.kernel_rows(len(scale))
        intercept = [0.0, 0.0, 0.0, -np.inf, np.inf] if block.fit_intercept else [0.0] * 5
        factors = np.stack([1.0 / scale, 1.0 / scale**2, 1.0 / scale, scale, scale], axis=1)
        return ScaledPenalty(scale, Table(*np.vstack([rows * factors, intercept]).T))

    @cached_property
    def free(self) -> Flags:
        """Mask of shape (d,), true where a coordinate has no penalty and no bound at all."""
        t = self.table
        unpenalised = (t.l1 == 0) & (t.l2 == 0) & (t.linear == 0)
        return np.asarray(unpenalised & np.isneginf(t.lo) & np.isposinf(t.hi))

    @cached_property
    def smooth(self) -> Flags:
        """Mask of shape (d,), true where a coordinate has neither a kink nor a bound."""
        return np.asarray((self.table.l1 == 0) & np.isneginf(self.table.lo) & np.isposinf(self.table.hi))

    @cached_property
    def movable(self) -> Indices:
        """Coordinates that are not held by bounds, ascending; the intercept is last."""
        return np.flatnonzero(self.table.lo < self.table.hi)

    @cached_property
    def bound(self) -> Table:
        """Penalty of the coordinates that are not `free`, in their order."""
        return self.table.take(np.flatnonzero(~self.free))

    @cached_property
    def least(self) -> float:
        """Lower bound of the penalty, minus infinity if it has none."""
        return -float(self.table.conjugates(np.zeros(len(self.free))).sum())

    def value(self, u: Vector) -> float:
        """Return the penalty at scaled coefficients u, shape (d,)."""
        return self.table.value(u)

    def to_user(self, u: Vector) -> tuple[Vector, float]:
        """Return (coefficients (p,), intercept) in the user's units."""
        return u[:-1] / self.scale, float(u[-1])

    def from_user(self, w: Vector, intercept: float) -> Vector:
        """Return scaled coefficients, shape (d,), moved into their bounds."""
        return np.asarray(np.clip(np.append(w * self.scale, intercept), self.table.lo, self.table.hi))

    def raw(self, vectors: Matrix) -> Matrix:
        """Return scaled vectors, shape (n, d), as factors of raw columns and ones, shape (d, n)."""
        out = np.array(vectors.T)
        out[:-1] /= self.scale[:, None]
        return out
