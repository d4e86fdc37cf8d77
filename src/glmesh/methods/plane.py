"""The best point of a plane x + a p + b d, by numbers that add up over the nodes.

f is known to everybody along the plane, because A p and A d are. Of g every node tells a second-order model and, at the
points of a small grid, what is left: sums of those are the same of the whole g. Between points of the grid the rest is
interpolated; where it is convex (L1, boxes, groups) that is an upper bound, so the objective falls. If g is quadratic
nothing is left, and on a quadratic f the steps are those of conjugate gradients, preconditioned by the local solver.
"""

from __future__ import annotations

import itertools

import numpy as np

from glmesh.block import Block
from glmesh.functions import Smooth
from glmesh.functions.separable import GROUPS, LOGISTIC_DUAL, TABLE
from glmesh.functions.smooth import inner
from glmesh.types import Flags, Indices, Matrix, Vector

A = np.array([0.0, 0.0625, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5])
B = np.array([-0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5])
_STARTS = [(A.tolist().index(1.0), B.tolist().index(0.0)), (0, B.tolist().index(0.0))]  # x + p, x
_MODEL = 7  # g, slope along p and d, curvature pp, pd, dd, whether anything is left
WIDTH = _MODEL + A.size * B.size
_FARTHEST = 1e6  # of a and b where g is quadratic: beyond it there is only rounding
_SHORT = 1e-5  # of f, what it changes along the plane, below which slopes say more than values
_NOISE = 4 * float(np.finfo(float).eps)  # of a sum of products, beside the product of the norms
_INSIDE = 1e-9  # of the way to a bound is left, so that no logarithm of zero is needed


def along(block: Block, x: Vector, p: Vector, d: Vector) -> Matrix:
    """What every hosted node tells of its g along the plane: a row each."""
    out = np.zeros((block.size, WIDTH))
    out[:, 0] = block.node_values(x)
    moves = (p != 0) | (d != 0)
    at = np.arange(len(x)) if block.kind == GROUPS else np.flatnonzero(moves)
    node, x, p, d, table = block.node_of[at], x[at], p[at], d[at], block.table[at]
    slope, bend = _derivatives(block.kind, table, x)
    for column, values in enumerate((slope * p, slope * d, bend * p * p, bend * p * d, bend * d * d), start=1):
        out[:, column] = np.bincount(node, values, minlength=block.size)
    out[:, 6] = block.kinked  # of all columns: what moves is little more than rounding in the end
    if block.kind == TABLE:
        # what is left of a column: that it crosses zero, or a bound, at some point of the grid
        far = (1 + 1e-12) * (A.max() * np.abs(p) + np.abs(B).max() * np.abs(d))
        left = np.flatnonzero((np.abs(x) <= far) | np.isfinite(table[:, 3]) | np.isfinite(table[:, 4]))
        out[:, _MODEL:] = _kinks(block.size, node[left], table[left], x[left], p[left], d[left])
    elif out[:, 6].any():
        out[:, _MODEL:] = _rest(block, at, x, p, d, out)
    return out


def _derivatives(kind: int, table: Matrix, x: Vector) -> tuple[Vector, Vector]:
    """(g', g'') of columns; a group has no model."""
    l1, l2, linear, lo, hi = table.T
    if kind == GROUPS:
        return np.zeros_like(x), np.zeros_like(x)
    if kind == LOGISTIC_DUAL:
        c, sign = hi - lo, np.where(hi > 0, 1.0, -1.0)
        weighs = c > 0
        p = np.clip(np.divide(np.abs(x), c, out=np.full_like(x, 0.5), where=weighs), _INSIDE, 1 - _INSIDE)
        bend = np.divide(1.0, c * p * (1 - p), out=np.zeros_like(x), where=weighs)
        return np.where(weighs, sign * np.log(p / (1 - p)), 0.0), bend
    return l2 * x + linear + l1 * np.sign(x), l2.copy()


def _kinks(n_nodes: int, node: Indices, table: Matrix, x: Vector, p: Vector, d: Vector) -> Matrix:
    """What L1 and bounds leave beside the model, at the points of the grid; by hand, because of rounding."""
    rest = np.zeros((n_nodes, A.size, B.size))
    if not len(node):
        return rest.reshape(n_nodes, -1)
    there, begins = np.unique(node, return_index=True)
    l1, lo, hi = table[:, 0], table[:, 3], table[:, 4]
    bounded, at_kink = bool(np.isfinite(table[:, 3:]).any()), x == 0
    for i, a in enumerate(A):
        change = a * p + B[:, None] * d
        z = x + change
        left = l1 * np.where(at_kink, np.abs(change), np.where(x * z < 0, 2.0 * np.abs(z), 0.0))
        if bounded:
            left[(z < lo) | (z > hi)] = np.inf
        rest[there, i] = np.add.reduceat(left, begins, axis=1).T
    return rest.reshape(n_nodes, -1)


