"""Rows of an interior-point method for losses with kinks: multipliers after a step, and sums over rows.

A row has one or two pieces max over lo <= theta <= hi of theta g, and a piece has multipliers z, v, p, q > 0;
`methods.totals.pieces` explains them and says the same with arrays.
"""

from typing import NamedTuple

import numpy as np

from glmesh.kernels.jit import ONE, ZERO, inlined, kernel
from glmesh.types import Matrix, Vector

SMALLEST_PRODUCT = 1e-150  # of the arguments of logarithms before one is taken: two of them do not underflow
# factor by which a multiplier may differ from its value at the centre, because its row would bend the model too much or
# too little beyond that
OFF_CENTRE = 1e3
KEPT = 0.1  # share of a multiplier that a step leaves at least, because at 0 it would never move again


class Losses(NamedTuple):
    """Losses of m rows (samples) as kernels read them: a table of dual functions, and four common numbers.

    Row i of `table` is (l1, l2, linear, lo, hi) of the dual of the loss of row i: l1 abs(t) + l2/2 t^2 + linear t on
    [lo, hi]. The loss is piecewise linear with kinks in the prediction.
    """

    table: Matrix  # (m, 5)
    shift: float  # subtracted from where the kinks are
    idle: float  # half the distance of two kinks; 0: there is one
    unit: float  # hi - lo of a row of weight 1
    barrier: float  # width hi - lo of a piece whose barrier has the weight mu


class Move(NamedTuple):
    """Input of `step_rows`: a step of an interior-point method on m rows (samples) and their multipliers.

    A row has J pieces, 2 if its loss has two kinks, else 1, with four multipliers each. `predictions` holds the
    prediction of each row and its change along three directions: the step, the restoring step and the affine step.
    `length` is the fraction of the step that is made, `lengths` are others at which losses are asked for, `mu` is the
    weight of the logarithmic barriers afterwards.
    """

    before: Matrix  # (m, J, 4) z, v, p, q of each piece
    predictions: Matrix  # (m, 4) at the point, and along the step, the restoring and the affine one
    lengths: Vector  # (n,) step lengths at which smoothed losses are asked for
    length: float  # of the step itself; 0: there is none, and the multipliers are to be at their centres
    mu: float


class Outcome(NamedTuple):
    """Output arrays of `step_rows`, filled with zeros by the caller: multipliers, vectors and sums of m rows.

    J is 2 if a loss has two kinks, else 1; n is the number of step lengths in `Move.lengths`. theta is the dual
    variable of a piece of a loss, k the prediction at its kink, lo <= theta <= hi its bounds, D the curvature that it
    gives Newton's step; positive, negative and room are max(theta, 0), min(theta, 0) and min(hi - theta, theta - lo).
    """

    after: Matrix  # (m, J, 4) multipliers
    vectors: Matrix  # (m, 12) D, right, pull, and (positive, negative, room) of theta, restored and affine
    losses: Vector  # (2 + n,) sums of losses at the new and at the affine point, and smoothed ones at the lengths
    k: Matrix  # (3, 4) sums of k times positive, negative and room, and abs(k theta), of the three dual points
    sizes: Vector  # (3,) sums of abs(theta)
    spread: Vector  # (1,) sum of D / weight^2
    products: Matrix  # (2, n) scratch: products of arguments of logarithms, and the weight that they have


@kernel
def step_rows(losses, move, out):
    """Make one step of an interior-point method on the m rows (samples) of `losses`, as `move` says.

    Write all arrays of `out` (an Outcome), in place; return nothing. Rows without a weight (lo = hi) are skipped: their
    entries stay zero.
    """
    n_lengths = np.uint64(move.lengths.size)
    out.products[0, :] = 1.0
    for i in range(np.uint64(move.predictions.shape[0])):
        lo, hi = -losses.table[i, 4], -losses.table[i, 3]
        if not hi > lo:
            continue
        k, weight = -losses.table[i, 2] - losses.shift, (hi - lo) / losses.unit
        if losses.idle > 0.0:
            _step_piece(losses, move, out, (i, ZERO), (k + losses.idle, 0.0, hi))
            _step_piece(losses, move, out, (i, ONE), (k - losses.idle, lo, 0.0))
        else:
            _step_piece(losses, move, out, (i, ZERO), (k, lo, hi))
        out.spread[0] += out.vectors[i, 0] / (weight * weight)
    for t in range(n_lengths):
        out.losses[np.uint64(2) + t] += out.products[1, t] * np.log(out.products[0, t])


