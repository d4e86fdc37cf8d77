"""What a node adds to the two totals at the final point of a fit without a penalty, from which inference is made.

The first total has the derivatives, the goodness of fit and the sandwiches' meats; the second one has what needs sums
of the first: the log-likelihood at the dispersion, the loss of the null model and meats with leverages. Triangles are
upper triangles, row by row, over the k coefficients that are free. A total is a sum over all nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from glmesh.methods.totals.likelihood.statistics import FitStatistics, factor_of_inverse
from glmesh.methods.totals.likelihood.terms import Likelihood
from glmesh.methods.totals.standardise import packed
from glmesh.types import Array, Flags, Indices, Matrix, Vector

FLAT = 1e-10  # [largest] eigenvalue of a node's correlations below which a direction is called one without rows
FULL_LEVERAGE = 1e-9  # [leverages] distance from 1 below which a residual is rounding, and HC2 and HC3 do not exist


@dataclass(frozen=True, eq=False)
class NodeEnd:
    """One node at the final point of a fit: its rows as a `Likelihood`, and the point.

    Parameters
    ----------
    likelihood : Likelihood
        Loss of the node's rows.
    point : array of shape (d,)
        The final point.
    free : mask of shape (d,)
        Coordinates that were fitted: not held by equal bounds, not aliased.
    weight : array of shape (m,)
        Weights of the node's rows, >= 0.
    clusters : array of shape (m,), optional
        Labels of the clusters that the rows belong to, each of which is in this node only; where a node is a cluster,
        the same label for all of its rows. None: no clusters.
    scale : array of shape (d,), optional
        Powers of two that columns are divided by in all fields, so that rounding a field to multiples of one grain
        costs no column its digits. None: 1.
    """

    likelihood: Likelihood
    point: Vector
    free: Flags
    weight: Vector
    clusters: Array | None = None
    scale: Vector | None = None

    @property
    def units(self) -> Vector:
        """Return what each of the k free coefficients is multiplied by in the fields, shape (k,)."""
        return np.ones(int(self.free.sum())) if self.scale is None else self.scale[self.free]

    @property
    def scores(self) -> Matrix:
        """Return each row's gradient by the k free coefficients, scaled, shape (m, k)."""
        return np.asarray(self.likelihood.scores(self.point))[:, self.free] / self.units

    def leverages(self, factor: Matrix) -> Vector:
        """Return the leverage of each row, shape (m,), of a model whose rows have one.

        `factor`, shape (k, k), is a C with C C' = H^-1, in the units of the data.
        """
        inverse = np.zeros((len(self.point),) * 2)
        inverse[np.ix_(self.free, self.free)] = factor.T
        return self.likelihood.leverages(self.point, inverse)

    def triangle(self, matrix: Matrix) -> Vector:
        """Return the upper triangle of the free rows and columns of a matrix of shape (d, d), scaled, as one array."""
        return packed(matrix[np.ix_(self.free, self.free)] / self.units / self.units[:, None])


def first_fields(node: NodeEnd) -> dict[str, Vector]:
    """Return what a node adds to the first total at the final point: {name of a field: array of shape (size,)}.

    Parameters
    ----------
    node : NodeEnd
        The node.

    Returns
    -------
    dict of arrays
        rows: number of rows with a weight > 0. weight: sum of the weights. loss: half the deviance, or minus the
        log-likelihood. gradient: (k,). hessian: triangle of the observed one. HC0: triangle of sum s_i s_i' over the
        rows' scores s_i. between: g'I^-1 g of the node's own gradient and expected Hessian I, and the rank of I, of
        which `glmesh.inference` makes a test of whether nodes differ. With a family: targets: sum of w y
        and of w y^2; pearson: X^2, the sum of w (y - mu)^2 / V(mu), and the number of rows where that is not finite;
        information: triangle of the expected Hessian, unless the link is canonical. With clusters: cluster: triangle
        of sum s_c s_c' over the clusters' sums
        of scores s_c; clusters: their number.
    """
    scores, used = node.scores, node.weight > 0
    derivatives = node.likelihood.derivatives(node.point)
    fields = {
        "rows": np.array([float(used.sum())]),
        "weight": np.array([node.weight.sum()]),
        "loss": node.likelihood.values(node.point[None]),
        "gradient": derivatives.gradient[node.free] / node.units,
        "hessian": node.triangle(derivatives.hessian),
        "HC0": packed(scores.T @ scores),
        "between": _own_misfit(node, derivatives.gradient),
    }
    fields |= node.likelihood.moments(node.point)
    if node.likelihood.has_two_hessians:
        fields["information"] = node.triangle(node.likelihood.information(node.point))
    if node.clusters is not None:
        sums, n = cluster_sums(scores[used], node.clusters[used])
        fields |= {"cluster": packed(sums.T @ sums), "clusters": np.array([float(n)])}
    return fields


