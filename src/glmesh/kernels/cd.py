"""Coordinate descent on the local subproblem: one kernel for the whole catalogue.

Node k minimises <w_k, A_k D> + q_k/2 |A_k D|^2 + sum_i g_i(x_i + D_i), q_k = sigma'/tau. It sees the loss only
through w_k, the gradient at its estimate. r_k = w_k + q_k A_k D is kept up to date, so a column costs one product
and, if it moves, one addition. A *unit* is a column, or a group of columns (kind GROUPS).

Weights per row h_kj in [0, 1] turn the square into q_k/2 sum_j h_kj (A_k D)_j^2, and r_k into w_k + q_k h_k o (A_k D).
A unit's curvature is then q sum_j h_j a_ij^2, but at least _FLOOR of what it is without weights: where h is zero, the
slope alone would send a unit as far as g lets it. A larger curvature only shortens steps.

Sleeping units. A unit that sits at a kink or a bound stays there until its slope has moved by a margin that is known
when it is visited, and |a_i|*(path length of r_k) bounds that move. `path[k]` is the path length so far, `wake[j]` the
length at which unit j must be looked at again. Skipping a sleeping unit changes nothing, not even a bit of x.
Weights are at most 1, so r_k moves no further than without, and the margin of a unit does not depend on its curvature.
"""

import math

import numpy as np
from numba import njit

from glmesh.kernels.columns import FOUR, ONE, THREE, TWO, add, dot
from glmesh.kernels.terms import (
    GROUPS,
    LOGISTIC_DUAL,
    conjugate,
    logistic_step,
    pinned_margin,
    ray_limit,
    row_of,
    table_step,
    value,
)

CYCLIC = np.int64(0)
SHUFFLED = np.int64(1)
SYMMETRIC = np.int64(2)  # forward, backward, forward, ...

_ZERO = np.uint64(0)
# Rounding of a slope, relative to |a_i| |r|: a margin is trusted only beyond it.
_ROUNDING = 1e-12
# Path lengths are rounded up and wake-up times down: steps may be tiny beside the whole path, and there are many.
_UP, _DOWN = 1.0 + 4.5e-16, 1.0 - 4.5e-16
_FLOOR = 1e-3


@njit(nogil=True, cache=True)
def hash64(a, b):
    """A well-mixed 64-bit hash of two numbers (the finaliser of splitmix64)."""
    z = a + (b + ONE) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(nogil=True, cache=True)
def shuffle(order, key):
    """Permutes in place, from a key."""
    for i in range(ONE, np.uint64(order.size)):
        key = hash64(key, i)
        j = key % (i + ONE)
        order[i], order[j] = order[j], order[i]


@njit(nogil=True, cache=True, error_model="numpy")
def _compare(r, w):
    """(|r - w|, |w|), in four partial sums each, which hide the latency of an addition."""
    j, end = _ZERO, np.uint64(w.size)
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


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _weighted_square(indptr, indices, data, i, h):
    """sum_j h_j a_ij^2, in four partial sums."""
    a, b = indptr[i], indptr[i + ONE]
    j, s0, s1, s2, s3 = a, 0.0, 0.0, 0.0, 0.0
    if indices.size > 0:
        while j + FOUR <= b:
            s0 += data[j] * data[j] * h[indices[j]]
            s1 += data[j + ONE] * data[j + ONE] * h[indices[j + ONE]]
            s2 += data[j + TWO] * data[j + TWO] * h[indices[j + TWO]]
            s3 += data[j + THREE] * data[j + THREE] * h[indices[j + THREE]]
            j += FOUR
        while j < b:
            s0 += data[j] * data[j] * h[indices[j]]
            j += ONE
    else:
        while j + FOUR <= b:
            s0 += data[j] * data[j] * h[j - a]
            s1 += data[j + ONE] * data[j + ONE] * h[j - a + ONE]
            s2 += data[j + TWO] * data[j + TWO] * h[j - a + TWO]
            s3 += data[j + THREE] * data[j + THREE] * h[j - a + THREE]
            j += FOUR
        while j < b:
            s0 += data[j] * data[j] * h[j - a]
            j += ONE
    return (s0 + s1) + (s2 + s3)


