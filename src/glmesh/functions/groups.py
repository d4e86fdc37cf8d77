"""Penalties of whole groups of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.functions.separable import GROUPS, Separable, least_ratio
from glmesh.types import Indices, Vector


@dataclass(frozen=True, eq=False)
class GroupLasso(Separable):
    """g(x) = sum_G weight_G norm(x_G) over groups G of columns, with Euclidean norms; split by features only.

    The partition keeps a group on one node.

    Parameters
    ----------
    groups : array of int of shape (n,)
        Label of each column's group, any integers.
    weights : float or array of shape (n_groups,), optional
        Factors >= 0 of the groups in ascending order of their labels, by default 1.

    Raises
    ------
    InvalidInput
        Labels are not integers, or weights are negative or not one per group.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import GroupLasso
    >>> GroupLasso(np.array([0, 0, 1])).value(np.array([3.0, 4.0, -2.0]))
    7.0
    """

    groups: Indices
    weights: Vector = field(default_factory=lambda: np.ones(()))

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

    @property
    def group_labels(self) -> Indices:
        """Integer label of each column's group, shape (n,), as the user gave them."""
        return self.groups

    @cached_property
    def piece_of(self) -> Indices:
        """Number of each column's group, shape (n,) for n columns; groups are numbered 0, 1, ... by ascending label."""
        return np.unique(self.groups, return_inverse=True)[1]

    def pieces(self, n: int) -> Indices:
        """Return the first column of each group, and `n` (the number of columns) at the end, shape (n_groups + 1,).

        Columns must be ordered by the labels of their groups; else InvalidInput.
        """
        self.check_size(n)
        if (np.diff(self.groups) < 0).any():
            raise InvalidInput("columns must be ordered by group here; the partition does that")
        return np.searchsorted(self.piece_of, np.arange(len(self.weights) + 1))

    def _norms(self, x: Vector) -> Vector:
        """Return the Euclidean norm of the entries of x, shape (n,), in each group, shape (n_groups,)."""
        return np.sqrt(np.bincount(self.piece_of, x * x, minlength=len(self.weights)))

    def values(self, x: Vector) -> Vector:
        """Return weight_G norm(x_G), the penalty of every group G, shape (n_groups,), in order of the labels."""
        return self.weights * self._norms(x)

    def conjugates(self, u: Vector) -> Vector:
        """Return the conjugate of weight_G norm(x_G) at u_G for every group G of columns, shape (n_groups,).

        That is 0 if norm(u_G) <= weight_G, else infinite.
        """
        return self._indicator(self._norms(u))

    def _indicator(self, norms: Vector) -> Vector:
        """Return 0 for groups whose norm is at most the group's weight, but for rounding, else infinity, (n_groups,).

        `norms` has the norm of each group, shape (n_groups,).
        """
        return np.where(norms <= self.weights * (1 + 1e-14), 0.0, np.inf)

    def conjugate_subgradient(self, u: Vector) -> Vector:
        """Return a maximiser x of <u, x> - g(x), shape (n,), g(x) = sum_G weight_G norm(x_G) over groups G.

        It is 0 for groups with norm(u_G) <= weight_G, else infinite with the signs of u.
        """
        outside = self.conjugates(u)[self.piece_of] > 0
        with np.errstate(invalid="ignore"):
            return np.where(outside & (u != 0), np.sign(u) * np.inf, 0.0)

    def slacks(self, x: Vector, u: Vector) -> Vector:
        """Return weight_G norm(x_G) - <x_G, u_G> >= 0 of every group G of columns, shape (n_groups,).

        An entry is infinite where norm(u_G) > weight_G. x (variables) and u (slopes) have shape (n,).
        """
        each = np.bincount(self.piece_of, x * u, minlength=len(self.weights))
        return np.maximum(self.values(x) - each, 0.0) + self.conjugates(u)

    def prox(self, z: Vector, step: float | Vector) -> Vector:
        """Return argmin_x g(x) + norm(x - z)^2 / (2 step), shape (n,), for the group penalty g.

        That is z_G times max(1 - step weight_G / norm(z_G), 0) for every group G. `step` > 0 is a number or one per
        column, equal for all columns of a group.
        """
        steps = np.zeros(len(self.weights))
        steps[self.piece_of] = step
        norms = self._norms(z)
        shrink = np.maximum(norms - steps * self.weights, 0.0)
        return z * np.divide(shrink, norms, out=np.zeros_like(norms), where=norms > 0)[self.piece_of]

    @property
    def support_bound(self) -> Vector:
        """Bounds of abs(x_i) on the domain of g, shape (n,): infinite, because no column is bounded."""
        return np.full(len(self.groups), np.inf)

    @property
    def strong_convexity(self) -> float:
        """Constant of the strong convexity of g: 0, because a norm is linear along rays."""
        return 0.0

    def take(self, columns: Indices | slice) -> GroupLasso:
        """Return the penalty of the columns `columns` only, an index array or a slice.

        Each group is taken whole or not at all.
        """
        labels = self.groups[columns]
        return GroupLasso(labels, self.weights[np.isin(np.unique(self.groups), labels)])

    def join(self, parts: Sequence[Separable], sizes: Sequence[int]) -> GroupLasso:
        """Return one GroupLasso over the columns of all `parts`, each a GroupLasso, in turn; `sizes` is not read.

        Groups of two parts stay different and are numbered anew.
        """
        groups = [part for part in parts if isinstance(part, GroupLasso)]
        firsts = np.cumsum([0] + [len(part.weights) for part in groups])
        labels = [part.piece_of + first for part, first in zip(groups, firsts, strict=False)]
        return GroupLasso(np.concatenate(labels), np.concatenate([part.weights for part in groups]))

    def scaled(self, factor: float) -> GroupLasso:
        """Return factor * g: every group's weight times the factor."""
        return GroupLasso(self.groups, factor * self.weights)

    def kernel_rows(self, n: int) -> Vector:
        """Return a table of shape (n, 5), a row (l1, l2, linear, lo, hi) per column, as the compiled kernels read it.

        l1 is the weight of the column's group, l2 and linear are 0, the bounds infinite.
        """
        rows = np.zeros((n, 5))
        rows[:, 0] = self.weights[self.piece_of]
        rows[:, 3], rows[:, 4] = -np.inf, np.inf
        return rows

    def check_size(self, n: int) -> None:
        """Raise InvalidInput unless there is one group label for each of n columns."""
        if len(self.groups) != n:
            raise InvalidInput(f"GroupLasso has {len(self.groups)} group labels for {n} columns")

    @property
    def needs_scaling(self) -> bool:
        """True: the conjugate g* is infinite outside a bounded domain, into which dual points have to be shrunk."""
        return True

    def ray_limit(self, u: Vector, radius: Vector) -> float:
        """Return the largest s with s (norm(u_G) + radius_G) <= weight_G for all groups G, a float.

        Infinite without limit. u has shape (n,), `radius` (n_groups,) or ().
        """
        lengths = self._norms(u) + radius
        tight = lengths > 0
        return least_ratio(self.weights[tight], lengths[tight]) if tight.any() else np.inf

    def worst_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """Return the largest conjugate of weight_G norm(x_G) within radius_G of u_G, for every group G, (n_groups,).

        That is 0 if norm(u_G) + radius_G <= weight_G, else infinite. u has shape (n,), `radius` (n_groups,) or ().
        """
        return self._indicator(self._norms(u) + radius)

    def cut_conjugates(self, u: Vector, radius: Vector) -> Vector:
        """Return zeros, shape (n_groups,): the conjugate of a group's penalty is zero wherever it is finite.

        `u` and `radius` are not read.
        """
        return np.zeros(len(self.weights))
