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
from glmesh.kernels.model import penalties_along
from glmesh.methods.totals.rows import Rows
from glmesh.types import Flags, Indices, Matrix, Unsigned, Vector

# [end of a slope's domain] error that shrinking the dual point costs less than any tolerance, because a gap of 1e-10 of
# the objective is hardly asked for
NEGLIGIBLE = 1e-10

# [norm of the column] norm of a column less its mean that counts at least, because squares cancel to 1e-16, so that a
# constant column keeps its units
LEAST_SPREAD = 1e-6


def column_exponents(block: Rows) -> Indices:
    """Return the binary exponents of the norms of each hosted node's columns, shape (n_hosted, d).

    Column d - 1 is that of ones, for the intercept. Several linear predictors of a row have the same columns each. A
    loss that compares the rows of a node with each other depends on differences alone, so columns count less their
    means there: a Hessian in units of the means would lose its digits when totals are rounded.
    """
    squares = [np.asarray(x.power(2).sum(axis=0)) if sp.issparse(x) else np.einsum("ij,ij->j", x, x) for x in block.X]
    if block.loss.compares_rows:
        means = [np.asarray(x.mean(axis=0)).ravel() if x.shape[0] else np.zeros(x.shape[1]) for x in block.X]
        each = zip(block.X, squares, means, strict=True)
        squares = [np.maximum(square - x.shape[0] * mean**2, LEAST_SPREAD**2 * square) for x, square, mean in each]
    lengths = np.array([[float(x.shape[0])] for x in block.X])
    norms = np.tile(np.sqrt(np.hstack([np.stack(squares), lengths])), block.loss.n_outputs)
    return np.where(norms > 0, np.frexp(norms)[1], NOTHING).astype(np.int64)


