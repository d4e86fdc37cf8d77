"""Least squares for many weightings of the same rows and many penalties each, in two totals for all of them.

The first total has the Gram matrix of every weighting: that is all of the loss, so the minimisers for all penalties
follow from it by arithmetic that every node does for itself. The second has the residuals' gradients there, by which
the minimisers are proven, or refined where rounding left too much: that takes one more total for those alone.

With theta_i = s_i r_i, r the residuals, c = X^T theta, W = sum s_i and t = sum theta_i / W, the dual point
k (theta - s t) proves

    gap <= W t^2/2 + (1 - k)^2 sum s_i (r_i - t)^2 / 2 + sum_j slack_j(w_j, -k (c - t X^T s)_j)

for every k in [0, 1] that brings it into the domain of the penalty's conjugate; without an intercept t = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from glmesh.core.messages import AnyRounds
from glmesh.core.records import PathSolutions
from glmesh.core.totals import Largest, Sums, Total
from glmesh.functions import Table
from glmesh.kernels.face_path import PathScratch, QuadraticFamily, minimise_each
from glmesh.methods.totals.contribution import gram
from glmesh.methods.totals.model import from_triangle
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import column_exponents, scales
from glmesh.methods.totals.traits import Traits
from glmesh.types import Flags, Indices, Matrix, SampleMatrix, Vector

WIDEST = 500  # [coefficients] of the Gram matrices at most, because `ProximalNewton` takes a working set above it
EPSILON = 2.0**-52  # relative error of a product and a sum, because each is rounded by 2^-53
ROUNDING = 1e-13  # [objective] allowance, because sums are rounded; predictions have one of their own
ENTRIES = 2**16  # [predictions] that a node computes at a time, because a cache holds half a MB
# [penalties] that share a grain, because along a path of 100 from 1 to 1/1000 sizes differ by less than 2 in eight
PENALTIES_PER_FIELD = 8
IDLE = 3  # [totals] in a row that lower no objective, after which a run ends, because rounding keeps it from more


@dataclass(frozen=True, eq=False)
class Penalties:
    """n penalties of p coefficients, with which one weighting of the rows is solved; they differ in l1 and l2 only."""

    l1: Matrix  # factors of abs(w_j), a row per penalty
    l2: Matrix  # factors of w_j^2/2, a row per penalty
    bounds: Matrix  # (2, p) least and largest coefficients, the same for all

    @staticmethod
    def of(penalty: Table, alphas: Vector, p: int) -> Penalties:
        """Return n Penalties: `penalty`, of p coefficients, times each of the factors `alphas`, shape (n,)."""
        rows = penalty.kernel_rows(p)
        return Penalties(alphas[:, None] * rows[:, 0], alphas[:, None] * rows[:, 1], rows[:, 3:].T.copy())


@dataclass(eq=False)
class Solutions:
    """What is known of the minimisers for the n penalties of one weighting of the rows.

    They are in scaled units while they are computed. d is the number of coefficients with the intercept.
    """

    points: Matrix  # (n, d) coefficients of the best points, the intercept last if there is one
    objective: Vector  # (n,)
    gap: Vector  # (n,) proven upper bound of objective - optimum
    rounds: Indices  # (n,) totals made for each
    slopes: Matrix  # (n, d) gradients of the loss at `points`
    idle: Indices  # (n,) totals in a row that did not lower the objective
    done: Flags  # (n,) whether the gap is small enough


def suits(block: Rows) -> bool:
    """Return whether `block` can be solved here: squared loss, at most 500 columns, a penalty on every coefficient."""
    table = block.penalty
    penalised = bool(((table.l1 > 0) | (table.l2 > 0)).all()) and not table.linear.any()
    return block.p <= WIDEST and penalised and Traits.of(block.loss).quadratic


def solve_least_squares(
    blocks: Sequence[Rows], penalties: Sequence[Penalties], tol: float, max_rounds: int
) -> AnyRounds:
    """Solve least squares for many penalties at once; return the PathSolutions of each weighting of the rows.

    It is a round: it yields Totals and is sent their Sums. `blocks` have the same rows with other weights and targets,
    a weighting each, and penalties[i] are those of blocks[i]. A problem is done when its gap is at most tol times its
    objective, or after `max_rounds` totals.
    """
    first = blocks[0]
    scale = scales((yield Largest(column_exponents(first))))[: first.p + int(first.fit_intercept)]
    batch = _Batch(blocks, [_scaled(one, scale) for one in penalties], scale)
    batch.begin((yield Total(batch.grams())))
    like = None
    for number in range(2, max_rounds + 1):
        active = batch.active()
        if not active:
            break
        like = yield Total(batch.residuals(active), like=like)
        batch.judge(active, like, tol, number)
    return batch.found()


def _scaled(penalties: Penalties, scale: Vector) -> Penalties:
    """Return the penalties for coefficients that are multiplied by `scale`, shape (d,), with none for an intercept."""
    p = penalties.l1.shape[1]
    more = ((0, 0), (0, len(scale) - p))
    bounds = np.pad(penalties.bounds * scale[:p], more)
    bounds[:, p:] = [[-np.inf], [np.inf]]
    return Penalties(np.pad(penalties.l1 / scale[:p], more), np.pad(penalties.l2 / scale[:p] ** 2, more), bounds)


@dataclass(frozen=True)
class _Trial:
    """New points for some of the penalties of one weighting of the rows, which share the fields of a total.

    A total is a sum over all nodes.
    """

    number: int  # of the weighting
    chosen: Indices  # (n,) its penalties
    points: Matrix  # (n, d) scaled coefficients


class _Batch:
    """All problems of one block while they are solved; every node computes the same from the same sums."""

    def __init__(self, blocks: Sequence[Rows], penalties: Sequence[Penalties], scale: Vector) -> None:
        self.blocks, self.penalties, self.scale = blocks, penalties, scale
        self.p, self.d = blocks[0].p, len(scale)
        norms = blocks[0].row_norms(np.append(scale, np.inf) if self.d == self.p else scale)
        self.norms = np.asarray(norms)
        self.grams_of: list[Matrix] = []
        self.solutions: list[Solutions] = []

    # the Gram matrices

    def grams(self) -> dict[str, Matrix]:
        """Return the fields of the first total (a sum over all nodes): X^T S X, X^T S y and y^T S y of every weighting.

        They are {name: (n_hosted, size)}; S is the diagonal matrix of a weighting's sample weights.
        """
        fields: dict[str, Matrix] = {}
        columns, corner = np.arange(self.d), np.triu_indices(self.d)
        for number, block in enumerate(self.blocks):
            made = list(block.threads.map(partial(self._moments, block, columns), range(block.size)))
            fields[f"gram {number}"] = np.stack([one[corner] for one, _, _ in made])
            fields[f"slopes {number}"] = np.stack([slopes for _, slopes, _ in made])
            fields[f"square {number}"] = np.array([[square] for _, _, square in made])
        return fields

    def _moments(self, block: Rows, columns: Indices, k: int) -> tuple[Matrix, Vector, float]:
        """Return (X^T S X, X^T S y, y^T S y) of the k-th hosted node in scaled units.

        S is the diagonal matrix of the sample weights of `block`, a weighting. Shapes are (d, d), of which the upper
        triangle is valid, (d,) and (). `columns` are the numbers 0 ... d - 1.
        """
        X, y, s = block.X[k], block.y[k], block.weight[k]
        whole = gram(X, s, columns) / self.scale
        whole /= self.scale[:, None]
        return whole, self._transposed(X, (s * y)[None])[0], float((s * y * y).sum())

    def _transposed(self, X: SampleMatrix, rows: Matrix) -> Matrix:
        """Return X^T v for each of n vectors v in scaled units, shape (n, d); `rows` has the vectors, shape (n, m)."""
        out = np.empty((len(rows), self.d))
        out[:, : self.p] = (X.T @ rows.T).T
        if self.d > self.p:
            out[:, -1] = rows.sum(axis=1)
        return np.asarray(out / self.scale)

    def begin(self, sums: Sums) -> None:
        """Keep the Gram matrices that the first total sums, and begin the solutions of all penalties at zero."""
        for number, penalties in enumerate(self.penalties):
            n = len(penalties.l1)
            self.grams_of.append(from_triangle(sums[f"gram {number}"], self.d))
            zeros = np.clip(np.zeros((n, self.d)), *penalties.bounds)
            value = 0.5 * float(sums[f"square {number}"][0])
            slopes = np.tile(-sums[f"slopes {number}"], (n, 1))
            far, none = np.full(n, np.inf), np.zeros(n, dtype=np.int64)
            self.solutions.append(
                Solutions(zeros, np.full(n, value), far, none + 1, slopes, none.copy(), np.zeros(n, dtype=bool))
            )

    # totals at trial points

    def active(self) -> list[_Trial]:
        """Return the trials of the next total: new points of all problems that are not done, in groups of penalties.

        A total is a sum over all nodes.
        """
        found = []
        for number, known in enumerate(self.solutions):
            left = np.flatnonzero(~known.done & (known.idle < IDLE))
            if not len(left):
                continue
            points = self._minimisers(number, left)
            for at in range(0, len(left), PENALTIES_PER_FIELD):
                some = slice(at, at + PENALTIES_PER_FIELD)
                found.append(_Trial(number, left[some], points[some]))
        return found

    def _minimisers(self, number: int, chosen: Indices) -> Matrix:
        """Return the minimisers, shape (n, d), for the penalties with numbers `chosen` of weighting `number`.

        They minimise the loss, as Gram matrix and slopes at the best points known tell it, plus the penalty.
        """
        known, penalties, H = self.solutions[number], self.penalties[number], self.grams_of[number]
        points, l1, l2 = known.points[chosen], penalties.l1[chosen], penalties.l2[chosen]
        smooth = (l1 == 0).all(axis=0) & np.isinf(penalties.bounds).all(axis=0)
        order = np.argsort(~smooth, kind="stable")
        slopes = known.slopes[chosen] + l2 * points
        out = np.empty_like(points)
        family = QuadraticFamily(
            H=np.ascontiguousarray(H[np.ix_(order, order)]),
            slopes=np.ascontiguousarray(slopes[:, order]),
            points=np.ascontiguousarray(points[:, order]),
            l1=np.ascontiguousarray(l1[:, order]),
            l2=np.ascontiguousarray(l2[:, order]),
            bounds=np.ascontiguousarray(penalties.bounds[:, order]),
            n_free=np.uint64(smooth.sum()),
        )
        minimise_each(family, bool((known.rounds[chosen] == 1).all()), out, PathScratch.of(self.d))
        return out[:, np.argsort(order, kind="stable")]

    def residuals(self, trials: Sequence[_Trial]) -> dict[str, Matrix]:
        """Return the fields of a total: loss, gradient and what rounding may add, at every trial's points.

        They are {name: (n_hosted, size)}. A total is a sum over all nodes.
        """
        block, fields = self.blocks[0], {}
        for number in dict.fromkeys(one.number for one in trials):
            own = [one for one in trials if one.number == number]
            points = np.concatenate([one.points for one in own])
            raw, sizes = points / self.scale, np.sqrt((points**2).sum(axis=1))
            node = partial(self._residuals, number=number, raw=raw, sizes=sizes)
            made = list(block.threads.map(node, range(block.size)))
            losses, slopes = np.stack([loss for loss, _ in made]), np.stack([slope for _, slope in made])
            at = 0
            for one in own:
                some, name = slice(at, at + len(one.chosen)), f"{number} {one.chosen[0]}"
                fields[f"loss {name}"], fields[f"rounding {name}"] = losses[:, 0, some], losses[:, 1, some]
                fields[f"slopes {name}"] = slopes[:, some].reshape(block.size, -1)
                at += len(one.chosen)
        return fields

    def _residuals(self, k: int, number: int, raw: Matrix, sizes: Vector) -> tuple[Matrix, Matrix]:
        """Return two sums over the rows of the k-th hosted node, at n points of weighting `number`.

        They are losses and what rounding may add to them, shape (2, n), and gradients, shape (n, d). `raw` has the
        points' coefficients for raw columns, `sizes` the points' norms. If predictions are wrong by e_i, the loss is by
        sum_i abs(theta_i) e_i + s_i e_i^2/2 at most: the product of two norms, and half of the square of the second.
        """
        block, n = self.blocks[number], len(raw)
        y, s, rows = block.y[k], block.weight[k], int(block.starts[k])
        losses, slopes = np.zeros((2, n)), np.zeros((n, self.d))
        step = max(ENTRIES // n, 1)
        for a in range(0, len(y), step):
            some = slice(a, a + step)
            X = block.X[k][some]
            r = (
                raw[:, : self.p] @ X.T
                if isinstance(X, np.ndarray)
                else np.ascontiguousarray((X @ raw[:, : self.p].T).T)
            )
            r -= y[some] if self.d == self.p else y[some] - raw[:, -1:]
            theta = s[some] * r
            losses[0] += 0.5 * np.einsum("ij,ij->i", theta, r)
            slopes += self._transposed(X, theta)
        norms = self.norms[rows : rows + len(y)]
        errors = EPSILON * np.sqrt(self.d) * sizes * np.sqrt((s * norms * norms).sum())
        losses[1] = np.sqrt(2.0 * losses[0]) * errors + 0.5 * errors**2
        return losses, slopes

    def judge(self, trials: Sequence[_Trial], sums: Sums, tol: float, number: int) -> None:
        """Keep the trial points that are better than what was known, with their gaps, by the sums of a total.

        A problem is done when its gap is at most tol times its objective; `number` counts the totals so far.
        """
        for one in trials:
            name, known, n = f"{one.number} {one.chosen[0]}", self.solutions[one.number], len(one.chosen)
            errors = {part: sums.errors[f"{part} {name}"] for part in ("loss", "rounding", "slopes")}
            loss, slopes = sums[f"loss {name}"], sums[f"slopes {name}"].reshape(n, self.d)
            rounding = sums[f"rounding {name}"] + errors["rounding"] + errors["loss"]
            objective, gap = self._proof(one, loss, slopes, errors["slopes"])
            gap = gap + rounding + ROUNDING * np.abs(objective)
            better = ~(objective >= known.objective[one.chosen])
            known.idle[one.chosen] = np.where(better, 0, known.idle[one.chosen] + 1)
            keep = better | (gap < known.gap[one.chosen])  # also where both are equal but for rounding
            chosen = one.chosen[keep]
            known.points[chosen], known.objective[chosen] = one.points[keep], objective[keep]
            known.gap[chosen], known.slopes[chosen] = gap[keep], slopes[keep]
            known.rounds[one.chosen] = number
            known.done[one.chosen] = known.gap[one.chosen] <= tol * np.abs(known.objective[one.chosen])

    def _proof(self, one: _Trial, loss: Vector, slopes: Matrix, unit: float) -> tuple[Vector, Vector]:
        """Return (objectives, gaps) at the points of a trial, shape (n,) each.

        `loss` has the losses there, shape (n,), `slopes` their gradients, shape (n, d); `unit` is the error of an entry
        of `slopes`.
        """
        penalties, H, w = self.penalties[one.number], self.grams_of[one.number], one.points
        l1, l2 = penalties.l1[one.chosen], penalties.l2[one.chosen]
        pulls, centred, away = slopes, loss, np.zeros(len(loss))
        if self.d > self.p and H[-1, -1] > 0:
            t = slopes[:, -1] / H[-1, -1]
            away = 0.5 * H[-1, -1] * t * t
            centred, pulls = np.maximum(loss - away, 0.0), slopes - t[:, None] * H[-1]
        n, p = len(loss), self.p
        l1, l2, w, pulls = (np.ascontiguousarray(part[:, :p]) for part in (l1, l2, w, pulls))
        lo, hi = (np.tile(side[:p], n) for side in penalties.bounds)
        table = Table(l1.ravel(), l2.ravel(), np.zeros(n * p), lo, hi)
        objective = loss + table.values(w.ravel()).reshape(n, p).sum(axis=1)
        k = self._shrink(pulls, l1, l2, penalties.bounds[:, :p])
        noise = unit + EPSILON * np.sqrt(2.0 * loss * max(float(np.diag(H).max()), 1.0))
        slack = table.slacks(w.ravel(), -(k[:, None] * pulls).ravel()).reshape(n, p).sum(axis=1)
        allowance = 2.0 * noise * np.abs(w).sum(axis=1)
        return objective, away + (1.0 - k) ** 2 * centred + slack + allowance

    @staticmethod
    def _shrink(pulls: Matrix, l1: Matrix, l2: Matrix, bounds: Matrix) -> Vector:
        """Return the largest k <= 1, for each of n vectors c, with -k c in the domain of the penalty's conjugate.

        The result has shape (n,). `pulls` has the vectors c = X^T theta, shape (n, p); l1, l2 and bounds are those of
        the penalties.
        """
        up = np.where((l2 == 0) & np.isposinf(bounds[1]), np.maximum(-pulls, 0.0), 0.0)
        down = np.where((l2 == 0) & np.isneginf(bounds[0]), np.maximum(pulls, 0.0), 0.0)
        force = np.maximum(up, down)
        limit = np.divide(l1, force, out=np.full_like(force, np.inf), where=force > l1)
        return np.asarray(np.minimum(limit.min(axis=1, initial=np.inf), 1.0) * (1.0 - EPSILON))

    def found(self) -> list[PathSolutions]:
        """Return a list with the PathSolutions of each weighting, in the user's units."""
        out = []
        for known in self.solutions:
            raw = known.points / self.scale
            intercepts = raw[:, -1].copy() if self.d > self.p else np.zeros(len(raw))
            out.append(PathSolutions(raw[:, : self.p].copy(), intercepts, known.objective, known.gap, known.rounds))
        return out
