"""Columns that are centred and divided by powers of two, without a standardised copy of the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glmesh.kernels.gram import add_gram, add_products, add_sums, pack_triangle
from glmesh.types import Indices, Matrix, SampleMatrix, Vector

CHUNK = 1024  # [rows] that are summed at a time, because fewer round less and more take less overhead
# [columns] of dense rows up to which kernels add up Gram matrices, because they skip rows without weight and zeros, and
# BLAS is no faster then
NARROW = 100
DENSE = 0.3  # share of nonzeros above which products are dense, because they are faster then; bits alone depend on it


@dataclass(frozen=True, eq=False)
class Standardisation:
    """Standardised columns (x_j - mean_j) inverse_j, and a column of ones after them if there is an intercept.

    A coefficient vector of the standardised columns has shape (d,), d = p, or p + 1 with the intercept last.
    """

    mean: Vector  # (p,) centres of the columns, zeros without an intercept
    inverse: Vector  # (p,) powers of two near 1 over the standard deviations; 0: the column is constant
    fit_intercept: bool  # whether there is a column of ones

    @property
    def d(self) -> int:
        """Return the number of standardised coefficients, the intercept included."""
        return len(self.mean) + self.fit_intercept

    def to_user(self, coefficients: Vector, shift: float) -> tuple[Vector, float]:
        """Return (w, intercept) of the raw columns for standardised `coefficients`, shape (d,).

        `shift` is what was subtracted from the targets.
        """
        w = coefficients[: len(self.mean)] * self.inverse
        if not self.fit_intercept:
            return w, 0.0
        return w, float(coefficients[-1] - self.mean @ w + shift)

    def from_user(self, w: Vector, intercept: float, shift: float) -> Vector:
        """Return the standardised coefficients, shape (d,), of w, shape (p,), and an intercept of the raw columns.

        `shift` is what is subtracted from the targets. Coefficients of constant columns are 0.
        """
        scaled = np.divide(w, self.inverse, out=np.zeros_like(w), where=self.inverse > 0)
        if not self.fit_intercept:
            return scaled
        return np.append(scaled, intercept - shift + self.mean @ w)

    def standardised(self, X: SampleMatrix) -> Matrix:
        """Return the standardised rows of X, shape (m, d), as a dense array."""
        Z = np.ones((X.shape[0], self.d))
        np.subtract(X.toarray() if sp.issparse(X) else X, self.mean, out=Z[:, : len(self.mean)])
        Z[:, : len(self.mean)] *= self.inverse
        return Z

    def pass_over(self, X: SampleMatrix, n_vectors: int) -> RowPass:
        """Return a RowPass over the rows of X, which makes predictions, and sums of rows with `n_vectors` vectors."""
        return SparsePass(self, X, n_vectors) if is_sparse(X) else DensePass(self, X, n_vectors)

    @property
    def centring(self) -> tuple[Vector, Vector]:
        """Return (means, inverse scales) of the columns, both of shape (p,)."""
        return self.mean, self.inverse


class RowPass(ABC):
    """One pass over the standardised rows Z of X, some at a time: first predictions of these rows, then sums over them.

    Sums are added chunk by chunk, so that rounding does not grow with the number of rows.
    """

    def __init__(self, columns: Standardisation, X: SampleMatrix, n_vectors: int) -> None:
        self.columns, self.X = columns, X
        width = X.shape[1] if is_sparse(X) else columns.d
        self._gram = np.zeros((columns.d, columns.d))
        self._moments = np.zeros((width, n_vectors))

    @property
    def chunks(self) -> list[slice]:
        """Return slices of rows that cover X one after the other."""
        return _chunks(self.X)

    @abstractmethod
    def predictions(self, rows: slice, ways: Matrix) -> Matrix:
        """Return Z ways', the predictions of the rows of a slice with r coefficient vectors, shape (m, r).

        `ways` has the vectors, shape (r, d); m is the number of rows in the slice.
        """

    @abstractmethod
    def add(self, rows: slice, vectors: Matrix) -> None:
        """Add the rows of a slice, for which predictions were made last, to the sums with r vectors.

        `vectors` has shape (m, r), a row for each of the slice; its first column, the weights of the Gram matrix, is >=
        0.
        """

    @abstractmethod
    def sums(self) -> tuple[Vector, Matrix]:
        """Return (upper triangle of Z' diag(w) Z, Z' vectors) over all rows added; w is the first of the vectors.

        Shapes are (d (d + 1)/2,) and (d, r).
        """


class DensePass(RowPass):
    """A pass over dense rows, or sparse ones with many nonzeros.

    It makes a standardised copy of each chunk for BLAS.
    """

    def predictions(self, rows: slice, ways: Matrix) -> Matrix:
        """Return Z ways', the predictions of the rows of a slice, shape (m, r); `ways` has shape (r, d)."""
        self._Z = self.columns.standardised(self.X[rows])
        return np.ascontiguousarray(self._Z @ ways.T)

    def add(self, rows: slice, vectors: Matrix) -> None:
        """Add Z' vectors and Z' diag(w) Z of the rows of a slice; w is the first of the vectors, shape (m, r)."""
        Z = self._Z
        self._moments += Z.T @ vectors
        Z *= np.sqrt(vectors[:, :1])
        self._gram += Z.T @ Z

    def sums(self) -> tuple[Vector, Matrix]:
        """Return (upper triangle of Z' diag(w) Z, Z' vectors) over all rows added, (d (d + 1)/2,) and (d, r)."""
        return packed(self._gram), self._moments


