"""The best point of a plane x + a p + b d, by numbers that add up over the nodes.

f is known to everybody along the plane, because A p and A d are. Of g every node tells a second-order model and, at the
points of a small grid, what is left: sums of those are the same of the whole g. Between points of the grid the rest is
interpolated; where it is convex (L1, boxes, groups) that is an upper bound, so the objective falls. If g is quadratic
nothing is left, and on a quadratic f the steps are those of conjugate gradients, preconditioned by the local solver.
"""

from __future__ import annotations

import numpy as np

from glmesh.block import Block
from glmesh.functions import Smooth
from glmesh.functions.separable import GROUPS, LOGISTIC_DUAL, TABLE
from glmesh.types import Flags, Indices, Matrix, Vector

A = np.array([0.0, 0.0625, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5])
B = np.array([-0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5])
_MODEL = 7  # g, slope along p and d, curvature pp, pd, dd, whether anything is left
WIDTH = _MODEL + A.size * B.size
_FARTHEST = 1e6  # of a and b where g is quadratic: beyond it there is only rounding
_INSIDE = 1e-9  # of the way to a bound is left, so that no logarithm of zero is needed


def along(block: Block, x: Vector, p: Vector, d: Vector) -> Matrix:
    """What every hosted node tells of its g along the plane: a row each."""
    node = block.node_of
    out = np.zeros((block.size, WIDTH))
    out[:, 0] = [block.terms[k].value(x[block.of_node(k)]) for k in range(block.size)]
    slope, bend, smooth = _derivatives(block, x)
    for column, values in enumerate((slope * p, slope * d, bend * p * p, bend * p * d, bend * d * d), start=1):
        out[:, column] = np.bincount(node, values, minlength=block.size)
    out[:, 6] = [0.0 if smooth[block.of_node(k)].all() else 1.0 for k in range(block.size)]
    if out[:, 6].any():
        out[:, _MODEL:] = _rest(block, x, p, d, node, out)
    return out


def _derivatives(block: Block, x: Vector) -> tuple[Vector, Vector, Flags]:
    """(g', g'', whether that is all of g) of every column; a group has no model."""
    l1, l2, linear, lo, hi = block.table.T
    if block.kind == GROUPS:
        return np.zeros_like(x), np.zeros_like(x), np.zeros(len(x), dtype=bool)
    if block.kind == LOGISTIC_DUAL:
        c, sign = hi - lo, np.where(hi > 0, 1.0, -1.0)
        weighs = c > 0
        p = np.clip(np.divide(np.abs(x), c, out=np.full_like(x, 0.5), where=weighs), _INSIDE, 1 - _INSIDE)
        bend = np.divide(1.0, c * p * (1 - p), out=np.zeros_like(x), where=weighs)
        return np.where(weighs, sign * np.log(p / (1 - p)), 0.0), bend, np.zeros(len(x), dtype=bool)
    return l2 * x + linear + l1 * np.sign(x), l2.copy(), (l1 == 0) & np.isinf(lo) & np.isinf(hi)


def _rest(block: Block, x: Vector, p: Vector, d: Vector, node: Indices, out: Matrix) -> Matrix:
    """g minus its model at the points of the grid, per node; infinite where a variable would leave its bounds."""
    lo, hi = block.table[:, 3], block.table[:, 4]
    moves = (p != 0) | (d != 0)
    if block.kind == GROUPS:
        moves[:] = True
    at, where = np.flatnonzero(moves), node[moves]
    g = block.g.take(at)
    piece = where[g.pieces(len(at))[:-1]] if block.kind == GROUPS and len(at) else where
    base = np.bincount(piece, g.values(x[at]), minlength=block.size)
    rest = np.empty((block.size, A.size, B.size))
    any_d = bool(d.any())
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            if b != 0 and not any_d:
                rest[:, i, j] = 0.0  # the same point as with b = 0; filled below
                continue
            change = a * p[at] + b * d[at]
            z = x[at] + change
            outside = np.bincount(where, (z < lo[at]) | (z > hi[at]), minlength=block.size) > 0
            if block.kind == TABLE:  # all but the kink of L1 is in the model; by hand, because of rounding
                crossed = np.where(x[at] * z < 0, 2.0 * np.abs(z), 0.0)
                kinks = block.table[at, 0] * np.where(x[at] == 0, np.abs(change), crossed)
                left = np.bincount(where, kinks, minlength=block.size)
            else:
                values = np.bincount(piece, g.values(np.clip(z, lo[at], hi[at])), minlength=block.size) - base
                bend = 0.5 * (a * a * out[:, 3] + b * b * out[:, 5]) + a * b * out[:, 4]
                left = values - (a * out[:, 1] + b * out[:, 2] + bend)
            rest[:, i, j] = np.where(outside, np.inf, left)
    if not any_d:
        rest[:] = rest[:, :, [int(np.flatnonzero(B == 0)[0])]]
    return rest.reshape(block.size, -1)


