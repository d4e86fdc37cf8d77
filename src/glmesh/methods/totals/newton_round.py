"""One round of Newton's method on totals: what the total asks for, and what follows from its sums."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from glmesh.core.totals import Sums
from glmesh.methods.totals import bounds
from glmesh.methods.totals.flat import SumOfSquares
from glmesh.methods.totals.model import NewtonModel, NewtonStep, from_triangle, minimum
from glmesh.methods.totals.newton_state import NewtonState
from glmesh.methods.totals.query import TRIALS, Query
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.methods.totals.working_set import takes_working_set, working_set
from glmesh.types import Indices, Matrix, Vector

# [parts of the decrement] decrease of the objective that makes a step good enough (Armijo's rule: Nocedal and Wright,
# Numerical Optimization, eq. 3.4, with
# their 1e-4, because any small part will do)
SUFFICIENT_DECREASE = 1e-4
# [decrement] gained by a full step, of the half that a quadratic function gains, from which on shorter steps are not
# tried next time where the Hessian changes slowly: smaller sends fewer numbers, and a wrong guess costs one total;
# source: benchmarks/reports/sensitivity.md
STEADY_GAIN = 0.3
# [curved piece of the loss] mean distance of the rows from which on the loss is softened at first: smaller softens more
# often; source: benchmarks/reports/sensitivity.md
FAR = 30.0
# [factor] by which the loss is less soft after a full step: larger takes fewer steps, each of them longer; source:
# benchmarks/reports/sensitivity.md
SOFTER = 10.0
# [objective] decrement below which differences of the objective say nothing, because sums are rounded
VISIBLE_DECREASE = 1e-11
# [step] length below which the Hessian misleads, and curvatures of an upper bound are used: larger is safer and slower;
# source: benchmarks/reports/sensitivity.md
SHORTEST_STEP = 0.05
# [step] length below which the damping grows: larger damps more; source: benchmarks/reports/sensitivity.md
SHORT_STEP = 0.3
# [upper bound's Hessian] that is added when steps are short, ten times as much each time: larger makes shorter steps;
# source: benchmarks/reports/sensitivity.md
DAMPING = 1e-3
# [upper bound's Hessian] up to which a full step sets the damping to zero instead of dividing it by ten, because less
# does not shorten steps; zero too soon makes each step too long where classes are nearly separable
LEAST_LASTING = 1e-7
# [upper bound's Hessian] that is added first where the Hessian alone has no minimum, small because it grows tenfold
# until there is one
LEAST_DAMPING = 1e-8
# [sizes that it is a difference of] slope left by a step beyond which a coordinate has slope but no curvature, because
# a step that solves its equations leaves rounding
FLAT_RESIDUAL = 1e-3
# [objective] decrement below which a problem with a working set asks for a dual point: larger sends more numbers,
# smaller may ask a total too late; source: benchmarks/reports/sensitivity.md
DUAL_FROM = 5e-3
# [objective] decrement below which others ask for it where the loss has a curvature everywhere, likewise; source:
# benchmarks/reports/sensitivity.md
DUAL_FROM_NARROW = 0.1
FULL = np.ones(1)  # length of a step that is not shortened
SEPARATED, COLLINEAR, NO_PROGRESS = "separated", "collinear", "rounding"  # why no more rounds are worth it
IDLE = 3  # [rounds] without visible progress after which a run ends, because rounding keeps it from more


@dataclass(frozen=True)
class TrialValues:
    """Values of the objective at a trial point, of which the loss may be softened, and how exact they are.

    Softened, the curved piece of a loss is longer than it is.
    """

    value: float  # the objective itself
    rounding: float  # by which it may be wrong
    judged: float  # with the loss as soft as at the point before, by which the step is judged
    follows: float  # with the loss as soft as from now on
    known: bool  # whether no node has cut its loss
    noise: float  # by which an entry of the gradient may be wrong


class NewtonRound:
    """The work of one round of Newton's method on a block's state; every node computes the same from the same sums."""

    def __init__(self, block: Rows, state: NewtonState) -> None:
        assert state.scale is not None
        self.state = state
        self.penalty = ScaledPenalty.of(block, state.scale)
        self.traits = block.traits
        # without a penalty an optimum may not exist, or be far away; a dual point does not tell, self-concordance does
        self.unpenalised = self.traits.third is not None and bool(self.penalty.free[self.penalty.movable].all())
        self.separable = self.unpenalised and bool(self.traits.third)
        self.wide = takes_working_set(self.penalty)

    # the request

    def query(self) -> Query:
        """Return what the total (a sum over all nodes) of this round asks of every node."""
        if self.state.query is None:
            self.state.query = self._first()
        return self.state.query

    def _first(self) -> Query:
        """Return what the first total of a run asks for: sums at the coefficients that the state begins with."""
        penalty, state = self.penalty, self.state
        point = penalty.from_user(state.w, state.intercept)
        state.lower = penalty.least
        return Query(
            point,
            np.zeros_like(point),
            self._unknown(self._columns(point, None), state.model),
            majorant=self.traits.pieces,
            cross=self.wide,
            mass=self.traits.knee is not None,
        )

    def _columns(self, point: Vector, gradient: Vector | None) -> Indices:
        """Return the numbers of the columns on which to sum the Hessian at a point: all, or a working set.

        The working set has the columns whose coefficient is not zero, and those that may soon not be, by the gradient,
        shape (d,); None: it is not known.
        """
        return working_set(self.penalty, point, gradient) if self.wide else self.penalty.movable

    # what follows from the sums

    def advance(self, query: Query, sums: Sums) -> None:
        """Judge the trial point by the sums of its total, choose what the next total asks for, and update the gap.

        `query` is what this total asked for; the state's gap is the proven bound of the objective above the optimum.
        """
        state = self.state
        trial = self._read(query, sums)
        # a refused point may be so far away that nothing could be said of the next one's rounding in its grains
        state.sums = sums if trial.known or state.sums is None else sums.sized_like(state.sums, "rounding")
        if query.flat is not None:
            assert state.model is not None
            state.flat = state.flat.learn(sums, self._data(state.model))
        gap = self._dual_gap(query, sums, trial)
        if "leverages" in sums and self.traits.third is not None:
            state.concordance = bounds.concordance(sums, self.traits.third)
        before = state.model
        model = self._judge(query, sums, trial) if query.moves else self._arrive(query, sums, trial, 0.0)
        if model is before and model is not None:
            self._next(model)
        elif model is not None:
            self._next(model, sums.get("cross"), harder=query.moves)
        if state.objective == trial.value:
            state.gap = min(state.gap, gap)
        state.gap = min(state.gap, max(state.objective - state.lower, 0.0) + state.rounding)
        if "wrong" in sums and self._separates(sums["wrong"], query):
            state.failure = SEPARATED

    def _dual_gap(self, query: Query, sums: Sums, trial: TrialValues) -> float:
        """Return the duality gap at the trial point, and raise the state's lower bound; infinite: not asked for."""
        state = self.state
        if not query.dual or not trial.known:
            return float(np.inf)
        assert state.model is not None
        made = SumOfSquares(state.model.columns, self._bend(state.model, query.damping))
        gap = bounds.duality_gap(self.penalty, query, sums, made, state.flat) + trial.rounding
        state.lower = max(state.lower, trial.value - gap)
        return gap

    def _read(self, query: Query, sums: Sums) -> TrialValues:
        """Return the values of the objective at the trial point, from the sums over all nodes that answer the query."""
        told, penalty = bounds.SummedLoss.of(sums), float(self.penalty.along(query.point, query.step, FULL)[0])
        value = told.value + penalty
        judged, follows = sums["softened"] + penalty if "softened" in sums else (value, value)
        rounding = told.rounding + bounds.ROUNDING * abs(penalty)
        return TrialValues(value, rounding, float(judged), float(follows), told.value < query.cap, told.noise)

    def _separates(self, counts: Vector, query: Query) -> bool:
        """Return whether the trial point, or the step to it, is a direction that separates the classes.

        `counts` has the numbers of nodes, of nodes with a row on the wrong side at the trial point, of nodes with a row
        that the step moves to the wrong side, and of nodes with one that it moves to the right side. Along a direction
        that separates no loss grows and some fall for ever, so there is no optimum. Quasi-separated data is found by
        the step: rows that overlap are moved less and less by it, all others by one logit.
        """
        _, wrong, against, towards = counts
        return bool(wrong == 0 or (query.moves and against == 0 and towards > 0))

    def _data(self, model: NewtonModel) -> SumOfSquares:
        """Return a matrix that is a sum of squares of all rows, for directions in which the data is flat.

        It is the model's Hessian, or that of the quadratic upper bound if some rows may have no curvature.
        """
        gram = self.state.gram
        return SumOfSquares(model.columns, model.hessian if gram is None else gram)

    def _judge(self, query: Query, sums: Sums, trial: TrialValues) -> NewtonModel | None:
        """Accept the trial point, or the best of the shorter steps, or begin again from the point before with care.

        Return the model from which the next step is to be computed; None if the next query is set already.
        """
        model, step = self.state.model, self.state.step
        assert model is not None
        assert step is not None
        gain, dec = model.value - trial.judged, step.decrement
        seen = dec > VISIBLE_DECREASE * abs(model.value)
        good = gain >= SUFFICIENT_DECREASE * dec if seen else gain >= -VISIBLE_DECREASE * abs(model.value)
        best, lowest = self._best_length(query, sums, trial, model.value)
        best_gain = model.value - lowest
        steady, self.state.steady = self.state.steady, bool(seen and gain >= STEADY_GAIN * dec)
        rounded = sums.errors.get("trials", 0.0)  # their grains are those of the total before, which may be coarse
        if good and not (seen and best < 1.0 and best_gain - rounded > 2.0 * gain):
            self._relax()
            return self._arrive(query, sums, trial, 1.0)
        if best < 1.0 and best_gain > 0:
            # slopes are between those of the two points
            self._shorten(query, best, lowest, self.state.rounding + trial.rounding + rounded)
            return None
        if steady and not query.trials and not self.traits.quadratic:
            return model  # once more, with shorter steps
        return self._be_careful(query.point)

    def _best_length(self, query: Query, sums: Sums, trial: TrialValues, value: float) -> tuple[float, float]:
        """Return (length, objective): the length of the step at which the objective is known to be lowest.

        `value` is the objective at the point before. Lengths other than 1 are known only if the query, what the last
        total asked for, had `trials`: losses after shorter steps.
        """
        if query.trials:
            values = sums["trials"] + self.penalty.along(query.point, query.step, TRIALS)
            at = int(np.argmin(values))
            if value - values[at] > value - trial.judged:
                return float(TRIALS[at]), float(values[at])
        return 1.0, trial.judged

    def _relax(self) -> None:
        """Trust the Hessian more after a full step: damp it ten times less, and count down the careful rounds."""
        state = self.state
        state.damping = state.damping / 10.0 if state.damping > LEAST_LASTING else 0.0
        state.careful = max(state.careful - 1, 0)

    def _damp(self, least: float = DAMPING) -> None:
        """Trust the Hessian less: add ten times as much of the upper bound's Hessian, at least the part `least`."""
        self.state.damping = min(max(10.0 * self.state.damping, least), 1.0)

    def _misleads(self, model: NewtonModel, step: NewtonStep) -> bool:
        """Return whether a model's step promises more decrease than there is, or leaves slopes without curvature."""
        lower = self.state.lower if model.softness == 1.0 else self.penalty.least
        return step.decrement > 2.0 * (model.value - lower) or step.residual > FLAT_RESIDUAL

    def _shorten(self, query: Query, length: float, value: float, rounding: float) -> None:
        """Go to the point after a shorter step, of this length, whose objective `value` is known.

        Its slopes come with the next total (a sum over all nodes). `rounding` is how far the value may be wrong. If the
        loss is softened, the value is not that of the objective itself.
        """
        state = self.state
        self._shift_concordance(length)
        if state.gram is not None:
            if length < SHORT_STEP:
                self._damp()
        elif length < SHORTEST_STEP and not state.careful:
            state.careful, state.patience = state.patience, 2 * state.patience
        point = self.penalty.moved(query.point, length * query.step)
        if query.softness == 1.0:
            self._accept(point, value, rounding)
        self._ask_at(point)

    def _be_careful(self, point: Vector) -> NewtonModel | None:
        """Go on from the same point with more damping, or with the curvatures of a quadratic upper bound.

        Return the model from which the next step is to be computed; None if the next query is set already.
        """
        state, model = self.state, self.state.model
        assert model is not None
        if state.gram is not None and state.damping < 1.0:
            self._damp()
            return model
        if not model.majorant and not self.traits.quadratic:
            state.careful, state.patience = state.patience, 2 * state.patience
            self._ask_at(point)
        else:
            assert state.query is not None
            state.query = replace(state.query, flat=state.flat.query(len(point)))
            self._idle()
        return None

    def _idle(self) -> None:
        """Count a round whose step promised nothing but rounding.

        After IDLE of them set why no more rounds are worth it.
        """
        state = self.state
        state.idle += 1
        if state.idle >= IDLE and not state.failure:
            state.failure = COLLINEAR if len(state.flat.almost) else NO_PROGRESS

    def _ask_at(self, point: Vector) -> None:
        """Make the next query one for slopes and Hessian at `point`, without a step; its objective is known."""
        state = self.state
        gradient = None if state.model is None else state.model.gradient
        columns = self._columns(point, gradient)
        state.step = None
        softness = 1.0 if state.model is None else state.model.softness
        state.query = Query(
            point, np.zeros_like(point), columns, majorant=state.careful > 0, softness=softness, next_softness=softness
        )

    def _accept(self, point: Vector, value: float, rounding: float) -> None:
        """Make `point` the best point of the state, with its objective `value`, which may be wrong by `rounding`.

        Nothing changes if the objective is higher there than at the best point: a softened loss may mislead.
        """
        state = self.state
        if value > state.objective + state.rounding + rounding:
            return
        state.rounding = rounding
        state.w, state.intercept = self.penalty.to_user(point)
        state.objective, state.distance = value, np.inf
        state.gap = max(value - state.lower, 0.0) + state.rounding

    def _shift_concordance(self, length: float) -> None:
        """Carry the bound R of `bounds.concordance` over to the point after a step of this length.

        The Hessian falls by at most the factor exp(R times the norm of the step).
        """
        state = self.state
        if state.step is not None and np.isfinite(state.concordance):
            moved = length * np.sqrt(max(state.step.decrement, 0.0))
            state.concordance *= float(np.exp(min(0.5 * state.concordance * moved, 700.0)))

    def _arrive(self, query: Query, sums: Sums, trial: TrialValues, length: float) -> NewtonModel:
        """Return the model at the trial point, made from the sums there, and keep the point if it is the best one.

        `length` is that of the step to the trial point: 1, or 0 if there was none.
        """
        state, before = self.state, self.state.model
        state.noise = trial.noise
        self._shift_concordance(length)
        point = self.penalty.moved(query.point, query.step)
        if before is not None and self.traits.quadratic and not len(query.columns):
            columns, hessian = before.columns, before.hessian
        else:
            columns = query.columns
            hessian = from_triangle(sums.get("hessian", np.zeros(0)), len(columns))
        gradient = sums["slopes"][: len(point)]
        model = NewtonModel(point, trial.follows, gradient, columns, hessian, query.majorant, query.next_softness)
        if query.majorant and self.traits.pieces and not self.wide:
            state.gram = hessian
        if trial.known:
            self._accept(point, trial.value, trial.rounding)
        if "mass" in sums and trial.value > 0:
            state.mass = float(sums["mass"][0])
        return model

    def _bend(self, model: NewtonModel, damping: float) -> Matrix:
        """Return the matrix to take as Hessian: the model's plus `damping` times the upper bound's, if it is known."""
        gram = self.state.gram
        return model.hessian + damping * gram if gram is not None and damping else model.hessian

    def _softness(self, model: NewtonModel, harder: bool) -> float:
        """Return the softness of the loss from the next point on: by what factor its curved piece is lengthened, >= 1.

        At first the mean row is at the end of the curved piece; after every full step (`harder`) the loss is less soft.
        """
        state, knee = self.state, self.traits.knee
        if knee is None or not state.mass:
            return 1.0
        if model.softness > 1.0:
            return max(model.softness / SOFTER, 1.0) if harder else model.softness
        if state.softened:
            return 1.0
        state.softened = True
        mean = (model.value - self.penalty.value(model.point)) / state.mass
        return mean / knee if mean > FAR * knee else 1.0

    def _next(self, model: NewtonModel, cross: Vector | None = None, *, harder: bool = False) -> None:
        """Compute the step from a model's point, and set what the next total (a sum over all nodes) asks for.

        `harder` says that the last step was taken in full, so that the loss may be less soft. `cross` is the Hessian's
        row of the intercept, shape (d,), None if not known: with it the slopes of columns that are not in the working
        set are known after the step, which moves the intercept alone.
        """
        state, traits = self.state, self.traits
        step = self._step(model)
        state.model, state.step = model, step
        self._prove(model, step)
        if step.decrement <= VISIBLE_DECREASE * 1e-3 * abs(model.value) and cross is None:
            self._idle()
            if state.idle == 1 and self._blind(model, step):
                self._be_careful(model.point)
                return
        else:
            state.idle = 0
        there = self.penalty.moved(model.point, step.change)
        slopes = model.gradient if cross is None else model.gradient + cross * step.change[-1]
        columns = self._unknown(self._columns(there, slopes), model)
        softness = self._softness(model, harder or step.decrement <= VISIBLE_DECREASE * abs(model.value))
        state.query = Query(
            model.point,
            step.change,
            columns,
            majorant=state.careful > 0,
            stepped_majorant=model.majorant,
            damping=state.damping if state.gram is not None else 0.0,
            cap=self._cap(model, there, softness),
            softness=model.softness,
            next_softness=softness,
            trials=not (traits.quadratic or (traits.third and state.steady)),
            dual=self._nearly(model, step, cross is not None),
            shrink=step.shrink,
            separation=self.separable,
            inverse=bounds.inverse_factor(self.penalty, model) if self._unproven(step) else None,
            flat=self._look(model, step, there),
            majorant_flat=state.gram is not None,
        )

    def _blind(self, model: NewtonModel, step: NewtonStep) -> bool:
        """Return whether a step leaves slopes for which an upper bound has a curvature, but the model's Hessian none.

        A logistic loss has slopes but no curvature where all rows are far out, and a step is zero there, although the
        optimum is elsewhere.
        """
        known = self.state.gram is not None or model.majorant or self.traits.quadratic
        return step.residual > FLAT_RESIDUAL and not known

    def _step(self, model: NewtonModel) -> NewtonStep:
        """Return the step to the minimum of a model, damped until it promises no more decrease than there is."""
        state = self.state
        step = minimum(self.penalty, model, self._bend(model, state.damping), bounds.ROUNDED * state.noise)
        while state.gram is not None and state.damping < 1.0 and self._misleads(model, step):
            self._damp(LEAST_DAMPING)
            step = minimum(self.penalty, model, self._bend(model, state.damping), bounds.ROUNDED * state.noise)
        return step

    def _unknown(self, columns: Indices, model: NewtonModel | None) -> Indices:
        """Return those `columns` on which the Hessian is to be asked for: all, or none if it is constant and known.

        `model` is what is known, None: nothing.
        """
        known = model is not None and self.traits.quadratic and bool(np.isin(columns, model.columns).all())
        return columns[:0] if known else columns

    def _cap(self, model: NewtonModel, there: Vector, softness: float) -> float:
        """Return a loss, above which a node sends just that number: the trial point is then refused in any case.

        `there` is the trial point, shape (d,); `softness` is that of the loss there.
        """
        penalty, soft = self.penalty, max(model.softness, softness) > 1.0
        least = penalty.least if np.isfinite(penalty.least) else penalty.value(there)
        return (model.value - least) * (4.0 * model.softness if soft else 1.0 + 1e-9) + 1e-300

    def _unproven(self, step: NewtonStep) -> bool:
        """Return whether the next total is to bring leverages: a proof by self-concordance is near, but not made.

        A total is a sum over all nodes.
        """
        return self.separable and not np.isfinite(self.state.distance) and step.decrement < 1.0

    def _nearly(self, model: NewtonModel, step: NewtonStep, again: bool) -> bool:
        """Return whether the next total is to bring a dual point: the step promises little, so the gap may be small.

        `again` says that the step moves the intercept alone, so that the working set is still to be found. A total is a
        sum over all nodes.
        """
        if self.unpenalised:
            return False
        if self.wide:
            return not again and step.decrement < DUAL_FROM * abs(model.value)
        return not self.traits.third or step.decrement < DUAL_FROM_NARROW * abs(model.value)

    def _look(self, model: NewtonModel, step: NewtonStep, there: Vector) -> Matrix | None:
        """Return the directions to ask rows about in the next total (a sum over all nodes), shape (r, d); None: none.

        The Hessian is flat in them, and neither penalty nor bound holds coefficients there. `there` is the trial point.
        """
        penalty, state = self.penalty, self.state
        loose = (penalty.free | step.rough | (penalty.edged & penalty.inside(there)))[model.columns]
        state.flat = state.flat.look(self._data(model), model.columns[loose])
        return state.flat.query(len(there))

    def _prove(self, model: NewtonModel, step: NewtonStep) -> None:
        """Update the state's gap and its distance to the optimum by self-concordance, where that proves anything.

        It does where the loss has a constant c, abs(loss''') <= c loss'', and the penalty is smooth.
        """
        state = self.state
        known = self.traits.third is not None and self.penalty.smooth[self.penalty.movable].all()
        R = state.concordance if self.traits.third else 0.0
        proof = bounds.proof(self.penalty, model, step, R, state.noise, state.flat) if known else None
        if proof is None:
            return
        gap, distance = proof
        if model.value == state.objective:
            state.distance = distance
        gap += state.rounding
        state.gap = min(state.gap, gap)
        state.lower = max(state.lower, model.value - gap)
