"""The local subproblem as kernels read it, its value and its duality gap.

Node k minimises over D

    <w_k, A_k D> + q_k/2 |A_k D|^2 + sum_i g_i(x_i + D_i),     q_k = sigma'/tau.

The loss enters through w_k alone, its gradient at the node's estimate. A *unit* is a column, or a group of columns
(kind GROUPS).

The tuple classes are part of the signatures in numba's cache, by name: after renaming or moving one, delete
`__pycache__/*.nbi`.
"""

import math
from typing import NamedTuple

import numpy as np

from glmesh.kernels.columns import ColumnArrays, dot
from glmesh.kernels.jit import ONE, kernel
from glmesh.kernels.terms import GROUPS, LOGISTIC_DUAL, conjugate, ray_limit, row_of, value
from glmesh.types import Matrix, Unsigned, Vector


class NodeColumns(NamedTuple):
    """Columns of the data matrix A and penalty terms g_i of n nodes, as arrays that the kernels read.

    A node holds consecutive *units*: single columns, or groups of columns whose variables move together. `table` has a
    row (l1, l2, linear, lo, hi) per column, g_i(t) = l1 abs(t) + l2/2 t^2 + linear t on [lo, hi], which `kind` may
    reinterpret.
    """

    starts: Unsigned  # (n + 1,) columns of node k: starts[k]..starts[k + 1]
    unit_starts: Unsigned  # (n + 1,) units of node k: unit_starts[k]..unit_starts[k + 1]
    bounds: Unsigned  # (units + 1,) columns of unit j: bounds[j]..bounds[j + 1]
    matrix: ColumnArrays  # A
    norms: Vector  # (units,) Euclidean norm of a column, spectral norm (or a bound) of a group
    kind: np.int64  # TABLE, LOGISTIC_DUAL or GROUPS
    table: Matrix  # (columns, 5) l1, l2, linear, lo, hi of each column's g_i


class LocalTask(NamedTuple):
    """Local optimisation problems of n nodes in one round: data, and arrays for solutions (marked "out:").

    Node k minimises <w_k, A_k D> + q_k/2 norm(A_k D)^2 + g(x_k + D) over the update D of its variables x_k; A_k are its
    columns of the data matrix and g is the penalty.
    """

    x: Vector  # (columns,) in: x; out: x + gamma D
    w: Matrix  # (n, d) gradients w_k, or (1, d): one for all nodes
    estimate: Matrix  # (n, d) out: row k += step_k q_k A_k D_k
    q: Vector  # (n,) curvature q_k = sigma'/tau of each subproblem
    step: Vector  # (n,) factor of q_k A_k D_k in the estimate
    gamma: float  # aggregation: the part of D that is added to x
    passes: Unsigned  # (n,) cap of passes; 0: the node does nothing
    target: Vector  # (n,) accuracy Theta at which a node stops; negative: none
    rows: Matrix  # (n, d) weights h_k of the square, or (0, 0): none; Theta is not defined with them
    afresh: Vector  # (n,) q_k A_k D_k is recomputed from the columns where its norm is at most afresh_k |w_k|
    order: np.int64  # CYCLIC, SHUFFLED or SYMMETRIC
    seed: np.uint64  # of the run, for SHUFFLED
    round: np.uint64  # of the run, for SHUFFLED
    ids: Unsigned  # (n,) ids of the nodes
    theta: Vector  # (n,) out: Theta reached; NaN without a target, 0 without columns, 1 without passes
    visited: Unsigned  # (n,) out: nonzeros visited


class Memory(NamedTuple):
    """What coordinate descent keeps between rounds: residuals r_k of n nodes, and which of their units sleep.

    A unit is a column of the data matrix or a group of columns. A unit whose variables are at a kink or a bound of the
    penalty sleeps, that is passes skip it, until the residual has moved far enough to free it.
    """

    r: Matrix  # (n, d) residual that the last pass ended with
    wake: Vector  # (units,) unit j sleeps while path_k < wake_j; 0: awake, inf: for ever
    path: Vector  # (n,) upper bound of the length of the path of r_k since the start


class Scratch(NamedTuple):
    """Uninitialised arrays for intermediate results of a local solver; node k uses the entries of its own columns.

    `before` are the variables at the start of the round, `pulls` slopes, `order` the order of a pass over units,
    `squares` their curvatures; a unit is a column of the data matrix or a group of columns.
    """

    before: Vector  # (columns,) x at the start of the round
    pulls: Vector  # (columns,) -A^T r, or the slopes of a group
    order: Unsigned  # (units,) permutation of a pass, from 0 for every node
    squares: Vector  # (units,) curvature/q under row weights; -1: not computed yet


