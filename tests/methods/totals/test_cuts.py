"""Lines below the objective: where two meet is below its minimum, and tight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glmesh.methods.totals.cuts import Cut, aim, lower_bound, meeting
from tests.cases import prop


@prop(300)
@given(st.integers(0, 10**6))
def test_the_bound_is_below_the_minimum_of_the_function_that_the_lines_are_below(seed: int) -> None:
    """Tangents of a sum of random convex functions, told with slopes that are wrong by up to their error."""
    rng = np.random.default_rng(seed)
    knots, far = rng.normal(size=7) * 10.0 ** rng.uniform(-2, 4), 10.0 ** rng.uniform(-2, 4)
    grid = np.sort(np.concatenate([knots, rng.normal(size=400) * far]))

    def value(b: np.ndarray) -> np.ndarray:
        return np.abs(b[..., None] - knots).sum(axis=-1) + 0.5 * (b / far) ** 2

    cuts: list[Cut] = []
    best = -np.inf
    for b in rng.normal(size=8) * far:
        slope = float(np.sign(b - knots).sum() + b / far**2)
        error = float(10.0 ** rng.uniform(-12, 0))
        below = float(value(b) - 10.0 ** rng.uniform(-6, 2))
        new = Cut(below, b, slope + error * rng.uniform(-1, 1), error)
        best = max(best, lower_bound(cuts, new))
        cuts.append(new)
    assert best <= value(grid).min() * (1 + 1e-12)


@prop(100)
@given(*(st.floats(-5, 5) for _ in range(4)), st.floats(0.01, 5), st.floats(0.01, 5))
def test_without_errors_it_is_the_height_at_which_they_meet(v, w, a, b, rise, fall):
    grid = np.linspace(-2000, 2000, 3)
    where = (w - v + rise * a + fall * b) / (rise + fall)
    found = meeting(Cut(v, a, rise, 0.0), Cut(w, b, -fall, 0.0))
    assert found == pytest.approx(v + rise * (where - a), abs=1e-9)
    assert (found <= np.maximum(v + rise * (grid - a), w - fall * (grid - b)) + 1e-9).all()


def test_a_flat_line_is_a_bound_alone_and_a_doubtful_one_is_none():
    falls = Cut(1.0, 0.0, -1.0, 0.1)
    assert lower_bound([], Cut(3.0, 7.0, 0.0, 0.0)) == 3.0
    assert lower_bound([falls], Cut(3.0, 7.0, 0.0, 1e-9)) == -np.inf
    assert lower_bound([falls], Cut(3.0, 7.0, 0.5, 0.5)) == -np.inf
    assert lower_bound([falls], Cut(3.0, 7.0, -0.5, 0.1)) == -np.inf
    assert lower_bound([falls], Cut(3.0, 7.0, 0.5, 0.1)) > -np.inf


def test_the_next_sum_has_the_other_sign_or_that_which_is_missing():
    rises = Cut(0.0, 0.0, 1.0, 0.0)
    assert aim(2.0, 1e-9, 0.1, []) == pytest.approx(-0.2)
    assert aim(-2.0, 1e-9, 0.1, []) == pytest.approx(0.2)
    assert aim(0.0, 1e-9, 0.1, []) == pytest.approx(8e-9)
    assert aim(0.0, 1e-9, 0.1, [rises]) == pytest.approx(-8e-9)
