"""Families: every loss against its textbook deviance in 300 digits, and against statsmodels."""

from decimal import Decimal
from itertools import product
from math import fsum, lgamma, log, sqrt

import numpy as np
import pytest
import statsmodels.genmod.families as sm

from glmesh.errors import InvalidData, InvalidInput
from glmesh.functions import (
    FAMILIES,
    Binomial,
    Gamma,
    Gaussian,
    InverseGaussian,
    NegativeBinomial,
    Poisson,
    Tweedie,
    family_of,
    tweedie,
)
from tests.cases import cases
from tests.functions.textbook import derivatives_in_decimals

LINKS = sm.links
SHARES = [0.0, 1.0, 0.3, 1e-9, 1 - 1e-9]
COUNTS = [0.0, 1.0, 7.0, 1e6]
POSITIVE = [1e-5, 0.3, 1.0, 40.0, 1e7]
EVERYWHERE = [-300.0, -40.0, -7.0, -3.1, -2.9, -0.2, 0.0, 0.6, 2.0, 5.0, 30.0, 200.0]
ABOVE_0 = [1e-9, 0.02, 0.9, 3.0, 1e8]
# family, statsmodels' twin, targets, linear predictors
CATALOGUE = {
    "gaussian identity": (Gaussian(), sm.Gaussian(), [-3.0, 0.0, 2.5, 1e7], EVERYWHERE),
    "gaussian log": (Gaussian(link="log"), sm.Gaussian(LINKS.Log()), [-3.0, 0.0, 2.5, 1e7], EVERYWHERE),
    "binomial logit": (Binomial(), sm.Binomial(), SHARES, EVERYWHERE),
    "binomial probit": (
        Binomial(link="probit"),
        sm.Binomial(LINKS.Probit()),
        SHARES,
        [-25.0, *EVERYWHERE[2:-2], 9.0, 25.0],
    ),
    "binomial cloglog": (
        Binomial(link="cloglog"),
        sm.Binomial(LINKS.CLogLog()),
        SHARES,
        [-80.0, *EVERYWHERE[1:-2], 6.0],
    ),
    "poisson log": (Poisson(), sm.Poisson(), COUNTS, EVERYWHERE),
    "gamma log": (Gamma(), sm.Gamma(LINKS.Log()), POSITIVE, EVERYWHERE),
    "gamma inverse": (Gamma(link="inverse"), sm.Gamma(), POSITIVE, ABOVE_0),
    "inverse gaussian 1/mu^2": (InverseGaussian(), sm.InverseGaussian(), POSITIVE, ABOVE_0),
    "inverse gaussian log": (InverseGaussian(link="log"), sm.InverseGaussian(LINKS.Log()), POSITIVE, EVERYWHERE),
    "tweedie 1.05": (Tweedie(1.05), sm.Tweedie(LINKS.Log(), var_power=1.05), [0.0, *POSITIVE], EVERYWHERE),
    "tweedie 1.7": (Tweedie(1.7), sm.Tweedie(LINKS.Log(), var_power=1.7), [0.0, *POSITIVE], EVERYWHERE),
    "negative binomial": (NegativeBinomial(2.5), sm.NegativeBinomial(alpha=0.4), COUNTS, EVERYWHERE),
    "nearly poisson": (NegativeBinomial(1e6), sm.NegativeBinomial(alpha=1e-6), COUNTS, EVERYWHERE),
}
every = pytest.mark.parametrize("name", CATALOGUE)


def on(name):
    return CATALOGUE[name][0].form_is if False else CATALOGUE[name][0]