@njit(nogil=True, cache=True, error_model="numpy", inline="always")
def _weighted_add(indptr, indices, data, i, factor, h, r):
    """r += factor h o a_i."""
    a, b = indptr[i], indptr[i + ONE]
    if indices.size > 0:
        for j in range(a, b):
            r[indices[j]] += factor * data[j] * h[indices[j]]
    else:
        for j in range(a, b):
            r[j - a] += factor * data[j] * h[j - a]


@njit(nogil=True, cache=True, error_model="numpy")
def _group_square(indptr, indices, data, begin, end, h, square):
    """A bound of |diag(h)^(1/2) A|_2^2 for a group with |A|_2^2 = square: that times the largest h, or Frobenius."""
    total = top = 0.0
    for c in range(begin, end):
        total += _weighted_square(indptr, indices, data, c, h)
        for i in range(indptr[c], indptr[c + ONE]):
            if data[i] != 0.0:
                top = max(top, h[indices[i]] if indices.size > 0 else h[i - indptr[c]])
    return min(total, top * square)


@njit(nogil=True, cache=True, error_model="numpy")
def _group_step(indptr, indices, data, begin, end, weight, curvature, q, x, r, slopes, h):
    """One proximal step on a group; returns the path length of r and the margin of a group at zero (or -1)."""
    size = end - begin
    norm = 0.0
    at_zero = True
    for c in range(size):
        slopes[c] = curvature * x[begin + c] - dot(indptr, indices, data, begin + c, r)
        norm += slopes[c] * slopes[c]
        at_zero = at_zero and x[begin + c] == 0.0
    norm = math.sqrt(norm)
    shrink = (1.0 - weight / norm) / curvature if norm > weight and curvature > 0.0 else 0.0
    moved = 0.0
    for c in range(size):
        change = shrink * slopes[c] - x[begin + c]
        if change != 0.0:
            x[begin + c] += change
            if h.size > 0:
                _weighted_add(indptr, indices, data, begin + c, q * change, h, r)
            else:
                add(indptr, indices, data, begin + c, q * change, r)
            moved += change * change
    return math.sqrt(moved), (weight - norm if at_zero and moved == 0.0 else -1.0)


@njit(nogil=True, cache=True, error_model="numpy")
def _pass(
    first, last, order, backward, kind, bounds, indptr, indices, data, norms, table, q, x, r, slopes, wake, path, scale,
    h, squares,
):  # fmt: skip
    """One pass over a node's units. Returns (path length of r so far, nonzeros visited, whether anything moved).

    With weights h (empty: none), squares holds a unit's curvature over q once it was visited (before, -1).
    """
    visited = _ZERO
    moved = False
    shuffled, sparse, weighted = order.size > 0, indices.size > 0, h.size > 0
    for position in range(last - first):
        j = first + (order[position] if shuffled else position)
        if backward:
            j = last - ONE - position
        if wake[j] > path:
            continue
        norm = norms[j]
        curvature = largest = q * norm * norm
        begin = bounds[j]
        if weighted:
            square = squares[j - first]
            if square < 0.0:
                if kind == GROUPS:
                    square = _group_square(indptr, indices, data, begin, bounds[j + ONE], h, norm * norm)
                else:
                    square = _weighted_square(indptr, indices, data, begin, h)
                square = max(square, _FLOOR * norm * norm)
                squares[j - first] = square
            curvature = q * square
        visited += indptr[bounds[j + ONE]] - indptr[begin]
        margin = -1.0
        change = 0.0
        if kind == GROUPS:
            change, margin = _group_step(
                indptr, indices, data, begin, bounds[j + ONE], table[begin, 0], curvature, q, x, r, slopes, h
            )
        else:
            # dot and add by hand: a call would count references of five arrays, as much as twenty nonzeros cost
            a, b = indptr[begin], indptr[begin + ONE]
            i, s0, s1, s2, s3 = a, 0.0, 0.0, 0.0, 0.0
            if sparse:
                while i + FOUR <= b:
                    s0 += data[i] * r[indices[i]]
                    s1 += data[i + ONE] * r[indices[i + ONE]]
                    s2 += data[i + TWO] * r[indices[i + TWO]]
                    s3 += data[i + THREE] * r[indices[i + THREE]]
                    i += FOUR
                while i < b:
                    s0 += data[i] * r[indices[i]]
                    i += ONE
            else:
                while i + FOUR <= b:
                    s0 += data[i] * r[i - a]
                    s1 += data[i + ONE] * r[i - a + ONE]
                    s2 += data[i + TWO] * r[i - a + TWO]
                    s3 += data[i + THREE] * r[i - a + THREE]
                    i += FOUR
                while i < b:
                    s0 += data[i] * r[i - a]
                    i += ONE
            slope = (s0 + s1) + (s2 + s3)
            row = (table[begin, 0], table[begin, 1], table[begin, 2], table[begin, 3], table[begin, 4])
            old = x[begin]
            if kind == LOGISTIC_DUAL:
                new = logistic_step(row, old, slope, curvature)
            else:
                new = table_step(row, old, slope, curvature)
            change = new - old
            if change != 0.0:
                x[begin] = new
                factor = q * change
                if weighted:
                    _weighted_add(indptr, indices, data, begin, factor, h, r)
                elif sparse:
                    for i in range(a, b):
                        r[indices[i]] += factor * data[i]
                else:
                    for i in range(a, b):
                        r[i - a] += factor * data[i]
            elif kind != LOGISTIC_DUAL:
                margin = pinned_margin(row, old, slope)
        if change != 0.0:
            moved = True
            path = (path + q * abs(change) * norm) * _UP
            wake[j] = 0.0
        elif norm == 0.0:
            wake[j] = math.inf
        else:
            at = abs(x[begin]) * (largest + table[begin, 1])
            margin -= _ROUNDING * (norm * scale + table[begin, 0] + abs(table[begin, 2]) + at)
            wake[j] = (path + margin / norm * (1.0 - 1e-9)) * _DOWN if margin > 0.0 else 0.0
    return path, visited, moved


