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
        """Return g_p(x_p) for every piece p, a column or a group of columns, shape (n_pieces,).

        Infinite outside the domain. x holds the variables of all n columns, shape (n,).
        """

    @abstractmethod
    def conjugates(self, u: Vector) -> Vector:
        """Return the conjugates g_p*(u_p) = sup_x <u_p, x> - g_p(x) for every piece p, shape (n_pieces,).

        A piece is a column or a group of columns; u has shape (n,), one number per column.
        """

    @abstractmethod
    def conjugate_subgradient(self, u: Vector) -> Vector:
        """Return a maximiser x of <u, x> - g(x), a subgradient of the conjugate g* at u; u and x have shape (n,)."""

    @property
    def has_smooth_conjugate(self) -> bool:
        """Whether the conjugate g_p* of every piece p (a column or a group of columns) has a continuous gradient."""
        return self.strong_convexity > 0

    @abstractmethod
    def slacks(self, x: Vector, u: Vector) -> Vector:
        """Return g_p(x_p) + g_p*(u_p) - <x_p, u_p> >= 0 for every piece p, a column or a group, shape (n_pieces,).

        x and u have shape (n,). An entry is 0 if u_p is a subgradient of g_p at x_p, infinite outside the domains of
        g_p and its conjugate g_p*.
        """

    @abstractmethod
    def prox(self, z: Vector, step: float | Vector) -> Vector:
        """Return argmin_x g(x) + norm(x - z)^2 / (2 step), shape (n,).

        `step` > 0 is a number or an array, one per column.
        """

    @property
    @abstractmethod
    def support_bound(self) -> Vector:
        """Bounds L with g(x) < inf only if abs(x_i) <= L_i for all columns i, shape (n,) or ().

        Infinite where there is none.
        """

    @property
    @abstractmethod
    def strong_convexity(self) -> float:
        """The largest mu >= 0 for which g(x) - mu/2 norm(x)^2 is convex; infinite if no variable can move."""

    @abstractmethod
    def take(self, columns: Indices | slice) -> Separable:
        """Return g restricted to the columns `columns`, an index array or a slice, in that order."""

    @abstractmethod
    def join(self, parts: Sequence[Separable], sizes: Sequence[int]) -> Separable:
        """Return one g over the columns of several functions of this class, side by side.

        `parts` are the functions; parts[i] has sizes[i] columns.
        """

    @abstractmethod
    def scaled(self, factor: float) -> Separable:
        """Return the function factor * g."""

    @abstractmethod
    def kernel_rows(self, n: int) -> Vector:
        """Return an array of shape (n, 5), a row (l1, l2, linear, lo, hi) per column, as compiled kernels read it."""

    @abstractmethod
    def check_size(self, n: int) -> None:
        """Raise InvalidInput if g was not made for n columns."""

    def as_table(self) -> Table | None:
        """Return g as a `Table`, or None if g cannot be written as one."""
        return None

    def value(self, x: Vector) -> float:
        """Return g(x), the sum over all pieces; infinite outside the domain of g.

        A piece is a column or a group of columns.
        """
        return float(self.values(x).sum())

    def conjugate(self, u: Vector) -> float:
        """Return the conjugate g*(u), the sum over all pieces; infinite outside the domain of g*.

        A piece is a column or a group of columns.
        """
        return float(self.conjugates(u).sum())

    # for a dual point that is scaled towards zero until it is in the domain of g*

    @property
    def needs_scaling(self) -> bool:
        """Whether g* is infinite somewhere, so that a dual point may have to be shrunk into its domain.

        g* is the conjugate of g.
        """
        return False

    def ray_limit(self, u: Vector, radius: Vector) -> float:
        """Return the largest s, a float, such that s z is in the domain of g* if norm(z_p - u_p) <= radius_p for all p.

        p runs over the pieces of g, columns or groups of columns. u has shape (n,), `radius` (n_pieces,) or ().
        Infinite if there is no limit, negative if not even s = 0 is in the domain of the conjugate g*.
        """
        return np.inf

    def worst_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """Return the largest value of the conjugate g_p* within radius_p of u_p, for every piece p, shape (n_pieces,).

        A piece is a column or a group of columns; u has shape (n,), `radius` (n_pieces,) or (). As g_p* is convex, an
        end of the interval [u_p - radius_p, u_p + radius_p] attains it.
        """
        return np.maximum(self.conjugates(u - radius), self.conjugates(u + radius))

    def cut_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """Return the `worst_conjugates`, shape (n_pieces,), of a finite function that equals g* where g* is finite.

        g* is the conjugate of g; u has shape (n,), `radius` (n_pieces,) or ().
        """
        return self.worst_conjugates(u, radius)

    def pieces(self, n: int) -> Indices:
        """Return the first column of every piece (a column or a group), and `n`, the number of columns, at the end.

        The shape is (n_pieces + 1,).
        """
        return np.arange(n + 1)


