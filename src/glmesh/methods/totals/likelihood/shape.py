"""Estimation of a family's shape (the negative binomial's theta) beside the coefficients, from totals.

With t = log(shape), coefficients w and P the minus log-likelihood, Newton's step of both together is

    dt = -(P_t - P_tw H^-1 g) / (P_tt - P_tw H^-1 P_wt),     dw = -H^-1 (g + P_wt dt)

A total at a point where w is nearly fitted brings P_t, P_tt and P_wt; the fit then goes on from (w + dw, t + dt).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from glmesh.core.totals import Sums, Total
from glmesh.errors import UnsuitablePair
from glmesh.methods.totals.likelihood.state import LikelihoodState
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.types import Vector

FIRST = 1.0  # shape at which a fit begins, because Newton's method finds the estimate from there in 4 to 8 steps
LONGEST = 2.0  # [log(shape)] of a step, because the quadratic model is one of the neighbourhood
FITTED = 0.1  # Newton's decrement of the coefficients from which a step of both is of use
# [standard errors of log(shape)] of the last step: what is left is about its square
LAST_STEP = 1e-7
MOST_STEPS = 60  # steps after which the search is given up
# shape beyond which the model cannot be told from its limit: with means of 10 variances differ by one in a million
LARGEST = 1e7
NO_SHAPE = "no shape"  # failure: the shape grows without bound


def is_unknown(block: Rows) -> bool:
    """Return whether the loss of a block's rows has a shape that is to be estimated."""
    return block.loss.has_unknown_shape


def first_shape(block: Rows) -> float:
    """Return the shape at which a fit begins, NaN if none is to be estimated; raise UnsuitablePair with a penalty."""
    if not is_unknown(block):
        return float("nan")
    table = block.penalty
    if table.l1.any() or table.l2.any() or (np.isfinite(table.lo) != np.isfinite(table.hi)).any():
        raise UnsuitablePair(
            f"the shape of {block.loss!r} is estimated without a penalty or bounds only; fit with alpha=0, or give the "
            "family a number"
        )
    return FIRST


def shaped(block: Rows, state: LikelihoodState) -> Rows:
    """Return the block with the state's shape in its loss; the block itself if no shape is to be estimated."""
    family = block.loss.as_family
    if family is None or not family.has_unknown_shape:
        return block
    kept = block.with_shape
    if kept is None or kept[0] != state.shape or kept[1] is not block.penalty:
        own = replace(block, loss=family.with_shape(state.shape), with_shape=None)
        block.with_shape = kept = state.shape, block.penalty, own
    return kept[2]


def shape_step(block: Rows, state: LikelihoodState, penalty: ScaledPenalty) -> Generator[Total, Sums, None]:
    """Yield the total that a step of shape and coefficients needs, if these are nearly fitted, and take the step.

    `block` has the state's shape in its loss. Where the shape has come to rest the state's `shape_error` says so.
    """
    model, step = state.model, state.step
    if model is None or not (state.finished or (step is not None and step.decrement < FITTED**2)):
        return
    at = np.append(state.w, state.intercept)
    if block.discretion is not None:
        block.discretion.check_shape(np.concatenate([one.shape_derivatives(at)[1] for one in block.likelihoods]))
    fields = np.stack([one.shape_sums(at, penalty.scale) for one in block.likelihoods])
    sums = (yield Total({"shape": fields}, at=np.append(at, state.shape)))["shape"]
    slope, bend, cross = sums[0], sums[1], sums[2:][model.columns]
    back = np.linalg.solve(model.hessian, np.column_stack([model.gradient[model.columns], cross]))
    slope, own = slope - cross @ back[:, 0], bend - cross @ back[:, 1]
    curvature = own if own > 0 else max(abs(bend), 1e-300)
    dt = float(np.clip(-slope / curvature, -LONGEST, LONGEST))
    there = model.point.copy()
    if own > 0 and abs(dt) < LONGEST:
        there[model.columns] -= back[:, 0] + back[:, 1] * dt
    _go(state, penalty, there, float(np.exp(np.log(state.shape) + dt)))
    if own > 0 and abs(dt) * np.sqrt(own) <= LAST_STEP:
        state.end_shape(state.shape / float(np.sqrt(own)))
    elif state.shape > LARGEST:
        state.fail(NO_SHAPE)
    elif state.shape_steps >= MOST_STEPS:
        state.fail("rounding")


def _go(state: LikelihoodState, penalty: ScaledPenalty, there: Vector, shape: float) -> None:
    """Begin anew at scaled coefficients `there`, shape (d,), and a shape, but keep what is known of columns."""
    w, intercept = penalty.to_user(there)
    kept = {name: getattr(state, name) for name in ("scale", "sums", "separation", "visited")}
    fresh = LikelihoodState(w, intercept, state.visited, cold=False, dispersion=state.dispersion)
    vars(state).update(vars(fresh) | kept | {"shape": shape, "shape_steps": state.shape_steps + 1})
