"""The families by name: Gaussian, binomial, Poisson, gamma, inverse Gaussian, Tweedie and negative binomial.

Each has its variance, density and targets here; what they share is in `linked`, the losses are in `forms`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import digamma, gammaln, polygamma, xlogy

from glmesh.errors import InvalidInput
from glmesh.functions.binomial_forms import Cloglog, Logit, Probit
from glmesh.functions.family import Family
from glmesh.functions.forms import (
    Form,
    GammaInverse,
    GaussianIdentity,
    GaussianLog,
    InverseSquared,
    NegativeBinomialLog,
    PowerLog,
)
from glmesh.functions.linked import Linked
from glmesh.functions.tweedie_density import log_series
from glmesh.types import Flags, Vector
from glmesh.validation import number_in, unknown


@dataclass(frozen=True)
class Gaussian(Linked):
    """Normal distribution with the variance phi / weight; least squares with the link "identity".

    Parameters
    ----------
    link : {"identity", "log"}, default ""
        "" is "identity". With "log" the loss is not convex.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import Gaussian
    >>> Gaussian().losses(np.array([1.0, 2.0]), np.array([3.0, 2.0]))
    array([2., 0.])
    """

    name = "gaussian"
    links = ("identity", "log")
    forms: ClassVar[dict[str, Form]] = {"identity": GaussianIdentity(), "log": GaussianLog()}
    canonical_link = "identity"
    not_convex = ("log",)
    targets = "that are finite"
    otherwise = "drop the row"

    def suits(self, y: Vector) -> Flags:
        """Return a mask, true for finite targets."""
        return np.isfinite(y)

    def variance(self, mu: Vector) -> Vector:
        """Return V(mu) = 1, shape (m,)."""
        return np.ones_like(mu)

    def log_densities(self, y: Vector, z: Vector, weight: Vector, dispersion: float) -> Vector:
        """Return the log-likelihood of each row, shape (m,), a normal variable of variance dispersion / weight."""
        return -weight * self.losses(y, z) / dispersion - 0.5 * np.log(2.0 * np.pi * dispersion / weight)


@dataclass(frozen=True)
class Binomial(Linked):
    """Share y of successes in `weight` trials, with the variance mu (1 - mu) / weight; labels are shares 0 and 1.

    Parameters
    ----------
    link : {"logit", "probit", "cloglog"}, default ""
        "" is "logit". mu is the logistic function of z, the normal distribution's cdf at z, or 1 - exp(-exp(z)).

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import Binomial
    >>> Binomial(link="probit").mean(np.array([0.0]))
    array([0.5])
    """

    name = "binomial"
    links = ("logit", "probit", "cloglog")
    forms: ClassVar[dict[str, Form]] = {"logit": Logit(), "probit": Probit(), "cloglog": Cloglog()}
    dispersion = 1.0
    canonical_link = "logit"
    targets = "from 0 to 1"
    otherwise = "give labels as 0 and 1, counts as the share of successes with sample_weight = trials"

    def suits(self, y: Vector) -> Flags:
        """Return a mask, true for targets from 0 to 1."""
        return (y >= 0) & (y <= 1)

    def variance(self, mu: Vector) -> Vector:
        """Return V(mu) = mu (1 - mu), shape (m,)."""
        return mu * (1.0 - mu)

    def log_densities(self, y: Vector, z: Vector, weight: Vector, dispersion: float) -> Vector:
        """Return the log-likelihood of y * weight successes in `weight` trials, shape (m,); `dispersion` is unused."""
        hits, misses = y * weight, (1.0 - y) * weight
        ways = gammaln(weight + 1.0) - gammaln(hits + 1.0) - gammaln(misses + 1.0)
        return np.asarray(ways + weight * (xlogy(y, y) + xlogy(1.0 - y, 1.0 - y) - self.losses(y, z)))


@dataclass(frozen=True)
class Poisson(Linked):
    """Counts y, or rates with the exposure as weight, with the variance mu / weight.

    Parameters
    ----------
    link : {"log"}, default ""
        "" is "log". Logarithm of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import Poisson
    >>> Poisson().slopes(np.array([0.0, 3.0]), np.array([0.0, 0.0]))
    array([ 1., -2.])
    """

    name = "poisson"
    links = ("log",)
    forms: ClassVar[dict[str, Form]] = {"log": PowerLog(1.0)}
    dispersion = 1.0
    canonical_link = "log"
    targets = "that are finite and >= 0"
    otherwise = "drop the row, or take family='gaussian'"

    def suits(self, y: Vector) -> Flags:
        """Return a mask, true for finite targets >= 0, whole or not."""
        return (y >= 0) & (y < np.inf)

    def variance(self, mu: Vector) -> Vector:
        """Return V(mu) = mu, shape (m,)."""
        return mu.copy()

    def log_densities(self, y: Vector, z: Vector, weight: Vector, dispersion: float) -> Vector:
        """Return weight / phi times the log-likelihood of a count, shape (m,), as statsmodels does."""
        return np.asarray(weight / dispersion * (xlogy(y, y) - y - gammaln(y + 1.0) - self.losses(y, z)))


@dataclass(frozen=True)
class Gamma(Linked):
    """Gamma distribution, with the variance phi mu^2 / weight.

    Parameters
    ----------
    link : {"log", "inverse"}, default ""
        "" is "log". "inverse" is the canonical link, z = 1 / mu > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import Gamma
    >>> Gamma(link="inverse").mean(np.array([4.0]))
    array([0.25])
    """

    name = "gamma"
    links = ("log", "inverse")
    forms: ClassVar[dict[str, Form]] = {"log": PowerLog(2.0), "inverse": GammaInverse()}
    canonical_link = "inverse"
    targets = "that are finite and > 0"
    otherwise = "drop the row, or take family='tweedie', which has zeros too"

    def suits(self, y: Vector) -> Flags:
        """Return a mask, true for finite targets > 0."""
        return (y > 0) & (y < np.inf)

    def variance(self, mu: Vector) -> Vector:
        """Return V(mu) = mu^2, shape (m,)."""
        return mu * mu

    def log_densities(self, y: Vector, z: Vector, weight: Vector, dispersion: float) -> Vector:
        """Return the log-likelihood of each row, a gamma variable of shape weight / phi; shape (m,)."""
        k = weight / dispersion
        return np.asarray(k * np.log(k) - k - gammaln(k) - np.log(y) - k * self.losses(y, z))


@dataclass(frozen=True)
class InverseGaussian(Linked):
    """Inverse Gaussian distribution, with the variance phi mu^3 / weight.

    Parameters
    ----------
    link : {"1/mu^2", "log"}, default ""
        "" is "1/mu^2". "1/mu^2" (or "inverse_squared") is the canonical link, z > 0; with "log" the loss is not convex.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import InverseGaussian
    >>> InverseGaussian(link="inverse_squared").mean(np.array([4.0]))
    array([0.5])
    """

    name = "inverse_gaussian"
    links = ("1/mu^2", "log")
    forms: ClassVar[dict[str, Form]] = {"1/mu^2": InverseSquared(), "log": PowerLog(3.0)}
    canonical_link = "1/mu^2"
    not_convex = ("log",)
    targets = "that are finite and > 0"
    otherwise = "drop the row, or take family='tweedie', which has zeros too"

    def __post_init__(self) -> None:
        if self.link == "inverse_squared":
            object.__setattr__(self, "link", "1/mu^2")
        super().__post_init__()

    def suits(self, y: Vector) -> Flags:
        """Return a mask, true for finite targets > 0."""
        return (y > 0) & (y < np.inf)

    def variance(self, mu: Vector) -> Vector:
        """Return V(mu) = mu^3, shape (m,)."""
        return mu**3

    def log_densities(self, y: Vector, z: Vector, weight: Vector, dispersion: float) -> Vector:
        """Return the log-likelihood of each row, an inverse Gaussian variable of dispersion / weight; shape (m,)."""
        constants = np.log(2.0 * np.pi * dispersion / weight) + 3.0 * np.log(y)
        return -weight * self.losses(y, z) / dispersion - 0.5 * constants


@dataclass(frozen=True)
class Tweedie(Linked):
    """Tweedie's compound Poisson-gamma distribution, zeros included, with the variance phi mu^power / weight.

    Parameters
    ----------
    power : float, default 1.5
        Power of the variance, between 1 and 2, both excluded; `tweedie` has the families at 0, 1, 2 and 3.
    link : {"log"}, default ""
        "" is "log". Logarithm of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import Tweedie
    >>> Tweedie(1.5).losses(np.array([0.0]), np.array([0.0]))
    array([2.])
    """

    power: float = 1.5
    name = "tweedie"
    links = ("log",)
    targets = "that are finite and >= 0"
    otherwise = "drop the row, or take family='gaussian'"

    def __post_init__(self) -> None:
        number_in(self.power, "power of Tweedie", "between 1 and 2", lambda power: 1 < power < 2)
        super().__post_init__()

    @property
    def form(self) -> Form:
        """Return the Form of the losses with the log link."""
        return PowerLog(self.power)

    def suits(self, y: Vector) -> Flags:
        """Return a mask, true for finite targets >= 0."""
        return (y >= 0) & (y < np.inf)

    def variance(self, mu: Vector) -> Vector:
        """Return V(mu) = mu^power, shape (m,)."""
        return mu**self.power

    def log_densities(self, y: Vector, z: Vector, weight: Vector, dispersion: float) -> Vector:
        """Return the log-likelihood of each row, shape (m,), by the series of Dunn and Smyth (2005)."""
        p, phi = self.power, dispersion / weight
        best = y ** (2.0 - p) / ((1.0 - p) * (2.0 - p))  # y theta - kappa at mu = y
        return (best - self.losses(y, z)) / phi + log_series(y, phi, p)


@dataclass(frozen=True)
class NegativeBinomial(Linked):
    """Counts with more variance than Poisson's: mu + mu^2 / theta, with theta known or estimated.

    Parameters
    ----------
    theta : float or None, default 1.0
        Shape, > 0, as in R's MASS; statsmodels' alpha is 1 / theta. Large: nearly Poisson. None: it is estimated by
        maximum likelihood, by fits without a penalty only; the fitted model has the family with its number.
    link : {"log"}, default ""
        "" is "log". Logarithm of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import NegativeBinomial
    >>> NegativeBinomial(2.0).variance(np.array([4.0]))
    array([12.])
    """

    theta: float | None = 1.0
    name = "negative_binomial"
    links = ("log",)
    dispersion = 1.0
    targets = "that are finite and >= 0"
    otherwise = "drop the row, or take family='gaussian'"

    def __post_init__(self) -> None:
        if self.theta is not None:
            number_in(self.theta, "theta of NegativeBinomial", "finite and > 0", lambda theta: 0 < theta < np.inf)
        super().__post_init__()

    @property
    def has_unknown_shape(self) -> bool:
        """Return whether theta is to be estimated."""
        return self.theta is None

    def with_shape(self, shape: float) -> NegativeBinomial:
        """Return the family with theta = `shape`."""
        return replace(self, theta=shape)

    @property
    def known_theta(self) -> float:
        """Return theta; raise InvalidInput where it is to be estimated and no fit has done so yet."""
        if self.theta is None:
            raise InvalidInput(
                "theta=None of NegativeBinomial is estimated by fits with MaximumLikelihood and no penalty; ask the "
                "fitted model, or give a number"
            )
        return self.theta

    @property
    def form(self) -> Form:
        """Return the Form of the losses with the log link."""
        return NegativeBinomialLog(self.known_theta)

    def mean(self, z: Vector) -> Vector:
        """Return e^z, the mean of y, whatever theta is; shape (m,)."""
        return Poisson().mean(z)

    def predictor(self, mu: Vector) -> Vector:
        """Return log mu, whatever theta is; shape (m,)."""
        return Poisson().predictor(mu)

    def inside(self, z: Vector) -> Flags:
        """Return a mask, true everywhere, shape (m,)."""
        return np.ones(len(z), dtype=bool)

    def shape_derivatives(self, y: Vector, z: Vector) -> tuple[Vector, Vector, Vector]:
        """Return derivatives of each row's minus log-likelihood by t = log theta: first, second, and that by t and z.

        Each has shape (m,). Differences of nearly equal terms are taken in closed form where theta is large.
        """
        theta = self.known_theta
        with np.errstate(over="ignore"):
            mu = np.exp(np.minimum(z, 700.0))
        spread = mu + theta
        first = digamma(y + theta) - digamma(theta) - np.log1p(mu / theta) + (mu - y) / spread
        second = polygamma(1, y + theta) - polygamma(1, theta) + mu / (theta * spread) - (mu - y) / spread**2
        return -theta * first, -theta * (first + theta * second), -theta * (y - mu) * mu / spread**2

    def suits(self, y: Vector) -> Flags:
        """Return a mask, true for finite targets >= 0, whole or not."""
        return (y >= 0) & (y < np.inf)

    def variance(self, mu: Vector) -> Vector:
        """Return V(mu) = mu + mu^2 / theta, shape (m,)."""
        return mu * (1.0 + mu / self.known_theta)

    def log_densities(self, y: Vector, z: Vector, weight: Vector, dispersion: float) -> Vector:
        """Return weight / phi times the log-likelihood of a count, shape (m,), as statsmodels does."""
        theta = self.known_theta
        best = xlogy(y, y / (y + theta)) - theta * np.log1p(y / theta)
        ways = gammaln(y + theta) - gammaln(theta) - gammaln(y + 1.0)
        return np.asarray(weight / dispersion * (best + ways - self.losses(y, z)))


FAMILIES: dict[str, type[Family]] = {
    kind.name: kind for kind in (Gaussian, Binomial, Poisson, Gamma, InverseGaussian, Tweedie, NegativeBinomial)
}


def family_of(family: str | Family, link: str | None = None) -> Family:
    """Return the family of a name, with a link.

    Parameters
    ----------
    family : str or Family
        A name in `FAMILIES`, with Tweedie's power 1.5 and the negative binomial's theta 1; or a family, returned as is.
    link : str, optional
        Name of a link of the family; default: the first of its `links`.

    Returns
    -------
    Family
        The family.

    Raises
    ------
    InvalidInput
        The name or the link is not known, or a family is given with another link than its own.

    Examples
    --------
    >>> from glmesh.functions import family_of
    >>> family_of("gamma", "inverse")
    Gamma(link='inverse')
    """
    if not isinstance(family, str):
        if link is not None and type(family)(link=link).link != family.link:
            raise InvalidInput(f"link={link!r}, but the family given is {family!r}; give the link to the family alone")
        return family
    if family not in FAMILIES:
        raise unknown("family", family, FAMILIES)
    return FAMILIES[family](link=link or "")


def tweedie(power: float, link: str = "log") -> Family:
    """Return the family with the variance mu^power: Gaussian for 0, Poisson 1, gamma 2, inverse Gaussian 3.

    Parameters
    ----------
    power : float
        0, 1 <= power <= 2, or 3.
    link : str, default "log"
        Name of a link of that family.

    Returns
    -------
    Family
        The family.

    Raises
    ------
    InvalidInput
        There is no family of that power, or it has not the link.

    Examples
    --------
    >>> from glmesh.functions import tweedie
    >>> tweedie(2), tweedie(1.9)
    (Gamma(link='log'), Tweedie(link='log', power=1.9))
    """
    named: dict[float, type[Family]] = {0.0: Gaussian, 1.0: Poisson, 2.0: Gamma, 3.0: InverseGaussian}
    if power in named:
        return named[power](link=link)
    return Tweedie(
        number_in(power, "power of the variance", "0, 3, or from 1 to 2", lambda power: 1 < power < 2), link=link
    )
