"""Minimisers of b.e + e.S e/2 + sum_i l1_i abs(w_i + e_i) over w + e in a box, S symmetric and positive semidefinite.

Coordinates without l1 and without bounds are eliminated first; then coordinate descent finds the others that are zero
or at a bound, and a Cholesky factor solves for those that are not (the *face*), in turn until the minimiser is found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glmesh.kernels.cholesky import backward, eliminate, forward
from glmesh.kernels.jit import ONE, ZERO, inlined, kernel
from glmesh.types import Matrix, Unsigned, Vector

PASSES = 20  # [passes] of coordinate descent at most, between two Cholesky factors
FACES = 60  # faces tried at most, between two coordinate descents
ROUNDS = 60  # coordinate descents at most
OPTIMAL = 1e-13  # [largest slope] violation of the optimality conditions that is rounding


class PenalisedQuadratic(NamedTuple):
    """The function b.(u - w) + (u - w).S (u - w)/2 + sum_i l1_i abs(u_i) of d coordinates u, on lo <= u <= hi."""

    S: Matrix  # (d, d), symmetric and positive semidefinite
    b: Vector  # (d,) slopes of the quadratic at w
    limits: Matrix  # (3, d) rows l1, lo and hi
    w: Vector  # (d,)
    n_free: np.uint64  # coordinates before this one have neither l1 nor bounds


class FaceScratch(NamedTuple):
    """Uninitialised arrays for intermediate results of `minimise`, on d coordinates.

    A *face* is the set of the coordinates that are neither at zero nor at a bound, if they have an l1 or a bound.
    """

    L: Matrix  # (d, d) Cholesky factor of the free columns of S, and their Schur complement
    M: Matrix  # (d, d) Cholesky factor of the Schur complement on the face
    panel: Matrix  # (8, d) for `eliminate`
    work: Matrix  # (7, d) vectors of `FaceSearch`, and one more
    face: Unsigned  # (d,) coordinates of the face

    @staticmethod
    def of(d: int) -> FaceScratch:
        """Return new arrays for functions of d coordinates."""
        L, M = np.empty((2, d, d))
        return FaceScratch(L, M, np.empty((8, d)), np.empty((7, d)), np.empty(d, dtype=np.uint64))


class FaceSearch(NamedTuple):
    """Where a search for a minimum stands, among the coordinates that are left when the free ones are eliminated.

    The function is a quadratic with matrix L plus l1_i abs(u_i) between bounds. Coordinates before `first` do not take
    part. All arrays are changed in place.
    """

    first: np.uint64
    L: Matrix  # (d, d) matrix of the quadratic
    limits: Matrix  # (3, d) rows l1, lo and hi
    u: Vector  # (d,) point
    rho: Vector  # (d,) slopes of the quadratic at u
    curve: Vector  # (d,) diagonal of L, at least what counts as zero
    floor: Vector  # (d,) what counts as zero of the diagonal of L
    face: Unsigned  # (d,) coordinates of the face: neither at zero nor at a bound; the first n count
    M: Matrix  # (d, d) Cholesky factor of L restricted to the face, in the first n rows and columns
    panel: Matrix  # (8, d) for `eliminate`
    least: Vector  # (d,) what counts as zero in the pivots of M
    delta: Vector  # (d,) the way to the minimum over the face, an entry per coordinate of the face
    change: Vector  # (d,) of the slopes by a step


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
def _factor_face(search):
    """Find the coordinates that are neither at zero nor at a bound; return how many they are, n, a uint64.

    They are written to search.face[:n], and to search.M[:n, :n] the Cholesky factor of the quadratic's matrix
    restricted to them. `search` is a FaceSearch.
    """
    limits, u, face = search.limits, search.u, search.face
    n = ZERO
    for i in range(search.first, np.uint64(u.size)):
        if abs(_piece(u[i], limits[0, i], limits[1, i], limits[2, i])) % 2 == 1:
            face[n] = i
            n += ONE
    for a in range(n):
        search.least[a] = search.floor[face[a]]
        row, out = search.L[face[a]], search.M[a]
        for b in range(a + ONE):
            out[b] = row[face[b]]
    eliminate(search.M[:n, :n], n, search.least, search.panel)
    return n


@kernel
def _face_step(search, n):
    """Move u towards the minimiser over the n coordinates of the face; return a bool, whether u arrived there.

    Coordinates that would cross zero (with l1 > 0) or a bound are put there if the function falls by that; else the
    step ends where the first of them crosses. `search` is a FaceSearch whose u and slopes rho are updated in place.
    """
    u, delta, face = search.u, search.delta, search.face
    for a in range(n):
        i = face[a]
        delta[a] = -(search.rho[i] + search.limits[0, i] * np.sign(u[i]))
    forward(search.M, n, delta)
    backward(search.M, n, delta)
    share, crossing, crossings = _first_crossing(search, n)
    clips = True  # first with all crossing coordinates clipped, then the straight way to the first crossing
    gain = _gain(search, n, clips, share, crossing)
    if crossings > 0 and not gain < 0.0:
        clips = False
        _gain(search, n, clips, share, crossing)
    for a in range(n):
        if clips or a == crossing:
            u[face[a]] = _goal(search, a)
        else:
            u[face[a]] += share * delta[a]
    for j in range(search.first, np.uint64(u.size)):
        search.rho[j] += search.change[j]
    return crossings == 0


@kernel
def _first_crossing(search, n):
    """Return (share, a, count) of the coordinates of the face that cross zero or a bound on the way to its minimum.

    `share`, a float, is the part of the way at which the first of them crosses, `a` its place in the face, a uint64,
    and `count` how many cross, an int; without any, `share` is 1 and `a` is n, the size of the face. `search` is a
    FaceSearch.
    """
    share, crossing, crossings = 1.0, n, 0
    for a in range(n):
        start, way, end = search.u[search.face[a]], search.delta[a], _goal(search, a)
        if end != start + way:
            crossings += 1
            part = (end - start) / way
            if part <= share:
                share, crossing = part, a
    return share, crossing, crossings


@kernel
def _gain(search, n, clips, share, crossing):
    """Return by how much a step within the face changes the function, a float; write the change of the slopes.

    With `clips`, a bool, each of the n coordinates goes its whole way or to the zero or bound that it crosses; else
    number `crossing` does, and the others go the part `share` of their way. `search` is a FaceSearch, whose `change` is
    written.
    """
    u, change, face, first, d = search.u, search.change, search.face, search.first, np.uint64(search.u.size)
    for j in range(first, d):
        change[j] = 0.0
    gain = 0.0
    for a in range(n):
        i, step = face[a], _step_within(search, a, clips or a == crossing, share)
        gain += search.rho[i] * step + search.limits[0, i] * (abs(u[i] + step) - abs(u[i]))
        row = search.L[i]
        for j in range(first, d):
            change[j] += step * row[j]
    for a in range(n):
        step = _step_within(search, a, clips or a == crossing, share)
        gain += 0.5 * step * change[face[a]]
    return gain


@inlined
def _step_within(search, a, whole, share):
    """Return how far coordinate number `a` of the face goes, a float; `search` is a FaceSearch.

    If `whole`, it goes to the minimum over the face or to the zero or bound before it; else the part `share` of its
    way.
    """
    return _goal(search, a) - search.u[search.face[a]] if whole else share * search.delta[a]


@inlined
def _goal(search, a):
    """Return where coordinate number `a` of the face goes, a float: to the minimum over the face, if nothing is before.

    Else to the zero or bound that it crosses on the way. `search` is a FaceSearch.
    """
    i, limits = search.face[a], search.limits
    return _end(search.u[i], search.delta[a], limits[0, i], limits[1, i], limits[2, i])


@inlined
def _end(u, delta, l1, lo, hi):
    """Return u + delta, a float; but 0 if l1 > 0 and the sign would change, lo or hi if beyond a bound."""
    t = u + delta
    if l1 > 0.0 and t * u < 0.0:
        t = 0.0
    return min(max(t, lo), hi)


@kernel
def minimise(function, u, enough, scratch):
    """Write the minimiser u of `function`, a PenalisedQuadratic, in place; u, shape (d,), holds a first guess.

    Return a bool: whether the conditions of a minimiser hold up to rounding. If they do not yet, the search ends where
    a coordinate descent and the faces after it lower the function by at most the part `enough`, a float, of what is
    gained since w; with 0.0 it goes on. `scratch`, a FaceScratch, is overwritten; its L then holds the Cholesky factor
    of the free columns of S.
    """
    work, y = scratch.work, scratch.work[6]
    search = FaceSearch(
        first=function.n_free,
        L=scratch.L,
        limits=function.limits,
        u=u,
        rho=work[0],
        curve=work[1],
        floor=work[2],
        face=scratch.face,
        M=scratch.M,
        panel=scratch.panel,
        least=work[3],
        delta=work[4],
        change=work[5],
    )
    scale = _eliminate_free(function, search, y)
    n, found = _search(function.w, search, y, enough, OPTIMAL * scale)
    _set_free(function, search, y)
    for _ in range(2):
        _refine(function, search, y, n)
    return found


@kernel
def _eliminate_free(function, search, y):
    """Begin a search for the minimum of `function`, a PenalisedQuadratic; write the arrays of `search`, a FaceSearch.

    The free coordinates are eliminated: `search` is then about the others, with the slopes at its point u. To y, shape
    (d,), are written L^-1 b for the free coordinates, L their Cholesky factor, and the slopes at w for the others.
    Return the largest slope at w with its l1, a float, the scale of violations of the optimality conditions.
    """
    S, b, w, n_free, d = function.S, function.b, function.w, function.n_free, np.uint64(function.b.size)
    L, u, rho, floor = search.L, search.u, search.rho, search.floor
    noise = (64.0 + 4.0 * d) * 2.0**-52  # of a pivot, which is a difference of sums
    scale = 0.0
    for i in range(d):
        floor[i] = noise * S[i, i]
        y[i] = b[i]
        scale = max(scale, abs(b[i]) + function.limits[0, i])
        for j in range(i + ONE):
            L[i, j] = S[i, j]
    eliminate(L, n_free, floor, search.panel)
    forward(L, n_free, y)
    for i in range(n_free, d):
        rho[i] = b[i]
        for k in range(n_free):
            rho[i] -= L[i, k] * y[k]
        search.curve[i] = max(L[i, i], max(floor[i], 1e-290))
        for j in range(n_free, i):
            L[j, i] = L[i, j]
    for i in range(n_free, d):
        y[i] = rho[i]
        search.change[i] = u[i] - w[i]
    for i in range(n_free, d):
        row = L[i]
        for j in range(n_free, d):
            rho[i] += row[j] * search.change[j]
    return scale


@kernel
def _search(w, search, y, enough, tolerance):
    """Move a FaceSearch to its minimum by coordinate descents and steps within faces in turn; return (n, found).

    n, a uint64, is the number of coordinates of the last face, and `found`, a bool, whether the optimality conditions
    hold but for `tolerance`. The search also ends where a turn gains at most the part `enough` of all that is gained
    since w, shape (d,), if `enough` is not 0. y, shape (d,), has the slopes at w.
    """
    first, limits, u, rho = search.first, search.limits, search.u, search.rho
    n, found, gain = ZERO, first == np.uint64(u.size), 0.0
    if found:
        return n, found
    for _ in range(ROUNDS):
        _descend(search.L, first, limits, u, rho, search.curve)
        for _ in range(FACES):
            n = _factor_face(search)
            if _face_step(search, n):
                break
        found = _violation(first, limits, u, rho, search.curve) <= tolerance
        before, gain = gain, 0.0
        for i in range(first, np.uint64(u.size)):
            gain -= 0.5 * (y[i] + rho[i]) * (u[i] - w[i]) + limits[0, i] * (abs(u[i]) - abs(w[i]))
        if found or (enough > 0.0 and gain - before <= enough * gain):
            break
    return n, found


@kernel
def _set_free(function, search, y):
    """Set the free coordinates of search.u to the minimisers of `function`, a PenalisedQuadratic, given the others.

    `search` is a FaceSearch whose L has the Cholesky factor of the free columns of S; y, shape (d,), has L^-1 b for
    them.
    """
    L, u, w, n_free, change = search.L, search.u, function.w, function.n_free, search.change
    for k in range(n_free):
        change[k] = y[k]
    for i in range(n_free, np.uint64(u.size)):
        for k in range(n_free):
            change[k] += L[i, k] * (u[i] - w[i])
    backward(L, n_free, change)
    for k in range(n_free):
        u[k] = w[k] - change[k]


@kernel
def _refine(function, search, y, n):
    """Make a step of iterative refinement of the free coordinates and the n of the face, in place; return nothing.

    The slopes at the point are those of `function`, a PenalisedQuadratic, with S itself instead of the Cholesky factors
    in `search`, a FaceSearch, whose u is changed. A coordinate of the face that would leave it stays. y, shape (d,),
    and arrays of `search` are overwritten.
    """
    S, b, w, limits, n_free = function.S, function.b, function.w, function.limits, function.n_free
    u, rho, delta, L, face, d = search.u, search.rho, search.delta, search.L, search.face, np.uint64(function.b.size)
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
    forward(search.M, n, delta)
    backward(search.M, n, delta)
    for a in range(n):
        i, end = face[a], _goal(search, a)
        step = end - u[i] if end == u[i] + delta[a] else 0.0  # a coordinate at the kink's edge stays
        u[i] += step
        for k in range(n_free):
            y[k] += L[i, k] * step
    backward(L, n_free, y)
    for k in range(n_free):
        u[k] -= y[k]
