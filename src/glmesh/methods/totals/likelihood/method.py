"""Maximum likelihood on totals: damped proximal Newton on any `Likelihood`, with a proof in standard errors.

    w <- argmin_u g.(u - w) + (u - w).H (u - w)/2 + penalty(u),     g and H sums over the rows of all nodes

A round is one total, at the full step, which brings the losses after shorter steps along. The first total finds the
null model, at which the fit starts. Without a penalty the fit ends when each coefficient is proven to be within
`tol_se` standard errors of the exact estimate; with one, when its gap is small enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from glmesh.core.messages import AnyRounds
from glmesh.core.totals import Largest, Total
from glmesh.formatting import rounded_up
from glmesh.methods.totals.likelihood.closing import closing_totals
from glmesh.methods.totals.likelihood.cone import kind
from glmesh.methods.totals.likelihood.contribution import (
    are_far,
    beginnings,
    bound_of,
    contribute,
    contribute_cones,
    levels,
)
from glmesh.methods.totals.likelihood.no_maximum import NO_MORE_VARIANCE, UNDECIDED, aliased_columns, no_maximum
from glmesh.methods.totals.likelihood.round import NO_PROGRESS, SEPARATED, LikelihoodRound
from glmesh.methods.totals.likelihood.shape import NO_SHAPE, first_shape, is_unknown, shape_step, shaped
from glmesh.methods.totals.likelihood.state import LikelihoodState
from glmesh.methods.totals.likelihood.statistics import CLUSTERS_HELD_BACK, HELD_BACK, FitStatistics
from glmesh.methods.totals.nodes import Point, TotalMethod
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import ScaledPenalty, column_exponents, scales
from glmesh.types import Indices, Vector

TOL_SE = 1e-6  # [standard errors] that coefficients may be off, because tables show far fewer digits


@dataclass(frozen=True)
class MaximumLikelihood(TotalMethod[LikelihoodState]):
    """Newton's method for families of distributions, one exact total a round.

    Parameters
    ----------
    tol_se : float, default 1e-6
        Without a penalty a fit ends when each coefficient is proven to be within this many standard errors of the exact
        estimate.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Problem, solve
    >>> X = np.arange(6.0)[:, None]
    >>> problem = Problem.glm(X, [1, 2, 2, 4, 7, 9], family="poisson", alpha=0.0, fit_intercept=True)
    >>> result = solve(problem, n_nodes=2)
    >>> result.coef.round(3), bool(result.standard_errors_off < 1e-6)
    (array([0.434]), True)
    """

    tol_se: float = TOL_SE
    stops_itself = True

    def start(self, block: Rows, w: Vector | None, intercept: float) -> LikelihoodState:
        """Return the state before round 0, at coefficients w, shape (p,), and an intercept; w None: the null model."""
        cold = w is None
        w = np.zeros(block.p) if w is None else np.array(w, dtype=np.float64)
        w = np.clip(w, *block.penalty.kernel_rows(block.p)[:, 3:].T)
        intercept = intercept if block.fit_intercept else 0.0
        shape = first_shape(block)
        return LikelihoodState(
            w, intercept, np.zeros(block.size), cold=cold, dispersion=block.known_dispersion, shape=shape
        )

    def retarget(self, block: Rows, state: LikelihoodState) -> None:
        """Begin anew from the present coefficients, because `block` has another penalty on the same rows."""
        fresh = self.start(block, state.w, state.intercept)
        fresh.scale, fresh.sums = state.scale, state.sums
        vars(state).update(vars(fresh))

    def trial(self, block: Rows, state: LikelihoodState) -> Point | None:
        """Return (coefficients, intercept, False) of the point at which the coming total is made.

        Coefficients have shape (p,). None: scales of the columns or the null model are not known yet, or the fit has
        ended, and what is still asked for is about the point of the last total.
        """
        if state.scale is None or state.cold:
            return None
        rounds = LikelihoodRound(block, state, self.tol_se)
        if rounds.ended:
            return None
        query = rounds.query()
        return *rounds.penalty.to_user(query.point + query.step), False

    def within(self, tol_se: float) -> MaximumLikelihood:
        """Return the method that ends within this many standard errors of the exact estimate."""
        return replace(self, tol_se=tol_se)

    def trials(self, block: Rows, state: LikelihoodState) -> list[tuple[Rows, Point]]:
        """Return a list with (rows with the state's shape in their loss, point) of the coming total, if it has one."""
        return super().trials(shaped(block, state), state)

    def rescale(self, state: LikelihoodState, exponents: Indices) -> None:
        """Set the powers of two that columns are divided by from the exponents of their norms, shape (d,)."""
        state.rescale(scales(exponents))

    def distance(self, state: LikelihoodState) -> float:
        """Return the bound of the distance to the optimum that self-concordance proves; infinite: none yet."""
        return state.distance

    def standard_errors_off(self, block: Rows, state: LikelihoodState) -> float:
        """Return by how many standard errors each coefficient may be off at most; NaN: there is a penalty.

        A standard error is that of the expected information, with the estimated dispersion where it is not known.
        """
        penalty = None if state.scale is None else ScaledPenalty.of(block, state.scale)
        if penalty is None or not penalty.free[penalty.movable].all():
            return float("nan")
        return state.distance / float(np.sqrt(state.dispersion))

    def remark(self, block: Rows, state: LikelihoodState) -> str:
        """Return sentences for people: why there is no maximum, and which columns depend on others; "" if neither."""
        width = int(block.X[0].shape[1])
        names = [f"x{k}" for k in range(width)] if block.names is None else list(block.names)
        told = []
        if state.failure == SEPARATED and state.separation is not None:
            counted = block.discretion is None
            sentence = no_maximum(state.separation, names, kind(block.loss), counted=counted)
            told.append(sentence[0].upper() + sentence[1:] + ".")
        if state.failure == NO_PROGRESS:
            told += self._where_it_ended(block, state)
        if state.failure == NO_SHAPE:
            told.append(NO_MORE_VARIANCE)
        if state.aliased is not None and len(state.aliased):
            which = sorted({int(k) % (width + 1) for k in state.aliased} - {width})
            told.append(aliased_columns([names[k] for k in which]))
        if state.statistics is not None and state.statistics.clusters == HELD_BACK:
            told.append(CLUSTERS_HELD_BACK)
        return " ".join(told)

    def _where_it_ended(self, block: Rows, state: LikelihoodState) -> list[str]:
        """Return sentences on a fit that rounding ended: what sites did not tell, and which tolerance would do."""
        told = []
        if state.kept_back or (block.discretion is not None and not block.discretion.asks_cones):
            told.append(UNDECIDED)
        off = self.standard_errors_off(block, state)
        if np.isfinite(off):
            told.append(f"With tol_se={rounded_up(off):.0e} in place of {self.tol_se:.0e} this is where the fit ends.")
        return told

    def statistics(self, state: LikelihoodState) -> FitStatistics | None:
        """Return what totals at the end of a fit without a penalty say; None: there is a penalty, or no end yet."""
        return state.statistics

    def finished(self, block: Rows, state: LikelihoodState) -> bool | None:
        """Return whether a fit without a penalty knows all that it is to find out; None: the gap decides."""
        if state.scale is None:
            return False
        penalty = ScaledPenalty.of(block, state.scale)
        return state.finished if penalty.free[penalty.movable].all() else None

    def begin(self, block: Rows, drawn: Vector | None) -> LikelihoodState:
        """Return the state of a block before round 0, whose start is the null model, or the drawn point beside it."""
        state = self.start(block, None, 0.0)
        state.drawn = drawn
        return state

    def take(self, state: LikelihoodState, at: Vector) -> float:
        """Go to the trial point `at`, that of another node, instead of one's own; return how far apart they are.

        The distance is relative to the point's norm, in the norm of the Hessian where there is one; it is infinite if
        the point cannot be taken. `at` is that of the `Total` at the other node, which differs in its last bits.
        """
        query, model, step = state.query, state.model, state.step
        d, apart_in_shape = 0 if query is None else len(query.point), 0.0
        if not np.isnan(state.shape) and len(at):
            shape, at = float(at[-1]), at[:-1]
            apart_in_shape = abs(shape - state.shape) / state.shape
        if query is None or len(at) != 2 * d + len(query.columns) or (at[2 * d :] != query.columns).any():
            return np.inf
        there, other = query.point + query.step, at[:d] + at[d : 2 * d]
        columns, bend = (np.arange(d), np.eye(d)) if model is None else (model.columns, model.hessian)
        apart, size = (float(one[columns] @ bend @ one[columns]) for one in (other - there, there))
        point, change = at[:d].copy(), at[d : 2 * d].copy()
        if model is not None and step is not None and np.array_equal(model.point, query.point):
            model, step = replace(model, point=point), replace(step, change=change)
        state.ask(replace(query, point=point, step=change), model, step)
        if apart_in_shape:
            state.go_to_shape(shape)
        away = float(np.sqrt(apart / size)) if size > 0 else float(np.inf if apart else 0.0)
        return max(away, apart_in_shape)

    def stages(self, block: Rows, state: LikelihoodState) -> Iterator[Callable[[], AnyRounds]]:
        """Yield functions that return the parts of a round: null model, total, closing totals.

        Each is to be done before the next is asked for. The first two have one total each; in the first round nodes
        agree on the scales of the columns before that, and before each total on what `_look_ahead` says.
        """
        if state.scale is None:
            yield lambda: self._agree_on_scales(block, state)
        if state.cold:
            yield lambda: self._find_null_model(shaped(block, state), state)
        yield lambda: self._look_ahead(shaped(block, state), state)
        yield lambda: self._measure(shaped(block, state), state)
        if is_unknown(block) and np.isnan(state.shape_error):
            yield lambda: self._search_shape(shaped(block, state), state)
        elif LikelihoodRound(shaped(block, state), state, self.tol_se).ended:
            yield lambda: self._close(shaped(block, state), state)

    def round(self, block: Rows, state: LikelihoodState) -> AnyRounds:
        """Make one round: yield one Total at the trial point, be sent its Sums, and choose the next trial point.

        In the first round nodes agree on the scales of the columns, and on the null model, before that; in the last
        one of a fit without a penalty the totals follow from which inference is made.
        """
        for stage in self.stages(block, state):
            yield from stage()

    def _agree_on_scales(self, block: Rows, state: LikelihoodState) -> AnyRounds:
        """Set the powers of two that columns are divided by, from the largest norms of all nodes."""
        state.rescale(scales((yield Largest(column_exponents(block)))))

    def _find_null_model(self, block: Rows, state: LikelihoodState) -> AnyRounds:
        """Yield the total that tells the null model, and go there, or to the drawn start beside it."""
        at = np.append(state.w, state.intercept)
        sums = yield Total({"beginnings": beginnings(block, at)}, at=at)
        LikelihoodRound(block, state, self.tol_se).begin(sums["beginnings"])

    def _measure(self, block: Rows, state: LikelihoodState) -> AnyRounds:
        """Yield the total at the trial point, be sent its sums, and choose the next trial point by them."""
        rounds = LikelihoodRound(block, state, self.tol_se)
        query = rounds.query()
        state.visit(rounds.visits(query))
        question = rounds.question(query)
        if question is not None and state.withheld:
            question = question.without_search
        fields = contribute(block, rounds.penalty, query, far=state.far) | contribute_cones(block, question)
        shape = np.array([] if np.isnan(state.shape) else [state.shape])
        at = np.concatenate([query.point, query.step, query.columns, shape])
        sums = yield Total(fields, like=state.sums, at=at)
        rounds.advance(query, sums)
        rounds.learn(question, sums)
        if block.discretion is not None and question is not None and question.search is not None:
            block.discretion.answered(block.cones[0], question)

    def _look_ahead(self, block: Rows, state: LikelihoodState) -> AnyRounds:
        """Find out by a maximum what goes before the coming total: R, if it is to prove anything, and who objects.

        A real site may object to a search for directions without a maximum, and to a step at whose end few of its rows
        would show or are outside of the domain; then nobody tells more than losses.
        """
        rounds = LikelihoodRound(block, state, self.tol_se)
        query = rounds.query()
        question = rounds.question(query)
        wanted: dict[str, Indices] = {}
        if query.inverse is not None:
            wanted["level"] = levels(block, rounds.penalty, query)
        if block.discretion is not None and question is not None and question.search is not None:
            wanted["objects"] = np.array([[int(block.discretion.objects(block.cones[0], question))]])
        if block.discretion is not None and (query.step.any() or rounds.has_edge):
            wanted["far"] = are_far(block, rounds.penalty, query)
        found = {}
        if wanted:
            largest = yield Largest(np.hstack(list(wanted.values())))
            found = dict(zip(wanted, largest.tolist(), strict=True))
        bound = bound_of(found["level"]) if "level" in found else np.inf
        state.look_ahead(bound, withheld=found.get("objects", 0) > 0, far=found.get("far", 0) > 0)

    def _close(self, block: Rows, state: LikelihoodState) -> AnyRounds:
        """Yield the totals at the end of a fit, be sent their sums, and keep in the state what inference needs."""
        rounds = LikelihoodRound(block, state, self.tol_se)
        assert state.scale is not None
        assert state.model is not None
        hessian = state.model.hessian
        noise = rounds.last_step()
        statistics = yield from closing_totals(block, rounds.fitted(), state.scale, hessian)
        if statistics is not None:
            state.close(rounds.close(statistics, noise))

    def _search_shape(self, block: Rows, state: LikelihoodState) -> AnyRounds:
        """Yield the total that a step of the shape needs, where the coefficients are nearly fitted, and take the step.

        `block` has the state's shape in its loss.
        """
        assert state.scale is not None
        if not state.failure:
            yield from shape_step(block, state, ScaledPenalty.of(block, state.scale))
        state.go_on()