@njit(nogil=True, cache=True, error_model="numpy")
def _terms(kind, bounds, table, first, last, x):
    """g over the units first..last."""
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


@njit(nogil=True, cache=True, error_model="numpy")
def node_terms(kind, bounds, table, unit_starts, x, out):
    """out_k = g_k(x_k) of every node k; x is inside all bounds."""
    for k in range(np.uint64(out.size)):
        out[k] = _terms(kind, bounds, table, unit_starts[k], unit_starts[k + ONE], x)


@njit(nogil=True, cache=True, error_model="numpy")
def _local_gap(kind, bounds, indptr, indices, data, table, first, last, before, w, r, q, terms):
    """The subproblem's duality gap at (x, s r), s the largest of [0, 1] that is feasible (infinite if none is).

    <w, u> + q/2 |u|^2 + g(x) + |s r - w|^2/(2q) + <s r, A x_before> + g*(-A^T s r), with u = A (x - x_before).
    """
    pulls = np.empty(bounds[last] - bounds[first])
    origin = bounds[first]
    s = 1.0
    for j in range(first, last):
        square = 0.0
        for i in range(bounds[j], bounds[j + ONE]):
            pulls[i - origin] = -dot(indptr, indices, data, i, r)
            square += pulls[i - origin] * pulls[i - origin]
        if kind == GROUPS:
            if square > 0.0:
                s = min(s, table[bounds[j], 0] / math.sqrt(square))
        elif kind != LOGISTIC_DUAL:
            s = min(s, ray_limit(row_of(table, bounds[j]), pulls[bounds[j] - origin]))
    if s < 0.0:
        return math.inf
    gap = terms
    for i in range(np.uint64(pulls.size)):
        gap -= s * pulls[i] * before[i]
    for j in range(np.uint64(w.size)):
        u = (r[j] - w[j]) / q
        away = s * r[j] - w[j]
        gap += w[j] * u + 0.5 * q * u * u + 0.5 * away * away / q
    if kind != GROUPS:  # the conjugate of a group norm is zero where it is finite
        for j in range(first, last):
            gap += conjugate(kind, row_of(table, bounds[j]), s * pulls[bounds[j] - origin])
    return max(gap, 0.0)


