"""The best point of a plane x + a p + b d, by numbers that add up over the nodes.

f is known to everybody along the plane, because A p and A d are. Of g every node tells a second-order model and, at the
points of a small grid, what is left: sums of those are the same of the whole g. Between points of the grid the rest is
interpolated; where it is convex (L1, boxes, groups) that is an upper bound, so the objective falls. If g is quadratic
nothing is left, and on a quadratic f the steps are those of conjugate gradients, preconditioned by the local solver.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from glmesh.core.block import Block
from glmesh.functions import Smooth
from glmesh.functions.separable import GROUPS, LOGISTIC_DUAL, TABLE
from glmesh.functions.smooth import inner, weighted_sum
from glmesh.kernels.plane import plane_terms
from glmesh.types import Indices, Matrix, Vector

A = np.array([0.0, 0.0625, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5])
B = np.array([-0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5])
_AS, _BS = A.tolist(), B.tolist()
_STARTS = [(_AS.index(1.0), _BS.index(0.0)), (0, _BS.index(0.0))]  # x + p, x
_MODEL = 7  # g, slope along p and d, curvature pp, pd, dd, whether anything is left
WIDTH = _MODEL + A.size * B.size
_FARTHEST = 1e6  # of a and b where g is quadratic: beyond it there is only rounding
_SHORT = 1e-5  # of f, what it changes along the plane, below which slopes say more than values
_NOISE = 4 * float(np.finfo(float).eps)  # of a sum of products, beside the product of the norms
_INSIDE = 1e-9  # of the way to a bound is left, so that no logarithm of zero is needed

Point = tuple[float, float]  # (a, b)
Cell = tuple[int, int]  # of the grid, by its corner with the largest a and b
Bend = tuple[float, float, float]  # second derivatives: pp, pd, dd
_HERE = (0.0, 0.0)


def along(block: Block, x: Vector, p: Vector, d: Vector) -> Matrix:
    """What every hosted node tells of its g along the plane: a row each."""
    out = np.zeros((block.size, WIDTH))
    if block.kind == TABLE:

        def some(nodes: slice) -> None:
            plane_terms(block.starts[nodes.start : nodes.stop + 1], block.table, x, p, d, A, B, out[nodes])

        block.threads.each(some, block.spans)
    else:
        out[:, 0] = block.node_values(x)
        at = np.arange(len(x)) if block.kind == GROUPS else np.flatnonzero((p != 0) | (d != 0))
        node, x, p, d = block.node_of[at], x[at], p[at], d[at]
        if block.kind == LOGISTIC_DUAL:  # a group has no model
            slope, bend = _logistic_derivatives(block.table[at], x)
            model = slope * p, slope * d, bend * p * p, bend * p * d, bend * d * d
            out[:, 1:6] = np.stack([np.bincount(node, one, minlength=block.size) for one in model], axis=1)
        out[:, _MODEL:] = _rest(block, at, x, p, d, out)
    out[:, 6] = block.kinked  # of all columns: what moves is little more than rounding in the end
    return out


def _logistic_derivatives(table: Matrix, x: Vector) -> tuple[Vector, Vector]:
    """(g', g'') of the columns of a logistic dual."""
    lo, hi = table[:, 3], table[:, 4]
    c, sign = hi - lo, np.where(hi > 0, 1.0, -1.0)
    weighs = c > 0
    p = np.clip(np.divide(np.abs(x), c, out=np.full_like(x, 0.5), where=weighs), _INSIDE, 1 - _INSIDE)
    bend = np.divide(1.0, c * p * (1 - p), out=np.zeros_like(x), where=weighs)
    return np.where(weighs, sign * np.log(p / (1 - p)), 0.0), bend


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
        self._shifts: dict[Point, float] = {}  # of points where f was evaluated
        self._near = 0.0  # the last of them
        self.won = 0.0  # how far the objective falls to the best point, what is left of g interpolated
        _, along_p, along_d, pp, pd, dd, kinked = totals[:_MODEL].tolist()
        self.rest: list[list[float]] | None = None
        if kinked:
            self.rest = totals[_MODEL:].reshape(A.size, B.size).tolist()
        self.free = bool(steps[0].any()), bool(steps[1].any()) or dd != 0
        w = f.gradient(v)
        lengths = math.sqrt(weighted_sum(w, w)), *np.sqrt(inner(steps, steps).diagonal()).tolist()
        self.w, self.span = w, lengths[0] * (lengths[1] + lengths[2])
        self.short = f.has_smooth_curvature and self.span <= _SHORT * abs(f.value(v))
        self.noise = _NOISE * self.span if f.is_quadratic or self.short else 0.0
        self.slope: Point = along_p, along_d
        self.bend: Bend = pp, pd, dd
        if f.is_quadratic:  # then its part belongs to the model
            self.slope, self.bend = self._with_f(self.slope, self.bend, v, w)

    def _with_f(self, slope: Point, bend: Bend, at: Vector, w: Vector) -> tuple[Point, Bend]:
        """Together with what f has at a point of the plane, where its gradient is w."""
        (along_p,), (along_d,) = inner(self.steps, w[None]).tolist()
        (pp, pd), (_, dd) = self.f.bend(at, self.steps).tolist()
        return (slope[0] + along_p, slope[1] + along_d), (bend[0] + pp, bend[1] + pd, bend[2] + dd)

    def value(self, c: Point) -> float:
        """At this point, without what is left of g."""
        (a, b), (along_p, along_d), (pp, pd, dd) = c, self.slope, self.bend
        model = a * along_p + b * along_d + 0.5 * (a * a * pp + b * b * dd) + a * b * pd
        if self.short:
            model += self._rise(c)
        elif not self.f.is_quadratic:
            model += self.f.value(self._at(c))
        return model

    def _rise(self, c: Point) -> float:
        """f(v + step) - f(v) of a short step, by the mean of the slopes at both ends: a difference of values is lost
        in rounding as soon as the objective is known to the last digit, which x is not by far. (Where the curvature
        jumps, as in Huber's loss, the mean is wrong by as much as there is to win.)
        """
        step, slopes = c[0] * self.steps[0] + c[1] * self.steps[1], 0.5 * (self.w + self.f.gradient(self._at(c)))
        return float(inner(step[None], slopes[None])[0, 0])

    def _derivatives(self, c: Point) -> tuple[Point, Bend]:
        """(slope, second derivatives) at this point, without what is left of g."""
        (a, b), (along_p, along_d), (pp, pd, dd) = c, self.slope, self.bend
        slope = along_p + pp * a + pd * b, along_d + pd * a + dd * b
        if self.f.is_quadratic:
            return slope, self.bend
        at = self._at(c)
        return self._with_f(slope, self.bend, at, self.f.gradient(at))

    def _at(self, c: Point) -> Vector:
        """The point, or one that f is the same at; f is evaluated at each several times."""
        point, self._shifts[c] = self.f.shifted(
            self.v + c[0] * self.steps[0] + c[1] * self.steps[1], self._shifts.get(c, self._near)
        )
        self._near = self._shifts[c]
        return point

    def best(self, *, cautious: bool) -> Point:
        """The minimiser; `cautious` looks at the points of the grid only, where everything is exact."""
        if self.rest is None:
            if not self._falls():
                return _HERE
            c = self._newton((float(self.free[0]), 0.0), None)
            self.won = self.value(_HERE) - self.value(c)
            return c
        (i, j), lowest = self._lowest_corner(self.rest)
        best = corner = _AS[i], _BS[j]
        if not cautious:
            slope, _ = self._derivatives(corner)
            for top, right in itertools.product((i, i + 1), (j, j + 1)):
                cell = top, right
                if not (0 < top < A.size and 0 < right < B.size and all(map(math.isfinite, self._corners(cell)))):
                    continue
                _, tilt, _ = self._interpolate(corner, cell)
                inwards = 2 * (top - i) - 1, 2 * (right - j) - 1
                if all((s + t) * way >= 0 for s, t, way in zip(slope, tilt, inwards, strict=True)):
                    continue  # it only rises in there
                c = self._newton(corner, cell)
                value = self._total(c, cell)
                if value < lowest:
                    lowest, best = value, c
        self.won = self.value(_HERE) - lowest
        return best

    def _lowest_corner(self, rest: list[list[float]]) -> tuple[Cell, float]:
        """(the best point of the grid, the value there).

        All are looked at where f is quadratic. Else one goes down from neighbour to neighbour, as long as that helps,
        beginning at x + p or, if that is not allowed, at x.
        """
        known = dict[Cell, float]()

        def value(at: Cell) -> float:
            if at not in known:
                i, j = at
                known[at] = rest[i][j] + self.value((_AS[i], _BS[j])) if math.isfinite(rest[i][j]) else math.inf
            return known[at]

        if self.f.is_quadratic:
            best = min(itertools.product(range(A.size), range(B.size)), key=value)
            return best, value(best)
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
        slope, _ = self._derivatives(_HERE)
        return max(map(abs, slope)) > self.noise

    def _corners(self, cell: Cell) -> tuple[float, float, float, float]:
        """What is left of g at the four corners of a cell."""
        assert self.rest is not None
        (i, j), rest = cell, self.rest
        return rest[i - 1][j - 1], rest[i - 1][j], rest[i][j - 1], rest[i][j]

    def _interpolate(self, c: Point, cell: Cell) -> tuple[float, Point, float]:
        """(the rest, its slope, its twist: the only second derivative that it has) inside a cell of the grid."""
        i, j = cell
        wide, high = _AS[i] - _AS[i - 1], _BS[j] - _BS[j - 1]
        s, t = (c[0] - _AS[i - 1]) / wide, (c[1] - _BS[j - 1]) / high
        r00, r01, r10, r11 = self._corners(cell)
        value = (1 - s) * ((1 - t) * r00 + t * r01) + s * ((1 - t) * r10 + t * r11)
        slope = ((1 - t) * (r10 - r00) + t * (r11 - r01)) / wide, ((1 - s) * (r01 - r00) + s * (r11 - r10)) / high
        return value, slope, (r11 - r01 - r10 + r00) / (wide * high)

    def _newton(self, c: Point, cell: Cell | None) -> Point:
        """Newton's method with halving, inside a cell or, where nothing is left of g, anywhere."""
        low, high = (-_FARTHEST, -_FARTHEST), (_FARTHEST, _FARTHEST)
        if cell is not None:
            low, high = (_AS[cell[0] - 1], _BS[cell[1] - 1]), (_AS[cell[0]], _BS[cell[1]])
        value = self._total(c, cell)
        for _ in range(30):
            slope, bend = self._derivatives(c)
            if cell is not None:
                _, tilt, twist = self._interpolate(c, cell)
                slope, twisted = (slope[0] + tilt[0], slope[1] + tilt[1]), (bend[0], bend[1] + twist, bend[2])
                bend = twisted if _is_convex(twisted) else bend
            held = [
                not free or (at <= least and s > 0) or (at >= most and s < 0)
                for free, at, s, least, most in zip(self.free, c, slope, low, high, strict=True)
            ]
            step = _step(slope, bend, held[0], held[1])
            new = _inside(c[0] + step[0], low[0], high[0]), _inside(c[1] + step[1], low[1], high[1])
            if -(slope[0] * (new[0] - c[0]) + slope[1] * (new[1] - c[1])) <= self.noise:  # no value could tell
                return c
            for _ in range(40):
                after = self._total(new, cell)
                if after <= value:
                    break
                new = 0.5 * (new[0] + c[0]), 0.5 * (new[1] + c[1])
            else:
                return c
            moved = max(abs(new[0] - c[0]), abs(new[1] - c[1]))
            done = moved <= 1e-9 * (1.0 + max(abs(c[0]), abs(c[1])))
            c, value = new, after
            if done:
                break
        return c

    def _total(self, c: Point, cell: Cell | None) -> float:
        return self.value(c) + (0.0 if cell is None else self._interpolate(c, cell)[0])


def _inside(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _is_convex(bend: Bend) -> bool:
    pp, pd, dd = bend
    return pp * dd - pd * pd > 1e-14 * pp * dd > 0


def _step(slope: Point, bend: Bend, a_held: bool, b_held: bool) -> Point:
    """Newton's step in those directions that are not held: they do not exist, or the slope presses against a bound."""
    pp, pd, dd = bend
    if not a_held and not b_held:
        if _is_convex(bend):
            b = -(slope[1] - pd / pp * slope[0]) / (dd - pd / pp * pd)
            return -(slope[0] + pd * b) / pp, b
        b_held = True
    return (0.0 if a_held else _one_step(slope[0], pp)), (0.0 if b_held else _one_step(slope[1], dd))


def _one_step(slope: float, bend: float) -> float:
    return -slope / bend if bend > 0 else -math.copysign(1.0, slope) if slope else 0.0
