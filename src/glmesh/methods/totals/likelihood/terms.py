"""What a node's rows add to the totals of a maximum-likelihood fit: the seam between a model and the method.

A model (a family of row-wise losses, softmax, Cox) is a `Likelihood`; the method knows nothing else of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glmesh.types import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Gradient and Hessian of a node's loss at a point of d coordinates."""

    gradient: Vector  # (d,)
    hessian: Matrix  # (d, d) observed, symmetric


class Likelihood(ABC):
    """Loss of the rows of one node, a sum over them, as a function of d coefficients in the units of the data.

    Coefficients of several linear predictors stand one after the other, each with its intercept last; a model without
    intercept has one all the same, which the method holds at 0.
    """

    has_leverages: ClassVar[bool] = False  # whether each row has one curvature, and so a leverage

    @property
    @abstractmethod
    def d(self) -> int:
        """Return the number of coefficients, intercepts included."""

    @property
    def rows_at_risk(self) -> int:
        """Return how many rows are compared with others, where a model compares rows; here 0."""
        return 0

    @abstractmethod
    def values(self, points: Matrix) -> Vector:
        """Return the loss at n points, shape (n, d), as an array of shape (n,); infinite outside of its domain."""

    @abstractmethod
    def derivatives(self, point: Vector) -> Derivatives:
        """Return gradient and Hessian of the loss at a point, shape (d,)."""

    @abstractmethod
    def information(self, point: Vector) -> Matrix:
        """Return the expected Hessian at a point, shape (d, d), with dispersion 1.

        With a canonical link that is the observed one.
        """

    @abstractmethod
    def row_curvatures(self, point: Vector) -> Matrix:
        """Return the weight >= 0 of each row in each of r matrices of a total at a point, sums of x_i x_i', (r, m)."""

    @abstractmethod
    def scores(self, point: Vector) -> Matrix:
        """Return each row's gradient of its weighted loss at a point, shape (m, d), which sums to the gradient."""

    @abstractmethod
    def concordances(self, point: Vector, inverse: Matrix, length: float) -> Vector:
        """Return for each row an R_i with abs(D^3 loss_i[p,p,p]) <= R_i D^2 loss_i[p,p] where p'Hp = 1, shape (m,).

        It holds at all points within `length` of `point` in the norm of H, where `inverse` is L^-1, shape (d, d), and
        H = L L^T: for a row-wise loss R_i is `Family.bends` times sqrt(x_i'H^-1 x_i). Rows of weight 0 have 0. The
        certificate of `statistics` takes the largest over all rows of all nodes.
        """

    def reduced(self, inverse: Matrix) -> Matrix:
        """Return what `concordances` makes of L^-1 whatever the rows are, so that nodes need not all make it.

        `concordances` takes that in the place of L^-1. Here it is L^-1 itself.
        """
        return inverse

    @abstractmethod
    def noise(self, point: Vector, scale: Vector) -> float:
        """Return by how much rounding may move an entry of the gradient at a point, divided by `scale`, shape (d,)."""

    def spread(self, point: Vector) -> Vector:
        """Return (Pearson's X2, rows that count) at a point, shape (2,), from which a dispersion is estimated.

        Models whose dispersion is known need none: zeros.
        """
        return np.zeros(2)

    def leverages(self, point: Vector, inverse: Matrix) -> Vector:
        """Return the diagonal of the hat matrix, shape (m,), where `has_leverages`; here zeros, as there is none.

        `inverse`, shape (d, d), is a C' with C C' = H^-1.
        """
        return np.zeros(len(self.scores(point)))

    def moments(self, point: Vector) -> dict[str, Vector]:
        """Return sums by name that only families have: of targets and of Pearson's X2; here there are none."""
        return {}

    @property
    def has_two_hessians(self) -> bool:
        """Return whether the expected Hessian differs from the observed one and is to be summed; here it is not."""
        return False

    def log_likelihood(self, point: Vector, dispersion: float) -> Vector:
        """Return (sum of the rows' log-likelihoods that are finite, number of the others), shape (2,); here zeros.

        Constants are included; `dispersion` is phi.
        """
        return np.zeros(2)

    def shape_derivatives(self, point: Vector) -> list[Vector]:
        """Return what each row adds to P_t, P_tt and the slope of P_t in its linear predictor; here nothing is added.

        t is the logarithm of the family's shape.
        """
        return [point[:0]] * 3

    def shape_sums(self, point: Vector, scale: Vector) -> Vector:
        """Return sums of P_t, P_tt and, divided by `scale`, P_wt of minus the log-likelihood P, shape (2 + d,).

        Here they are zeros; t is the logarithm of the family's shape and w are the coefficients.
        """
        return np.zeros(2 + self.d)

    def beginnings(self, point: Vector) -> Vector:
        """Return numbers whose sums over all nodes tell `begin` where to start, shape (n,); here there are none.

        `point` has the coefficients that are held, and zeros elsewhere.
        """
        return point[:0]

    def has_null(self, sums: Vector) -> bool:
        """Return whether `sums`, those of `beginnings`, prove that the null model has a maximum; here they do not."""
        return False

    def begin(self, point: Vector, sums: Vector) -> Vector:
        """Return the null model, shape (d,), at which a fit starts, from the sums of `beginnings`; here `point`."""
        return point
