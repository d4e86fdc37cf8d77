"""Minimisers of b.e + e.S e/2 + sum_i l1_i abs(w_i + e_i) over w + e in a box, S symmetric and positive semidefinite.

Coordinates without l1 and without bounds are eliminated first; then coordinate descent finds the others that are zero
or at a bound, and a Cholesky factor solves for those that are not (the *face*), in turn until the minimiser is found.
There is no BLAS here: all processes compute the same bits, whatever the number of its threads.
"""

import numpy as np

from glmesh.kernels.jit import ONE, ZERO, inlined, kernel

WIDTH = np.uint64(8)  # columns that a trailing matrix is updated by at once
PASSES = 20  # [passes] of coordinate descent at most, between two Cholesky factors
FACES = 60  # faces tried at most, between two coordinate descents
ROUNDS = 60  # coordinate descents at most
OPTIMAL = 1e-13  # [largest slope] violation of the optimality conditions that is rounding


@kernel
def eliminate(S, n, floor, panel):
    """Factor the first n columns of a symmetric matrix S, shape (d, d), in place by Cholesky's method.

    Only the lower triangle of S is read and written. It then holds the lower triangular factor in those columns, and
    the Schur complement in the others. A column k whose pivot is at most floor[k], shape (d,), becomes zero: its
    coordinate has no curvature of its own. `panel` has shape (8, d) and is overwritten.
    """
    d = np.uint64(S.shape[0])
    k = ZERO
    while k < n:
        end = min(k + WIDTH, n)
        for c in range(k, end):
            if S[c, c] > floor[c]:
                root = np.sqrt(S[c, c])
                S[c, c] = root
                for i in range(c + ONE, d):
                    S[i, c] /= root
            else:
                for i in range(c, d):
                    S[i, c] = 0.0
            for e in range(c + ONE, end):
                factor = S[e, c]
                for i in range(e, d):
                    S[i, e] -= factor * S[i, c]
        for c in range(WIDTH):
            for i in range(end, d):
                panel[c, i] = S[i, k + c] if k + c < end else 0.0
        for i in range(end, d):
            a0, a1, a2, a3 = panel[0, i], panel[1, i], panel[2, i], panel[3, i]
            a4, a5, a6, a7 = panel[4, i], panel[5, i], panel[6, i], panel[7, i]
            for j in range(end, i + ONE):
                first = a0 * panel[0, j] + a1 * panel[1, j] + a2 * panel[2, j] + a3 * panel[3, j]
                second = a4 * panel[4, j] + a5 * panel[5, j] + a6 * panel[6, j] + a7 * panel[7, j]
                S[i, j] -= first + second
        k = end


@kernel
def forward(L, n, x):
    """Overwrite x[:n] with L^-1 x[:n] by forward substitution; L is lower triangular, shape (n, n) or larger.

    Entry k becomes 0 where L_kk = 0, the mark that `eliminate` leaves in a factor L of a matrix of lower rank.
    """
    for k in range(n):
        total = x[k]
        for j in range(k):
            total -= L[k, j] * x[j]
        x[k] = total / L[k, k] if L[k, k] > 0.0 else 0.0


@kernel
def backward(L, n, x):
    """Overwrite x[:n] with L^-T x[:n] by back substitution; L is lower triangular, shape (n, n) or larger.

    Entry k becomes 0 where L_kk = 0, the mark that `eliminate` leaves in a factor L of a matrix of lower rank.
    """
    for back in range(n):
        k = n - ONE - back
        x[k] = x[k] / L[k, k] if L[k, k] > 0.0 else 0.0
        for j in range(k):
            x[j] -= L[k, j] * x[k]


@kernel
def invert(L, out):
    """Write L^-1 to `out`, shape (n, n), for a Cholesky factor L of S = L L^T; only the lower triangle of L is read.

    Where L_kk = 0 (S has lower rank), row k of `out` becomes a vector v with v_k = 1 and v.S v = 0, but for rounding.
    """
    n = np.uint64(L.shape[0])
    for k in range(n):
        row = out[k]
        for i in range(n):
            row[i] = 0.0
        row[k] = 1.0
        for j in range(k):
            factor = L[k, j]
            if factor != 0.0:
                other = out[j]
                for i in range(j + ONE):
                    row[i] -= factor * other[i]
        if L[k, k] > 0.0:
            for i in range(k + ONE):
                row[i] /= L[k, k]


