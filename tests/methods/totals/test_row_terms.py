"""The kernel that sums losses, slopes and curvatures of rows, beside its twin in NumPy."""

import dataclasses

import numpy as np
import pytest

from glmesh.core.block import NetworkInfo
from glmesh.functions import LOSSES, Table
from glmesh.methods.totals.query import Query
from glmesh.methods.totals.row_terms import by_arrays, in_one_pass
from glmesh.methods.totals.rows import Rows
from glmesh.network import mixing, topology
from tests.cases import cases

INFO = NetworkInfo.of(mixing.metropolis(topology.ring(4)), 2, 0)
SIZES = (70, 0, 1, 64)  # rows of each node: the kernel adds 64 of them at a time
SMOOTH = ("logistic", "squared", "huber", "squared_hinge", "smoothed_hinge", "squared_epsilon_insensitive")


def random_rows(loss: str, rng: np.random.Generator) -> Rows:
    made = LOSSES[loss]()
    y = [rng.choice([-1.0, 1.0], m) if made.classifies else rng.normal(size=m) for m in SIZES]
    weight = [rng.uniform(0.0, 2.0, m) * (rng.random(m) < 0.8) for m in SIZES]
    X = [rng.normal(size=(m, 2)) for m in SIZES]
    return Rows(np.arange(4, dtype=np.uint64), INFO, X, y, weight, made, Table(), fit_intercept=True)


def random_query(block: Rows, rng: np.random.Generator) -> Query:
    soft = float(rng.choice([1.0, 5.0])) if block.traits.knee is not None else 1.0
    majorant, stepped, trials, dual = rng.random(4) < 0.5
    return Query(
        rng.normal(size=3),
        rng.normal(size=3) * (rng.random() < 0.8),
        np.arange(3 * rng.integers(2)),
        majorant=bool(majorant),
        stepped_majorant=bool(stepped),
        damping=float(rng.choice([0.0, 0.3])),
        trials=bool(trials),
        dual=bool(dual),
        shrink=float(rng.choice([1.0, 0.7])),
        softness=soft,
        next_softness=max(1.0, soft / rng.choice([1.0, 2.0])),
    )


@pytest.mark.parametrize("seed", range(cases(200)))
@pytest.mark.parametrize("loss", SMOOTH)
def test_the_kernel_sums_what_arrays_do(loss: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    block = random_rows(loss, rng)
    query, m = random_query(block, rng), sum(SIZES)
    size = rng.choice([1.0, 1e-3, 1e3])
    at, errors = (size * rng.normal(size=m), size * rng.normal(size=m)), 1e-10 * rng.random(m)
    made, expected = in_one_pass(block, query, at, errors), by_arrays(block, query, at, errors)
    for field in dataclasses.fields(made):
        ours, theirs = getattr(made, field.name), getattr(expected, field.name)
        assert (ours is None) == (theirs is None), field.name
        if theirs is not None:
            scale = np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14 * scale, err_msg=field.name)


@pytest.mark.parametrize("loss", SMOOTH)
def test_predictions_that_are_not_finite_leave_no_finite_loss(loss: str) -> None:
    block = random_rows(loss, np.random.default_rng(0))
    query = Query(np.ones(3), np.ones(3), np.arange(3), trials=True)
    at = np.full((2, sum(SIZES)), np.nan)
    with np.errstate(invalid="ignore"):
        made = in_one_pass(block, query, (at[0], at[1]), np.zeros(sum(SIZES))).fields(cap=3.0)
    held = np.array(SIZES) > 0
    assert (made["values"][held] == 6.0).all()
    assert (made["trials"][held] == 6.0).all()