def drawn(name, m, seed=0):
    """Targets, linear predictors and weights of the family, each of shape (m,), of moderate size."""
    family, rng = CATALOGUE[name][0], np.random.default_rng(seed)
    z = rng.normal(size=m)
    z = np.exp(z) if not family.inside(np.array([-1.0]))[0] else z
    if isinstance(family, Binomial):
        return rng.choice([0.0, 1.0, 0.25, 0.8], size=m), z, rng.integers(1, 9, size=m) * 20.0
    y = rng.gamma(1.0, 2.0, size=m) + 0.01
    if isinstance(family, Poisson | NegativeBinomial):
        y = np.floor(y)
    if isinstance(family, Tweedie):
        y[::7] = 0.0
    return y, z, rng.uniform(0.5, 3.0, size=m)


@every
def test_derivatives_are_those_of_the_textbook_and_bends_bound_the_third_in_the_far_tails_too(name):
    family, _, targets, predictors = CATALOGUE[name]
    near = [y for y in targets if 0 < y < 1] if isinstance(family, Binomial) else [y for y in targets if y > 0]
    points = list(product(targets, predictors))
    points += [(y, z * (1 + 1e-6)) for y, z in zip(near, family.predictor(np.array(near)), strict=True)]
    for y, z in points:
        true = derivatives_in_decimals(family, y, z)
        rows = np.array([y]), np.array([z])
        slack = 4e-15 * (1 + abs(z) + abs(np.log(abs(y) or 1.0)))  # of z: rounding of z, of mu and of log y
        for k, rule in enumerate((family.losses, family.slopes, family.curvatures)):
            error = float(abs(Decimal(float(rule(*rows)[0])) - true[k]))
            allowed = 1e-13 * abs(float(true[k])) + slack * abs(float(true[k + 1])) + 1e-300
            assert error <= allowed, (y, z, k, float(true[k]))
        bend = family.bends(*rows, np.zeros(1))[0]
        if bend < np.inf:
            assert abs(float(true[3])) <= bend * float(true[2]) * (1 + 1e-11) + 1e-300, (y, z)


@every
def test_bends_hold_within_reach(name):
    # Where the third derivative is at most c times the second, the logarithm of the second changes by at most c a unit.
    family, _, targets, predictors = CATALOGUE[name]
    rng = np.random.default_rng(3)
    m = cases(200_000)
    predictors = [*predictors, *(-600.0 * family.inside(np.array([-1.0])))]
    y, z = rng.choice(targets, size=m), rng.choice(predictors, size=m) * rng.uniform(0.5, 1.5, size=m)
    z[::2] = np.where(family.inside(np.full(len(z[::2]), -1.0)), rng.normal(size=len(z[::2])), np.clip(z[::2], 0.1, 9))
    reach = 10.0 ** rng.uniform(-6, 1, size=m)
    reach[::10] = 0.0
    bends = family.bends(y, z, reach)
    assert (bends >= 0).all()
    if not family.convex:
        assert (bends == np.inf).all()
        return
    ends = z + reach * rng.choice([-1.0, -0.8, 0.0, 0.3, 0.999, 1.0], size=(2, m))
    low, high = (family.curvatures(y, end) for end in ends)
    seen = np.isfinite(bends) & (np.minimum(low, high) > 1e-290) & (np.maximum(low, high) < 1e290)
    assert seen.sum() > m / 10
    change = np.abs(np.log(low[seen]) - np.log(high[seen]))
    length = np.abs(ends[0] - ends[1])[seen]
    rounding = 1e-12 + 1e-14 * bends[seen] * (np.abs(z) + reach)[seen]
    assert (change <= bends[seen] * length * (1 + 1e-9) + rounding).all()


def test_probit_and_cloglog_have_the_limits_of_their_tails():
    one, far = np.ones(1), np.array([-1e6])
    probit, cloglog = Binomial(link="probit"), Binomial(link="cloglog")
    assert probit.losses(one, far)[0] == pytest.approx(5e11 + np.log(1e6 * np.sqrt(2 * np.pi)), rel=1e-15)
    assert probit.slopes(one, far)[0] == pytest.approx(-1e6 - 1e-6, rel=1e-15)
    assert probit.curvatures(one, far)[0] == pytest.approx(1.0 - 1e-12, rel=1e-15)
    assert probit.bends(one, far, np.zeros(1))[0] < 0.01
    for z in (-40.0, -300.0, -700.0):
        assert cloglog.curvatures(one, np.array([z]))[0] == pytest.approx(np.exp(z) / 2, rel=1e-14)
        assert cloglog.slopes(one, np.array([z]))[0] == pytest.approx(-1.0, rel=1e-15)
        assert cloglog.losses(one, np.array([z]))[0] == pytest.approx(-z, rel=1e-15)


