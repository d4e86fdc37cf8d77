"""Smooth functions: the laws of convex analysis, over every instance of the catalogue."""

import numpy as np
import pytest
from hypothesis import assume

from glmesh.functions import (
    L2,
    ConjugateOf,
    Huber,
    Logistic,
    Smooth,
    Squared,
    SquaredHinge,
    Table,
)
from tests.catalogue import (
    PROFILED,
    ROWWISE,
    SINGLE_ROWS,
    SMOOTH,
    fractions,
    steps,
)
from tests.functions.checks import ONES, at_most, beyond, law, lowest, near, negligible, small_or_large, within


@law(ROWWISE)
def test_smooth_value_is_the_textbook_formula(kind, case, read):
    v = read.vector(case.n)
    rows = case.rows(v)
    assert negligible(case.f.value(v) - rows.sum(), np.abs(rows).sum())


@law(SMOOTH)
def test_fenchel_young(kind, case, read):
    f, v, other = case.f, read.vector(case.n), read.vector(case.n)
    for w in (other, f.gradient(other)):
        assert at_most(np.dot(v, w), f.value(v) + f.conjugate(w), np.abs(v * w).sum())
    w = f.gradient(v)  # where it is an equality
    value, conjugate = f.value(v), f.conjugate(w)
    assert negligible(value + conjugate - np.dot(v, w), value, conjugate, np.abs(v * w).sum())


@law(SMOOTH)
def test_conjugate_subgradient_inverts_the_gradient(kind, case, read):
    f, a, b, t = case.f, read.vector(case.n), read.vector(case.n), read.number(fractions)
    w = (1 - t) * f.gradient(a) + t * f.gradient(b)  # the domain of f* is convex
    v = f.conjugate_subgradient(w)
    lost = ~np.isfinite(v)
    if lost.any():  # only the logistic loss, whose gradient reaches the ends of the domain at infinity
        assert np.all(f.support_bound[lost] > 0)
        assert np.all((w[lost] == 0) | (np.abs(w[lost]) == f.support_bound[lost]))
        return
    assert negligible(f.gradient(v) - w, w, v / f.tau)
    assert negligible(f.value(v) + f.conjugate(w) - np.dot(v, w), f.value(v), np.abs(v * w).sum())


@law(SMOOTH)
def test_gradient_is_the_slope(kind, case, read):
    f, v, h = case.f, read.vector(case.n), 1e-6
    before, out = v.copy(), np.full(case.n, np.nan)
    gradient = f.gradient(v, out)
    assert gradient is out
    np.testing.assert_array_equal(f.gradient(v), gradient)
    np.testing.assert_array_equal(v, before)
    slopes = [(f.value(v + e) - f.value(v - e)) / (2 * h) for e in h * np.eye(case.n)]
    # A central difference is off by at most h / (2 tau), and by the rounding of the values.
    assert np.all(np.abs(slopes - gradient) <= h / (2 * f.tau) + 4e-15 * (1 + abs(f.value(v))) / h)


@law(SMOOTH)
def test_convex_and_smooth(kind, case, read):
    f, a, b = case.f, read.vector(case.n), read.vector(case.n)
    ga, gb = f.gradient(a), f.gradient(b)
    scale = f.value(a), f.value(b), np.abs(ga * b).sum(), np.abs(ga * a).sum()
    assert at_most(np.linalg.norm(ga - gb), np.linalg.norm(a - b) / f.tau, np.abs(a).sum() / f.tau)
    linear = f.value(a) + np.dot(ga, b - a)
    assert at_most(linear + 0.5 * f.tau * np.dot(gb - ga, gb - ga), f.value(b), *scale)
    assert at_most(f.value(b), linear + np.dot(b - a, b - a) / (2 * f.tau), *scale)


@law(ROWWISE)
def test_tau_is_attained(kind, case, read):
    assume(case.steep is not None)
    f, v, h = case.f, case.steep, 1e-4
    assert np.isclose(f.curvature(v).max() * f.tau, 1.0, rtol=1e-12)
    i = f.curvature(v).argmax()
    aside = v.copy()
    aside[i] += h if f.curvature(v + h)[i] > 0 else -h
    quotient = abs(f.gradient(aside)[i] - f.gradient(v)[i]) / abs(aside[i] - v[i])
    assert 1 - 1e-6 <= quotient * f.tau <= 1 + 1e-9


