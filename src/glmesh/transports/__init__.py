"""Transports: how outboxes get from node to node, in one process (`local`, `faulty`) or between machines (`mpi`).

A transport moves and counts; it knows no algebra, no method and no state of a node. Each declares what it `carries`.
"""

from glmesh.core import Traffic, Transport
from glmesh.network import Network
from glmesh.transports.faulty import FaultyTransport
from glmesh.transports.local import LocalTransport

__all__ = ["FaultyTransport", "LocalTransport", "Network", "Traffic", "Transport"]
