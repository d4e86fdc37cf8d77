"""Terms of g along a plane x + a p + b d, for g_i(t) = l1 abs(t) + l2/2 t^2 + linear t on [lo, hi]."""

import math

import numpy as np

from glmesh.kernels.jit import FOUR, ONE, THREE, TWO, ZERO, inlined, kernel


@kernel
def _largest(values):
    """Return the largest absolute value in an array, 0 if it is empty."""
    largest = 0.0
    for i in range(np.uint64(values.size)):
        largest = max(largest, abs(values[i]))
    return largest


@inlined
def _add_crossings(term, place, grid, out):
    """Add what l1 abs(t) and lo <= t <= hi tell of a variable on a grid beyond a quadratic model, in place.

    `term` is (l1, lo, hi) and `grid` (a, b), two arrays; `place`, (t, s, u), says that the variable is
    t + a_i s + b_j u at the grid's points. `out` has an entry for each of them, i slower: infinity is written beyond a
    bound, and elsewhere by how much l1 abs is more there than its slope at t says.
    """
    (l1, lo, hi), (t, s, u), (a, b) = term, place, grid
    n_b = np.uint64(b.size)
    for i in range(np.uint64(a.size)):
        for j in range(n_b):
            change = a[i] * s + b[j] * u
            z = t + change
            if z < lo or z > hi:
                out[i * n_b + j] = math.inf
            elif t == 0.0:
                out[i * n_b + j] += l1 * abs(change)
            elif t * z < 0.0:
                out[i * n_b + j] += 2.0 * l1 * abs(z)


@kernel
def plane_terms(starts, table, x, ways, grid, out):
    """Write the penalty g of every node k on the plane x + a p + b d, p and d directions, to row k of `out`.

    g sums l1 abs(t) + l2/2 t^2 + linear t on lo <= t <= hi over variables t, with (l1, l2, linear, lo, hi) in the rows
    of `table`. Node k has the variables starts[k]..starts[k + 1] - 1; `ways` is (p, d), and x, p and d have shape
    (variables,). `grid` is (a, b), two arrays with the coordinates of a grid on the plane.

    out_k[:6] = g(x), its slopes along p and d and its second derivatives pp, pd and dd. out_k[7:] is g minus that
    quadratic model at the grid points x + a_i p + b_j d, i slower: what variables add that cross zero; infinite where
    one crosses a bound. out_k[6] is left alone.
    """
    p, d = ways
    model = np.uint64(out.shape[1]) - np.uint64(grid[0].size) * np.uint64(grid[1].size)
    far_a, far_b = _largest(grid[0]), _largest(grid[1])
    for k in range(np.uint64(starts.size) - ONE):
        g = along_p = along_d = pp = pd = dd = 0.0
        out[k, model:] = 0.0
        for c in range(starts[k], starts[k + ONE]):
            t, s, u = x[c], p[c], d[c]
            l1, l2, linear = table[c, ZERO], table[c, ONE], table[c, TWO]
            g += l1 * abs(t) + 0.5 * l2 * t * t + linear * t
            if s == 0.0 and u == 0.0:
                continue
            slope = l2 * t + linear
            if t > 0.0:
                slope += l1
            elif t < 0.0:
                slope -= l1
            along_p += slope * s
            along_d += slope * u
            pp += l2 * s * s
            pd += l2 * s * u
            dd += l2 * u * u
            lo, hi = table[c, THREE], table[c, FOUR]
            bounded = lo > -math.inf or hi < math.inf
            if not bounded and (l1 == 0.0 or abs(t) > (1.0 + 1e-12) * (far_a * abs(s) + far_b * abs(u))):
                continue
            _add_crossings((l1, lo, hi), (t, s, u), grid, out[k, model:])
        out[k, 0], out[k, 1], out[k, 2] = g, along_p, along_d
        out[k, 3], out[k, 4], out[k, 5] = pp, pd, dd
