"""The families by name: Gaussian, binomial, Poisson, gamma, inverse Gaussian, Tweedie and negative binomial.

A family here knows its variance, its density and its targets; its loss with each link is a `Form`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, xlogy

from glmesh.errors import InvalidData, InvalidInput
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
from glmesh.functions.tweedie_density import log_series
from glmesh.types import Flags, Vector
from glmesh.validation import number_in, unknown


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
        """Return the loss with the link."""
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

    def bends(self, y: Vector, z: Vector, reach: Vector) -> Vector:
        """Return a c for each row with abs(loss''') <= c loss'' within `reach` >= 0 of z, shape (m,)."""
        with np.errstate(all="ignore"):
            return self.form.bends(y, z, reach)

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
    def canonical(self) -> bool:
        """Return whether the link is the canonical one."""
        return self.link == self.canonical_link


@dataclass(frozen=True)
class Gaussian(Linked):
    """Normal distribution with the variance phi / weight; least squares with the link "identity".

    Parameters
    ----------
    link : {"identity", "log"}, default "identity"
        With "log" the loss is not convex.

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
        """Return the log-likelihood of each row, shape (m,)."""
        return -weight * self.losses(y, z) / dispersion - 0.5 * np.log(2.0 * np.pi * dispersion / weight)


@dataclass(frozen=True)
class Binomial(Linked):
    """Share y of successes in `weight` trials, with the variance mu (1 - mu) / weight; labels are shares 0 and 1.

    Parameters
    ----------
    link : {"logit", "probit", "cloglog"}, default "logit"
        mu is the logistic function of z, the normal distribution's cdf at z, or 1 - exp(-exp(z)).

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
    link : {"log"}, default "log"
        Logarithm of the mean.

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
    link : {"log", "inverse"}, default "log"
        "inverse" is the canonical link, z = 1 / mu > 0.

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
    link : {"1/mu^2", "log"}, default "1/mu^2"
        "1/mu^2" (or "inverse_squared") is the canonical link, z > 0; with "log" the loss is not convex.

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
        """Return the log-likelihood of each row, shape (m,)."""
        rest = np.log(2.0 * np.pi * dispersion / weight) + 3.0 * np.log(y)
        return -weight * self.losses(y, z) / dispersion - 0.5 * rest


@dataclass(frozen=True)
class Tweedie(Linked):
    """Tweedie's compound Poisson-gamma distribution, zeros included, with the variance phi mu^power / weight.

    Parameters
    ----------
    power : float, default 1.5
        Power of the variance, between 1 and 2, both excluded; `tweedie` has the families at 0, 1, 2 and 3.
    link : {"log"}, default "log"
        Logarithm of the mean.

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
        """Return the loss with the log link."""
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
    """Counts with more variance than Poisson's: mu + mu^2 / theta, with theta known.

    Parameters
    ----------
    theta : float, default 1.0
        Shape, > 0, as in R's MASS; statsmodels' alpha is 1 / theta. Large: nearly Poisson.
    link : {"log"}, default "log"
        Logarithm of the mean.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import NegativeBinomial
    >>> NegativeBinomial(2.0).variance(np.array([4.0]))
    array([12.])
    """

    theta: float = 1.0
    name = "negative_binomial"
    links = ("log",)
    dispersion = 1.0
    targets = "that are finite and >= 0"
    otherwise = "drop the row, or take family='gaussian'"

    def __post_init__(self) -> None:
        number_in(self.theta, "theta of NegativeBinomial", "finite and > 0", lambda theta: 0 < theta < np.inf)
        super().__post_init__()

    @property
    def form(self) -> Form:
        """Return the loss with the log link."""
        return NegativeBinomialLog(self.theta)

    def suits(self, y: Vector) -> Flags:
        """Return a mask, true for finite targets >= 0, whole or not."""
        return (y >= 0) & (y < np.inf)

    def variance(self, mu: Vector) -> Vector:
        """Return V(mu) = mu + mu^2 / theta, shape (m,)."""
        return mu * (1.0 + mu / self.theta)

    def log_densities(self, y: Vector, z: Vector, weight: Vector, dispersion: float) -> Vector:
        """Return weight / phi times the log-likelihood of a count, shape (m,), as statsmodels does."""
        theta = self.theta
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
    if isinstance(family, Family):
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
