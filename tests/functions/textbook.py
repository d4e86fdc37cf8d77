"""Losses of families by the formulas of textbooks, in 300 decimal digits."""

from decimal import Decimal, getcontext, localcontext

from glmesh.functions import Binomial, Gamma, Gaussian, InverseGaussian, NegativeBinomial, Poisson, Tweedie


def cdf(z):
    """The standard normal distribution's cdf by its series of positive terms."""
    term = total = abs(z)
    k = 1
    while term > total * Decimal(10) ** -getcontext().prec:
        term *= z * z / (2 * k + 1)
        total += term
        k += 1
    pi = Decimal(0)
    for scale, x in ((16, 5), (-4, 239)):  # Machin
        power, n = Decimal(scale) / x, 1
        while abs(power) > Decimal(10) ** -(getcontext().prec + 5):
            pi += power / n
            power, n = -power * (n + 0) / (n + 0) / (x * x), n + 2
    half = total * (-z * z / 2).exp() / (2 * pi).sqrt()
    return Decimal("0.5") + half.copy_sign(z)


def mean_in_decimals(family, z):
    match family.link:
        case "identity":
            return z
        case "log":
            return z.exp()
        case "inverse":
            return 1 / z
        case "1/mu^2":
            return 1 / z.sqrt()
        case "logit":
            return 1 / (1 + (-z).exp())
        case "probit":
            return cdf(z)
        case "cloglog":
            return 1 - (-z.exp()).exp()
    raise AssertionError(family.link)


def half_deviance(family, y, mu):
    """The textbook's formulas (McCullagh and Nelder, 1989, section 2.3; Jorgensen, 1997, chapter 4)."""

    def xlog(a, b):
        return a * (a / b).ln() if a else Decimal(0)

    match family:
        case Gaussian():
            return (y - mu) ** 2 / 2
        case Binomial():
            return xlog(y, mu) + xlog(1 - y, 1 - mu)
        case Poisson():
            return xlog(y, mu) - y + mu
        case Gamma():
            return (y - mu) / mu - (y / mu).ln()
        case InverseGaussian():
            return (y - mu) ** 2 / (2 * y * mu * mu)
        case Tweedie():
            p = Decimal(family.power)
            best = y ** (2 - p) / ((1 - p) * (2 - p)) if y else Decimal(0)
            return best - y * mu ** (1 - p) / (1 - p) + mu ** (2 - p) / (2 - p)
        case NegativeBinomial():
            theta = Decimal(family.theta)
            return xlog(y, mu) - (y + theta) * ((y + theta) / (mu + theta)).ln()
    raise AssertionError(family)


def derivatives_in_decimals(family, y, z):
    """The loss and its first three derivatives, by central differences whose error is about 1e-45 of them."""
    with localcontext() as context:
        context.prec = 300
        y, z = Decimal(float(y)), Decimal(float(z))
        h = Decimal("1e-25") * min(1, abs(z) or 1)
        f = [half_deviance(family, y, mean_in_decimals(family, z + k * h)) for k in (-2, -1, 0, 1, 2)]
        return (
            f[2],
            (f[3] - f[1]) / (2 * h),
            (f[3] - 2 * f[2] + f[1]) / (h * h),
            (f[4] - 2 * f[3] + 2 * f[1] - f[0]) / (2 * h**3),
        )