class NodeView(NamedTuple):
    """Numbers and arrays of one node in one round, for kernels; the arrays share memory with those of all nodes.

    w is the gradient of f at the node's estimate, r the residual w + q A D for the update D so far (A: the node's
    columns), h the row weights, q the curvature of the node's local objective.
    """

    k: np.uint64  # position of the node among the n nodes
    first: np.uint64  # units first..last - 1
    last: np.uint64
    q: float  # curvature of the subproblem
    w: Vector  # (d,) gradient of f at the node's estimate
    r: Vector  # (d,) residual w + q A D, or w + q h o (A D)
    h: Vector  # (d,) row weights, or (0,): none
    scale: float  # Euclidean norm of w


@kernel
def terms(kind, bounds, table, first, last, x):
    """Return the penalty g(x), a float, of the units first..last - 1: columns, or groups of them (kind GROUPS).

    Unit j has the columns bounds[j]..bounds[j + 1] - 1; row i of `table` is (l1, l2, linear, lo, hi), and column i adds
    l1 abs(x_i) + l2/2 x_i^2 + linear x_i if `kind` is TABLE, an entropy if LOGISTIC_DUAL; a group adds l1 norm(x) if
    GROUPS. x, shape (columns,), must be inside the bounds lo <= x <= hi.
    """
    total = 0.0
    for j in range(first, last):
        if kind == GROUPS:
            square = 0.0
            for i in range(bounds[j], bounds[j + ONE]):
                square += x[i] * x[i]
            total += table[bounds[j], 0] * math.sqrt(square)
        else:
            total += value(kind, row_of(table, bounds[j]), x[bounds[j]])
    return total


@kernel
def node_terms(kind, bounds, table, unit_starts, x, out):
    """Write out_k, the penalty g of the variables of node k, for every node k; `out` has shape (nodes,).

    Node k has the units unit_starts[k]..unit_starts[k + 1] - 1, unit j the columns bounds[j]..bounds[j + 1] - 1; row i
    of `table` is (l1, l2, linear, lo, hi), and column i adds l1 abs(x_i) + l2/2 x_i^2 + linear x_i if `kind` is TABLE,
    an entropy if LOGISTIC_DUAL; a group adds l1 norm(x) if GROUPS. x, shape (columns,), must be inside all bounds.
    """
    for k in range(np.uint64(out.size)):
        out[k] = terms(kind, bounds, table, unit_starts[k], unit_starts[k + ONE], x)


@kernel
def gap_and_decrease(design, node, scratch, x, old_terms):
    """Return (duality gap of a node's local problem at x, decrease of its objective since scratch.before), two floats.

    The objective is <w, u> + q/2 norm(u)^2 + g(x) with u = A (x - before), A the node's columns, w the gradient, q the
    curvature, g the penalty; `old_terms` is g(before). The gap takes s r as the dual point, r the node's residual and s
    the largest number in [0, 1] for which that is feasible, and is infinite if none is:

        <w, u> + q/2 norm(u)^2 + g(x) + norm(s r - w)^2/(2q) + <s r, A before> + g*(-A^T s r).

    `design` is a NodeColumns, `node` a NodeView, `scratch` a Scratch whose `pulls` are overwritten.

    g* is the conjugate of g.
    """
    q, w, r, pulls = node.q, node.w, node.r, scratch.pulls
    new_terms = terms(design.kind, design.bounds, design.table, node.first, node.last, x)
    decrease = old_terms - new_terms
    for j in range(np.uint64(w.size)):
        u = (r[j] - w[j]) / q
        decrease -= w[j] * u + 0.5 * q * u * u
    s = _feasible_scale(design, node, pulls)
    if s < 0.0:
        return math.inf, decrease
    gap = new_terms
    for i in range(design.bounds[node.first], design.bounds[node.last]):
        gap -= s * pulls[i] * scratch.before[i]
    for j in range(np.uint64(w.size)):
        u = (r[j] - w[j]) / q
        away = s * r[j] - w[j]
        gap += w[j] * u + 0.5 * q * u * u + 0.5 * away * away / q
    if design.kind != GROUPS:  # the conjugate of a group norm is zero where it is finite
        for i in range(design.bounds[node.first], design.bounds[node.last]):
            gap += conjugate(design.kind, row_of(design.table, i), s * pulls[i])
    return max(gap, 0.0), decrease


@kernel
def _feasible_scale(design, node, pulls):
    """Write pulls = -A^T r; return the largest s in [0, 1] with s pulls in the domain of g*, -1 if there is none.

    g* is the conjugate of the penalty of a node's variables, A are the node's columns of `design` (a NodeColumns) and r
    is the residual of `node` (a NodeView). `pulls` has shape (columns,).
    """
    kind, bounds, table = design.kind, design.bounds, design.table
    s = 1.0
    for j in range(node.first, node.last):
        square = 0.0
        for i in range(bounds[j], bounds[j + ONE]):
            pulls[i] = -dot(design.matrix, i, node.r)
            square += pulls[i] * pulls[i]
        if kind == GROUPS:
            if square > 0.0:
                s = min(s, table[bounds[j], 0] / math.sqrt(square))
        elif kind != LOGISTIC_DUAL:
            s = min(s, ray_limit(row_of(table, bounds[j]), pulls[bounds[j]]))
    return s
