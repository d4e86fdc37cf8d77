"""A law over every instance of the catalogue, and naive minimisers to compare with."""

import zlib

import numpy as np
import pytest
from hypothesis import given, seed

from tests.cases import SOAK, prop
from tests.catalogue import (
    numbers,
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


ONES = np.ones(3)
