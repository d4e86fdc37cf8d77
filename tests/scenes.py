"""Small data and problems of every kind, for tests of runs, problems and partitions."""

import numpy as np
import scipy.sparse as sp

from glmesh import Problem
from glmesh.functions import Box, GroupLasso

RNG = np.random.default_rng(0)


X = RNG.standard_normal((30, 20))


Y = X @ RNG.standard_normal(20) + RNG.standard_normal(30)


LABELS = np.where(Y > 0, 1.0, -1.0)


SPARSE = sp.csr_array(X * (RNG.random(X.shape) < 0.3))


WEIGHT = 0.5 + RNG.random(30)


def advance(run, rounds):
    for _ in range(rounds):
        next(run)
    return run


PROBLEMS = {
    "lasso": lambda: Problem.glm(X, Y, penalty="l1", alpha=3.0),
    "sparse_lasso": lambda: Problem.glm(SPARSE, Y, penalty="l1", alpha=1.0),
    "weighted_ridge_intercept": lambda: Problem.glm(X, Y, sample_weight=WEIGHT, fit_intercept=True),
    "logistic_intercept": lambda: Problem.glm(X, LABELS, loss="logistic", penalty="elasticnet", fit_intercept=True),
    "huber_group": lambda: Problem.glm(SPARSE, Y, loss="huber", penalty=GroupLasso(np.arange(20) % 7)),
    "squared_hinge_box": lambda: Problem.glm(X, LABELS, loss="squared_hinge", penalty=Box(-0.1, 0.2)),
    "logistic_dual": lambda: Problem.glm(X, LABELS, loss="logistic", split="samples"),
    "svm": lambda: Problem.glm(SPARSE, LABELS, loss="hinge", split="samples", alpha=0.3),
    "svr_elasticnet": lambda: Problem.glm(
        X, Y, loss="epsilon_insensitive", penalty="elasticnet", alpha=5.0, split="samples", sample_weight=WEIGHT
    ),
}
