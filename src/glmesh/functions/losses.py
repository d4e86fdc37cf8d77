"""Losses by name: as a smooth f (split by features) and as a separable dual g (split by samples).

Split by samples, g_i(a) = loss_i*(-a), so that loss_i(z) = g_i*(-z): the dual alone gives the loss its value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidInput
from glmesh.functions import row_losses
from glmesh.functions.entropy import LogisticDual
from glmesh.functions.separable import Columnwise, Table, check_rows
from glmesh.types import Vector

if TYPE_CHECKING:
    from glmesh.functions.family import Family


@dataclass(frozen=True)
class Loss(ABC):
    """Base of every loss(y, z) of a target y and a prediction z; a subclass may be given as `loss` of a problem.

    Attributes
    ----------
    name : str
        Name in `LOSSES`.
    classifies : bool
        Whether targets are labels, -1 and 1.
    is_curved : bool
        Whether the loss grows like a square somewhere.
    scales_rows : bool
        Whether sqrt(c) times the rows of A stands for weights c, so that tau = 1 whatever the weights.
    by_likelihood : bool
        Whether only `MaximumLikelihood` fits it, by totals of its likelihood: families, softmax, Cox.
    compares_rows : bool
        Whether the rows of a node are compared with each other, as by Cox: an intercept has no effect then, and rows
        that are to be compared must stay at one node.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import HuberLoss
    >>> HuberLoss(delta=1.0).total(np.array([0.0, 0.0]), np.array([0.5, 3.0]), np.ones(2))
    2.625
    """

    name: ClassVar[str]
    classifies: ClassVar[bool] = False
    is_curved: ClassVar[bool] = True
    scales_rows: ClassVar[bool] = False
    by_likelihood: ClassVar[bool] = False
    compares_rows: ClassVar[bool] = False

    @property
    def n_outputs(self) -> int:
        """Return the number of linear predictors of a row: 1, or as many as a multinomial model has classes."""
        return 1

    @property
    def as_family(self) -> Family | None:
        """Return the loss as a family of distributions, half its deviance; None, as here: it is none."""
        return None

    @property
    def has_unknown_shape(self) -> bool:
        """Return whether a parameter beside the dispersion is to be estimated; here there is none."""
        return False

    @abstractmethod
    def dual(self, y: Vector, c: Vector) -> Columnwise:
        """Return g with g_i(a) = (c_i loss(y_i, .))*(-a).

        Parameters
        ----------
        y : array of shape (m,)
            Targets.
        c : array of shape (m,)
            Weights >= 0.

        Returns
        -------
        Columnwise
            A function of the m dual variables.
        """

    def smooth(self, y: Vector, c: Vector) -> row_losses.RowLoss | None:
        """Return f(v) = sum_i c_i loss(y_i, v_i), or None if that is not smooth.

        Parameters
        ----------
        y : array of shape (m,)
            Targets.
        c : array of shape (m,)
            Weights >= 0.

        Returns
        -------
        RowLoss or None
            A function of the m predictions.
        """
        return None

    def check(self, y: Vector, where: str = "") -> None:  # noqa: B027
        """Raise InvalidData if a target cannot be one of this loss; here every number can.

        Parameters
        ----------
        y : array of shape (m,)
            Targets.
        where : str, default ""
            Whose targets they are, for the message, such as " of node 2".
        """

    def check_range(self, low: float, high: float) -> None:  # noqa: B027
        """Raise InvalidData if the targets of all nodes together make no problem; here they always do.

        Parameters
        ----------
        low, high : float
            Smallest and largest target of all nodes.
        """

    def total(self, y: Vector, z: Vector, c: Vector) -> float:
        """Return sum_i c_i loss(y_i, z_i).

        Parameters
        ----------
        y : array of shape (m,)
            Targets.
        z : array of shape (m,)
            Predictions.
        c : array of shape (m,)
            Weights >= 0.

        Returns
        -------
        float
            The weighted sum of the losses.
        """
        f = self.smooth(y, c)
        return f.value(z) if f is not None else self.dual(y, c).conjugate(-z)


def _dual_table(
    y: Vector, c: Vector, bounds: tuple[ArrayLike, ArrayLike], *, l2: float = 0.0, l1: float = 0.0, labels: bool = False
) -> Table:
    """Return the Table g(a) = sum_i l1 abs(a_i) + l2/(2 c_i) a_i^2 - y_i a_i on c_i lo <= a_i <= c_i hi.

    (lo, hi) = bounds; y are the targets and c the weights >= 0 of m samples, a their dual variables; where c_i = 0, a_i
    = 0. With `labels`, InvalidInput is raised for a y_i other than -1 and 1.
    """
    y, c = np.asarray(y, dtype=np.float64), np.asarray(c, dtype=np.float64)
    check_rows(y, c, labels=labels)

    def weighed(operation: np.ufunc, per_weight: ArrayLike) -> Vector:
        """Return operation(per_weight, c) for the sample weights c, shape (m,), and 0 where a weight is 0.

        `operation` is a numpy function of two arrays, such as multiply.
        """
        return np.asarray(operation(per_weight, c, out=np.zeros_like(c), where=c > 0))

    return Table(
        l1=np.full_like(c, l1),
        l2=weighed(np.divide, l2),
        linear=-y,
        lo=weighed(np.multiply, bounds[0]),
        hi=weighed(np.multiply, bounds[1]),
    )


@dataclass(frozen=True)
class SquaredLoss(Loss):
    """Squared loss of a target y and a prediction z, loss(y, z) = (z - y)^2 / 2."""

    name = "squared"
    scales_rows = True

    def smooth(self, y: Vector, c: Vector) -> row_losses.Squared:
        """Return f(v) = sum_i c_i/2 (v_i - y_i)^2, the loss as a function of m predictions v.

        The targets y and the weights c >= 0 have shape (m,).
        """
        return row_losses.Squared(y, c)

    def dual(self, y: Vector, c: Vector) -> Table:
        """Return g(a) = sum_i a_i^2/(2 c_i) - y_i a_i, a function of m dual variables a.

        The targets y and the weights c >= 0 have shape (m,).
        """
        return _dual_table(y, c, (-np.inf, np.inf), l2=1.0)


@dataclass(frozen=True)
class LogisticLoss(Loss):
    """Logistic loss of a label y = -1 or 1 and a prediction z, loss(y, z) = log(1 + exp(-y z))."""

    name = "logistic"
    classifies = True

    def smooth(self, y: Vector, c: Vector) -> row_losses.Logistic:
        """Return f(v) = sum_i c_i log(1 + exp(-y_i v_i)), the loss as a function of m predictions v.

        The targets y and the weights c >= 0 have shape (m,).
        """
        return row_losses.Logistic(y, c)

    def dual(self, y: Vector, c: Vector) -> LogisticDual:
        """Return g(a) = sum_i c_i [p_i ln p_i + (1 - p_i) ln(1 - p_i)], p_i = y_i a_i / c_i, of m dual variables a.

        The labels y = -1 or 1 and the weights c >= 0 have shape (m,).
        """
        return LogisticDual(y, c)


@dataclass(frozen=True)
class HuberLoss(Loss):
    """Huber's loss of a target y and a prediction z: r^2/2 for r = abs(z - y) <= delta, delta r - delta^2/2 beyond.

    Parameters
    ----------
    delta : float, default 1.35
        Error from which the loss is linear, > 0.
    """

    delta: float = 1.35
    name = "huber"

    def __post_init__(self) -> None:
        if not 0 < self.delta < np.inf:
            raise InvalidInput(f"HuberLoss needs a finite delta > 0, got {self.delta}")

    def smooth(self, y: Vector, c: Vector) -> row_losses.Huber:
        """Return f(v) = sum_i c_i h(v_i - y_i) of m predictions v.

        h is Huber's function: r^2/2 for abs(r) <= delta, else delta abs(r) - delta^2/2.

        The targets y and the weights c >= 0 have shape (m,).
        """
        return row_losses.Huber(y, c, delta=self.delta)

    def dual(self, y: Vector, c: Vector) -> Table:
        """Return g(a) = sum_i a_i^2/(2 c_i) - y_i a_i on abs(a_i) <= c_i delta, a function of m dual variables a.

        The targets y and the weights c >= 0 have shape (m,).
        """
        return _dual_table(y, c, (-self.delta, self.delta), l2=1.0)


@dataclass(frozen=True)
class HingeLoss(Loss):
    """Hinge loss of a label y = -1 or 1 and a prediction z, loss(y, z) = max(0, 1 - y z); split by samples only."""

    name = "hinge"
    classifies = True

    def dual(self, y: Vector, c: Vector) -> Table:
        """Return g(a) = sum_i -y_i a_i on 0 <= y_i a_i <= c_i, a function of m dual variables a.

        The labels y = -1 or 1 and the weights c >= 0 have shape (m,).
        """
        return _dual_table(y, c, (np.minimum(0.0, y), np.maximum(0.0, y)), labels=True)


@dataclass(frozen=True)
class SquaredHingeLoss(Loss):
    """Squared hinge loss of a label y = -1 or 1 and a prediction z, loss(y, z) = max(0, 1 - y z)^2."""

    name = "squared_hinge"
    classifies = True

    def smooth(self, y: Vector, c: Vector) -> row_losses.SquaredHinge:
        """Return f(v) = sum_i c_i max(0, 1 - y_i v_i)^2, the loss as a function of m predictions v.

        The targets y and the weights c >= 0 have shape (m,).
        """
        return row_losses.SquaredHinge(y, c)

    def dual(self, y: Vector, c: Vector) -> Table:
        """Return g(a) = sum_i a_i^2/(4 c_i) - y_i a_i on y_i a_i >= 0, a function of m dual variables a.

        The labels y = -1 or 1 and the weights c >= 0 have shape (m,).
        """
        bounds = np.where(y > 0, 0.0, -np.inf), np.where(y > 0, np.inf, 0.0)
        return _dual_table(y, c, bounds, l2=0.5, labels=True)


@dataclass(frozen=True)
class SmoothedHingeLoss(Loss):
    """Smoothed hinge loss of a label y = -1 or 1 and a prediction z, a function of the margin m = y z.

    The loss is 0 for m >= 1, 1 - m - width/2 for m <= 1 - width, and (1 - m)^2/(2 width) between.

    Split by samples only.

    Parameters
    ----------
    width : float, default 1.0
        Length of the curved piece, > 0; towards 0 the loss becomes the hinge.
    """

    width: float = 1.0
    name = "smoothed_hinge"
    classifies = True

    def __post_init__(self) -> None:
        if not 0 < self.width < np.inf:
            raise InvalidInput(f"SmoothedHingeLoss needs a finite width > 0 (0 is the hinge), got {self.width}")

    def dual(self, y: Vector, c: Vector) -> Table:
        """Return g(a) = sum_i width/(2 c_i) a_i^2 - y_i a_i on 0 <= y_i a_i <= c_i, of m dual variables a.

        The labels y = -1 or 1 and the weights c >= 0 have shape (m,).
        """
        return _dual_table(y, c, (np.minimum(0.0, y), np.maximum(0.0, y)), l2=self.width, labels=True)


@dataclass(frozen=True)
class EpsilonInsensitiveLoss(Loss):
    """Loss of a target y and a prediction z, loss(y, z) = max(0, abs(z - y) - epsilon); split by samples only.

    Parameters
    ----------
    epsilon : float, default 0.1
        Error that costs nothing, >= 0.
    """

    epsilon: float = 0.1
    name = "epsilon_insensitive"
    is_curved = False

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < np.inf:
            raise InvalidInput(f"EpsilonInsensitiveLoss needs a finite epsilon >= 0, got {self.epsilon}")

    def dual(self, y: Vector, c: Vector) -> Table:
        """Return g(a) = sum_i epsilon abs(a_i) - y_i a_i on abs(a_i) <= c_i, a function of m dual variables a.

        The targets y and the weights c >= 0 have shape (m,).
        """
        return _dual_table(y, c, (-1.0, 1.0), l1=self.epsilon)


@dataclass(frozen=True)
class SquaredEpsilonInsensitiveLoss(Loss):
    """Loss of a target y and a prediction z, loss(y, z) = max(0, abs(z - y) - epsilon)^2; split by samples only.

    Parameters
    ----------
    epsilon : float, default 0.1
        Error that costs nothing, >= 0.
    """

    epsilon: float = 0.1
    name = "squared_epsilon_insensitive"

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < np.inf:
            raise InvalidInput(f"SquaredEpsilonInsensitiveLoss needs a finite epsilon >= 0, got {self.epsilon}")

    def dual(self, y: Vector, c: Vector) -> Table:
        """Return g(a) = sum_i a_i^2/(4 c_i) + epsilon abs(a_i) - y_i a_i, a function of m dual variables a.

        The targets y and the weights c >= 0 have shape (m,).
        """
        return _dual_table(y, c, (-np.inf, np.inf), l1=self.epsilon, l2=0.5)


@dataclass(frozen=True)
class QuantileLoss(Loss):
    """Quantile loss of a target y and a prediction z: quantile (y - z) for z < y, (1 - quantile) (z - y) for z > y.

    Split by samples only.

    Parameters
    ----------
    quantile : float, default 0.5
        Quantile of y that predictions estimate, between 0 and 1.
    """

    quantile: float = 0.5
    name = "quantile"
    is_curved = False

    def __post_init__(self) -> None:
        if not 0 < self.quantile < 1:
            raise InvalidInput(f"QuantileLoss needs 0 < quantile < 1, got {self.quantile}")

    def dual(self, y: Vector, c: Vector) -> Table:
        """Return g(a) = sum_i -y_i a_i on -c_i (1 - quantile) <= a_i <= c_i quantile, of m dual variables a.

        The targets y and the weights c >= 0 have shape (m,).
        """
        return _dual_table(y, c, (self.quantile - 1.0, self.quantile))


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
