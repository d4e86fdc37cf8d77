"""Which `Likelihood` a loss has."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

import numpy as np

from glmesh.errors import UnsuitablePair
from glmesh.functions import Cox, Loss, Softmax
from glmesh.functions.family import Family
from glmesh.methods.totals.likelihood.cox import CoxLikelihood
from glmesh.methods.totals.likelihood.rows import RowLikelihood
from glmesh.methods.totals.likelihood.softmax import SoftmaxLikelihood
from glmesh.methods.totals.likelihood.terms import Likelihood
from glmesh.types import Matrix, SampleMatrix, Vector


@singledispatch
def likelihood_of(loss: Loss, X: SampleMatrix, y: Vector, weight: Vector) -> Likelihood:
    """Return the likelihood of a node's rows X (m, p), targets y (m,) and sample weights (m,) under a loss.

    Raise UnsuitablePair for a loss that is none of a likelihood.
    """
    raise UnsuitablePair(f"MaximumLikelihood fits families, and {loss.name} is none; use ProximalNewton")


likelihood_of.register(Family, RowLikelihood)
likelihood_of.register(Cox, CoxLikelihood)
likelihood_of.register(Softmax, SoftmaxLikelihood)


def curves_of(
    loss: Loss, rows: tuple[list[SampleMatrix], list[Vector], list[Vector]]
) -> Callable[[Matrix], list[tuple[float, Vector, Matrix]]]:
    """Return the function that returns loss, gradient and Hessian over all rows at each of n points, shape (n, d).

    `rows` are lists of X, y and weights, as `all_rows` returns them. Losses are infinite where they are not defined.
    """
    likelihoods = [likelihood_of(loss, X, y, weight) for X, y, weight in zip(*rows, strict=True)]

    def curves(points: Matrix) -> list[tuple[float, Vector, Matrix]]:
        """Return (loss, gradient, Hessian) at each of n points, shape (n, d)."""
        with np.errstate(all="ignore"):
            values = np.sum([one.values(points) for one in likelihoods], axis=0)
            each = [[one.derivatives(point) for one in likelihoods] for point in points]
        return [
            (float(value), np.sum([one.gradient for one in own], axis=0), np.sum([one.hessian for one in own], axis=0))
            for value, own in zip(values, each, strict=True)
        ]

    return curves
