"""What a node's rows add to the totals (sums over all nodes) that decide whether a maximum of the likelihood exists.

All numbers of fields whose names begin with "cone_" are sums over rows of the cone, see `cone`, or counts of rows.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np

from glmesh.methods.totals.contribution import DEPENDENT, triangle
from glmesh.methods.totals.likelihood.cone import Cone
from glmesh.methods.totals.likelihood.same_bits import spectrum
from glmesh.types import Flags, Matrix, Vector

DIRECTION_ERROR = 1e-9  # [length of a row] by which a product may be on the wrong side because directions are rounded
# [length of a row] beyond which a row lies inside of the cone, far above DIRECTION_ERROR
INSIDE = 1e-6
RANK = 1e-12  # [eigenvalues of unit columns] below it columns depend on each other, and nothing is said along them


@dataclass(frozen=True, eq=False)
class ConeFrame:
    """Coordinates in which the sum of squares of all rows of the cone is the unit matrix."""

    axes: Matrix  # (k, d) directions: coordinates c stand for the direction c @ axes
    back: Matrix  # (k, d) a direction u has the coordinates back @ u

    @staticmethod
    def of(gram: Matrix, free: Flags) -> ConeFrame:
        """Return the frame of the sum of squares `gram`, shape (d, d), on the `free` coordinates, shape (d,).

        Combinations of columns that are 0 in every row, but for rounding, are left out.
        """
        at = np.flatnonzero(free & (np.diag(gram) > 0))
        lengths = np.sqrt(np.diag(gram)[at])
        values, vectors = spectrum(gram[np.ix_(at, at)] / np.outer(lengths, lengths))
        kept = values > RANK * values.max(initial=0.0)
        axes, back = np.zeros((2, int(kept.sum()), len(gram)))
        axes[:, at] = vectors[kept] / np.sqrt(values[kept])[:, None] / lengths
        back[:, at] = vectors[kept] * np.sqrt(values[kept])[:, None] * lengths
        return ConeFrame(axes, back)


@dataclass(frozen=True, eq=False)
class Search:
    """A search for directions of the cone in a linear space, in coordinates of a `ConeFrame`.

    First rows are asked that do not move along `flat` directions, which leaves their null space; then the direction at
    `at` is tried, and a logistic fit of all inequalities at `point` made, total by total.
    """

    still: float  # [length of a row] by which rows move that hold the point
    flat: Matrix | None  # (r, k) orthonormal directions in which the Hessian is flat; None: `space` is known
    space: Matrix  # (j, k) orthonormal basis of the null space; before it is known, of the space that is searched
    point: Vector  # (j,) of the fit
    at: Vector  # (j,) direction that is tried
    step: Vector  # (j,) that led to the point
    value: float = np.inf  # of the fit before that step
    fits: int = 0  # totals of the fit


@dataclass(frozen=True, eq=False)
class ConeQuery:
    """What the next total is to bring beside the sums of Newton's method; all nodes have the same."""

    scale: Vector  # (d,) that columns are divided by
    point: Vector  # (d,) direction that may separate completely
    gram: bool  # whether the sum of squares of all rows of the cone is asked for
    frame: ConeFrame | None
    search: Search | None
    direction: Vector | None = None  # (d,) that is verified; None: none
    rounded: Vector | None = None  # (d,) that direction in small fractions, verified without any tolerance

    @property
    def without_search(self) -> ConeQuery:
        """Return the question without its search, which some site does not answer."""
        return replace(self, search=None, direction=None, rounded=None)

    @property
    def fingerprint(self) -> int:
        """Return a number below 2^16 that tells apart what directions nodes verify; they should all be the same."""
        return zlib.crc32(b"".join(v.tobytes() for v in (self.direction, self.rounded) if v is not None)) % (1 << 16)


def contribute(cone: Cone, question: ConeQuery) -> dict[str, Vector]:
    """Return what one node adds to a total that answers the question: {name of a field: its numbers}."""
    fields = {"cone_point": _signs(cone, question)}
    if question.gram:
        whole = np.zeros((cone.d, cone.d))
        for group in cone.groups:
            whole += group.gram()
        fields["cone_gram"] = _packed(whole / np.outer(question.scale, question.scale))
    if question.frame is not None and question.search is not None:
        fields |= _searched(cone, question, question.frame, question.search)
    return fields


def _packed(matrix: Matrix) -> Vector:
    """Return the upper triangle of a symmetric matrix, row by row."""
    return np.asarray(matrix[triangle(len(matrix))])


def _signs(cone: Cone, question: ConeQuery) -> Vector:
    """Return (rows of data, rows of the cone against the point, those not inside, rows of data with some inside).

    Products with the question's point that may be rounding alone are against it; those of nothing but zeros are not.
    """
    direction, counts = question.point / question.scale, np.zeros(4)
    counts[0] = cone.rows
    for group in cone.groups:
        for products, sizes in group.sized_products(direction):
            inside = (products > DEPENDENT * sizes) & (not group.equal)
            counts[1:] += (~inside & (sizes > 0)).sum(), (~inside).sum(), inside.any(axis=1).sum()
    return counts


