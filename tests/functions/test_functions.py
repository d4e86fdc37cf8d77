"""The laws of convex analysis, over every instance of the catalogue."""

import re
import zlib

import numpy as np
import pytest
from hypothesis import assume, given, seed
from scipy.optimize import minimize_scalar

from glmesh.errors import InvalidInput
from glmesh.functions import (
    L1,
    L2,
    LOSSES,
    Box,
    ConjugateOf,
    ElasticNet,
    EpsilonInsensitiveLoss,
    GroupLasso,
    HingeLoss,
    Huber,
    HuberLoss,
    Logistic,
    LogisticDual,
    NonNegative,
    Profiled,
    QuantileLoss,
    Smooth,
    SmoothedHingeLoss,
    Squared,
    SquaredEpsilonInsensitiveLoss,
    SquaredHinge,
    Table,
)
from tests.cases import SOAK, prop
from tests.catalogue import (
    COLUMNWISE,
    DUAL_ROWS,
    GROUPS,
    LOSS_CASES,
    PROFILED,
    ROW_LOSSES,
    ROWWISE,
    SEPARABLE,
    SINGLE_ROWS,
    SMOOTH,
    fractions,
    numbers,
    penalties,
    steps,
)

FAR = 1e4  # beyond every maximiser that the catalogue's parameters allow


def law(catalogue, full=50):
    """Makes a test for each kind of the catalogue that asserts a law of `full` instances and of numbers to read."""

    def decorate(holds):
        def test(kind):
            def check(case, read):
                holds(kind, case, read)

            check = prop(full)(given(catalogue[kind], numbers)(check))
            if not SOAK:  # every law and kind its own cases, the same in every run
                check = seed(zlib.crc32(f"{holds.__name__} {kind}".encode()))(check)
            check()

        test.__doc__ = holds.__doc__
        return pytest.mark.parametrize("kind", catalogue)(test)

    return decorate


def negligible(x, *scales, rel=1e-12):
    """Whether |x| <= rel (1 + the sum of |scales|), element by element."""
    return np.all(np.abs(x) <= rel * (1.0 + sum(np.abs(s) for s in scales)))


def at_most(a, b, *scales, rel=1e-12):
    """Whether a <= b, but for rounding of numbers as large as a, b (where finite) and the scales."""
    a, b = np.asarray(a), np.asarray(b)
    seen = [np.where(np.isfinite(s), s, 0.0) for s in (a, b, *scales)]
    return np.all(a <= b + rel * (1.0 + sum(np.abs(s) for s in seen)))


def lowest(h, lo, hi):
    """The naive twin: coordinatewise minimisers of convex functions on [lo, hi], by golden section."""
    golden = 0.5 * (np.sqrt(5.0) - 1.0)
    ends = lo, hi
    a, b = hi - golden * (hi - lo), lo + golden * (hi - lo)
    at_a, at_b = h(a), h(b)
    for _ in range(90):  # golden^90 < 1e-18
        left = at_a <= at_b
        lo, hi = np.where(left, lo, a), np.where(left, b, hi)
        new = np.where(left, hi - golden * (hi - lo), lo + golden * (hi - lo))
        at_new = h(new)
        a, at_a, b, at_b = (
            np.where(left, new, b),
            np.where(left, at_new, at_b),
            np.where(left, a, new),
            np.where(left, at_a, at_new),
        )
    best = 0.5 * (lo + hi)
    for end in ends:  # the search only comes close to them
        best = np.where(h(end) < h(best), end, best)
    return best


def near(lo, hi, far=FAR):
    """The part of [lo, hi] in reach of a search."""
    return np.clip(lo, -far, far), np.clip(hi, -far, far)


def within(read, lo, hi):
    """A point of the box [lo, hi]: a clipped one, so that its ends are among them."""
    return np.clip(read.vector(len(lo)), lo, hi)


def small_or_large(read):
    """The size of a perturbation."""
    return (1.0, 1e-2, 1e-4)[read.below(3)]


def beyond(x, i, ends, further):
    """Copies of x whose i-th entry lies beyond a finite one of the ends (lower, upper), by that much."""
    for end, sign in zip(ends, (-1.0, 1.0), strict=True):
        for distance in further:
            if np.isfinite(end[i]):
                outside = x.copy()
                outside[i] = end[i] + sign * distance
                yield outside


# --- smooth functions ----------------------------------------------------------------------------------------


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


def test_majorant_that_nobody_knows_better():
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


# --- the profiled intercept ----------------------------------------------------------------------------------


