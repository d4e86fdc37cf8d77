"""Whether the maximum of a likelihood exists, decided from totals (sums over all nodes) while Newton's method runs.

Where it does not, Newton's points go to infinity, and rows that lie inside of the cone of `cone` get ever less
curvature than rows that the data holds. A gap among the eigenvalues of the Hessian, relative to that of equal weights,
shows the directions; rows that do not move along them hold the point, and the null space of their own sum of squares
has the directions to a rounding error. A direction there is tried, and fitted to the other rows if need be, and the
rows that contradict it are counted. Only such a count calls data separated, and only a proof by self-concordance says
that a maximum exists: a wrong guess leaves it undecided.

Coefficients and directions are in scaled units, those of columns divided by `scale`. State is replicated: every node
computes the same from the same sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm
from typing import Literal

import numpy as np

from glmesh.methods.totals.bounds import PROVEN
from glmesh.methods.totals.likelihood.cone_sums import DIRECTION_ERROR, ConeFrame, ConeQuery, Search
from glmesh.methods.totals.likelihood.same_bits import combined, product, reduced, spectrum
from glmesh.methods.totals.model import from_triangle
from glmesh.types import Flags, Indices, Matrix, Vector

Verdict = Literal["undecided", "exists", "separated"]

PATIENCE = 2  # [totals] before anything is asked, because many fits have nearly proven their maximum by then
EVERY = 3  # [rounds] from one look at the Hessian to the next, as measured for the design
GAP = 300.0  # ratio of neighbouring eigenvalues that is taken for a sign of separation: smaller looks at more Hessians
# [length of a row, relative to equal weights] by which a row may move along flat directions and still hold the point;
# alternately, because rows near the overlap need the smaller
STILL = (1e-3, 1e-6)
NULL = 1e-11  # eigenvalue of a sum of squares of unit rows that is rounding alone
FITS = 24  # [totals] of a fit to the rows within a null space, after which another look at the Hessian promises more
STEADY = 1e-6  # [fit] decrement below which its minimum is found, so that no direction is in the space
LARGEST_DENOMINATOR = 64  # of the fractions that a direction is rounded to, because indicators give small ones
GRID = 1024  # parts of the largest coordinate that free coordinates of such a direction are rounded to
MOST_FRACTIONS = 20000  # entries beyond which a direction is not rounded, because fractions are slow
COUNTED = 1e-6  # [largest] coefficient of a direction below which its column takes no part


@dataclass(frozen=True, eq=False)
class Separation:
    """What is known of the existence of a maximum; each total of Newton's method may bring it further.

    Parameters
    ----------
    scale : array of shape (d,)
        What the columns of the data are divided by, powers of two; 1 where the data has been divided already.
    free : array of bool of shape (d,)
        Coordinates that nothing holds: no penalty, no bounds. An offset, the intercept of a model without one, and
        columns that are left out because they depend on others are held.

    Attributes
    ----------
    verdict : {"undecided", "exists", "separated"}
        Whether a maximum is proven to exist, or proven not to.
    direction : array of shape (d,) or None
        Direction along which the likelihood grows for ever, in scaled units.
    strict, rows : int
        Rows of data whose likelihood grows along the direction, and all rows of positive weight.
    complete : bool
        Whether all rows are told apart, with all classes from all others; otherwise some stay where they are.
    exact : bool
        Whether a direction of whole numbers, in the units of the data, was verified without any tolerance but that
        of products in floating point, which are exact where the data is of small whole numbers.
    """

    scale: Vector
    free: Flags
    verdict: Verdict = "undecided"
    direction: Vector | None = None
    strict: int = 0
    rows: int = 0
    complete: bool = False
    exact: bool = False
    rounds: int = 0  # totals that have been learned from
    looks: int = 0  # Hessians that showed flat directions
    frame: ConeFrame | None = None
    search: Search | None = None

    @property
    def columns(self) -> Indices:
        """Return the coordinates that take part in the direction, ascending: coefficient times size of the column."""
        if self.direction is None:
            return np.zeros(0, dtype=np.int64)
        sizes = np.abs(self.direction)
        return np.flatnonzero(sizes > COUNTED * sizes.max())

    def proven(self, x: float) -> Separation:
        """Return a Separation that says that a maximum exists if x is at most 0.5.

        x = R lambda of self-concordance: R is the largest length of a row, and lambda that of the gradient, in the norm
        of the inverse Hessian.
        """
        return replace(self, verdict="exists") if self.verdict == "undecided" and x <= PROVEN else self

    def query(self, point: Vector, hessian: Matrix) -> ConeQuery | None:
        """Return what the next total is to bring, None: nothing, because it is too early or all is decided.

        `point`, shape (d,), is Newton's latest, and `hessian`, shape (d, d), that of the loss without a penalty there
        or at the point before.
        """
        if self.verdict != "undecided" or self.rounds < PATIENCE or not self.free.any():
            return None
        search = self.search
        if search is None and self.frame is not None and self.rounds % EVERY == 0:
            search = self._look(self.frame, point, hessian)
        question = ConeQuery(self.scale, np.where(self.free, point, 0.0), self.frame is None, self.frame, search)
        if search is None or search.flat is not None or self.frame is None:
            return question
        basis = product(search.space, self.frame.axes)
        direction = combined(search.at, basis)
        return replace(question, direction=direction, rounded=_rounded(basis, direction, self.scale))

    def _look(self, frame: ConeFrame, point: Vector, hessian: Matrix) -> Search | None:
        """Return a search along the directions in which the Hessian at a point is flat, None if there are none."""
        k = len(frame.axes)
        flat = _flat(product(frame.axes, hessian, frame.axes.T))
        if flat is None:
            return None
        at = combined(np.where(self.free, point, 0.0), frame.back.T)
        return Search(STILL[self.looks % len(STILL)], flat, np.eye(k), np.zeros(k), at, np.zeros(k))

    def learn(self, question: ConeQuery | None, sums: Mapping[str, Vector]) -> Separation:
        """Return what is known after a total that answered the question, None: that was asked nothing."""
        if question is None:
            return replace(self, rounds=self.rounds + 1)
        known = replace(self, rounds=self.rounds + 1, rows=int(sums["cone_point"][0]))
        found = known._judged(question.point, sums["cone_point"])
        if found is not None:
            return found
        if question.gram:
            known = replace(known, frame=ConeFrame.of(from_triangle(sums["cone_gram"], len(self.scale)), self.free))
        search = question.search
        if search is None:
            return known
        if search.flat is not None:
            narrowed = _narrowed(search, from_triangle(sums["cone_overlap"], search.space.shape[1]))
            return replace(known, search=narrowed, looks=self.looks + 1)
        nodes, mark, square = sums["cone_marks"]
        if nodes * square != mark**2:  # of n numbers only where all are equal
            return replace(known, search=None)
        for direction, counts, exact in (
            (question.rounded, "cone_rounded", True),
            (question.direction, "cone_direction", False),
        ):
            found = None if direction is None else known._judged(direction, sums[counts], exact=exact)
            if found is not None:
                return found
        return replace(known, search=_fitted(search, sums))

    def _judged(self, direction: Vector, counts: Vector, *, exact: bool = False) -> Separation | None:
        """Return a Separation that says that a direction, shape (d,), separates the data, None if it does not.

        `counts` has the numbers of rows, of rows of the cone against it and not inside, and of rows of data inside.
        """
        _, against, loose, strict = (int(number) for number in counts)
        if against or not strict:
            return None
        return replace(
            self,
            verdict="separated",
            direction=direction,
            strict=strict,
            complete=not loose,
            exact=exact,
            search=None,
        )


# what follows from the sums


def _flat(matrix: Matrix) -> Matrix | None:
    """Return orthonormal directions, shape (r, k), of the eigenvalues below the widest gap of a k x k matrix.

    None if no gap is as wide as GAP.
    """
    values, vectors = spectrum(matrix)
    floor = 2.0**-52 * max(float(values[-1]), 0.0) if len(values) else 0.0
    values = np.maximum(values, max(floor, np.finfo(float).tiny))
    ratios = values[1:] / values[:-1]
    if not len(ratios) or ratios.max() < GAP:
        return None
    return vectors[: int(np.argmax(ratios)) + 1]


def _narrowed(search: Search, overlap: Matrix) -> Search | None:
    """Return a search in the null space of the rows that hold the point, whose sum of squares is `overlap`, (k, k).

    None if that space is nothing but 0, or all that was searched: the Hessian there says no more than the one before.
    """
    values, vectors = spectrum(product(search.space, overlap, search.space.T))
    space = product(vectors[values < NULL], search.space)
    if len(space) in (0, len(search.space)):
        return None
    at, zero = combined(combined(search.at, search.space), space.T), np.zeros(len(space))
    return Search(search.still, None, space, zero, at, zero)


def _fitted(search: Search, sums: Mapping[str, Vector]) -> Search | None:
    """Return the next step of the fit within a space, a search in a part of it, or None if nothing comes of it."""
    if search.fits >= FITS:
        return None
    value, hessian = float(sums["cone_value"][0]), from_triangle(sums["cone_hessian"], len(search.point))
    if value > search.value:  # too long a step
        step = 0.25 * search.step
        point = search.point - search.step + step
        return replace(search, point=point, at=point, step=step, fits=search.fits + 1)
    values, vectors = spectrum(hessian)
    kept = values > max(2.0**-52 * float(values[-1]), np.finfo(float).tiny)
    values, vectors = values[kept], vectors[kept]
    pulls = combined(sums["cone_slopes"], vectors.T)
    step = -combined(pulls / values, vectors)
    if (pulls**2 / values).sum() < STEADY * value:
        return None
    if search.fits % EVERY == EVERY - 1:
        flat = _flat(hessian)
        if flat is not None:
            return replace(search, flat=product(flat, search.space), at=search.point)
    point = search.point + step
    return replace(search, point=point, at=point, step=step, value=value, fits=search.fits + 1)


def _rounded(basis: Matrix, direction: Vector, scale: Vector) -> Vector | None:
    """Return a direction of whole numbers in the units of the data, near `direction`, in scaled units, shape (d,).

    It lies in the space of the `basis`, shape (j, d), if that has one of small fractions; None if it is too large.
    """
    if basis.size > MOST_FRACTIONS:
        return None
    pivots, rows = reduced(basis)
    heads = direction[pivots] / scale[pivots]
    largest = float(np.abs(heads).max())
    if not (np.isfinite(rows).all() and largest > 0):
        return None
    heads = np.rint(GRID * heads / largest)
    entries = [Fraction(0)] * basis.shape[1]
    for head, pivot, row in zip(heads, pivots, rows, strict=True):
        for j in np.flatnonzero(np.abs(row) > DIRECTION_ERROR):
            ratio = float(row[j] * scale[pivot] / scale[j])
            entries[j] += int(head) * Fraction(ratio).limit_denominator(LARGEST_DENOMINATOR)
    common = lcm(*(entry.denominator for entry in entries))
    whole = [float(entry * common) for entry in entries]
    return np.array(whole) * scale if any(whole) and max(map(abs, whole)) < 2.0**40 else None