def _searched(cone: Cone, question: ConeQuery, frame: ConeFrame, search: Search) -> dict[str, Vector]:
    """Return the fields of a search: the overlap, or counts for the directions tried and the sums of the fit."""
    k, j = len(frame.axes), len(search.point)
    tried = [v for v in (question.direction, question.rounded) if v is not None]
    directions = np.vstack([frame.axes, *tried]) / question.scale
    tolerances = [DIRECTION_ERROR * float(np.linalg.norm(frame.back @ v)) for v in tried[:1]] + [0.0] * len(tried[1:])
    insides = [INSIDE * float(np.linalg.norm(frame.back @ v)) for v in tried]
    overlap, hessian, slopes, value = np.zeros((k, k)), np.zeros((j, j)), np.zeros(j), 0.0
    counts = np.zeros((len(tried), 4))
    counts[:, 0] = cone.rows
    for group in cone.groups:
        for products in group.products(directions):
            rows = products[..., :k].reshape(-1, k)
            lengths = np.linalg.norm(rows, axis=1)
            if search.flat is not None:
                still = np.linalg.norm(rows @ search.flat.T, axis=1) <= search.still * lengths
                holding = rows if group.equal else rows[still]
                overlap += holding.T @ holding
                continue
            for n, (tolerance, inside) in enumerate(zip(tolerances, insides, strict=True)):
                counts[n, 1:] += _count(products[..., k + n], lengths, (tolerance, inside), equal=group.equal)
            if not group.equal:
                own = rows @ search.space.T
                z = own @ search.point
                slow = 1.0 / (1.0 + np.exp(np.minimum(z, 700.0)))
                value += float(np.logaddexp(0.0, -z).sum())
                slopes -= slow @ own
                hessian += (own * (slow * (1.0 - slow))[:, None]).T @ own
    if search.flat is not None:
        return {"cone_overlap": _packed(overlap)}
    names = ("cone_direction", "cone_rounded")[: len(tried)]
    mark = float(question.fingerprint)
    fields = {"cone_marks": np.array([1.0, mark, mark**2])}
    fields |= {"cone_value": np.array([value]), "cone_slopes": slopes, "cone_hessian": _packed(hessian)}
    return fields | dict(zip(names, counts, strict=True))


@dataclass(frozen=True, eq=False)
class Share:
    """What each of a node's m rows of data adds to the matrix that a search asks for, for the rules of a site."""

    used: Flags  # (m,) rows that add anything
    curvature: Vector  # (m,) curvatures, 1 where outer products of rows are summed
    sizes: Vector  # (m,) trace of what the row adds


def shares(cone: Cone, question: ConeQuery) -> Share:
    """Return what each row of data adds to the overlap, or to the Hessian of the fit, that a question asks for."""
    frame, search, m = question.frame, question.search, cone.rows
    assert frame is not None
    assert search is not None
    used, curvature, sizes = np.zeros(m, dtype=bool), np.zeros(m), np.zeros(m)
    at, directions = 0, frame.axes / question.scale
    for group in cone.groups:
        for products in group.products(directions):
            rows, span = products, slice(at, at + len(products))
            at += len(products)
            lengths = np.linalg.norm(rows, axis=2)
            if search.flat is not None:
                flat = np.linalg.norm(rows @ search.flat.T, axis=2)
                holds = (flat <= search.still * lengths) | group.equal
                used[span], curvature[span] = holds.any(axis=1), holds.any(axis=1)
                sizes[span] = (holds * lengths**2).sum(axis=1)
            elif not group.equal:
                own = rows @ search.space.T
                slow = 1.0 / (1.0 + np.exp(np.clip(own @ search.point, -700.0, 700.0)))
                moves = np.linalg.norm(own, axis=2) > DIRECTION_ERROR * lengths
                bends = np.where(moves, slow * (1.0 - slow), 0.0)
                used[span], curvature[span] = moves.any(axis=1), bends.sum(axis=1)
                sizes[span] = (bends * (own**2).sum(axis=2)).sum(axis=1)
    return Share(used, curvature, sizes)


def _count(products: Matrix, lengths: Vector, limits: tuple[float, float], *, equal: bool) -> Vector:
    """Return (rows of the cone against a direction, rows that are not inside, rows of data of which some are inside).

    `products`, shape (m, n), are those of m rows of data; `limits` are (tolerance, inside) for rows of length 1.
    """
    flat, (tolerance, inside) = products.ravel(), limits
    if equal:
        return np.array([float((np.abs(flat) > tolerance * lengths).sum()), float(flat.size), 0.0])
    strict = flat > inside * lengths
    return np.array(
        [
            float((flat < -tolerance * lengths).sum()),
            float(flat.size - strict.sum()),
            float(strict.reshape(products.shape).any(axis=1).sum()),
        ]
    )
