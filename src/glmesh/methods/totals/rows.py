"""Rows of the hosted nodes, as methods on totals read them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from glmesh.core.block import NetworkInfo
from glmesh.functions import Loss, Table
from glmesh.functions.separable import Columnwise
from glmesh.parallel import SERIAL, ThreadPool
from glmesh.types import Indices, Matrix, SampleMatrix, Unsigned, Vector


@dataclass(eq=False)
class Rows:
    """Rows of the nodes that one process hosts, and the objective that all nodes share.

    The objective is sum_i s_i loss(y_i, x_i.w + b) + penalty(w), over the rows of all nodes; the intercept b is 0
    unless `fit_intercept`.
    """

    ids: Unsigned  # (n_hosted,) ids of the hosted nodes, ascending
    info: NetworkInfo
    X: list[SampleMatrix]  # (m_k, p) rows of each hosted node, contiguous or CSR
    y: list[Vector]  # (m_k,) targets of each; -1 or 1 of a classification
    weight: list[Vector]  # (m_k,) sample weights of each
    loss: Loss
    penalty: Table  # alpha included
    fit_intercept: bool
    threads: ThreadPool = SERIAL  # that share the work of the hosted nodes
    reduced: tuple[object, Table, Rows] | None = None  # (basis, penalty, rows in its coordinates), kept by `row_space`
    _norms: tuple[Vector, Vector] | None = None  # (scale, norms) that `row_norms` returned last

    @property
    def size(self) -> int:
        """Number of hosted nodes."""
        return len(self.X)

    @property
    def p(self) -> int:
        """Number of coefficients, the intercept not counted."""
        return int(self.X[0].shape[1])

    @cached_property
    def starts(self) -> Indices:
        """First row of each hosted node, and the number of all rows at the end, shape (n_hosted + 1,)."""
        return np.concatenate([[0], np.cumsum([len(y) for y in self.y])]).astype(np.int64)

    @cached_property
    def dual(self) -> Columnwise:
        """Dual g of the losses of all hosted rows: loss_i(z) = g_i*(-z), weights included."""
        return self.loss.dual(np.concatenate(self.y), np.concatenate(self.weight))

    def softened(self, factor: float) -> Columnwise:
        """Return the dual of the losses with their curved pieces longer by a factor, of the same slopes far away."""
        table = self.dual.as_table()
        return self.dual if factor == 1.0 or table is None else replace(table, l2=factor * table.l2)

    @cached_property
    def transposed(self) -> list[SampleMatrix]:
        """Views of the transposed rows of each hosted node, (p, m_k)."""
        return [x.T for x in self.X]

    @cached_property
    def curvatures(self) -> Vector:
        """Largest second derivative of each hosted row's loss, weight included, shape (m,)."""
        _, l2, linear, lo, hi = self.dual.kernel_rows(int(self.starts[-1])).T
        with np.errstate(invalid="ignore"):  # of infinity minus infinity
            middle = np.where(np.isfinite(lo + hi), lo + hi, 0.0)
        return self.dual.conjugate_majorant(linear + 0.5 * l2 * middle)

    @cached_property
    def kernel_rows(self) -> Matrix:
        """Table of l1, l2, linear, lo and hi of the dual of each hosted row, shape (m, 5), as kernels read it."""
        return self.dual.kernel_rows(int(self.starts[-1]))

    @cached_property
    def nonzeros(self) -> Vector:
        """Number of stored entries of each hosted node's rows, shape (n_hosted,)."""
        return np.array([x.size if isinstance(x, np.ndarray) else x.nnz for x in self.X], dtype=np.float64)

    def row_norms(self, scale: Vector) -> Vector:
        """Return the norm of each hosted row and a 1 after it, divided by `scale`, shape (p + 1,); shape (m,)."""
        if self._norms is None or self._norms[0] is not scale:
            squares = [_squares(X, scale[:-1] ** -2) + scale[-1] ** -2 for X in self.X]
            self._norms = scale, np.sqrt(np.concatenate(squares))
        return self._norms[1]


def _squares(X: SampleMatrix, weights: Vector) -> Vector:
    """Return sum_j weights_j X_ij^2 of each row i, shape (m,)."""
    if sp.issparse(X):
        return np.asarray(X.power(2) @ weights)
    return np.asarray(np.einsum("ij,ij,j->i", X, X, weights))