def scales(exponents: Indices) -> Vector:
    """Return the power of two that each column is divided by, shape (d,); 1 for a column that is zero everywhere."""
    return np.ldexp(1.0, np.where(exponents > NOTHING, exponents, 0).astype(np.int32))


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The penalty on n coordinates, in the form in which the kernel of a step reads it."""

    rows: Matrix  # (n, 5) l1, l2, linear, lo and hi
    order: tuple[Unsigned, np.uint64]  # (numbers 0..n - 1, those of smooth coordinates first (n,), how many these are)

    @staticmethod
    def of(penalty: ScaledPenalty, columns: Indices) -> Coordinates:
        """Return the penalty on the coordinates `columns`, ascending."""
        smooth = penalty.smooth[columns]
        order = np.argsort(~smooth, kind="stable").astype(np.uint64)
        return Coordinates(penalty.rows[columns], (order, np.uint64(smooth.sum())))


@dataclass(frozen=True, eq=False)
class ScaledPenalty:
    """The penalty as a function of d = p + 1 scaled coefficients, the intercept last.

    A scaled coefficient is that of a column divided by its `scale`. c = X^T theta are a dual point's "pulls" on
    coordinates.
    """

    scale: Vector  # (d,) power of two that each column is divided by
    table: Table  # of d coordinates
    n_outputs: int = 1  # linear predictors of a row, whose coefficients stand one after the other

    @staticmethod
    def of(block: Rows, scale: Vector) -> ScaledPenalty:
        """Return the penalty of a block for columns that are divided by `scale`, shape (d,); the block keeps it."""
        kept = block.scaled
        if kept is not None and kept[0] is scale and kept[1] is block.penalty and isinstance(kept[2], ScaledPenalty):
            return kept[2]
        intercept = [0.0, 0.0, 0.0, -np.inf, np.inf] if block.fit_intercept else [0.0] * 5
        rows = np.vstack([block.penalty.kernel_rows(block.p), intercept])
        factors = np.stack([1.0 / scale, 1.0 / scale**2, 1.0 / scale, scale, scale], axis=1)
        made = ScaledPenalty(scale, Table(*(rows * factors).T), block.loss.n_outputs)
        block.scaled = scale, block.penalty, made
        return made

    @cached_property
    def rows(self) -> Matrix:
        """Return (l1, l2, linear, lo, hi) of each coordinate as kernels read them, shape (d, 5)."""
        return self.table.kernel_rows(len(self.scale))

    @cached_property
    def _whole(self) -> Coordinates:
        """Return the coordinates that are not fixed, as `on` does."""
        return Coordinates.of(self, self.movable)

    def on(self, columns: Indices) -> Coordinates:
        """Return the penalty on n coordinates, ascending, as a step's kernel reads it; that of all is kept."""
        whole = len(columns) == len(self.movable) and bool((columns == self.movable).all())
        return self._whole if whole else Coordinates.of(self, columns)

    @cached_property
    def everywhere(self) -> bool:
        """Return whether the conjugate of the penalty of the coordinates that are not `free` is finite everywhere."""
        low, high = self._sides
        return bool(np.isneginf(low).all() and np.isposinf(high).all())

    @cached_property
    def all_held(self) -> bool:
        """Return whether no coordinate is `free`, so that the conjugate of the penalty asks for no equations."""
        return not self.free.any()

    @cached_property
    def free(self) -> Flags:
        """Return a mask of shape (d,), true where a coordinate has no penalty and no bound at all."""
        t = self.table
        unpenalised = (t.l1 == 0) & (t.l2 == 0) & (t.linear == 0)
        return np.asarray(unpenalised & np.isneginf(t.lo) & np.isposinf(t.hi))

    @cached_property
    def smooth(self) -> Flags:
        """Return a mask of shape (d,), true where a coordinate's penalty has no kink, and the coordinate no bound."""
        return np.asarray((self.table.l1 == 0) & np.isneginf(self.table.lo) & np.isposinf(self.table.hi))

    @cached_property
    def movable(self) -> Indices:
        """Return the numbers of the coordinates that are not fixed by equal bounds, ascending.

        The intercept is last.
        """
        return np.flatnonzero(self.table.lo < self.table.hi)

    @cached_property
    def bound(self) -> Table:
        """Return the penalty of the coordinates that are not `free`, in their order: with a penalty or a bound."""
        return self.table.take(np.flatnonzero(~self.free))

    @cached_property
    def bound_rows(self) -> Matrix:
        """Return the rows of `rows` of the coordinates of `bound`."""
        return np.ascontiguousarray(self.rows[~self.free])

    @cached_property
    def _sides(self) -> tuple[Vector, Vector]:
        """Return the least and the largest c_j, for each coordinate of `bound`, with -c_j in the conjugate's domain."""
        t = self.bound
        low = np.where((t.l2 == 0) & np.isposinf(t.hi), -t.linear - t.l1, -np.inf)
        high = np.where((t.l2 == 0) & np.isneginf(t.lo), -t.linear + t.l1, np.inf)
        return low, high

    @cached_property
    def margins(self) -> Table:
        """Return `bound` without those infinite sides to which no c_j can be shrunk, because zero is at their edge."""
        low, high = self._sides
        rows = self.bound.kernel_rows(len(low))
        rows[low == 0, 4] = 0.0
        rows[high == 0, 3] = 0.0
        rows[:, 3], rows[:, 4] = np.minimum(rows[:, 3], rows[:, 4]), np.maximum(rows[:, 3], rows[:, 4])
        return Table(*rows.T)

    @cached_property
    def edged(self) -> Flags:
        """Return a mask of shape (d,), true where a coordinate has one bound and no penalty.

        Zero is then an edge of the domain of its conjugate.
        """
        low, high = self._sides
        out = np.zeros(len(self.free), dtype=bool)
        out[~self.free] = (low == 0) | (high == 0)
        return out

    def inside(self, u: Vector) -> Flags:
        """Return a mask, shape (d,), true where scaled coefficients u, shape (d,), are strictly inside their bounds."""
        return np.asarray((u > self.table.lo) & (u < self.table.hi))

    def broken(self, pulls: Vector) -> Flags:
        """Return a mask of shape (d,), true where c has the wrong sign for a coordinate with one bound and no penalty.

        `pulls` is c = X^T theta, shape (d,), of a dual point theta.
        """
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
        """Return a mask of shape (d,), true where c_j is at an end of its domain, or beyond by at most `error`.

        `pulls` are c = X^T theta, shape (d,), each wrong by at most `error`. The domain of c_j is where the conjugate
        of the penalty is finite at -c_j; coordinates without a penalty do not count. Nor do ends beside which the error
        is negligible: there a dual point is shrunk by as much.
        """
        low, high = self._sides
        c, out = pulls[~self.free], np.zeros(len(pulls), dtype=bool)
        ends = [(np.abs(c - end) <= error) & (error > NEGLIGIBLE * np.abs(end)) for end in (low, high)]
        out[~self.free] = ends[0] | ends[1]
        return out

    def within(self, pulls: Vector) -> Vector:
        """Return the c_j of the coordinates of `bound`, moved to where the conjugate of the penalty is finite at -c_j.

        `pulls` has those c_j, of a dual point.
        """
        return np.clip(pulls, *self._sides)

    @cached_property
    def least(self) -> float:
        """Return a lower bound of the penalty over all coefficients; minus infinity if it has none."""
        return -float(self.table.conjugates(np.zeros(len(self.free))).sum())

    def value(self, u: Vector) -> float:
        """Return the penalty at scaled coefficients u, shape (d,)."""
        return self.table.value(u)

    def moved(self, u: Vector, step: Vector) -> Vector:
        """Return u + step, shape (d,), clipped to the bounds, which rounding may have left."""
        return np.asarray(np.minimum(np.maximum(u + step, self.table.lo), self.table.hi))

    def along(self, u: Vector, step: Vector, lengths: Vector) -> Vector:
        """Return the penalty at `moved(u, t step)` for each of n lengths t, shape (n,)."""
        out = np.empty(len(lengths))
        penalties_along(self.rows, u, step, lengths, out)
        return out

    def to_user(self, u: Vector) -> tuple[Vector, float]:
        """Return (coefficients of shape (p,), intercept) of scaled coefficients u, shape (d,), in the user's units."""
        w = u / self.scale
        return w[:-1], float(w[-1])

    def from_user(self, w: Vector, intercept: float) -> Vector:
        """Return the scaled coefficients, shape (d,), of w, shape (p,), and an intercept, clipped to their bounds."""
        return np.asarray(np.clip(np.append(w, intercept) * self.scale, self.table.lo, self.table.hi))

    def raw(self, vectors: Matrix) -> Matrix:
        """Return n scaled vectors, shape (n, d), as factors of the raw columns and, last, of ones: shape (d, n)."""
        return np.ascontiguousarray((vectors / self.scale).T)
