"""Functions at extreme numbers: no warning, and no digit lost that matters."""

import numpy as np
import pytest

from glmesh.functions import (
    L1,
    LOSSES,
    Box,
    ConjugateOf,
    ElasticNet,
    GroupLasso,
    Huber,
    Logistic,
    LogisticDual,
    SquaredHinge,
)

HUGE = [1e4, 1e15, 1e150, 1e300]


@pytest.mark.parametrize("size", HUGE)
def test_logistic_at_extreme_margins(size):
    y, v = np.array([1.0, 1.0, -1.0, -1.0]), np.array([1.0, -1.0, 1.0, -1.0])
    f, g, loss = Logistic(y), LogisticDual(y, np.ones(4)), LOSSES["logistic"]()
    np.testing.assert_array_equal(f.gradient(size * v), [0, -1, 1, 0])
    np.testing.assert_array_equal(f.curvature(size * v), 0)
    assert f.value(size * v) == loss.total(y, size * v, np.ones(4)) == 2 * size
    assert f.value(size * v) + f.conjugate(f.gradient(size * v)) == np.dot(size * v, f.gradient(size * v))
    np.testing.assert_array_equal(f.prox(size * v, 2.0), size * v - 2.0 * f.gradient(size * v))
    np.testing.assert_array_equal(g.conjugates(-size * v), [0, size, size, 0])
    np.testing.assert_array_equal(g.conjugate_subgradient(-size * v), [0, 1, -1, 0])
    np.testing.assert_array_equal(g.prox(-size * v, 2.0), [0, 1, -1, 0])
    assert g.value(np.array([0.0, 1.0, -1.0, 0.0])) == 0


@pytest.mark.parametrize("reach", [1e-12, 1e-6, 1e6, 1e12])
def test_logistic_proxes_with_extreme_steps(reach):
    y, v = np.array([1.0, 1.0, -1.0, -1.0, 1.0]), np.array([30.0, -30.0, 2.0, 0.0, -1e4])
    f, g = Logistic(y, np.full(5, 3.0)), LogisticDual(y, np.full(5, 3.0))
    p = f.prox(v, reach)
    residual = p + reach * f.gradient(p) - v
    assert np.all(np.abs(residual) <= 1e-14 * (np.abs(p) + np.abs(v)) * (1 + reach * f.curvature(p)) + 1e-15 * reach)
    x = g.prox(v, reach)
    assert np.isfinite(g.values(x)).all()
    inside = (y * x > 0) & (y * x < 3.0)
    q = y * x / 3.0
    slope = y * np.log(q, where=inside, out=np.zeros(5)) - y * np.log1p(-q, where=inside, out=np.zeros(5))
    wanted = (v - x) / reach
    # d slope / dx = 1 / (c q (1 - q)), so an error of one ulp in x or 1 - q shows up magnified.
    magnified = np.divide(1.0, 3.0 * q * (1 - q), out=np.zeros(5), where=inside)
    assert np.all(np.abs(slope - wanted)[inside] <= 1e-13 * (1 + np.abs(wanted) + magnified + 30 / reach)[inside])
    ends = np.where(wanted * y > 0, 3.0 * y, 0.0)
    np.testing.assert_array_equal(x[~inside], ends[~inside])


@pytest.mark.parametrize("size", HUGE)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_losses_that_grow_linearly_at_extreme_predictions(size, sign):
    y, c, z = np.array([1.0, -1.0]), np.array([0.5, 2.0]), np.full(2, sign * size)
    wrong = c[y != sign].sum()
    for name, slope in {"hinge": 1.0, "smoothed_hinge": 1.0, "logistic": 1.0}.items():
        assert np.isclose(LOSSES[name]().total(y, z, c), slope * wrong * size, rtol=1e-3)
    for name, slope in {"huber": 1.35, "epsilon_insensitive": 1.0, "quantile": 0.5}.items():
        assert np.isclose(LOSSES[name]().total(y, z, c), slope * c.sum() * size, rtol=1e-3)
    huber = Huber(y, c)
    np.testing.assert_array_equal(huber.gradient(z), 1.35 * sign * c)
    np.testing.assert_allclose(huber.prox(z, 2.0), z - 2.0 * huber.gradient(z), rtol=1e-15)
    right = np.array([1.0, -1.0]) * size
    hinge = SquaredHinge(y, c)
    assert hinge.value(right) == 0
    assert not hinge.gradient(right).any()
    np.testing.assert_array_equal(hinge.prox(right, 3.0), right)


@pytest.mark.parametrize("size", HUGE)
def test_tables_at_extreme_points(size):
    z = np.array([-size, -1.0, 0.0, 1.0, size])
    np.testing.assert_array_equal(L1(2.0).conjugates(z), [np.inf, 0, 0, 0, np.inf])
    np.testing.assert_array_equal(Box(-2.0, 3.0).conjugates(z), [2 * size, 2, 0, 3, 3 * size])
    np.testing.assert_array_equal(Box(-2.0, 3.0).prox(z, 0.5), [-2, -1, 0, 1, 3])
    np.testing.assert_allclose(L1(2.0).prox(z, 0.25), [-size + 0.5, -0.5, 0, 0.5, size - 0.5])
    np.testing.assert_allclose(L1(2.0).values(z), 2 * np.abs(z))
    assert L1(2.0).ray_limit(z, np.zeros(5)) == 2.0 / size
    assert np.isfinite(L1(1.0, lo=-5.0, hi=5.0).conjugates(z)).all()
    nets = ElasticNet(1.0, 0.5, lo=-5.0, hi=5.0)
    assert np.isfinite(nets.conjugates(z)).all()
    np.testing.assert_array_equal(ConjugateOf(nets).gradient(z), [-5, 0, 0, 0, 5])


@pytest.mark.parametrize("tiny", [1e-310, 5e-324])
def test_a_ray_may_be_as_long_as_any_number(tiny):
    u = np.array([tiny, 0.0])
    for g in (L1(1.0), GroupLasso(np.array([0, 1]))):
        assert g.ray_limit(u, np.zeros(2)) > 1e300


@pytest.mark.parametrize("p", [1e-15, 1e-8, 1e-3, 1 - 1e-8])
@pytest.mark.parametrize("margin", [-40.0, -18.0, -3.0, 15.0, 30.0])
def test_slacks_of_the_logistic_dual_keep_their_digits_at_rare_probabilities(p, margin):
    t, share = np.longdouble(margin), np.longdouble(p)
    rest = np.longdouble(1) - share
    naive = share * np.log(share) + rest * np.log1p(-share) + np.log1p(np.exp(-abs(t)))
    naive += rest * t if margin > 0 else -share * t
    g = LogisticDual(np.array([1.0, -1.0]), np.ones(2))
    slacks = g.slacks(np.array([p, -p]), np.array([margin, -margin]))
    sizes = float(abs(share * np.log(share)) + share * rest + abs(rest * t if margin > 0 else share * t))
    np.testing.assert_allclose(slacks, float(naive), rtol=0, atol=4e-16 * sizes + 1e-14 * float(naive))