def _rest(block: Block, at: Indices, x: Vector, p: Vector, d: Vector, out: Matrix) -> Matrix:
    """g of the columns `at` minus its model at the points of the grid; infinite where one would leave its bounds."""
    node, lo, hi = block.node_of[at], block.table[at, 3], block.table[at, 4]
    g = block.g.take(at)
    piece = node[g.pieces(len(at))[:-1]] if block.kind == GROUPS and len(at) else node
    base = np.bincount(piece, g.values(x), minlength=block.size)
    rest = np.empty((block.size, A.size, B.size))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            z = x + a * p + b * d
            outside = np.bincount(node, (z < lo) | (z > hi), minlength=block.size) > 0
            values = np.bincount(piece, g.values(np.clip(z, lo, hi)), minlength=block.size) - base
            bend = 0.5 * (a * a * out[:, 3] + b * b * out[:, 5]) + a * b * out[:, 4]
            rest[:, i, j] = np.where(outside, np.inf, values - (a * out[:, 1] + b * out[:, 2] + bend))
    return rest.reshape(block.size, -1)


class Plane:
    """The objective along the plane, minus what does not change."""

    def __init__(self, f: Smooth, v: Vector, steps: Matrix, totals: Vector) -> None:
        self.f, self.v, self.steps = f, v, steps
        self._shifts: dict[tuple[float, float], float] = {}  # of points where f was evaluated
        self._near = 0.0  # the last of them
        self.won = 0.0  # how far the objective falls to the best point, what is left of g interpolated
        self.slope = totals[1:3].copy()
        self.bend = np.array([[totals[3], totals[4]], [totals[4], totals[5]]])
        self.rest = None if totals[6] == 0 else totals[_MODEL:].reshape(A.size, B.size)
        self.free = np.array([steps[0].any(), steps[1].any() or totals[5] != 0])
        w = f.gradient(v)
        self.w, self.span = w, float(np.linalg.norm(w) * np.linalg.norm(steps, axis=1).sum())
        self.short = f.has_smooth_curvature and self.span <= _SHORT * abs(f.value(v))
        self.noise = _NOISE * self.span if f.is_quadratic or self.short else 0.0
        if f.is_quadratic:  # then its part belongs to the model
            bends = np.stack([f.gradient(v + step) - w for step in steps])
            self.slope += inner(steps, w[None])[:, 0]
            self.bend += inner(bends, steps)

    def values(self, points: Matrix) -> Vector:
        """At these points, a row each, without what is left of g."""
        model: Vector = points @ self.slope + 0.5 * ((points @ self.bend) * points).sum(axis=1)
        if self.short:
            model += [self._rise(c) for c in points]
        elif not self.f.is_quadratic:
            model += [self.f.value(self._at(c)) for c in points]
        return model

    def _rise(self, c: Vector) -> float:
        """f(v + step) - f(v) of a short step, by the mean of the slopes at both ends: a difference of values is lost
        in rounding as soon as the objective is known to the last digit, which x is not by far. (Where the curvature
        jumps, as in Huber's loss, the mean is wrong by as much as there is to win.)
        """
        step, slopes = c @ self.steps, 0.5 * (self.w + self.f.gradient(self._at(c)))
        return float(inner(step[None], slopes[None])[0, 0])

    def value(self, c: Vector) -> float:
        """The same at one."""
        return float(self.values(c[None])[0])

    def _derivatives(self, c: Vector) -> tuple[Vector, Matrix]:
        slope, bend = self.slope + self.bend @ c, self.bend
        if not self.f.is_quadratic:
            at = self._at(c)
            slope = slope + inner(self.steps, self.f.gradient(at)[None])[:, 0]
            bend = bend + self.f.bend(at, self.steps)
        return slope, bend

    def _at(self, c: Vector) -> Vector:
        """The point, or one that f is the same at; f is evaluated at each several times."""
        key = float(c[0]), float(c[1])
        point, self._shifts[key] = self.f.settle(
            self.v + c[0] * self.steps[0] + c[1] * self.steps[1], self._shifts.get(key, self._near)
        )
        self._near = self._shifts[key]
        return point

    def best(self, *, cautious: bool) -> Vector:
        """The minimiser; `cautious` looks at the points of the grid only, where everything is exact."""
        nowhere = np.zeros(2)
        if self.rest is None:
            if not self._falls():
                return nowhere
            c = self._newton(np.array([float(self.free[0]), 0.0]), None)
            self.won = self.value(nowhere) - self.value(c)
            return c
        (i, j), lowest = self._lowest_corner()
        best = corner = np.array([A[i], B[j]])
        self.won = self.value(nowhere) - lowest
        if cautious:
            return best
        slope, _ = self._derivatives(corner)
        for top, right in itertools.product((i, i + 1), (j, j + 1)):
            cell = top, right
            if not (0 < top < A.size and 0 < right < B.size and np.isfinite(self._corners(cell)).all()):
                continue
            inwards = 2 * (top - i) - 1, 2 * (right - j) - 1
            if ((slope + self._interpolate(corner, cell)[1]) * inwards >= 0).all():  # it only rises in there
                continue
            c = self._newton(corner, cell)
            value = self.value(c) + self._interpolate(c, cell)[0]
            if value < lowest:
                lowest, best = value, c
        self.won = self.value(nowhere) - lowest
        return best

    def _lowest_corner(self) -> tuple[tuple[int, int], float]:
        """(the best point of the grid, the value there).

        All are looked at where f is quadratic. Else one goes down from neighbour to neighbour, as long as that helps,
        beginning at x + p or, if that is not allowed, at x.
        """
        assert self.rest is not None
        if self.f.is_quadratic:
            values = self.values(np.stack(np.meshgrid(A, B, indexing="ij"), axis=-1).reshape(-1, 2)) + self.rest.ravel()
            least = int(np.argmin(values))
            return (least // B.size, least % B.size), float(values[least])
        left, known = self.rest, dict[tuple[int, int], float]()

        def value(at: tuple[int, int]) -> float:
            if at not in known:
                rest = float(left[at])
                known[at] = rest + self.value(np.array([A[at[0]], B[at[1]]])) if np.isfinite(rest) else np.inf
            return known[at]

        best = min(_STARTS, key=value)
        while True:
            i, j = best
            around = itertools.product(
                range(max(i - 1, 0), min(i + 2, A.size)), range(max(j - 1, 0), min(j + 2, B.size))
            )
            new = min(around, key=value)
            if not value(new) < value(best):
                return best, value(best)
            best = new

    def _falls(self) -> bool:
        """Whether a slope is more than rounding: a direction that is only rounding would be followed for miles."""
        slope, _ = self._derivatives(np.zeros(2))
        return bool(np.abs(slope).max() > self.noise)

    def _corners(self, cell: tuple[int, int]) -> Matrix:
        """What is left of g at the four corners of a cell."""
        assert self.rest is not None
        return self.rest[cell[0] - 1 : cell[0] + 1, cell[1] - 1 : cell[1] + 1]

    def _interpolate(self, c: Vector, cell: tuple[int, int]) -> tuple[float, Vector, float]:
        """(the rest, its slope, its twist: the only second derivative that it has) inside a cell of the grid."""
        assert self.rest is not None
        i, j = cell
        wide, high = A[i] - A[i - 1], B[j] - B[j - 1]
        s, t = (c[0] - A[i - 1]) / wide, (c[1] - B[j - 1]) / high
        (r00, r01), (r10, r11) = self._corners(cell)
        value = (1 - s) * ((1 - t) * r00 + t * r01) + s * ((1 - t) * r10 + t * r11)
        slope = np.array(
            [((1 - t) * (r10 - r00) + t * (r11 - r01)) / wide, ((1 - s) * (r01 - r00) + s * (r11 - r10)) / high]
        )
        return float(value), slope, float(r11 - r01 - r10 + r00) / (wide * high)

    def _newton(self, c: Vector, cell: tuple[int, int] | None) -> Vector:
        """Newton's method with halving, inside a cell or, where nothing is left of g, anywhere."""
        low, high = np.full(2, -_FARTHEST), np.full(2, _FARTHEST)
        if cell is not None:
            low, high = np.array([A[cell[0] - 1], B[cell[1] - 1]]), np.array([A[cell[0]], B[cell[1]]])
        value = self._total(c, cell)
        for _ in range(30):
            slope, bend = self._derivatives(c)
            if cell is not None:
                _, tilt, twist = self._interpolate(c, cell)
                twisted = bend + np.array([[0.0, twist], [twist, 0.0]])
                slope, bend = slope + tilt, twisted if _is_convex(twisted) else bend
            new = np.clip(c + _step(slope, bend, self.free, c, low, high), low, high)
            if -float(slope @ (new - c)) <= self.noise:  # no value could tell
                return c
            for _ in range(40):
                after = self._total(new, cell)
                if after <= value:
                    break
                new = 0.5 * (new + c)
            else:
                return c
            done = np.abs(new - c).max() <= 1e-9 * (1.0 + np.abs(c).max())
            c, value = new, after
            if done:
                break
        return c

    def _total(self, c: Vector, cell: tuple[int, int] | None) -> float:
        return self.value(c) + (0.0 if cell is None else self._interpolate(c, cell)[0])


def _is_convex(bend: Matrix) -> bool:
    (pp, pd), (dp, dd) = bend
    return bool(pp * dd - pd * dp > 1e-14 * pp * dd > 0)


def _step(slope: Vector, bend: Matrix, free: Flags, c: Vector, low: Vector, high: Vector) -> Vector:
    """Newton's step in those directions that exist and are not held by a bound that the slope presses against."""
    held = ~free | ((c <= low) & (slope > 0)) | ((c >= high) & (slope < 0))
    step, open_ = np.zeros(2), np.flatnonzero(~held)
    if len(open_) == 2:
        if _is_convex(bend):
            return np.asarray(-np.linalg.solve(bend, slope))
        open_ = open_[:1]
    for i in open_:
        step[i] = -slope[i] / bend[i, i] if bend[i, i] > 0 else -np.sign(slope[i])
    return step
