"""Separable g(x) = sum_i g_i(x_i): penalties, and the duals of losses."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.types import Indices, Vector

# What the compiled kernels do with a column's row of the table.
TABLE, LOGISTIC_DUAL, GROUPS = 0, 1, 2


class Separable(ABC):
    """Base of every g(x) = sum over pieces p of g_p(x_p); a piece is one column, or one group of them.

    Attributes
    ----------
    kind : int
        TABLE, LOGISTIC_DUAL or GROUPS: what the compiled kernels do with `kernel_rows`.
    """

    kind: ClassVar[int]

    @property
    def group_labels(self) -> Indices | None:
        """Integer label of each column's group, shape (n,); None if g has no groups of columns."""
        return None

    @abstractmethod
    def values(self, x: Vector) -> Vector:
        """Return g_p(x_p) for every piece p (a column or a group), shape (n_pieces,); infinite outside the domain."""

    @abstractmethod
    def conjugates(self, u: Vector) -> Vector:
        """Return the conjugates g_p*(u_p) = sup_x <u_p, x> - g_p(x) for every piece p, shape (n_pieces,)."""

    @abstractmethod
    def conjugate_subgradient(self, u: Vector) -> Vector:
        """Return a maximiser x of <u, x> - g(x), shape (n,): an element of the subdifferential of g* at u."""

    @property
    def has_smooth_conjugate(self) -> bool:
        """Whether every g_p* has a continuous gradient."""
        return self.strong_convexity > 0

    @abstractmethod
    def slacks(self, x: Vector, u: Vector) -> Vector:
        """Return g_p(x_p) + g_p*(u_p) - <x_p, u_p> >= 0 for every piece p, shape (n_pieces,).

        An entry is 0 if u_p is a subgradient of g_p at x_p, infinite outside the domains of g_p and g_p*.
        """

    @abstractmethod
    def prox(self, z: Vector, step: float | Vector) -> Vector:
        """Return argmin_x g(x) + norm(x - z)^2 / (2 step), shape (n,); `step` is a number or one per column."""

    @property
    @abstractmethod
    def support_bound(self) -> Vector:
        """Bounds L with g_i(x_i) < inf only for abs(x_i) <= L_i, shape (n,) or (); infinite where there is none."""

    @property
    @abstractmethod
    def strong_convexity(self) -> float:
        """The largest mu >= 0 for which g(x) - mu/2 norm(x)^2 is convex; infinite if no variable can move."""

    @abstractmethod
    def take(self, columns: Indices | slice) -> Separable:
        """Return g restricted to `columns`, indices or a slice, in that order."""

    @abstractmethod
    def join(self, parts: Sequence[Separable], sizes: Sequence[int]) -> Separable:
        """Return one g over the columns of several functions of this class, side by side.

        parts[i] has sizes[i] columns.
        """

    @abstractmethod
    def scaled(self, factor: float) -> Separable:
        """Return the function factor * g."""

    @abstractmethod
    def kernel_rows(self, n: int) -> Vector:
        """Return the (n, 5) table of l1, l2, linear, lo, hi that the kernels read, a row per column."""

    @abstractmethod
    def check_size(self, n: int) -> None:
        """Raise InvalidInput if g was not made for n columns."""

    def as_table(self) -> Table | None:
        """Return g as a `Table`, or None if g cannot be written as one."""
        return None

    def value(self, x: Vector) -> float:
        """Return g(x), the sum over all pieces; infinite outside the domain of g."""
        return float(self.values(x).sum())

    def conjugate(self, u: Vector) -> float:
        """Return the conjugate g*(u), the sum over all pieces; infinite outside the domain of g*."""
        return float(self.conjugates(u).sum())

    # for a dual point that is scaled towards zero until it is in the domain of g*

    @property
    def needs_scaling(self) -> bool:
        """Whether g* is infinite somewhere, so that a dual point may have to be shrunk into its domain."""
        return False

    def ray_limit(self, u: Vector, radius: Vector) -> float:
        """Return the largest s such that s z is in the domain of g* for every z with norm(z_p - u_p) <= radius_p.

        Infinite if there is no limit, negative if not even s = 0 is in the domain. `radius` has shape (n_pieces,) or
        ().
        """
        return np.inf

    def worst_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """Return the largest value of g_p* within radius_p of u_p for every piece p, shape (n_pieces,).

        `radius` has shape (n_pieces,) or ().

        g_p* is convex, so it is attained at an end of the interval.
        """
        return np.maximum(self.conjugates(u - radius), self.conjugates(u + radius))

    def cut_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """Return `worst_conjugates`, shape (n_pieces,), of a finite function that equals g* where g* is finite."""
        return self.worst_conjugates(u, radius)

    def pieces(self, n: int) -> Indices:
        """Return the first column of every piece (a column or a group), and n at the end, shape (n_pieces + 1,)."""
        return np.arange(n + 1)


