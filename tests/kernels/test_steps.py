"""Kernels of the steps of methods on totals beside naive twins in NumPy."""

import numpy as np
import pytest

from glmesh.functions import Table
from glmesh.kernels.dual import bound_at, combine
from glmesh.kernels.model import ModelScratch, model_step, penalties_along, total_slack
from tests.cases import cases


def penalties(rng: np.random.Generator, n: int) -> Table:
    """Return rows with and without kinks, slopes and bounds, some of them smooth, none without a curvature."""
    kinks, bounded = rng.random(n) < 0.4, rng.random(n) < 0.3
    return Table(
        rng.random(n) * kinks,
        0.1 + rng.random(n),
        0.3 * rng.standard_normal(n),
        np.where(bounded, -rng.random(n), -np.inf),
        np.where(bounded, rng.random(n), np.inf),
    )


def inside(table: Table, x: np.ndarray) -> np.ndarray:
    return np.clip(x, table.lo, table.hi)


@pytest.mark.parametrize("seed", range(cases(60)))
def test_a_step_ends_at_the_minimum_of_the_model_and_tells_its_slope_and_what_is_left(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    table, A = penalties(rng, n), rng.standard_normal((n + 2, n))
    bend, gradient = A.T @ A, rng.standard_normal(n)
    point = inside(table, rng.standard_normal(n))
    smooth = (table.l1 == 0) & np.isinf(table.lo) & np.isinf(table.hi)
    order = np.argsort(~smooth, kind="stable").astype(np.uint64)
    change, pulls, numbers = np.empty(n), np.empty(n), np.empty(2)
    scratch = ModelScratch.of(n)
    whole = (order, np.uint64(smooth.sum()))
    model_step(bend, table.kernel_rows(n), whole, (point, gradient), 0.0, (change, pulls, numbers), scratch)

    def model(e: np.ndarray) -> float:
        return float(gradient @ e + 0.5 * e @ bend @ e + table.values(point + e).sum())

    np.testing.assert_allclose(pulls, gradient + bend @ change, rtol=1e-12, atol=1e-12)
    # a proximal step from the minimum stays there
    step = 1.0 / np.linalg.eigvalsh(bend)[-1]
    np.testing.assert_allclose(table.prox(point + change - step * pulls, step), point + change, atol=1e-9)
    assert all(model(change) <= model(inside(table, point + change + d) - point) + 1e-12 for d in np.eye(n) * 1e-3)
    slopes = gradient + table.l2 * point + table.linear
    falls = -(slopes @ change) - (table.l1 * (np.abs(point + change) - np.abs(point))).sum()
    assert numbers[0] == pytest.approx(falls, rel=1e-12, abs=1e-12)
    left = np.abs(pulls + table.l2 * (point + change) + table.linear)[smooth]
    sizes = (np.abs(gradient) + np.abs(bend * change).sum(axis=1))[smooth]
    assert numbers[1] == pytest.approx((left / sizes).max(initial=0.0), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("seed", range(cases(60)))
def test_the_penalty_along_a_step_and_its_slack_are_those_of_the_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    table, point, change = penalties(rng, n), rng.standard_normal(n), rng.standard_normal(n)
    lengths, found = rng.random(4), np.empty(4)
    penalties_along(table.kernel_rows(n), point, change, lengths, found)
    expected = [table.values(inside(table, point + t * change)).sum() for t in lengths]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    x, u = inside(table, point), rng.standard_normal(n)
    slack = total_slack(table.kernel_rows(n), x, u)
    assert slack == pytest.approx(float(table.slacks(x, u).sum()), rel=1e-12, abs=1e-15)


def test_a_slack_is_infinite_where_the_penalty_or_its_conjugate_is() -> None:
    held = Table(l2=np.array([1.0]), hi=2.0).kernel_rows(1)
    assert total_slack(held, np.array([2.0]), np.array([2.0])) == 0.0
    assert total_slack(held, np.array([2.5]), np.array([2.0])) == np.inf
    row = Table(l1=np.array([1.0])).kernel_rows(1)
    assert total_slack(row, np.zeros(1), np.array([0.5])) == 0.0
    assert total_slack(row, np.zeros(1), np.array([1.5])) == np.inf


@pytest.mark.parametrize("seed", range(cases(60)))
def test_a_bound_and_a_combination_of_dual_points_are_as_their_formulas_say(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, d = int(rng.integers(1, 7)), int(rng.integers(0, 2))
    l1, l2 = rng.random(p), rng.random(p) * (rng.random(p) < 0.8)

    def drawn() -> tuple[float, np.ndarray, float, np.ndarray]:
        return float(rng.normal()), rng.normal(size=p + d), float(rng.random()), rng.random(p + d)

    first, second, share = drawn(), drawn(), float(rng.random())
    c, c_size = np.empty(p + d), np.empty(p + d)
    k, k_size = combine(first, second, share, c, c_size)
    for found, place in ((k, 0), (c, 1), (k_size, 2), (c_size, 3)):
        np.testing.assert_array_equal(found, (1.0 - share) * first[place] + share * second[place])
    beyond = np.maximum(np.abs(first[1][:p]) - l1, 0.0)
    w = np.divide(beyond, l2, out=np.zeros(p), where=l2 > 0)
    expected = -first[0] - 0.5 * (l2 * w * w).sum() - 0.01 * (first[2] + w @ first[3][:p])
    assert bound_at(first, l1, l2, 0.01) == pytest.approx(expected, rel=1e-12, abs=1e-12)
