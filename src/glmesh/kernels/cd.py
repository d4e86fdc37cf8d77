"""Coordinate descent on the local subproblem (`glmesh.kernels.subproblem`): one kernel for the whole catalogue.

The residual r_k = w_k + q_k A_k D is kept up to date, so a column costs one inner product and, if its variable moves,
one addition.

Weights h_kj in [0, 1] per row turn the square into q_k/2 sum_j h_kj (A_k D)_j^2 and the residual into
r_k = w_k + q_k h_k o (A_k D). A unit's curvature is then q sum_j h_j a_ij^2, but at least `_FLOOR` times its curvature
without weights: where h is zero, the slope alone would send a unit as far as g lets it. A larger curvature only
shortens steps.

Sleeping units. A unit at a kink or a bound stays there until its slope has moved by a margin that is known when the
unit is visited, and |a_i| times the length of the path of r_k bounds that move. `Memory.path[k]` is the length of the
path so far and `Memory.wake[j]` the length at which unit j must be visited again. Skipping a sleeping unit changes no
bit of x.
Weights are at most 1, so r_k moves no further than without weights, and a margin does not depend on the curvature.
"""

import math

import numpy as np

from glmesh.kernels.columns import add, dot, weighted_add, weighted_square
from glmesh.kernels.jit import FOUR, ONE, THREE, TWO, ZERO, inlined, kernel
from glmesh.kernels.order import SHUFFLED, SYMMETRIC, hash64, shuffle
from glmesh.kernels.subproblem import NodeView, gap_and_decrease, terms
from glmesh.kernels.terms import GROUPS, LOGISTIC_DUAL, logistic_step, pinned_margin, row_of, table_step

_ROUNDING = 1e-12  # of |a_i| |r|: rounding error of a slope; a margin is trusted only beyond it
_NORM_ERROR = 1e-9  # relative: far above the rounding of the norms that path lengths and margins are made of
# [2 ulp] path lengths are rounded up and wake-up lengths down: a pass adds many steps that are tiny beside the path
_UP, _DOWN = 1.0 + 4.5e-16, 1.0 - 4.5e-16
_FLOOR = 1e-3  # least curvature of a unit under row weights, relative to its curvature without weights


@kernel
def _compare(r, w):
    """Return (norm(r - w), norm(w)), two floats: Euclidean norms for vectors r and w of shape (d,)."""
    j, end = ZERO, np.uint64(w.size)
    a0 = a1 = a2 = a3 = s0 = s1 = s2 = s3 = 0.0
    while j + FOUR <= end:
        w0, w1, w2, w3 = w[j], w[j + ONE], w[j + TWO], w[j + THREE]
        a0 += (r[j] - w0) ** 2
        a1 += (r[j + ONE] - w1) ** 2
        a2 += (r[j + TWO] - w2) ** 2
        a3 += (r[j + THREE] - w3) ** 2
        s0 += w0 * w0
        s1 += w1 * w1
        s2 += w2 * w2
        s3 += w3 * w3
        j += FOUR
    while j < end:
        a0 += (r[j] - w[j]) ** 2
        s0 += w[j] * w[j]
        j += ONE
    return math.sqrt((a0 + a1) + (a2 + a3)), math.sqrt((s0 + s1) + (s2 + s3))


@kernel
def _weighted_curvature(design, j, h):
    """Return sum_i h_i a_ij^2 for column j of the matrix A in `design` (a NodeColumns) and row weights h, (d,).

    If j is a group of columns A_j, return an upper bound of the squared spectral norm of diag(h)^(1/2) A_j: the smaller
    of its squared Frobenius norm and norm(A_j)^2 times the largest h_i of a row with an entry. The result, a float, is
    at least `_FLOOR` times what it is for h = 1; q times it is the curvature that a step on column or group j assumes.
    """
    (indptr, indices, data), norm = design.matrix, design.norms[j]
    total = top = 0.0
    for c in range(design.bounds[j], design.bounds[j + ONE]):
        total += weighted_square(design.matrix, c, h)
        if design.kind == GROUPS:
            for i in range(indptr[c], indptr[c + ONE]):
                if data[i] != 0.0:
                    top = max(top, h[indices[i]] if indices.size > 0 else h[i - indptr[c]])
    square = min(total, top * (norm * norm)) if design.kind == GROUPS else total
    return max(square, _FLOOR * norm * norm)


@inlined
def _move(design, node, i, change):
    """Add q `change` a_i to the residual of a node, in place: r += q change (h o a_i), a_i column i of the data matrix.

    `design` is a NodeColumns, `node` a NodeView with the residual r, the curvature q and the row weights h (1 if it has
    none).
    """
    if node.h.size > 0:
        weighted_add(design.matrix, i, node.q * change, node.h, node.r)
    else:
        add(design.matrix, i, node.q * change, node.r)


