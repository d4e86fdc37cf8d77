"""The best point of a plane x + a p + b d, by numbers that add up over the nodes.

f is known to all nodes along the plane, because A p and A d are. Of g every node tells a second-order model and, at the
points of a small grid, the remainder: g minus the model. Sums over the nodes are model and remainder of all of g.
Between points of the grid the remainder is interpolated; where it is convex (L1, boxes, groups) that is an upper bound,
so the objective falls. If g is quadratic nothing remains, and on a quadratic f the steps are those of conjugate
gradients, preconditioned by the local solver.
"""

import itertools
import math
from collections.abc import Iterator

import numpy as np

from glmesh.core import Block
from glmesh.functions import Smooth
from glmesh.functions.separable import GROUPS, LOGISTIC_DUAL, TABLE
from glmesh.functions.smooth import inner, weighted_sum
from glmesh.kernels.plane import plane_terms
from glmesh.types import Indices, Matrix, Vector

# values of a at which nodes tell g: denser finds kinks closer and sends more numbers per node and sum;
# source: benchmarks/reports/sensitivity.md
GRID_A = np.array([0.0, 0.0625, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5])
# values of b at which nodes tell g, likewise; source: benchmarks/reports/sensitivity.md
GRID_B = np.array([-0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5])
_AS, _BS = GRID_A.tolist(), GRID_B.tolist()
_STARTS = [(_AS.index(1.0), _BS.index(0.0)), (0, _BS.index(0.0))]  # cells of x + p and of x
# numbers of the model, 7 because it is g, slopes along p and d, curvatures pp, pd, dd, whether anything is left of g
MODEL_NUMBERS = 7
WIDTH = MODEL_NUMBERS + GRID_A.size * GRID_B.size  # numbers that a node tells of its g, 504 bytes a sum
# bound of |a| and |b| where g is quadratic, because a step beyond it comes from rounding; source:
# benchmarks/reports/sensitivity.md
FARTHEST = 1e6
# [parts of f] change of f along the plane below which the mean of two slopes says more than a difference of values;
# source: benchmarks/reports/sensitivity.md
SHORT_STEP = 1e-5
# [product of the norms] error of a sum of products, because each product and each addition is rounded
INNER_ROUNDING = 4 * float(np.finfo(float).eps)
# [parts of the way between two bounds] distance to a bound that is kept, because g has the logarithm of it
LOG_MARGIN = 1e-9
# [parts of pp dd] least determinant of a convex model: less is rounding, because pp dd and pd^2 are
LEAST_DETERMINANT = 1e-14
# [parts of 1 + |c|] step below which the search along the plane ends; source: benchmarks/reports/sensitivity.md
SEARCH_TOLERANCE = 1e-9

Point = tuple[float, float]  # (a, b)
Cell = tuple[int, int]  # a cell of the grid, by its corner with the largest a and b
Bend = tuple[float, float, float]  # second derivatives: pp, pd, dd
_HERE = (0.0, 0.0)  # x itself, because a and b count from there


def along(block: Block, x: Vector, p: Vector, d: Vector) -> Matrix:
    """Return WIDTH numbers per hosted node that describe the penalty g_k on the plane x + a p + b d, (n_hosted, WIDTH).

    The first 7 are a second-order model at x: g_k(x), slopes along p and d, second derivatives pp, pd, dd, and 1 if g_k
    is not quadratic, else 0. The others are g_k minus the model at the points (a, b) of GRID_A x GRID_B. x, p and d
    have shape (n_columns,).
    """
    out = np.zeros((block.size, WIDTH))
    if block.kind == TABLE:

        def some(nodes: slice) -> None:
            """Write the penalty terms on the plane of the hosted nodes in a slice to the rows of the array `out`.

            Return nothing.
            """
            starts = block.starts[nodes.start : nodes.stop + 1]
            plane_terms(starts, block.table, x, (p, d), (GRID_A, GRID_B), out[nodes])

        list(block.threads.map(some, block.spans))
    else:
        out[:, 0] = block.node_values(x)
        at = np.arange(len(x)) if block.kind == GROUPS else np.flatnonzero((p != 0) | (d != 0))
        node, x, p, d = block.node_of[at], x[at], p[at], d[at]
        if block.kind == LOGISTIC_DUAL:  # a group has no model
            slope, bend = _logistic_derivatives(block.table[at], x)
            model = slope * p, slope * d, bend * p * p, bend * p * d, bend * d * d
            out[:, 1:6] = np.stack([np.bincount(node, one, minlength=block.size) for one in model], axis=1)
        out[:, MODEL_NUMBERS:] = _remainder(block, at, x, p, d, out)
    out[:, 6] = block.kinked  # of all columns, because in the end those that move are little more than rounding
    return out


