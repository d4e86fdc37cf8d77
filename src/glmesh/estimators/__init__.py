"""Estimators with the names, parameters and objectives of scikit-learn that learn over a network of nodes.

An estimator validates what users give, states its objective as a `Problem`, and keeps what `solve` returns. Nothing
here touches rounds, blocks or messages. A node of a federation works without this package, and without scikit-learn.
"""

from glmesh.estimators.classification import GLMClassifier, LinearSVC
from glmesh.estimators.cross_validation import ElasticNetCV, LassoCV
from glmesh.estimators.export import load_model
from glmesh.estimators.families import GammaRegressor, PoissonRegressor, TweedieRegressor
from glmesh.estimators.least_squares import ElasticNet, Lasso, Ridge
from glmesh.estimators.logistic import LogisticRegression
from glmesh.estimators.paths import enet_path, lasso_path
from glmesh.estimators.regression import GLMRegressor, LinearSVR
from glmesh.estimators.survival import CoxRegressor

__all__ = [
    "CoxRegressor",
    "ElasticNet",
    "ElasticNetCV",
    "GLMClassifier",
    "GLMRegressor",
    "GammaRegressor",
    "Lasso",
    "LassoCV",
    "LinearSVC",
    "LinearSVR",
    "LogisticRegression",
    "PoissonRegressor",
    "Ridge",
    "TweedieRegressor",
    "enet_path",
    "lasso_path",
    "load_model",
]
