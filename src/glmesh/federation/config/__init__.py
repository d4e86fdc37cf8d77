"""Files that a site has before it starts: federation file, node file, certificates.

What is read here is checked here, and an error names the file and the key. No sockets, no data, no training.
"""

from glmesh.federation.config.federation import (
    LINKS,
    Federation,
    Member,
    NetworkPart,
    difference,
)
from glmesh.federation.config.keys import check_name, expiry, fingerprint
from glmesh.federation.config.problem import ProblemPart, check_folds
from glmesh.federation.config.site import Site

__all__ = [
    "LINKS",
    "Federation",
    "Member",
    "NetworkPart",
    "ProblemPart",
    "Site",
    "check_folds",
    "check_name",
    "difference",
    "expiry",
    "fingerprint",
]
