"""Algorithms: CoLA in `cola`, methods on exact totals in `totals`, and rivals, methods of consensus, in `consensus`.

A method prepares the nodes that a process hosts and makes their rounds (`core/protocols`); it does no I/O, and does not
know whether its nodes are simulated, on MPI ranks or at peers.
"""

from glmesh.methods.cola.cola import Cocoa, Cola
from glmesh.methods.consensus.base import Consensus
from glmesh.methods.consensus.dadmm import DAdmm
from glmesh.methods.consensus.dapg import Dapg
from glmesh.methods.consensus.dgd import Dgd
from glmesh.methods.consensus.diging import Diging
from glmesh.methods.consensus.extra import Extra
from glmesh.methods.consensus.nids import Nids
from glmesh.methods.consensus.pg_extra import PgExtra
from glmesh.methods.consensus.replicas import Copies, Replicas
from glmesh.methods.consensus.samples import Constants, Samples
from glmesh.methods.totals.cross_validation import CrossValidation
from glmesh.methods.totals.interior import InteriorPoint
from glmesh.methods.totals.likelihood.method import MaximumLikelihood
from glmesh.methods.totals.limited_memory import LimitedMemory
from glmesh.methods.totals.newton import ProximalNewton
from glmesh.methods.totals.nodes import TotalMethod, TotalNodes
from glmesh.methods.totals.row_space import RowSpace
from glmesh.methods.totals.rows import Rows
from glmesh.methods.totals.state import TotalState

__all__ = [
    "Cocoa",
    "Cola",
    "Consensus",
    "Constants",
    "Copies",
    "CrossValidation",
    "DAdmm",
    "Dapg",
    "Dgd",
    "Diging",
    "Extra",
    "InteriorPoint",
    "LimitedMemory",
    "MaximumLikelihood",
    "Nids",
    "PgExtra",
    "ProximalNewton",
    "Replicas",
    "RowSpace",
    "Rows",
    "Samples",
    "TotalMethod",
    "TotalNodes",
    "TotalState",
]