def test_bends_are_no_larger_than_needed():
    y, z, zero = np.array([1.0, 0.0, 0.4]), np.full(3, 1.5), np.zeros(3)
    probit = Binomial(link="probit").bends(y, z, zero)
    assert probit[2] == probit[0]  # the larger of both labels'
    for family, rows in ((Binomial(link="probit"), (0, 1)), (Tweedie(1.7), (1,)), (Poisson(), (0, 1, 2))):
        for k in rows:
            _, _, second, third = derivatives_in_decimals(family, y[k], z[k])
            ratio = abs(float(third / second))
            bend = family.bends(y, z, zero)[k]
            assert bend == pytest.approx(0.7 if isinstance(family, Tweedie) else bend)
            assert ratio <= bend * (1 + 1e-12)
            assert bend == pytest.approx(ratio, rel=1e-10) or not isinstance(family, Binomial)
    assert (Gaussian().bends(y, z, zero) == 0).all()
    assert Gamma(link="inverse").bends(y, z, zero + 1.0) == pytest.approx(np.full(3, 4.0))
    assert (InverseGaussian().bends(y, z, zero + 1.0) == 3.0).all()
    assert (InverseGaussian().bends(y, z, zero + 1.5) == np.inf).all()


@every
def test_information_is_the_expected_curvature(name):
    family = CATALOGUE[name][0]
    _, z, _ = drawn(name, 200)
    low, middle, high = (family.curvatures(np.full_like(z, y), z) for y in (0.25, 0.5, 0.75))
    np.testing.assert_allclose(middle, (low + high) / 2, rtol=1e-12, atol=1e-14)  # affine in y: E puts its mean
    np.testing.assert_allclose(family.curvatures(family.mean(z), z), family.information(z), rtol=1e-9)
    assert family.canonical == np.allclose(low, high, rtol=1e-12)


@every
def test_convex_families_have_no_negative_curvature_and_the_others_do(name):
    family, _, targets, predictors = CATALOGUE[name]
    y, z = (column.ravel() for column in np.meshgrid(targets, predictors))
    assert family.convex == (family.curvatures(y, z) >= 0).all()


@every
def test_losses_are_0_at_the_saturated_fit_and_positive_elsewhere(name):
    family, _, targets, predictors = CATALOGUE[name]
    y, z = (column.ravel() for column in np.meshgrid(targets, predictors))
    assert (family.losses(y, z) >= 0).all()
    y, z, _ = drawn(name, 200)
    mu = family.mean(z)
    np.testing.assert_allclose(family.predictor(mu), z, rtol=1e-12, atol=1e-12)
    size = 1.0 + mu**2 + 1.0 / np.abs(mu) + getattr(family, "theta", 0.0)
    assert (family.losses(mu, z) <= 1e-29 * size).all()