@njit(nogil=True, cache=True, error_model="numpy")
def solve_nodes(
    starts, unit_starts, bounds, indptr, indices, data, norms, kind, table,  # the block's columns and g
    x, w, r, out, q, gamma, step, passes, target, order_kind, seed, round_, ids, rows, afresh,  # this round's task
    wake, path, theta, visited,  # memory of sleeping units; what was reached
):  # fmt: skip
    """For every node k of the block: x_k += gamma D_k and out_k += step_k A_k D_k. w has a row each, or one for all.

    passes[k] is the cap of passes; target[k] is Theta (negative: none), and then theta[k] the accuracy reached.
    rows[k] are the weights h_k (shape (0, 0): none); Theta is not defined with them.
    A_k D_k is what the residual moved by, and then rounded like w_k; or, if it is at most afresh[k] of w_k, summed up
    from the columns. (So it is with weights, too: r_k does not tell it where h_k is zero.)
    """
    weighted = rows.size > 0
    width, per_node = np.uint64(w.shape[1]), np.uint64(w.shape[0] > 1)
    for k in range(np.uint64(starts.size) - ONE):
        first, last = unit_starts[k], unit_starts[k + ONE]
        visited[k] = _ZERO
        if first == last or passes[k] == _ZERO:
            theta[k] = 0.0 if first == last else 1.0
            continue
        wk, rk = w[k * per_node], r[k]
        drift, scale = _compare(rk, wk)
        rk[:] = wk
        length = (path[k] + drift * (1.0 + 1e-9)) * _UP
        needed = weighted or afresh[k] > 0.0 or gamma != 1.0 or target[k] >= 0.0
        before = x[starts[k] : starts[k + ONE]].copy() if needed else x[:0]
        old_terms = _terms(kind, bounds, table, first, last, x) if target[k] >= 0.0 else 0.0
        order = np.empty(last - first if order_kind == SHUFFLED else _ZERO, np.uint64)
        for j in range(np.uint64(order.size)):
            order[j] = j
        largest = _ZERO
        if kind == GROUPS:
            for j in range(first, last):
                largest = max(largest, bounds[j + ONE] - bounds[j])
        slopes = np.empty(largest)
        h = rows[k] if weighted else x[:0]
        squares = np.full(last - first if weighted else _ZERO, -1.0)
        theta[k] = math.nan
        for pass_ in range(passes[k]):
            if order_kind == SHUFFLED:
                shuffle(order, hash64(hash64(hash64(seed, ids[k]), round_), np.uint64(pass_)))
            length, seen, moved = _pass(
                first, last, order, order_kind == SYMMETRIC and pass_ % TWO == ONE,
                kind, bounds, indptr, indices, data, norms, table, q[k], x, rk, slopes, wake, length, scale,
                h, squares,
            )  # fmt: skip
            visited[k] += seen
            if target[k] >= 0.0:
                terms = _terms(kind, bounds, table, first, last, x)
                decrease = old_terms - terms
                for j in range(width):
                    u = (rk[j] - wk[j]) / q[k]
                    decrease -= wk[j] * u + 0.5 * q[k] * u * u
                gap = _local_gap(kind, bounds, indptr, indices, data, table, first, last, before, wk, rk, q[k], terms)
                if decrease > 0.0 and gap < math.inf:
                    theta[k] = gap / (gap + decrease)
                else:
                    theta[k] = 1.0 if moved and gap > 0.0 else 0.0
                if gap <= target[k] * decrease:
                    break
            if not moved:
                break
        path[k] = length
        if weighted or (afresh[k] > 0.0 and _compare(rk, wk)[0] <= afresh[k] * scale):
            for i in range(starts[k], starts[k + ONE]):
                change = x[i] - before[i - starts[k]]
                if change != 0.0:
                    add(indptr, indices, data, i, step[k] * q[k] * change, out[k])
        else:
            for j in range(width):
                out[k, j] += step[k] * (rk[j] - wk[j])
        if gamma != 1.0:
            for i in range(starts[k], starts[k + ONE]):
                old = before[i - starts[k]]
                if x[i] != old:
                    x[i] = old + gamma * (x[i] - old)
            for j in range(first, last):
                wake[j] = 0.0