@inlined
def _step(u, slope, curvature, l1, lo, hi):
    """Return the t, a float, that minimises slope (t - u) + curvature/2 (t - u)^2 + l1 abs(t) over lo <= t <= hi."""
    z = curvature * u - slope
    if z > l1:
        t = (z - l1) / curvature
    elif z < -l1:
        t = (z + l1) / curvature
    else:
        t = 0.0
    return min(max(t, lo), hi)


@inlined
def _piece(t, l1, lo, hi):
    """Return a code for where the number t lies, given a penalty l1 abs(t) with a kink at 0 and bounds lo <= t <= hi.

    The code is an int. -2: t = lo; 2: t = hi; 0: t = 0, at the kink; -1 and 1: between, by the sign of t; 3: between
    the bounds where l1 = 0, so that there is no kink.
    """
    if t == lo:
        return -2
    if t == hi:
        return 2
    if l1 == 0.0:
        return 3
    return 1 if t > 0.0 else (-1 if t < 0.0 else 0)


@kernel
def _move(L, first, u, rho, i, new):
    """Set u_i = new and update the slopes rho = b + L (u - w) in place: rho_j += L_ij (new - u_i) for all j >= first.

    L, shape (d, d), is the matrix of a quadratic model of which the first `first` coordinates are eliminated (a Schur
    complement); u and rho have shape (d,).
    """
    change = new - u[i]
    u[i] = new
    row = L[i]
    for j in range(first, np.uint64(rho.size)):
        rho[j] += change * row[j]


@kernel
def _descend(L, first, limits, u, rho, curve):
    """Make passes of coordinate descent over coordinates `first`.. until none changes its code from `_piece`.

    The model is a quadratic with matrix L, shape (d, d), plus l1_i abs(u_i) between bounds, where `limits`, shape (3,
    d), has the rows l1, lo and hi. Writes the point u and the slopes rho of the quadratic at u, both of shape (d,), in
    place. `curve`, shape (d,), is the diagonal of L. At most PASSES passes are made; returns nothing.
    """
    d = np.uint64(rho.size)
    for turn in range(PASSES):
        changes = 0
        for i in range(first, d):
            l1, lo, hi = limits[0, i], limits[1, i], limits[2, i]
            new = _step(u[i], rho[i], curve[i], l1, lo, hi)
            if new != u[i]:
                if _piece(new, l1, lo, hi) != _piece(u[i], l1, lo, hi):
                    changes += 1
                _move(L, first, u, rho, i, new)
        if changes == 0 and turn > 0:
            return


@kernel
def _violation(first, limits, u, rho, curve):
    """Return by how much the slope of any coordinate from `first` on violates the optimality conditions at most, >= 0.

    The model is a quadratic with the slopes rho at u plus l1_i abs(u_i) between bounds, where `limits`, shape (3, d),
    has the rows l1, lo and hi, and `curve` the second derivatives. 0 at a minimiser; u, rho and `curve` have shape
    (d,).
    """
    worst = 0.0
    for i in range(first, np.uint64(rho.size)):
        new = _step(u[i], rho[i], curve[i], limits[0, i], limits[1, i], limits[2, i])
        worst = max(worst, abs(new - u[i]) * curve[i])
    return worst


