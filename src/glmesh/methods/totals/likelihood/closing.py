"""The totals that end a fit without a penalty: they bring what inference needs, at the final point.

Two totals, and with an offset those of a Newton fit in one coordinate, of two numbers each, for the null model.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from glmesh.core.totals import Sums, Total
from glmesh.errors import InvalidData
from glmesh.functions.family import Family
from glmesh.methods.totals.likelihood.contribution import beginnings
from glmesh.methods.totals.likelihood.facts import FitFacts, FittedModel, factor_of_inverse
from glmesh.methods.totals.likelihood.final_totals import NodeEnd, first_fields, null_point, second_fields
from glmesh.methods.totals.likelihood.rows import RowLikelihood
from glmesh.methods.totals.rows import Rows
from glmesh.types import Matrix, Vector

NULL_STEPS = 30  # Newton steps for the null model with an offset, because 3 to 6 are enough from where they begin
NULL_DONE = (
    1e-8  # [linear predictor] step of the null model's intercept that is the last, because the next is its square
)

Closing = Generator[Total, Sums, FitFacts | None]


def closing_totals(block: Rows, fitted: FittedModel) -> Closing:
    """Yield the totals at the end of a fit, and return the facts; None: the Hessian is not positive definite there."""
    each = zip(block.likelihoods, block.weight, strict=True)
    nodes = [NodeEnd(likelihood, fitted.coef, fitted.free, weight) for likelihood, weight in each]
    at = fitted.coef
    first = yield Total(_stacked([first_fields(node) for node in nodes]), at=at)
    facts = FitFacts.of_first(fitted, first)
    try:
        factor_of_inverse(facts.hessian)
    except InvalidData:
        return None
    null = null_point(facts)
    if null is None:
        null = yield from _null_model(block, np.where(fitted.held, at, 0.0))
    second = yield Total(_stacked([second_fields(node, facts, null) for node in nodes]), at=at)
    return facts.with_second(second)


def _null_model(block: Rows, held: Vector) -> Generator[Total, Sums, Vector | None]:
    """Yield the totals that find the null model with an offset, or without a family; return its coefficients, (d,).

    `held` has the coefficients that are held, zeros elsewhere. None: the search failed.
    """
    sums = yield Total({"beginnings": beginnings(block, held)}, at=held)
    point = block.likelihoods[0].begin(held, sums["beginnings"])
    if not isinstance(block.loss, Family):
        return point
    offsets = [np.asarray(X @ held[:-1])[:, None] for X in block.X]
    parts = zip(offsets, block.y, block.weight, strict=True)
    rows = [RowLikelihood(block.loss, offset, y, weight) for offset, y, weight in parts]
    for _ in range(NULL_STEPS):
        here = np.array([1.0, point[-1]])
        with np.errstate(all="ignore"):
            slopes = np.array([one.derivatives(here).gradient[-1] for one in rows])
            bends = np.array([one.information(here)[-1, -1] for one in rows])
        fields = np.stack([slopes, bends], axis=1)
        if not np.isfinite(fields).all():
            fields = np.zeros_like(fields)
        total = (yield Total({"null": fields}, at=here))["null"]
        if not total[1] > 0:
            return None
        point[-1] -= total[0] / total[1]
        if abs(total[0]) <= NULL_DONE * total[1]:
            return point
    return None


def _stacked(parts: list[dict[str, Vector]]) -> dict[str, Matrix]:
    """Return the fields of all hosted nodes as {name: array of shape (n_hosted, size)}."""
    return {name: np.stack([part[name] for part in parts]) for name in parts[0]}
