"""Generalised linear models, trained where the data lives.

`Problem` says what to fit, `solve` fits it over a network of nodes, `Result` says how good the answer is.
"""

from glmesh import functions, methods, mixing, solvers, theory, topology
from glmesh.errors import GlmeshError
from glmesh.exchange import Network
from glmesh.methods import Cocoa, Cola
from glmesh.problem import Problem
from glmesh.result import Result, Status
from glmesh.run import Run
from glmesh.solve import solve

__version__ = "0.1.0"

__all__ = [
    "Cocoa",
    "Cola",
    "GlmeshError",
    "Network",
    "Problem",
    "Result",
    "Run",
    "Status",
    "functions",
    "methods",
    "mixing",
    "solve",
    "solvers",
    "theory",
    "topology",
]
