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
    """Return the exponent of the norm of each column of each hosted node's rows, and of ones, shape (n_hosted, d)."""
    squares = [np.asarray(x.power(2).sum(axis=0)) if sp.issparse(x) else np.einsum("ij,ij->j", x, x) for x in block.X]
    lengths = np.array([[float(x.shape[0])] for x in block.X])
    norms = np.sqrt(np.hstack([np.stack(squares), lengths]))
    return np.where(norms > 0, np.frexp(norms)[1], NOTHING).astype(np.int64)


def scales(exponents: Indices) -> Vector:
    """Return the power of two that each column is divided by, shape (d,); 1 for a column that is zero everywhere."""
    return np.ldexp(1.0, np.where(exponents > NOTHING, exponents, 0).astype(np.int32))


@dataclass(frozen=True, eq=False)
class ScaledPenalty:
    """The penalty as a function of d = p + 1 scaled coefficients, the intercept last."""

    scale: Vector  # (d,) power of two that each column is divided by
    table: Table  # of d coordinates

    @staticmethod
    def of(block: Rows, scale: Vector) -> ScaledPenalty:
        """Return the penalty of a block's rows for columns that are divided by `scale`, shape (d,)."""
        intercept = [0.0, 0.0, 0.0, -np.inf, np.inf] if block.fit_intercept else [0.0] * 5
        rows = np.vstack([block.penalty.kernel_rows(block.p), intercept])
        factors = np.stack([1.0 / scale, 1.0 / scale**2, 1.0 / scale, scale, scale], axis=1)
        return ScaledPenalty(scale, Table(*(rows * factors).T))

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
    def _sides(self) -> tuple[Vector, Vector]:
        """Return the least and largest c_j with -c_j in the domain of each conjugate of `bound`."""
        t = self.bound
        low = np.where((t.l2 == 0) & np.isposinf(t.hi), -t.linear - t.l1, -np.inf)
        high = np.where((t.l2 == 0) & np.isneginf(t.lo), -t.linear + t.l1, np.inf)
        return low, high

    @cached_property
    def margins(self) -> Table:
        """`bound` without those infinite sides to which nothing can be shrunk, because zero is at their edge."""
        low, high = self._sides
        rows = self.bound.kernel_rows(len(low))
        rows[low == 0, 4] = 0.0
        rows[high == 0, 3] = 0.0
        rows[:, 3], rows[:, 4] = np.minimum(rows[:, 3], rows[:, 4]), np.maximum(rows[:, 3], rows[:, 4])
        return Table(*rows.T)

    @cached_property
    def edged(self) -> Flags:
        """Mask of shape (d,), true where a coordinate has one bound and no penalty: zero is an edge of its domain."""
        low, high = self._sides
        out = np.zeros(len(self.free), dtype=bool)
        out[~self.free] = (low == 0) | (high == 0)
        return out

    def inside(self, u: Vector) -> Flags:
        """Return where scaled coefficients u, shape (d,), are between their bounds."""
        return np.asarray((u > self.table.lo) & (u < self.table.hi))

    def broken(self, pulls: Vector) -> Flags:
        """Return where pulls c, shape (d,), have the wrong sign for a coordinate with one bound and no penalty."""
        low, high = self._sides
        c, out = pulls[~self.free], np.zeros(len(pulls), dtype=bool)
        out[~self.free] = ((low == 0) & (c < 0)) | ((high == 0) & (c > 0))
        return out

    def nearest(self, pulls: Vector) -> Vector:
        """Return the pulls, shape (d,), nearest to the given ones at which the conjugate of the penalty is finite.

        A coordinate without a penalty has 0.
        """
        out = np.zeros_like(pulls)
        out[~self.free] = self.within(pulls[~self.free])
        return out

    def unsure(self, pulls: Vector, error: float) -> Flags:
        """Return where pulls c, shape (d,), wrong by at most `error`, may be beyond an end of their domain, or are.

        Ends beyond which they are by more than the error do not count, nor do coordinates without a penalty.
        """
        low, high = self._sides
        c, out = pulls[~self.free], np.zeros(len(pulls), dtype=bool)
        out[~self.free] = (np.abs(c - low) <= error) | (np.abs(c - high) <= error)
        return out

    def within(self, pulls: Vector) -> Vector:
        """Return pulls c of the coordinates of `bound` moved to where the conjugate of the penalty is finite at -c."""
        return np.clip(pulls, *self._sides)

    @cached_property
    def least(self) -> float:
        """Lower bound of the penalty, minus infinity if it has none."""
        return -float(self.table.conjugates(np.zeros(len(self.free))).sum())

    def value(self, u: Vector) -> float:
        """Return the penalty at scaled coefficients u, shape (d,)."""
        return self.table.value(u)

    def moved(self, u: Vector, step: Vector) -> Vector:
        """Return u + step, shape (d,), within the bounds, which rounding may have left."""
        return np.asarray(np.clip(u + step, self.table.lo, self.table.hi))

    def to_user(self, u: Vector) -> tuple[Vector, float]:
        """Return (coefficients (p,), intercept) in the user's units."""
        w = u / self.scale
        return w[:-1], float(w[-1])

    def from_user(self, w: Vector, intercept: float) -> Vector:
        """Return scaled coefficients, shape (d,), moved into their bounds."""
        return np.asarray(np.clip(np.append(w, intercept) * self.scale, self.table.lo, self.table.hi))

    def raw(self, vectors: Matrix) -> Matrix:
        """Return scaled vectors, shape (n, d), as factors of raw columns and ones, shape (d, n)."""
        return np.ascontiguousarray((vectors / self.scale).T)
