"""Generalised linear models, trained where the data lives.

`Problem` says what to fit, `solve` fits it over a network of nodes, `Result` says how good the answer is.
"""

from typing import TYPE_CHECKING, Any

from glmesh import functions, methods, solvers, theory
from glmesh._moved import install
from glmesh.engine.result import Result, Status
from glmesh.engine.run import Run
from glmesh.engine.solve import solve
from glmesh.errors import GlmeshError
from glmesh.methods import Cocoa, Cola
from glmesh.network import mixing, topology
from glmesh.problem import Problem
from glmesh.transports import Network

if TYPE_CHECKING:
    from glmesh.estimators import (
        CoxRegressor,
        ElasticNet,
        ElasticNetCV,
        GammaRegressor,
        GLMClassifier,
        GLMRegressor,
        Lasso,
        LassoCV,
        LinearSVC,
        LinearSVR,
        LogisticRegression,
        PoissonRegressor,
        Ridge,
        TweedieRegressor,
        enet_path,
        lasso_path,
        load_model,
    )

install()

__version__ = "0.2.0"

_ESTIMATORS = (
    *("ElasticNet", "ElasticNetCV", "GLMClassifier", "GLMRegressor", "Lasso", "LassoCV", "LinearSVC", "LinearSVR"),
    *("CoxRegressor", "GammaRegressor", "LogisticRegression", "PoissonRegressor", "Ridge", "TweedieRegressor"),
    *("enet_path", "lasso_path", "load_model"),
)

__all__ = [
    "Cocoa",
    "Cola",
    "CoxRegressor",
    "ElasticNet",
    "ElasticNetCV",
    "GLMClassifier",
    "GLMRegressor",
    "GammaRegressor",
    "GlmeshError",
    "Lasso",
    "LassoCV",
    "LinearSVC",
    "LinearSVR",
    "LogisticRegression",
    "Network",
    "PoissonRegressor",
    "Problem",
    "Result",
    "Ridge",
    "Run",
    "Status",
    "TweedieRegressor",
    "enet_path",
    "functions",
    "lasso_path",
    "load_model",
    "methods",
    "mixing",
    "solve",
    "solvers",
    "theory",
    "topology",
]


def __getattr__(name: str) -> Any:
    """Return `name` from `glmesh.estimators`, imported on first use: a node of a network needs no scikit-learn."""
    if name in _ESTIMATORS:
        from glmesh import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'glmesh' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