def _logistic_derivatives(table: Matrix, x: Vector) -> tuple[Vector, Vector]:
    """Return (first, second) derivative of g, the dual of the logistic loss, at x, each of shape (columns,).

    Both are 0 for columns whose bounds lo and hi are equal: samples without weight. `table` has a row (l1, l2, linear,
    lo, hi) per column.
    """
    lo, hi = table[:, 3], table[:, 4]
    c, sign = hi - lo, np.where(hi > 0, 1.0, -1.0)
    weighs = c > 0
    p = np.clip(np.divide(np.abs(x), c, out=np.full_like(x, 0.5), where=weighs), LOG_MARGIN, 1 - LOG_MARGIN)
    bend = np.divide(1.0, c * p * (1 - p), out=np.zeros_like(x), where=weighs)
    return np.where(weighs, sign * np.log(p / (1 - p)), 0.0), bend


def _remainder(block: Block, at: Indices, x: Vector, p: Vector, d: Vector, out: Matrix) -> Matrix:
    """Return g_k minus its second-order model at the points (a, b) of the grid on x + a p + b d, per hosted node.

    The shape is (n_hosted, grid points). Infinite at points where a variable is out of bounds. Only the columns `at`
    (indices) are looked at, to which x, p and d belong; columns 1 to 5 of `out` have the models' slopes along p and d
    and second derivatives pp, pd and dd, a row per hosted node.
    """
    node, lo, hi = block.node_of[at], block.table[at, 3], block.table[at, 4]
    g = block.g.take(at)
    piece = node[g.pieces(len(at))[:-1]] if block.kind == GROUPS and len(at) else node
    base = np.bincount(piece, g.values(x), minlength=block.size)
    remainder = np.empty((block.size, GRID_A.size, GRID_B.size))
    for i, a in enumerate(GRID_A):
        for j, b in enumerate(GRID_B):
            z = x + a * p + b * d
            outside = np.bincount(node, (z < lo) | (z > hi), minlength=block.size) > 0
            values = np.bincount(piece, g.values(np.clip(z, lo, hi)), minlength=block.size) - base
            bend = 0.5 * (a * a * out[:, 3] + b * b * out[:, 5]) + a * b * out[:, 4]
            remainder[:, i, j] = np.where(outside, np.inf, values - (a * out[:, 1] + b * out[:, 2] + bend))
    return remainder.reshape(block.size, -1)


