"""A primal-dual interior-point method for losses with kinks, whose rows cut their steps each by itself.

Newton's equations of the smoothed objective sum_i phi_i(x_i.w + b) + l2/2 |w|^2 (`pieces`) are those of one total,
Z'DZ and some products Z'a. Coefficients are free and p - q = g is restored row by row, so that no step length is
shared by all multipliers.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace

import numpy as np

from glmesh.core.totals import Sums, Total
from glmesh.errors import UnsuitablePair
from glmesh.methods.totals.dual_bound import DualPoint, StandardisedPenalty, balanced
from glmesh.methods.totals.factor import Factor
from glmesh.methods.totals.interior_state import Frame, InteriorState, Step
from glmesh.methods.totals.nodes import TotalMethod
from glmesh.methods.totals.pieces import Kinks, Multipliers, Pieces
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.standardise import Standardisation, column_sums
from glmesh.types import Matrix, SampleMatrix, Vector

MAX_COLUMNS = 2000  # of the Gram matrix that a total holds: 16 MB
TRIALS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)  # step lengths at which the smoothed objective is known
LONGER = 1.3  # [1] by which a step may be longer than the last one
SHORT = 0.13  # a step up to this length leaves mu as it is
ENOUGH = 0.3  # share of the best trial's decrease for which a shorter step is accepted
LEAST_CUT, FULL_CUT = 0.02, 0.3  # of mu in a round, and per unit of Newton's decrement
FIRST_CUT = 0.1  # mu <= 0.1 P/N from the second accepted point on
ROUNDING = 1e-11  # [P] added to every gap
CONSTANT = 2.0**-44  # [mean] standard deviation up to which a column counts as constant
HUGE_MEAN = 1e6  # [standard deviations] mean beyond which squares are summed anew, about the mean

Fields = dict[str, Vector]
Totals = Generator[Total, Sums, None]


@dataclass(frozen=True)
class InteriorPoint(TotalMethod[InteriorState]):
    tol: float = 1e-9

    def suits(self, block: Rows) -> bool:
        return block.p <= MAX_COLUMNS

    def start(self, block: Rows, w: Vector | None = None, intercept: float = 0.0) -> InteriorState:
        Kinks.of(block.loss)
        p = block.p
        given = np.zeros(p) if w is None else np.array(w, dtype=np.float64)
        return InteriorState(
            w=given,
            intercept=float(intercept) if w is not None else 0.0,
            visited=np.zeros(block.size),
            centre=np.zeros(p + 1),
        )

    def retarget(self, block: Rows, state: InteriorState) -> None:
        frame = state.frame
        if frame is None or not np.isfinite(state.objective):
            return
        raise NotImplementedError

    def round(self, block: Rows, state: InteriorState) -> Totals:
        if state.frame is None:
            yield from self._measure(block, state)
        else:
            yield from self._iterate(block, state)

    # the first totals

    def _measure(self, block: Rows, state: InteriorState) -> Totals:
        given = state.w.any() or state.intercept != 0.0
        fields = list(block.threads.map(lambda k: _moments(block, k, state), range(block.size)))
        sums = yield Total({name: np.stack([one[name] for one in fields]) for name in fields[0]})
        p, weight = block.p, float(sums["weight"][0])
        first = np.array([sums[f"first {j}"][0] for j in range(p + 1)]) / weight
        second = np.array([sums[f"second {j}"][0] for j in range(p + 1)]) / weight
        mean, variance = state.centre + first, second - first**2
        if block.fit_intercept and not state.centre.any() and (HUGE_MEAN**2 * variance < mean**2).any():
            state.centre = mean
            return
        if block.fit_intercept:
            deviation = np.sqrt(np.maximum(variance, 0.0))
            deviation[deviation <= CONSTANT * np.abs(mean)] = 0.0
        else:
            mean, deviation = np.zeros(p + 1), np.sqrt(second)
        exponent = np.frexp(np.where(deviation[:p] > 0, deviation[:p], 1.0))[1]
        inverse = np.where(deviation[:p] > 0, np.ldexp(1.0, -exponent), 0.0)
        columns = Standardisation(mean[:p], inverse, block.fit_intercept)
        labels = block.loss.classifies
        shift = float(mean[p]) if block.fit_intercept and not labels else 0.0
        frame = Frame(columns, shift, float(sums["rows"][0]), weight)
        state.frame = frame
        kinks = Kinks.of(block.loss)
        n = kinks.n_pieces * frame.n_rows + np.count_nonzero(self._penalty(block, frame).l1)
        state.point = columns.from_user(state.w, state.intercept, shift) if given else np.zeros(columns.d)
        if labels:
            heavy = 0.5 * (weight + sums[f"first {p}"][0]), 0.5 * (weight - sums[f"first {p}"][0])
            state.mu = 2.0 * min(heavy) / n
            if block.fit_intercept:
                state.point[-1] = _balance(heavy, sums["positive"][0], frame.n_rows, state.mu, weight)
        else:
            spread = np.sqrt(second[p] - (first[p] ** 2 if block.fit_intercept else 0.0) + kinks.idle**2)
            state.mu = 0.8 * float(spread) * kinks.width * weight / frame.n_rows
        state.sums = None

    def _penalty(self, block: Rows, frame: Frame) -> StandardisedPenalty:
        inverse = frame.columns.inverse
        l1 = np.broadcast_to(block.penalty.l1, block.p) * inverse
        l2 = np.broadcast_to(block.penalty.l2, block.p) * inverse**2
        return StandardisedPenalty(l1, np.where(inverse > 0, l2, 1.0))

    # Newton's steps

    def _iterate(self, block: Rows, state: InteriorState) -> Totals:
        frame = state.frame
        kinks = Kinks.of(block.loss)
        made = list(block.threads.map(lambda k: _contribution(block, k, state, kinks), range(block.size)))
        fields = [one[0] for one in made]
        sums = yield Total({name: np.stack([one[name] for one in fields]) for name in fields[0]}, like=state.sums)
        state.sums = sums
        state.visited = np.array([3.0 * _nonzeros(X) for X in block.X])
        self._learn(block, state, sums, [one[1] for one in made])

    def _learn(self, block, state, sums, rows):
        frame, step = state.frame, state.step
        penalty = self._penalty(block, frame)
        p = block.p
        n_pieces = Kinks.of(block.loss).n_pieces * frame.n_rows + np.count_nonzero(penalty.l1)
        at = np.flatnonzero(penalty.l1)
        l1 = penalty.l1[at][None]
        absolute = Pieces(np.zeros_like(l1), -l1, l1, np.ones_like(l1))
        if step is None:
            trial, length, mu = state.point, 0.0, state.mu
            kinks = absolute.centre(trial[at][None], mu)
        else:
            length, mu = step.length, step.mu
            trial = state.point + length * step.direction
            g0 = state.point[at][None]
            move = length * state.l1.curvature * (step.direction[at] + g0 - mu * state.l1.pull)
            kinks = absolute.move(state.l1, move, trial[at][None], mu)
        # values
        P = float(sums["P"][0]) + penalty.value(trial[:p])
        self._see(state, P, trial)
        if step is not None:
            affine = state.point + step.affine
            self._see(state, float(sums["Pa"][0]) + penalty.value(affine[:p]), affine)
        # factor
        H = np.zeros((frame.columns.d,) * 2)
        H[np.triu_indices(len(H))] = sums["H"]
        diag = np.arange(p)
        H[diag, diag] += penalty.l2
        H[at, at] += kinks.curvature[0]
        factor = Factor(H)
        # dual
        for name in "abc":
            if name + "+" in sums:
                self._bound(state, penalty, sums, name, block.fit_intercept)
        state.gap = max(state.objective - state.bound, 0.0) + ROUNDING * abs(state.objective)
        # accept
        if step is not None:
            F = {}
            for t, name in [(0.0, "F0"), (length, "Ft"), *((t, f"F{t}") for t in TRIALS)]:
                w = state.point + t * step.direction
                F[t] = float(sums[name][0]) + 0.5 * penalty.l2 @ (w[:p] ** 2) + absolute.smoothed(w[at][None], mu).sum()
            gain = {t: F[0.0] - value for t, value in F.items()}
            noise = 1e-13 * abs(F[0.0])
            best = max((t for t in gain if t > 0), key=lambda t: gain[t])
            state.debug = (gain, best, noise)
            if not (gain[length] > -noise and (length == 1.0 or gain[length] >= ENOUGH * gain[best] - noise)):
                if gain[best] <= -noise:
                    # recentre
                    state.step = None
                    state.mu = mu
                    state.log = "recentre"
                    return
                state.step = replace(step, length=best)
                state.log = f"reject t={length} best={best}"
                return
        state.point, state.rows, state.l1 = trial, rows, kinks
        state.accepted += 1
        c0, c1 = sums["c0"].copy(), sums["c1"].copy()
        residual = sums["a+"] + sums["a-"]
        theta = absolute.slopes(kinks)[0]
        c0[at] += theta + kinks.curvature[0] * trial[at]
        c1[at] += kinks.curvature[0] * kinks.pull[0]
        residual[at] += theta
        r = -c0
        r[:p] -= penalty.l2 * trial[:p]
        residual[:p] += penalty.l2 * trial[:p]
        right = np.stack([r, c1, -residual], axis=1)
        affine, pull, restoring = factor.solve(right).T
        d = frame.columns.d
        decrement = np.sqrt(max((r + mu * c1) @ (affine + mu * pull), 0.0) / (mu * d))
        c = np.clip(FULL_CUT * np.sqrt(20.0 * d / frame.n_rows), 0.1, FULL_CUT)
        if state.accepted > 1 and length > SHORT:
            mu *= float(np.clip(c * decrement, LEAST_CUT, 1.0))
        if state.accepted > 1:
            mu = min(mu, FIRST_CUT * P / n_pieces)
        mu = max(mu, 0.02 * self.tol * state.objective / n_pieces)
        state.mu = mu
        state.log = f"accept t={length} lam={decrement:.3g} mu={mu:.3g}"
        state.step = Step(
            affine + mu * pull, restoring, affine, min(1.0, LONGER * length) if step is not None else 1.0, mu
        )

    def _see(self, state, P, coefficients):
        if not P >= state.objective:
            state.objective = P
            state.w, state.intercept = state.frame.columns.to_user(coefficients, state.frame.shift)

    def _bound(self, state, penalty, sums, name, fit_intercept):
        parts = []
        for i, sign in enumerate("+-="):
            c = sums[name + sign]
            k = float(sums["k" + name][i])
            parts.append(DualPoint(k, c, abs(k), np.abs(c)))
        points = balanced(*parts) if fit_intercept else [parts[0] + parts[1]]
        if penalty.free.any():
            return
        for point in points:
            point = penalty.shrunk(point)
            if state.dual is not None:
                point = penalty.best_between(state.dual, point)
            bound = penalty.lower_bound(point)
            if bound > state.bound:
                state.bound, state.dual = bound, point


def _nonzeros(X: SampleMatrix) -> int:
    return int(X.nnz) if hasattr(X, "nnz") else int(X.size)


def _kept(block: Rows, k: int) -> tuple[SampleMatrix, Vector, Vector]:
    """Return (X, y, weights) of node k without the rows of weight 0."""
    X, y, s = block.X[k], block.y[k], block.weight[k]
    kept = s > 0
    return (X, y, s) if kept.all() else (X[kept], y[kept], s[kept])


def _moments(block: Rows, k: int, state: InteriorState) -> Fields:
    X, y, s = _kept(block, k)
    sums = column_sums(X, s, state.centre[:-1])
    away = y - state.centre[-1]
    fields = {
        "weight": np.array([s.sum()]),
        "rows": np.array([float(len(s))]),
        "positive": np.array([float((y > 0).sum())]),
    }
    for j in range(block.p):
        fields[f"first {j}"], fields[f"second {j}"] = sums[0, j : j + 1], sums[1, j : j + 1]
    fields[f"first {block.p}"], fields[f"second {block.p}"] = np.array([s @ away]), np.array([s @ away**2])
    return fields


def _balance(heavy, positive, n, mu, weight):
    """Intercept with sum theta = 0 at w=0."""
    counts = np.array([positive, n - positive])
    B = np.array(heavy) / counts
    share = np.sqrt(B / (weight / n))
    pieces = Pieces(np.array([[1.0, -1.0]]), np.array([[-B[0], 0.0]]), np.array([[0.0, B[1]]]), share[None])
    low, high = -2.0, 2.0
    for _ in range(60):
        b = 0.5 * (low + high)
        theta = pieces.slopes(pieces.centre(b - pieces.k, mu))[0] @ counts
        low, high = (low, b) if theta > 0 else (b, high)
    return b


def _contribution(block: Rows, k: int, state: InteriorState, kinks: Kinks) -> tuple[Fields, Multipliers]:
    frame, step = state.frame, state.step
    X, y, s = _kept(block, k)
    pieces = kinks.pieces(block.loss, y - frame.shift if frame.shift else y, s, frame.weight / frame.n_rows)
    fields: Fields = {}
    slopes = {}
    if step is None:
        g = frame.columns.products(X, state.point[None]) - pieces.k
        new = pieces.centre(g, state.mu)
    else:
        old = state.rows[k]
        at, along, restoring, affine = frame.columns.products(
            X, np.stack([state.point, step.direction, step.restoring, step.affine])
        )
        before = at - pieces.k
        mu = step.mu
        D = old.curvature
        move = step.length * D * (along + before - mu * pieces.share * old.pull)
        g = before + step.length * along
        new = pieces.move(old, move, g, mu)
        theta = pieces.slopes(old)
        slopes["b"] = np.clip(theta + D * restoring, pieces.lo, pieces.hi)
        slopes["c"] = np.clip(theta + D * (affine + before), pieces.lo, pieces.hi)
        fields["Pa"] = _sum(pieces.values(before + affine))
        for t, name in [(0.0, "F0"), (step.length, "Ft"), *((t, f"F{t}") for t in TRIALS)]:
            fields[name] = _sum(pieces.smoothed(before + t * along, mu))
    fields["P"] = _sum(pieces.values(g))
    theta, D = pieces.slopes(new), new.curvature
    slopes["a"] = theta
    names = ["c0", "c1"]
    vectors = [(theta + D * g).sum(axis=0), (D * pieces.share * new.pull).sum(axis=0)]
    for name, one in slopes.items():
        parts = np.maximum(one, 0.0), np.minimum(one, 0.0), np.minimum(pieces.hi - one, one - pieces.lo)
        names += [name + sign for sign in "+-="]
        vectors += [part.sum(axis=0) for part in parts]
        fields["k" + name] = np.array([(pieces.k * part).sum() for part in parts])
    fields["H"], moments = frame.columns.sums(X, D.sum(axis=0), np.stack(vectors))
    fields |= dict(zip(names, moments, strict=True))
    return fields, new


def _sum(values: Matrix) -> Vector:
    return np.array([values.sum()])