class Columnwise(Separable):
    """Base of every g(x) = sum_i g_i(x_i) over single columns i; knows the curvature of a smooth conjugate g*."""

    @abstractmethod
    def conjugate_curvature(self, u: Vector) -> Vector:
        """Return the second derivatives of g*, the conjugate of g, at u, shape (n,).

        Where the gradient of g* has a kink, the second derivative of one side.
        """

    @abstractmethod
    def conjugate_majorant(self, u: Vector) -> Vector:
        """Return the curvatures m, shape (n,), of a quadratic upper bound of g* at u.

        g_i*(t) <= g_i*(u_i) + x_i (t - u_i) + m_i/2 (t - u_i)^2 for every t, with x a subgradient of g* at u.
        """


def check_rows(y: Vector, c: Vector, *, labels: bool) -> None:
    """Raise InvalidInput unless targets y are finite, shape (m,) (labels: -1 or 1), and weights c finite and >= 0."""
    if labels and not (np.abs(y) == 1).all():
        raise InvalidInput("labels must be -1 or 1")
    if y.ndim != 1 or not np.isfinite(y).all():
        raise InvalidInput("targets must be finite and in one dimension")
    if c.shape != y.shape or not (c >= 0).all() or not np.isfinite(c).all():
        raise InvalidInput("weights must be finite, >= 0 and one per target")


def _soft(z: Vector, threshold: Vector | float) -> Vector:
    return np.asarray(np.sign(z) * np.maximum(np.abs(z) - threshold, 0.0))


def least_ratio(limits: Vector, lengths: Vector) -> float:
    """Return the smallest of limits / lengths, entry by entry, for lengths > 0; a ratio that overflows is infinite."""
    with np.errstate(over="ignore"):
        return float((limits / lengths).min())


