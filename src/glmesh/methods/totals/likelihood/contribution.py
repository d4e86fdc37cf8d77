"""What each hosted node adds to a total of a maximum-likelihood fit."""

from __future__ import annotations

import numpy as np

from glmesh.methods.totals.contribution import triangle
from glmesh.methods.totals.likelihood import cone_sums
from glmesh.methods.totals.likelihood.cone_sums import Question
from glmesh.methods.totals.likelihood.state import Query
from glmesh.methods.totals.query import TRIALS
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.types import Matrix, Vector

# power of the R_i that is summed: a sum of 32nd powers is at most (1.6 times the largest)^32 for 10^6 rows
POWER = 32
LARGEST = 1e9  # R_i that larger ones are cut to, because no certificate comes of them and powers overflow


def beginnings(block: Rows, at: Vector) -> Matrix:
    """Return what each hosted node adds to the sums that tell the null model, shape (n_hosted, n).

    `at` has the coefficients and the intercept that are held, zeros elsewhere.
    """
    return np.stack([one.beginnings(at) for one in block.likelihoods])


def contribute(block: Rows, penalty: ScaledPenalty, query: Query) -> dict[str, Matrix]:
    """Return what each hosted node adds to a total at the query's trial point: {name of a field: (n_hosted, size)}.

    A node whose loss is above the query's cap adds zeros for all else: the trial point is refused then. The fields are
    "values" (losses after the whole step and shorter ones), "slopes", "hessian" (upper triangle), "fisher" where the
    loss is not convex, "noise", "spread" where the dispersion is not known and, if asked for, "concordance".
    """
    made = list(block.threads.map(lambda k: _of_node(block, k, penalty, query), range(block.size)))
    return {name: np.stack([one[name] for one in made]) for name in made[0]}


def contribute_cones(block: Rows, question: Question | None) -> dict[str, Matrix]:
    """Return what each hosted node adds to a total that answers the question: {name of a field: (n_hosted, size)}."""
    if question is None:
        return {}
    made = list(block.threads.map(lambda k: cone_sums.contribute(block.cones[k], question), range(block.size)))
    return {name: np.stack([one[name] for one in made]) for name in made[0]}


def _of_node(block: Rows, k: int, penalty: ScaledPenalty, query: Query) -> dict[str, Vector]:
    """Return what the k-th hosted node adds to a total, {name of a field: numbers}."""
    likelihood, scale = block.likelihoods[k], penalty.scale
    lengths = np.concatenate([[1.0], TRIALS]) if query.trials else np.ones(1)
    there = penalty.moved(query.point, lengths[:, None] * query.step)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        values = likelihood.values(there / scale)
        values = np.where(values <= query.cap, values, 2.0 * query.cap)
        point, n = there[0] / scale, len(query.columns)
        fields = {"values": values, "slopes": np.zeros(len(scale)), "hessian": np.zeros(n * (n + 1) // 2)}
        fields["noise"] = np.zeros(1)
        if np.isnan(block.known_dispersion):
            fields["spread"] = np.zeros(2)
        convex = block.convex
        if not convex:
            fields["fisher"] = np.zeros(n * (n + 1) // 2)
        if values[0] <= query.cap:
            found = likelihood.derivatives(point)
            fields["slopes"] = found.gradient / scale
            fields["hessian"] = _packed(found.hessian, query, scale)
            fields["noise"][0] = likelihood.noise(point, scale) ** 2
            if "spread" in fields:
                fields["spread"] = likelihood.spread(point)
            if not convex:
                fields["fisher"] = _packed(likelihood.information(point), query, scale)
        if query.inverse is not None:
            R = likelihood.concordances(query.point / scale, query.inverse / scale, query.reach)
            fields["concordance"] = np.array([(np.minimum(R, LARGEST) ** POWER).sum()])
    for name, numbers in fields.items():
        if not np.isfinite(numbers).all():  # far away; the trial point is refused by its loss
            fields[name] = np.where(np.isfinite(numbers), numbers, 0.0)
    return fields


def _packed(matrix: Matrix, query: Query, scale: Vector) -> Vector:
    """Return the upper triangle, row by row, of a matrix (d, d) in scaled units on the query's columns."""
    at = query.columns
    factors = 1.0 / scale[at]
    part = factors[:, None] * matrix[np.ix_(at, at)] * factors
    return np.asarray(part[triangle(len(at))])
