"""Statistics of a fit as totals would make them: the fields of unequal nodes, added up at given coefficients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.functions.family import Family
from glmesh.methods.totals.likelihood import final_totals
from glmesh.methods.totals.likelihood.final_totals import NodeEnd
from glmesh.methods.totals.likelihood.rows import RowLikelihood
from glmesh.methods.totals.likelihood.statistics import INTERCEPT, FitStatistics, FittedModel

SHARES = (0.15, 0.35)  # of the rows, where the second and third node's begin


@dataclass
class Table:
    """Pooled data of a model with a family; the intercept is not a column of X."""

    family: Family
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray | None = None
    offset: np.ndarray | None = None
    clusters: np.ndarray | None = None
    cuts: tuple[int, ...] | None = None
    names: tuple[str, ...] | None = None
    intercept: bool = True
    aliased: tuple[int, ...] = ()

    @property
    def columns(self):
        return self.X if self.offset is None else np.column_stack([self.X, self.offset])

    def fitted(self, coef, **more):
        """The model with coefficients of the p columns and the intercept, if it has one."""
        p, has_offset = self.X.shape[1], self.offset is not None
        names = self.names or tuple(f"x{j}" for j in range(p))
        held = np.array([False] * p + [True] * has_offset + [not self.intercept])
        coef = np.concatenate([coef[:p], [1.0] * has_offset, [coef[p] if self.intercept else 0.0]])
        aliased = np.isin(np.arange(len(coef)), self.aliased)
        names = (*names, *["offset"] * has_offset, INTERCEPT)
        said = {"model": self.family.name, "family": self.family, **more}
        return FittedModel(names=names, coef=coef, held=held, aliased=aliased, **said)

    def nodes(self, fitted):
        """The rows dealt out to three unequal nodes, or between the `cuts`."""
        m = len(self.y)
        cuts = tuple(int(share * m) for share in SHARES) if self.cuts is None else self.cuts
        weight = np.ones(m) if self.weight is None else self.weight
        ends = []
        for a, b in zip((0, *cuts), (*cuts, m), strict=True):
            rows = RowLikelihood(self.family, self.columns[a:b], self.y[a:b], weight[a:b])
            clusters = None if self.clusters is None else self.clusters[a:b]
            ends.append(NodeEnd(rows, fitted.coef, fitted.free, weight[a:b], clusters))
        return ends

    def statistics(self, coef, **more):
        fitted = self.fitted(np.asarray(coef), **more)
        nodes = self.nodes(fitted)
        first = final_totals.add_up([final_totals.first_fields(node) for node in nodes])
        statistics = FitStatistics.of_first(fitted, first)
        null = final_totals.null_point(statistics) if self.offset is None else self.null_with_offset()
        return statistics.with_second(
            final_totals.add_up([final_totals.second_fields(node, statistics, null) for node in nodes])
        )

    def curves(self, points):
        """Loss, gradient and Hessian over all rows, for profiles."""
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        whole = RowLikelihood(self.family, self.columns, self.y, weight)
        found = [whole.derivatives(point) for point in points]
        return [(v, one.gradient, one.hessian) for v, one in zip(whole.values(points), found, strict=True)]

    def null_with_offset(self):
        """The null model with the offset, by Newton's method in one coordinate."""
        point = np.zeros(self.columns.shape[1] + 1)
        point[-2] = 1.0
        for _ in range(50):
            _, gradient, hessian = self.curves(point[None])[0]
            point[-1] -= gradient[-1] / hessian[-1, -1]
        return point

    def newton(self, coef, steps=5):
        """Coefficients after some Newton steps with the observed Hessian, for fits that are tight."""
        fitted = self.fitted(np.asarray(coef))
        point, free = fitted.coef.copy(), fitted.free
        for _ in range(steps):
            _, gradient, hessian = self.curves(point[None])[0]
            point[free] -= np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        return point[[*range(self.X.shape[1]), -1]]
