"""Separable functions: the laws of convex analysis, over every instance of the catalogue."""

import numpy as np
import pytest

from glmesh.errors import InvalidInput
from glmesh.functions import (
    L1,
    GroupLasso,
    LogisticDual,
    Table,
)
from tests.catalogue import (
    COLUMNWISE,
    GROUPS,
    SEPARABLE,
    fractions,
    penalties,
    steps,
)
from tests.functions.checks import FAR, at_most, beyond, law, lowest, near, negligible, small_or_large, within


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
