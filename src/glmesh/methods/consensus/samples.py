"""A problem as nodes see it that hold samples, each with its own copy w_k of all coefficients.

    min_w  sum_k [ F_k(w) + r(w)/K ],   F_k(w) = sum_{i at node k} s_i loss(y_i, a_i.w) + (l2/2 |w|^2 + linear.w)/K

is the user's objective, whole: every node takes a K-th of the penalty. Its smooth part is in F_k, and r is what has a
kink or a bound. So methods of consensus solve the very problem that CoLA solves, whichever way that one is split; a
message of theirs is as long as the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator, eigsh

from glmesh.certificate import best_scale
from glmesh.core import Measures, NetworkInfo
from glmesh.errors import UnsuitablePair
from glmesh.functions import Separable, Smooth, Table
from glmesh.kernels.columns import products, transposed_products
from glmesh.linalg import Columns
from glmesh.linalg.norms import LARGEST_GRAM
from glmesh.parallel import SERIAL, ThreadPool
from glmesh.problem import CompositeObjective, Partition, Problem, spread
from glmesh.types import Indices, Matrix, Unsigned, Vector

# relative error of an eigenvalue that was found by iteration, from below; twice as much is added to it; source:
# benchmarks/reports/sensitivity.md
EIGENVALUE_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Constants:
    """Constants of the nodes' smooth objectives F_k, from which consensus methods take their steps.

    Parameters
    ----------
    smoothness : float
        Lipschitz constant L of the gradient of every F_k.
    strong_convexity : float, default 0.0
        mu: every F_k is at least mu-strongly convex.
    """

    smoothness: float
    strong_convexity: float = 0.0


@dataclass(frozen=True, eq=False)
class Pool:
    """All samples of a problem, pooled in this process, from which the nodes of a consensus method get theirs.

    `columns` has a column per sample and a row per coefficient; y are the labels, `weight` the weights of the samples.
    """

    columns: Columns  # p x m: a column per sample
    y: Vector  # (m,) labels; -1 or 1 of two classes
    weight: Vector  # (m,) weights of the samples
    problem: Problem

    @staticmethod
    def of(problem: Problem) -> Pool:
        """Return all samples of a problem, which may be split by features or by samples.

        Raise UnsuitablePair for an unpenalised intercept, and for data that is split by features and held apart by the
        nodes.
        """
        parts, split = problem.parts, problem.spec.split
        if problem.spec.fit_intercept:
            raise UnsuitablePair("methods of consensus have no unpenalised intercept; use Cola, or fit_intercept=False")
        if not problem.pooled and split == "features":
            raise UnsuitablePair(
                "methods of consensus need nodes that hold samples, and here each holds features. Use Cola, or "
                "Problem.from_nodes(..., split='samples')"
            )
        y = np.concatenate([part.y for part in parts])
        if problem.classes is not None:
            y = np.where(y == problem.classes[1], 1.0, -1.0)
        if split == "features":
            columns = Columns.of(parts[0].columns.to_scipy(), rows=True)
        else:
            problem.check()
            wide = [part.columns.widen(problem.summary.width) for part in parts]
            columns = wide[0] if len(wide) == 1 else Columns.join(wide)
        return Pool(columns, y, np.concatenate([part.weight for part in parts]), problem)

    def deal(self, n_nodes: int, how: str | ArrayLike, seed: int) -> Partition:
        """Return the Partition of the samples over the nodes; samples that nodes hold already stay with them.

        `how` and `seed` are the arguments of `glmesh.problem.partition.partition`: the manner of dealing out, and its
        seed.
        """
        if self.problem.pooled:
            return spread(self.columns.nonzeros, n_nodes, how, seed, "samples")
        ends = np.cumsum([part.m for part in self.problem.parts])
        return Partition.of_lists(np.split(np.arange(self.columns.n), ends[:-1]))

    def host(self, ids: Indices, partition: Partition, info: NetworkInfo, threads: ThreadPool = SERIAL) -> Samples:
        """Return the Samples of the nodes with the ids `ids`, side by side, each node with a K-th of the penalty.

        `partition` says which samples these are; `threads` share the work of the nodes.
        """
        own = np.concatenate([partition.columns_of(int(k)) for k in ids])
        starts = np.cumsum([0] + [len(partition.columns_of(int(k))) for k in ids])
        loss = self.problem.spec.loss.smooth(self.y[own], self.weight[own])
        if loss is None:
            raise UnsuitablePair(f"the {self.problem.spec.loss.name} loss is not smooth")
        bends = []
        for k in ids:
            mine = partition.columns_of(int(k))
            one = self.problem.spec.loss.smooth(self.y[mine], self.weight[mine]) if len(mine) else None
            bends.append(0.0 if one is None else 1.0 / one.tau)
        n_nodes = info.n_nodes
        l2, linear, nonsmooth = parts_of(self.problem.spec.penalty_of(None))
        return Samples(
            ids.astype(np.uint64),
            info,
            self.columns.take(own),
            starts.astype(np.uint64),
            self.y[own],
            self.weight[own],
            loss,
            np.array(bends),
            l2 / n_nodes,
            linear / n_nodes,
            None if nonsmooth is None else nonsmooth.scaled(1.0 / n_nodes),
            threads,
        )


def parts_of(penalty: Separable) -> tuple[Vector, Vector, Separable | None]:
    """Return (l2, linear, r) of a penalty l2/2 w^2 + linear w + r(w).

    l2 and linear are numbers, or have shape (p,). r holds all kinks and bounds, and is None without any; a penalty
    that is no table of (l1, l2, linear, lo, hi) per coefficient, as the group Lasso, is all r.
    """
    zero, table = np.zeros(()), penalty.as_table()
    if table is None:
        return zero, zero, penalty
    if not table.l1.any() and np.isneginf(table.lo).all() and np.isposinf(table.hi).all():
        return table.l2, table.linear, None
    return table.l2, table.linear, Table(l1=table.l1, lo=table.lo, hi=table.hi)


@dataclass(eq=False)
class Samples:
    """The samples of the hosted nodes of a consensus method, node after node, with their losses and penalty.

    `columns` has a column per sample and p rows, one per coefficient; the k-th hosted node has the samples
    starts[k]..starts[k + 1] - 1; y and `weight` have an entry per sample. l2, linear and `nonsmooth` are a K-th of the
    penalty, for K nodes.
    """

    ids: Unsigned  # (n_hosted,) ids of the nodes
    info: NetworkInfo
    columns: Columns  # p x m: a column per sample
    starts: Unsigned  # samples of the hosted nodes: starts[k]..starts[k + 1]
    y: Vector  # (m,) labels; -1 or 1 of two classes
    weight: Vector  # (m,) weights of the samples
    loss: Smooth  # sum of the losses of all hosted samples, as a function of their predictions
    bends: Vector  # (n_hosted,) upper bound of the second derivative of each node's losses
    l2: Vector  # quadratic penalty in F_k, a K-th of the whole; one number, or (p,)
    linear: Vector  # linear penalty in F_k, a K-th of the whole; one number, or (p,)
    nonsmooth: Separable | None  # r/K, the penalty with a kink or a bound; None: there is none
    threads: ThreadPool = SERIAL
    constants: Constants = Constants(np.nan, np.nan)  # that hold at all nodes; NaN until `Replicas.constants` is called

    @property
    def size(self) -> int:
        """Return the number of hosted nodes."""
        return len(self.ids)

    @property
    def p(self) -> int:
        """Return p, the number of coefficients."""
        return self.columns.d

    def node_columns(self, k: int) -> Columns:
        """Return the samples of the k-th hosted node, a column each, p rows."""
        return self.columns.between(int(self.starts[k]), int(self.starts[k + 1]))

    @cached_property
    def work(self) -> Vector:
        """Return the nonzeros that one gradient of each hosted node visits, shape (n_hosted,)."""
        return np.diff(self.columns.indptr[self.starts.astype(np.int64)].astype(np.float64))

    @cached_property
    def spans(self) -> list[slice]:
        """Return a list with a slice of the hosted nodes, by position, for each thread of the pool."""
        return self.threads.spans(self.work)

    @cached_property
    def _rows(self) -> Unsigned:
        """Return the numbers of the hosted nodes, 0 to n_hosted - 1, as kernels read them."""
        return np.arange(self.size, dtype=np.uint64)

    def predictions(self, w: Matrix) -> Vector:
        """Return the predictions a_i.w_k for the samples i of every hosted node k, node after node, shape (samples,).

        w has a copy of the coefficients per row, shape (n_hosted, p).
        """
        out, columns = np.empty(self.columns.n), self.columns

        def some(span: slice) -> None:
            """Write the predictions for the samples of the hosted nodes in a slice to the array `out`.

            Return nothing.
            """
            starts = self.starts[span.start : span.stop + 1]
            transposed_products(starts, columns.arrays, self._rows[span], w, out)

        list(self.threads.map(some, self.spans))
        return out

    def gradients(self, w: Matrix) -> Matrix:
        """Return the gradient of every hosted node's F_k at its copy w_k, shape (n_hosted, p).

        F_k is the sum of the node's losses and a K-th of the smooth penalty.
        """
        slopes, columns = self.loss.gradient(self.predictions(w)), self.columns
        out = self.l2 * w + self.linear if self.l2.any() or self.linear.any() else np.zeros_like(w)

        def some(span: slice) -> None:
            """Write the gradients of the hosted nodes in a slice to the rows of the array `out`; return nothing."""
            starts = self.starts[span.start : span.stop + 1]
            products(starts, columns.arrays, slopes, self._rows[span], out)

        list(self.threads.map(some, self.spans))
        return out

    def prox(self, z: Matrix, step: float) -> Matrix:
        """Return argmin_w r(w)/K + norm(w - z_k)^2/(2 step) for every hosted node k, shape (n_hosted, p).

        r is the part of the penalty that has a kink or a bound; without any, z itself is returned. K is the number of
        nodes.
        """
        nonsmooth = self.nonsmooth
        if nonsmooth is None:
            return z
        table = nonsmooth.as_table()
        if table is None:
            return np.stack([nonsmooth.prox(row, step) for row in z])
        if np.isneginf(table.lo).all() and np.isposinf(table.hi).all():
            width = step * table.l1  # as Table.prox, in two passes over the memory instead of six
            out = np.clip(z, -width, width)
            return np.subtract(z, out, out=out)
        return table.prox(z, step)

    def node_constants(self) -> Matrix:
        """Return (smoothness, strong convexity) of every hosted node's F_k, shape (n_hosted, 2).

        F_k is the sum of the node's losses and a K-th of the smooth penalty.
        """
        top, low = float(self.l2.max(initial=0.0)), float(np.broadcast_to(self.l2, self.p).min())
        out = np.empty((self.size, 2))
        for k in range(self.size):
            least, most = eigenvalues(self.node_columns(k))
            bend = self._least_bend(k)
            out[k] = most * self.bends[k] + top, (least * bend if bend > 0 else 0.0) + low
        return out

    def _least_bend(self, k: int) -> float:
        """Return a lower bound of the second derivative of the k-th hosted node's losses: 0 unless they are squares."""
        own = slice(int(self.starts[k]), int(self.starts[k + 1]))
        if not self.loss.is_quadratic or own.start == own.stop:
            return 0.0
        return float(self.loss.curvature(np.zeros(self.columns.n))[own].min())