class Plane:
    """The objective f(Ax) + g(x) as a function of (a, b) on the plane x + a p + b d, up to a constant, and its minimum.

    `v` is Ax, shape (d,); `steps` are A p and A d, shape (2, d); `totals` are the numbers of `along` summed over all
    nodes, shape (WIDTH,). The remainder of g is g minus its second-order model at x. A is the data matrix, x are the
    variables of all nodes.
    """

    def __init__(self, f: Smooth, v: Vector, steps: Matrix, totals: Vector) -> None:
        self.f, self.v, self.steps = f, v, steps
        self._shifts: dict[Point, float] = {}  # shift of each point where f was evaluated
        self._near = 0.0  # the last of these shifts
        self.won = 0.0  # decrease of the objective to the best point, with the remainder of g interpolated
        _, along_p, along_d, pp, pd, dd, kinked = totals[:MODEL_NUMBERS].tolist()
        self.remainder: list[list[float]] | None = None
        if kinked:
            self.remainder = totals[MODEL_NUMBERS:].reshape(GRID_A.size, GRID_B.size).tolist()
        self.free = bool(steps[0].any()), bool(steps[1].any()) or dd != 0
        w = f.gradient(v)
        lengths = math.sqrt(weighted_sum(w, w)), *np.sqrt(inner(steps, steps).diagonal()).tolist()
        self.w, self.span = w, lengths[0] * (lengths[1] + lengths[2])
        self.short = f.has_smooth_curvature and self.span <= SHORT_STEP * abs(f.value(v))
        self.noise = INNER_ROUNDING * self.span if f.is_quadratic or self.short else 0.0
        self.slope: Point = along_p, along_d
        self.bend: Bend = pp, pd, dd
        if f.is_quadratic:  # then f belongs to the model
            self.slope, self.bend = self._with_f(self.slope, self.bend, v, w)

    def _with_f(self, slope: Point, bend: Bend, at: Vector, w: Vector) -> tuple[Point, Bend]:
        """Return ((slope along p, along d), (pp, pd, dd)): those given, plus the derivatives of f along A p and A d.

        pp, pd and dd are second derivatives. w is the gradient of f at the point `at`, both of shape (d,). `slope` and
        `bend` are those given.
        """
        (along_p,), (along_d,) = inner(self.steps, w[None]).tolist()
        (pp, pd), (_, dd) = self.f.bend(at, self.steps).tolist()
        return (slope[0] + along_p, slope[1] + along_d), (bend[0] + pp, bend[1] + pd, bend[2] + dd)

    def value(self, c: Point) -> float:
        """Return the objective at c = (a, b) on the plane, up to a constant, g replaced by its second-order model."""
        (a, b), (along_p, along_d), (pp, pd, dd) = c, self.slope, self.bend
        model = a * along_p + b * along_d + 0.5 * (a * a * pp + b * b * dd) + a * b * pd
        if self.short:
            model += self._rise(c)
        elif not self.f.is_quadratic:
            model += self.f.value(self._at(c))
        return model

    def _rise(self, c: Point) -> float:
        """Return f(v + a A p + b A d) - f(v), a float, for a short step c = (a, b), by the mean of two slopes.

        A difference of values is lost in rounding as soon as the objective is known to the last digit, which x is not
        by far. (Where the curvature jumps, as in Huber's loss, the mean is wrong by as much as there is to win.)
        """
        step, slopes = c[0] * self.steps[0] + c[1] * self.steps[1], 0.5 * (self.w + self.f.gradient(self._at(c)))
        return float(inner(step[None], slopes[None])[0, 0])

    def _derivatives(self, c: Point) -> tuple[Point, Bend]:
        """Return ((slope along p, along d), (pp, pd, dd)), first and second derivatives of the objective at c = (a, b).

        g is replaced by its second-order model at x.
        """
        (a, b), (along_p, along_d), (pp, pd, dd) = c, self.slope, self.bend
        slope = along_p + pp * a + pd * b, along_d + pd * a + dd * b
        if self.f.is_quadratic:
            return slope, self.bend
        at = self._at(c)
        return self._with_f(slope, self.bend, at, self.f.gradient(at))

    def _at(self, c: Point) -> Vector:
        """Return v + a A p + b A d for c = (a, b), shape (d,), or another point of equal f that is quicker to evaluate.

        The number by which the two differ is kept, as a start for the next evaluation at c.
        """
        point, self._shifts[c] = self.f.shifted(
            self.v + c[0] * self.steps[0] + c[1] * self.steps[1], self._shifts.get(c, self._near)
        )
        self._near = self._shifts[c]
        return point

    def best(self, *, cautious: bool) -> Point:
        """Return (a, b) where the objective is least; set `won`, the decrease from x, (a, b) = (0, 0), to there.

        `cautious` looks at the points of the grid only, where g is known exactly.
        """
        if self.remainder is None:
            if not self._falls():
                return _HERE
            c = self._newton((float(self.free[0]), 0.0), None)
            self.won = self.value(_HERE) - self.value(c)
            return c
        (i, j), lowest = self._lowest_corner(self.remainder)
        best = corner = _AS[i], _BS[j]
        for cell in [] if cautious else self._falling_cells(i, j):
            c = self._newton(corner, cell)
            value = self._total(c, cell)
            if value < lowest:
                lowest, best = value, c
        self.won = self.value(_HERE) - lowest
        return best

    def _falling_cells(self, i: int, j: int) -> Iterator[Cell]:
        """Yield the cells of the grid at its point (i, j) into which the objective falls; g is finite at their corners.

        A cell is a rectangle between neighbouring points of the grid, named by the indices (i, j) of its corner with
        the largest a and b.
        """
        corner = _AS[i], _BS[j]
        slope, _ = self._derivatives(corner)
        for cell in itertools.product((i, i + 1), (j, j + 1)):
            top, right = cell
            if not (0 < top < GRID_A.size and 0 < right < GRID_B.size and all(map(math.isfinite, self._corners(cell)))):
                continue
            _, tilt, _ = self._interpolate(corner, cell)
            inwards = 2 * (top - i) - 1, 2 * (right - j) - 1
            if not all((s + t) * way >= 0 for s, t, way in zip(slope, tilt, inwards, strict=True)):
                yield cell

    def _lowest_corner(self, remainder: list[list[float]]) -> tuple[Cell, float]:
        """Return (indices (i, j) of the grid point with the least objective, the objective there).

        `remainder[i][j]` is g minus its model at a = GRID_A[i], b = GRID_B[j]. All points are looked at where f is
        quadratic. Else the search goes down from neighbour to neighbour, from x + p or, if that is out of bounds, from
        x.
        """
        known = dict[Cell, float]()

        def value(at: Cell) -> float:
            """Return the objective, a float, at the grid point with the indices `at` = (i, j).

            Each is computed once.
            """
            if at not in known:
                i, j = at
                known[at] = (
                    remainder[i][j] + self.value((_AS[i], _BS[j])) if math.isfinite(remainder[i][j]) else math.inf
                )
            return known[at]

        if self.f.is_quadratic:
            best = min(itertools.product(range(GRID_A.size), range(GRID_B.size)), key=value)
            return best, value(best)
        best = min(_STARTS, key=value)
        while True:
            i, j = best
            around = itertools.product(
                range(max(i - 1, 0), min(i + 2, GRID_A.size)), range(max(j - 1, 0), min(j + 2, GRID_B.size))
            )
            new = min(around, key=value)
            if not value(new) < value(best):
                return best, value(best)
            best = new

    def _falls(self) -> bool:
        """Return whether the objective's slope at x along p or d is more than rounding.

        If it is not, no step can win anything.
        """
        slope, _ = self._derivatives(_HERE)
        return max(map(abs, slope)) > self.noise

    def _corners(self, cell: Cell) -> tuple[float, float, float, float]:
        """Return g minus its model at the corners (i-1, j-1), (i-1, j), (i, j-1), (i, j) of the grid's cell (i, j)."""
        assert self.remainder is not None
        (i, j), remainder = cell, self.remainder
        return remainder[i - 1][j - 1], remainder[i - 1][j], remainder[i][j - 1], remainder[i][j]

    def _interpolate(self, c: Point, cell: Cell) -> tuple[float, Point, float]:
        """Return (r, (dr/da, dr/db), d2r/dadb) at c = (a, b), floats, where r is g minus its second-order model at x.

        r is interpolated bilinearly between the corners of `cell`, which contains c.
        """
        i, j = cell
        wide, high = _AS[i] - _AS[i - 1], _BS[j] - _BS[j - 1]
        s, t = (c[0] - _AS[i - 1]) / wide, (c[1] - _BS[j - 1]) / high
        r00, r01, r10, r11 = self._corners(cell)
        value = (1 - s) * ((1 - t) * r00 + t * r01) + s * ((1 - t) * r10 + t * r11)
        slope = ((1 - t) * (r10 - r00) + t * (r11 - r01)) / wide, ((1 - s) * (r01 - r00) + s * (r11 - r10)) / high
        return value, slope, (r11 - r01 - r10 + r00) / (wide * high)

    def _newton(self, c: Point, cell: Cell | None) -> Point:
        """Return the minimiser (a, b) of the objective in the plane, by Newton's method from the point c.

        The search stays within a cell of the grid, on which g minus its model is interpolated. `cell` None: g is its
        model, and abs(a) and abs(b) stay below FARTHEST. Steps that do not decrease the objective are halved.
        """
        low, high = (-FARTHEST, -FARTHEST), (FARTHEST, FARTHEST)
        if cell is not None:
            low, high = (_AS[cell[0] - 1], _BS[cell[1] - 1]), (_AS[cell[0]], _BS[cell[1]])
        value = self._total(c, cell)
        for _ in range(30):  # a handful is enough, unless rounding keeps the search from ending
            slope, bend = self._derivatives_inside(c, cell)
            held = [
                not free or (at <= least and s > 0) or (at >= most and s < 0)
                for free, at, s, least, most in zip(self.free, c, slope, low, high, strict=True)
            ]
            step = _step(slope, bend, held[0], held[1])
            new = _inside(c[0] + step[0], low[0], high[0]), _inside(c[1] + step[1], low[1], high[1])
            if -(slope[0] * (new[0] - c[0]) + slope[1] * (new[1] - c[1])) <= self.noise:  # no value could tell
                return c
            for _ in range(40):  # 2^-40 of a step is less than SEARCH_TOLERANCE
                after = self._total(new, cell)
                if after <= value:
                    break
                new = 0.5 * (new[0] + c[0]), 0.5 * (new[1] + c[1])
            else:
                return c
            moved = max(abs(new[0] - c[0]), abs(new[1] - c[1]))
            done = moved <= SEARCH_TOLERANCE * (1.0 + max(abs(c[0]), abs(c[1])))
            c, value = new, after
            if done:
                break
        return c

    def _derivatives_inside(self, c: Point, cell: Cell | None) -> tuple[Point, Bend]:
        """Return ((slope along p, along d), (pp, pd, dd)), derivatives of the objective at c = (a, b), g interpolated.

        The interpolation is inside `cell`; its mixed derivative is left out if the objective were not convex with it.
        `cell` None: g is its second-order model at x.
        """
        slope, bend = self._derivatives(c)
        if cell is None:
            return slope, bend
        _, tilt, twist = self._interpolate(c, cell)
        twisted = bend[0], bend[1] + twist, bend[2]
        return (slope[0] + tilt[0], slope[1] + tilt[1]), twisted if _is_convex(twisted) else bend

    def _total(self, c: Point, cell: Cell | None) -> float:
        """Return the objective, up to a constant, at c = (a, b) of the plane x + a p + b d, a float.

        The penalty minus its second-order model is interpolated in `cell`, a rectangle of the grid; None: it counts as
        0.
        """
        return self.value(c) + (0.0 if cell is None else self._interpolate(c, cell)[0])


