"""Columns that are centred and divided by powers of two, without a standardised copy of the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from glmesh.kernels.gram import add_gram
from glmesh.types import Indices, Matrix, SampleMatrix, Vector

CHUNK = 4096  # [rows] that are standardised at a time: some MB for a hundred columns
DENSE = 0.3  # share of nonzeros above which dense products are faster than sparse ones


@dataclass(frozen=True, eq=False)
class Standardisation:
    """Standardised columns (x_j - mean_j) inverse_j, and a column of ones after them if there is an intercept.

    A coefficient vector of the standardised columns has shape (d,), d = p, or p + 1 with the intercept last.
    """

    mean: Vector  # (p,) centres of the columns, zeros without an intercept
    inverse: Vector  # (p,) powers of two near 1 over the standard deviations; 0: the column is constant
    fit_intercept: bool

    @property
    def d(self) -> int:
        """Number of standardised coefficients, the intercept included."""
        return len(self.mean) + self.fit_intercept

    def to_user(self, coefficients: Vector, shift: float) -> tuple[Vector, float]:
        """Return (w, intercept) of the raw columns, for targets from which `shift` was subtracted."""
        w = coefficients[: len(self.mean)] * self.inverse
        if not self.fit_intercept:
            return w, 0.0
        return w, float(coefficients[-1] - self.mean @ w + shift)

    def from_user(self, w: Vector, intercept: float, shift: float) -> Vector:
        """Return the standardised coefficients, shape (d,), of raw ones; those of constant columns are 0."""
        scaled = np.divide(w, self.inverse, out=np.zeros_like(w), where=self.inverse > 0)
        if not self.fit_intercept:
            return scaled
        return np.append(scaled, intercept - shift + self.mean @ w)

    def products(self, X: SampleMatrix, vectors: Matrix) -> Matrix:
        """Return the products of the m standardised rows of X with r vectors, shape (r, d), as an (r, m) array."""
        if is_sparse(X):
            raw = vectors[:, : len(self.mean)] * self.inverse
            constant = -(raw @ self.mean)
            if self.fit_intercept:
                constant += vectors[:, -1]
            return np.ascontiguousarray((X @ raw.T).T) + constant[:, None]
        out = np.empty((len(vectors), X.shape[0]))
        for rows in _chunks(X):
            out[:, rows] = vectors @ self._dense(X[rows]).T
        return out

    def sums(self, X: SampleMatrix, weights: Vector, vectors: Matrix) -> tuple[Vector, Matrix]:
        """Return (upper triangle of Z' diag(weights) Z, Z' vectors) for the standardised rows Z of X.

        `weights` >= 0 has shape (m,), `vectors` (r, m); the results have shapes (d (d + 1)/2,) and (r, d).
        """
        gram, moments = (
            self._sparse_sums(X, weights, vectors) if is_sparse(X) else self._dense_sums(X, weights, vectors)
        )
        return gram[np.triu_indices(self.d)], moments

    def _dense(self, X: SampleMatrix) -> Matrix:
        """Return the standardised rows, shape (m, d), as a dense array."""
        Z = np.ones((X.shape[0], self.d))
        np.subtract(X.toarray() if sp.issparse(X) else X, self.mean, out=Z[:, : len(self.mean)])
        Z[:, : len(self.mean)] *= self.inverse
        return Z

    def _dense_sums(self, X: SampleMatrix, weights: Vector, vectors: Matrix) -> tuple[Matrix, Matrix]:
        """Return (Z' diag(weights) Z, shape (d, d), Z' vectors, shape (r, d)), some rows at a time."""
        gram, moments = np.zeros((self.d, self.d)), np.zeros((len(vectors), self.d))
        for rows in _chunks(X):
            Z = self._dense(X[rows])
            moments += vectors[:, rows] @ Z
            Z *= np.sqrt(weights[rows])[:, None]
            gram += Z.T @ Z
        return gram, moments

    def _sparse_sums(self, X: sp.csr_array, weights: Vector, vectors: Matrix) -> tuple[Matrix, Matrix]:
        """Return (upper triangle of Z' diag(weights) Z, shape (d, d), Z' vectors, shape (r, d)) from nonzeros alone."""
        p, gram = len(self.mean), np.zeros((self.d, self.d))
        values = X.data * self.inverse[X.indices]
        scaled = sp.csr_array((values, X.indices, X.indptr), shape=X.shape)
        both = np.vstack([vectors, weights])
        moments = np.ascontiguousarray((scaled.T @ both.T).T)
        masses = both.sum(axis=1)
        sparse_gram(X, values, weights, np.arange(p), gram)
        if self.fit_intercept:
            centre = self.mean * self.inverse
            weighted, mass = moments[-1], masses[-1]
            gram[:p, :p] += np.outer(centre, mass * centre - weighted) - np.outer(weighted, centre)
            moments = np.column_stack([moments - np.outer(masses, centre), masses])
            gram[:p, p], gram[p, p] = moments[-1, :p], mass
        return gram, moments[:-1]


def sparse_gram(X: sp.csr_array, data: Vector, weights: Vector, columns: Indices, out: Matrix) -> None:
    """Add the Gram matrix of some columns, ascending, to the upper triangle of `out`, whose first places are theirs.

    `data` are the entries, shape (X.nnz,), in place of those of X; rows are multiplied by `weights`, shape (m,).
    """
    position = np.full(X.shape[1], -1, dtype=np.int64)
    position[columns] = np.arange(len(columns))
    found, values = np.empty(len(columns), dtype=np.uint64), np.empty(len(columns))
    indptr, indices = X.indptr.astype(np.int64, copy=False), X.indices.astype(np.int32, copy=False)
    add_gram(indptr, indices, data, weights, position, found, values, out)


def is_sparse(X: SampleMatrix) -> bool:
    """Return whether products with X go by its nonzeros: it is a CSR matrix with at most 30 % of them."""
    return bool(sp.issparse(X)) and X.nnz <= DENSE * X.shape[0] * X.shape[1]


def column_sums(X: SampleMatrix, weights: Vector, centre: Vector) -> Matrix:
    """Return the sums over rows of weights (x - centre) and weights (x - centre)^2 of each column, shape (2, p)."""
    if is_sparse(X):
        away = X.data - centre[X.indices]
        terms = [np.ones_like(away), away, away * away]  # a zero adds weight (0 - centre)^(0, 1, 2)
        seen, first, second = [sp.csr_array((t, X.indices, X.indptr), shape=X.shape).T @ weights for t in terms]
        zeros = weights.sum() - seen
        return np.stack([first - zeros * centre, second + zeros * centre**2])
    out = np.zeros((2, X.shape[1]))
    for rows in _chunks(X):
        Z = (X[rows].toarray() if sp.issparse(X) else X[rows]) - centre
        out[0] += weights[rows] @ Z
        out[1] += weights[rows] @ (Z * Z)
    return out


def _chunks(X: SampleMatrix) -> list[slice]:
    """Return slices of at most 4096 rows that cover X one after the other."""
    return [slice(at, at + CHUNK) for at in range(0, X.shape[0], CHUNK)]
