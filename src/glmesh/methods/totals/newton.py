"""Proximal Newton on totals: the Hessian and gradient of the loss at w are summed, and all nodes compute the next w.

    w <- argmin_u g.(u - w) + (u - w).H (u - w)/2 + penalty(u),     g and H sums over the rows of all nodes

A round is one total, at the full step; it brings shorter steps' losses along, so a step that is too long costs one more
total and no search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from glmesh.core.messages import AnyRounds
from glmesh.core.totals import Largest, Sums, Total
from glmesh.functions import Table
from glmesh.methods.totals.contribution import contribute, visits
from glmesh.methods.totals.least_squares import Penalties, solve_least_squares, suits
from glmesh.methods.totals.model import dependent
from glmesh.methods.totals.newton_round import SEPARATED, NewtonRound
from glmesh.methods.totals.newton_state import NewtonState
from glmesh.methods.totals.nodes import Point, TotalMethod
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import ScaledPenalty, column_exponents, scales
from glmesh.methods.totals.traits import Traits
from glmesh.types import Indices, Vector

# [factor] by which the rounding of predictions may grow from one total to the next, because it is zero at zero; 24 bits
# are left
ROUNDING_ROOM = 2.0**30


@dataclass(frozen=True)
class ProximalNewton(TotalMethod[NewtonState]):
    """Newton's method for smooth losses and separable penalties, one exact total a round."""

    def start(self, block: Rows, w: Vector | None, intercept: float) -> NewtonState:
        """Return the state before round 0, at coefficients w, shape (p,), and an intercept; w None: at zero."""
        Traits.of(block.loss)
        w = np.zeros(block.p) if w is None else np.array(w, dtype=np.float64)
        return NewtonState(w, intercept if block.fit_intercept else 0.0, np.zeros(block.size))

    def retarget(self, block: Rows, state: NewtonState) -> None:
        """Change the state so that it goes on with another penalty, which `block` has already.

        What depends on the penalty is forgotten; the coefficients and a Gram matrix are kept.
        """
        kept = state.model if Traits.of(block.loss).quadratic else None
        fresh = NewtonState(state.w, state.intercept, state.visited, sums=state.sums, scale=state.scale, model=kept)
        vars(state).update(vars(fresh))

    def take(self, state: NewtonState, at: Vector) -> float:
        """Go to the trial point `at`, that of another node, instead of one's own; return how far apart they are.

        The distance is relative to the point's norm, in the norm of the Hessian where there is one; it is infinite if
        the point cannot be taken. `at` is that of the `Total` at the other node, which differs in its last bits.
        """
        query, model = state.query, state.model
        d = 0 if query is None else len(query.point)
        if query is None or len(at) != 2 * d + len(query.columns) or (at[2 * d :] != query.columns).any():
            return np.inf
        there, other = query.point + query.step, at[:d] + at[d : 2 * d]
        columns = np.arange(d) if model is None or not len(model.columns) else model.columns
        bend = np.eye(d) if model is None or not len(model.columns) else model.hessian
        apart, size = ((one[columns] * (bend * one[columns]).sum(axis=1)).sum() for one in (other - there, there))
        state.move(replace(query, point=at[:d].copy(), step=at[d : 2 * d].copy()))
        return float(np.sqrt(apart / size)) if size > 0 else float(np.inf if apart else 0.0)

    def trial(self, block: Rows, state: NewtonState) -> Point | None:
        """Return (coefficients, intercept, majorant) of the point at which the coming total is made.

        Coefficients have shape (p,); `majorant` says that the total's Hessian has the curvatures of a quadratic upper
        bound. None: scales of the columns are not known yet.
        """
        if state.scale is None:
            return None
        rounds = NewtonRound(block, state)
        query = rounds.query()
        return *rounds.penalty.to_user(query.point + query.step), query.majorant

    def rescale(self, state: NewtonState, exponents: Indices) -> None:
        """Set the powers of two that columns are divided by from the exponents of their norms, shape (d,).

        They are the largest of all nodes; real sites agree on them before the first total.
        """
        state.scale = scales(exponents)

    def remark(self, block: Rows, state: NewtonState) -> str:
        """Return a sentence for people if classes are separated, or if columns without a penalty depend on others.

        In the second case there are several optima. It is "" if neither.
        """
        if state.failure == SEPARATED:
            return "The classes can be separated."
        if state.model is None or state.scale is None or state.failure:
            return ""
        free = ScaledPenalty.of(block, state.scale).free[state.model.columns]
        free &= state.model.columns < block.p  # a constant column depends on the intercept, not the other way round
        if not free.any():
            return ""
        curvature = state.model.hessian if state.gram is None else state.gram
        n = int(dependent(curvature, np.argsort(free, kind="stable")).sum())
        which = "1 column depends" if n == 1 else f"{n} columns depend"
        return f"The optimum is not unique: {which} on others." if n else ""

    def distance(self, state: NewtonState) -> float:
        """Return the bound of the distance to the optimum that self-concordance proves; infinite: none yet."""
        return state.distance

    def standard_errors_off(self, block: Rows, state: NewtonState) -> float:
        """Return the distance to the optimum, which counts standard errors of a logistic loss without a penalty.

        It is NaN with a penalty or a bound, and for other losses, whose dispersion is not 1.
        """
        table = block.penalty
        unbounded = np.isneginf(table.lo).all() and np.isposinf(table.hi).all()
        counts = bool(Traits.of(block.loss).third) and bool(unbounded and not (table.l1.any() or table.l2.any()))
        return state.distance if counts else float("nan")

    def along(
        self,
        blocks: Sequence[Rows],
        penalties: Sequence[Table],
        alphas: Sequence[Vector],
        tol: float,
        max_rounds: int,
    ) -> AnyRounds | None:
        """Return a round that solves least squares for all weights alphas[i] of penalties[i] on blocks[i] at once.

        The round returns a list of PathSolutions. None: the loss is not squared, or there are too many columns.
        """
        if not all(suits(block) for block in blocks):
            return None
        made = [Penalties.of(table, each, blocks[0].p) for table, each in zip(penalties, alphas, strict=True)]
        return solve_least_squares(blocks, made, tol, max_rounds)

    def round(self, block: Rows, state: NewtonState) -> AnyRounds:
        """Make one round: yield one Total at the trial point, be sent its Sums, and choose the next trial point.

        In the first round nodes agree on the scales of the columns before that.
        """
        if state.scale is None:
            state.scale = scales((yield Largest(column_exponents(block))))
        rounds = NewtonRound(block, state)
        query = rounds.query()
        state.visited = visits(block, query)
        fields = contribute(block, rounds.penalty, query)
        at = np.concatenate([query.point, query.step, query.columns])
        sums = yield Total(fields, like=_sizes(state.sums), at=at)
        rounds.advance(query, sums)


def _sizes(sums: Sums | None) -> Sums | None:
    """Return the last total's sums with larger sizes for fields that change more, for the next total's grains.

    None: there is no last total.
    """
    if sums is None:
        return None
    sizes = {
        name: size for name, size in sums.sizes.items() if name != "leverages"
    }  # their 16th powers may be anything
    return Sums(dict(sums), sizes | {"rounding": sizes["rounding"] * ROUNDING_ROOM})
