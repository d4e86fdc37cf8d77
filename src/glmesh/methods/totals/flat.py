"""Directions in which the Hessian is flat, and whether the data is flat there too, which rows tell.

A Hessian that is a sum of squares shows columns that depend on others to half the digits only; the products x.v of rows
with a direction show it to almost all of them. Where columns depend on others exactly, as those of indicators and an
intercept do, nothing is lost by not moving in that direction; where they almost do, nothing can be proven.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from glmesh.core.totals import Sums
from glmesh.methods.totals.model import Factored
from glmesh.types import Indices, Matrix

REFINEMENTS = 3  # of a direction, each by one total; because digits double each time, the first is mostly enough


def _none() -> Indices:
    """Return an empty array of column numbers."""
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class SumOfSquares:
    """A matrix sum_i h_i x_i x_i^T, with weights h_i >= 0 of rows x_i, on some of the coordinates."""

    columns: Indices  # (n,) coordinates, ascending
    matrix: Matrix  # (n, n)

    def on(self, coordinates: Indices) -> Factored:
        """Return the part of the matrix on `coordinates`, which are all among its columns, as a Factored."""
        at = np.searchsorted(self.columns, coordinates)
        return Factored.of(self.matrix[np.ix_(at, at)])


@dataclass(frozen=True, eq=False)
class Flat:
    """What is known of the directions in which the Hessian is flat, and which of them rows are being asked about.

    A direction is a combination of columns that is zero, or nearly; its last coordinate, a column that depends on those
    before, stands for it.
    """

    dependent: Indices = field(default_factory=_none)  # columns that depend on others exactly
    almost: Indices = field(default_factory=_none)  # columns that almost depend on others
    coordinates: Indices = field(default_factory=_none)  # (n,) in which directions are being asked about
    directions: Matrix = field(default_factory=lambda: np.zeros((0, 0)))  # (r, n) that are being asked about
    attempts: int = 0  # times that these directions were asked about, refined in between

    def trusts(self, factored: Factored, coordinates: Indices) -> bool:
        """Return whether the data is known to be flat wherever a matrix is: all columns that it drops are `dependent`.

        `factored` is the matrix on `coordinates`.
        """
        return bool(np.isin(coordinates[factored.dropped], self.dependent).all())

    def look(self, curvature: SumOfSquares, coordinates: Indices) -> Flat:
        """Return a Flat in which the directions are to be asked about that are flat in `curvature` and not known yet.

        They are combinations of `coordinates`. While other directions are being refined, this Flat itself is returned.
        """
        if self.attempts or len(coordinates) < 2:
            return self
        factored = curvature.on(coordinates)
        known = np.union1d(self.dependent, self.almost)
        new = ~np.isin(coordinates[factored.dropped], known)
        return replace(self, coordinates=coordinates, directions=factored.flat[new])

    def query(self, d: int) -> Matrix | None:
        """Return the directions that rows are to be asked about, shape (r, d), on all coordinates.

        None: there are none.
        """
        if not len(self.directions):
            return None
        out = np.zeros((len(self.directions), d))
        out[:, self.coordinates] = self.directions
        return out

    def learn(self, sums: Sums, curvature: SumOfSquares) -> Flat:
        """Return a Flat that knows what `sums` over all rows tell of the directions that were asked about.

        Directions in which no row has a product other than zero are `dependent`; others are refined with `curvature` to
        be asked about again, at most REFINEMENTS times, and are `almost` dependent then.
        """
        r = len(self.directions)
        if not r or "bent" not in sums:
            return self
        last = self.coordinates[[int(np.flatnonzero(v)[-1]) for v in self.directions]]
        exact = sums["bent"] == 0.0
        dependent = np.union1d(self.dependent, last[exact])
        if exact.all() or self.attempts == REFINEMENTS:
            return Flat(dependent, np.union1d(self.almost, last[~exact]))
        factored = curvature.on(self.coordinates)
        slopes = sums["bend"].reshape(r, -1)[:, self.coordinates]
        refined = np.array([v - factored.solve(g) for v, g in zip(self.directions, slopes, strict=True)])
        return replace(self, dependent=dependent, directions=refined[~exact], attempts=self.attempts + 1)