@kernel
def _factor_face(L, first, limits, u, floor, M, face, panel, least):
    """Write the coordinates that are neither at zero nor at a bound, and the Cholesky factor of their matrix.

    L, shape (d, d), is the matrix of a quadratic model; `limits`, shape (3, d), has the rows l1, lo and hi of the
    penalty l1_i abs(u_i) and its bounds; coordinates before `first` do not take part. The factor of L, restricted to
    the face, is written to M[:n, :n]. Pivots at most floor[i] count as zero. `panel` and `least` are overwritten.
    Return n.
    """
    n = ZERO
    for i in range(first, np.uint64(u.size)):
        if abs(_piece(u[i], limits[0, i], limits[1, i], limits[2, i])) % 2 == 1:
            face[n] = i
            n += ONE
    for a in range(n):
        least[a] = floor[face[a]]
        row, out = L[face[a]], M[a]
        for b in range(a + ONE):
            out[b] = row[face[b]]
    eliminate(M[:n, :n], n, least, panel)
    return n


@kernel
def _face_step(L, first, limits, u, rho, M, face, n, delta, change):
    """Move u towards the minimiser over the n coordinates face[:n]; return a bool, whether u arrived there.

    The model is a quadratic with matrix L and slopes rho at u, plus l1_i abs(u_i) between bounds (rows l1, lo, hi of
    `limits`); M is the Cholesky factor of L restricted to the face. Coordinates that would cross zero (with l1 > 0) or
    a bound are put there if the model falls by that; else the step ends where the first of them crosses. u and rho,
    shape (d,), are updated in place from coordinate `first` on; `delta` and `change` are scratch arrays.
    """
    d = np.uint64(rho.size)
    for a in range(n):
        i = face[a]
        delta[a] = -(rho[i] + limits[0, i] * np.sign(u[i]))
    forward(M, n, delta)
    backward(M, n, delta)
    share, crossing, crossings = 1.0, n, 0
    for a in range(n):
        i = face[a]
        end = _end(u[i], delta[a], limits[0, i], limits[1, i], limits[2, i])
        if end != u[i] + delta[a]:
            crossings += 1
            part = (end - u[i]) / delta[a]
            if part <= share:
                share, crossing = part, a
    for cut in range(2):  # first with all crossing coordinates clipped, then the straight way to the first crossing
        for j in range(first, d):
            change[j] = 0.0
        gain = 0.0
        for a in range(n):
            i = face[a]
            end = _end(u[i], delta[a], limits[0, i], limits[1, i], limits[2, i])
            step = end - u[i] if cut == 0 else (end - u[i] if a == crossing else share * delta[a])
            gain += rho[i] * step + limits[0, i] * (abs(u[i] + step) - abs(u[i]))
            row = L[i]
            for j in range(first, d):
                change[j] += step * row[j]
        for a in range(n):
            i = face[a]
            end = _end(u[i], delta[a], limits[0, i], limits[1, i], limits[2, i])
            step = end - u[i] if cut == 0 else (end - u[i] if a == crossing else share * delta[a])
            gain += 0.5 * step * change[i]
        if crossings == 0 or cut == 1 or gain < 0.0:
            break
    for a in range(n):
        i = face[a]
        end = _end(u[i], delta[a], limits[0, i], limits[1, i], limits[2, i])
        if cut == 0 or a == crossing:
            u[i] = end
        else:
            u[i] += share * delta[a]
    for j in range(first, d):
        rho[j] += change[j]
    return crossings == 0


@inlined
def _end(u, delta, l1, lo, hi):
    """Return u + delta, a float; but 0 if l1 > 0 and the sign would change, lo or hi if beyond a bound."""
    t = u + delta
    if l1 > 0.0 and t * u < 0.0:
        t = 0.0
    return min(max(t, lo), hi)


