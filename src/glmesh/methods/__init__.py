"""Algorithms, one file each: CoLA, and the methods of consensus that it competes with."""

from glmesh.methods.cola.round import Cocoa, Cola
from glmesh.methods.consensus.base import Consensus
from glmesh.methods.consensus.dadmm import DAdmm
from glmesh.methods.consensus.dapg import Dapg
from glmesh.methods.consensus.dgd import Dgd
from glmesh.methods.consensus.diging import Diging
from glmesh.methods.consensus.extra import Extra
from glmesh.methods.consensus.nids import Nids
from glmesh.methods.consensus.pg_extra import PgExtra
from glmesh.methods.consensus.replicas import Copies
from glmesh.methods.consensus.samples import Constants, Samples

__all__ = [
    "Cocoa",
    "Cola",
    "Consensus",
    "Constants",
    "Copies",
    "DAdmm",
    "Dapg",
    "Dgd",
    "Diging",
    "Extra",
    "Nids",
    "PgExtra",
    "Samples",
]
