"""Rows of the hosted nodes, as methods on totals read them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from glmesh.core.block import NetworkInfo
from glmesh.functions import Loss, Table
from glmesh.functions.separable import Columnwise
from glmesh.methods.totals.likelihood.cone import Cone, cone_rows, kind
from glmesh.methods.totals.likelihood.discretion import Discretion
from glmesh.methods.totals.likelihood.models import likelihood_of
from glmesh.methods.totals.likelihood.terms import Likelihood
from glmesh.methods.totals.traits import Traits
from glmesh.parallel import SERIAL, ThreadPool
from glmesh.types import Array, Indices, Matrix, SampleMatrix, Unsigned, Vector

MOST_COPIED = 2**20  # [numbers] of rows that are copied into one array, because 8 MB are little beside the rest


@dataclass(eq=False)
class Rows:
    """Rows of the nodes that one process hosts, and the objective that all nodes share.

    The objective is sum_i s_i loss(y_i, x_i.w + b) + penalty(w), over the rows of all nodes; the intercept b is 0
    unless `fit_intercept`. m_k are the rows of node k, m those of all hosted nodes.
    """

    ids: Unsigned  # (n_hosted,) ids of the hosted nodes, ascending
    info: NetworkInfo
    X: list[SampleMatrix]  # (m_k, p) rows of each hosted node, contiguous or CSR
    y: list[Vector]  # (m_k,) targets of each; -1 or 1 of a classification
    weight: list[Vector]  # (m_k,) sample weights of each
    loss: Loss
    penalty: Table  # of the p coefficients, alpha included
    fit_intercept: bool
    threads: ThreadPool = SERIAL  # that share the work of the hosted nodes
    names: tuple[str, ...] | None = None  # of the columns, for messages; None: they have none
    clusters: list[Array] | None = None  # (m_k,) labels of each hosted node's clusters, inside it; None: there are none
    discretion: Discretion | None = None  # what a real site holds back from totals; None: nothing
    reduced: tuple[object, Table, Rows] | None = None  # (basis, penalty, rows in its coordinates), kept by `row_space`
    scaled: tuple[Vector, Table, object] | None = None  # (scale, penalty, penalty in scaled units), kept by `scaled`
    smoothed: tuple[object, Table, object] | None = None  # (scales, penalty, what all rows share), by `interior_steps`
    with_shape: tuple[float, Table, Rows] | None = None  # (shape, penalty, rows with it in the loss), kept by `shape`
    _norms: tuple[Vector, Vector] | None = None  # (scale, norms) that `row_norms` returned last

    @property
    def size(self) -> int:
        """Return the number of hosted nodes."""
        return len(self.X)

    @property
    def p(self) -> int:
        """Return the number of coefficients, the last intercept not counted: columns, if there is one predictor.

        Several linear predictors of a row have their coefficients one after the other, each with its intercept last.
        """
        return self.loss.n_outputs * (int(self.X[0].shape[1]) + 1) - 1

    @property
    def intercepts(self) -> Indices:
        """Return the numbers of the intercepts among the p + 1 coefficients: p alone, if there is one predictor."""
        width = int(self.X[0].shape[1]) + 1
        return np.arange(width - 1, self.p + 1, width)

    @property
    def whole_penalty(self) -> Table:
        """Return the penalty of all p + 1 coefficients, the last intercept included."""
        free = [-np.inf, np.inf] if self.fit_intercept else [0.0, 0.0]
        return Table(*np.vstack([self.penalty.kernel_rows(self.p), [0.0, 0.0, 0.0, *free]]).T)

    @cached_property
    def starts(self) -> Indices:
        """Return the number of the first row of each hosted node and, last, that of all rows, shape (n_hosted + 1,)."""
        return np.concatenate([[0], np.cumsum([len(y) for y in self.y])]).astype(np.int64)

    @cached_property
    def dual(self) -> Columnwise:
        """Return the functions g_i of all m hosted rows for which loss_i(z) = g_i*(-z), sample weights included.

        z is a prediction, and g_i* the convex conjugate of g_i.
        """
        return self.loss.dual(np.concatenate(self.y), np.concatenate(self.weight))

    @cached_property
    def likelihoods(self) -> list[Likelihood]:
        """Return the likelihood of each hosted node's rows, for `MaximumLikelihood`."""
        each = zip(self.X, self.y, self.weight, strict=True)
        return [likelihood_of(self.loss, X, y, weight) for X, y, weight in each]

    @cached_property
    def cones(self) -> list[Cone]:
        """Return each hosted node's conditions on directions along which no row's loss grows."""
        each = zip(self.X, self.y, self.weight, strict=True)
        outputs = self.loss.n_outputs if self.loss.by_likelihood else 1
        return [cone_rows(kind(self.loss), X, y, weight, outputs) for X, y, weight in each]

    @property
    def convex(self) -> bool:
        """Return whether the loss of a family is convex in the linear predictor; other losses are."""
        family = self.loss.as_family
        return family is None or family.convex

    @property
    def quadratic(self) -> bool:
        """Return whether the loss of a family is a square of the linear predictor's error."""
        family = self.loss.as_family
        return family is not None and family.quadratic

    @property
    def known_dispersion(self) -> float:
        """Return the dispersion phi of the loss where it is known, 1 for losses other than families; NaN: estimated."""
        if (family := self.loss.as_family) is None:
            return 1.0
        return np.nan if family.dispersion is None else family.dispersion

    @cached_property
    def traits(self) -> Traits:
        """What Newton's method must know of the loss."""
        return Traits.of(self.loss)

    def softened(self, factor: float) -> Columnwise:
        """Return duals g_i of losses whose curved pieces are `factor` times as long, with equal slopes far away.

        A loss is g_i*(-z) at the prediction z, with g_i* the convex conjugate of g_i.
        """
        table = self.dual.as_table()
        return self.dual if factor == 1.0 or table is None else replace(table, l2=factor * table.l2)

    @cached_property
    def transposed(self) -> list[SampleMatrix]:
        """Return the transposed rows of each hosted node: (p, m_k) matrices, which share memory with the rows."""
        return [x.T for x in self.X]

    @cached_property
    def stacked(self) -> Matrix | None:
        """Return the rows of all hosted nodes as one array, shape (m, p), for kernels that visit all nodes in a call.

        Pooled data lie in one array already; few rows that nodes hold apart are copied. None: some are sparse, or
        there are too many to copy.
        """
        first, m = self.X[0], int(self.starts[-1])
        if not all(isinstance(x, np.ndarray) for x in self.X):
            return None
        for whole in (first, first.base):
            if isinstance(whole, np.ndarray) and whole.shape == (m, first.shape[1]) and whole.flags.c_contiguous:
                at = whole.ctypes.data + whole.strides[0] * self.starts[:-1]
                if all(x.size == 0 or x.ctypes.data == where for x, where in zip(self.X, at.tolist(), strict=True)):
                    return whole
        return np.ascontiguousarray(np.concatenate(self.X)) if m * first.shape[1] <= MOST_COPIED else None

    def pieces(self, *, narrow: bool) -> list[tuple[slice, Matrix | None]]:
        """Return the hosted nodes in pieces for threads: (nodes, their rows as one dense array).

        Of the array None: the nodes' rows are to be visited node by node, because some are sparse, or `narrow` says
        that they have too many columns for kernels. Whether a node's rows are in an array depends on that node alone,
        so that its sums have the same bits however nodes are grouped.
        """
        spans = self.threads.spans(self.nonzeros)
        if not narrow:
            return [(span, None) for span in spans]
        if self.stacked is None:
            return [(slice(k, k + 1), x if isinstance(x, np.ndarray) else None) for k, x in enumerate(self.X)]
        return [(span, self.stacked[self.starts[span.start] : self.starts[span.stop]]) for span in spans]

    def rows_of(self, nodes: slice) -> tuple[slice, Indices]:
        """Return (rows of the hosted nodes `nodes` among all m, where each node's begin among them and their end)."""
        starts = self.starts[nodes.start : nodes.stop + 1]
        return slice(int(starts[0]), int(starts[-1])), starts - starts[0]

    @cached_property
    def curvatures(self) -> Vector:
        """Return the largest second derivative of each hosted row's loss, sample weight included, shape (m,)."""
        _, l2, linear, lo, hi = self.kernel_rows.T
        with np.errstate(invalid="ignore"):  # of infinity minus infinity
            middle = np.where(np.isfinite(lo + hi), lo + hi, 0.0)
        return self.dual.conjugate_majorant(linear + 0.5 * l2 * middle)

    @cached_property
    def kernel_rows(self) -> Matrix:
        """Return five numbers for each of the m hosted rows, shape (m, 5), which say its loss to kernels.

        They are l1, l2, linear, lo and hi of g_i(x) = l1 abs(x) + l2/2 x^2 + linear x on [lo, hi], of which the loss is
        the convex conjugate at minus the prediction. A logistic loss has an entropy in the place of the first three,
        which are 0.
        """
        return self.dual.kernel_rows(int(self.starts[-1]))

    @cached_property
    def nonzeros(self) -> Vector:
        """Return the number of stored entries of each hosted node's rows, shape (n_hosted,)."""
        return np.array([x.size if isinstance(x, np.ndarray) else x.nnz for x in self.X], dtype=np.float64)

    def row_norms(self, scale: Vector) -> Vector:
        """Return the norm of each of the m hosted rows, with a 1 behind it, after division by `scale`; shape (m,).

        `scale` has shape (p + 1,).
        """
        if self._norms is None or self._norms[0] is not scale:
            squares = [_squares(X, scale[:-1] ** -2) + scale[-1] ** -2 for X in self.X]
            self._norms = scale, np.sqrt(np.concatenate(squares))
        return self._norms[1]


def _squares(X: SampleMatrix, weights: Vector) -> Vector:
    """Return sum_j weights_j X_ij^2 for each row i of X, shape (m,)."""
    if sp.issparse(X):
        return np.asarray(X.power(2) @ weights)
    return np.asarray(np.einsum("ij,ij,j->i", X, X, weights))
