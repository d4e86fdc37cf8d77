"""Families of distributions with a link: the loss of a target y at a linear predictor z is half a unit deviance.

A model with the family says that y has the mean mu = h(z), where h is the inverse of the link, z = x.w + b, and the
variance phi V(mu) / weight, where phi is the dispersion. For a known dispersion the sum of the losses, divided by phi,
is the negative log-likelihood less that of a model that fits every row.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from glmesh.errors import UnsuitablePair
from glmesh.functions.losses import Loss
from glmesh.functions.separable import Columnwise
from glmesh.types import Flags, Vector
from glmesh.validation import unknown


@dataclass(frozen=True)
class Family(Loss):
    """Base of the families; `losses`, `slopes` and `curvatures` are functions of a linear predictor, row by row.

    Targets y and linear predictors z have shape (m,), and so has what is returned, unless it says otherwise.

    Parameters
    ----------
    link : str, default ""
        Name of the link, one of `links`; "": the first of them.

    Attributes
    ----------
    links : tuple of str
        Names of the links that the family has, the usual one first.
    dispersion : float or None
        phi where it is known (1 for binomial and Poisson); None: it is estimated.
    """

    link: str = field(default="", kw_only=True)
    links: ClassVar[tuple[str, ...]] = ()
    dispersion: ClassVar[float | None] = None
    by_likelihood = True

    def __post_init__(self) -> None:
        if not self.link:
            object.__setattr__(self, "link", self.links[0])
        if self.link not in self.links:
            raise unknown(f"link of the {self.name} family", self.link, self.links)

    @property
    def as_family(self) -> Family:
        """Return the family itself."""
        return self

    # the loss, row by row

    @abstractmethod
    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return half the unit deviance of each row, >= 0; infinite where z is outside of the link's domain."""

    @abstractmethod
    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the first derivative of each row's loss by z."""

    @abstractmethod
    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by z (the observed one), negative where it is not convex."""

    @abstractmethod
    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by z, (dmu/dz)^2 / V(mu)."""

    @abstractmethod
    def bends(self, y: Vector, z: Vector, radius: Vector) -> Vector:
        """Return a c for each row with abs(loss''') <= c loss'' at all points within `radius` of z; infinite: none.

        `radius`, >= 0, has shape (m,).
        """

    # the model of y

    @abstractmethod
    def mean(self, z: Vector) -> Vector:
        """Return mu = h(z), the mean of y; NaN where z is outside of the link's domain."""

    @abstractmethod
    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z with the mean mu: the link."""

    @abstractmethod
    def variance(self, mu: Vector) -> Vector:
        """Return V(mu); the variance of y is phi V(mu) / weight."""

    @abstractmethod
    def log_likelihoods(self, y: Vector, z: Vector, weight: Vector, dispersion: float) -> Vector:
        """Return the log-likelihood of each row, constants included, shape (m,), at linear predictors z, shape (m,).

        y are the targets, `weight` the prior weights, and `dispersion` is phi. A row of weight 0 has 0. The binomial
        family takes the weight as the number of trials, of which y is the share of successes.
        """

    @abstractmethod
    def check(self, y: Vector, where: str = "") -> None:
        """Raise InvalidData if a target cannot be of the family; the message names the value, its row and `where`."""

    def inside(self, z: Vector) -> Flags:
        """Return a mask, true where z is in the domain of the link's inverse; here everywhere."""
        return np.ones(len(z), dtype=bool)

    @property
    def convex(self) -> bool:
        """Return whether the loss is convex in z for every target, so that a stationary point is the optimum."""
        return True

    def with_shape(self, shape: float) -> Family:
        """Return the family with its parameter beside the dispersion set to `shape`; itself, where it has none."""
        return self

    def shape_derivatives(self, y: Vector, z: Vector) -> tuple[Vector, Vector, Vector]:
        """Return derivatives of each row's minus log-likelihood by t, the logarithm of the shape; here zeros.

        They are the first, the second, and that by t and z, each of shape (m,).
        """
        return np.zeros_like(z), np.zeros_like(z), np.zeros_like(z)

    @property
    def drifts(self) -> tuple[float, float] | None:
        """Return bounds of abs(d log(information)/dz) and abs(d log V/dz), divided by `bends`; None, as here: none.

        They say how far standard errors can be off where coefficients are.
        """
        return None

    @property
    def quadratic(self) -> bool:
        """Return whether the loss is a square, so that its curvature is constant; here it is not."""
        return False

    @property
    def canonical(self) -> bool:
        """Return whether the link is canonical: observed and expected second derivatives of the loss are then equal."""
        return self.link == self.links[0]

    # as a loss

    def dual(self, y: Vector, c: Vector) -> Columnwise:
        """Raise UnsuitablePair: families are fitted by methods on totals, which need no dual function."""
        raise UnsuitablePair(
            f"the {self.name} family is fitted by sums over rows (method MaximumLikelihood, split='samples'), not by "
            "this method"
        )

    def total(self, y: Vector, z: Vector, c: Vector) -> float:
        """Return sum_i c_i loss(y_i, z_i), half the deviance; y, z and the weights c have shape (m,)."""
        return float(c @ self.losses(y, z))
