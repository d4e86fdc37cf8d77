"""Algorithms, one file each: CoLA, and the methods of consensus that it competes with."""

from glmesh.methods.cola import Cocoa, Cola
from glmesh.methods.consensus import Consensus, Copies
from glmesh.methods.dadmm import DAdmm
from glmesh.methods.dapg import Dapg
from glmesh.methods.dgd import Dgd
from glmesh.methods.diging import Diging
from glmesh.methods.extra import Extra
from glmesh.methods.nids import Nids
from glmesh.methods.pg_extra import PgExtra
from glmesh.samples import Constants, Samples

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
