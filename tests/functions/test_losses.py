"""Losses: the textbook's formula, and one loss in both splits."""

import numpy as np

from glmesh.functions import (
    LOSSES,
    Huber,
    Logistic,
    Squared,
    SquaredHinge,
)
from tests.catalogue import (
    DUAL_ROWS,
    LOSS_CASES,
    ROW_LOSSES,
)
from tests.functions.checks import at_most, law, negligible, within


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
