"""Newton's method on totals: no certificate is false, and the objective never rises, on random problems."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glmesh import Run
from glmesh.methods import ProximalNewton
from glmesh.methods.totals.model import Factored
from tests.cases import prop
from tests.methods.totals.smooth import Array, Exact, Smooth, draw

NEWTON = ProximalNewton()
DIGITS = Exact(1e-17)  # of the objective in extended precision


@dataclass(frozen=True, eq=False)
class Record:
    """What nodes know after a total, and the objective there in extended precision."""

    point: Array
    objective: float
    gap: float
    lower: float
    rounding: float
    value: Exact


def rounds(case: Smooth, most: int = 40, **options: object) -> list[Record]:
    """Records of a run until a relative gap of 1e-10, a failure, or so many rounds."""
    run, found = Run(case.problem(), method=NEWTON, **{"n_nodes": 3} | options), []
    for _ in range(most):
        next(run)
        state = run.states[0]
        point = np.append(state.w, state.intercept)
        found.append(Record(point, state.objective, state.gap, state.lower, state.rounding, case.value(point)))
        if state.gap <= 1e-10 * abs(state.objective) or state.failure:
            break
    return found


@prop(1000)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_gap_is_below_the_truth(seed: int) -> None:
    case = draw(seed)
    records = rounds(case)
    points = [records[-1].point, case.conic()]
    best = min([case.value(case.polished(point)) for point in points] + [record.value for record in records])
    before = np.inf
    for number, record in enumerate(records):
        told = f"{case.loss}, round {number}: {record.gap}, {record.rounding}"
        assert record.value - best <= record.gap + DIGITS * abs(record.value), told
        assert record.lower <= best + DIGITS * abs(best), told
        assert abs(record.value - Exact(record.objective)) <= record.rounding + DIGITS * abs(record.value), told
        assert record.objective <= before, told
        before = record.objective + record.rounding


@prop(200)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_are_made_consistent_with_the_columns_that_depend_on_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    own = rng.normal(size=(30, int(rng.integers(1, 5))))
    X = np.hstack([own, own @ rng.integers(-2, 3, size=(own.shape[1], 3))])[:, rng.permutation(own.shape[1] + 3)]
    factored, values = Factored.of(X.T @ X), rng.normal(size=X.shape[1])
    changed = factored.consistent(values)
    kept = np.setdiff1d(np.arange(X.shape[1]), factored.dropped)
    assert len(factored.dropped) == 3
    np.testing.assert_array_equal(changed[kept], values[kept])
    theta = np.linalg.lstsq(X.T, changed, rcond=None)[0]  # some theta has these products with all columns
    np.testing.assert_allclose(X.T @ theta, changed, atol=1e-9 * np.abs(changed).max())
