"""How good is the present state: proven bounds that nodes compute, and measures of all nodes at once.

`bound` has the proof and the certificates of a reliable network, `unreliable` those of a network that fails, `spectral`
the gaps they rest on; `measures` needs all vectors at once and serves simulations. Methods may not enter: certificates
read a state and attend its exchanges, and never write to it (but for `Screening`, which saves work).
"""

from glmesh.certificate.bound import Certifier
from glmesh.certificate.measures import best_scale, observe, product
from glmesh.certificate.messages import ROW_WIDTH, CertificateRecord
from glmesh.certificate.spectral import SpectralGaps
from glmesh.certificate.unreliable import AsyncCertifier, RoundSnapshot

__all__ = [
    "ROW_WIDTH",
    "AsyncCertifier",
    "CertificateRecord",
    "Certifier",
    "RoundSnapshot",
    "SpectralGaps",
    "best_scale",
    "observe",
    "product",
]