@law(SMOOTH)
def test_curvature_is_the_slope_of_the_gradient(kind, case, read):
    f, v, h = case.f, read.vector(case.n), 1e-5
    curvature = f.curvature(v)
    assert curvature.shape == v.shape
    right = [(f.gradient(v + e) - f.gradient(v))[i] / h for i, e in enumerate(h * np.eye(case.n))]
    left = [(f.gradient(v) - f.gradient(v - e))[i] / h for i, e in enumerate(h * np.eye(case.n))]
    slack = (h + 1e-14 / h) * 4 / f.tau
    assert np.all(curvature >= np.minimum(left, right) - slack)  # at a kink, anything between the two
    if kind not in PROFILED:  # which promises an upper bound only
        assert np.all(curvature <= np.maximum(left, right) + slack)


@law(SMOOTH)
def test_majorant_is_above_everywhere(kind, case, read):
    f, v, u = case.f, read.vector(case.n), read.vector(case.n)
    before, m = v.copy(), case.f.majorant(v)
    np.testing.assert_array_equal(v, before)
    assert m.shape == v.shape
    assert np.all(m >= 0)
    assert np.all(m * f.tau <= 1)
    assert np.all(m >= f.curvature(v) * (1 - 1e-14))
    slope = f.gradient(v)
    for size in (1.0, 1e-3, 1e3):  # touching and slope at v are in the formula
        step = size * (u - v)
        bound = f.value(v) + np.dot(slope, step) + 0.5 * np.dot(m * step, step)
        assert at_most(f.value(v + step), bound, f.value(v), np.abs(slope * step).sum(), np.abs(slope * v).sum())
    for i in range(case.n):  # to where the bound is tightest: the other side of an even loss
        step = np.zeros(case.n)
        step[i] = -2 * (v - (f.y if isinstance(f, Huber) else 0.0))[i]
        bound = f.value(v) + slope[i] * step[i] + 0.5 * m[i] * step[i] ** 2
        assert at_most(f.value(v + step), bound, f.value(v), slope[i] * step[i])
        if isinstance(f, Huber | Logistic):  # so none is smaller, if there is another side
            assert negligible(f.value(v + step) - bound, f.value(v), slope[i] * step[i], bound)


@pytest.mark.parametrize("v", [0.0, 5e-324, 1e-310, 1e-9, 1e-4, 3.0, 800.0, 1e300, 1.7e308])
def test_majorant_of_the_logistic_loss_at_extreme_points(v):
    with np.errstate(over="ignore"):
        expected = 2.0 * (0.25 if v < 1e-8 else np.tanh(v / 2) / v / 2)
    for sign in (-1.0, 1.0):
        m = Logistic(np.array([1.0, -1.0]), np.array([2.0, 0.0])).majorant(np.full(2, sign * v))
        np.testing.assert_allclose(m, [expected, 0.0], rtol=1e-14)


def test_majorant_of_what_cannot_move_is_zero():
    f = ConjugateOf(Table(l2=np.array([0.0, 0.5, 2.0]), lo=np.array([1.0, -1.0, 3.0]), hi=np.array([1.0, 1.0, 3.0])))
    np.testing.assert_array_equal(f.majorant(np.zeros(3)), [0.0, 2.0, 0.0])
    np.testing.assert_array_equal(ConjugateOf(L2(4.0)).majorant(np.zeros(2)), [0.25, 0.25])


def test_majorant_by_default_is_the_largest_curvature():
    f = Squared(ONES, np.array([0.5, 1.0, 4.0]))
    np.testing.assert_array_equal(Smooth.majorant(f, np.zeros(3)), [4.0, 4.0, 4.0])


@law(SMOOTH)
def test_smooth_prox_is_optimal(kind, case, read):
    f, v, step = case.f, read.vector(case.n), read.number(steps)
    p = f.prox(v, step)
    assert negligible(p + step * f.gradient(p) - v, p, v, np.abs(p).max() * step / f.tau)

    def objective(x):
        return f.value(x) + np.dot(x - v, x - v) / (2 * step)

    move = small_or_large(read) * read.vector(case.n)
    assert at_most(objective(p) + np.dot(move, move) / (2 * step), objective(p + move))


@law(ROWWISE, 30)
def test_smooth_prox_and_conjugate_against_naive_minimisers(kind, case, read):
    v, step = read.vector(case.n), read.number(steps)
    p, w = case.f.prox(v, step), case.f.gradient(v)
    ends = np.full(case.n, -700.0), np.full(case.n, 700.0)  # the naive logistic loss overflows beyond

    def objectives(x):
        return case.rows(x) + (x - v) ** 2 / (2 * step)

    naive = lowest(objectives, *ends)
    assert at_most(objectives(p), objectives(naive))
    assert negligible(p - naive, p, rel=1e-6)

    def losses(x):
        return case.rows(x) - w * x

    at = lowest(losses, *ends)
    assert negligible(case.f.conjugate(w) + losses(at).sum(), np.abs(w * at).sum(), rel=1e-11)


