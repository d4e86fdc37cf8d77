"""The totals that end a fit without a penalty: they bring what inference needs, at the final point.

Two totals, and with an offset those of a Newton fit in one coordinate, of two numbers each, for the null model.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from glmesh.core.totals import Sums, Total
from glmesh.errors import InvalidData
from glmesh.methods.totals.likelihood.contribution import beginnings
from glmesh.methods.totals.likelihood.discretion import Discretion
from glmesh.methods.totals.likelihood.final_totals import (
    NodeEnd,
    first_fields,
    null_point,
    own_pulls,
    second_fields,
)
from glmesh.methods.totals.likelihood.rows import RowLikelihood
from glmesh.methods.totals.likelihood.statistics import HELD_BACK, FitStatistics, FittedModel, factor_of_inverse
from glmesh.methods.totals.rows import Rows
from glmesh.types import Matrix, Vector

BETWEEN = "between"  # what the test of whether sites differ needs
CLUSTER, CLUSTERS = "cluster", "clusters"  # sum of outer products of the clusters' scores, and their number
# sums of outer products of scores, and the one number of a site of that test: to each a real site may object, and,
# where clusters are named, to CLUSTER
OPEN_TO_OBJECTIONS = ("HC0", "HC2", "HC3", BETWEEN)
NULL_STEPS = 30  # Newton steps for the null model with an offset, because 3 to 6 are enough from where they begin
NULL_DONE = (
    1e-8  # [linear predictor] step of the null model's intercept that is the last, because the next is its square
)

Closing = Generator[Total, Sums, FitStatistics | None]


def closing_totals(block: Rows, fitted: FittedModel, scale: Vector, hessian: Matrix) -> Closing:
    """Yield the totals at the end of a fit, and return their statistics; None: the Hessian is not positive definite.

    `scale`, shape (d,), are the powers of two that the method divides columns by; `hessian`, shape (k, k), is that of
    the divided columns at the final point. Real sites say in the first total which of OPEN_TO_OBJECTIONS their rules
    let them tell, and tell those in the second to which nobody objects; so they do with clusters.
    """
    labels = [None] * block.size if block.clusters is None else block.clusters
    each = zip(block.likelihoods, block.weight, labels, strict=True)
    nodes = [NodeEnd(likelihood, fitted.coef, fitted.free, weight, own, scale) for likelihood, weight, own in each]
    at = fitted.coef
    own = [first_fields(node) for node in nodes]
    late: list[dict[str, Vector]] = [{} for _ in own]
    if block.discretion is not None:
        named = () if block.clusters is None else (CLUSTER, CLUSTERS)
        late = [{name: one.pop(name) for name in ("HC0", BETWEEN, *named)} for one in own]
        both = zip(own, nodes, strict=True)
        own = [one | {"objections": _objections(block.discretion, node, hessian)} for one, node in both]
    first = yield Total(_stacked(own), at=at)
    statistics = FitStatistics.of_first(fitted, first, scale)
    try:
        factor_of_inverse(statistics.hessian)
    except InvalidData:
        return None
    null = null_point(statistics)
    if null is None:
        null = yield from _null_model(block, np.where(fitted.held, at, 0.0))
    parts = [second_fields(node, statistics, null) | one for node, one in zip(nodes, late, strict=True)]
    if block.discretion is not None:
        parts = _without_objected(parts, first["objections"][1:])
        if block.clusters is not None and CLUSTER not in parts[0]:
            statistics = replace(statistics, clusters=HELD_BACK)
    if not any(parts):
        return statistics
    second = yield Total(_stacked(parts), at=at)
    return statistics.with_second(second, scale)


def _without_objected(parts: list[dict[str, Vector]], objections: Vector) -> list[dict[str, Vector]]:
    """Return the nodes' fields without those of OPEN_TO_OBJECTIONS to which a site objects.

    `objections`, in that order and with that to CLUSTER last if there are clusters, say how many sites object to each.
    """
    left_out = {name for name, against in zip((*OPEN_TO_OBJECTIONS, CLUSTER), objections, strict=False) if against > 0}
    left_out |= {CLUSTERS} if CLUSTER in left_out else set()
    return [{name: sums for name, sums in part.items() if name not in left_out} for part in parts]


def _objections(discretion: Discretion, node: NodeEnd, hessian: Matrix) -> Vector:
    """Return 1, and then for each of OPEN_TO_OBJECTIONS whether a site objects to its sum, 1 or 0; shape (5,).

    With clusters there is one more, of their sum. `hessian`, shape (k, k), is that of the divided columns.
    """
    slack = np.ones(len(node.weight))
    if node.likelihood.has_leverages:
        try:
            factor = factor_of_inverse(hessian) / node.units[:, None]
        except InvalidData:
            return np.ones(1 + len(OPEN_TO_OBJECTIONS) + (node.clusters is not None))
        slack -= node.leverages(factor)
    scores = node.scores
    allowed = [*discretion.allowed_meats(scores, slack), discretion.allows_misfit(own_pulls(node, scores))]
    if node.clusters is not None:
        used = node.weight > 0
        allowed.append(discretion.allows_clusters(scores[used], node.clusters[used]))
    return np.append(1.0, ~np.array(allowed)).astype(np.float64)


def _null_model(block: Rows, held: Vector) -> Generator[Total, Sums, Vector | None]:
    """Yield the totals that find the null model with an offset, or without a family; return its coefficients, (d,).

    `held` has the coefficients that are held, zeros elsewhere. None: the search failed.
    """
    sums = yield Total({"beginnings": beginnings(block, held)}, at=held)
    point = block.likelihoods[0].begin(held, sums["beginnings"])
    if (family := block.loss.as_family) is None:
        return point
    offsets = [np.asarray(X @ held[:-1])[:, None] for X in block.X]
    parts = zip(offsets, block.y, block.weight, strict=True)
    rows = [RowLikelihood(family, offset, y, weight) for offset, y, weight in parts]
    for step in range(NULL_STEPS):
        here = np.array([1.0, point[-1]])
        with np.errstate(all="ignore"):
            slopes = np.array([one.derivatives(here).gradient[-1] for one in rows])
            bends = np.array([one.information(here)[-1, -1] for one in rows])
        fields = np.stack([slopes, bends], axis=1)
        if not np.isfinite(fields).all():
            fields = np.zeros_like(fields)
        total = (yield Total({"null": fields}, at=np.append(held, step)))["null"]
        if not total[1] > 0:
            return None
        point[-1] -= total[0] / total[1]
        if abs(total[0]) <= NULL_DONE * total[1]:
            return point
    return None


def _stacked(parts: list[dict[str, Vector]]) -> dict[str, Matrix]:
    """Return the fields of all hosted nodes as {name: array of shape (n_hosted, size)}."""
    return {name: np.stack([part[name] for part in parts]) for name in parts[0]}
