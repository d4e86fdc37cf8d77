"""Losses of the binomial family with the links logit, probit and cloglog; y is a share of successes in [0, 1].

Half the unit deviance, y log(y / mu) + (1-y) log((1-y) / (1-mu)), is computed as the sum of two half Poisson
deviances, of y at mu and of 1-y at 1-mu, which are >= 0 and take the logarithms of mu and of 1 - mu: nothing cancels.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, logit, ndtr, ndtri

from glmesh.functions.forms import POISSON, Form
from glmesh.types import Vector

MILLS_FAR = -3.0  # below this z, z + pdf/cdf comes from a continued fraction, above by subtraction (a 12th is left)
MILLS_TERMS = 40  # of the continued fraction, which is then exact to 1e-16
LARGE_LOG = 11.0  # z from which exp(-e^z) is 0


def _half_deviance(y: Vector, log_mu: Vector, log_complement: Vector) -> Vector:
    """Return half the unit deviance of shares y, given the logarithms of mu and of 1 - mu; all of shape (m,)."""
    return POISSON.losses(y, log_mu) + POISSON.losses(1.0 - y, log_complement)


def _of_share(share: Vector, values: Vector) -> Vector:
    """Return share * values, 0 where the share is 0 even if the value is infinite."""
    return np.where(share > 0, share * values, 0.0)


class Logit(Form):
    """log(mu / (1 - mu)) = z: the logistic loss."""

    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return the loss of each row: half the unit deviance, shape (m,); log(1 + e^z) - y z for labels y = 0 or 1."""
        return _half_deviance(y, log_expit(z), log_expit(-z))

    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the slope of each row's loss by z: mu - y, shape (m,)."""
        return np.asarray((1.0 - y) * expit(z) - y * expit(-z))

    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by z: mu (1 - mu), shape (m,)."""
        return self.information(z)

    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by z: mu (1 - mu), shape (m,)."""
        return np.asarray(expit(z) * expit(-z))

    def bends(self, y: Vector, z: Vector, radius: Vector) -> Vector:
        """Return c >= abs(loss''') / loss'' within `radius` of z for each row: 1, shape (m,).

        The third derivative is 1 - 2 mu times the second.
        """
        return np.ones_like(z)

    def mean(self, z: Vector) -> Vector:
        """Return the mean mu at z: 1 / (1 + e^-z), shape (m,)."""
        return np.asarray(expit(z))

    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z at mu: log(mu / (1 - mu)), shape (m,)."""
        return np.asarray(logit(mu))


class Probit(Form):
    """mu = cdf(z) of the standard normal distribution.

    With r = pdf/cdf and D = z + r, the loss -log cdf(z) of y = 1 has the derivatives -r, h = r D and -q h, where
    q = z + 2r - 1/D = D - v/D and v = 1 - h. The loss of y = 0 is its mirror image.

    **q is positive and increasing**, so that its largest value up to z + radius is the one there. D and v are mean and
    variance of a variable Y, normal with mean z and variance 1 and truncated to Y > 0. Its density is proportional to
    e^(zy - y^2/2), so d/dz makes of each cumulant the next: v = D', the third is v' = q h. With a = v/D^2, q = D(1-a).
    - E[Y] E[Y^3] >= E[Y^2]^2, where E[Y^2] = 1 + zD and E[Y^3] = 2D + z(1 + zD), says v <= D^2: a <= 1 and q >= 0.
    - v mu4 >= v^3 + mu3^2 (central moments; the Hankel matrix of 1, Y, Y^2 is semidefinite), where mu3 = q h and
      mu4 - 3v^2 = mu3', says v (1 + a) >= 1 - a, hence a + 2v >= 1; and q' = v (1 + 1/D^2) - h = a + 2v - 1.
    """

    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return the loss of each row: half the unit deviance, shape (m,)."""
        return _half_deviance(y, log_ndtr(z), log_ndtr(-z))

    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the slope of each row's loss by z: (1-y) r(-z) - y r(z), shape (m,)."""
        return _of_share(1.0 - y, _mills(-z)[0]) - _of_share(y, _mills(z)[0])

    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by z: y h(z) + (1-y) h(-z), shape (m,)."""
        (r, distance), (s, mirrored) = _mills(z), _mills(-z)
        return _of_share(y, r * distance) + _of_share(1.0 - y, s * mirrored)

    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by z: r(z) r(-z), shape (m,).

        That is pdf^2 / (mu (1 - mu)).
        """
        return _mills(z)[0] * _mills(-z)[0]

    def bends(self, y: Vector, z: Vector, radius: Vector) -> Vector:
        """Return c >= abs(loss''') / loss'' within `radius` of z for each row, shape (m,).

        That is q(z + radius) for y = 1, q(radius - z) for y = 0, and the larger of them for other y.
        """
        largest = np.where(y == 1, z, np.where(y == 0, -z, np.abs(z))) + radius
        largest = np.maximum(largest, 2.0 * MILLS_FAR)  # q falls like 2 / abs(z)^3, and 1 - h cancels
        r, distance = _mills(largest)
        return np.where(largest < 30.0, distance - (1.0 - r * distance) / distance, distance)  # q < D

    def mean(self, z: Vector) -> Vector:
        """Return the mean mu at z: cdf(z), shape (m,)."""
        return np.asarray(ndtr(z))

    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z at mu: the quantile of mu, shape (m,)."""
        return np.asarray(ndtri(mu))


def _mills(z: Vector) -> tuple[Vector, Vector]:
    """Return (r, D): r = pdf(z) / cdf(z) of the standard normal distribution, and D = z + r > 0."""
    r = np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * ndtr(z))
    distance = z + r
    is_far = np.flatnonzero(z < MILLS_FAR)
    x, tail = -z[is_far], np.zeros(len(is_far))
    for k in range(MILLS_TERMS, 0, -1):  # Laplace: D = 1/(x + 2/(x + 3/(x + ...))) at z = -x
        tail = k / (x + tail)
    r[is_far], distance[is_far] = x + tail, tail
    return r, distance


class Cloglog(Form):
    """log(-log(1 - mu)) = z: mu = 1 - e^-m with m = e^z.

    The loss of y = 0 is m, with all derivatives m. The loss -log mu of y = 1 has the derivatives -g, g e and
    (-e + (1+e)(1-g)/e) g e, where g = m / (e^m - 1) <= 1 and e = m / (1 - e^-m) - 1 = m + g - 1 <= m: the factor is
    at least -e >= -m, and at most 1, because e + g = m coth(m/2) - 1 >= 1. So max(1, m) bounds it.
    """

    def losses(self, y: Vector, z: Vector) -> Vector:
        """Return the loss of each row: half the unit deviance, shape (m,)."""
        m = np.exp(z)
        log_mu = np.where(m < 0.7, np.log(-np.expm1(-m)), np.log1p(-np.exp(-m)))
        return _half_deviance(y, np.where(z < -37.0, z, log_mu), -m)  # log mu = z - m/2 + ...

    def slopes(self, y: Vector, z: Vector) -> Vector:
        """Return the slope of each row's loss by z: (1-y) m - y g, shape (m,)."""
        return _of_share(1.0 - y, np.exp(z)) - y * _growth(z)[0]

    def curvatures(self, y: Vector, z: Vector) -> Vector:
        """Return the second derivative of each row's loss by z: (1-y) m + y g e, shape (m,)."""
        g, e = _growth(z)
        return _of_share(1.0 - y, np.exp(z)) + y * g * e

    def information(self, z: Vector) -> Vector:
        """Return the expected second derivative of each row's loss by z: m^2 / (e^m - 1) = m g, shape (m,)."""
        return np.exp(np.minimum(z, LARGE_LOG)) * _growth(z)[0]

    def bends(self, y: Vector, z: Vector, radius: Vector) -> Vector:
        """Return c >= abs(loss''') / loss'' within `radius` of z for each row, shape (m,).

        That is 1 for y = 0, else max(1, e^(z + radius)).
        """
        return np.where(y == 0, 1.0, np.maximum(1.0, np.exp(z + radius)))

    def mean(self, z: Vector) -> Vector:
        """Return the mean mu at z: 1 - exp(-e^z), shape (m,)."""
        return -np.expm1(-np.exp(z))

    def predictor(self, mu: Vector) -> Vector:
        """Return the linear predictor z at mu: log(-log(1 - mu)), shape (m,)."""
        return np.log(-np.log1p(-mu))


def _growth(z: Vector) -> tuple[Vector, Vector]:
    """Return (g, e) of `Cloglog`, g = m / (e^m - 1) and e = m / (1 - e^-m) - 1 at m = e^z, capped where g is 0."""
    m = np.exp(np.minimum(z, LARGE_LOG))
    mu = -np.expm1(-m)
    g = np.where(mu > 0, m * np.exp(-m) / mu, 1.0)
    e = POISSON.losses(np.ones_like(m), -m) / mu  # (e^-m - 1 + m) / mu = m/2 + m^2/12 ...
    return g, np.where(m < 1e-15, 0.5 * m, e)
