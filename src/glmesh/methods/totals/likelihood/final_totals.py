"""What a node adds to the two totals at the final point of a fit without a penalty, from which inference is made.

The first total has the derivatives, the goodness of fit and the sandwiches' meats; the second one has what needs sums
of the first: the log-likelihood at the dispersion, the loss of the null model and meats with leverages. Triangles are
upper triangles, row by row, over the k coefficients that are free. A total is a sum over all nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from glmesh.methods.totals.likelihood.facts import FitFacts, factor_of_inverse
from glmesh.methods.totals.likelihood.rows import RowLikelihood
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
    if isinstance(node.likelihood, RowLikelihood):
        fields |= _family_fields(node, node.likelihood)
    if node.clusters is not None:
        sums, n = cluster_sums(scores[used], node.clusters[used])
        fields |= {"cluster": packed(sums.T @ sums), "clusters": np.array([float(n)])}
    return fields


def second_fields(node: NodeEnd, facts: FitFacts, null_point: Vector | None) -> dict[str, Vector]:
    """Return what a node adds to the second total at the final point: {name of a field: array of shape (size,)}.

    Parameters
    ----------
    node : NodeEnd
        The node.
    facts : FitFacts
        What the first total said, the same at all nodes.
    null_point : array of shape (d,) or None
        Coefficients of the null model, from `null_point` or, with an offset, from where the fit began; None: the null
        model is not wanted.

    Returns
    -------
    dict of arrays
        null_loss: loss at `null_point`. With a family: HC2, HC3: triangles of sum s_i s_i' / (1 - h_i)^e over the rows'
        scores s_i and leverages h_i, e = 1 and 2; full: number of rows whose leverage is 1, which these leave out;
        log_likelihood: at `FitFacts.likelihood_dispersion`, constants included, if that is a number above 0; beside it
        the number of rows that have none, because it is not finite.
    """
    fields = {} if null_point is None else {"null_loss": node.likelihood.values(null_point[None])}
    rows = node.likelihood
    if not isinstance(rows, RowLikelihood):
        return fields
    scores, used = node.scores, node.weight > 0
    room = 1.0 - leverages(rows, node, factor_of_inverse(facts.hessian))
    full = used & (room < FULL_LEVERAGE)
    scores = scores[~full]
    scaled = scores / room[~full, None]
    fields |= {
        "full": np.array([float(full.sum())]),
        "HC2": packed(scaled.T @ scores),
        "HC3": packed(scaled.T @ scaled),
    }
    dispersion = facts.likelihood_dispersion
    if np.isfinite(dispersion) and dispersion > 0:
        z = rows.predictors(node.point[None])[0]
        each = rows.family.log_likelihoods(rows.y[used], z[used], rows.weight[used], dispersion)
        fields["log_likelihood"] = _finite_sum(each)
    return fields


def leverages(rows: RowLikelihood, node: NodeEnd, factor: Matrix) -> Vector:
    """Return the diagonal of the hat matrix, v_i x_i'H^-1 x_i with v_i = weight times observed curvature, shape (m,).

    `factor`, shape (k, k), is a C with C C' = H^-1. These are the leverages of statsmodels'
    `GLMResults.get_hat_matrix_diag` and, for squares, of its OLS and WLS; R's `hatvalues` has the expected curvatures
    instead, which differ if the link is not canonical.
    """
    inverse = np.zeros((len(node.point),) * 2)
    inverse[np.ix_(node.free, node.free)] = factor.T
    curvatures = rows.family.curvatures(rows.y, rows.predictors(node.point[None])[0])
    out: Vector = rows.weight * np.where(rows.weight > 0, curvatures, 0.0) * rows.lengths(inverse) ** 2
    return out


def null_point(facts: FitFacts) -> Vector | None:
    """Return the null model's coefficients, shape (d,), without an offset: the mean of all targets for every row.

    The maximum-likelihood estimate of a family's mean, the same for all rows, is the weighted mean of the targets,
    whatever the link. As in statsmodels the null model has an intercept, also if the model has none (R's has none
    then). None: the model has an offset or no family, or the mean is on the border of what the link can give.
    """
    family = facts.fitted.family
    if family is None or facts.fitted.coef[facts.fitted.held & ~facts.fitted.is_intercept].any():
        return None
    point = np.zeros(len(facts.fitted.coef))
    with np.errstate(divide="ignore", invalid="ignore"):
        point[-1] = family.predictor(np.array([facts.targets[0] / facts.weight]))[0]
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


def _family_fields(node: NodeEnd, rows: RowLikelihood) -> dict[str, Vector]:
    """Return the fields of the first total that only models of a family have."""
    family, used = rows.family, rows.weight > 0
    y, weight = rows.y[used], rows.weight[used]
    mu = family.mean(rows.predictors(node.point[None])[0][used])
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        squares = (y - mu) ** 2 / family.variance(mu)
    fields = {
        "targets": np.array([weight @ y, weight @ y**2]),
        "pearson": _finite_sum(weight * squares),
    }
    if not family.canonical:
        fields["information"] = node.triangle(rows.information(node.point))
    return fields


def _finite_sum(values: Vector) -> Vector:
    """Return [sum of the finite values, number of the others], because totals are of finite numbers."""
    finite = np.isfinite(values)
    return np.array([values[finite].sum(), float((~finite).sum())])


def cluster_sums(scores: Matrix, labels: Array) -> tuple[Matrix, int]:
    """Return (sums of the scores over the rows of each cluster, shape (n, k); the number n of clusters)."""
    names, which = np.unique(labels, return_inverse=True)
    order: Indices = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(names)))
    sums = np.add.reduceat(scores[order], starts, axis=0) if len(names) else np.zeros((0, scores.shape[1]))
    return sums, len(names)
