"""What a node's rows, one stratum, add to the totals of Cox's proportional hazards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from glmesh.functions.cox import Cox
from glmesh.functions.risk_sets import RiskSets, RiskSums, running_sums
from glmesh.methods.totals.likelihood.terms import Derivatives, Likelihood
from glmesh.types import Indices, Matrix, SampleMatrix, Vector

EPSILON = 2.0**-52  # relative error of a product and a sum, because each is rounded by 2^-53
# [mean distances of a random walk] rounding that is allowed for: of 600 problems six were beyond 1, none beyond 1.6
FARTHEST = 4.0
CHUNK = 1 << 18  # [entries] of the rows that are worked on at a time, 2 MB; one risk set's own rows stay together


@dataclass(frozen=True, eq=False)
class Means:
    """Weighted means of rows in some risk sets; the rows are those that join the first of these sets up to the last.

    Weights are r = weight exp(x.w). Columns are centred; rows are in the order of the sets.
    """

    rows: slice  # which of the n rows these are
    sets: slice  # which of the sets these are
    deaths: slice  # which of the deaths these are
    X: Matrix  # (rows, p) the rows
    before: Matrix  # (rows, p) mean of the rows before each; 0 where there are none
    alive: Matrix  # (sets, p) mean of the rows of each set that do not have the event at its time; 0 if there are none
    dead: Matrix  # (sets, p) mean of those that have it


class CoxLikelihood(Likelihood):
    """Negative log partial likelihood of one node's rows, a stratum, by p coefficients and an intercept without effect.

    Only differences between rows of a risk set enter. Sums over risk sets, which grow from the latest event to the
    first, are made anew at each point in one pass: a Hessian takes m p^2 products, and memory for a few vectors of m
    numbers. The Hessian is a sum of weighted outer products with weights >= 0, and the gradient of each event a
    weighted difference of means: no large numbers cancel, whatever the columns' means and however large x.w is.
    """

    def __init__(self, loss: Cox, X: SampleMatrix, y: Vector, weight: Vector) -> None:
        """Put the rows X, shape (m, p), dense or CSR, in order by their targets y; y and weights have shape (m,)."""
        self.X = X
        self.risks = RiskSets.of(y, weight, loss.ties)

    @property
    def d(self) -> int:
        """Return the number p + 1 of coefficients with the intercept, which is last and has no effect."""
        return int(self.X.shape[1]) + 1

    @property
    def rows_at_risk(self) -> int:
        """Return how many rows are at risk at an event."""
        return self.risks.n

    def values(self, points: Matrix) -> Vector:
        """Return the loss, as `Cox` defines it, at n points, shape (n, d), as an array of shape (n,).

        It is infinite where a prediction overflows.
        """
        return np.array([self._value(point) for point in points])

    def derivatives(self, point: Vector) -> Derivatives:
        """Return gradient and (observed) Hessian of the negative log partial likelihood at a point, shape (d,).

        A term with the mean u of the deaths and v of the others in a risk set, whose sums of r are D and P, has the
        Hessian a (C_v + f C_u + P f D / S (v - u)(v - u)'), with scatter matrices C. Row after row that joins the set,
        C_v grows by r P / (P + r) (x - v)(x - v)'; all weights are >= 0.
        """
        risks, at = self.risks, self._sums(point)
        before, B = at.to_rows(at.hazard), risks.over_terms(at.a * risks.factor)
        inner = np.sqrt(at.r * before * at.before / at.up_to)
        between = np.sqrt(risks.over_terms(at.a * risks.factor / at.S) * at.alive * at.dead)
        within = np.sqrt((B * at.dead)[self._set_of_deaths] * at.shares)
        mass = risks.over_terms(risks.term_weight)
        uneven = mass[self._set_of_deaths] * at.shares - risks.weight[risks.deaths]
        tied = (risks.ends - risks.starts > 1)[self._set_of_deaths]
        gradient, hessian = np.zeros(self.d), np.zeros((self.d, self.d))
        for part in self._means(at):
            apart, own = part.alive - part.dead, self._dead_rows(part)
            gradient[:-1] += (at.alive * at.hazard)[part.sets] @ apart + uneven[part.deaths] @ own
            spread = (own - part.dead[self._set_of_deaths[part.deaths] - part.sets.start])[tied[part.deaths]]
            for rows, root in (
                (part.X - part.before, inner[part.rows]),
                (apart, between[part.sets]),
                (spread, within[part.deaths][tied[part.deaths]]),
            ):
                scaled = rows * root[:, None]
                hessian[:-1, :-1] += scaled.T @ scaled
        return Derivatives(gradient, hessian)

    def information(self, point: Vector) -> Matrix:
        """Return the Hessian at a point, shape (d, d); the expected one is not known, as censoring is not."""
        return self.derivatives(point).hessian

    def row_curvatures(self, point: Vector) -> Matrix:
        """Return the expected number of events of each row, times its weight, shape (1, m).

        The Hessian is at most the sum of these times (x_i - c)(x_i - c)', c any point, as that of the Poisson loss is.
        """
        out = np.zeros((1, self.X.shape[0]))
        out[0, self.risks.order] = self._sums(point).expected if self.risks.n else 0.0
        return out

    def scores(self, point: Vector) -> Matrix:
        """Return minus the weighted score residual of each row at a point, shape (m, d).

        They are those of R's ``residuals(fit, type="score", weighted=TRUE)``, up to the sign: what a row adds to the
        gradient by its own event and by being at risk at those of others. They sum to the gradient.
        """
        risks, at = self.risks, self._sums(point)
        of, deaths = self._set_of_deaths, risks.deaths
        X, alive, dead = self._all_means(at)
        alive, dead = alive * at.alive[:, None], dead * at.dead[:, None]  # sums of r x now
        A, B = at.hazard, risks.over_terms(at.a * risks.factor)
        a1, a2, a3 = (risks.over_terms(at.a * risks.factor**k / at.S)[:, None] for k in range(3))
        out = np.zeros((len(X), self.d - 1))
        out += (X.T * at.to_rows(A)).T - at.to_rows(alive * a1 + dead * a2)
        out = (out.T * at.r).T
        mean = (alive * A[:, None] + dead * B[:, None]) / risks.over_terms(risks.term_weight)[:, None]
        r = (at.r[deaths] * np.exp(at.scale[deaths] - at.set_scale[of]))[:, None]
        own = X[deaths] * B[of][:, None] - (alive * a2 + dead * a3)[of]
        out[deaths] += r * own - risks.weight[deaths][:, None] * (X[deaths] - mean[of])
        scores = np.zeros((self.X.shape[0], self.d))
        scores[risks.order, :-1] = out
        return scores

    def concordances(self, point: Vector, inverse: Matrix, length: float) -> Vector:
        """Return for each row with an event an R_i with abs(D^3 loss_i[p,p,p]) <= R_i D^2 loss_i[p,p] where p'Hp = 1.

        Its shape is (m,), with 0 for rows without event. R_i is a bound of the largest abs(x_j - x_k), in the norm of
        H^-1, of two rows in the risk set of the event: the sum of the two largest distances from the mean of all rows.
        It holds at every point, whatever `point` and `length`. `inverse` is L^-1, shape (d, d), with H = L L'.

        Proof. A term is, up to a linear function and a factor >= 0, log sum_j c_j exp(x_j.w) with c_j >= 0, the
        cumulant function of the random variable x_J.p along p: its second derivative is the variance v of the variable,
        its third the third central moment, and that is at most max_j abs(x_j.p - mean) v <= max_jk abs((x_j - x_k).p) v
        <= max_jk abs(L^-1 (x_j - x_k)) abs(L'p) v, where abs(L'p) = 1. Distances from any one point bound it, as
        abs(x_j - x_k) <= abs(x_j - m) + abs(x_k - m). A sum of terms, each with a constant of its own, has the largest.
        """
        risks = self.risks
        distance = np.empty(risks.n)
        for rows, _ in self._chunks():
            distance[rows] = np.linalg.norm(self._rows(rows) @ inverse[:, :-1].T, axis=1)
        largest = np.maximum.accumulate(distance)
        second = np.zeros(risks.n)
        second[1:] = np.maximum.accumulate(np.minimum(largest[:-1], distance[1:]))
        several = risks.ends > 1
        bounds = np.where(several, (largest + second)[risks.ends - 1], 0.0)
        out = np.zeros(self.X.shape[0])
        out[risks.order[risks.deaths]] = bounds[self._set_of_deaths]
        return out

    def noise(self, point: Vector, scale: Vector) -> float:
        """Return by how much rounding may move an entry of the gradient at a point, divided by `scale`, shape (d,).

        A mean of a risk set is a quotient of sums, whose errors add up like a random walk of n steps, and moves the
        gradient by the events of the set. An error of x_j.w moves it by the events that are expected of row j. FARTHEST
        is a margin, because a walk may end beyond its mean distance.
        """
        if not self.risks.n:
            return 0.0
        spread = float((self._sizes[1] / scale[:-1]).max(initial=0.0))
        means = np.sqrt(self.risks.n) * self.risks.term_weight.sum()
        z = np.sqrt(self.d) * np.linalg.norm(self._sizes[0] * point[:-1])
        return float(FARTHEST * EPSILON * spread * (means + z * np.linalg.norm(self._sums(point).expected)))

    # rows in the order of the risk sets

    def _value(self, point: Vector) -> float:
        """Return the loss at a point, shape (d,); infinite where a prediction overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = self.X @ point[:-1]
        return self.risks.at(z).value if np.isfinite(z).all() else np.inf

    def _sums(self, point: Vector) -> RiskSums:
        """Return the sums over risk sets at a point, shape (d,)."""
        return self.risks.at(np.asarray(self.X @ point[:-1]))

    @cached_property
    def _set_of_deaths(self) -> Indices:
        """Return the set at whose time each death happens, set after set."""
        return self.risks.set_of[self.risks.deaths]

    @cached_property
    def _centre(self) -> Vector:
        """Return the mean of the rows that are at risk at an event, shape (p,)."""
        risks = self.risks
        counts = np.bincount(risks.order, minlength=self.X.shape[0]) / max(risks.n, 1)
        return np.asarray(counts @ self.X)

    @cached_property
    def _sizes(self) -> tuple[Vector, Vector]:
        """Return the root mean squares of the columns as they are, and less their mean, each of shape (p,)."""
        squares = np.zeros(self.d - 1)
        for rows, _ in self._chunks():
            squares += (self._rows(rows) ** 2).sum(axis=0)
        squares /= max(self.risks.n, 1)
        return np.sqrt(squares + self._centre**2), np.sqrt(squares)

    def _rows(self, rows: slice) -> Matrix:
        """Return some of the n rows in the order of the sets, less their mean, as a dense matrix with p columns."""
        some = self.X[self.risks.order[rows]]
        return np.asarray((some.toarray() if sp.issparse(some) else some) - self._centre)

    def _dead_rows(self, part: Means) -> Matrix:
        """Return the rows of `part` that have an event, set after set."""
        return np.asarray(part.X[self.risks.deaths[part.deaths] - part.rows.start])

    def _chunks(self) -> Iterator[tuple[slice, slice]]:
        """Yield (rows, sets), both in turn, with about CHUNK entries in the rows, which are those of whole sets."""
        ends, most = self.risks.ends, max(1, CHUNK // max(1, self.d - 1))
        start = done = 0
        while done < len(ends):
            stop = max(done + 1, int(np.searchsorted(ends, start + most, side="right")))
            yield slice(start, int(ends[stop - 1])), slice(done, stop)
            start, done = int(ends[stop - 1]), stop

    def _means(self, at: RiskSums) -> Iterator[Means]:
        """Yield the means of rows in risk sets, chunk after chunk; `at` are the sums that weigh them."""
        risks = self.risks
        last: tuple[Matrix, float] | None = None
        for rows, sets in self._chunks():
            X, scale = self._rows(rows), at.scale[rows]
            sums = running_sums(X * at.r[rows, None], scale, last)
            before = np.zeros_like(X)
            before[1:] = sums[:-1] / at.up_to[rows][:-1, None]
            if last is not None:
                before[0] = last[0] / at.up_to[rows.start - 1]
            last = sums[-1], float(scale[-1])
            first = int(risks.death_starts[sets.start])
            starts = risks.death_starts[sets] - first
            count = int((risks.ends - risks.starts)[sets].sum())
            deaths = slice(first, first + count)
            own = X[risks.deaths[deaths] - rows.start] * at.shares[deaths, None]
            alive = before[risks.starts[sets] - rows.start]
            yield Means(rows, sets, deaths, X, before, alive, np.add.reduceat(own, starts, axis=0))

    def _all_means(self, at: RiskSums) -> tuple[Matrix, Matrix, Matrix]:
        """Return (all n rows, means of others in each set, means of its deaths), as in `Means`, of all sets."""
        p = self.d - 1
        parts = [(part.X, part.alive, part.dead) for part in self._means(at)]
        X, alive, dead = map(list, zip(*parts, strict=True)) if parts else ([], [], [])
        empty = np.zeros((0, p))
        return np.concatenate([empty, *X]), np.concatenate([empty, *alive]), np.concatenate([empty, *dead])