def _inside(value: float, low: float, high: float) -> float:
    """Return `value`, clipped to [low, high]."""
    return min(max(value, low), high)


def _is_convex(bend: Bend) -> bool:
    """Return whether second derivatives `bend` = (aa, ab, bb) are those of a strictly convex function of (a, b).

    The determinant must be positive by more than rounding.
    """
    pp, pd, dd = bend
    return pp * dd - pd * pd > LEAST_DETERMINANT * pp * dd > 0


def _step(slope: Point, bend: Bend, a_held: bool, b_held: bool) -> Point:
    """Return Newton's step (in a, in b) from slopes (along a, along b) and second derivatives `bend` = (aa, ab, bb).

    The step is 0 in a if `a_held`, in b if `b_held`: a direction that is zero or presses against a bound is held.
    """
    pp, pd, dd = bend
    if not a_held and not b_held:
        if _is_convex(bend):
            b = -(slope[1] - pd / pp * slope[0]) / (dd - pd / pp * pd)
            return -(slope[0] + pd * b) / pp, b
        b_held = True
    return (0.0 if a_held else _one_step(slope[0], pp)), (0.0 if b_held else _one_step(slope[1], dd))


def _one_step(slope: float, bend: float) -> float:
    """Return Newton's step -slope/bend along one direction, a float.

    Without curvature (bend <= 0) it is a step of length 1 downhill, or 0 without slope.
    """
    return -slope / bend if bend > 0 else -math.copysign(1.0, slope) if slope else 0.0