@law(PROFILED)
def test_profiled_is_the_minimum_over_the_intercept(kind, case, read):
    f, v = case.f, read.vector(case.n)
    e = f.direction

    def at(b):
        return case.rows(v + b * e).sum()

    found = minimize_scalar(at, bounds=(-64.0, 64.0), method="bounded", options={"xatol": 1e-9})
    assert at_most(f.value(v), found.fun)
    if np.all((np.abs(e) >= 0.5) | (e == 0)):  # else the best intercept may be farther away
        assert at_most(found.fun, f.value(v), rel=1e-9)
    b = f.offset(v)
    value = f.f.value(v + b * e)
    assert value == f.value(v)
    for aside in (b - 1e-3, b + 1e-3):
        assert at_most(value, f.f.value(v + aside * e))


@law(PROFILED)
def test_profiled_knows_no_shift_along_its_direction(kind, case, read):
    f, v, b, step = case.f, read.vector(case.n), read.number(), read.number(steps)
    moved = v + b * f.direction
    assert negligible(f.value(moved) - f.value(v), f.value(v), rel=1e-11)
    assert negligible(f.gradient(moved) - f.gradient(v), 8 / f.tau, rel=1e-11)
    w, change = f.gradient(v), f.prox(v, step) - v
    assert negligible(np.dot(w, f.direction), 1 / f.tau, np.abs(w * f.direction).sum())
    assert negligible(np.dot(change, f.direction), 8 * np.abs(f.direction).sum() * (1 + step / f.tau))
    assert f.conjugate(w) == f.f.conjugate(w) < np.inf
    if f.direction.any():
        assert f.conjugate(w + 1e-3 * f.direction) == np.inf


@pytest.mark.parametrize("apart", [0.0, 30.0, 300.0, 1000.0, 1e4])
@pytest.mark.parametrize("make", [Squared, Logistic, Huber, SquaredHinge])
def test_profiled_with_classes_far_apart(make, apart):
    """The best intercept lies between two rows that are almost, or wholly, flat there."""
    y = np.array([1.0, -1.0, 1.0])
    for v in (np.array([apart, 0.0, 2 * apart]), np.array([0.0, apart, -apart]), np.full(3, apart)):
        for c in (np.ones(3), np.array([1.0, 1e-3, 0.0])):
            f = Profiled(make(y, c), np.ones(3))
            w = f.gradient(v)
            assert np.isfinite(w).all()
            # v + b e is rounded, and so is its gradient: by an ulp of v times the curvature.
            ulp = 1e-3 * np.dot(v, v) / f.tau
            assert negligible(f.value(v) + f.conjugate(w) - np.dot(v, w), f.value(v), np.abs(v * w).sum(), ulp)


@pytest.mark.parametrize("v", [-1e4, -1.0, 0.0, 1e4])
@pytest.mark.parametrize("make", [Logistic, SquaredHinge])
def test_profiled_with_a_single_class(make, v):
    """The loss can be made as small as one likes by the intercept alone, so nothing is left of it."""
    f = Profiled(make(np.ones(3)), np.ones(3))
    at = np.array([v, v + 0.1, v - 0.3])
    assert f.value(at) <= 1e-15
    assert np.abs(f.gradient(at)).max() <= 1e-15
    assert f.conjugate(f.gradient(at)) == pytest.approx(0, abs=1e-13)
    for step in (0.1, 10.0):
        np.testing.assert_allclose(f.prox(at, step), at, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [Squared, Logistic, Huber, SquaredHinge])
def test_profiled_at_a_perfect_fit(make):
    """The gradient is zero but for rounding, and that must not count as off the hyperplane."""
    y = np.array([1.0, 1.0, -1.0])
    for size in (1.0, 1e3):
        v = 1e3 * size * y - 5.0 * size if make in (Logistic, SquaredHinge) else y - 0.1 * size
        f = Profiled(make(y, np.array([0.3, 1.0, 0.7])), np.ones(3))
        assert f.conjugate(f.gradient(v)) == pytest.approx(0.0, abs=1e-12)


# --- separable functions -------------------------------------------------------------------------------------


@law(SEPARABLE)
def test_separable_fenchel_young(kind, case, read):
    g, x, u = case.g, read.vector(case.n), read.vector(case.n)
    for y in (x, within(read, case.lo, case.hi)):
        assert at_most(np.dot(u, y), g.value(y) + g.conjugate(u), np.abs(u * y).sum())
    peak = g.conjugate_subgradient(u)  # where it is an equality
    assert np.isfinite(peak).all() == np.isfinite(g.conjugate(u))
    if np.isfinite(peak).all():
        value, conjugate = g.value(peak), g.conjugate(u)
        assert negligible(value + conjugate - np.dot(u, peak), value, conjugate, np.abs(u * peak).sum())