@every
def test_numbers_are_those_of_statsmodels(name):
    family, twin, _, _ = CATALOGUE[name]
    y, z, weight = drawn(name, 1000)
    mu, dispersion = twin.link.inverse(z), 1.0 if family.dispersion else 0.7
    if isinstance(family, Binomial):
        twin.n = weight
        theirs, deviance = twin.loglike_obs(y, mu), twin.deviance(y, mu)
    else:
        theirs, deviance = twin.loglike_obs(y, mu, weight, dispersion), twin.deviance(y, mu, weight)
    np.testing.assert_allclose(family.mean(z), mu, rtol=1e-9)
    np.testing.assert_allclose(family.predictor(mu), twin.link(mu), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(family.variance(mu), twin.variance(mu), rtol=1e-7)
    np.testing.assert_allclose(family.information(z), twin.weights(mu), rtol=1e-7)
    np.testing.assert_allclose(2 * family.total(y, z, weight), deviance, rtol=1e-9)
    # for powers near 1 statsmodels takes scipy's log_wright_bessel, which is wrong by 1e-4 and more
    roughly = 1e-3 if "1.05" in name else 1e-8
    np.testing.assert_allclose(family.log_likelihoods(y, z, weight, dispersion), theirs, rtol=roughly, atol=1e-8)


@every
def test_losses_are_differences_of_log_likelihoods(name):
    family = CATALOGUE[name][0]
    y, z, weight = drawn(name, 300, seed=1)
    dispersion = 1.0 if family.dispersion else 0.3
    weight[::5] = 0.0
    here, there = (family.log_likelihoods(y, at, weight, dispersion) for at in (z, 1.1 * z))
    drop = weight * (family.losses(y, 1.1 * z) - family.losses(y, z)) / dispersion
    np.testing.assert_allclose(here - there, drop, rtol=1e-8, atol=1e-12 * np.abs(here).max())
    assert (here[::5] == 0).all()


@pytest.mark.parametrize("power", [1.3, 1.9])
@pytest.mark.parametrize("dispersion", [0.2, 2.0])
def test_tweedie_densities_have_the_total_1_and_the_mean_mu(power, dispersion):
    family, z = Tweedie(power), 0.4
    t = np.linspace(-300.0, 7.0, 30_001)  # log y: the density times y is smooth there and ends in zeros

    def density(y):
        return np.exp(family.log_likelihoods(y, np.full_like(y, z), np.ones_like(y), dispersion))

    y = np.exp(t)
    masses = density(y) * y * (t[1] - t[0])
    assert np.isclose(density(np.zeros(1))[0] + masses.sum(), 1.0, atol=1e-7)
    assert np.isclose(masses @ y, np.exp(z), rtol=1e-7)


def test_tweedie_series_of_a_wide_bell_is_the_sum_of_all_terms():
    for y, phi, p in ((5.0, 0.003, 1.5), (200.0, 0.05, 1.9), (30.0, 0.1, 1.05), (0.001, 0.5, 1.3), (3.0, 0.02, 1.99)):
        b = (2 - p) / (p - 1)
        log_x = b * log(y / ((p - 1) * phi)) - log((2 - p) * phi)
        peak = y ** (2 - p) / ((2 - p) * phi)
        every_j = range(1, int(peak + 60 * sqrt(peak) + 200))
        terms = np.array([j * log_x - lgamma(j + 1) - lgamma(j * b) for j in every_j])
        series = terms.max() + log(fsum(np.exp(terms - terms.max()))) - log(y)
        best = y ** (2 - p) / ((1 - p) * (2 - p)) / phi
        seen = Tweedie(p).log_likelihoods(np.array([y]), np.array([log(y)]), np.ones(1), phi)[0]
        assert np.isclose(seen, series + best, rtol=0, atol=1e-14 * abs(series) * 10 + 1e-11)


@every
def test_extreme_numbers_give_numbers(name):  # warnings are errors
    family, _, targets, _ = CATALOGUE[name]
    z = np.concatenate([[0.0], np.logspace(-320, 308, 200), np.linspace(0.5, 900, 200)])
    z = np.concatenate([-z, z])
    for y in [*targets, *(t for t in (5e-324, 1e-300, 1e300) if t < 1 or not isinstance(family, Binomial))]:
        family.check(np.array([y]))
        rows, inside = np.full_like(z, y), family.inside(z)
        losses = family.losses(rows, z)
        bends = [family.bends(rows, z, reach) for reach in (np.zeros_like(z), np.abs(z), np.full_like(z, np.inf))]
        for values in (losses, family.slopes(rows, z), family.curvatures(rows, z), family.information(z), *bends):
            assert not np.isnan(values).any(), (y, z[np.isnan(values)][:3])
        assert (losses >= 0).all()
        assert (losses[~inside] == np.inf).all()
        assert (np.isnan(family.mean(z)) == ~inside).all()


@pytest.mark.parametrize(
    ("family", "good", "bad"),
    [
        (Gaussian(), -1.0, [np.nan, np.inf]),
        (Binomial(), 0.3, [-1.0, 2.0, np.nan]),
        (Poisson(), 2.5, [-1.0, np.inf, np.nan]),
        (Gamma(), 1e-300, [0.0, -1.0, np.inf, np.nan]),
        (InverseGaussian(), 1e-300, [0.0, -1.0, np.inf, np.nan]),
        (Tweedie(), 0.0, [-1.0, np.inf, np.nan]),
        (NegativeBinomial(), 0.0, [-1.0, np.inf, np.nan]),
    ],
)
def test_targets_of_another_family_are_refused_by_value_and_row(family, good, bad):
    family.check(np.array([good, good]))
    for value in bad:
        with pytest.raises(InvalidData, match=rf"^site 3: the {family.name} family .* got {value:g} at row 2 of y; "):
            family.check(np.array([good, good, value]), where="site 3")
    with pytest.raises(InvalidData, match=rf"^the {family.name} .* at row 0 of y and 1 more; .*"):
        family.check(np.array([np.nan, good, np.nan]))


def test_families_are_found_by_name():
    names = ["gaussian", "binomial", "poisson", "gamma", "inverse_gaussian", "tweedie", "negative_binomial"]
    assert list(FAMILIES) == names
    for name, kind in FAMILIES.items():
        assert kind.name == name
        assert kind().link == kind.links[0]
        assert family_of(name) == kind() == family_of(kind())
        for link in kind.links:
            assert family_of(name, link) == kind(link=link) == family_of(kind(link=link), link)
    assert family_of(Tweedie(1.2)) == Tweedie(1.2) != Tweedie()
    assert family_of("inverse_gaussian", "inverse_squared").link == "1/mu^2"
    assert family_of(InverseGaussian(), "inverse_squared") == InverseGaussian()


def test_unknown_names_are_told_the_nearest():
    with pytest.raises(InvalidInput, match="unknown family 'poison'; did you mean 'poisson'"):
        family_of("poison")
    with pytest.raises(InvalidInput, match="unknown link of the binomial family 'probti'; did you mean 'probit'"):
        family_of("binomial", "probti")
    with pytest.raises(InvalidInput, match="link='log', but the family given is Gamma"):
        family_of(Gamma(link="inverse"), "log")


def test_powers_of_the_variance_name_their_families():
    for power, kind in {0: Gaussian, 1: Poisson, 2: Gamma, 3: InverseGaussian}.items():
        assert tweedie(power) == kind(link="log")
    assert tweedie(1.25) == Tweedie(1.25)
    assert tweedie(0, "identity") == Gaussian()
    for power in (-1, 0.5, 2.5, 4, np.nan):
        with pytest.raises(InvalidInput, match="power of the variance must be 0, 3, or from 1 to 2"):
            tweedie(power)


@pytest.mark.parametrize("power", [1.0, 2.0, 0.5, np.nan, "1.5"])
def test_tweedie_needs_a_power_between_1_and_2(power):
    with pytest.raises(InvalidInput, match="power of Tweedie must be between 1 and 2"):
        Tweedie(power)


@pytest.mark.parametrize("theta", [0.0, -1.0, np.inf, np.nan])
def test_negative_binomial_needs_a_positive_theta(theta):
    with pytest.raises(InvalidInput, match="theta of NegativeBinomial must be finite and > 0"):
        NegativeBinomial(theta)
