"""What the families of `families` share: a family knows variance, density and targets; its loss is a `Form`."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from glmesh.errors import InvalidData
from glmesh.functions.family import Family
from glmesh.functions.forms import Form
from glmesh.types import Flags, Vector


class Linked(Family):
    """Base of the families whose loss with the link is a `Form`.

    Attributes
    ----------
    forms : dict of str to Form
        The loss with each link that needs no parameter.
    canonical_link : str
        Name of the canonical link; "": the family has it not.
    not_convex : tuple of str
        The links with which the loss is not convex.
    targets : str
        Which targets are allowed, for messages.
    otherwise : str
        What would do for other targets, for messages.
    """

    forms: ClassVar[dict[str, Form]] = {}
    canonical_link: ClassVar[str] = ""
    not_convex: ClassVar[tuple[str, ...]] = ()
    targets: ClassVar[str]
    otherwise: ClassVar[str]

    @property
    def form(self) -> Form:
        """Return the Form of the losses with the link that is asked for."""
        return self.forms[self.link]

    @abstractmethod
    def suits(self, y: Vector) -> Flags:
        """Return a mask of shape (m,), true where a target can be of the family, false for NaN."""

    @abstractmethod
    def log_densities(self, y: Vector, z: Vector, weight: Vector, dispersion: float) -> Vector:
        """Return the log-likelihood of each row as `log_likelihoods` does, for weights > 0."""

    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return half the unit deviance of each row, shape (m,); infinite where z is outside of the link's domain."""
        with np.errstate(all="ignore"):
            return self.form.losses(y, z)

    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the first derivative of each row's loss by z, shape (m,)."""
        with np.errstate(all="ignore"):
            return self.form.slopes(y, z)

    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by z, shape (m,)."""
        with np.errstate(all="ignore"):
            return self.form.curvatures(y, z)

    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by z, shape (m,)."""
        with np.errstate(all="ignore"):
            return self.form.information(z)

    def bends(self, y: Vector, z: Vector, radius: Vector) -> Vector:
        """Return a c for each row with abs(loss''') <= c loss'' within `radius` >= 0 of z, shape (m,)."""
        with np.errstate(all="ignore"):
            return self.form.bends(y, z, radius)

    def mean(self, z: Vector) -> Vector:
        """Return the mean mu of y at the linear predictor z, shape (m,); NaN outside of the link's domain."""
        with np.errstate(all="ignore"):
            return self.form.mean(z)

    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z with the mean mu, shape (m,)."""
        with np.errstate(all="ignore"):
            return self.form.predictor(mu)

    def log_likelihoods(self, y: Vector, z: Vector, weight: Vector, dispersion: float) -> Vector:
        """Return the log-likelihood of each row, shape (m,), 0 for weight 0; `dispersion` is phi."""
        with np.errstate(all="ignore"):
            rows = self.log_densities(y, z, np.where(weight > 0, weight, 1.0), dispersion)
        return np.where(weight > 0, rows, 0.0)

    def inside(self, z: Vector) -> Flags:
        """Return a mask, shape (m,), true where z is in the domain of the link's inverse."""
        return z > self.form.lowest

    def check(self, y: Vector, where: str = "") -> None:
        """Raise InvalidData if a target, shape (m,), cannot be of the family; `where` is put before the message."""
        wrong = np.flatnonzero(~self.suits(y))
        if len(wrong):
            row = wrong[0]
            raise InvalidData(
                f"{where + ': ' if where else ''}the {self.name} family has targets {self.targets}, got {y[row]:g} at "
                f"row {row} of y{f' and {len(wrong) - 1} more' if len(wrong) > 1 else ''}; {self.otherwise}"
            )

    @property
    def convex(self) -> bool:
        """Return whether the loss is convex in z for every target."""
        return self.link not in self.not_convex

    @property
    def drifts(self) -> tuple[float, float] | None:
        """Return bounds of abs(d log(information)/dz) and abs(d log V/dz), divided by `bends`; None: there are none."""
        return self.form.drifts

    @property
    def canonical(self) -> bool:
        """Return whether the link is the canonical one."""
        return self.link == self.canonical_link