@law(SEPARABLE)
def test_curvature_and_majorant_of_smooth_conjugates(kind, case, read):
    g, u, t, h = case.g, read.vector(case.n), read.vector(case.n), 1e-5
    if not g.has_smooth_conjugate:
        assert not 0 < g.strong_convexity < np.inf
        return
    x, bend, bound = g.conjugate_subgradient(u), g.conjugate_curvature(u), g.conjugate_majorant(u)
    right, left = (g.conjugate_subgradient(u + h) - x) / h, (x - g.conjugate_subgradient(u - h)) / h
    most = 1.0 / g.strong_convexity
    slack = (h + 1e-14 / h) * 4 * most + 1e-10 * np.abs(x)
    assert np.all(bend >= np.minimum(left, right) - slack)  # at a kink, anything between the two
    assert np.all(bend <= np.maximum(left, right) + slack)
    assert np.all((bound >= bend * (1 - 1e-14)) & (bound <= most * (1 + 1e-14)))
    for size in (1.0, 1e-3, 1e3):
        step = size * (t - u)
        above = g.conjugates(u) + x * step + 0.5 * bound * step**2
        values = g.conjugates(u + step)
        for i in range(case.n):
            assert at_most(values[i], above[i], g.conjugates(u)[i], x[i] * step[i], x[i] * u[i])


@law(SEPARABLE)
def test_separable_slacks(kind, case, read):
    """What Fenchel and Young leave, piece by piece; next to a maximiser it is known to its own digits."""
    g, x, u = case.g, within(read, case.lo, case.hi), within(read, case.dual_lo, case.dual_hi)
    slacks, naive = g.slacks(x, u), g.values(x) + g.conjugates(u)
    assert np.all(slacks >= 0)
    if np.isfinite(naive).all():
        assert negligible(slacks.sum() - (naive.sum() - x @ u), np.abs(naive).sum(), np.abs(x * u).sum())
    for outside in beyond(x, read.below(case.n), (case.lo, case.hi), (1.0, 1e-9)):
        assert g.slacks(outside, u).sum() == np.inf
    peak = g.conjugate_subgradient(u)
    if np.isfinite(peak).all() and kind not in GROUPS:
        assert np.all(g.slacks(peak, u) <= 1e-28 * (1.0 + np.abs(u) + np.abs(peak)))


@law(SEPARABLE)
def test_separable_domains(kind, case, read):
    g, x, i = case.g, within(read, case.lo, case.hi), read.below(case.n)
    assert np.isfinite(g.value(x))
    assert np.isfinite(g.value(x))
    bound = np.broadcast_to(g.support_bound, case.n)
    np.testing.assert_array_equal(bound, np.maximum(np.abs(case.lo), np.abs(case.hi)))
    for ends in ((case.lo, case.hi), (-bound, bound)):
        for outside in beyond(x, i, ends, (1.0, 1e-9)):
            assert g.value(outside) == np.inf
            assert not np.isfinite(g.value(outside))
    assert g.needs_scaling == bool(np.isfinite([case.dual_lo, case.dual_hi]).any())
    room = case.n if kind in GROUPS else 1  # the box, shrunk into the product of balls
    u = within(read, case.dual_lo / room, case.dual_hi / room)
    assert np.isfinite(g.conjugate(u))
    for outside in beyond(u, i, (case.dual_lo, case.dual_hi), (1.0, 1e-6)):
        assert g.conjugate(outside) == np.inf


@law(COLUMNWISE, 30)
def test_separable_conjugate_against_naive_suprema(kind, case, read):
    g, u, x = case.g, within(read, case.dual_lo, case.dual_hi), within(read, case.lo, case.hi)

    def losses(x):
        return g.values(x) - u * x

    at = lowest(losses, *near(case.lo, case.hi))
    assert negligible(g.conjugates(u) + losses(at), g.conjugates(u), u * at, rel=1e-11)

    def dual_losses(u):
        return g.conjugates(u) - u * x

    # The conjugate of the conjugate. At an end of the domain of g its supremum may lie at infinity.
    at = lowest(dual_losses, *near(case.dual_lo, case.dual_hi, 700.0 if kind == "dual_logistic" else FAR))
    assert negligible(g.values(x) + dual_losses(at), g.values(x), x * at, rel=1e-11)


@law(SEPARABLE)
def test_separable_prox_is_optimal(kind, case, read):
    g, z, step = case.g, read.vector(case.n), read.number(steps)
    p = g.prox(z, step)
    u = (z - p) / step  # a subgradient of g at p
    assert np.isfinite(g.value(p))
    rounding = 8 / step
    assert np.all((u >= case.dual_lo - 1e-13 * (1 + rounding)) & (u <= case.dual_hi + 1e-13 * (1 + rounding)))
    # Rounding may push u out of the domain of g*, hence the cut conjugate.
    conjugate = g.cut_conjugates(u, np.zeros(len(g.values(p)))).sum()
    assert negligible(g.value(p) + conjugate - np.dot(u, p), g.value(p), conjugate, np.abs(u * p).sum(), rounding)

    def objective(x):
        return g.value(x) + np.dot(x - z, x - z) / (2 * step)

    move = small_or_large(read) * read.vector(case.n)
    for x in (p + move, np.clip(p + move, case.lo, case.hi)):
        assert at_most(objective(p) + np.dot(x - p, x - p) * (1 / step + _modulus(g)) / 2, objective(x))


