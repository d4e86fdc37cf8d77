"""What a node proposes to change its own coefficients by, at predictions that all nodes know."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from glmesh.core import Block
from glmesh.linalg import Columns
from glmesh.solvers import CoordinateDescent, Subproblems
from glmesh.types import Matrix, Vector

# [products] of a node's columns with each other, n p_k^2, up to which its Hessian is formed and factored, which takes
# about a second; beyond, conjugate gradients solve with it
MOST_PRODUCTS = 2e9
# [steps] of these conjugate gradients, because a direction need not be exact: the search over all nodes corrects it
CONJUGATE_STEPS = 25
# [passes] of coordinate descent over a node's columns where the penalty has kinks: fewer need more totals (Lasso and L1
# logistic on breast cancer at three sites, 2 passes: 129 and 63, 10: 85 and 62, 50: 86 and 63)
KINKED_PASSES = 10
# [1/tau] smallest second derivative of the loss in a local problem: less would allow steps far beyond where it holds
LEAST_CURVATURE = 1e-2
# [parts of the gradient's norm] length of A_k p_k below which it is computed afresh, as in `cola.exact_sums`
FRESH_PRODUCT = 1e-4


def newton_steps(block: Block, v: Vector, x: Vector) -> Vector:
    """Return each node's Newton step on its own columns, shape (n_columns,), others at rest; the penalty is L2.

    v, shape (n,), are the predictions of all nodes, x the coefficients of the block's columns.
    """
    w, h, out = block.f.gradient(v), block.f.curvature(v), np.zeros(len(x))
    for k in range(block.size):
        own = block.of_node(k)
        columns, l2 = block.node_columns(k), block.table[own, 1]
        slope = columns.transposed_dot(w) + l2 * x[own]
        if columns.n == 0:
            continue
        if columns.n**2 * columns.d <= MOST_PRODUCTS:
            out[own] = -_solved(columns, h, block.f.free_direction, l2, slope)
        else:
            out[own] = -_nearly_solved(columns, h, block.f.free_direction, l2, slope)
    return out


def _solved(columns: Columns, h: Vector, direction: Vector | None, l2: Vector, slope: Vector) -> Vector:
    """Return H^-1 slope, shape (p_k,), H the Hessian of the objective in the coefficients of these columns.

    h, shape (n,), are second derivatives of the loss, `direction` is what an intercept adds to the predictions, None:
    there is no intercept; l2, shape (p_k,), are the weights of the penalty.
    """
    stored = columns.to_scipy()
    A = np.asarray(stored.toarray() if hasattr(stored, "toarray") else stored)
    hessian = (A * h[:, None]).T @ A
    if direction is not None and (total := float((h * direction**2).sum())) > 0:
        along = A.T @ (h * direction)
        hessian -= np.outer(along, along) / total
    hessian[np.diag_indices_from(hessian)] += l2
    solved: Vector = scipy.linalg.solve(hessian, slope, assume_a="pos", check_finite=False)
    return solved


def _nearly_solved(columns: Columns, h: Vector, direction: Vector | None, l2: Vector, slope: Vector) -> Vector:
    """Return about H^-1 slope, shape (p_k,), by CONJUGATE_STEPS conjugate gradients with the norms of the columns.

    H is the Hessian of the objective in the coefficients of these columns; arguments are those of `_solved`.
    """
    total = 0.0 if direction is None else float((h * direction**2).sum())

    def times(p: Vector) -> Vector:
        """Return H p, shape (p_k,)."""
        u = h * columns.dot(p)
        if direction is not None and total > 0:
            u -= h * direction * (float(direction @ u) / total)
        return columns.transposed_dot(u) + l2 * p

    diagonal = h.mean() * columns.norms**2 + l2
    out, r = np.zeros(len(slope)), slope.copy()
    z = r / diagonal
    p, inner = z.copy(), float(r @ z)
    for _ in range(CONJUGATE_STEPS):
        if inner <= 0:
            break
        q = times(p)
        a = inner / float(p @ q)
        out, r = out + a * p, r - a * q
        z = r / diagonal
        inner, before = float(r @ z), inner
        p = z + (inner / before) * p
    return out


def descent_steps(block: Block, v: Vector, x: Vector, stretch: float, round: int) -> tuple[Vector, Matrix]:
    """Return (change of x, A_k times it) that coordinate descent proposes at each node, others at rest.

    Shapes are (n_columns,) and (n_hosted, n). v, shape (n,), are the predictions of all nodes, x the coefficients of
    the block's columns; the change is multiplied by `stretch`. `round` seeds randomness.
    """
    f, solved, products = block.f, x.copy(), np.zeros((block.size, block.d))
    q = np.full(block.size, 1.0 / f.tau)
    rows: Matrix | None = None
    if not f.is_quadratic:
        rows = np.broadcast_to(np.clip(f.curvature(v) * f.tau, LEAST_CURVATURE, 1.0), products.shape).copy()
    solver = CoordinateDescent()
    task = Subproblems(
        x=solved,
        w=np.broadcast_to(f.gradient(v), products.shape),
        estimate=products,
        q=q,
        step=stretch / q,
        gamma=1.0,
        passes=np.full(block.size, KINKED_PASSES, dtype=np.uint64),
        accuracy=np.full(block.size, -1.0),
        round=round,
        rows=rows,
        afresh=np.where(block.kinked, FRESH_PRODUCT, np.inf),
    )
    solver.solve(block, solver.prepare(block), task)
    return stretch * (solved - x), products
