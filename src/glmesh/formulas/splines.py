"""Bases of splines whose knots and ends are given, so that no site's data decides where they are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.types import Flags, Matrix, Vector


@dataclass(frozen=True)
class Spline:
    """A spline basis: "bs", B-splines as R's `bs`, or "cr", natural cubic splines as mgcv's and patsy's `cr`.

    The columns of "cr" are the natural cubic splines that are 1 at one knot and 0 at all others; beyond its ends they
    go on as straight lines. Those of "bs" are not defined there.
    """

    kind: str  # "bs" or "cr"
    knots: tuple[float, ...]  # inside (low, high), ascending
    low: float
    high: float
    degree: int = 3  # of "bs"
    intercept: bool = False  # whether "bs" keeps its first column

    def __post_init__(self) -> None:
        """Raise InvalidInput for knots that are not ascending between the ends, or another degree than 0 to 20."""
        inside = (self.low, *self.knots, self.high)
        if not all(np.isfinite(inside)) or not all(a < b for a, b in pairwise(inside)):
            raise InvalidInput(
                f"{self.kind}: knots must ascend between lower_bound and upper_bound, got {list(self.knots)} between "
                f"{self.low:g} and {self.high:g}"
            )
        if not 0 <= self.degree <= 20:
            raise InvalidInput(f"{self.kind}: degree must be a whole number from 0 to 20, got {self.degree}")

    @property
    def n_columns(self) -> int:
        """Return the number of columns of the basis."""
        if self.kind == "cr":
            return len(self.knots) + 2
        return len(self.knots) + self.degree + int(self.intercept)

    def holds(self, x: Vector) -> Flags:
        """Return flags, shape (m,), True where the basis is defined: "bs" between its ends, "cr" everywhere."""
        return np.asarray((x >= self.low) & (x <= self.high) if self.kind == "bs" else np.isfinite(x))

    def basis(self, x: Vector) -> Matrix:
        """Return the basis at the points x, shape (m, n_columns)."""
        if self.kind == "cr":
            return self._natural(x)
        from scipy.interpolate import BSpline  # here: loading it is a tenth of loading glmesh

        ends = self.degree + 1
        knots = np.concatenate([[self.low] * ends, self.knots, [self.high] * ends])
        n = len(knots) - ends
        whole = np.zeros((len(x), n))
        for j in range(n):
            whole[:, j] = BSpline(knots, np.eye(n)[j], self.degree, extrapolate=False)(x)
        whole = np.nan_to_num(whole)
        whole[x == self.high] = np.eye(n)[-1]
        return whole if self.intercept else whole[:, 1:]

    def _natural(self, x: Vector) -> Matrix:
        """Return the natural cubic splines that are 1 at one knot each, at the points x."""
        knots = np.array([self.low, *self.knots, self.high])
        if len(knots) == 2:
            share = (x - self.low) / (self.high - self.low)
            return np.column_stack([1.0 - share, share])
        from scipy.interpolate import CubicSpline

        spline = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
        inside = np.clip(x, self.low, self.high)
        return np.asarray(spline(inside) + spline(inside, 1) * (x - inside)[:, None])
