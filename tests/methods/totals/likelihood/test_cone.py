"""Conditions on directions along which no row's loss grows, for each kind of target."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from glmesh.errors import InvalidInput
from glmesh.functions.losses import LogisticLoss, SquaredLoss
from glmesh.methods.totals.likelihood.cone import cone_rows, kind
from tests.methods.totals.likelihood.pooled import dense_rows

X = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
ONES = np.ones(4)


def in_order(rows: np.ndarray) -> list[list[float]]:
    return sorted(rows.tolist())


def test_shares_of_0_and_1_are_inequalities_and_others_equalities() -> None:
    A, E = dense_rows(cone_rows("shares", X, np.array([1.0, 0.0, 0.3, 1.0]), ONES))
    assert in_order(A) == in_order(np.array([[1, 2, 1], [-3, -4, -1], [7, 8, 1]]))
    assert E.tolist() == [[5, 6, 1]]


def test_signs_as_labels_are_shares() -> None:
    signs = cone_rows("shares", X, np.array([1.0, -1.0, -1.0, 1.0]), ONES)
    shares = cone_rows("shares", X, np.array([1.0, 0.0, 0.0, 1.0]), ONES)
    assert in_order(dense_rows(signs)[0]) == in_order(dense_rows(shares)[0])


def test_counts_of_0_are_inequalities_and_others_equalities() -> None:
    A, E = dense_rows(cone_rows("counts", X, np.array([0.0, 2.5, 0.0, 1.0]), ONES))
    assert in_order(A) == in_order(np.array([[-1, -2, -1], [-5, -6, -1]]))
    assert in_order(E) == in_order(np.array([[3, 4, 1], [7, 8, 1]]))


def test_a_class_is_compared_with_each_of_the_others() -> None:
    A, E = dense_rows(cone_rows("classes", X[:1], np.array([1.0]), ONES[:1], 3))
    assert in_order(A) == in_order(np.array([[-1, -2, -1, 1, 2, 1, 0, 0, 0], [0, 0, 0, 1, 2, 1, -1, -2, -1]]))
    assert not len(E)


def test_the_linear_predictor_of_a_reference_class_is_0() -> None:
    A, _ = dense_rows(cone_rows("classes", X[:2], np.array([0.0, 1.0]), ONES[:2], 2, 3))
    wanted = [[-1, -2, -1, 0, 0, 0], [0, 0, 0, -1, -2, -1], [3, 4, 1, 0, 0, 0], [3, 4, 1, -3, -4, -1]]
    assert in_order(A) == in_order(np.array(wanted))


def test_rows_of_weight_0_are_left_out() -> None:
    cone = cone_rows("shares", X, np.array([1.0, 0.0, 0.3, 1.0]), np.array([1.0, 0.0, 0.0, 2.0]))
    A, E = dense_rows(cone)
    assert cone.rows == 2
    assert A.shape == (2, 3)
    assert not len(E)


@pytest.mark.parametrize("targets", ["shares", "counts", "classes"])
def test_sparse_rows_and_their_sums_of_squares_are_those_of_dense_ones(targets: str) -> None:
    y, q = np.array([0.0, 1.0, 2.0, 1.0]) if targets != "shares" else np.array([0.0, 1.0, 0.5, 1.0]), 1
    if targets == "classes":
        q = 3
    dense, sparse = (cone_rows(targets, data, y, ONES, q) for data in (X, sp.csr_array(X)))
    for one, other in zip(dense_rows(dense), dense_rows(sparse), strict=True):
        np.testing.assert_array_equal(one, other)
    A = np.vstack(dense_rows(dense))
    for cone in (dense, sparse):
        np.testing.assert_allclose(sum(group.gram() for group in cone.groups), A.T @ A, rtol=1e-14)


@pytest.mark.parametrize("at_once", [1, 9, 1000])
def test_how_many_rows_are_taken_at_a_time_does_not_matter(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    data, y, u = rng.normal(size=(20, 3)), rng.integers(0, 3, size=20).astype(float), rng.normal(size=12)
    cone = cone_rows("classes", data, y, np.ones(20), 3)
    A, _ = dense_rows(cone)
    monkeypatch.setattr("glmesh.methods.totals.likelihood.cone.AT_ONCE", at_once)
    np.testing.assert_array_equal(in_order(dense_rows(cone)[0]), in_order(A))
    np.testing.assert_allclose(sum(group.gram() for group in cone.groups), A.T @ A, atol=1e-12)
    pairs = [pair for group in cone.groups for pair in group.sized_products(u)]
    np.testing.assert_allclose(sorted(np.concatenate([p.ravel() for p, _ in pairs])), sorted(A @ u), atol=1e-12)
    sizes = sorted(np.concatenate([s.ravel() for _, s in pairs]))
    np.testing.assert_allclose(sizes, sorted(np.abs(A) @ np.abs(u)), atol=1e-12)


def test_losses_whose_maximum_always_exists_have_no_rows() -> None:
    assert kind(LogisticLoss()) == "shares"
    assert kind(SquaredLoss()) == ""
    cone = cone_rows("", X, np.array([0.0, 1.0, 0.0, 1.0]), ONES)
    assert cone.groups == ()
    assert cone.d == 3
    with pytest.raises(InvalidInput, match="'shares', 'counts', 'classes'"):
        cone_rows("labels", X, ONES, ONES)
