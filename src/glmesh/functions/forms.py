"""Losses of a family with one link, as functions of a target y and a linear predictor z, row by row.

All arrays have shape (m,). Values beyond the largest float64 are infinite; `Linked` silences numpy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import factorial
from typing import ClassVar

import numpy as np
from scipy.special import expit, log_expit

from glmesh.types import Vector

NEAR = 0.5  # abs(log mu - log y) below which a half deviance is its Taylor series, for which TERMS are exact to 1e-16
TERMS = 20


class Form(ABC):
    """Base of the losses of one family and link; the methods are those of `Family`.

    Attributes
    ----------
    lowest : float
        The link's inverse is defined for z > lowest; at and below it the loss is infinite and the mean NaN.
    drifts : tuple of two floats, or None
        Largest abs(d log(information)/dz) and abs(d log V/dz), both divided by what `bends` returns; None: unbounded.
    """

    lowest: ClassVar[float] = -np.inf

    @property
    def drifts(self) -> tuple[float, float] | None:
        """Return how fast information and variance change with z, in units of `bends`; here None, not bounded."""
        return None

    @abstractmethod
    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return the loss of each row, half its unit deviance, shape (m,), at targets y and linear predictors z."""

    @abstractmethod
    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the first derivative of each row's loss by its linear predictor z, shape (m,)."""

    @abstractmethod
    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by its linear predictor z, shape (m,)."""

    @abstractmethod
    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by its linear predictor z, shape (m,)."""

    def bends(self, y: Vector, z: Vector, radius: Vector) -> Vector:
        """Return a c for each row with abs(loss''') <= c loss'' within `radius` of z, shape (m,).

        Infinite, as here, where there is none.
        """
        return np.full_like(z, np.inf)

    @abstractmethod
    def mean(self, z: Vector) -> Vector:
        """Return the mean mu at z, the inverse of the link, shape (m,)."""

    @abstractmethod
    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z at mu, the link, shape (m,)."""


@dataclass(frozen=True)
class PowerLog(Form):
    """V(mu) = mu^power and log mu = z, for power >= 1: Poisson 1, Tweedie between 1 and 2, gamma 2, inverse Gaussian 3.

    With a = 2 - power the slope is mu^a - y mu^(a-1), the curvature a mu^a + (1-a) y mu^(a-1), both terms >= 0 for
    0 <= a <= 1, and the third derivative a^2 mu^a - (1-a)^2 y mu^(a-1): at most max(a, 1-a) times the curvature.
    """

    power: float

    @property
    def drifts(self) -> tuple[float, float] | None:
        """Return (2 - power, power) in units of `bends`; None where that is infinite."""
        largest = max(2.0 - self.power, self.power - 1.0)
        return ((2.0 - self.power) / largest, self.power / largest) if self.power <= 2 else None

    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return the loss of each row: y^a (E(a) - E(a-1)) or, for y = 0, mu^a / a, shape (m,).

        Here E(a) = (e^(a u) - 1)/a, u = z - log y and a = 2 - power.
        """
        a, log_y = 2.0 - self.power, np.log(y)
        u = z - log_y
        losses = _difference(a, z, log_y, 0.0) - _difference(a - 1.0, z, log_y, log_y)
        losses = np.where(np.isnan(losses), np.inf, losses)  # both terms overflow, the second, which is added, more
        near = np.flatnonzero(np.abs(u) < NEAR)
        u, series = u[near], np.zeros(len(near))
        for k in range(TERMS, 1, -1):  # E(a) - E(a-1) = sum over k >= 2 of (a^(k-1) - (a-1)^(k-1)) u^k / k!
            series = series * u + (a ** (k - 1) - (a - 1.0) ** (k - 1)) / factorial(k)
        losses[near] = np.exp(a * log_y[near]) * series * u * u
        return np.where(y > 0, losses, np.exp(a * z) / a) if a > 0 else losses

    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the slope of each row's loss by z: mu^a - y mu^(a-1), shape (m,), where a = 2 - power.

        It is computed as the larger of the two terms times 1 - e^-abs(u), u = z - log y.
        """
        a, log_y = 2.0 - self.power, np.log(y)
        u = z - log_y
        return np.asarray(np.copysign(-np.exp(np.maximum(a * z, log_y + (a - 1.0) * z)) * np.expm1(-np.abs(u)), u))

    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by z: a mu^a + (1 - a) y mu^(a-1), shape (m,)."""
        a = 2.0 - self.power
        rows = a * np.exp(a * z) + (1.0 - a) * np.exp(np.log(y) + (a - 1.0) * z)
        return np.where(np.isnan(rows), np.inf, rows)  # power 3: the second term overflows more than the first

    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by z: mu^2 / mu^power, shape (m,)."""
        return np.exp((2.0 - self.power) * z)

    def bends(self, y: Vector, z: Vector, radius: Vector) -> Vector:
        """Return c >= abs(loss''') / loss'' within `radius` of z for each row, shape (m,).

        That is max(a, 1 - a), a = 2 - power, where the loss is convex, else infinity.
        """
        return np.full_like(z, max(2.0 - self.power, self.power - 1.0) if self.power <= 2 else np.inf)

    def mean(self, z: Vector) -> Vector:
        """Return the mean mu at z: e^z, shape (m,)."""
        return np.exp(z)

    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z at mu: log mu, shape (m,)."""
        return np.log(mu)


def _difference(a: float, z: Vector, log_y: Vector, shift: Vector | float) -> Vector:
    """Return e^shift (e^(a z) - e^(a log_y)) / a, for a = 0 its limit e^shift (z - log_y), without cancellation."""
    u = z - log_y
    if a == 0:
        return np.exp(shift) * u
    return np.copysign(-np.exp(shift + np.maximum(a * z, a * log_y)) * np.expm1(-np.abs(a * u)) / abs(a), u)


POISSON = PowerLog(1.0)
GAMMA = PowerLog(2.0)


@dataclass(frozen=True)
class NegativeBinomialLog(Form):
    """V(mu) = mu + mu^2 / theta and log mu = z: logistic loss of y successes in y + theta trials at t = z - log theta.

    With q = mu / (mu + theta) = expit(t) the curvature is (y + theta) q (1 - q), and its derivative 1 - 2q times that.
    """

    theta: float

    @property
    def drifts(self) -> tuple[float, float]:
        """Return (1, 2): the information is theta q, and V is mu (1 + mu / theta)."""
        return 1.0, 2.0

    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return the loss of each row: y log(y / mu) + (y + theta) log((mu + theta) / (y + theta)), shape (m,).

        It is computed as a sum of two terms >= 0.
        """
        t, log_n = z - np.log(self.theta), np.log(y + self.theta)
        return POISSON.losses(y, log_n + log_expit(t)) + POISSON.losses(
            np.full_like(y, self.theta), log_n + log_expit(-t)
        )

    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the slope of each row's loss by z: (mu - y) / (1 + mu / theta), shape (m,)."""
        t = z - np.log(self.theta)
        return np.asarray(self.theta * expit(t) - y * expit(-t))

    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by z: (y + theta) q (1 - q), shape (m,)."""
        t = z - np.log(self.theta)
        return np.asarray((y + self.theta) * expit(t) * expit(-t))

    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by z: theta q, shape (m,).

        That is mu / (1 + mu / theta).
        """
        return np.asarray(self.theta * expit(z - np.log(self.theta)))

    def bends(self, y: Vector, z: Vector, radius: Vector) -> Vector:
        """Return c >= abs(loss''') / loss'' within `radius` of z for each row: 1, shape (m,)."""
        return np.ones_like(z)

    def mean(self, z: Vector) -> Vector:
        """Return the mean mu at z: e^z, shape (m,)."""
        return np.exp(z)

    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z at mu: log mu, shape (m,)."""
        return np.log(mu)