def second_fields(node: NodeEnd, statistics: FitStatistics, null_point: Vector | None) -> dict[str, Vector]:
    """Return what a node adds to the second total at the final point: {name of a field: array of shape (size,)}.

    Parameters
    ----------
    node : NodeEnd
        The node.
    statistics : FitStatistics
        What the first total said, the same at all nodes.
    null_point : array of shape (d,) or None
        Coefficients of the null model, from `null_point` or, with an offset, from where the fit began; None: the null
        model is not wanted.

    Returns
    -------
    dict of arrays
        null_loss: loss at `null_point`. With a family: HC2, HC3: triangles of sum s_i s_i' / (1 - h_i)^e over the rows'
        scores s_i and leverages h_i, e = 1 and 2; full: number of rows whose leverage is 1, which these leave out;
        log_likelihood: at `FitStatistics.likelihood_dispersion`, constants included, if that is a number above 0;
        beside it the number of rows that have none, because it is not finite.
    """
    fields = {} if null_point is None else {"null_loss": node.likelihood.values(null_point[None])}
    if not node.likelihood.has_leverages:
        return fields
    scores, used = node.scores, node.weight > 0
    slack = 1.0 - node.leverages(factor_of_inverse(statistics.hessian))
    full = used & (slack < FULL_LEVERAGE)
    scores = scores[~full]
    scaled = scores / slack[~full, None]
    fields |= {
        "full": np.array([float(full.sum())]),
        "HC2": packed(scaled.T @ scores),
        "HC3": packed(scaled.T @ scaled),
    }
    dispersion = statistics.likelihood_dispersion
    if np.isfinite(dispersion) and dispersion > 0:
        fields["log_likelihood"] = node.likelihood.log_likelihood(node.point, dispersion)
    return fields


def null_point(statistics: FitStatistics) -> Vector | None:
    """Return the null model's coefficients, shape (d,), without an offset: the mean of all targets for every row.

    The maximum-likelihood estimate of a family's mean, the same for all rows, is the weighted mean of the targets,
    whatever the link. As in statsmodels the null model has an intercept, also if the model has none (R's has none
    then). None: the model has an offset or no family, or the mean is on the border of what the link can give.
    """
    family = statistics.fitted.family
    if family is None or statistics.fitted.coef[statistics.fitted.held & ~statistics.fitted.is_intercept].any():
        return None
    point = np.zeros(len(statistics.fitted.coef))
    with np.errstate(divide="ignore", invalid="ignore"):
        point[-1] = family.predictor(np.array([statistics.targets[0] / statistics.weight]))[0]
    return point if np.isfinite(point[-1]) else None


def add_up(parts: list[dict[str, Vector]]) -> Mapping[str, Vector]:
    """Return the sums of the nodes' fields where they are all in one process: {name of a field: array}."""
    return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}


def own_pulls(node: NodeEnd, scores: Matrix) -> Matrix:
    """Return scores, shape (m, k), in units of their standard deviations by the node's own expected Hessian, (m, r).

    There is a column for each of the r directions in which the node has rows; r is the rank of that Hessian.
    """
    free = node.free
    information = node.likelihood.information(node.point)[np.ix_(free, free)] / node.units / node.units[:, None]
    size = np.sqrt(np.diag(information))
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(information / size / size[:, None])
    kept = values > FLAT * max(float(values[-1]), 0.0) if len(values) else np.zeros(0, dtype=bool)
    return np.asarray(scores / size @ vectors[:, kept] / np.sqrt(values[kept]))


def _own_misfit(node: NodeEnd, gradient: Vector) -> Vector:
    """Return [g'I^-1 g, rank of I] of the node's gradient g and expected Hessian I, in its directions with rows."""
    pull = own_pulls(node, (gradient[node.free] / node.units)[None])[0]
    return np.array([float((pull**2).sum()), float(len(pull))])


def cluster_sums(scores: Matrix, labels: Array) -> tuple[Matrix, int]:
    """Return (sums of the scores over the rows of each cluster, shape (n, k); the number n of clusters)."""
    names, which = np.unique(labels, return_inverse=True)
    order: Indices = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(names)))
    sums = np.add.reduceat(scores[order], starts, axis=0) if len(names) else np.zeros((0, scores.shape[1]))
    return sums, len(names)
