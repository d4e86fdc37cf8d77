"""Moments of all rows of all sites, by which `center(x)` and `standardize(x)` shift and divide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glmesh.errors import InvalidInput

# [of the mean] standard deviation below which numbers differ by rounding only: 4 units in the last place
SAME = 2.0**-50


@dataclass(frozen=True)
class Moments:
    """Moments of an expression x over the n rows of a fit, all sites' together: mean, and sum of (x - mean)^2."""

    expression: str  # as Python writes it, without spaces that mean nothing
    n: int
    mean: float
    squares: float

    def __post_init__(self) -> None:
        """Raise InvalidInput for moments that no rows have."""
        if not (self.n > 0 and np.isfinite(self.mean) and np.isfinite(self.squares) and self.squares >= 0):
            raise InvalidInput(f"moments of {self.expression!r:.60} must be finite and of one row or more, got {self}")

    @staticmethod
    def of(tree: Mapping[str, Any]) -> Moments:
        """Return the moments that a dict of plain data describes; KeyError, TypeError, ValueError say it does not."""
        return Moments(str(tree["expression"]), int(tree["n"]), float(tree["mean"]), float(tree["squares"]))

    def deviation(self, ddof: int) -> float:
        """Return the standard deviation, the root of squares / (n - ddof); raise InvalidInput if rows do not differ."""
        if self.n <= ddof:
            raise InvalidInput(f"standardize: {self.n} rows have no standard deviation with ddof={ddof}")
        found = float(np.sqrt(self.squares / (self.n - ddof)))
        if found <= SAME * abs(self.mean):
            raise InvalidInput(
                f"standardize: {self.expression} has the same value in all rows; leave it out of the formula"
            )
        return found