@law(SINGLE_ROWS, 30)
def test_smooth_conjugate_of_the_conjugate_and_moreau(kind, case, read):
    f, v, step = case.f, read.vector(1), read.number(steps)
    lo, hi = near(case.lo, case.hi)

    def losses(w):
        return np.array([f.conjugate(w)]) - w * v

    w = lowest(losses, lo, hi)
    assert negligible(f.value(v) + losses(w)[0], v * w, rel=1e-11)

    def objectives(w):  # of the prox of f* with step 1/step at v/step
        return np.array([f.conjugate(w)]) + (w - v / step) ** 2 * (step / 2)

    by_moreau, naive = (v - f.prox(v, step)) / step, lowest(objectives, lo, hi)
    assert negligible(by_moreau - naive, v / step, rel=2e-6)
    assert at_most(objectives(np.clip(by_moreau, lo, hi)), objectives(naive), v * v / step, rel=1e-11)


@law(ROWWISE)
def test_domain_of_the_smooth_conjugate(kind, case, read):
    f, w = case.f, within(read, case.lo, case.hi)
    assert np.isfinite(f.conjugate(w))
    bound = np.broadcast_to(f.support_bound, case.n)
    assert np.all(np.maximum(np.abs(case.lo), np.abs(case.hi)) <= bound)
    i = read.below(case.n)
    for ends in ((case.lo, case.hi), (-bound, bound)):
        for outside in beyond(w, i, ends, (1.0, 1e-6)):
            assert f.conjugate(outside) == np.inf


@law(SMOOTH)
def test_gradients_are_within_the_support_bound(kind, case, read):
    f, w = case.f, case.f.gradient(read.vector(case.n))
    assert np.all(np.abs(w) <= f.support_bound * (1 + 1e-15))
    for n_nodes in (7, 101):  # the mean of gradients, rounded
        assert np.isfinite(f.conjugate(sum([w / n_nodes] * n_nodes, np.zeros(case.n))))


@law(SMOOTH)
def test_conjugate_ray(kind, case, read):
    f, s = case.f, read.number(fractions)
    w = f.gradient(read.vector(case.n))
    c0, c1, c2 = ray = f.conjugate_ray(w)
    at_zero = f.conjugate(np.zeros(case.n))
    assert c0 == at_zero
    if np.isinf(at_zero):
        assert c0 + c1 * s + c2 * s * s == np.inf
        return
    scale = np.abs(w).sum() + np.abs(ray).sum()
    assert at_most(f.conjugate(s * w), c0 + c1 * s + c2 * s * s, scale)
    assert negligible(c0 + c1 + c2 - f.conjugate(w), scale)


def test_squared_conjugate_ray_is_exact():
    f, w = Squared(np.array([1.0, -2.0]), np.array([0.5, 4.0])), np.array([0.25, -3.0])
    c0, c1, c2 = f.conjugate_ray(w)
    for s in (-1.0, 0.0, 0.3, 1.0, 7.0):
        assert np.isclose(f.conjugate(s * w), c0 + c1 * s + c2 * s * s, rtol=1e-14)


@pytest.mark.parametrize("make", [Squared, Logistic, Huber, SquaredHinge])
def test_rows_without_weight_have_no_part(make):
    f = make(np.array([1.0, -1.0]), np.array([0.0, 2.0]))
    alone = make(np.array([-1.0]), np.array([2.0]))
    v = np.array([3.0, 0.25])
    assert f.tau == alone.tau
    assert f.value(v) == alone.value(v[1:])
    w = f.gradient(v)
    assert w[0] == 0
    assert f.conjugate(w) == alone.conjugate(w[1:])
    assert np.isfinite(f.conjugate_subgradient(w)).all()
    assert f.prox(v, 0.5)[0] == v[0]
    for outside in (-1.0, 1.0):
        assert f.conjugate(np.array([outside, w[1]])) == np.inf
    nothing = make(np.array([1.0, -1.0]), np.zeros(2))
    assert 0 < nothing.tau < np.inf
    assert nothing.value(v) == 0
    assert not nothing.gradient(v).any()