class Columnwise(Separable):
    """Base of every g(x) = sum_i g_i(x_i) over single columns i; knows the curvature of a smooth conjugate g*."""

    @abstractmethod
    def conjugate_curvature(self, u: Vector) -> Vector:
        """Return the second derivatives of the conjugate g* of g at u, shape (n,), one per column.

        Where the gradient of g* has a kink, an entry is the second derivative of one side.
        """

    @abstractmethod
    def conjugate_majorant(self, u: Vector) -> Vector:
        """Return the second derivatives m, shape (n,), of a quadratic upper bound of the conjugate g* at u, shape (n,).

        g_i*(t) <= g_i*(u_i) + x_i (t - u_i) + m_i/2 (t - u_i)^2 for every t, with x a subgradient of g* at u.
        """


def check_rows(y: Vector, c: Vector, *, labels: bool) -> None:
    """Raise InvalidInput unless targets y and weights c of m samples, shape (m,), are finite and c >= 0.

    With `labels`, every y_i must be -1 or 1.
    """
    if labels and not (np.abs(y) == 1).all():
        raise InvalidInput("labels must be -1 or 1")
    if y.ndim != 1 or not np.isfinite(y).all():
        raise InvalidInput("targets must be finite and in one dimension")
    if c.shape != y.shape or not (c >= 0).all() or not np.isfinite(c).all():
        raise InvalidInput("weights must be finite, >= 0 and one per target")


def _soft(z: Vector, threshold: Vector | float) -> Vector:
    """Return z moved towards 0 by `threshold` and not beyond it (soft thresholding), in the shape of z."""
    return np.asarray(np.sign(z) * np.maximum(np.abs(z) - threshold, 0.0))