class SparsePass(RowPass):
    """A pass over sparse rows that visits nonzeros alone: it sums raw columns, and standardises the sums."""

    def __init__(self, columns: Standardisation, X: SampleMatrix, n_vectors: int) -> None:
        super().__init__(columns, X, n_vectors)
        self._masses, self._part = np.zeros(n_vectors), np.zeros_like(self._moments)
        self._indptr, self._indices = X.indptr.astype(np.int64, copy=False), X.indices.astype(np.int32, copy=False)

    def _rows(self, rows: slice) -> tuple[Indices, npt.NDArray[np.int32], Vector]:
        """Return (indptr, indices, values) of the CSR rows of a slice; indptr does not begin at 0."""
        return self._indptr[rows.start : rows.stop + 1], self._indices, self.X.data

    def predictions(self, rows: slice, ways: Matrix) -> Matrix:
        """Return Z ways', the predictions of the rows of a slice, shape (m, r), from the nonzeros of raw rows.

        `ways` has shape (r, d).
        """
        columns, p = self.columns, self.X.shape[1]
        raw = np.ascontiguousarray((ways[:, :p] * columns.inverse).T)
        constant = -(columns.mean @ raw)
        if columns.fit_intercept:
            constant += ways[:, -1]
        matrix = self._rows(rows)
        out = np.empty((len(matrix[0]) - 1, len(ways)))
        out[:] = constant
        add_products(matrix, raw, out)
        return out

    def add(self, rows: slice, vectors: Matrix) -> None:
        """Add X' vectors and X' diag(w) X of the raw rows of a slice; w is the first of the vectors, shape (m, r)."""
        self._part[:] = 0.0
        add_sums(self._rows(rows), vectors, self._gram, self._part)
        self._moments += self._part
        self._masses += vectors.sum(axis=0)

    def sums(self) -> tuple[Vector, Matrix]:
        """Return (upper triangle of Z' diag(w) Z, Z' vectors) over all rows added, (d (d + 1)/2,) and (d, r).

        Z are the standardised rows; scales are powers of two, so standardising the sums adds no rounding.
        """
        columns, p = self.columns, self.X.shape[1]
        gram, moments = self._gram, self._moments * columns.inverse[:, None]
        gram[:p, :p] *= columns.inverse
        gram[:p, :p] *= columns.inverse[:, None]
        if columns.fit_intercept:
            centre = columns.mean * columns.inverse
            weighted, mass = moments[:, 0], self._masses[0]
            gram[:p, :p] += np.outer(centre, mass * centre - weighted) - np.outer(weighted, centre)
            moments = np.vstack([moments - np.outer(centre, self._masses), self._masses])
            gram[:p, p], gram[p, p] = moments[:p, 0], mass
        return packed(gram), moments


def packed(matrix: Matrix) -> Vector:
    """Return the upper triangle of a matrix of shape (d, d), row by row, as an array of shape (d (d + 1)/2,)."""
    out = np.empty(len(matrix) * (len(matrix) + 1) // 2)
    pack_triangle(matrix, np.ones(len(matrix)), out)
    return out


def sparse_gram(X: sp.csr_array, data: Vector, weights: Vector, columns: Indices, out: Matrix) -> None:
    """Add X' diag(weights) X on n columns to the upper triangle of the first n rows and columns of `out`.

    If `out` has a row more, the last row and column are those of a column of ones. `columns` are the numbers of the n
    columns, ascending; `data` are the entries to take in place of those of X, shape (X.nnz,), and `weights` has shape
    (m,).
    """
    position = np.full(X.shape[1], -1, dtype=np.int64)
    position[columns] = np.arange(len(columns))
    matrix = X.indptr.astype(np.int64, copy=False), X.indices.astype(np.int32, copy=False), data
    scratch = np.empty(len(columns) + 1, dtype=np.uint64), np.empty(len(columns) + 1)
    add_gram(matrix, weights, position, len(out) > len(columns), out, scratch)


def is_sparse(X: SampleMatrix) -> bool:
    """Return whether products with X go by its nonzeros: it is a CSR matrix with at most 30 % of them."""
    return bool(sp.issparse(X)) and X.nnz <= DENSE * X.shape[0] * X.shape[1]


def column_sums(X: SampleMatrix, weights: Vector, centre: Vector) -> Matrix:
    """Return the sums over rows x of weights (x - centre) and weights (x - centre)^2, for each column: (2, p)."""
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
    """Return slices of at most CHUNK rows that cover X one after the other."""
    return [slice(at, at + CHUNK) for at in range(0, X.shape[0], CHUNK)]
