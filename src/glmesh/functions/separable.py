"""Separable g(x) = sum_i g_i(x_i): penalties, and the duals of losses."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, xlogy

from glmesh.errors import InvalidInput
from glmesh.types import AnyArray, Indices, Vector

# What the compiled kernels do with a column's row of the table.
TABLE, LOGISTIC_DUAL, GROUPS = 0, 1, 2


class Separable(ABC):
    """g(x) = sum over pieces of g_p(x_p); a piece is one column, or one group of them."""

    kind: ClassVar[int]

    @abstractmethod
    def values(self, x: Vector) -> Vector:
        """g_p(x_p) for every piece."""

    @abstractmethod
    def conjugates(self, u: Vector) -> Vector:
        """g_p*(u_p) = sup_x <u_p, x> - g_p(x) for every piece."""

    @abstractmethod
    def conjugate_subgradient(self, u: Vector) -> Vector:
        """A maximiser of <u, x> - g(x), that is, an element of the subdifferential of g* at u."""

    @abstractmethod
    def slacks(self, x: Vector, u: Vector) -> Vector:
        """g_p(x_p) + g_p*(u_p) - <x_p, u_p> >= 0 for every piece: how far u_p is from a subgradient at x_p."""

    @abstractmethod
    def prox(self, z: Vector, step: float | Vector) -> Vector:
        """argmin_x g(x) + |x - z|^2 / (2 step)."""

    @property
    @abstractmethod
    def support_bound(self) -> Vector:
        """L with g_i(x_i) < inf only for |x_i| <= L_i (infinite where there is none)."""

    @property
    @abstractmethod
    def strong_convexity(self) -> float:
        """The largest mu for which g - mu/2 |x|^2 is convex."""

    @abstractmethod
    def take(self, columns: Indices | slice) -> Separable:
        """g restricted to these columns, in this order."""

    @abstractmethod
    def join(self, parts: Sequence[Separable], sizes: Sequence[int]) -> Separable:
        """Several g of this kind, side by side, on columns of these sizes."""

    @abstractmethod
    def scaled(self, factor: float) -> Separable:
        """factor * g."""

    @abstractmethod
    def kernel_rows(self, n: int) -> Vector:
        """The n x 5 table (l1, l2, linear, lo, hi) that the kernels read."""

    @abstractmethod
    def check_size(self, n: int) -> None:
        """Refuse to be used on a number of columns it was not made for."""

    def value(self, x: Vector) -> float:
        """g(x)."""
        return float(self.values(x).sum())

    def conjugate(self, u: Vector) -> float:
        """g*(u)."""
        return float(self.conjugates(u).sum())

    # What a dual point scaled towards zero needs (math: the scaled dual point for L1).

    @property
    def needs_scaling(self) -> bool:
        """Whether g* is infinite somewhere, so that a dual point may have to be shrunk into its domain."""
        return False

    def ray_limit(self, u: Vector, radius: Vector) -> float:
        """The largest s such that s*u' is in the domain of g* for every |u'_p - u_p| <= radius_p.

        Negative if not even s = 0 is in the domain.
        """
        return np.inf

    def worst_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """max of g_p*(u'_p) over |u'_p - u_p| <= radius_p: convex, so an end of the interval."""
        return np.maximum(self.conjugates(u - radius), self.conjugates(u + radius))

    def cut_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """worst_conjugates of a g that is cut to a finite conjugate, equal to g* wherever that one is finite."""
        return self.worst_conjugates(u, radius)

    def pieces(self, n: int) -> Indices:
        """The first column of every piece, and n at the end."""
        return np.arange(n + 1)


def check_rows(y: Vector, c: Vector, *, labels: bool) -> None:
    """Refuse targets (or labels) and weights that no loss can be made of."""
    if labels and not (np.abs(y) == 1).all():
        raise InvalidInput("labels must be -1 or 1")
    if y.ndim != 1 or not np.isfinite(y).all():
        raise InvalidInput("targets must be finite and in one dimension")
    if c.shape != y.shape or not (c >= 0).all() or not np.isfinite(c).all():
        raise InvalidInput("weights must be finite, >= 0 and one per target")


def _soft(z: Vector, threshold: Vector | float) -> Vector:
    return np.asarray(np.sign(z) * np.maximum(np.abs(z) - threshold, 0.0))


def _shortest(room: Vector, reach: Vector) -> float:
    """min room/reach, for reach > 0 as small as can be."""
    with np.errstate(over="ignore"):
        return float((room / reach).min())


@dataclass(frozen=True, eq=False)
class Table(Separable):
    """sum_i l1_i |x_i| + l2_i/2 x_i^2 + linear_i x_i, on lo_i <= x_i <= hi_i.

    Each field is a number for all columns or an array with one number per column.
    """

    l1: Vector = dataclasses.field(default_factory=lambda: np.zeros(()))
    l2: Vector = dataclasses.field(default_factory=lambda: np.zeros(()))
    linear: Vector = dataclasses.field(default_factory=lambda: np.zeros(()))
    lo: Vector = dataclasses.field(default_factory=lambda: np.full((), -np.inf))
    hi: Vector = dataclasses.field(default_factory=lambda: np.full((), np.inf))

    kind = TABLE
    _FIELDS: ClassVar = ("l1", "l2", "linear", "lo", "hi")

    def __post_init__(self) -> None:
        size = None
        for name in self._FIELDS:
            array = np.asarray(getattr(self, name), dtype=np.float64)
            if array.ndim > 1:
                raise InvalidInput(f"{name} has {array.ndim} dimensions; give a number or one per column")
            if np.isnan(array).any():
                raise InvalidInput(f"{name} holds NaN")
            if array.ndim == 1:
                if size is not None and len(array) != size[1]:
                    raise InvalidInput(
                        f"{name} has {len(array)} entries but {size[0]} has {size[1]}; both are one per column"
                    )
                size = (name, len(array))
            object.__setattr__(self, name, array)
        for name in ("l1", "l2"):
            if not (getattr(self, name) >= 0).all() or not np.isfinite(getattr(self, name)).all():
                raise InvalidInput(f"the penalty {name} must be finite and >= 0, got {getattr(self, name).min()}")
        if not np.isfinite(self.linear).all():
            raise InvalidInput("the linear term must be finite")
        if not (self.lo <= self.hi).all() or (self.lo == np.inf).any() or (self.hi == -np.inf).any():
            raise InvalidInput("every lower bound must be at most its upper bound")

    def _map(self, **changes: Vector) -> Table:
        return Table(**{name: changes.get(name, getattr(self, name)) for name in self._FIELDS})

    def values(self, x: Vector) -> Vector:
        """l1 |x| + l2/2 x^2 + linear x, infinite outside [lo, hi]."""
        inside = (x >= self.lo) & (x <= self.hi)
        return np.where(inside, self.l1 * np.abs(x) + 0.5 * self.l2 * x * x + self.linear * x, np.inf)

    def conjugates(self, u: Vector) -> Vector:
        """u x - g(x) at its maximiser x."""
        x = self.conjugate_subgradient(u)
        finite = np.isfinite(x)
        x = np.where(finite, x, 0.0)
        gain = u * x - (self.l1 * np.abs(x) + 0.5 * self.l2 * x * x + self.linear * x)
        return np.where(finite, gain, np.inf)

    def conjugate_subgradient(self, u: Vector) -> Vector:
        """clip(soft(u - linear, l1) / l2, lo, hi); for l2 = 0 the end that the slope points to."""
        slope = _soft(u - self.linear, self.l1)
        curved = self.l2 > 0
        peak = np.divide(slope, self.l2, out=np.zeros_like(slope), where=curved)
        with np.errstate(invalid="ignore"):
            flat = np.where(slope == 0, 0.0, np.sign(slope) * np.inf)
        return np.clip(np.where(curved, peak, flat), self.lo, self.hi)

    def slacks(self, x: Vector, u: Vector) -> Vector:
        """l2/2 (x - z)^2 and what kink and bounds add, z the maximiser of u z - g(z): nothing large cancels."""
        z = self.conjugate_subgradient(u)
        finite, away = np.isfinite(z) & (x >= self.lo) & (x <= self.hi), x - np.where(np.isfinite(z), z, 0.0)
        smooth = (z != 0) & (z > self.lo) & (z < self.hi)
        with np.errstate(invalid="ignore"):
            crossing = np.where(x * z < 0, 2.0 * self.l1 * np.abs(x), 0.0)
            pressed = (self.l2 * z + self.linear - u) * away + self.l1 * (np.abs(x) - np.abs(z))
        rest = 0.5 * self.l2 * away**2 + np.where(smooth, crossing, np.maximum(pressed, 0.0))
        return np.where(finite, rest, np.inf)

    def prox(self, z: Vector, step: float | Vector) -> Vector:
        """clip(soft(z - step linear, step l1) / (1 + step l2), lo, hi)."""
        return np.clip(_soft(z - step * self.linear, step * self.l1) / (1.0 + step * self.l2), self.lo, self.hi)

    @property
    def support_bound(self) -> Vector:
        """max(|lo|, |hi|)."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def strong_convexity(self) -> float:
        """min l2 over the columns that can move."""
        l2, movable = np.broadcast_arrays(self.l2, self.lo < self.hi)
        return float(l2[movable].min(initial=np.inf))

    def take(self, columns: Indices | slice) -> Table:
        """The rows of these columns."""
        return self._map(**{n: a[columns] for n in self._FIELDS if (a := getattr(self, n)).ndim})

    def join(self, parts: Sequence[Separable], sizes: Sequence[int]) -> Table:
        """Rows below rows."""
        rows = np.concatenate([part.kernel_rows(n) for part, n in zip(parts, sizes, strict=True)])
        return Table(*rows.T)

    def scaled(self, factor: float) -> Table:
        """Scales l1, l2 and linear; the box stays."""
        return self._map(l1=factor * self.l1, l2=factor * self.l2, linear=factor * self.linear)

    def kernel_rows(self, n: int) -> Vector:
        """The n x 5 table."""
        return np.ascontiguousarray(
            np.stack([np.broadcast_to(getattr(self, name), n) for name in self._FIELDS], axis=1)
        )

    def check_size(self, n: int) -> None:
        """Arrays must have one entry per column."""
        for name in self._FIELDS:
            array = getattr(self, name)
            if array.ndim and len(array) != n:
                raise InvalidInput(f"the penalty's {name} has {len(array)} entries for {n} columns")

    @property
    def needs_scaling(self) -> bool:
        """True if a column has no l2 and an infinite side."""
        return bool(((self.l2 == 0) & ~np.isfinite(self.support_bound)).any())

    def ray_limit(self, u: Vector, radius: Vector) -> float:
        """An infinite hi asks s u <= linear + l1; an infinite lo asks s u >= linear - l1."""
        limit = np.inf
        for sign, bound in ((1.0, self.hi), (-1.0, self.lo)):
            asks = np.broadcast_to((self.l2 == 0) & np.isinf(bound), u.shape)
            if not asks.any():
                continue
            room = np.broadcast_to(self.l1 + sign * self.linear, u.shape)[asks]
            reach = (sign * u + radius)[asks]
            if (room < 0).any():
                return -1.0
            tight = reach > 0
            if tight.any():
                limit = min(limit, _shortest(room[tight], reach[tight]))
        return limit

    def cut_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """Infinite sides without l2 are cut at zero: inside the domain of g* the maximiser is never beyond."""
        flat = self.l2 == 0
        hi = np.where(flat & np.isposinf(self.hi), np.maximum(self.lo, 0.0), self.hi)
        lo = np.where(flat & np.isneginf(self.lo), np.minimum(hi, 0.0), self.lo)
        return self._map(lo=lo, hi=hi).worst_conjugates(u, radius)


def L1(l1: ArrayLike = 1.0, *, lo: ArrayLike = -np.inf, hi: ArrayLike = np.inf) -> Table:
    """l1 |x|, on [lo, hi]."""
    return Table(l1=np.asarray(l1), lo=np.asarray(lo), hi=np.asarray(hi))


def L2(l2: ArrayLike = 1.0, *, lo: ArrayLike = -np.inf, hi: ArrayLike = np.inf) -> Table:
    """l2/2 x^2, on [lo, hi]."""
    return Table(l2=np.asarray(l2), lo=np.asarray(lo), hi=np.asarray(hi))


def ElasticNet(l1: ArrayLike = 0.5, l2: ArrayLike = 0.5, *, lo: ArrayLike = -np.inf, hi: ArrayLike = np.inf) -> Table:
    """l1 |x| + l2/2 x^2, on [lo, hi]."""
    return Table(l1=np.asarray(l1), l2=np.asarray(l2), lo=np.asarray(lo), hi=np.asarray(hi))


def Box(lo: ArrayLike, hi: ArrayLike) -> Table:
    """0 on lo <= x <= hi."""
    return Table(lo=np.asarray(lo), hi=np.asarray(hi))


def NonNegative() -> Table:
    """0 on x >= 0."""
    return Table(lo=np.zeros(()))


def logistic_root(a: Vector, b: Vector) -> Vector:
    """The t with t + a expit(t) = b, for a >= 0.

    Newton from zero, or from the end of [b - a, b] next to it: expit is convex before zero and concave after, so the
    steps approach t from one side. From elsewhere they may overshoot, and cycle for ever.
    """
    t = np.clip(0.0, b - a, b)
    for _ in range(1000):  # quadratic once a expit'(t) is of the size of t; before that log(a) steps of length one
        p, q = expit(t), expit(-t)
        h = t + a * p - b
        t = t - h / (1.0 + a * p * q)
        if np.all(np.abs(h) <= 4e-16 * (np.abs(t) + a * p + np.abs(b))):
            break
    return np.asarray(t)


@dataclass(frozen=True, eq=False)
class LogisticDual(Separable):
    """sum_i c_i [p ln p + (1-p) ln(1-p)], p = y_i x_i / c_i in [0, 1]: the dual of c log(1 + exp(-y z))."""

    y: Vector
    c: Vector

    kind = LOGISTIC_DUAL

    def __post_init__(self) -> None:
        for name in ("y", "c"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        check_rows(self.y, self.c, labels=True)

    def values(self, x: Vector) -> Vector:
        """Negative entropy of p."""
        p, inside = self._probability(x)
        entropy = self.c * (xlogy(p, p) + xlogy(1.0 - p, 1.0 - p))
        return np.where(inside, entropy, np.inf)

    def _probability(self, x: Vector) -> tuple[Vector, AnyArray]:
        p = np.divide(self.y * x, self.c, out=np.where(x == 0, 0.0, np.inf), where=self.c > 0)
        return np.clip(p, 0.0, 1.0), (p >= 0.0) & (p <= 1.0)

    def conjugates(self, u: Vector) -> Vector:
        """c log(1 + exp(y u))."""
        return self.c * np.logaddexp(0.0, self.y * u)

    def conjugate_subgradient(self, u: Vector) -> Vector:
        """y c expit(y u)."""
        return np.asarray(self.y * self.c * expit(self.y * u))

    def slacks(self, x: Vector, u: Vector) -> Vector:
        """c (p ln(p/q) + (1-p) ln((1-p)/(1-q))), q = expit(y u): nothing large cancels where p is near q."""
        p, inside = self._probability(x)
        q, r = expit(self.y * u), expit(-self.y * u)
        near = np.abs(p - q) <= 0.5 * np.minimum(q, r)
        away = np.where(near, p - q, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):  # where not near q or r may be zero
            small = p * np.log1p(away / q) + (1.0 - p) * np.log1p(-away / r)
        plain = xlogy(p, p) + xlogy(1.0 - p, 1.0 - p) + np.logaddexp(0.0, self.y * u) - p * self.y * u
        return np.where(inside, self.c * np.maximum(np.where(near, small, plain), 0.0), np.inf)

    def prox(self, z: Vector, step: float | Vector) -> Vector:
        """y c expit(t), where t + (c/step) expit(t) = y z / step."""
        return np.asarray(self.y * self.c * expit(logistic_root(self.c / step, self.y * z / step)))

    @property
    def support_bound(self) -> Vector:
        """c."""
        return self.c

    @property
    def strong_convexity(self) -> float:
        """4 / max c."""
        return float(4.0 / self.c.max()) if self.c.size and self.c.max() > 0 else np.inf

    def take(self, columns: Indices | slice) -> LogisticDual:
        """The rows of these columns."""
        return LogisticDual(self.y[columns], self.c[columns])

    def join(self, parts: Sequence[Separable], sizes: Sequence[int]) -> LogisticDual:
        """Labels and weights one after the other."""
        duals = [part for part in parts if isinstance(part, LogisticDual)]
        return LogisticDual(np.concatenate([g.y for g in duals]), np.concatenate([g.c for g in duals]))

    def scaled(self, factor: float) -> LogisticDual:
        """Refused: a dual is scaled through the weights of its loss."""
        raise InvalidInput("the logistic dual is scaled through sample weights, not by a factor")

    def kernel_rows(self, n: int) -> Vector:
        """Only lo = min(0, c y) and hi = max(0, c y) are read: c = hi - lo, y = sign(lo + hi)."""
        end = self.c * self.y
        rows = np.zeros((n, 5))
        rows[:, 3], rows[:, 4] = np.minimum(0.0, end), np.maximum(0.0, end)
        return rows

    def check_size(self, n: int) -> None:
        """One label per column."""
        if len(self.y) != n or len(self.c) != n:
            raise InvalidInput(f"the logistic dual has {len(self.y)} labels for {n} columns")


@dataclass(frozen=True, eq=False)
class GroupLasso(Separable):
    """sum_G weight_G |x_G|_2 over groups G of columns.

    `groups` has one label per column (any integers); `weights` is a number for all groups, or one per group in
    ascending order of the labels. The partition keeps a group on one node.
    """

    groups: Indices
    weights: Vector = dataclasses.field(default_factory=lambda: np.ones(()))

    kind = GROUPS

    def __post_init__(self) -> None:
        groups = np.asarray(self.groups)
        if groups.ndim != 1 or groups.dtype.kind not in "iu":
            raise InvalidInput("groups must be one integer label per column")
        labels = np.unique(groups)
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.ndim and weights.shape != labels.shape:
            raise InvalidInput(f"{len(weights)} group weights for {len(labels)} groups")
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise InvalidInput("group weights must be finite and >= 0")
        object.__setattr__(self, "groups", groups.astype(np.int64))
        object.__setattr__(self, "weights", np.broadcast_to(weights, labels.shape).copy())

    @cached_property
    def piece_of(self) -> Indices:
        """The number of each column's group, groups counted in ascending order of their labels."""
        return np.unique(self.groups, return_inverse=True)[1]

    def pieces(self, n: int) -> Indices:
        """Where each group starts; its columns must stand together, groups in ascending order of their labels."""
        self.check_size(n)
        if (np.diff(self.groups) < 0).any():
            raise InvalidInput("columns must be ordered by group here; the partition does that")
        return np.searchsorted(self.piece_of, np.arange(len(self.weights) + 1))

    def _norms(self, x: Vector) -> Vector:
        return np.sqrt(np.bincount(self.piece_of, x * x, minlength=len(self.weights)))

    def values(self, x: Vector) -> Vector:
        """weight_G |x_G|."""
        return self.weights * self._norms(x)

    def conjugates(self, u: Vector) -> Vector:
        """0 if |u_G| <= weight_G, else infinite."""
        return self._indicator(self._norms(u))

    def _indicator(self, norms: Vector) -> Vector:
        return np.where(norms <= self.weights * (1 + 1e-14), 0.0, np.inf)

    def conjugate_subgradient(self, u: Vector) -> Vector:
        """0 inside the domain; outside, infinitely far in the direction of u."""
        outside = self.conjugates(u)[self.piece_of] > 0
        with np.errstate(invalid="ignore"):
            return np.where(outside & (u != 0), np.sign(u) * np.inf, 0.0)

    def slacks(self, x: Vector, u: Vector) -> Vector:
        """weight_G |x_G| - <x_G, u_G>, infinite where |u_G| > weight_G."""
        each = np.bincount(self.piece_of, x * u, minlength=len(self.weights))
        return np.maximum(self.values(x) - each, 0.0) + self.conjugates(u)

    def prox(self, z: Vector, step: float | Vector) -> Vector:
        """z_G (1 - step weight_G / |z_G|)_+ ; one step for all columns of a group."""
        steps = np.zeros(len(self.weights))
        steps[self.piece_of] = step
        norms = self._norms(z)
        shrink = np.maximum(norms - steps * self.weights, 0.0)
        return z * np.divide(shrink, norms, out=np.zeros_like(norms), where=norms > 0)[self.piece_of]

    @property
    def support_bound(self) -> Vector:
        """None: infinite."""
        return np.full(len(self.groups), np.inf)

    @property
    def strong_convexity(self) -> float:
        """0."""
        return 0.0

    def take(self, columns: Indices | slice) -> GroupLasso:
        """The labels of these columns; groups must be taken whole."""
        labels = self.groups[columns]
        return GroupLasso(labels, self.weights[np.isin(np.unique(self.groups), labels)])

    def join(self, parts: Sequence[Separable], sizes: Sequence[int]) -> GroupLasso:
        """Groups of different parts stay different groups; they are numbered anew."""
        groups = [part for part in parts if isinstance(part, GroupLasso)]
        firsts = np.cumsum([0] + [len(part.weights) for part in groups])
        labels = [part.piece_of + first for part, first in zip(groups, firsts, strict=False)]
        return GroupLasso(np.concatenate(labels), np.concatenate([part.weights for part in groups]))

    def scaled(self, factor: float) -> GroupLasso:
        """Scales every group's weight."""
        return GroupLasso(self.groups, factor * self.weights)

    def kernel_rows(self, n: int) -> Vector:
        """The weight of a column's group in place of l1."""
        rows = np.zeros((n, 5))
        rows[:, 0] = self.weights[self.piece_of]
        rows[:, 3], rows[:, 4] = -np.inf, np.inf
        return rows

    def check_size(self, n: int) -> None:
        """One label per column."""
        if len(self.groups) != n:
            raise InvalidInput(f"GroupLasso has {len(self.groups)} group labels for {n} columns")

    @property
    def needs_scaling(self) -> bool:
        """g* is an indicator."""
        return True

    def ray_limit(self, u: Vector, radius: Vector) -> float:
        """s (|u_G| + radius_G) <= weight_G."""
        reach = self._norms(u) + radius
        tight = reach > 0
        return _shortest(self.weights[tight], reach[tight]) if tight.any() else np.inf

    def worst_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """0 if |u_G| + radius_G <= weight_G, else infinite."""
        return self._indicator(self._norms(u) + radius)

    def cut_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """0: inside its domain g* is zero."""
        return np.zeros(len(self.weights))