class GaussianIdentity(Form):
    """V(mu) = 1 and mu = z: the squared loss (z - y)^2 / 2."""

    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return the loss of each row: (z - y)^2 / 2, shape (m,)."""
        return 0.5 * (z - y) ** 2

    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the slope of each row's loss by z: z - y, shape (m,)."""
        return z - y

    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by z: 1, shape (m,)."""
        return np.ones_like(z)

    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by z: 1, shape (m,)."""
        return np.ones_like(z)

    def bends(self, y: Vector, z: Vector, radius: Vector) -> Vector:
        """Return c >= abs(loss''') / loss'' within `radius` of z for each row: 0, shape (m,)."""
        return np.zeros_like(z)

    def mean(self, z: Vector) -> Vector:
        """Return the mean mu at z: z, shape (m,)."""
        return z.copy()

    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z at mu: mu, shape (m,)."""
        return mu.copy()


class GaussianLog(Form):
    """V(mu) = 1 and log mu = z: the loss (e^z - y)^2 / 2, which is not convex where e^z < y / 2."""

    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return the loss of each row: (mu - y)^2 / 2, shape (m,)."""
        return 0.5 * (np.exp(z) - y) ** 2

    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the slope of each row's loss by z: mu (mu - y), shape (m,)."""
        return np.exp(z) * (np.exp(z) - y)

    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by z: mu (2 mu - y), shape (m,)."""
        return np.exp(z) * (2.0 * np.exp(z) - y)

    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by z: mu^2, shape (m,)."""
        return np.exp(2.0 * z)

    def mean(self, z: Vector) -> Vector:
        """Return the mean mu at z: e^z, shape (m,)."""
        return np.exp(z)

    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z at mu: log mu, shape (m,)."""
        return np.log(mu)


class GammaInverse(Form):
    """V(mu) = mu^2 and 1 / mu = z > 0: the loss y z - 1 - log(y z), with the third derivative -2 / z^3."""

    lowest = 0.0

    @property
    def drifts(self) -> tuple[float, float]:
        """Return (1, 1): the information 1 / z^2 and V = 1 / z^2 both change by 2 / z."""
        return 1.0, 1.0

    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return the loss of each row: y z - 1 - log(y z), shape (m,); infinite for z <= 0."""
        return np.where(z > 0, GAMMA.losses(y, -np.log(z)), np.inf)

    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the slope of each row's loss by z: y - 1 / z, shape (m,); minus infinity for z <= 0."""
        return np.where(z > 0, y - 1.0 / z, -np.inf)

    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by z: 1 / z^2, shape (m,); infinite for z <= 0."""
        return self.information(z)

    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by z: 1 / z^2, shape (m,); infinite for z <= 0."""
        return np.where(z > 0, (1.0 / z) ** 2, np.inf)

    def bends(self, y: Vector, z: Vector, radius: Vector) -> Vector:
        """Return c >= abs(loss''') / loss'' within `radius` of z for each row, shape (m,).

        That is 2 / (z - radius) where z > radius, else infinity.
        """
        return np.where(z > radius, 2.0 / (z - radius), np.inf)

    def mean(self, z: Vector) -> Vector:
        """Return the mean mu at z: 1 / z, shape (m,); NaN for z <= 0."""
        return np.where(z > 0, 1.0 / z, np.nan)

    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z at mu: 1 / mu, shape (m,)."""
        return 1.0 / mu


class InverseSquared(Form):
    """V(mu) = mu^3 and 1 / mu^2 = z > 0: the loss (y sqrt(z) - 1)^2 / (2 y), third derivative -3/8 z^(-5/2)."""

    lowest = 0.0

    @property
    def drifts(self) -> tuple[float, float]:
        """Return (1, 1): the information z^(-3/2) / 4 and V = z^(-3/2) both change by 1.5 / z."""
        return 1.0, 1.0

    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return the loss of each row: (y sqrt(z) - 1)^2 / (2 y), shape (m,); infinite for z <= 0."""
        return np.where(z > 0, 0.5 * (y * np.sqrt(z) - 1.0) ** 2 / y, np.inf)

    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the slope of each row's loss by z: (y - 1 / sqrt(z)) / 2, shape (m,); minus infinity for z <= 0."""
        return np.where(z > 0, 0.5 * (y - 1.0 / np.sqrt(z)), -np.inf)

    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by z: z^(-3/2) / 4, shape (m,); infinite for z <= 0."""
        return self.information(z)

    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by z: z^(-3/2) / 4, shape (m,).

        It is infinite for z <= 0.
        """
        return np.where(z > 0, 0.25 * z**-1.5, np.inf)

    def bends(self, y: Vector, z: Vector, radius: Vector) -> Vector:
        """Return c >= abs(loss''') / loss'' within `radius` of z for each row, shape (m,).

        That is 1.5 / (z - radius) where z > radius, else infinity.
        """
        return np.where(z > radius, 1.5 / (z - radius), np.inf)

    def mean(self, z: Vector) -> Vector:
        """Return the mean mu at z: 1 / sqrt(z), shape (m,); NaN for z <= 0."""
        return np.where(z > 0, 1.0 / np.sqrt(z), np.nan)

    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z at mu: 1 / mu^2, shape (m,)."""
        return mu**-2.0
