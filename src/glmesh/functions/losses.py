"""Losses by name: as a smooth f (split by features) and as a separable dual g (split by samples).

Split by samples, g_i(a) = loss_i*(-a), so that loss_i(z) = g_i*(-z): the dual alone gives the loss its value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidInput
from glmesh.functions import smooth
from glmesh.functions.entropy import LogisticDual
from glmesh.functions.separable import Separable, Table, check_rows
from glmesh.types import Vector


@dataclass(frozen=True)
class Loss(ABC):
    """loss(y, z) of a target y and a prediction z."""

    name: ClassVar[str]
    classifies: ClassVar[bool] = False
    is_curved: ClassVar[bool] = True  # whether it grows like a square somewhere

    @abstractmethod
    def dual(self, y: Vector, c: Vector) -> Separable:
        """g_i(a) = (c_i loss(y_i, .))*(-a)."""

    def smooth(self, y: Vector, c: Vector) -> smooth._RowLoss | None:
        """sum_i c_i loss(y_i, v_i), or None if that is not smooth."""
        return None

    def total(self, y: Vector, z: Vector, c: Vector) -> float:
        """sum_i c_i loss(y_i, z_i)."""
        f = self.smooth(y, c)
        return f.value(z) if f is not None else self.dual(y, c).conjugate(-z)


def _dual_table(
    y: Vector, c: Vector, *, lo: ArrayLike, hi: ArrayLike, l2: float = 0.0, l1: float = 0.0, labels: bool = False
) -> Table:
    """l1 |a| + l2/(2c) a^2 - y a, on c lo <= a <= c hi; a sample without weight keeps its variable at zero."""
    y, c = np.asarray(y, dtype=np.float64), np.asarray(c, dtype=np.float64)
    check_rows(y, c, labels=labels)

    def weighed(operation: np.ufunc, per_weight: ArrayLike) -> Vector:
        return np.asarray(operation(per_weight, c, out=np.zeros_like(c), where=c > 0))

    return Table(
        l1=np.full_like(c, l1),
        l2=weighed(np.divide, l2),
        linear=-y,
        lo=weighed(np.multiply, lo),
        hi=weighed(np.multiply, hi),
    )


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """(z - y)^2 / 2."""

    name = "squared"

    def smooth(self, y: Vector, c: Vector) -> smooth.Squared:
        """Squared."""
        return smooth.Squared(y, c)

    def dual(self, y: Vector, c: Vector) -> Table:
        """a^2/(2c) - y a."""
        return _dual_table(y, c, lo=-np.inf, hi=np.inf, l2=1.0)


@dataclass(frozen=True)
class LogisticLoss(Loss):
    """log(1 + exp(-y z))."""

    name = "logistic"
    classifies = True

    def smooth(self, y: Vector, c: Vector) -> smooth.Logistic:
        """Logistic."""
        return smooth.Logistic(y, c)

    def dual(self, y: Vector, c: Vector) -> LogisticDual:
        """Negative entropy of y a / c."""
        return LogisticDual(y, c)


@dataclass(frozen=True)
class HuberLoss(Loss):
    """(z - y)^2/2 up to |z - y| = delta, linear beyond."""

    delta: float = 1.35
    name = "huber"

    def __post_init__(self) -> None:
        if not 0 < self.delta < np.inf:
            raise InvalidInput(f"HuberLoss needs a finite delta > 0, got {self.delta}")

    def smooth(self, y: Vector, c: Vector) -> smooth.Huber:
        """Huber."""
        return smooth.Huber(y, c, delta=self.delta)

    def dual(self, y: Vector, c: Vector) -> Table:
        """a^2/(2c) - y a, on |a| <= c delta."""
        return _dual_table(y, c, lo=-self.delta, hi=self.delta, l2=1.0)


@dataclass(frozen=True)
class HingeLoss(Loss):
    """max(0, 1 - y z)."""

    name = "hinge"
    classifies = True

    def dual(self, y: Vector, c: Vector) -> Table:
        """-y a, on 0 <= y a <= c."""
        return _dual_table(y, c, lo=np.minimum(0.0, y), hi=np.maximum(0.0, y), labels=True)


@dataclass(frozen=True)
class SquaredHingeLoss(Loss):
    """max(0, 1 - y z)^2."""

    name = "squared_hinge"
    classifies = True

    def smooth(self, y: Vector, c: Vector) -> smooth.SquaredHinge:
        """Squared hinge."""
        return smooth.SquaredHinge(y, c)

    def dual(self, y: Vector, c: Vector) -> Table:
        """a^2/(4c) - y a, on y a >= 0."""
        lo, hi = np.where(y > 0, 0.0, -np.inf), np.where(y > 0, np.inf, 0.0)
        return _dual_table(y, c, lo=lo, hi=hi, l2=0.5, labels=True)


@dataclass(frozen=True)
class SmoothedHingeLoss(Loss):
    """0 for m >= 1, 1 - m - width/2 for m <= 1 - width, (1 - m)^2/(2 width) between; m = y z."""

    width: float = 1.0
    name = "smoothed_hinge"
    classifies = True

    def __post_init__(self) -> None:
        if not 0 < self.width < np.inf:
            raise InvalidInput(f"SmoothedHingeLoss needs a finite width > 0 (0 is the hinge), got {self.width}")

    def dual(self, y: Vector, c: Vector) -> Table:
        """width/(2c) a^2 - y a, on 0 <= y a <= c."""
        return _dual_table(y, c, lo=np.minimum(0.0, y), hi=np.maximum(0.0, y), l2=self.width, labels=True)


@dataclass(frozen=True)
class EpsilonInsensitiveLoss(Loss):
    """max(0, |z - y| - epsilon)."""

    epsilon: float = 0.1
    name = "epsilon_insensitive"
    is_curved = False

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < np.inf:
            raise InvalidInput(f"EpsilonInsensitiveLoss needs a finite epsilon >= 0, got {self.epsilon}")

    def dual(self, y: Vector, c: Vector) -> Table:
        """epsilon |a| - y a, on |a| <= c."""
        return _dual_table(y, c, lo=-1.0, hi=1.0, l1=self.epsilon)


@dataclass(frozen=True)
class SquaredEpsilonInsensitiveLoss(Loss):
    """max(0, |z - y| - epsilon)^2."""

    epsilon: float = 0.1
    name = "squared_epsilon_insensitive"

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < np.inf:
            raise InvalidInput(f"SquaredEpsilonInsensitiveLoss needs a finite epsilon >= 0, got {self.epsilon}")

    def dual(self, y: Vector, c: Vector) -> Table:
        """a^2/(4c) + epsilon |a| - y a."""
        return _dual_table(y, c, lo=-np.inf, hi=np.inf, l1=self.epsilon, l2=0.5)


@dataclass(frozen=True)
class QuantileLoss(Loss):
    """quantile (y - z) for z < y, (1 - quantile) (z - y) for z > y."""

    quantile: float = 0.5
    name = "quantile"
    is_curved = False

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise InvalidInput(f"QuantileLoss needs 0 < quantile < 1, got {self.quantile}")

    def dual(self, y: Vector, c: Vector) -> Table:
        """-y a, on -c (1 - quantile) <= a <= c quantile."""
        return _dual_table(y, c, lo=self.quantile - 1.0, hi=self.quantile)


LOSSES: dict[str, type[Loss]] = {
    kind.name: kind
    for kind in (
        SquaredLoss,
        LogisticLoss,
        HuberLoss,
        HingeLoss,
        SquaredHingeLoss,
        SmoothedHingeLoss,
        EpsilonInsensitiveLoss,
        SquaredEpsilonInsensitiveLoss,
        QuantileLoss,
    )
}
