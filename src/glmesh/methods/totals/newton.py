"""Proximal Newton on totals: the Hessian and gradient of the loss at w are summed, and all nodes compute the next w.

    w <- argmin_u g.(u - w) + (u - w).H (u - w)/2 + penalty(u),     g and H sums over the rows of all nodes

A round is one total, at the full step; it brings shorter steps' losses along, so a step that is too long costs one more
total and no search.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glmesh.core.totals import Largest, Sums, Total
from glmesh.methods.totals import bounds
from glmesh.methods.totals.contribution import TRIALS, Query, contribute, visits
from glmesh.methods.totals.model import Model, Step, from_triangle, inverse_factor, minimum
from glmesh.methods.totals.newton_state import NewtonState
from glmesh.methods.totals.nodes import TotalMethod
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import ScaledPenalty, column_exponents, scales
from glmesh.methods.totals.traits import Traits
from glmesh.types import Indices, Matrix, Vector

# [parts of the decrement] decrease of the objective that makes a step good enough (Armijo's rule: Nocedal and Wright,
# Numerical Optimization, eq. 3.4, with their 1e-4)
SUFFICIENT_DECREASE = 1e-4
VISIBLE_DECREASE = 1e-11  # [objective] decrement below which values of the objective are rounding
SHORTEST_STEP = 0.05  # below it the Hessian misleads, and curvatures of an upper bound are used
SHORT_STEP = 0.3  # below it the damping grows
DAMPING = 1e-3  # [upper bound's Hessian] that is added when steps are short, ten times as much each time
LEAST_DAMPING = 1e-8  # [upper bound's Hessian] that is added first where the Hessian alone has no minimum
FLAT_RESIDUAL = 1e-3  # relative slope left by a step beyond which a coordinate has slope but no curvature
WIDE = 500  # [coefficients] above which the Hessian of an L1 problem is summed on a working set only
NEAR = 0.95  # [l1] slope from which a zero coefficient may enter the working set
SHARE = 0.5  # [working set] newcomers at once, if that is more
NEWCOMERS = 200  # coefficients that enter a working set at once
DUAL_FROM = 5e-3  # [objective] decrement below which a wide problem asks for a dual point
SEPARATED = "there is no optimum: the data can be separated, and coefficients grow for ever; add a penalty (alpha > 0)"
IDLE = 3  # rounds without visible progress after which no more is hoped for

Totals = Generator[Any, Any, None]  # yields Largest and Total, and is sent maxima and Sums


@dataclass(frozen=True)
class ProximalNewton(TotalMethod[NewtonState]):
    """Newton's method for smooth losses and separable penalties, one exact total a round."""

    def start(self, block: Rows, w: Vector | None, intercept: float) -> NewtonState:
        """Return the state before round 0, at coefficients w, shape (p,) (None: zero)."""
        Traits.of(block.loss)
        w = np.zeros(block.p) if w is None else np.array(w, dtype=np.float64)
        return NewtonState(w, intercept if block.fit_intercept else 0.0, np.zeros(block.size))

    def retarget(self, block: Rows, state: NewtonState) -> None:
        """Forget what depends on the penalty, which is another one from now on; keep w and a Gram matrix."""
        kept = state.model if Traits.of(block.loss).quadratic else None
        fresh = NewtonState(state.w, state.intercept, state.visited, sums=state.sums, scale=state.scale)
        vars(state).update(vars(fresh))
        state.model = kept

    def take(self, state: NewtonState, at: Vector) -> float:
        """Go to the trial point of another node instead of one's own; return their distance in parts of the point.

        `at` is that of the `Total` at the other node. The norm is that of the Hessian, where there is one.
        """
        query, model = state.query, state.model
        d = 0 if query is None else len(query.point)
        if query is None or len(at) != 2 * d + len(query.columns) or (at[2 * d :] != query.columns).any():
            return np.inf
        there, other = query.point + query.step, at[:d] + at[d : 2 * d]
        columns = np.arange(d) if model is None or not len(model.columns) else model.columns
        bend = np.eye(d) if model is None or not len(model.columns) else model.hessian
        apart, size = ((one[columns] * (bend * one[columns]).sum(axis=1)).sum() for one in (other - there, there))
        state.query = replace(query, point=at[:d].copy(), step=at[d : 2 * d].copy())
        return float(np.sqrt(apart / size)) if size > 0 else float(np.inf if apart else 0.0)

    def trial(self, block: Rows, state: NewtonState) -> tuple[Vector, float, bool] | None:
        """Return (coefficients (p,), intercept, majorant) of the coming total; None before scales are known."""
        if state.scale is None:
            return None
        rounds = _Round(block, state)
        query = rounds.query()
        return *rounds.penalty.to_user(query.point + query.step), query.majorant

    def rescale(self, state: NewtonState, exponents: Indices) -> None:
        """Divide columns by powers of two that are known already, the largest exponents of all nodes, shape (d,)."""
        state.scale = scales(exponents)

    def round(self, block: Rows, state: NewtonState) -> Totals:
        """Make one round: one total at the trial point, and the choice of the next; the first agrees on scales."""
        if state.scale is None:
            state.scale = scales((yield Largest(column_exponents(block))))
        rounds = _Round(block, state)
        query = rounds.query()
        state.visited = visits(block, query)
        fields = contribute(block, rounds.penalty, query)
        like = state.sums
        if like is not None and "reach" in like.sizes:  # its 16th powers change too much
            like = Sums(dict(like), {name: size for name, size in like.sizes.items() if name != "reach"})
        sums = yield Total(fields, like=like, at=np.concatenate([query.point, query.step, query.columns]))
        rounds.advance(query, sums)