def eigenvalues(columns: Columns) -> tuple[float, float]:
    """Return (lower bound of the smallest, upper bound of the largest) eigenvalue of A A^T, two floats.

    `columns` is A, of shape (d, n).
    """
    d, n = columns.d, columns.n
    if min(d, n) == 0 or columns.nnz == 0:
        return 0.0, 0.0
    matrix = columns.to_scipy()
    if min(d, n) <= LARGEST_GRAM:
        gram = matrix @ matrix.T if d <= n else matrix.T @ matrix
        values = np.linalg.eigvalsh(gram if columns.dense else gram.toarray())
        return (max(float(values[0]), 0.0) if d <= n else 0.0), float(values[-1]) * (1.0 + 1e-12)
    gram = LinearOperator((n, n), matvec=lambda x: matrix.T @ (matrix @ x), dtype=np.float64)
    top = float(eigsh(gram, k=1, v0=np.ones(n), tol=EIGENVALUE_TOLERANCE, return_eigenvectors=False)[0])
    return 0.0, top * (1.0 + 2 * EIGENVALUE_TOLERANCE)


def observe_copies(problem: Problem, copies: Matrix) -> Measures:
    """Return the Measures at the mean of all copies of the coefficients, shape (K, p): objective, gap, disagreement.

    The disagreement, `consensus`, is the sum of squared distances from the mean. The gap is absolute; its dual point is
    the gradient of the losses there, scaled down where it must be. All measures are infinite if the run has diverged. K
    is the number of nodes.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of a run that diverges
        by_samples = problem.spec.split == "samples" and problem.spec.has_form
        form, mean = problem.composite if problem.spec.has_form else problem.primal, copies.mean(axis=0)
        consensus = float(np.sum((copies - mean) ** 2))
        objective = problem.objective(mean)
        if not np.isfinite(objective) or not np.isfinite(consensus):
            return Measures(np.inf, np.inf, np.inf, np.inf, np.inf)
        if by_samples:
            dual = form.g.conjugate_subgradient(-form.columns.transposed_dot(mean))
            conjugate = form.f.value(form.columns.dot(dual)) + form.g.value(dual)
        else:
            conjugate = dual_value(form, form.columns.dot(mean))
        return Measures(objective, objective, objective, max(float(objective + conjugate), 0.0), consensus)


def dual_value(form: CompositeObjective, v: Vector) -> float:
    """Return f*(s w) + g*(-s A^T w), a float: the negative dual objective at w = grad f(v) with the best s in [0, 1].

    `form` has A, f and g; v has shape (d,). Infinite if no s is feasible; s = 1 where g* is finite everywhere. f* is
    the conjugate of f.
    """
    w = form.f.gradient(v)
    u, zero, s = -form.columns.transposed_dot(w), np.zeros(()), 1.0
    if not form.g.needs_scaling:
        return form.f.conjugate(w) + form.g.conjugate(u)
    limit = form.g.ray_limit(u, zero)
    if limit < 0:
        return np.inf
    s = min(1.0, limit)
    if form.f.has_quadratic_conjugate:
        s = best_scale(np.array(form.f.conjugate_ray(w)), s)
    return form.f.conjugate(s * w) + float(form.g.cut_conjugates(s * u, zero).sum())
