"""What each hosted node adds to a total of a maximum-likelihood fit."""

from __future__ import annotations

import numpy as np

from glmesh.core.totals import NOTHING
from glmesh.kernels.gram import pack_columns
from glmesh.methods.totals.likelihood import cone_sums
from glmesh.methods.totals.likelihood.cone_sums import ConeQuery
from glmesh.methods.totals.likelihood.state import LikelihoodQuery
from glmesh.methods.totals.likelihood.terms import Likelihood
from glmesh.methods.totals.query import TRIALS
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.scaled import ScaledPenalty
from glmesh.types import Indices, Matrix, Vector

# steps of an octave in which nodes agree on the largest R_i, which is then at most 19 % too high; design: 2^(j/4)
STEPS = 4
HIGHEST = 127  # [steps] level that stands for this and all larger R_i: real sites have 256 levels for a maximum


def beginnings(block: Rows, at: Vector) -> Matrix:
    """Return what each hosted node adds to the sums that tell the null model, shape (n_hosted, n).

    `at` has the coefficients and the intercept that are held, zeros elsewhere.
    """
    return np.stack([one.beginnings(at) for one in block.likelihoods])


def contribute(block: Rows, penalty: ScaledPenalty, query: LikelihoodQuery, *, far: bool = False) -> dict[str, Matrix]:
    """Return what each hosted node adds to a total at the query's trial point: {name of a field: (n_hosted, size)}.

    A node whose loss is above the query's cap adds zeros for all else: the trial point is refused then. So do all nodes
    if the point is too `far` for a real site, so that no sum is that of fewer sites. The fields are
    "values" (losses after the whole step and shorter ones), "slopes", "hessian" (upper triangle), "fisher" where the
    loss is not convex, "noise", and "spread" where the dispersion is not known.
    """
    made = list(block.threads.map(lambda k: _of_node(block, k, penalty, query, far=far), range(block.size)))
    return {name: np.stack([one[name] for one in made]) for name in made[0]}


def are_far(block: Rows, penalty: ScaledPenalty, query: LikelihoodQuery) -> Indices:
    """Return whether each hosted node adds zeros at the query's trial point, 1 or 0, shape (n_hosted, 1).

    Its loss is above the cap there, or few of its rows would show.
    """
    there = penalty.moved(query.point, query.step)[None] / penalty.scale
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        losses = [float(likelihood.values(there)[0]) for likelihood in block.likelihoods]
    shows = block.discretion is not None and block.discretion.too_far
    return np.array([[int(shows or not loss <= query.cap)] for loss in losses])


def levels(block: Rows, penalty: ScaledPenalty, query: LikelihoodQuery) -> Indices:
    """Return the level of the largest R_i of each hosted node's rows at a query's point, shape (n_hosted, 1).

    R_i are those of `Likelihood.concordances`; level j stands for R_i <= 2^(j / STEPS), NOTHING for zero.
    """
    assert query.inverse is not None
    scale = penalty.scale
    inverse = block.likelihoods[0].reduced(query.inverse / scale)

    def level(likelihood: Likelihood) -> int:
        """Return the least whole number j such that all R_i of one node's rows are at most 2^(j / STEPS).

        NOTHING, the least level of all, stands for rows whose R_i are all 0.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            largest = likelihood.concordances(query.point / scale, inverse, query.radius).max(initial=0.0)
        if not largest <= 0.0:  # NaN is as good as infinite
            steps = np.ceil(STEPS * np.log2(largest) + 1e-9) if np.isfinite(largest) else HIGHEST
            return int(np.clip(steps, -HIGHEST - 1, HIGHEST))
        return NOTHING

    return np.array([[one] for one in block.threads.map(level, block.likelihoods)])


def bound_of(level: int) -> float:
    """Return the bound R of all rows that a level, the largest of all nodes, stands for; infinite: there is none."""
    if level <= NOTHING:
        return 0.0
    return np.inf if level >= HIGHEST else float(2.0 ** (level / STEPS))


def contribute_cones(block: Rows, question: ConeQuery | None) -> dict[str, Matrix]:
    """Return what each hosted node adds to a total that answers the question: {name of a field: (n_hosted, size)}."""
    if question is None:
        return {}
    made = list(block.threads.map(lambda k: cone_sums.contribute(block.cones[k], question), range(block.size)))
    if block.discretion is not None:
        made = [block.discretion.blurred(one) for one in made]
    return {name: np.stack([one[name] for one in made]) for name in made[0]}


def _of_node(block: Rows, k: int, penalty: ScaledPenalty, query: LikelihoodQuery, *, far: bool) -> dict[str, Vector]:
    """Return what the k-th hosted node adds to a total, {name of a field: numbers}."""
    likelihood, scale = block.likelihoods[k], penalty.scale
    lengths = np.concatenate([[1.0], TRIALS]) if query.trials else np.ones(1)
    there = penalty.moved(query.point, lengths[:, None] * query.step)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        values = likelihood.values(there / scale)
        values = np.where(values <= query.cap, values, 2.0 * query.cap)
        if far:
            values[0] = 2.0 * query.cap
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
    for name, numbers in fields.items():
        if not np.isfinite(numbers).all():  # far away; the trial point is refused by its loss
            fields[name] = np.where(np.isfinite(numbers), numbers, 0.0)
    return fields


def _packed(matrix: Matrix, query: LikelihoodQuery, scale: Vector) -> Vector:
    """Return the upper triangle, row by row, of a matrix (d, d) in scaled units on the query's columns."""
    n, factors = len(query.columns), 1.0 / scale[query.columns]
    out = np.empty(n * (n + 1) // 2)
    pack_columns(np.ascontiguousarray(matrix), query.columns, factors, out)
    return out
