"""Matrices stored by columns, as the kernels read them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from glmesh.errors import InvalidData
from glmesh.kernels.columns import ColumnArrays, products, transposed_products
from glmesh.types import Data, Indices, Matrix, SampleMatrix, Unsigned, Vector
from glmesh.validation import LARGEST, are_usable, refuse_masks, unusable

ONE_ROW = np.zeros(1, dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Columns:
    """A d x n matrix A stored by columns, compressed sparse or dense, in float64.

    Whatever the input (dense, CSR, CSC, float32, 32- or 64-bit indices), the arrays have one type each, so kernels
    compile once.
    """

    d: int  # number of rows
    indptr: Unsigned  # (n + 1,) column i has the entries indptr[i]..indptr[i + 1]
    indices: npt.NDArray[np.uint32]  # (nnz,) rows, ascending in each column; (0,) if dense
    data: Vector  # (nnz,) entries, column after column; (n d,) if dense
    dense: bool  # whether zeros are stored too

    @staticmethod
    def of(matrix: Data, *, rows: bool = False, name: str = "X") -> Columns:
        """Return a matrix stored by columns or, with `rows=True`, its transpose stored by columns.

        Raises InvalidData for what is no matrix of finite real numbers; the message calls the matrix `name`.
        """
        if sp.issparse(matrix):
            if matrix.dtype.kind not in "biuf":
                raise InvalidData(f"{name} holds {matrix.dtype}; real numbers are needed")
            check_indices(matrix, name)
            compressed = sp.csr_array(matrix) if rows else sp.csc_array(matrix)
            if not (compressed.has_canonical_format and compressed.has_sorted_indices):
                compressed = compressed.copy()
                compressed.sum_duplicates()
            n, d = compressed.shape if rows else compressed.shape[::-1]
            columns = Columns(
                d,
                compressed.indptr.astype(np.uint64),
                compressed.indices.astype(np.uint32),
                np.ascontiguousarray(compressed.data, dtype=np.float64),
                dense=False,
            )
        else:
            array = _dense(matrix, name)
            n, d = array.shape if rows else array.shape[::-1]
            data = np.ascontiguousarray(array if rows else array.T).reshape(-1)
            columns = Columns(
                d, np.arange(n + 1, dtype=np.uint64) * np.uint64(d), np.zeros(0, np.uint32), data, dense=True
            )
        columns._check_values(rows, name)
        return columns

    def _check_values(self, rows: bool, name: str) -> None:
        """Raise InvalidData for the first value that is NaN, infinite, or so large that its square is not finite.

        The message gives row and column of the value in the user's matrix, called `name`; `rows` says that this object
        holds the transpose of that matrix.
        """
        if are_usable(self.data):
            return
        at = int(np.argmax(~(np.abs(self.data) <= LARGEST)))
        column = int(np.searchsorted(self.indptr, at, side="right")) - 1
        row = at - int(self.indptr[column]) if self.dense else int(self.indices[at])
        place = (column, row) if rows else (row, column)
        raise InvalidData(unusable(float(self.data[at]), f"{name} holds", f"at row {place[0]}, column {place[1]}"))

    @cached_property
    def arrays(self) -> ColumnArrays:
        """Return the matrix as kernels read it: a tuple of its arrays, which are not copied."""
        return ColumnArrays(self.indptr, self.indices, self.data)

    @property
    def n(self) -> int:
        """Number of columns, n."""
        return len(self.indptr) - 1

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return len(self.data)

    @cached_property
    def counts(self) -> Indices:
        """Number of stored entries of each column, shape (n,)."""
        return np.asarray(np.diff(self.indptr.astype(np.int64)), dtype=np.int64)

    @cached_property
    def nonzeros(self) -> Indices:
        """Number of entries of each column that are not zero, shape (n,); zeros that are stored do not count."""
        so_far = np.concatenate([[0], np.cumsum(self.data != 0)])[self.indptr.astype(np.int64)]
        return np.asarray(np.diff(so_far), dtype=np.int64)

    @cached_property
    def norms(self) -> Vector:
        """Euclidean norm of each column, shape (n,), without overflow or underflow of the squares."""
        largest = np.maximum.reduceat(np.abs(self.data), self._starts) if self.nnz else np.zeros(0)
        top = np.zeros(self.n)
        top[self.counts > 0] = largest
        scale = np.where(top > 0, top, 1.0)
        scaled = self.data / np.repeat(scale, self.counts)
        sums = np.zeros(self.n)
        if self.nnz:
            sums[self.counts > 0] = np.add.reduceat(scaled * scaled, self._starts)
        return np.asarray(scale * np.sqrt(sums))

    @property
    def _starts(self) -> Indices:
        """Return the position in `data` of the first entry of each column that has any entry, in column order."""
        return self.indptr[:-1][self.counts > 0].astype(np.int64)

    def take(self, order: Indices) -> Columns:
        """Return the matrix of the columns with the indices `order`, in that order."""
        if self.dense:
            data = self.data.reshape(self.n, self.d)[order].reshape(-1)
            return Columns(self.d, self.indptr[: len(order) + 1].copy(), self.indices, data, dense=True)
        picked = self.to_scipy()[:, order]
        return Columns(
            self.d, picked.indptr.astype(np.uint64), picked.indices.astype(np.uint32), picked.data, dense=False
        )

    def between(self, begin: int, end: int) -> Columns:
        """Return the matrix of the columns begin, ..., end - 1; the values share memory with this matrix."""
        a, b = int(self.indptr[begin]), int(self.indptr[end])
        indices = self.indices if self.dense else self.indices[a:b]
        return Columns(self.d, self.indptr[begin : end + 1] - self.indptr[begin], indices, self.data[a:b], self.dense)

    def to_scipy(self) -> SampleMatrix:
        """Return A, shape (d, n), as a scipy CSC array or a Fortran-ordered numpy array; values are not copied."""
        if self.dense:
            return self.data.reshape(self.n, self.d).T
        parts = (self.data, self.indices.view(np.int32), self.indptr.view(np.int64))
        return sp.csc_array(parts, shape=(self.d, self.n))

    def scale_rows(self, factors: Vector) -> Columns:
        """Return a new matrix, diag(factors) A: row j of this d x n matrix A times factors[j], shape (d,)."""
        data = self.data * (np.tile(factors, self.n) if self.dense else factors[self.indices])
        return Columns(self.d, self.indptr, self.indices, data, self.dense)

    def widen(self, d: int) -> Columns:
        """Return the matrix with zero rows appended at the end, so that there are `d` rows.

        Itself if it has d rows already.
        """
        if d == self.d:
            return self
        if self.dense:
            wide = np.zeros((self.n, d))
            wide[:, : self.d] = self.data.reshape(self.n, self.d)
            return Columns(
                d, np.arange(self.n + 1, dtype=np.uint64) * np.uint64(d), self.indices, wide.reshape(-1), True
            )
        return Columns(d, self.indptr, self.indices, self.data, dense=False)

    def with_row(self, entry: float) -> Columns:
        """Return the matrix with one more row at the end, all of whose entries are the number `entry`."""
        indptr: Unsigned = (self.indptr + np.arange(self.n + 1, dtype=np.uint64)).astype(np.uint64)
        if self.dense:
            wide = np.empty((self.n, self.d + 1))
            wide[:, : self.d] = self.data.reshape(self.n, self.d)
            wide[:, self.d] = entry
            return Columns(self.d + 1, indptr, self.indices, wide.reshape(-1), dense=True)
        last = indptr[1:].astype(np.int64) - 1
        rows, data = np.full(self.nnz + self.n, self.d, np.uint32), np.full(self.nnz + self.n, float(entry))
        there = np.ones(len(rows), dtype=bool)
        there[last] = False
        rows[there], data[there] = self.indices, self.data
        return Columns(self.d + 1, indptr, rows, data, dense=False)

    def dot(self, x: Vector) -> Vector:
        """Return A x, shape (d,), for this d x n matrix A and x of shape (n,)."""
        out = np.zeros((1, self.d))
        self.add_product(x, out)
        return np.asarray(out[0])

    def add_product(self, x: Vector, out: Matrix) -> None:
        """Add A x to `out`, of shape (1, d), in place, for this d x n matrix A and x of shape (n,)."""
        whole = np.array([0, self.n], dtype=np.uint64)
        products(whole, self.arrays, x, ONE_ROW, out)

    def transposed_dot(self, w: Vector) -> Vector:
        """Return A^T w, shape (n,), for this d x n matrix A and w of shape (d,)."""
        out = np.empty(self.n)
        whole = np.array([0, self.n], dtype=np.uint64)
        transposed_products(whole, self.arrays, ONE_ROW, w[None, :], out)
        return out

    @staticmethod
    def join(parts: list[Columns]) -> Columns:
        """Return one matrix with the columns of all parts, in turn; all parts have d rows.

        The result is sparse if any part is sparse.
        """
        dense = all(part.dense for part in parts)
        parts = parts if dense else [part._sparse() for part in parts]
        offsets = np.cumsum([0] + [part.nnz for part in parts]).astype(np.uint64)
        pointers = [part.indptr[:-1] + offset for part, offset in zip(parts, offsets, strict=False)]
        return Columns(
            parts[0].d,
            np.concatenate([*pointers, offsets[-1:]]),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.data for part in parts]),
            dense,
        )

    def _sparse(self) -> Columns:
        """Return this matrix in compressed sparse columns: itself, or a copy without zeros if it is dense."""
        return Columns.of(sp.csc_array(self.to_scipy())) if self.dense else self


def check_indices(matrix: sp.sparray | sp.spmatrix, name: str) -> None:
    """Raise InvalidData if a sparse matrix, which messages call `name`, has an index outside its shape."""
    if matrix.format in ("csr", "csc", "bsr"):
        try:
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise InvalidData(f"{name} is no whole {matrix.format} matrix: {error}; build it anew") from None


def _dense(matrix: Data, name: str) -> npt.NDArray[np.float64]:
    """Return `matrix`, two-dimensional and of real numbers, as a float64 array.

    Raise InvalidData, whose message calls the matrix `name`, for anything else.
    """
    refuse_masks(matrix, name)
    try:
        array = np.asarray(matrix)
    except ValueError as error:
        raise InvalidData(f"{name} is not a rectangular matrix: {error}") from None
    if array.ndim != 2:
        raise InvalidData(f"{name} has {array.ndim} dimension(s), expected a matrix of samples x features")
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise InvalidData(f"{name} holds values that are not numbers; encode them first") from None
    if array.dtype.kind not in "biuf":
        raise InvalidData(f"{name} holds {array.dtype}; real numbers are needed, encode categories first")
    return array.astype(np.float64, copy=False)
