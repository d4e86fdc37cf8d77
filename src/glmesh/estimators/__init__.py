"""Estimators with scikit-learn's names, parameters and objectives that learn over a network of nodes."""

from glmesh.estimators.classification import GLMClassifier, LinearSVC, LogisticRegression
from glmesh.estimators.export import load_model
from glmesh.estimators.paths import ElasticNetCV, LassoCV, enet_path, lasso_path
from glmesh.estimators.regression import ElasticNet, GLMRegressor, Lasso, LinearSVR, Ridge

__all__ = [
    "ElasticNet",
    "ElasticNetCV",
    "GLMClassifier",
    "GLMRegressor",
    "Lasso",
    "LassoCV",
    "LinearSVC",
    "LinearSVR",
    "LogisticRegression",
    "Ridge",
    "enet_path",
    "lasso_path",
    "load_model",
]