class Plane:
    """The objective along the plane, minus what does not change."""

    def __init__(self, f: Smooth, v: Vector, steps: Matrix, totals: Vector) -> None:
        self.f, self.v, self.steps = f, v, steps
        self.won = 0.0  # how far the objective falls to the best point, what is left of g interpolated
        self.slope = totals[1:3].copy()
        self.bend = np.array([[totals[3], totals[4]], [totals[4], totals[5]]])
        self.rest = None if totals[6] == 0 else totals[_MODEL:].reshape(A.size, B.size)
        self.free = np.array([steps[0].any(), steps[1].any() or totals[5] != 0])
        if f.is_quadratic:  # then its part belongs to the model
            w = f.gradient(v)
            bends = [f.gradient(v + step) - w for step in steps]
            self.slope += steps @ w
            self.bend += np.array([[bend @ step for step in steps] for bend in bends])

    def value(self, c: Vector) -> float:
        """Without what is left of g."""
        model = float(self.slope @ c + 0.5 * c @ self.bend @ c)
        return model if self.f.is_quadratic else model + self.f.value(self.v + c @ self.steps)

    def _derivatives(self, c: Vector) -> tuple[Vector, Matrix]:
        slope, bend = self.slope + self.bend @ c, self.bend
        if not self.f.is_quadratic:
            at = self.v + c @ self.steps
            slope = slope + self.steps @ self.f.gradient(at)
            bend = bend + (self.steps * self.f.curvature(at)) @ self.steps.T
        return slope, bend

    def best(self, *, cautious: bool) -> Vector:
        """The minimiser; `cautious` looks at the points of the grid only, where everything is exact."""
        nowhere = np.zeros(2)
        if self.rest is None:
            c = self._newton(np.array([float(self.free[0]), 0.0]), None)
            self.won = self.value(nowhere) - self.value(c)
            return c
        points = [(i, j) for i in range(A.size) for j in range(B.size) if np.isfinite(self.rest[i, j])]
        values = [self.value(np.array([A[i], B[j]])) + self.rest[i, j] for i, j in points]
        if not points:
            return nowhere
        least = int(np.argmin(values))
        (i, j), lowest = points[least], values[least]
        best = np.array([A[i], B[j]])
        start = best
        self.won = self.value(nowhere) - lowest
        if cautious:
            return best
        for top in (i, i + 1):
            for right in (j, j + 1):
                if (
                    0 < top < A.size
                    and 0 < right < B.size
                    and np.isfinite(self.rest[top - 1 : top + 1, right - 1 : right + 1]).all()
                ):
                    c = self._newton(start, (top, right))
                    value = self.value(c) + self._interpolate(c, (top, right))[0]
                    if value < lowest:
                        lowest, best = value, c
        self.won = self.value(nowhere) - lowest
        return best

    def _interpolate(self, c: Vector, cell: tuple[int, int]) -> tuple[float, Vector]:
        """(the rest, its slope) inside a cell of the grid."""
        assert self.rest is not None
        i, j = cell
        wide, high = A[i] - A[i - 1], B[j] - B[j - 1]
        s, t = (c[0] - A[i - 1]) / wide, (c[1] - B[j - 1]) / high
        (r00, r01), (r10, r11) = self.rest[i - 1 : i + 1, j - 1 : j + 1]
        value = (1 - s) * ((1 - t) * r00 + t * r01) + s * ((1 - t) * r10 + t * r11)
        slope = np.array(
            [((1 - t) * (r10 - r00) + t * (r11 - r01)) / wide, ((1 - s) * (r01 - r00) + s * (r11 - r10)) / high]
        )
        return float(value), slope

    def _newton(self, c: Vector, cell: tuple[int, int] | None) -> Vector:
        """Newton's method with halving, inside a cell or, where nothing is left of g, anywhere."""
        low, high = np.full(2, -_FARTHEST), np.full(2, _FARTHEST)
        if cell is not None:
            low, high = np.array([A[cell[0] - 1], B[cell[1] - 1]]), np.array([A[cell[0]], B[cell[1]]])
        value = self._total(c, cell)
        for _ in range(30):
            slope, bend = self._derivatives(c)
            if cell is not None:
                slope = slope + self._interpolate(c, cell)[1]
            new = np.clip(c + _step(slope, bend, self.free, c, low, high), low, high)
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


def _step(slope: Vector, bend: Matrix, free: Flags, c: Vector, low: Vector, high: Vector) -> Vector:
    """Newton's step in those directions that exist and are not held by a bound that the slope presses against."""
    held = ~free | ((c <= low) & (slope > 0)) | ((c >= high) & (slope < 0))
    step, open_ = np.zeros(2), np.flatnonzero(~held)
    if len(open_) == 2:
        determinant = bend[0, 0] * bend[1, 1] - bend[0, 1] * bend[1, 0]
        if determinant > 1e-14 * bend[0, 0] * bend[1, 1] > 0:
            return np.asarray(-np.linalg.solve(bend, slope))
        open_ = open_[:1]
    for i in open_:
        step[i] = -slope[i] / bend[i, i] if bend[i, i] > 0 else -np.sign(slope[i])
    return step
