"""Gossip: how the nodes' estimates v_k of Ax are mixed with those of their neighbours, so that their mean stays Ax.

Plain averaging (`averaging`) and push-flow gossip, which survives lost messages (`flows`, one state machine per link in
`edge`), satisfy one protocol (`base`). A gossip knows blocks and messages; local solvers, momentum and certificates do
not enter.
"""

from glmesh.gossip.averaging import ChebyshevGossip, MatrixGossip, chebyshev_beta
from glmesh.gossip.base import Gossip
from glmesh.gossip.edge import OFFER_BYTES, Offer
from glmesh.gossip.flows import FlowGossip
from glmesh.gossip.membership import DIGEST_BYTES, Membership, MembershipView

__all__ = [
    "DIGEST_BYTES",
    "OFFER_BYTES",
    "ChebyshevGossip",
    "FlowGossip",
    "Gossip",
    "MatrixGossip",
    "Membership",
    "MembershipView",
    "Offer",
    "chebyshev_beta",
]
