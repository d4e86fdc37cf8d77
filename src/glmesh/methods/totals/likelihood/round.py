"""One round of a maximum-likelihood fit: what the total asks for, and what follows from its sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from glmesh.core.totals import Sums
from glmesh.methods.totals.contribution import HESSIAN_ROW_COST
from glmesh.methods.totals.likelihood.cone import kind
from glmesh.methods.totals.likelihood.cone_sums import ConeQuery
from glmesh.methods.totals.likelihood.outputs import slimmed
from glmesh.methods.totals.likelihood.proof import Slack, proven, residual
from glmesh.methods.totals.likelihood.separation import Separation
from glmesh.methods.totals.likelihood.state import LikelihoodQuery, LikelihoodState
from glmesh.methods.totals.likelihood.statistics import FitStatistics, FittedModel, term_names
from glmesh.methods.totals.model import NewtonModel, NewtonStep, dependent, from_triangle, minimum
from glmesh.methods.totals.query import TRIALS
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.types import Flags, Indices, Matrix, Vector

# [parts of the decrement] decrease of the objective that makes a step good enough (Armijo's rule: Nocedal and Wright,
# Numerical Optimization, eq. 3.4, with their 1e-4, because any small part will do)
SUFFICIENT_DECREASE = 1e-4
VISIBLE_DECREASE = 1e-11  # [objective] decrement below which differences of the objective say nothing: sums are rounded
ROUNDING = 1e-13  # [objective] allowance, because sums are rounded
# [standard errors] lambda from which the next total is asked for what a certificate needs: larger asks too early,
# smaller a total too late
NEAR = 10.0
EPSILON = 2.0**-52  # relative error of a sum
# [linear predictor of the null model] by which a drawn start may move predictors where a link has an edge, so that rows
# up to four times as long as usual stay inside
BESIDE = 0.25
# times that a drawn start outside of the domain goes nearer; more would bring points of two sets of members so near to
# each other that their totals tell what a single member contributes
HALVINGS = 4
FREE = 4.0  # [rounding of the decrement] decrement from which a last step is worth it: less is lost in rounding
# [gain of a step] part that is not worth another search for the signs of its end: larger takes steps sooner, which fall
# short by about as much; of 1e-2 to 1e-4 digits and wine take as many totals
ENOUGH = 1e-4
IDLE = 3  # [rounds] in a row without visible progress after which a run ends, because rounding keeps it from more
# why no more rounds are worth it
STATIONARY, NO_PROGRESS, NO_START, SEPARATED = "stationary", "rounding", "outside", "separated"


class LikelihoodRound:
    """The work of one round on a block's state; every node computes the same from the same sums."""

    def __init__(self, block: Rows, state: LikelihoodState, tol_se: float) -> None:
        assert state.scale is not None
        self.block, self.state, self.tol_se = block, state, tol_se
        self.penalty = ScaledPenalty.of(block, state.scale)
        self.unpenalised = bool(self.penalty.free[self.penalty.movable].all())

    def begin(self, sums: Vector) -> None:
        """Go to the null model, which the summed `beginnings` of all nodes tell."""
        state = self.state
        state.cold = False
        if self.block.fit_intercept:
            found = self.block.likelihoods[0].begin(np.append(state.w, state.intercept), sums)
            state.w, state.intercept = found[:-1], float(found[-1])
            slopes = np.setdiff1d(np.arange(len(found)), self.block.intercepts)
            if self.block.likelihoods[0].has_null(sums) and not self._free[slopes].any():
                state.separation = Separation(self.penalty.scale, self._free).proven(0.0)
        if state.drawn is not None:
            state.origin = np.append(state.w, state.intercept)
            self._go_beside()

    def _go_beside(self) -> None:
        """Go to the drawn start, beside the null model, nearer to it the more often it was outside of the domain."""
        state = self.state
        assert state.drawn is not None
        assert state.origin is not None
        size = 0.5**state.halvings
        if self.has_edge:
            size *= BESIDE * abs(float(state.origin[-1]))
        moves = np.isin(np.arange(len(state.drawn)), self.penalty.movable)
        there = state.origin + np.where(moves, size * state.drawn, 0.0)
        point = self.penalty.from_user(there[:-1], float(there[-1]))
        state.w, state.intercept = self.penalty.to_user(point)
        state.query = None

    def _try_nearer(self) -> bool:
        """Go nearer to the null model from a drawn start that was outside; return whether that may still help."""
        state = self.state
        if state.drawn is None or state.halvings >= HALVINGS:
            return False
        state.halvings += 1
        self._go_beside()
        return True

    # the request

    def query(self) -> LikelihoodQuery:
        """Return what the total (a sum over all nodes) of this round asks of every node."""
        state = self.state
        if state.query is None:
            point = self.penalty.from_user(state.w, state.intercept)
            state.query = LikelihoodQuery(point, np.zeros_like(point), self.columns)
        return state.query

    def question(self, query: LikelihoodQuery) -> ConeQuery | None:
        """Return what the total of a query is to bring beside, to tell whether a maximum exists; None: nothing."""
        state, model = self.state, self.state.model
        discretion = self.block.discretion
        if model is None or not kind(self.block.loss) or (discretion is not None and not discretion.asks_cones):
            return None
        d = len(self.penalty.scale)
        if state.separation is None:
            state.separation = Separation(self.penalty.scale, self._free)
        if state.separation.verdict != "undecided":
            return None
        hessian = np.zeros((d, d))
        hessian[np.ix_(model.columns, model.columns)] = model.hessian
        return state.separation.query(self.penalty.moved(query.point, query.step), hessian)

    def learn(self, question: ConeQuery | None, sums: Sums) -> None:
        """Take from the total that answers a question whether a maximum exists; a proof of distance says so, too."""
        state = self.state
        if state.separation is None:
            return
        state.separation = state.separation.learn(question, sums)
        if state.withheld:
            state.separation = replace(state.separation, search=None, looks=state.separation.looks + 1)
        if np.isfinite(state.distance):
            state.separation = state.separation.proven(0.0)
        if state.separation.verdict == "separated":
            state.failure = SEPARATED

    @property
    def columns(self) -> Indices:
        """Return the numbers of the coordinates that move, ascending: neither held by bounds nor aliased."""
        movable = self.penalty.movable
        return movable if self.state.aliased is None else np.setdiff1d(movable, self.state.aliased)

    @property
    def _free(self) -> Flags:
        """Return a mask of the coordinates that move and have no penalty, shape (d,)."""
        return np.asarray(self.penalty.free & np.isin(np.arange(len(self.penalty.scale)), self.columns))

    @property
    def ended(self) -> bool:
        """Return whether a fit without a penalty has found its final point, of which the statistics are still unknown.

        A point from which rounding lets it get no further is one, if it is proven how near the optimum it is.
        """
        state = self.state
        found = state.finished or state.failure == STATIONARY
        found = found or (state.failure == NO_PROGRESS and bool(np.isfinite(state.distance)))
        return self.unpenalised and found and state.statistics is None

    @property
    def has_edge(self) -> bool:
        """Return whether the link has an edge, beyond which a row has no mean."""
        family = self.block.loss.as_family
        return family is not None and not family.inside(np.array([-1.0, 1.0])).all()

    def fitted(self) -> FittedModel:
        """Return the model at the state's best point; its columns are called x0, x1, ..., its classes 0, 1, ..."""
        state, block = self.state, self.block
        d, outputs = len(self.penalty.scale), block.loss.n_outputs
        aliased = np.isin(np.arange(d), [] if state.aliased is None else state.aliased)
        decrement, R = (0.0, None) if state.proof is None else state.proof.tolist()
        return FittedModel(
            names=term_names([f"x{j}" for j in range(d // outputs - 1)], range(outputs) if outputs > 1 else ()),
            coef=np.append(state.w, state.intercept),
            held=~np.isin(np.arange(d), self.penalty.movable),
            aliased=aliased,
            model=block.loss.name,
            family=block.loss.as_family,
            outputs=outputs,
            concordance=R,
            decrement=decrement,
        )

    def last_step(self) -> float | None:
        """Go one more Newton step, which is free: the totals at the end are made there, and prove how near it is.

        Return what rounding may add to Newton's decrement there; None: there is no such step, or it is rounding alone.
        With x = R lambda, the decrement after the step is at most lambda (e^x - 1 - x) / x. R grows by at most the root
        of e^x, as the Hessian falls by at most e^x.
        """
        state = self.state
        if not (state.finished and self.block.convex and state.proof is not None and state.model is not None):
            return None
        model, step = state.model, state.step
        slack = Slack.of(self.penalty, model, state.noise)
        own = slack.factored.norm(residual(self.penalty, model)[slack.columns])
        noise = slack.length - own
        if step is None or not own > FREE * noise:
            return None
        before = np.append(state.w, state.intercept)
        state.w, state.intercept = self.penalty.to_user(self.penalty.moved(model.point, step.change))
        R = float(state.proof[1]) * float(np.exp(min(0.5 * state.proof[1] * slack.length, 1.0)))
        state.proof = np.array([0.0, R])
        return noise if not np.array_equal(before, np.append(state.w, state.intercept)) else None

    def close(self, statistics: FitStatistics, noise: float | None) -> FitStatistics:
        """Return the statistics of the totals at the end, and let the state claim what they prove after `last_step`.

        `noise` is what that returned; None: nothing has moved since the last proof.
        """
        if noise is None:
            return statistics
        state = self.state
        proven = replace(statistics, fitted=replace(statistics.fitted, decrement=statistics.decrement + noise))
        if not np.isfinite(proven.distance):
            state.gap = state.distance = np.inf
            return proven
        state.objective, state.rounding = statistics.loss, max(state.rounding, ROUNDING * abs(statistics.loss))
        state.gap, state.distance = proven.gap + state.rounding, proven.distance
        return proven

    def visits(self, query: LikelihoodQuery) -> Vector:
        """Return how many nonzeros each hosted node visits to answer a query, shape (n_hosted,)."""
        return self.block.loss.n_outputs * (2.0 + HESSIAN_ROW_COST * len(query.columns)) * self.block.nonzeros

    # what follows from the sums

    def advance(self, query: LikelihoodQuery, sums: Sums) -> None:
        """Judge the trial point by the sums of its total, and choose what the next total asks for."""
        state = self.state
        penalty = self.penalty.value(self.penalty.moved(query.point, query.step))
        value = float(sums["values"][0]) + penalty
        if not query.step.any():
            if sums["values"][0] >= query.cap:
                state.failure = "" if self._try_nearer() else NO_START
                return
            state.sums = sums
            self._arrive(query, sums, value)
            return
        model, step = state.model, state.step
        assert model is not None
        assert step is not None
        gain, dec = model.value - value, step.decrement
        seen = dec > VISIBLE_DECREASE * abs(model.value)
        good = gain >= SUFFICIENT_DECREASE * dec if seen else gain >= -VISIBLE_DECREASE * abs(model.value)
        best, lowest = self._best_length(query, sums, model.value)
        if good and not (seen and best < 1.0 and model.value - lowest > 2.0 * gain):
            state.sums = sums
            self._arrive(query, sums, value)
        elif best < 1.0 and lowest < model.value:
            point = self.penalty.moved(query.point, best * query.step)
            self._keep(point, lowest)
            state.step = None
            state.query = LikelihoodQuery(point, np.zeros_like(point), self.columns)
        elif not query.trials:
            state.query = LikelihoodQuery(query.point, query.step, query.columns, query.cap, trials=True)
        else:
            self._idle()

    def _best_length(self, query: LikelihoodQuery, sums: Sums, value: float) -> tuple[float, float]:
        """Return (length, objective) of the shorter step at which the objective is lowest; (1, value) if none is."""
        if not query.trials:
            return 1.0, value
        there = self.penalty.moved(query.point, TRIALS[:, None] * query.step)
        values = sums["values"][1:] + self.penalty.table.values(there).sum(axis=1)
        at = int(np.argmin(values))
        return (float(TRIALS[at]), float(values[at])) if values[at] < value else (1.0, value)

    def _idle(self) -> None:
        """Count a round that went nowhere; after IDLE of them set why no more rounds are worth it."""
        self.state.idle += 1
        if self.state.idle >= IDLE:
            self.state.failure = self.state.failure or NO_PROGRESS

    def _keep(self, point: Vector, value: float) -> None:
        """Make `point` the state's best point, with its objective `value`, of which nothing is proven yet."""
        state = self.state
        state.w, state.intercept = self.penalty.to_user(point)
        state.objective, state.gap, state.distance, state.proof = value, np.inf, np.inf, None
        state.rounding = ROUNDING * abs(value)

    def _arrive(self, query: LikelihoodQuery, sums: Sums, value: float) -> None:
        """Take the trial point, whose derivatives the sums have: prove what can be proven, and choose the next step."""
        state, point = self.state, self.penalty.moved(query.point, query.step)
        hessian = from_triangle(sums["hessian"], len(query.columns))
        if "fisher" in sums:
            state.fisher = from_triangle(sums["fisher"], len(query.columns))
        state.noise = float(np.sqrt(max(sums["noise"][0], 0.0))) + sums.errors["slopes"]
        if "spread" in sums:
            x2, n = sums["spread"]
            state.dispersion = float(x2) / (float(n) - len(query.columns)) if n > len(query.columns) else np.nan
        if not np.isfinite(state.null) and state.model is None:
            state.null = value
        before, step = state.model, state.step
        self._keep(point, value)
        columns = query.columns
        if state.aliased is None:
            columns, hessian = self._alias(columns, hessian)
        model = NewtonModel(point, value, sums["slopes"], columns, hessian, False)
        slack = Slack.of(self.penalty, model, state.noise) if self._definite(model) else None
        if slack is not None and not self.block.convex:
            self._stop_if_stationary(slack)
        if query.inverse is not None and before is not None and slack is not None:
            change = np.zeros_like(point) if step is None else step.change
            self._prove(before, change, state.bound, slack)
        self._next(model, slack)

    def _alias(self, columns: Indices, hessian: Matrix) -> tuple[Indices, Matrix]:
        """Return (columns, Hessian) without unpenalised columns that depend on those before; the state keeps them.

        Intercepts come first. A column depends on others if what they leave of it, in the norm of the Hessian, is
        rounding: less than about 2e-7 of it.
        """
        curvature = hessian if self.state.fisher is None else self.state.fisher
        intercept = np.isin(columns, self.block.intercepts)
        order = np.argsort(~intercept, kind="stable")
        free = self.penalty.free[columns]
        late = free[order] & ~intercept[order]
        order = order[np.argsort(late, kind="stable")]
        flat = dependent(curvature, order)
        mask = np.zeros(len(columns), dtype=bool)
        mask[order[flat]] = True
        mask &= free
        self.state.aliased = columns[mask]
        kept = np.flatnonzero(~mask)
        if self.state.fisher is not None:
            self.state.fisher = self.state.fisher[np.ix_(kept, kept)]
        return columns[kept], hessian[np.ix_(kept, kept)]

    def _definite(self, model: NewtonModel) -> bool:
        """Return whether the observed Hessian is positive definite, so that it gives a step; a convex loss's is."""
        if self.block.convex:
            return True
        try:
            np.linalg.cholesky(model.hessian + np.diag(self.penalty.table.l2[model.columns]))
        except np.linalg.LinAlgError:
            return False
        return True

    def _stop_if_stationary(self, slack: Slack) -> None:
        """End the fit of a loss that is not convex if the point is stationary but for `tol_se` standard errors."""
        state = self.state
        if slack.length <= self.tol_se * np.sqrt(state.dispersion):
            state.failure = STATIONARY

    def _prove(self, before: NewtonModel, change: Vector, R: float, slack: Slack) -> None:
        """Update the state's gap and distance at the present point by self-concordance, where that proves anything.

        R was measured at the point before, from which a step of `change` led here; `slack` is that of the present
        point.
        """
        state = self.state
        if not self.block.convex:
            return
        there = Slack.of(self.penalty, before, state.noise)
        e = change[before.columns]
        bend = before.hessian + np.diag(self.penalty.table.l2[before.columns])
        moved = float(np.sqrt(max(float(e @ bend @ e), 0.0)))
        state.concordance = R
        if not np.array_equal(there.columns, slack.columns):
            return
        gap, distance = proven(there.length, R, moved, slack.length)
        grown = R * float(np.exp(min(0.5 * R * moved, 700.0)))
        if np.isfinite(distance) and slack.holds(grown, distance):
            state.gap, state.distance = gap + state.rounding, distance
            state.proof = np.array([slack.length, grown])
            self._finish()

    def _finish(self) -> None:
        """Note whether a fit without a penalty is finished: each coefficient is within `tol_se` standard errors.

        Where the rows are fitted exactly, so that there are none, a gap that is rounding will do.
        """
        state = self.state
        exact = state.gap <= EPSILON * state.null
        if self.unpenalised:
            state.finished = bool(exact or state.distance <= self.tol_se * np.sqrt(state.dispersion))

    def _next(self, model: NewtonModel, slack: Slack | None) -> None:
        """Compute the step from a model's point, and set what the next total (a sum over all nodes) asks for."""
        state = self.state
        bend = model.hessian if slack is not None or state.fisher is None else state.fisher
        step = self._slim(model, minimum(self.penalty, model, bend, 10.0 * state.noise, ENOUGH))
        state.model, state.step = model, step
        if step.decrement <= VISIBLE_DECREASE * 1e-3 * abs(model.value):
            self._idle()
        else:
            state.idle = 0
        inverse, radius = None, 0.0
        unit = float(np.sqrt(state.dispersion)) if np.isfinite(state.dispersion) else 1.0
        if slack is not None and self.block.convex and (self.block.quadratic or slack.length < NEAR * unit):
            inverse, radius = self._inverse(slack), 2.0 * slack.length
        trials = not (slack is not None and state.concordance * slack.length < 0.5)
        there = self.penalty.moved(model.point, step.change)
        if (there == model.point).all():  # nothing is left to move: the next total measures the same point
            state.step = None
            state.query = LikelihoodQuery(
                model.point, np.zeros_like(model.point), model.columns, inverse=inverse, radius=radius
            )
            return
        least = self.penalty.least if np.isfinite(self.penalty.least) else self.penalty.value(there)
        cap = (model.value - least) * (1.0 + 1e-9) + 1e-300
        state.query = LikelihoodQuery(model.point, step.change, model.columns, cap, trials, inverse, radius)

    def _slim(self, model: NewtonModel, step: NewtonStep) -> NewtonStep:
        """Return the step to a point of equal loss and no larger penalty, at which the Hessian is not flat.

        It is another one where a row has several linear predictors, see `outputs`.
        """
        if (outputs := self.penalty.n_outputs) == 1:
            return step
        there = (model.point + step.change).reshape(outputs, -1)
        return replace(step, change=slimmed(self.penalty.table, there).ravel() - model.point)

    def _inverse(self, slack: Slack) -> Matrix:
        """Return L^-1, shape (d, d), where L L^T is the Hessian of the objective; zero where it is not known."""
        d = len(self.penalty.scale)
        out = np.zeros((d, d))
        out[np.ix_(slack.columns, slack.columns)] = slack.factored.inverse
        return out