def _modulus(g):
    """The modulus of strong convexity, for use in a product: a g that is infinitely convex is so at one point only."""
    return g.strong_convexity if np.isfinite(g.strong_convexity) else 0.0


@law(COLUMNWISE, 30)
def test_separable_prox_against_naive_minimisers(kind, case, read):
    g, z, step = case.g, read.vector(case.n), read.vector(case.n, steps)
    p = g.prox(z, step)

    def objectives(x):
        return g.values(x) + (x - z) ** 2 / (2 * step)

    naive = lowest(objectives, *near(case.lo, case.hi))
    assert at_most(objectives(p), objectives(naive))
    assert negligible(p - naive, p, rel=2e-6)

    def dual_objectives(u):  # of the prox of g* with step 1/step at z/step
        return g.conjugates(u) + (u - z / step) ** 2 * (step / 2)

    by_moreau, naive = (z - p) / step, lowest(dual_objectives, *near(case.dual_lo, case.dual_hi))
    assert negligible(by_moreau - naive, z / step, rel=2e-6)
    by_moreau = np.clip(by_moreau, case.dual_lo, case.dual_hi)
    assert at_most(dual_objectives(by_moreau), dual_objectives(naive), z * z / step, rel=1e-11)


@law(GROUPS)
def test_group_lasso_is_a_norm_per_group(kind, case, read):
    g, z, step = case.g, read.vector(case.n), read.number(steps)
    p = g.prox(z, step)
    for k, label in enumerate(np.unique(g.groups)):
        mine = g.groups == label
        norm = np.linalg.norm(z[mine])
        assert np.isclose(g.values(z)[k], g.weights[k] * norm, rtol=1e-14, atol=1e-150)
        # Moreau: z minus the projection of z on the ball of the dual norm.
        projected = z[mine] * min(1.0, step * g.weights[k] / norm) if norm > 1e-150 else z[mine]
        np.testing.assert_allclose(p[mine], z[mine] - projected, rtol=1e-12, atol=1e-14)


