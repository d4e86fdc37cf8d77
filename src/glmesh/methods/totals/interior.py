"""A primal-dual interior-point method for losses with kinks, whose rows cut their steps each by itself.

Newton's equations of the smoothed objective sum_i phi_i(x_i.w + b) + l2/2 |w|^2 (`pieces`) take one total, Z'DZ and
some products Z'a. Coefficients are free and p - q = g is restored row by row, so that no step length has to suit all
multipliers.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from glmesh.core.totals import Sums, Total
from glmesh.errors import UnsuitablePair
from glmesh.methods.totals import interior_rows as at_rows
from glmesh.methods.totals import interior_steps as steps
from glmesh.methods.totals.contribution import HESSIAN_ROW_COST
from glmesh.methods.totals.dual_bound import DualPoint, Ellipsoid, balanced
from glmesh.methods.totals.factor import CholeskyFactor
from glmesh.methods.totals.interior_state import InteriorState, ProblemScales
from glmesh.methods.totals.nodes import TotalMethod
from glmesh.methods.totals.pieces import Kinks
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.standardise import Standardisation
from glmesh.types import Matrix, Vector

MAX_COLUMNS = 2000  # [coefficients] of the Gram matrix that every total holds, because that is 16 MB
ROUNDING = 1e-11  # [P] added to every gap, because sums are rounded
CONSTANT = 2.0**-44  # [mean] standard deviation up to which a column counts as constant, because squares are rounded
# [standard deviations] mean beyond which squares are summed once more, about the mean, because less than four digits of
# their difference would be left
HUGE_MEAN = 1e6
NORMAL = 0.8  # [standard deviations] mean absolute deviation, because that is about sqrt(2/pi) for normal errors
PARTED = ("theta", "room")  # fields of candidates for dual points
TINY_MU = 1e-30  # [first mu] least mu, because nothing may be divided by 0 where the optimum is 0

Rounds = Generator[Total, Sums, None]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class InteriorPoint(TotalMethod[InteriorState]):
    """Minimise sum_i s_i loss(y_i, x_i.w + b) + sum_j l1 abs(w_j) + l2/2 w_j^2 for losses with kinks, as the hinge.

    The nodes hold rows, and a round is one total of about (d + 1)(d + 2)/2 + 11 (d + 1) numbers. Every round yields a
    lower bound of the optimum, so the gap is certified.

    Parameters
    ----------
    tol : float, default 1e-9
        Relative gap that is asked for: smoothing is reduced until the gap it leaves is well below. A smaller gap is
        not reached, a larger one is reached with this or fewer rounds.

    Examples
    --------
    >>> from glmesh.functions import HingeLoss
    >>> from glmesh.methods.totals.pieces import Kinks
    >>> Kinks.of(HingeLoss()).n_pieces
    1
    """

    tol: float = 1e-9

    def suits(self, block: Rows) -> bool:
        """Return whether there are so few coefficients, at most 2000, that totals can hold a Gram matrix.

        A total is a sum over all nodes.
        """
        return block.p <= MAX_COLUMNS

    def visits(self, d: int) -> float:
        """Return how often a round touches every number of rows with d columns, which says whether threads pay."""
        return at_rows.PASSES + HESSIAN_ROW_COST * d

    def start(self, block: Rows, w: Vector | None = None, intercept: float = 0.0) -> InteriorState:
        """Return the state before the first total, at coefficients w, shape (p,), and an intercept; w None: at zero.

        Raise UnsuitablePair for a loss or penalty that the method is not for. A total is a sum over all nodes.
        """
        _check(block)
        return InteriorState(
            w=np.zeros(block.p) if w is None else np.array(w, dtype=np.float64),
            intercept=0.0 if w is None or not block.fit_intercept else float(intercept),
            visited=np.zeros(block.size),
            given=w is not None,
            centre=np.zeros(block.p + 1),
        )

    def retarget(self, block: Rows, state: InteriorState) -> None:
        """Change the state so that it goes on from the best point with another penalty, which `block` has already.

        The objective is smoothed again; the dual point is kept, and the lower bound of the optimum that it proves now.
        """
        _check(block)
        frame = state.frame
        if frame is None:
            return
        model = steps.InteriorModel.kept(block, frame)
        if np.isfinite(state.loss):
            point = frame.columns.from_user(state.w, state.intercept, frame.shift)
            objective = state.loss + model.penalty.value(point[: block.p])
            state.go_to(point, objective, self._mu(objective, model))
        state.begin_anew()
        if state.dual is not None and not model.penalty.free.any():
            dual = model.penalty.shrunk(state.dual)
            state.replace_dual(dual, model.penalty.lower_bound(dual))
        state.set_gap(_rounding(block.info.n_nodes))

    def round(self, block: Rows, state: InteriorState) -> Rounds:
        """Make one round: yield one Total, be sent its Sums, and change the state by them.

        The state moves to the next point if the sums show that the step was a good one; else it tries another length.
        """
        state.visit(at_rows.visited(block))
        if state.frame is None:
            told = _of_all(block, lambda k: at_rows.moments(block, k, state))
            self._begin(block, state, (yield Total(_stacked(told), at=state.centre)))
            return
        frame, n_nodes = state.frame, block.info.n_nodes
        model = steps.InteriorModel.kept(block, frame)
        like, cap = steps.expected(state, n_nodes, state.mu * model.n_pieces)
        fields, rows = at_rows.step_fields(block, state, frame, cap)
        trial = steps.TrialPoint.of(model, state)
        sums = yield Total(fields, like=like, at=trial.point)
        state.take(sums)
        try:
            factor = steps.newton_matrix(model, trial, sums)
        except np.linalg.LinAlgError:  # columns so alike, and rows so flat, that rounding is all there is
            state.fail("rounding")
            return
        if not steps.may_be_coarse(like, sums, n_nodes):
            self._certify(block, state, model, trial, factor)
        state.watch()
        if state.step is not None:
            length, best = steps.better_length(model, state, state.step, sums)
            trial = replace(trial, best=best)
            if length != trial.length:
                state.shorten(length)
                return
        state.accept(trial.point, trial.l1, rows)
        least = max(steps.LEAST_MU * self.tol * state.objective / model.n_pieces, TINY_MU * state.mu)
        state.plan(steps.newton_step(model, state, trial, sums, factor, least))

    def _mu(self, objective: float, model: steps.InteriorModel) -> float:
        """Return mu, the weight of the barriers that smooth the objective, for a point that may be near an optimum.

        `objective` is that at the point.
        """
        return max(steps.LARGEST_MU * objective / model.n_pieces, np.finfo(np.float64).tiny)

    def _begin(self, block: Rows, state: InteriorState, sums: Sums) -> None:
        """Standardise the columns by the sums of the first total, and set the first point of the state.

        If a mean is huge beside the deviation, the state asks for squares about the means instead, in one more total.
        """
        p, weight = block.p, float(sums["weight"][0])
        names = [*range(p), "y"]
        first = np.array([sums[f"first {name}"][0] for name in names]) / weight
        second = np.array([sums[f"second {name}"][0] for name in names]) / weight
        mean, variance = state.centre + first, np.maximum(second - first**2, 0.0)
        if not block.fit_intercept:
            mean, variance = np.zeros(p + 1), second
        elif not state.centre.any() and (HUGE_MEAN**2 * variance < mean**2).any():
            state.move_centre(mean)
            return
        deviation = np.where(np.sqrt(variance) <= CONSTANT * np.abs(mean), 0.0, np.sqrt(variance))
        power = np.ldexp(1.0, -np.frexp(deviation[:p])[1])
        columns = Standardisation(mean[:p], np.where(deviation[:p] > 0, power, 0.0), block.fit_intercept)
        shift = 0.0 if block.loss.classifies else float(mean[p])
        target = 1.0 if block.loss.classifies else float(np.hypot(mean[p], deviation[p]))
        frame = ProblemScales(columns, shift, float(sums["rows"][0]), weight, Kinks.of(block.loss), target)
        model = steps.InteriorModel.kept(block, frame)
        point = np.zeros(columns.d)
        if state.given:
            point = columns.from_user(state.w, state.intercept, shift)
            mu = self._mu(float(sums["loss"][0]) + model.penalty.value(point[:p]), model)
        elif block.loss.classifies:
            intercept, mu = _begin_classes(sums, state.centre[-1], block.fit_intercept)
            if block.fit_intercept:
                point[-1] = intercept
        else:
            spread = np.sqrt(deviation[p] ** 2 + model.kinks.idle**2)
            mu = NORMAL * float(spread) * model.kinks.width * weight / frame.n_rows
        state.begin(frame, point, mu)

    # values and bounds

    def _certify(
        self,
        block: Rows,
        state: InteriorState,
        model: steps.InteriorModel,
        trial: steps.TrialPoint,
        factor: CholeskyFactor,
    ) -> None:
        """Update the state's best point, best dual point and gap by its last total, which was made at `trial`.

        `model` is the objective, `factor` that of the Newton matrix at the point. A total is a sum over all nodes.
        """
        frame, sums = state.frame, state.sums
        assert frame is not None
        assert sums is not None
        points = {"loss": trial.point}
        if state.step is not None:
            points["loss affine"] = state.point + state.step.affine
        for name, point in points.items():
            state.keep_best(point, at_rows.value_of(sums, name), model.penalty.value(point[: block.p]))
        candidates = range(1 if state.step is None else len(at_rows.CANDIDATES))
        if model.penalty.free.any():
            best = frame.columns.from_user(state.w, state.intercept, frame.shift)
            near = Ellipsoid(best, _radius(model, state, trial, frame.weight), factor.solve)
            free = np.append(model.penalty.free, [True] * block.fit_intercept)
            for number in candidates:
                positive, negative, _ = _dual_points(sums, number, block.info.n_nodes)
                dual = model.penalty.shrunk(positive + negative)
                bound = model.penalty.lower_bound(dual) + near.least_product(dual, free)
                state.raise_bound(bound)
        else:
            for number in candidates:
                self._improve(block, state, model, _dual_points(sums, number, block.info.n_nodes))
        state.set_gap(_rounding(block.info.n_nodes))

    def _improve(self, block: Rows, state: InteriorState, model: steps.InteriorModel, parts: list[DualPoint]) -> None:
        """Replace the state's best dual point by a better one made of it and of another dual point, if there is one.

        `parts` are the positive part of the other one, its negative part, and its room: how far it can move within its
        bounds.
        """
        for point in balanced(*parts) if block.fit_intercept else [parts[0] + parts[1]]:
            feasible = model.penalty.shrunk(point)
            if state.dual is not None:
                feasible = model.penalty.best_between(state.dual, feasible)
            state.keep_dual(feasible, model.penalty.lower_bound(feasible))


def _rounding(n_nodes: int) -> float:
    """Return how far an objective may be wrong, relative to itself, because it is summed in a total of n nodes."""
    return ROUNDING + n_nodes * steps.value_growth(n_nodes) * 2.0**-54


def _begin_classes(sums: Sums, centre: float, fit_intercept: bool) -> tuple[float, float]:
    """Return (intercept, mu) to begin with in a classification, where the coefficients w are 0.

    They make w = 0 the centre of both classes; where there is one class only, the intercept is the solution. `centre`
    is what was subtracted from the labels before they were summed.
    """
    weight, n, positive = (float(sums[name][0]) for name in ("weight", "rows", "positive"))
    difference = float(sums["first y"][0]) + weight * centre
    classes, counts = (0.5 * (weight + difference), 0.5 * (weight - difference)), (positive, n - positive)
    if fit_intercept and min(counts) > 0:
        mu = 2.0 * min(classes) / n
        return steps.balanced_intercept(classes, counts, mu), mu
    return float(np.sign(difference)), weight / n


def _check(block: Rows) -> None:
    """Raise UnsuitablePair, which says what would do, if the method is not for the loss or the penalty of `block`."""
    kinks, penalty = Kinks.of(block.loss), block.penalty
    penalty.check_size(block.p)
    if np.isfinite(penalty.lo).any() or np.isfinite(penalty.hi).any() or penalty.linear.any():
        raise UnsuitablePair(
            f"the loss {block.loss.name} with bounds or a linear term of the coefficients has no interior-point method "
            "here; take a smooth loss, such as squared_hinge or huber, for which Newton's method keeps to bounds"
        )
    if not kinks.growth > 0 and ((penalty.l1 + penalty.l2) == 0).any():
        raise UnsuitablePair(f"the loss {block.loss.name} needs a penalty on every coefficient; give l1 > 0 or l2 > 0")


def _radius(model: steps.InteriorModel, state: InteriorState, trial: steps.TrialPoint, weight: float) -> float:
    """Return a radius: every optimum w* is within that distance of the best point w, in the norm of M.

    M = Z'DZ + l2 + D_l1 is the Newton matrix at `trial`. With d = w* - w, and P(w*) <= P(w): sum_i s_i abs(z_i.d) <= 2
    (P/growth + idle sum_i s_i), and D_i <= s_i^2 spread; l2 d^2 <= 8 P, and sum_j l1_j abs(d_j) <= 2 P. `weight` is
    sum_i s_i, the sum of the sample weights.
    """
    assert state.sums is not None
    P, kinks = state.objective, model.kinks
    rows = float(state.sums["spread"][0]) * (2.0 * (P / kinks.growth + kinks.idle * weight)) ** 2
    l1 = float((trial.l1.curvature[0] / model.penalty.l1[model.at] ** 2).sum()) * (2.0 * P) ** 2
    return float(np.sqrt(rows + 8.0 * P + l1))


def _dual_points(sums: Sums, number: int, n_nodes: int) -> list[DualPoint]:
    """Return three dual points from the sums of a step: positive part of theta, negative part, and its room.

    theta is the candidate with place `number` in CANDIDATES, with an entry per row between lo and hi; the room is
    min(hi - theta, theta - lo). Sizes add what rounding is relative to: the products themselves, theta, and the largest
    entry of the field.
    """
    c, k, size = at_rows.candidate(sums, number)
    theta, room = (n_nodes / 32.0 * max(sums[name].max(initial=0.0), -sums[name].min(initial=0.0)) for name in PARTED)
    sizes = [np.abs(one) + most for one, most in zip(c, (theta, theta, room), strict=True)]
    sizes[0] = sizes[0] + size
    return [DualPoint(float(k[i]), c[i], float(k[3]) if i == 0 else 0.0, sizes[i]) for i in range(3)]


def _of_all(block: Rows, function: Callable[[int], T]) -> list[T]:
    """Return a list of function(k) for the hosted nodes k = 0, 1, ..., computed by the block's threads."""
    return list(block.threads.map(function, range(block.size)))


def _stacked(fields: list[at_rows.Fields]) -> dict[str, Matrix]:
    """Return {name: array of shape (n_hosted, size)} from the fields {name: (size,)} of each hosted node."""
    return {name: np.stack([one[name] for one in fields]) for name in fields[0]}
