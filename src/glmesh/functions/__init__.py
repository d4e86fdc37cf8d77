"""The functions f (smooth) and g (separable) of f(Ax) + g(x), and the losses and penalties they come from.

Conventions: `v`, `w` are vectors of length d, `x`, `u` of length n; everything is float64. `value` and `conjugate` are
sums over the coordinates; outside a domain they are `inf`, never an exception. A function knows its value, gradient or
prox, conjugate and constants. It knows nothing of data matrices, nodes or solvers.
"""

from glmesh.functions.conjugate import ConjugateOf
from glmesh.functions.cox import Cox
from glmesh.functions.entropy import LogisticDual
from glmesh.functions.families import (
    FAMILIES,
    Binomial,
    Gamma,
    Gaussian,
    InverseGaussian,
    NegativeBinomial,
    Poisson,
    Tweedie,
    family_of,
    tweedie,
)
from glmesh.functions.family import Family
from glmesh.functions.groups import GroupLasso
from glmesh.functions.intercept import Anchored, Profiled
from glmesh.functions.losses import (
    LOSSES,
    EpsilonInsensitiveLoss,
    HingeLoss,
    HuberLoss,
    LogisticLoss,
    Loss,
    QuantileLoss,
    SmoothedHingeLoss,
    SquaredEpsilonInsensitiveLoss,
    SquaredHingeLoss,
    SquaredLoss,
)
from glmesh.functions.penalties import L1, L2, Box, ElasticNet, NonNegative
from glmesh.functions.row_losses import Huber, Logistic, Squared, SquaredHinge
from glmesh.functions.separable import Separable, Table
from glmesh.functions.smooth import Smooth

__all__ = [
    "FAMILIES",
    "L1",
    "L2",
    "LOSSES",
    "Anchored",
    "Binomial",
    "Box",
    "ConjugateOf",
    "Cox",
    "ElasticNet",
    "EpsilonInsensitiveLoss",
    "Family",
    "Gamma",
    "Gaussian",
    "GroupLasso",
    "HingeLoss",
    "Huber",
    "HuberLoss",
    "InverseGaussian",
    "Logistic",
    "LogisticDual",
    "LogisticLoss",
    "Loss",
    "NegativeBinomial",
    "NonNegative",
    "Poisson",
    "Profiled",
    "QuantileLoss",
    "Separable",
    "Smooth",
    "SmoothedHingeLoss",
    "Squared",
    "SquaredEpsilonInsensitiveLoss",
    "SquaredHinge",
    "SquaredHingeLoss",
    "SquaredLoss",
    "Table",
    "Tweedie",
    "family_of",
    "tweedie",
]
