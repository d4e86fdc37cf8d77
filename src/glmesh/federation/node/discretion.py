"""What a site holds back from totals that are about rows which a criterion chooses: its rules, as a `Discretion`.

A search for directions without a maximum sums outer products over the rows that do not move along some directions. By
itself, and less the sum over all rows, and less every such sum before, it must be about no row at all, or about so many
that none is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np

from glmesh.federation.node.rules import RuleBook
from glmesh.methods.totals.likelihood.cone import Cone
from glmesh.methods.totals.likelihood.cone_sums import ConeQuery, shares
from glmesh.methods.totals.likelihood.final_totals import cluster_sums
from glmesh.types import Array, Flags, Matrix, Vector

ROUNDING = 1e-12  # [scores] relative difference of two products that are equal but for rounding
COUNTS = ("cone_point", "cone_direction", "cone_rounded")  # fields: rows, and three numbers that matter if not 0


@dataclass(eq=False)
class SiteDiscretion:
    """The rules of a site for sums over chosen rows, in one fit; `told` are the choices that it has answered."""

    rules: RuleBook
    changed: bool = False  # whether members or data are others than at an earlier contribution
    asks_cones: bool = True  # False once a member has said that the sum over all its rows would tell too much
    too_far: bool = False  # whether the coming point is one at which few rows would show
    far: int = 0  # points in a row that were
    told: list[Flags] = field(default_factory=list)  # (m,) rows in each sum of outer products

    def objects(self, cone: Cone, question: ConeQuery) -> bool:
        """Return whether the answer to a question with a search would show few of the site's rows."""
        search = question.search
        assert search is not None
        share = shares(cone, question)
        if search.flat is None:
            return self.rules.shows_few(len(search.point), share.curvature, share.sizes)
        k, every = search.space.shape[1], np.ones(cone.rows, dtype=bool)
        alone = self.changed or self.rules.may_change
        return any(
            self.rules.shows_few(k, part.astype(np.float64), part * sizes, alone=alone)
            for sizes in _lengths(cone, question)
            for before in (~every, every, *self.told)
            for part in (share.used & ~before, before & ~share.used)
        )

    def answered(self, cone: Cone, question: ConeQuery) -> None:
        """Note which rows were in the sum that a question asked for."""
        if question.search is not None and question.search.flat is not None:
            self.told.append(shares(cone, question).used)

    def blurred(self, fields: Mapping[str, Vector]) -> dict[str, Vector]:
        """Return fields in which a count of rows is 1 where it is larger: whether it is 0 is all that matters."""
        out = dict(fields)
        for name in COUNTS:
            if name in out:
                out[name] = np.append(out[name][:1], np.minimum(out[name][1:], 1.0))
        return out

    def allowed_meats(self, scores: Matrix, slack: Vector) -> Flags:
        """Return whether the sums of outer products of scores show few rows: HC0, HC2 and HC3, a mask of shape (3,).

        Rows are divided by 1, by the root of `slack` and by `slack`; those of slack 0 are in the first sum alone. The
        differences of these sums, in which rows of large leverage stand out, must show as little as each of them.
        """
        sizes, inside = (scores**2).sum(axis=1), slack > 0
        odds = np.divide(1.0 - slack, slack, out=np.zeros_like(sizes), where=inside)
        divided = [sizes, np.where(inside, sizes, 0.0) * (1.0 + odds), np.where(inside, sizes, 0.0) * (1.0 + odds) ** 2]
        less = [sizes, sizes * odds, sizes * odds**2]
        shown = [self.rules.shows_few(scores.shape[1], traces, traces) for traces in divided]
        apart = [self.rules.shows_few(scores.shape[1], traces, traces) for traces in less]
        return np.array([not any(shown[k : k + 1] + apart[: k + 1]) for k in range(3)])

    def allows_misfit(self, pulls: Matrix) -> bool:
        """Return whether no row, and no few, make up most of the pulls whose sum's squared norm would be told."""
        sizes = (pulls**2).sum(axis=1)
        return not (sizes.any() and self.rules.shows_few(pulls.shape[1], sizes, sizes))

    def judge(self, *, too_far: bool) -> None:
        """Note whether the coming point is `too_far`: one at which few rows would show; count such points in a row."""
        self.too_far, self.far = too_far, self.far + 1 if too_far else 0

    def allows_clusters(self, scores: Matrix, labels: Array) -> bool:
        """Return whether the sum over clusters shows no cluster, and no few, of those that the rows' `labels` name.

        `scores` have shape (m, k). The difference from HC0, which is about clusters of several rows alone, must show as
        little, and so must that from the sum of an earlier fit.
        """
        rules, k = self.rules, scores.shape[1]
        sums = cluster_sums(scores, labels)[0]
        shown = rules.shows_few_clusters(k, (sums**2).sum(axis=1)) or rules.shows_few_clusters(k, pairs(scores, labels))
        if shown or rules.shows_changed_clusters(k):
            return False
        return not any(self._shows_in_one(values, labels) for values in coordinates(scores))

    def _shows_in_one(self, values: Vector, labels: Array) -> bool:
        """Return whether a row of the sum over clusters would show few: those alone have a score in its coordinate.

        `values`, shape (m,), are the rows' scores there. Row j adds up the scores of clusters times those in j, which
        are the weights; of the difference from HC0, whose numbers are products of two scores, none may stand out.
        """
        own, two = cluster_sums(values[:, None], labels)[0][:, 0], pairs(values[:, None], labels)
        shows_few = self.rules.shows_few
        return shows_few(1, np.abs(own), own**2) or shows_few(1, (two > 0.0).astype(np.float64), two)

    def check_shape(self, curvatures: Vector) -> None:
        """Raise Refusal if one row, or few rows, make up most of the second derivatives by the shape's logarithm."""
        self.rules.check_shape(np.abs(curvatures))


