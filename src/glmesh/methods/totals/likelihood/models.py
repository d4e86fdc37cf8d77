"""Which `Likelihood` a loss has."""

from __future__ import annotations

from glmesh.errors import UnsuitablePair
from glmesh.functions import Cox, Loss
from glmesh.functions.family import Family
from glmesh.methods.totals.likelihood.cox import CoxLikelihood
from glmesh.methods.totals.likelihood.rows import RowLikelihood
from glmesh.methods.totals.likelihood.terms import Likelihood
from glmesh.types import SampleMatrix, Vector


def likelihood_of(loss: Loss, X: SampleMatrix, y: Vector, weight: Vector) -> Likelihood:
    """Return the likelihood of a node's rows X (m, p), targets y (m,) and sample weights (m,) under a loss.

    Raise UnsuitablePair for a loss that is none of a likelihood.
    """
    if isinstance(loss, Family):
        return RowLikelihood(loss, X, y, weight)
    if isinstance(loss, Cox):
        return CoxLikelihood(loss, X, y, weight)
    raise UnsuitablePair(f"MaximumLikelihood fits families, and {loss.name} is none; use ProximalNewton")
