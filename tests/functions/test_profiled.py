"""The profiled intercept: the minimum over the intercept, row by row."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from glmesh.functions import (
    Huber,
    Logistic,
    Profiled,
    Squared,
    SquaredHinge,
)
from tests.catalogue import (
    PROFILED,
    steps,
)
from tests.functions.checks import at_most, law, negligible


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