@inlined
def _step_piece(losses, move, out, where, piece):
    """Make the step on one piece of a row's loss: write its multipliers, and add its terms to the sums in `out`.

    A piece is the function max over lo <= theta <= hi of theta (prediction - k), given as `piece` = (k, lo, hi);
    `where` is (row, number of the piece in the row). `losses` is a Losses, `move` a Move, `out` an Outcome.
    """
    i, j = where
    k, lo, hi = piece
    width = hi - lo
    m = move.mu * np.sqrt(width / losses.barrier)
    before = move.predictions[i, 0] - k
    along = move.predictions[i, 1]
    _add_smoothed(move, out, (before, along), (lo, hi, m))
    if move.length > 0.0:
        z, v, p, q = move.before[i, j, 0], move.before[i, j, 1], move.before[i, j, 2], move.before[i, j, 3]
        D = 1.0 / (p / z + q / v)
        theta = hi - z if z < v else lo + v
        step = move.length * D * (along + before - m * (1.0 / z - 1.0 / v))
        g = before + move.length * along
        affine = before + move.predictions[i, 3]
        _move(out, where, (z, v, p, q), (step, g, m, width))
        _add_point(out, (i, ONE), piece, min(max(theta + D * move.predictions[i, 2], lo), hi))
        _add_point(out, (i, np.uint64(2)), piece, min(max(theta + D * affine, lo), hi))
        out.losses[1] += (hi if affine > 0.0 else lo) * affine
    else:
        g = before
        small = _centre(g, m, width)
        z, v = (small, width - small) if g > 0.0 else (width - small, small)
        out.after[i, j, 0], out.after[i, j, 1], out.after[i, j, 2], out.after[i, j, 3] = z, v, m / z, m / v
        theta = hi - z if z < v else lo + v
        _add_point(out, (i, ONE), piece, theta)
        _add_point(out, (i, np.uint64(2)), piece, theta)
        out.losses[1] += (hi if g > 0.0 else lo) * g
    out.losses[0] += (hi if g > 0.0 else lo) * g
    z, v, p, q = out.after[i, j, 0], out.after[i, j, 1], out.after[i, j, 2], out.after[i, j, 3]
    D = 1.0 / (p / z + q / v)
    theta = hi - z if z < v else lo + v
    out.vectors[i, 0] += D
    out.vectors[i, 1] += theta + D * g
    out.vectors[i, 2] += D * (m / move.mu) * (1.0 / z - 1.0 / v)
    _add_point(out, (i, ZERO), piece, theta)


@inlined
def _centre(g, m, width):
    """Return the smaller of z and width - z, a float, where z solves m/z - m/(width - z) = g for 0 < z < width.

    z is the distance of a dual variable from its upper bound where a logarithmic barrier of weight m is balanced; g is
    the prediction minus the kink of the loss.
    """
    scaled = abs(g) * width
    return 2.0 * m * width / (2.0 * m + scaled + np.sqrt(scaled * scaled + 4.0 * m * m))


@inlined
def _move(out, where, before, step):
    """Write the multipliers (z, v, p, q) of a piece of a loss after a step to out.after[i, j]; (i, j) = where.

    z and v are the distances of the dual variable theta from its bounds hi and lo, p and q the multipliers of these
    bounds. `before` holds the four before the step; `step` is (change of theta, g = prediction - kink after the step,
    weight m of the barriers, width hi - lo). Each keeps at least the fraction KEPT of itself, and stays within a factor
    OFF_CENTRE of its value where the barriers are balanced.
    """
    i, j = where
    z, v, p, q = before
    move, g, m, width = step
    centre = _centre(g, m, width)
    new_p, new_q = max((m + p * move) / z, KEPT * p), max((m - q * move) / v, KEPT * q)
    if g > 0.0:
        small, less = max(z - move, KEPT * z), new_q
    else:
        small, less = max(v + move, KEPT * v), new_p
    small = min(max(small, centre / OFF_CENTRE), min(OFF_CENTRE * centre, 0.5 * (centre + width)))
    large = width - small
    target = m / large
    less = min(max(less, target / OFF_CENTRE), OFF_CENTRE * target)
    more = less + abs(g)
    if g > 0.0:
        out.after[i, j, 0], out.after[i, j, 1], out.after[i, j, 2], out.after[i, j, 3] = small, large, more, less
    else:
        out.after[i, j, 0], out.after[i, j, 1], out.after[i, j, 2], out.after[i, j, 3] = large, small, less, more