def coordinates(scores: Matrix) -> Iterator[Vector]:
    """Yield the scores of m rows by each of k coefficients, and less what most rows have of another one, each (m,).

    `scores` have shape (m, k). Where a column is 0/1, its scores less those of the intercept are about the rows with 0;
    so it is with any two columns of which one is the same multiple of the other in more than half of the rows.
    """
    yield from scores.T
    for one, other in permutations(scores.T, 2):
        used = one != 0.0
        if not used.any():
            continue
        ratios = np.sort(other[used] / one[used])
        most = ratios[len(ratios) // 2]
        less = other - most * one
        less[np.abs(less) <= ROUNDING * np.abs(other)] = 0.0
        if most != 0.0 and 2 * np.count_nonzero(less[used]) < len(ratios):
            yield less


def pairs(scores: Matrix, labels: Array) -> Vector:
    """Return the norm of s s' less the sum of s_i s_i' for each cluster, s the sum of its rows' scores s_i, shape (n,).

    It is Frobenius' norm, and 0 for a cluster of one row.
    """
    if not len(labels):
        return np.zeros(0)
    _, which, counts = np.unique(labels, return_inverse=True, return_counts=True)
    own = scores[np.argsort(which, kind="stable")]
    starts = np.concatenate([[0], np.cumsum(counts[:-1])])
    sums = np.add.reduceat(own, starts, axis=0)
    squares = np.zeros(len(counts))
    for j in range(own.shape[1]):
        entries = sums[:, j:] * sums[:, j, None] - np.add.reduceat(own[:, j:] * own[:, j, None], starts, axis=0)
        squares += entries[:, 0] ** 2 + 2.0 * (entries[:, 1:] ** 2).sum(axis=1)
    return np.where(counts > 1, np.sqrt(squares), 0.0)


def _lengths(cone: Cone, question: ConeQuery) -> tuple[Vector, Vector]:
    """Return the squared length of each row of data in scaled units, and in the frame of a question, each (rows,)."""
    frame = question.frame
    assert frame is not None
    found = []
    for directions in (np.eye(cone.d), frame.axes):
        out = [np.empty(0)]
        for group in cone.groups:
            out += [(products**2).sum(axis=(1, 2)) for products in group.products(directions / question.scale)]
        found.append(np.concatenate(out))
    return found[0], found[1]