@kernel
def minimise(S, b, limits, w, u, n_free, enough, L, M, panel, work, face):
    """Write the minimiser u of b.(u - w) + (u - w).S (u - w)/2 + sum_i l1_i abs(u_i) on lo <= u <= hi, in place.

    u holds a first guess. Return a bool: whether the conditions of a minimiser hold up to rounding. If they do not yet,
    the search ends where a coordinate descent and the faces after it lower the function by at most the part `enough`,
    a float, of what is gained since w; with 0.0 it goes on.

    S, shape (d, d), is symmetric and positive semidefinite; b, w and u have shape (d,); `limits` has the rows l1, lo
    and hi, shape (3, d). The first `n_free` coordinates have neither l1 nor bounds. L and M, shape (d, d), `panel` (8,
    d), `work` (7, d) and `face` (d,) are overwritten; L then holds the Cholesky factor of the first `n_free` columns of
    S.
    """
    d = np.uint64(b.size)
    rho, curve, floor, least, delta, change, y = work[0], work[1], work[2], work[3], work[4], work[5], work[6]
    noise = (64.0 + 4.0 * d) * 2.0**-52  # of a pivot, which is a difference of sums
    scale = 0.0
    for i in range(d):
        floor[i] = noise * S[i, i]
        y[i] = b[i]
        scale = max(scale, abs(b[i]) + limits[0, i])
        for j in range(i + ONE):
            L[i, j] = S[i, j]
    eliminate(L, n_free, floor, panel)
    forward(L, n_free, y)
    for i in range(n_free, d):
        rho[i] = b[i]
        for k in range(n_free):
            rho[i] -= L[i, k] * y[k]
        curve[i] = max(L[i, i], max(floor[i], 1e-290))
        for j in range(n_free, i):
            L[j, i] = L[i, j]
    for i in range(n_free, d):
        y[i] = rho[i]  # slope at w
        change[i] = u[i] - w[i]
    for i in range(n_free, d):
        row = L[i]
        for j in range(n_free, d):
            rho[i] += row[j] * change[j]
    n, found, gain = ZERO, n_free == d, 0.0
    if not found:
        for _ in range(ROUNDS):
            _descend(L, n_free, limits, u, rho, curve)
            for _ in range(FACES):
                n = _factor_face(L, n_free, limits, u, floor, M, face, panel, least)
                if _face_step(L, n_free, limits, u, rho, M, face, n, delta, change):
                    break
            found = _violation(n_free, limits, u, rho, curve) <= OPTIMAL * scale
            before, gain = gain, 0.0
            for i in range(n_free, d):
                gain -= 0.5 * (y[i] + rho[i]) * (u[i] - w[i]) + limits[0, i] * (abs(u[i]) - abs(w[i]))
            if found or (enough > 0.0 and gain - before <= enough * gain):
                break
    _back(S, b, limits, w, u, n_free, L, M, y, face, n, work)
    return found


@kernel
def _back(S, b, limits, w, u, n_free, L, M, y, face, n, work):
    """Set the first `n_free` coordinates of u to the minimisers of b.(u - w) + (u - w).S (u - w)/2, given the others.

    u, shape (d,), is written in place. Then those coordinates and the n coordinates face[:n] are refined twice, against
    the symmetric matrix S itself instead of its Cholesky factors: L of the free coordinates, M of the face. `limits`,
    shape (3, d), has the rows l1, lo and hi; y and `work` are scratch arrays.
    """
    d = np.uint64(b.size)
    rho, delta, change = work[0], work[4], work[5]
    for k in range(n_free):
        change[k] = y[k]
    for i in range(n_free, d):
        for k in range(n_free):
            change[k] += L[i, k] * (u[i] - w[i])
    backward(L, n_free, change)
    for k in range(n_free):
        u[k] = w[k] - change[k]
    for _ in range(2):
        for i in range(d):
            y[i] = u[i] - w[i]
        for i in range(d):
            total = b[i]
            row = S[i]
            for j in range(d):
                total += row[j] * y[j]
            rho[i] = total
        for k in range(n_free):
            y[k] = rho[k]
        forward(L, n_free, y)
        for a in range(n):
            i = face[a]
            total = rho[i] + limits[0, i] * np.sign(u[i])
            for k in range(n_free):
                total -= L[i, k] * y[k]
            delta[a] = -total
        forward(M, n, delta)
        backward(M, n, delta)
        for a in range(n):
            i = face[a]
            end = _end(u[i], delta[a], limits[0, i], limits[1, i], limits[2, i])
            step = end - u[i] if end == u[i] + delta[a] else 0.0  # a coordinate at the kink's edge stays
            u[i] += step
            for k in range(n_free):
                y[k] += L[i, k] * step
        backward(L, n_free, y)
        for k in range(n_free):
            u[k] -= y[k]