def least_ratio(limits: Vector, lengths: Vector) -> float:
    """Return the smallest of limits[i] / lengths[i] over the i with lengths[i] > 0, a float; infinite if there is none.

    A ratio that overflows counts as infinite. Both arrays have one shape.
    """
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
        """Return a copy of this table with some of its columns l1, l2, linear, lo and hi replaced by `changes`."""
        return Table(**{name: changes.get(name, getattr(self, name)) for name in self._FIELDS})

    def as_table(self) -> Table:
        """Return this table itself."""
        return self

    def values(self, x: Vector) -> Vector:
        """Return l1 abs(x) + l2/2 x^2 + linear x of each variable, shape (n,); infinite outside the bounds [lo, hi]."""
        inside = (x >= self.lo) & (x <= self.hi)
        return np.where(inside, self.l1 * np.abs(x) + 0.5 * self.l2 * x * x + self.linear * x, np.inf)

    def conjugates(self, u: Vector) -> Vector:
        """Return the conjugates g_i*(u_i) = sup_x u_i x - g_i(x) for every column i, shape (n,).

        Infinite where unbounded. g_i(x) = l1 abs(x) + l2/2 x^2 + linear x on [lo, hi].
        """
        x = self.conjugate_subgradient(u)
        finite = np.isfinite(x)
        x = np.where(finite, x, 0.0)
        gain = u * x - (self.l1 * np.abs(x) + 0.5 * self.l2 * x * x + self.linear * x)
        return np.where(finite, gain, np.inf)

    def conjugate_subgradient(self, u: Vector) -> Vector:
        """Return the maximiser x of <u, x> - g(x), shape (n,): clip(soft(u - linear, l1) / l2, lo, hi).

        g sums l1 abs(x) + l2/2 x^2 + linear x on [lo, hi] over columns; soft(z, t) = sign(z) max(abs(z) - t, 0). For l2
        = 0 an entry is the end of [lo, hi] that the slope points to, which may be infinite.
        """
        slope = _soft(u - self.linear, self.l1)
        curved = self.l2 > 0
        peak = np.divide(slope, self.l2, out=np.zeros_like(slope), where=curved)
        with np.errstate(invalid="ignore"):
            flat = np.where(slope == 0, 0.0, np.sign(slope) * np.inf)
        return np.clip(np.where(curved, peak, flat), self.lo, self.hi)

    def conjugate_curvature(self, u: Vector) -> Vector:
        """Return the second derivatives of g* at u, (n,): 1/l2 where the maximiser x of u x - g(x) moves, else 0.

        l2 are the table's factors of half the squares. g* is the conjugate of g.
        """
        x, l1 = self.conjugate_subgradient(u), self.l1
        moves = ((np.abs(u - self.linear) > l1) | (l1 == 0)) & (x > self.lo) & (x < self.hi) & (self.l2 > 0)
        return np.divide(1.0, self.l2, out=np.zeros_like(u), where=moves)

    def conjugate_majorant(self, u: Vector) -> Vector:
        """Return second derivatives of a quadratic upper bound of g* at u, (n,): 1/l2 or less, and 0 where lo = hi.

        g* is the conjugate of l1 abs(x) + l2/2 x^2 + linear x on [lo, hi]. Entries are less than 1/l2 where g* is
        straight far away, as Huber's loss is: g* is even around the middle of [lo, hi].
        """
        bend = np.divide(1.0, self.l2, out=np.zeros_like(u), where=(self.lo < self.hi) & (self.l2 > 0))
        straight = np.isfinite(self.lo) & np.isfinite(self.hi) & (self.l1 == 0)
        lo, hi = np.where(straight, self.lo, 0.0), np.where(straight, self.hi, 0.0)
        away = np.abs(u - self.linear - 0.5 * self.l2 * (lo + hi))
        far = straight & (away * bend > 0.5 * (hi - lo))
        return np.where(far, np.divide(0.5 * (hi - lo), away, out=np.zeros_like(u), where=far), bend)

    def slacks(self, x: Vector, u: Vector) -> Vector:
        """Return g_i(x_i) + g_i*(u_i) - x_i u_i >= 0 for every column i, (n,); nothing large cancels in computing.

        g_i(x) = l1 abs(x) + l2/2 x^2 + linear x on [lo, hi] and g_i* is its conjugate. The value is l2/2 (x - z)^2 plus
        terms of the kink and the bounds, z the maximiser of u z - g(z); infinite outside the domains of g_i and g_i*.
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

        `step` > 0 is a number or an array, one per column. The minimiser is clip(soft(z - step linear, step l1) / (1 +
        step l2), lo, hi), where soft shrinks towards zero: soft(z, t) = sign(z) max(abs(z) - t, 0).
        """
        return np.clip(_soft(z - step * self.linear, step * self.l1) / (1.0 + step * self.l2), self.lo, self.hi)

    @property
    def support_bound(self) -> Vector:
        """Upper bounds max(abs(lo), abs(hi)) of abs(x_i) where g(x) is finite, (n,), or () if all columns have one."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def strong_convexity(self) -> float:
        """Constant of the strong convexity of g: the smallest l2 of the columns with lo < hi.

        Infinite if there is no column with lo < hi.
        """
        l2, movable = np.broadcast_arrays(self.l2, self.lo < self.hi)
        return float(l2[movable].min(initial=np.inf))

    def take(self, columns: Indices | slice) -> Table:
        """Return the table of the columns `columns` only, an index array or a slice, in that order."""
        return self._map(**{n: a[columns] for n in self._FIELDS if (a := getattr(self, n)).ndim})

    def join(self, parts: Sequence[Separable], sizes: Sequence[int]) -> Table:
        """Return a Table over the columns of all `parts`, one after the other; parts[i] has sizes[i] columns."""
        rows = np.concatenate([part.kernel_rows(n) for part, n in zip(parts, sizes, strict=True)])
        return Table(*rows.T)

    def scaled(self, factor: float) -> Table:
        """Return factor * g: l1, l2 and linear times the factor; the bounds stay."""
        return self._map(l1=factor * self.l1, l2=factor * self.l2, linear=factor * self.linear)

    def kernel_rows(self, n: int) -> Vector:
        """Return an array of shape (n, 5), a row (l1, l2, linear, lo, hi) per column.

        What is one number is repeated.
        """
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
        """Return the largest s >= 0 with s z in the domain of g* for every z with abs(z_i - u_i) <= radius_i, all i.

        Where l2 = 0, an infinite hi asks s z <= linear + l1, and an infinite lo asks s z >= linear - l1. The result is
        a float, infinite if there is no limit, -1 if not even s = 0 is in the domain. u has shape (n,), `radius` (n,)
        or (). g* is the conjugate of g.
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
        """Return `worst_conjugates`, shape (n,), of the table whose infinite bounds are replaced by zero where l2 = 0.

        Where g* is finite the maximiser x of u x - g(x) never lies beyond zero on such a side, so g* does not change
        there. u has shape (n,), `radius` (n,) or ().
        """
        flat = self.l2 == 0
        hi = np.where(flat & np.isposinf(self.hi), np.maximum(self.lo, 0.0), self.hi)
        lo = np.where(flat & np.isneginf(self.lo), np.minimum(hi, 0.0), self.lo)
        return self._map(lo=lo, hi=hi).worst_conjugates(u, radius)