@inlined
def _column_step(design, node, x, i, curvature):
    """Minimise a node's local objective over the variable x_i alone; write x_i and the node's residual in place.

    The objective is slope (t - x_i) + curvature/2 (t - x_i)^2 + g_i(t) with slope = <a_i, residual>. Return (change of
    x_i, margin), two floats: the margin is how far the slope may move before x_i leaves the kink or bound of g_i that
    it is at, and -1 if x_i changed or is at none. `design` is a NodeColumns, `node` a NodeView, `x` all variables,
    shape (columns,).
    """
    slope, row, old = dot(design.matrix, i, node.r), row_of(design.table, i), x[i]
    if design.kind == LOGISTIC_DUAL:
        new = logistic_step(row, old, slope, curvature)
    else:
        new = table_step(row, old, slope, curvature)
    change, margin = new - old, -1.0
    if change != 0.0:
        x[i] = new
        _move(design, node, i, change)
    elif design.kind != LOGISTIC_DUAL:
        margin = pinned_margin(row, old, slope)
    return change, margin


@kernel
def _group_step(design, node, x, j, curvature, slopes):
    """Make one proximal step on group j of columns, in place: x_j <- max(1 - weight/norm(z), 0) z/curvature.

    Here z = curvature x_j - A_j^T r, written to `slopes`, shape (columns,), and r is the node's residual, which is
    updated. `weight` is the factor of norm(x_j) in the penalty. Return (Euclidean length of the change of x_j, margin),
    two floats: the margin is how far A_j^T r may move before a group at zero leaves zero, and -1 if x_j is not zero.
    `design` is a NodeColumns, `node` a NodeView, `x` all variables, shape (columns,).
    """
    begin, end = design.bounds[j], design.bounds[j + ONE]
    weight, norm, moved, at_zero = design.table[begin, 0], 0.0, 0.0, True
    for i in range(begin, end):
        slopes[i] = curvature * x[i] - dot(design.matrix, i, node.r)
        norm += slopes[i] * slopes[i]
        at_zero = at_zero and x[i] == 0.0
    norm = math.sqrt(norm)
    shrink = (1.0 - weight / norm) / curvature if norm > weight and curvature > 0.0 else 0.0
    for i in range(begin, end):
        change = shrink * slopes[i] - x[i]
        if change != 0.0:
            x[i] += change
            _move(design, node, i, change)
            moved += change * change
    return math.sqrt(moved), (weight - norm if at_zero and moved == 0.0 else -1.0)


@kernel
def _pass(design, task, memory, scratch, node, pass_):
    """Make pass number `pass_` of coordinate descent over one node's units (columns, or groups of them), in place.

    Units that sleep are skipped: their variables are at a kink or bound, and the residual has moved too little since to
    free them. `design` is a NodeColumns, `task` a LocalTask, `memory` a Memory, `scratch` a Scratch, `node` a NodeView.
    The pass writes x, the residual, what `memory` knows of sleeping units, and the count of nonzeros visited. Return a
    bool: whether any variable moved.
    """
    bounds, norms, table, indptr = design.bounds, design.norms, design.table, design.matrix.indptr
    x, wake, k, first, last, q = task.x, memory.wake, node.k, node.first, node.last, node.q
    path, visited, moved = memory.path[k], ZERO, False
    order, squares = scratch.order[first:last], scratch.squares
    shuffled, backward = task.order == SHUFFLED, task.order == SYMMETRIC and pass_ % TWO == ONE
    if shuffled:
        shuffle(order, hash64(hash64(hash64(task.seed, task.ids[k]), task.round), np.uint64(pass_)))
    for position in range(last - first):
        j = first + (order[position] if shuffled else position)
        if backward:
            j = last - ONE - position
        if wake[j] > path:
            continue
        norm, begin = norms[j], bounds[j]
        curvature = largest = q * norm * norm
        if node.h.size > 0:
            if squares[j] < 0.0:
                squares[j] = _weighted_curvature(design, j, node.h)
            curvature = q * squares[j]
        visited += indptr[bounds[j + ONE]] - indptr[begin]
        if design.kind == GROUPS:
            change, margin = _group_step(design, node, x, j, curvature, scratch.pulls)
        else:
            change, margin = _column_step(design, node, x, begin, curvature)
        if change != 0.0:
            moved = True
            path = (path + q * abs(change) * norm) * _UP
            wake[j] = 0.0
        elif norm == 0.0:
            wake[j] = math.inf
        else:
            at = abs(x[begin]) * (largest + table[begin, 1])
            margin -= _ROUNDING * (norm * node.scale + table[begin, 0] + abs(table[begin, 2]) + at)
            wake[j] = (path + margin / norm * (1.0 - _NORM_ERROR)) * _DOWN if margin > 0.0 else 0.0
    memory.path[k] = path
    task.visited[k] += visited
    return moved


