"""What a node's own columns add to objective and duality gap."""

from __future__ import annotations

import numpy as np

from glmesh.core import Block
from glmesh.types import Matrix, Vector


def own_terms(block: Block, x: Vector, w: Vector, radius: Vector) -> Matrix:
    """Return three numbers of each hosted node, shape (n_hosted, 3), that add up to penalty and duality gap at Ax.

    With u = -A_k'w they are g_k(x_k), sum_i g_i(x_i) + g_i*(u_i) - x_i u_i, and sum_i max(|u_i|/l1 - 1, 0), where there
    is an L1 part. With v = Ax and w the gradient of f there, the second ones add up to the duality gap of f(Ax) + g(x):
    f(v) + f*(w) = v.w, so the large numbers cancel before they are added. Where g has an L1 part, g* is that of g
    within |x_i| <= radius_i, shape (n_columns,), where the optimum is. w, divided by 1 + the sum of the third ones, is
    within the bounds of the dual problem of an L1 penalty.
    """
    table, u = block.table, -block.columns.transposed_dot(w)
    l1, l2 = table[:, 0], table[:, 1]
    over = np.maximum(np.abs(u) - l1, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where(l2 > 0, np.minimum(over / l2, radius), radius)  # abs(x) at which g* is reached
    conjugate = np.where(over > 0, best * over - 0.5 * l2 * best**2, 0.0)
    square = np.where(l1 > 0, np.inf, (l2 * x - u) ** 2 / (2.0 * np.where(l2 > 0, l2, np.inf)))
    slack = np.where(l1 > 0, l1 * np.abs(x) + 0.5 * l2 * x * x + conjugate - x * u, square)
    excess = np.where(l1 > 0, over / np.where(l1 > 0, l1, 1.0), 0.0)
    terms = np.stack([l1 * np.abs(x) + 0.5 * l2 * x * x, slack, excess], axis=1)
    return np.stack([terms[block.of_node(k)].sum(axis=0) for k in range(block.size)])