class _Round:
    """One round's work on the shared state; every node computes the same from the same sums."""

    def __init__(self, block: Rows, state: NewtonState) -> None:
        assert state.scale is not None
        self.state = state
        self.penalty = ScaledPenalty.of(block, state.scale)
        self.traits = Traits.of(block.loss)
        kinks = self.penalty.table.l1 > 0
        self.wide = block.p > WIDE and len(self.penalty.movable) - kinks.sum() <= WIDE

    # the request

    def query(self) -> Query:
        """Return what the total of this round asks for."""
        if self.state.query is None:
            self.state.query = self._first()
        return self.state.query

    def _first(self) -> Query:
        """Return the query at the coefficients that the state begins with."""
        penalty, state = self.penalty, self.state
        point = penalty.from_user(state.w, state.intercept)
        known = state.model.columns if state.model is not None else np.zeros(0, dtype=np.int64)
        columns = self._columns(point, None)
        state.lower = penalty.least
        if self.traits.quadratic and np.isin(columns, known).all():
            columns = columns[:0]
        return Query(point, np.zeros_like(point), columns, majorant=self.traits.pieces, cross=self.wide)

    def _columns(self, point: Vector, gradient: Vector | None) -> Indices:
        """Return the columns of the Hessian at a point: all, or the support and what may enter it."""
        movable, table = self.penalty.movable, self.penalty.table
        if not self.wide:
            return movable
        chosen = (point != 0) | (table.l1 == 0)
        chosen &= table.lo < table.hi
        if gradient is not None:
            slopes = np.abs(gradient + table.linear)
            ratio = np.divide(slopes, table.l1, out=np.zeros_like(slopes), where=(table.l1 > 0) & ~chosen)
            ratio[table.lo == table.hi] = 0.0
            many = max(NEWCOMERS, int(SHARE * chosen.sum()))
            best = np.argsort(-ratio, kind="stable")[:many]
            chosen[best[ratio[best] > NEAR]] = True
        return np.flatnonzero(chosen)

    # what follows from the sums

    def advance(self, query: Query, sums: Sums) -> None:
        """Judge the trial point by the sums there, choose the next one, and bring the state's proof up to date."""
        state = self.state
        state.sums = sums
        there = query.point + query.step
        loss = float(sums["values"][0])
        value = loss + self.penalty.value(there)
        state.rounding = float(sums["values"][1]) + bounds.ROUNDING * (loss + abs(value - loss))
        gap = np.inf
        if query.dual and loss < query.cap:
            gap = bounds.duality_gap(self.penalty, query, sums) + state.rounding
            state.lower = max(state.lower, value - gap)
        if "reach" in sums and self.traits.third is not None:
            state.reach = bounds.reach(sums, self.traits.third)
        if not query.moves:
            self._arrive(query, sums, loss, value, 0.0)
        else:
            self._judge(query, sums, loss, value)
        if state.model is not None and state.model.point is not None and state.objective == value:
            state.gap = min(state.gap, gap)
        if "wrong" in sums and sums["wrong"][1] == 0:
            state.failure = SEPARATED

    def _judge(self, query: Query, sums: Sums, loss: float, value: float) -> None:
        """Accept the trial point, or the best of the shorter steps, or go on more carefully."""
        model, step = self.state.model, self.state.step
        assert model is not None
        assert step is not None
        gain, dec = model.value - value, step.decrement
        seen = dec > VISIBLE_DECREASE * abs(model.value)
        good = gain >= SUFFICIENT_DECREASE * dec if seen else gain >= -VISIBLE_DECREASE * abs(model.value)
        best, best_gain = 1.0, gain
        if query.trials:
            values = sums["trials"] + [self.penalty.value(query.point + t * query.step) for t in TRIALS]
            at = int(np.argmin(values))
            if model.value - values[at] > best_gain:
                best, best_gain = float(TRIALS[at]), model.value - float(values[at])
        if good and not (best < 1.0 and best_gain > 2.0 * gain):
            self._relax()
            self._arrive(query, sums, loss, value, 1.0)
        elif best < 1.0 and best_gain > 0:
            self._shorten(query, best, model.value - best_gain)
        else:
            self._be_careful(query.point)

    def _relax(self) -> None:
        """Trust the Hessian more after a full step."""
        state = self.state
        state.damping = state.damping / 10.0 if state.damping > DAMPING else 0.0
        state.careful = max(state.careful - 1, 0)

    def _damp(self, least: float = DAMPING) -> None:
        """Trust the Hessian less, by at least this part of the upper bound's."""
        self.state.damping = min(max(10.0 * self.state.damping, least), 1.0)

    def _misleads(self, model: Model, step: Step) -> bool:
        """Return whether a model promises more than there is, or leaves slopes without any curvature."""
        return step.decrement > 2.0 * (model.value - self.state.lower) or step.residual > FLAT_RESIDUAL

    def _shorten(self, query: Query, length: float, value: float) -> None:
        """Go to the point of a shorter step, whose objective is known and whose slopes the next total brings."""
        state = self.state
        self._shift_reach(length)
        if state.gram is not None:
            if length < SHORT_STEP:
                self._damp()
        elif length < SHORTEST_STEP and not state.careful:
            state.careful, state.patience = state.patience, 2 * state.patience
        point = query.point + length * query.step
        self._accept(point, value)
        self._ask_at(point)

    def _be_careful(self, point: Vector) -> None:
        """Go on from the same point with more damping or with curvatures of an upper bound."""
        state, model = self.state, self.state.model
        assert model is not None
        if state.gram is not None and state.damping < 1.0:
            self._damp()
            self._next(model)
        elif not model.majorant and not self.traits.quadratic:
            state.careful, state.patience = state.patience, 2 * state.patience
            self._ask_at(point)
        else:
            self._idle()

    def _idle(self) -> None:
        state = self.state
        state.idle += 1
        if state.idle >= IDLE and not state.failure:
            state.failure = "no step lowers the objective any more, because of rounding"

    def _ask_at(self, point: Vector) -> None:
        """Ask for slopes and Hessian at a point whose objective is known."""
        state = self.state
        gradient = None if state.model is None else state.model.gradient
        columns = self._columns(point, gradient)
        state.step = None
        state.query = Query(point, np.zeros_like(point), columns, majorant=state.careful > 0)

    def _accept(self, point: Vector, value: float) -> None:
        """Make a point the best one whose objective is known."""
        state = self.state
        state.w, state.intercept = self.penalty.to_user(point)
        state.objective = value
        state.gap = max(value - state.lower, 0.0) + state.rounding

    def _shift_reach(self, length: float) -> None:
        """Carry the bound R over to the point of a step: the Hessian falls by at most exp(R norm of the step)."""
        state = self.state
        if state.step is not None and np.isfinite(state.reach):
            moved = length * np.sqrt(max(state.step.decrement, 0.0))
            state.reach *= float(np.exp(min(0.5 * state.reach * moved, 700.0)))

    def _arrive(self, query: Query, sums: Sums, loss: float, value: float, length: float) -> None:
        """Make the trial point the one that the next step begins at."""
        state, before = self.state, self.state.model
        self._shift_reach(length)
        point = query.point + query.step
        if before is not None and self.traits.quadratic and not len(query.columns):
            columns, hessian = before.columns, before.hessian
        else:
            columns = query.columns
            hessian = from_triangle(sums.get("hessian", np.zeros(0)), len(columns))
        model = Model(point, loss, value, sums["slopes"][: len(point)], columns, hessian, query.majorant)
        if query.majorant and self.traits.pieces and not self.wide:
            state.gram = hessian
        self._accept(point, value)
        self._next(model, sums.get("cross"))

    def _bend(self, model: Model) -> Matrix:
        state = self.state
        return model.hessian + state.damping * state.gram if state.gram is not None and state.damping else model.hessian

    def _next(self, model: Model, cross: Vector | None = None) -> None:
        """Compute the step from a model, and what the next total asks for.

        `cross` is the Hessian's row of the intercept, shape (d,), if it is known: the slopes of columns that are not in
        the working set are then known after the step, which moves the intercept alone.
        """
        state, penalty, traits = self.state, self.penalty, self.traits
        step = minimum(penalty, model, self._bend(model))
        while state.gram is not None and state.damping < 1.0 and self._misleads(model, step):
            self._damp(LEAST_DAMPING)
            step = minimum(penalty, model, self._bend(model))
        state.model, state.step = model, step
        self._prove(model, step)
        if step.decrement <= VISIBLE_DECREASE * 1e-3 * abs(model.value) and cross is None:
            self._idle()
        else:
            state.idle = 0
        there = model.point + step.change
        slopes = model.gradient if cross is None else model.gradient + cross * step.change[-1]
        columns = self._columns(there, slopes)
        if traits.quadratic and np.isin(columns, model.columns).all():
            columns = columns[:0]
        least = penalty.least if np.isfinite(penalty.least) else penalty.value(there)
        unproven = (
            traits.third
            and penalty.free[penalty.movable].all()
            and not np.isfinite(state.reach)
            and step.decrement < 1.0
        )
        state.query = Query(
            model.point,
            step.change,
            columns,
            majorant=state.careful > 0,
            stepped_majorant=model.majorant,
            damping=state.damping if state.gram is not None else 0.0,
            cap=(model.value - least) * (1.0 + 1e-9) + 1e-300,
            trials=not traits.quadratic,
            dual=not self.wide or (cross is None and step.decrement < DUAL_FROM * abs(model.value)),
            shrink=step.shrink,
            separation=bool(traits.third) and bool(penalty.free[penalty.movable].all()),
            reach=self._inverse(model) if unproven else None,
        )

    def _inverse(self, model: Model) -> Matrix:
        d = len(model.point)
        out = np.zeros((d, d))
        table = self.penalty.table
        out[np.ix_(model.columns, model.columns)] = inverse_factor(model.hessian + np.diag(table.l2[model.columns]))
        return out

    def _prove(self, model: Model, step: Step) -> None:
        """Bound gap and distance by self-concordance, where the loss has a constant and the penalty is smooth."""
        state = self.state
        known = self.traits.third is not None and self.penalty.smooth[self.penalty.movable].all()
        if not known or model.majorant or step.residual > 1e-9 or len(model.columns) < len(self.penalty.movable):
            return
        reach = state.reach if self.traits.third else 0.0
        gap, distance = bounds.self_concordance(step.decrement, reach)
        state.distance = distance
        gap += state.rounding
        state.gap = min(state.gap, gap)
        state.lower = max(state.lower, model.value - gap)