@kernel
def _begin(design, task, memory, scratch, k):
    """Return the NodeView of node k (0..n-1), with its residual r_k set to the gradient w_k, for a local solve.

    `design` is a NodeColumns, `task` a LocalTask, `memory` a Memory, `scratch` a Scratch. The NodeView holds the node's
    rows of their arrays without copies; the node's entries of the scratch arrays are set too.
    """
    first, last = design.unit_starts[k], design.unit_starts[k + ONE]
    weighted = task.rows.size > 0
    w, r = task.w[k if task.w.shape[0] > 1 else ZERO], memory.r[k]
    drift, scale = _compare(r, w)
    for j in range(np.uint64(w.size)):
        r[j] = w[j]
    memory.path[k] = (memory.path[k] + drift * (1.0 + _NORM_ERROR)) * _UP
    if weighted or task.afresh[k] > 0.0 or task.gamma != 1.0 or task.target[k] >= 0.0:
        for i in range(design.starts[k], design.starts[k + ONE]):
            scratch.before[i] = task.x[i]
    if task.order == SHUFFLED:
        for j in range(last - first):
            scratch.order[first + j] = j
    if weighted:
        for j in range(first, last):
            scratch.squares[j] = -1.0
    return NodeView(k, first, last, task.q[k], w, r, task.rows[k] if weighted else task.x[:0], scale)


@kernel
def _finish(design, task, memory, scratch, node):
    """Add step_k q_k A_k D_k to the estimate of one node, and shorten its update D_k to gamma D_k if gamma is not 1.

    D_k is the change of the node's variables x_k in this round, A_k its columns; gamma, step and q are fields of `task`
    (a LocalTask). q_k A_k D_k is the residual minus w_k, rounded like w_k; or it is recomputed from the columns where
    it is small beside w_k (`LocalTask.afresh`), or where rows without weight hide it from the residual. `design` is a
    NodeColumns, `memory` a Memory, `scratch` a Scratch, `node` a NodeView. Writes task.x and task.estimate; returns
    nothing.
    """
    k, w, r, x, before = node.k, node.w, node.r, task.x, scratch.before
    begin, end, out = design.starts[k], design.starts[k + ONE], task.estimate[k]
    step, afresh = task.step[k], task.afresh[k]
    if node.h.size > 0 or (afresh > 0.0 and _compare(r, w)[0] <= afresh * node.scale):
        for i in range(begin, end):
            change = x[i] - before[i]
            if change != 0.0:
                add(design.matrix, i, step * node.q * change, out)
    else:
        for j in range(np.uint64(w.size)):
            out[j] += step * (r[j] - w[j])
    if task.gamma != 1.0:
        for i in range(begin, end):
            if x[i] != before[i]:
                x[i] = before[i] + task.gamma * (x[i] - before[i])
        for j in range(node.first, node.last):
            memory.wake[j] = 0.0


@kernel
def _solve_node(design, task, memory, scratch, k):
    """Improve the variables of node k (0..n-1) by passes of coordinate descent over its columns; return nothing.

    The passes end at their cap task.passes[k], at the accuracy task.target[k], or with a pass in which nothing moves.
    Writes x_k, the node's estimate, task.theta[k] (the accuracy reached) and task.visited[k] (nonzeros visited).
    `design` is a NodeColumns, `task` a LocalTask, `memory` a Memory, `scratch` a Scratch.
    """
    node, target, old_terms = _begin(design, task, memory, scratch, k), task.target[k], 0.0
    if target >= 0.0:
        old_terms = terms(design.kind, design.bounds, design.table, node.first, node.last, task.x)
    task.theta[k] = math.nan
    for pass_ in range(task.passes[k]):
        moved = _pass(design, task, memory, scratch, node, pass_)
        if target >= 0.0:
            gap, decrease = gap_and_decrease(design, node, scratch, task.x, old_terms)
            if decrease > 0.0 and gap < math.inf:
                task.theta[k] = gap / (gap + decrease)
            else:
                task.theta[k] = 1.0 if moved and gap > 0.0 else 0.0
            if gap <= target * decrease:
                break
        if not moved:
            break
    _finish(design, task, memory, scratch, node)


@kernel
def solve_nodes(design, task, memory, scratch):
    """Find an update D_k for every node k that decreases <w_k, A_k D> + q_k/2 norm(A_k D)^2 + g(x_k + D), and apply it.

    x_k += gamma D_k and estimate_k += step_k q_k A_k D_k. `design` (a NodeColumns) has the columns A_k and the penalty
    g, `task` (a LocalTask) the other symbols, `memory` (a Memory) the residuals of earlier rounds, `scratch` (a
    Scratch) room. Writes task.x, task.estimate, task.theta, task.visited, the memory and the scratch arrays; returns
    nothing.
    """
    for k in range(np.uint64(design.starts.size) - ONE):
        task.visited[k] = ZERO
        if design.unit_starts[k] == design.unit_starts[k + ONE]:
            task.theta[k] = 0.0
        elif task.passes[k] == ZERO:
            task.theta[k] = 1.0
        else:
            _solve_node(design, task, memory, scratch, k)
