"""Algorithms, one file each."""

from glmesh.methods.cola import Cocoa, Cola
from glmesh.methods.consensus import Consensus, Copies
from glmesh.methods.dadmm import DAdmm
from glmesh.methods.dapg import Dapg
from glmesh.methods.dgd import Dgd
from glmesh.methods.diging import Diging
from glmesh.methods.extra import Extra
from glmesh.methods.nids import Nids
from glmesh.methods.pg_extra import PgExtra

__all__ = ["Cocoa", "Cola", "Consensus", "Copies", "DAdmm", "Dapg", "Dgd", "Diging", "Extra", "Nids", "PgExtra"]
