"""The multinomial loss: minus the logarithm of the softmax probability of the class that a row has.

A row has C linear predictors z_0, ..., z_{C-1}, one for each class, and the probability exp(z_c) / sum_b exp(z_b) of
class c. What is added to all C predictors changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from glmesh.errors import InvalidData, UnsuitablePair
from glmesh.functions.losses import Loss
from glmesh.functions.separable import Columnwise
from glmesh.types import Indices, Matrix, Vector
from glmesh.validation import whole_number

MOST_CLASSES = 10_000  # classes up to which targets are taken for class numbers, because a Hessian has C^2 blocks


@dataclass(frozen=True)
class Softmax(Loss):
    """Multinomial loss of a class y in {0, ..., C-1} and C predictors z: log(sum_c exp(z_c)) - z_y.

    Targets y are class numbers, of shape (m,); linear predictors z have shape (m, C).

    Parameters
    ----------
    n_classes : int
        C >= 2.

    Attributes
    ----------
    dispersion : float
        1: the sum of the losses is the negative log-likelihood.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions.softmax import Softmax
    >>> loss = Softmax(n_classes=3)
    >>> loss.mean(np.log([[1.0, 2.0, 5.0]])).round(3)
    array([[0.125, 0.25 , 0.625]])
    >>> round(loss.total(np.array([1.0]), np.log([[1.0, 2.0, 5.0]]), np.array([1.0])), 6)  # log 4
    1.386294
    """

    n_classes: int
    name = "multinomial"
    by_likelihood = True
    dispersion: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        whole_number(self.n_classes, "n_classes", 2)

    @staticmethod
    def of(targets: Sequence[ArrayLike]) -> Softmax:
        """Return the loss with the classes 0, 1, ..., the largest target of all parts; y of a part has shape (m_k,).

        Raise InvalidData for targets that are no numbers, and where there are fewer than two classes.
        """
        try:
            largest = max(float(np.max(y)) for y in (np.asarray(part, dtype=np.float64) for part in targets) if y.size)
        except (TypeError, ValueError):
            raise InvalidData(
                "the multinomial family takes class numbers 0, 1, ... as y; encode labels first"
            ) from None
        if not 1 <= largest < MOST_CLASSES:
            raise InvalidData(
                f"y holds {largest:g} at most, expected class numbers 0, 1, ..., at least two, below {MOST_CLASSES:,}"
            )
        return Softmax(int(largest) + 1)

    @property
    def n_outputs(self) -> int:
        """Return the number of linear predictors of a row: that of the classes."""
        return self.n_classes

    def probabilities(self, z: Matrix) -> tuple[Matrix, Matrix]:
        """Return (P, 1 - P), each of shape (m, C): the probabilities of all classes, and those of all others.

        Both are precise to the last digits, also where P is so close to 1 that the difference would be rounding.
        """
        rows, best = np.arange(len(z)), z.argmax(axis=1)
        P = np.exp(z - z[rows, best][:, None])
        P[rows, best] = 0.0
        others = P.sum(axis=1)
        P[rows, best] = 1.0
        P /= (1.0 + others)[:, None]
        opposite = 1.0 - P
        opposite[rows, best] = others / (1.0 + others)
        return P, opposite

    def mean(self, z: Matrix) -> Matrix:
        """Return the probabilities of all classes, shape (m, C), at linear predictors z."""
        return self.probabilities(z)[0]

    def losses(self, y: Vector, z: Matrix) -> Vector:
        """Return the loss of each row, shape (m,), which is >= 0; infinite where a predictor is not finite."""
        rows, best = np.arange(len(z)), z.argmax(axis=1)
        with np.errstate(invalid="ignore", over="ignore"):  # of predictors that are not finite
            top = z[rows, best]
            powers = np.exp(z - top[:, None])
            powers[rows, best] = 0.0
            out = (top - z[rows, _numbers(y)]) + np.log1p(powers.sum(axis=1))
        return np.where(np.isfinite(z).all(axis=1), out, np.inf)

    def slopes(self, y: Vector, z: Matrix) -> Matrix:
        """Return the derivatives of each row's loss by its C predictors, shape (m, C): P, less 1 at the class y."""
        return self.slopes_at(y, *self.probabilities(z))

    def slopes_at(self, y: Vector, P: Matrix, opposite: Matrix) -> Matrix:
        """Return what `slopes` does, where P and 1 - P, both of shape (m, C), are known from `probabilities`."""
        rows, out = np.arange(len(P)), P.copy()
        out[rows, _numbers(y)] = -opposite[rows, _numbers(y)]
        return out

    def total(self, y: Vector, z: Matrix, c: Vector) -> float:
        """Return sum_i c_i loss(y_i, z_i), with weights c of shape (m,)."""
        return float(c @ self.losses(y, z))

    def log_likelihoods(self, y: Vector, z: Matrix, weight: Vector, dispersion: float) -> Vector:
        """Return the log-likelihood of each row with its `weight`, shape (m,); the dispersion is always 1."""
        return -weight * self.losses(y, z)

    def check(self, y: Vector, where: str = "") -> None:
        """Raise InvalidData if a target is no class number; the message names the value, its row and `where`.

        `where` says whose targets they are, such as " of node 2".
        """
        y = np.asarray(y, dtype=np.float64)
        wrong = ~((y >= 0) & (y < self.n_classes) & (y == np.floor(y)))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InvalidData(
                f"y{where} holds {y[row]:g} at row {row}, expected a class number 0, 1, ..., {self.n_classes - 1}; "
                "encode the classes first, or drop the row"
            )

    def dual(self, y: Vector, c: Vector) -> Columnwise:
        """Raise UnsuitablePair: the multinomial loss is fitted by methods on totals, which need no dual function."""
        raise UnsuitablePair(
            "the multinomial loss is fitted by sums over rows (method MaximumLikelihood, split='samples'), not by this "
            "method; one class against the rest (loss='logistic') is what other methods fit"
        )


def _numbers(y: Vector) -> Indices:
    """Return class numbers, which targets hold as floats, as integers, shape (m,)."""
    return np.asarray(y, dtype=np.int64)