@dataclass(frozen=True, eq=False)
class Table(Columnwise):
    """g(x) = sum_i l1_i abs(x_i) + l2_i/2 x_i^2 + linear_i x_i, on lo_i <= x_i <= hi_i.

    Every parameter is a number for all columns, or an array with one number per column.

    Parameters
    ----------
    l1 : float or array of shape (n,), optional
        Factors >= 0 of the absolute values, by default 0.
    l2 : float or array of shape (n,), optional
        Factors >= 0 of half the squares, by default 0.
    linear : float or array of shape (n,), optional
        Slopes, by default 0.
    lo : float or array of shape (n,), optional
        Lower bounds, by default -inf.
    hi : float or array of shape (n,), optional
        Upper bounds, by default inf.

    Raises
    ------
    InvalidInput
        A number is out of its range, or two arrays differ in length.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import Table
    >>> g = Table(l1=np.array([1.0, 2.0]), hi=5.0)
    >>> g.prox(np.array([3.0, 9.0]), 1.0)
    array([2., 5.])
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

    def as_table(self) -> Table:
        """Return this table itself."""
        return self

    def values(self, x: Vector) -> Vector:
        """Return g_i(x_i) = l1 abs(x) + l2/2 x^2 + linear x, shape (n,); infinite outside [lo, hi]."""
        inside = (x >= self.lo) & (x <= self.hi)
        return np.where(inside, self.l1 * np.abs(x) + 0.5 * self.l2 * x * x + self.linear * x, np.inf)

    def conjugates(self, u: Vector) -> Vector:
        """Return the conjugates g_i*(u_i) = max_x u_i x - g_i(x), shape (n,); infinite where there is no maximum."""
        x = self.conjugate_subgradient(u)
        finite = np.isfinite(x)
        x = np.where(finite, x, 0.0)
        gain = u * x - (self.l1 * np.abs(x) + 0.5 * self.l2 * x * x + self.linear * x)
        return np.where(finite, gain, np.inf)

    def conjugate_subgradient(self, u: Vector) -> Vector:
        """Return the maximiser x of u x - g(x), shape (n,): clip(soft(u - linear, l1) / l2, lo, hi).

        soft(z, t) = sign(z) max(abs(z) - t, 0).

        For l2 = 0 it is the end of [lo, hi] that the slope points to, which may be infinite.
        """
        slope = _soft(u - self.linear, self.l1)
        curved = self.l2 > 0
        peak = np.divide(slope, self.l2, out=np.zeros_like(slope), where=curved)
        with np.errstate(invalid="ignore"):
            flat = np.where(slope == 0, 0.0, np.sign(slope) * np.inf)
        return np.clip(np.where(curved, peak, flat), self.lo, self.hi)

    def conjugate_curvature(self, u: Vector) -> Vector:
        """Return the second derivatives of g* at u, shape (n,): 1/l2 where the maximiser x moves with u, else 0."""
        x, l1 = self.conjugate_subgradient(u), self.l1
        moves = ((np.abs(u - self.linear) > l1) | (l1 == 0)) & (x > self.lo) & (x < self.hi) & (self.l2 > 0)
        return np.divide(1.0, self.l2, out=np.zeros_like(u), where=moves)

    def conjugate_majorant(self, u: Vector) -> Vector:
        """Return the curvatures of a quadratic upper bound of g* at u, shape (n,): 1/l2, and 0 where lo = hi.

        They are less where g* is straight far away, as Huber's loss is: g* is even around the middle of [lo, hi].
        """
        bend = np.divide(1.0, self.l2, out=np.zeros_like(u), where=(self.lo < self.hi) & (self.l2 > 0))
        straight = np.isfinite(self.lo) & np.isfinite(self.hi) & (self.l1 == 0)
        lo, hi = np.where(straight, self.lo, 0.0), np.where(straight, self.hi, 0.0)
        away = np.abs(u - self.linear - 0.5 * self.l2 * (lo + hi))
        far = straight & (away * bend > 0.5 * (hi - lo))
        return np.where(far, np.divide(0.5 * (hi - lo), away, out=np.zeros_like(u), where=far), bend)

    def slacks(self, x: Vector, u: Vector) -> Vector:
        """Return g_i(x_i) + g_i*(u_i) - x_i u_i >= 0, shape (n,), computed so that nothing large cancels.

        The value is l2/2 (x - z)^2 plus terms of the kink and the bounds, z the maximiser of u z - g(z); infinite
        outside the domains of g_i and g_i*.
        """
        z = self.conjugate_subgradient(u)
        finite, away = np.isfinite(z) & (x >= self.lo) & (x <= self.hi), x - np.where(np.isfinite(z), z, 0.0)
        smooth = (z != 0) & (z > self.lo) & (z < self.hi)
        with np.errstate(invalid="ignore"):
            crossing = np.where(x * z < 0, 2.0 * self.l1 * np.abs(x), 0.0)
            pressed = (self.l2 * z + self.linear - u) * away + self.l1 * (np.abs(x) - np.abs(z))
        slack = 0.5 * self.l2 * away**2 + np.where(smooth, crossing, np.maximum(pressed, 0.0))
        return np.where(finite, slack, np.inf)

    def prox(self, z: Vector, step: float | Vector) -> Vector:
        """Return argmin_x g(x) + norm(x - z)^2 / (2 step), shape (n,).

        The minimiser is clip(soft(z - step linear, step l1) / (1 + step l2), lo, hi), where soft shrinks towards zero:
        soft(z, t) = sign(z) max(abs(z) - t, 0).
        """
        return np.clip(_soft(z - step * self.linear, step * self.l1) / (1.0 + step * self.l2), self.lo, self.hi)

    @property
    def support_bound(self) -> Vector:
        """Bounds max(abs(lo), abs(hi)) of abs(x_i), shape (n,), or () where all columns have one."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def strong_convexity(self) -> float:
        """Constant of the strong convexity of g: the smallest l2 of the columns with lo < hi.

        Infinite if there is no column with lo < hi.
        """
        l2, movable = np.broadcast_arrays(self.l2, self.lo < self.hi)
        return float(l2[movable].min(initial=np.inf))

    def take(self, columns: Indices | slice) -> Table:
        """Return the table restricted to `columns`, indices or a slice, in that order."""
        return self._map(**{n: a[columns] for n in self._FIELDS if (a := getattr(self, n)).ndim})

    def join(self, parts: Sequence[Separable], sizes: Sequence[int]) -> Table:
        """Return a Table over the columns of all `parts`, one after the other; parts[i] has sizes[i] columns."""
        rows = np.concatenate([part.kernel_rows(n) for part, n in zip(parts, sizes, strict=True)])
        return Table(*rows.T)

    def scaled(self, factor: float) -> Table:
        """Return factor * g: l1, l2 and linear times the factor; the bounds stay."""
        return self._map(l1=factor * self.l1, l2=factor * self.l2, linear=factor * self.linear)

    def kernel_rows(self, n: int) -> Vector:
        """Return the (n, 5) table of l1, l2, linear, lo, hi that the kernels read, numbers repeated for each column."""
        return np.ascontiguousarray(
            np.stack([np.broadcast_to(getattr(self, name), n) for name in self._FIELDS], axis=1)
        )

    def check_size(self, n: int) -> None:
        """Raise InvalidInput unless every parameter that is an array has n entries."""
        for name in self._FIELDS:
            array = getattr(self, name)
            if array.ndim and len(array) != n:
                raise InvalidInput(f"the penalty's {name} has {len(array)} entries for {n} columns")

    @property
    def needs_scaling(self) -> bool:
        """Whether g*, the conjugate of g, is infinite somewhere: a column has l2 = 0 and lo or hi infinite."""
        return bool(((self.l2 == 0) & ~np.isfinite(self.support_bound)).any())

    def ray_limit(self, u: Vector, radius: Vector) -> float:
        """Return the largest s >= 0 with s u' in the domain of g* for every abs(u'_i - u_i) <= radius_i.

        With l2 = 0 an infinite hi asks s u' <= linear + l1, and an infinite lo asks s u' >= linear - l1. Infinite if
        there is no limit, -1 if not even s = 0 is in the domain.
        """
        limit = np.inf
        for sign, bound in ((1.0, self.hi), (-1.0, self.lo)):
            asks = np.broadcast_to((self.l2 == 0) & np.isinf(bound), u.shape)
            if not asks.any():
                continue
            limits = np.broadcast_to(self.l1 + sign * self.linear, u.shape)[asks]
            lengths = (sign * u + radius)[asks]
            if (limits < 0).any():
                return -1.0
            tight = lengths > 0
            if tight.any():
                limit = min(limit, least_ratio(limits[tight], lengths[tight]))
        return limit

    def cut_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """Return `worst_conjugates`, shape (n,), of the table whose infinite sides are cut at zero where l2 = 0.

        Inside the domain of g* the maximiser of u x - g(x) is never beyond zero on such a side, so g* does not change
        there.
        """
        flat = self.l2 == 0
        hi = np.where(flat & np.isposinf(self.hi), np.maximum(self.lo, 0.0), self.hi)
        lo = np.where(flat & np.isneginf(self.lo), np.minimum(hi, 0.0), self.lo)
        return self._map(lo=lo, hi=hi).worst_conjugates(u, radius)