@law(GROUPS)
def test_group_lasso_of_single_columns_is_l1(kind, case, read):
    n, step = case.n, read.number(steps)
    l1, x, radius = read.vector(n, penalties), read.vector(n), np.abs(read.vector(n))
    group, plain = GroupLasso(np.arange(n), l1), L1(l1)
    np.testing.assert_allclose(group.values(x), plain.values(x), rtol=1e-14, atol=1e-150)  # squares may underflow
    np.testing.assert_allclose(group.prox(x, step), plain.prox(x, step), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(group.conjugates(x), plain.conjugates(x))
    np.testing.assert_array_equal(group.worst_conjugates(x, radius), plain.worst_conjugates(x, radius))
    if np.max(np.abs(x) + radius) > 1e-100:
        np.testing.assert_allclose(group.ray_limit(x, radius), plain.ray_limit(x, radius), rtol=1e-14)


def _bend(case, i):
    """The smallest second difference quotient of g in column i on a side of zero, infinite if it cannot move."""
    lo, hi = np.clip(case.lo[i], -4, 4), np.clip(case.hi[i], -4, 4)
    rest = np.clip(np.zeros(case.n), case.lo, case.hi)
    best = np.inf
    for a, b in ((lo, min(hi, 0.0)), (max(lo, 0.0), hi)):
        if a < b:
            h = 0.25 * (b - a) if isinstance(case.g, Table) else 1e-3 * (b - a)
            values = []
            for t in (-h, 0.0, h):
                x = rest.copy()
                x[i] = 0.5 * (a + b) + t
                values.append(case.g.value(x))
            best = min(best, (values[0] - 2 * values[1] + values[2]) / h**2)
    return best


@law(SEPARABLE)
def test_strong_convexity_is_the_largest(kind, case, read):
    g, mu = case.g, case.g.strong_convexity
    a, b, t = within(read, case.lo, case.hi), within(read, case.lo, case.hi), read.number(fractions)
    chord = t * g.value(a) + (1 - t) * g.value(b)
    sag = 0.5 * t * (1 - t) * np.dot(a - b, a - b)
    assert at_most(g.value(np.clip(t * a + (1 - t) * b, case.lo, case.hi)) + _modulus(g) * sag, chord)
    least = min(_bend(case, i) for i in range(case.n))
    if np.isinf(mu):
        assert np.isinf(least)  # no column can move
    elif kind not in GROUPS:
        assert np.isclose(least, mu, rtol=1e-5, atol=1e-9)


@law(COLUMNWISE)
def test_take_restricts_and_join_puts_together(kind, case, read):
    g, x = case.g, within(read, case.lo, case.hi)
    u, z = read.vector(case.n), read.vector(case.n)
    some = read.vector(1 + read.below(case.n), lambda raw: raw % case.n).astype(np.int64)
    for columns in (some, some[:0], slice(1, None), slice(None)):
        part, size = g.take(columns), len(x[columns])
        part.check_size(size)
        np.testing.assert_array_equal(part.values(x[columns]), g.values(x)[columns])
        np.testing.assert_array_equal(part.conjugates(u[columns]), g.conjugates(u)[columns])
        np.testing.assert_allclose(part.prox(z[columns], 0.7), g.prox(z, 0.7)[columns], rtol=1e-13, atol=1e-15)
        np.testing.assert_array_equal(part.kernel_rows(size), g.kernel_rows(case.n)[columns])
        if size:
            assert part.strong_convexity >= g.strong_convexity
    parts = [g.take(slice(0, 1)), g.take(slice(1, None))]
    joined = parts[0].join(parts, [1, case.n - 1])
    np.testing.assert_array_equal(joined.values(x), g.values(x))
    np.testing.assert_array_equal(joined.kernel_rows(case.n), g.kernel_rows(case.n))


@law(GROUPS)
def test_take_restricts_whole_groups(kind, case, read):
    g, x = case.g, read.vector(case.n)
    names = np.unique(g.groups)
    chosen = read.vector(len(names), lambda raw: raw % 2) == 0
    columns = np.flatnonzero(np.isin(g.groups, names[chosen]))
    part = g.take(columns)
    np.testing.assert_array_equal(part.values(x[columns]), g.values(x)[chosen])
    np.testing.assert_array_equal(part.conjugates(x[columns]), g.conjugates(x)[chosen])
    np.testing.assert_array_equal(part.prox(x[columns], 0.7), g.prox(x, 0.7)[columns])
    np.testing.assert_array_equal(part.kernel_rows(len(columns)), g.kernel_rows(case.n)[columns])
    joined = g.join([g, part], [case.n, len(columns)])  # the same labels in two parts are two groups
    np.testing.assert_array_equal(joined.values(np.append(x, x[columns])), np.append(g.values(x), g.values(x)[chosen]))


@law(SEPARABLE)
def test_scaled(kind, case, read):
    g, factor, x, u = case.g, read.number(penalties), read.vector(case.n), read.vector(case.n)
    if isinstance(g, LogisticDual):
        with pytest.raises(InvalidInput, match="scaled through sample weights"):
            g.scaled(factor)
        return
    scaled = g.scaled(factor)
    np.testing.assert_allclose(scaled.values(x), factor * g.values(x), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scaled.conjugates(factor * u), factor * g.conjugates(u), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(scaled.prox(x, 0.5), g.prox(x, 0.5 * factor), rtol=1e-12, atol=1e-12)
    assert np.isclose(scaled.strong_convexity, factor * g.strong_convexity, rtol=1e-14)


@law(SEPARABLE)
def test_kernel_rows_hold_the_function(kind, case, read):
    g, x = case.g, read.vector(case.n)
    rows = g.kernel_rows(case.n)
    assert rows.shape == (case.n, 5)
    assert rows.dtype == np.float64
    assert rows.flags.c_contiguous
    l1, _, _, lo, hi = rows.T
    if isinstance(g, LogisticDual):
        again = LogisticDual(np.where(lo + hi < 0, -1.0, 1.0), hi - lo)
    elif isinstance(g, GroupLasso):
        again = GroupLasso(g.groups, l1[np.unique(g.groups, return_index=True)[1]])
    else:
        again = Table(*rows.T)
    np.testing.assert_array_equal(again.values(x), g.values(x))
    if kind not in GROUPS:
        np.testing.assert_array_equal(g.pieces(case.n), np.arange(case.n + 1))


@law(GROUPS)
def test_pieces_are_the_groups(kind, case, read):
    g = case.g
    ordered = g.take(np.argsort(g.groups, kind="stable"))
    np.testing.assert_array_equal(ordered.weights, g.weights)
    starts = ordered.pieces(case.n)
    assert starts[0] == 0
    assert starts[-1] == case.n
    for k, name in enumerate(np.unique(g.groups)):
        assert set(ordered.groups[starts[k] : starts[k + 1]]) == {name}
    if (np.diff(g.groups) < 0).any():
        with pytest.raises(InvalidInput, match="ordered by group"):
            g.pieces(case.n)


# --- dual points scaled into the domain ----------------------------------------------------------------------


def _neighbourhood(case, read):
    """A dual point u, a radius for every piece, and points within it: the farthest of each piece, and a random one."""
    g, u = case.g, read.vector(case.n)
    radius = np.abs(read.vector(len(g.values(u)))) * (read.below(4) > 0)
    aside = read.vector(case.n, lambda raw: raw / 32767.5 - 1.0)
    if not isinstance(g, GroupLasso):
        return u, radius, [u + radius, u - radius, u + radius * aside]
    piece = np.unique(g.groups, return_inverse=True)[1]

    def norms(x):
        return np.sqrt(np.bincount(piece, x * x))[piece]

    outwards = np.where(norms(u) > 0, u, 1.0)
    return u, radius, [u + radius[piece] * d / norms(d) for d in (outwards, np.where(norms(aside) > 0, aside, 1.0))]


@law(SEPARABLE)
def test_ray_limit_is_the_largest(kind, case, read):
    g = case.g
    u, radius, around = _neighbourhood(case, read)
    limit = g.ray_limit(u, radius)
    assert isinstance(limit, float)
    assert (limit < 0) == np.isinf(g.conjugate(np.zeros(case.n)))
    if limit < 0:
        return
    if not g.needs_scaling:
        assert limit == np.inf
    for s in (0.0, 0.4 * min(limit, 1e3), (1 - 1e-9) * min(limit, 1e3)):
        for point in around:
            assert np.isfinite(g.conjugate(s * point))
    if limit < 1e3:
        s = limit * (1 + 1e-9) + 1e-9
        assert any(np.isinf(g.conjugate(s * point)) for point in around)


@law(SEPARABLE)
def test_worst_conjugates_are_the_largest_within_the_radius(kind, case, read):
    g = case.g
    u, radius, around = _neighbourhood(case, read)
    worst = g.worst_conjugates(u, radius)
    if kind in GROUPS:  # the farthest points are rounded onto the sphere, perhaps just beyond it
        assert np.all([g.conjugates(point * (1 - 1e-12)) <= worst for point in around])
        farther = around[0] * (1 + 1e-9) + 1e-9 * np.where(around[0] < 0, -1.0, 1.0)
        assert np.all((worst == 0) | (g.conjugates(farther) == np.inf))
        return
    seen = np.array([g.conjugates(point) for point in around])
    assert at_most(seen, worst)
    np.testing.assert_array_equal(seen.max(axis=0), worst)


@law(SEPARABLE)
def test_cut_conjugates_bound_every_scaled_point(kind, case, read):
    g, t = case.g, read.number(fractions)
    u, radius, around = _neighbourhood(case, read)
    cut, at_zero = g.cut_conjugates(u, radius), g.cut_conjugates(np.zeros(case.n), np.zeros(()))
    assert np.isfinite(cut).all()
    assert np.isfinite(at_zero).all()
    limit = g.ray_limit(u, radius)
    for s in (0.0, t * limit, limit) if limit >= 0 else ():
        s = min(1.0, s * (1 - 1e-9)) if s > 0 else 0.0
        for point in around:
            assert at_most(g.conjugate(s * point), s * cut.sum() + (1 - s) * at_zero.sum(), np.abs(point).sum())
    exact, cut = g.conjugates(u), g.cut_conjugates(u, np.zeros_like(radius))
    np.testing.assert_array_equal(cut[np.isfinite(exact)], exact[np.isfinite(exact)])


# --- losses --------------------------------------------------------------------------------------------------


@law(LOSS_CASES)
def test_total_is_the_textbook_formula(kind, case, read):
    z = read.vector(len(case.y))
    rows = case.rows(z)
    assert negligible(case.loss.total(case.y, z, case.c) - rows.sum(), rows.sum(), np.abs(case.c * z).sum())


@law(LOSS_CASES)
def test_dual_and_smooth_form_are_one_loss(kind, case, read):
    z, other = read.vector(len(case.y)), read.vector(len(case.y))
    dual, f = case.loss.dual(case.y, case.c), case.loss.smooth(case.y, case.c)
    rows = case.rows(z)
    assert negligible(dual.conjugates(-z) - rows, rows, case.c * z)
    # At the optimum a is in minus the subdifferential of the loss at z.
    a = dual.conjugate_subgradient(-z)
    assert at_most(rows - a * (other - z), case.rows(other), a * z, a * other)
    if f is None:
        return
    assert negligible(f.value(z) - dual.conjugate(-z), rows.sum(), np.abs(case.c * z).sum())
    assert negligible(f.gradient(z) + a, a, case.c * z)
    w = f.gradient(other)
    assert negligible(f.conjugate(w) - dual.value(-w), np.abs(w * case.y).sum(), f.conjugate(w))
    if np.isfinite(dual.strong_convexity):
        assert np.isclose(f.tau, dual.strong_convexity, rtol=1e-14)


@law({name: LOSS_CASES[name] for name in DUAL_ROWS})
def test_dual_rows_are_those_of_the_table(kind, case, read):
    rows = case.loss.dual(case.y, case.c).kernel_rows(len(case.y))
    for row, y, c in zip(rows, case.y, case.c, strict=True):
        if c > 0:
            np.testing.assert_allclose(row, DUAL_ROWS[kind](case.loss, y, c), rtol=1e-15)
        else:
            assert row[3] == row[4] == 0  # its variable stays at zero


def test_every_loss_has_a_dual_row_and_a_name():
    assert set(DUAL_ROWS) | {"logistic"} == set(LOSSES) == set(LOSS_CASES)
    for name, kind in LOSSES.items():
        assert kind.name == name


@law(ROW_LOSSES)
def test_smooth_conjugates_are_those_of_the_table(kind, case, read):
    f = case.f
    live = f.c > 0
    w = within(read, case.lo, case.hi)
    second = {Squared: 1.0, Huber: 1.0, Logistic: 0.25, SquaredHinge: 2.0}[type(f)]
    if live.any():
        assert np.isclose(f.tau, 1 / (second * f.c.max()), rtol=1e-15)
    y, c, part = f.y[live], f.c[live], w[live]
    if isinstance(f, SquaredHinge):
        rows = y * part + part**2 / (4 * c)
    elif isinstance(f, Logistic):
        p = np.clip(-y * part / c, 1e-300, 1)
        q = np.clip(1 - p, 1e-300, 1)
        rows = c * (p * np.log(p) + q * np.log(q))
    else:
        rows = part**2 / (2 * c) + part * y
    assert negligible(f.conjugate(w) - rows.sum(), np.abs(rows).sum(), np.abs(w).sum())


# --- extreme numbers (warnings are errors) -------------------------------------------------------------------

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


# --- what is refused -----------------------------------------------------------------------------------------

ONES = np.ones(3)
NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L1(-1.0), "the penalty l1 must be finite and >= 0, got -1.0"),
        (lambda: L1([1.0, -2.0]), "the penalty l1 must be finite and >= 0, got -2.0"),
        (lambda: L2(-0.5), "the penalty l2 must be finite and >= 0, got -0.5"),
        (lambda: L2(INF), "the penalty l2 must be finite and >= 0, got inf"),
        (lambda: ElasticNet(1.0, -1.0), "the penalty l2 must be"),
        (lambda: L1(NAN), "l1 holds NaN"),
        (lambda: L2([1.0, NAN]), "l2 holds NaN"),
        (lambda: Box(NAN, 1.0), "lo holds NaN"),
        (lambda: Box(0.0, NAN), "hi holds NaN"),
        (lambda: Table(linear=np.array(NAN)), "linear holds NaN"),
        (lambda: Table(linear=np.array(INF)), "the linear term must be finite"),
        (lambda: Box(1.0, 0.0), "every lower bound must be at most its upper bound"),
        (lambda: Box([0.0, 2.0], [1.0, 1.0]), "every lower bound must be at most its upper bound"),
        (lambda: Box(INF, INF), "every lower bound must be at most its upper bound"),
        (lambda: Box(-INF, -INF), "every lower bound must be at most its upper bound"),
        (lambda: L1(np.ones((2, 2))), "l1 has 2 dimensions"),
        (lambda: ElasticNet(np.ones(2), np.ones(3)), "l2 has 3 entries but l1 has 2"),
        (lambda: L1(np.ones(2), hi=np.ones(3)), "hi has 3 entries but l1 has 2"),
        (lambda: L1(1.0).scaled(-1.0), "the penalty l1 must be finite and >= 0"),
        (lambda: L1(ONES).check_size(4), "the penalty's l1 has 3 entries for 4 columns"),
        (lambda: LogisticDual(ONES, ONES).check_size(2), "the logistic dual has 3 labels for 2 columns"),
        (lambda: LogisticDual(ONES, np.ones(2)), "one per target"),
        (lambda: LogisticDual(ONES, -ONES), "weights must be finite, >= 0"),
        (lambda: LogisticDual(ONES, NAN * ONES), "weights must be finite, >= 0"),
        (lambda: LogisticDual(0.5 * ONES, ONES), "labels must be -1 or 1"),
        (lambda: LogisticDual(ONES, ONES).scaled(2.0), "scaled through sample weights"),
        (lambda: GroupLasso(np.array([0.5, 1.0])), "groups must be one integer label per column"),
        (lambda: GroupLasso(np.array([[0, 1]])), "groups must be one integer label per column"),
        (lambda: GroupLasso(np.array([0, 1]), np.ones(3)), "3 group weights for 2 groups"),
        (lambda: GroupLasso(np.array([0, 1]), -np.ones(2)), "group weights must be finite and >= 0"),
        (lambda: GroupLasso(np.array([0, 1]), np.array(NAN)), "group weights must be finite and >= 0"),
        (lambda: GroupLasso(np.array([0, 1])).scaled(-2.0), "group weights must be finite and >= 0"),
        (lambda: GroupLasso(np.array([0, 1])).check_size(3), "GroupLasso has 2 group labels for 3 columns"),
        (lambda: GroupLasso(np.array([1, 0])).pieces(2), "columns must be ordered by group"),
        (lambda: Squared(ONES, np.ones(2)), "one per target"),
        (lambda: Squared(ONES, -ONES), "weights must be finite, >= 0"),
        (lambda: Logistic(ONES, NAN * ONES), "weights must be finite, >= 0"),
        (lambda: Huber(ONES, INF * ONES), "weights must be finite, >= 0"),
        (lambda: Squared(NAN * ONES), "targets must be finite"),
        (lambda: Squared(np.ones((2, 2))), "targets must be finite and in one dimension"),
        (lambda: Logistic(2 * ONES), "labels must be -1 or 1"),
        (lambda: Logistic(NAN * ONES), "labels must be -1 or 1"),
        (lambda: SquaredHinge(np.array([0.0, 1.0])), "labels must be -1 or 1"),
        (lambda: Huber(ONES, delta=0.0), "Huber needs a finite delta > 0, got 0.0"),
        (lambda: Huber(ONES, delta=NAN), "Huber needs a finite delta > 0"),
        (lambda: ConjugateOf(L1(1.0)), "smooth only if every column has l2 > 0"),
        (lambda: ConjugateOf(L2([1.0, 0.0])), "smooth only if every column has l2 > 0"),
        (lambda: ConjugateOf(L2([1.0, 0.0], lo=[0.0, 0.0], hi=[0.0, 1.0])), "smooth only if every column has l2 > 0"),
        (lambda: Profiled(Squared(ONES), np.ones(2)), "direction must be finite and have one number per row"),
        (lambda: Profiled(Squared(ONES), NAN * ONES), "direction must be finite and have one number per row"),
        (lambda: HuberLoss(0.0), "HuberLoss needs a finite delta > 0, got 0.0"),
        (lambda: HuberLoss(INF), "HuberLoss needs a finite delta > 0, got inf"),
        (lambda: HuberLoss(NAN), "HuberLoss needs a finite delta > 0, got nan"),
        (lambda: SmoothedHingeLoss(0.0), "SmoothedHingeLoss needs a finite width > 0 (0 is the hinge), got 0.0"),
        (lambda: SmoothedHingeLoss(INF), "SmoothedHingeLoss needs a finite width > 0"),
        (lambda: EpsilonInsensitiveLoss(-0.1), "EpsilonInsensitiveLoss needs a finite epsilon >= 0, got -0.1"),
        (lambda: EpsilonInsensitiveLoss(NAN), "EpsilonInsensitiveLoss needs a finite epsilon >= 0"),
        (lambda: EpsilonInsensitiveLoss(INF), "EpsilonInsensitiveLoss needs a finite epsilon >= 0"),
        (lambda: SquaredEpsilonInsensitiveLoss(-1.0), "SquaredEpsilonInsensitiveLoss needs a finite epsilon >= 0"),
        (lambda: QuantileLoss(0.0), "QuantileLoss needs 0 < quantile < 1, got 0.0"),
        (lambda: QuantileLoss(1.0), "QuantileLoss needs 0 < quantile < 1, got 1.0"),
        (lambda: QuantileLoss(NAN), "QuantileLoss needs 0 < quantile < 1"),
        (lambda: HingeLoss().dual(0.5 * ONES, ONES), "labels must be -1 or 1"),
    ],
)
def test_refused_with_a_reason(make, message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        make()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("c", [-ONES, NAN * ONES, INF * ONES, np.ones(2)])
def test_duals_refuse_bad_weights(name, c):
    with pytest.raises(InvalidInput, match="weights must be finite, >= 0 and one per target"):
        LOSSES[name]().dual(ONES, c)


def test_everything_fits_any_size_unless_it_has_columns():
    for g in (L1(1.0), L2(1.0), ElasticNet(), Box(0.0, 1.0), NonNegative(), Table()):
        for n in (0, 1, 5):
            g.check_size(n)
            assert g.kernel_rows(n).shape == (n, 5)
    assert L2(np.ones(3)).take(np.array([], dtype=np.int64)).strong_convexity == np.inf
