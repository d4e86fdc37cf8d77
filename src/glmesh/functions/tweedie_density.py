"""The normalising series of Tweedie's density for a power between 1 and 2."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from glmesh.types import Vector

STEPS = 120  # terms on each side of the largest one
PER_WIDTH = 8.0  # terms per standard deviation of the bell that they form: the sum of a wide bell is its integral


def log_series(y: Vector, phi: Vector, power: float) -> Vector:
    """Return log a(y, phi), shape (m,), of the density a(y, phi) exp((y theta - kappa) / phi); 0 for y = 0.

    a = 1/y sum over j >= 1 of exp(t_j), t_j = j log(x) - log(j!) - log Gamma(j b), where b = (2-p)/(p-1) and
    x = (y / ((p-1) phi))^b / ((2-p) phi), as in Dunn and Smyth, Statistics and Computing 15 (2005) 267-280. Where the
    terms form a bell with a standard deviation s > 8 they are taken at a distance of s/8: the sum of a smooth bell by
    that grid is exact beyond float64.

    Parameters
    ----------
    y : array of shape (m,)
        Targets >= 0.
    phi : array of shape (m,)
        Dispersion of each row divided by its weight, > 0.
    power : float
        p, between 1 and 2.

    Returns
    -------
    array of shape (m,)
        The logarithms.
    """
    p = power
    b = (2.0 - p) / (p - 1.0)
    is_zero = y == 0
    y = np.where(is_zero, 1.0, y)
    log_x = b * np.log(y / ((p - 1.0) * phi)) - np.log((2.0 - p) * phi)
    peak = y ** (2.0 - p) / ((2.0 - p) * phi)  # where t_j is about largest
    step = np.maximum(1.0, np.sqrt((p - 1.0) * peak) / PER_WIDTH)
    middle = np.maximum(1.0, np.round(peak))

    def term(j: Vector) -> Vector:
        """Return t_j, shape (m,), minus infinity for j < 1."""
        inside = np.maximum(j, 1.0)
        return np.where(j >= 1.0, inside * log_x - gammaln(inside + 1.0) - gammaln(inside * b), -np.inf)

    largest = term(middle)
    total = np.zeros_like(y)
    for k in range(-STEPS, STEPS + 1):
        total += np.exp(term(middle + k * step) - largest)
    return np.where(is_zero, 0.0, largest + np.log(total * step) - np.log(y))