@inlined
def _add_point(out, where, piece, theta):
    """Add the dual variable theta of a piece of a loss to the sums and vectors of a dual point in `out`, in place.

    `piece` is (k, lo, hi): the loss has a kink at the prediction k, and lo <= theta <= hi. `where` is (row, number of
    the dual point: 0 the new one, 1 the restored one, 2 the affine one). `out` is an Outcome.
    """
    i, point = where
    k, lo, hi = piece
    room = min(hi - theta, theta - lo)
    positive, negative = max(theta, 0.0), min(theta, 0.0)
    column = np.uint64(3) + np.uint64(3) * point
    out.vectors[i, column] += positive
    out.vectors[i, column + ONE] += negative
    out.vectors[i, column + np.uint64(2)] += room
    out.k[point, 0] += k * positive
    out.k[point, 1] += k * negative
    out.k[point, 2] += k * room
    out.k[point, 3] += abs(k * theta)
    out.sizes[point] += abs(theta)


@inlined
def _add_smoothed(move, out, line, piece):
    """Add the smoothed loss of one piece at every step length, move.lengths[t], to out.losses[2 + t], in place.

    `line` is (prediction minus kink, its change per unit of step length), `piece` is (lo, hi, weight m of the
    logarithmic barriers that smooth the loss). `move` is a Move, `out` an Outcome. Logarithms are taken of products,
    which out.products keeps, as long as m stays the same.
    """
    before, along = line
    lo, hi, m = piece
    n_lengths, smallest = np.uint64(move.lengths.size), 1.0
    if out.products[1, 0] != m:
        for t in range(n_lengths):
            out.losses[np.uint64(2) + t] += out.products[1, t] * np.log(out.products[0, t])
            out.products[0, t], out.products[1, t] = 1.0, m
    width = hi - lo
    for t in range(n_lengths):
        g = before + move.lengths[t] * along
        scaled = abs(g) * width
        share = 2.0 * m / (2.0 * m + scaled + np.sqrt(scaled * scaled + 4.0 * m * m))
        out.losses[np.uint64(2) + t] += (hi if g > 0.0 else lo) * g - scaled * share
        out.products[0, t] *= 4.0 * share * (1.0 - share)
        smallest = min(smallest, out.products[0, t])
    if smallest < SMALLEST_PRODUCT:
        for t in range(n_lengths):
            out.losses[np.uint64(2) + t] += m * np.log(out.products[0, t])
            out.products[0, t] = 1.0


@kernel
def best_share(slopes, l1, l2, bisections):
    """Return the s in [0, 1], a float, at which a dual objective between two feasible points is largest.

    `slopes` has two rows, shape (2, p + 1): (c, k) of the first point, then the change of both to the second point. The
    objective at (c, k) is -k - sum_j max(abs(c_j) - l1_j, 0)^2 / (2 l2_j), with l1 and l2 of shape (p,). The interval
    is halved `bisections` times.
    """
    low, high = 0.0, 1.0
    p = np.uint64(l1.size)
    for _ in range(bisections):
        middle = 0.5 * (low + high)
        rise = -slopes[1, p]
        for j in range(p):
            c = slopes[0, j] + middle * slopes[1, j]
            beyond = abs(c) - l1[j]
            if beyond > 0.0 and l2[j] > 0.0:
                rise -= (beyond if c > 0.0 else -beyond) / l2[j] * slopes[1, j]
        if rise > 0.0:
            low = middle
        else:
            high = middle
    return low
