"""Rows of the cone of directions along which no row's loss grows: data without a maximum of the likelihood has some.

For binary targets a direction u has to satisfy x.u >= 0 where y = 1 and -x.u >= 0 where y = 0; a share of successes
strictly between 0 and 1 allows x.u = 0 alone. For counts (Poisson, negative binomial, Tweedie) it is -x.u >= 0 where
y = 0 and x.u = 0 where y > 0; for classes x.(u_y - u_c) >= 0 for every other class c. If some u satisfies all that, and
one inequality strictly, then the likelihood grows along u for ever, so it has no maximum; and the other way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.functions.losses import Loss
from glmesh.methods.totals.likelihood.rows import gram
from glmesh.types import Flags, Indices, Matrix, SampleMatrix, Vector

SHARES, COUNTS, CLASSES = "shares", "counts", "classes"  # what targets are, where data may have no maximum
KINDS = {
    "logistic": SHARES,
    "binomial": SHARES,
    "poisson": COUNTS,
    "negative_binomial": COUNTS,
    "tweedie": COUNTS,
    "multinomial": CLASSES,
}
AT_ONCE = 1 << 20  # [numbers] of rows, or of their products, that are made at a time, 8 MB: larger takes more memory


def kind(loss: Loss) -> str:
    """Return "shares", "counts" or "classes", what the targets of a loss are; "": a maximum exists for every target.

    Links other than the logarithm bound the linear predictors of counts, so no direction goes on for ever: "".
    """
    found = KINDS.get(loss.name, "")
    return "" if found == COUNTS and getattr(loss, "link", "log") != "log" else found


@dataclass(frozen=True, eq=False)
class Group:
    """Rows of data with one and the same kind of target, each of which is n rows of the cone.

    With q linear predictors the row of the cone for a row x and a contrast c, shape (q,), is the Kronecker product of c
    and (x, 1).
    """

    X: SampleMatrix  # (n_rows, p) rows of the node, without the column of ones
    at: Indices  # (m,) numbers of the group's rows
    contrasts: Matrix  # (n, q)
    equal: bool  # whether products must be 0; otherwise they must be >= 0

    def products(self, directions: Matrix) -> Iterator[Matrix]:
        """Yield the products of the group's rows of the cone with r directions, shape (r, d), some rows at a time.

        Each has the shape (rows of data, n, r). Directions are in the units of X, d = q (p + 1).
        """
        for X in self._parts(len(directions)):
            yield _products(X, self.contrasts, directions)

    def sized_products(self, direction: Vector) -> Iterator[tuple[Matrix, Matrix]]:
        """Yield (products with one direction, the sums of the sizes of what they add up), some rows at a time.

        Both have the shape (rows of data, n); `direction` has shape (d,).
        """
        sizes = np.abs(direction)
        for X in self._parts(1):
            products = _products(X, self.contrasts, direction[None])
            yield products[..., 0], _products(abs(X), np.abs(self.contrasts), sizes[None])[..., 0]

    def gram(self) -> Matrix:
        """Return the sum of a a^T over the group's rows a of the cone, shape (d, d), in the units of X."""
        d = int(self.X.shape[1]) + 1
        whole = np.zeros((d, d))
        for X in self._parts(1):
            whole += gram(X, np.ones(int(X.shape[0])))
        return np.asarray(np.kron(self.contrasts.T @ self.contrasts, whole))

    def _parts(self, r: int) -> Iterator[SampleMatrix]:
        """Yield the group's rows of data, some at a time, so that r products of each need little memory."""
        width = max(int(self.X.shape[1]), r * max(self.contrasts.shape))
        at_once = max(1, AT_ONCE // width)
        for a in range(0, len(self.at), at_once):
            yield self.X[self.at[a : a + at_once]]


def _products(X: SampleMatrix, contrasts: Matrix, directions: Matrix) -> Matrix:
    """Return the products of m rows of data, with n contrasts each, with r directions, shape (m, n, r)."""
    r, q = len(directions), contrasts.shape[1]
    blocks = directions.reshape(r * q, -1)
    z = np.asarray(X @ blocks[:, :-1].T) + blocks[:, -1]
    return np.asarray(np.einsum("mrq,nq->mnr", z.reshape(-1, r, q), contrasts))


@dataclass(frozen=True, eq=False)
class Cone:
    """One node's rows A of the conditions A u >= 0 and A u = 0 on directions u of d = q (p + 1) coefficients.

    Coefficients of q linear predictors stand one after the other, each with its intercept last. Rows of weight 0 are
    left out.
    """

    groups: tuple[Group, ...]
    d: int

    @property
    def rows(self) -> int:
        """Return the number of rows of data."""
        return sum(len(group.at) for group in self.groups)


def cone_rows(targets: str, X: SampleMatrix, y: Vector, weight: Vector, n_outputs: int = 1, n_classes: int = 0) -> Cone:
    """Return the cone's rows of one node; it has none where a maximum exists for every target.

    Parameters
    ----------
    targets : {"shares", "counts", "classes", ""}
        What y is, as `kind` returns it.
    X : array or sparse array of shape (m, p)
        Columns without that of ones.
    y, weight : arrays of shape (m,)
        Targets, for classes their numbers from 0, and weights; rows of weight 0 are left out.
    n_outputs : int, default 1
        Linear predictors of a row.
    n_classes : int, default n_outputs
        Classes: as many as linear predictors, or one more if that of class 0, the reference, is 0.
    """
    counted, d = weight > 0, n_outputs * (int(X.shape[1]) + 1)
    up, down = np.ones((1, 1)), -np.ones((1, 1))
    parts: list[tuple[Flags, Matrix, bool]]
    if targets == SHARES:
        parts = [(y >= 1, up, False), (y <= 0, down, False), ((y > 0) & (y < 1), up, True)]
    elif targets == COUNTS:
        parts = [(y <= 0, down, False), (y > 0, up, True)]
    elif targets == CLASSES:
        parts = [(y == c, contrasts, False) for c, contrasts in enumerate(_contrasts(n_outputs, n_classes))]
    elif targets:
        raise InvalidInput(f"targets of a cone are 'shares', 'counts', 'classes' or ''; got {targets!r}")
    else:
        parts = []
    found = [(np.flatnonzero(mask & counted), contrasts, equal) for mask, contrasts, equal in parts]
    groups = [Group(X, at, contrasts, equal) for at, contrasts, equal in found if len(at)]
    return Cone(tuple(groups), d)


def _contrasts(n_outputs: int, n_classes: int) -> list[Matrix]:
    """Return for each class y the contrasts e_y - e_c with the other classes c, shape (n_classes - 1, n_outputs)."""
    n = n_classes or n_outputs
    units = np.eye(n)[:, n - n_outputs :]
    return [units[y] - np.delete(units, y, axis=0) for y in range(n)]
