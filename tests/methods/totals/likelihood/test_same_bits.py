"""Eigenvalues, products and reduced rows that do not depend on the processor."""

from __future__ import annotations

import numpy as np
import pytest

from glmesh.methods.totals.likelihood.same_bits import combined, product, reduced, spectrum


@pytest.mark.parametrize("k", [1, 2, 7, 40])
def test_a_spectrum_takes_a_matrix_apart_and_makes_it_again(k: int) -> None:
    rng = np.random.default_rng(k)
    A = rng.normal(size=(k, k))
    A = A + A.T
    values, vectors = spectrum(A)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A), atol=1e-12 * k)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(k), atol=1e-13 * k)
    np.testing.assert_allclose(vectors.T @ np.diag(values) @ vectors, A, atol=1e-12 * k)


def test_small_eigenvalues_of_a_graded_matrix_have_all_their_digits() -> None:
    sizes = 10.0 ** -np.arange(0, 30, 3)
    A = np.eye(10) + 0.1
    wanted = spectrum(A)[0]
    graded = A * sizes[:, None] * sizes
    values = spectrum(graded)[0]
    assert (values > 0).all()
    np.testing.assert_allclose(np.prod(values / sizes[::-1] ** 2), np.prod(wanted), rtol=1e-12)


def test_a_matrix_of_lower_rank_has_eigenvalues_that_are_rounding_alone() -> None:
    B = np.random.default_rng(1).normal(size=(12, 5))
    values, _ = spectrum(B @ B.T)
    assert np.abs(values[:7]).max() < 1e-13 * values[-1]
    assert spectrum(np.zeros((0, 0)))[0].shape == (0,)
    np.testing.assert_array_equal(spectrum(np.zeros((3, 3)))[0], np.zeros(3))


def test_products_and_combinations_are_those_of_the_matrices() -> None:
    rng = np.random.default_rng(2)
    A, B, C = rng.normal(size=(3, 4)), rng.normal(size=(4, 5)), rng.normal(size=(5, 2))
    np.testing.assert_allclose(product(A, B, C), A @ B @ C, rtol=1e-12)
    np.testing.assert_allclose(combined(A[0], B), A[0] @ B, rtol=1e-12)


def test_reduced_rows_are_combinations_with_a_pivot_each() -> None:
    B = np.random.default_rng(3).normal(size=(3, 6))
    pivots, rows = reduced(B)
    np.testing.assert_allclose(rows[:, pivots], np.eye(3), atol=1e-14)
    np.testing.assert_allclose(B[:, pivots] @ rows, B, atol=1e-13)
