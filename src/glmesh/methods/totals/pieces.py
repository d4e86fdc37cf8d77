"""Losses with kinks as pieces max over lo <= theta <= hi of theta g, smoothed by a logarithmic barrier.

Row i has J pieces with g = x_i.w + b - k; the absolute values of an L1 penalty are pieces with g = w_j. With
B = hi - lo, z = hi - theta, v = theta - lo and a barrier of weight m the smoothed piece is

    phi(g) = max over theta of theta g + m log(4 z v / B^2),    g = p - q,  p = m/z,  q = m/v at its centre.

Away from the centre z + v = B and p - q = g still hold in every piece, p z = m and q v = m do not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glmesh.errors import UnsuitablePair
from glmesh.functions import Loss
from glmesh.kernels.interior import KEPT, OFF_CENTRE
from glmesh.types import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Pieces:
    """Pieces of the losses of m rows, J for each: max over lo <= theta <= hi of theta (z_i - k) of predictions z.

    All arrays have shape (J, m), and lo < hi.
    """

    k: Matrix  # where the kinks are
    lo: Matrix  # least slope
    hi: Matrix  # largest slope
    share: Matrix  # weight of the barrier of each piece, divided by mu

    @cached_property
    def width(self) -> Matrix:
        """Return B = hi - lo of each piece, shape (J, m)."""
        return self.hi - self.lo

    def values(self, g: Matrix) -> Matrix:
        """Return the value of each piece, shape (J, m), at distances g, shape (J, m), of predictions from the kinks."""
        return np.where(g > 0, self.hi, self.lo) * g

    def smoothed(self, g: Matrix, mu: float) -> Matrix:
        """Return the value of each piece, shape (J, m), smoothed by a logarithmic barrier of weight mu times `share`.

        g, shape (J, m), are the distances of the predictions from the kinks.
        """
        m, B = mu * self.share, self.width
        small = self.small(g, m)
        return self.values(g) - np.abs(g) * small + m * np.log(4.0 * (small / B) * (1.0 - small / B))

    def small(self, g: Matrix, m: Matrix) -> Matrix:
        """Return the smaller distance of each piece's slope theta to its two bounds at the centre, shape (J, m).

        It is hi - theta where g > 0, theta - lo elsewhere. g, shape (J, m), are the distances of the predictions from
        the kinks; m, shape (J, m), are the barriers' weights.
        """
        gB = np.abs(g) * self.width
        return 2.0 * m * self.width / (2.0 * m + gB + np.sqrt(gB * gB + 4.0 * m * m))

    def centre(self, g: Matrix, mu: float) -> Multipliers:
        """Return the multipliers at the centre, where a multiplier times its distance is the barrier's weight.

        That weight is mu times `share`; g, shape (J, m), are the distances of the predictions from the kinks.
        """
        m = mu * self.share
        small = self.small(g, m)
        large = self.width - small
        right = g > 0
        z, v = np.where(right, small, large), np.where(right, large, small)
        return Multipliers(z, v, m / z, m / v)

    def slopes(self, at: Multipliers) -> Matrix:
        """Return the slope theta of each piece, shape (J, m), from the smaller of its distances to its bounds.

        `at` has these distances; a piece is max over lo <= theta <= hi of theta g.
        """
        return np.where(at.z < at.v, self.hi - at.z, self.lo + at.v)

    def move(self, at: Multipliers, step: Matrix, g: Matrix, mu: float) -> Multipliers:
        """Return the multipliers after the slope theta of each piece moved by `step`, or by less near a bound.

        `at` are those before. `step`, shape (J, m), is for J pieces of m rows; g, shape (J, m), are the distances of
        the predictions from the kinks after the step, mu the weight of the barriers.
        """
        m, B, right = mu * self.share, self.width, g > 0
        z, v = np.maximum(at.z - step, KEPT * at.z), np.maximum(at.v + step, KEPT * at.v)
        centre = self.small(g, m)
        small = np.clip(np.where(right, z, v), centre / OFF_CENTRE, np.minimum(OFF_CENTRE * centre, 0.5 * (centre + B)))
        z, v = np.where(right, small, B - small), np.where(right, B - small, small)
        p = np.maximum((m + at.p * step) / at.z, KEPT * at.p)
        q = np.maximum((m - at.q * step) / at.v, KEPT * at.q)
        target = np.where(right, m / v, m / z)
        less = np.clip(np.where(right, q, p), target / OFF_CENTRE, OFF_CENTRE * target)
        more = less + np.abs(g)
        return Multipliers(z, v, np.where(right, more, less), np.where(right, less, more))


@dataclass(frozen=True, eq=False)
class Multipliers:
    """Distances z, v > 0 of each piece's slope theta to its bounds, and their multipliers p, q > 0; shape (J, m) each.

    J is the number of pieces of a row, m the number of rows.
    """

    z: Matrix  # hi - theta
    v: Matrix  # theta - lo
    p: Matrix  # multiplier of z
    q: Matrix  # multiplier of v

    @cached_property
    def curvature(self) -> Matrix:
        """Return D = 1/(p/z + q/v) of each piece, shape (J, m): how fast its slope theta follows the prediction.

        z and v are the distances of theta to its upper and lower bound, p and q their multipliers.
        """
        return 1.0 / (self.p / self.z + self.q / self.v)

    @cached_property
    def pull(self) -> Matrix:
        """Return 1/z - 1/v of each piece, shape (J, m): what its barrier adds, divided by the barrier's weight.

        z and v are the distances of the piece's slope to its upper and lower bound.
        """
        return 1.0 / self.z - 1.0 / self.v


@dataclass(frozen=True)
class Kinks:
    """What all rows of a loss with kinks have in common, for a sample weight of 1."""

    n_pieces: int  # J
    width: float  # hi - lo of each piece
    growth: float  # loss >= growth (abs(z - y) - idle) for every prediction z; 0 if the loss is 0 on one side
    idle: float  # error that costs nothing

    @staticmethod
    def of(loss: Loss) -> Kinks:
        """Return what the rows of a loss have in common; raise UnsuitablePair for a loss that is not made of pieces.

        A piece is max over lo <= theta <= hi of theta (z - k), where z is the prediction.
        """
        table = loss.dual(np.ones(1), np.ones(1)).as_table()
        if table is None or (table.l2 > 0).any() or not np.isfinite(table.hi - table.lo).all():
            raise UnsuitablePair(f"the loss {loss.name} is curved; the interior-point method is for losses with kinks")
        lo, hi, idle = (float(np.ravel(part)[0]) for part in (table.lo, table.hi, table.l1))
        if idle > 0.0 and not lo == -hi < 0.0:
            raise UnsuitablePair(
                f"the loss {loss.name} has two kinks and other slopes left than right; use CoLA for it"
            )
        n_pieces = 2 if idle > 0.0 else 1
        return Kinks(n_pieces, (hi - lo) / n_pieces, min(hi, -lo), idle)

    def pieces(self, loss: Loss, y: Vector, s: Vector, mean_weight: float) -> Pieces:
        """Return the Pieces of the losses of m rows, with targets y, shape (m,), and sample weights s > 0, shape (m,).

        `mean_weight` is the mean of the weights of all nodes' rows, by which barriers are scaled.
        """
        table = loss.dual(y, s).as_table()  # of -theta
        assert table is not None
        k, lo, hi = (-np.broadcast_to(part, (1, len(y))) for part in (table.linear, table.hi, table.lo))
        if self.idle > 0.0:
            k, zero = np.vstack([k + self.idle, k - self.idle]), np.zeros_like(hi)
            lo, hi = np.vstack([zero, lo]), np.vstack([hi, zero])
        return Pieces(k, lo, hi, np.sqrt((hi - lo) / (mean_weight * self.width)))
