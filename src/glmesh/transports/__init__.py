"""Transports: how rows and letters get from node to node."""

from glmesh.core.records import Traffic
from glmesh.network.timing import Network
from glmesh.transports.faulty import FaultyExchange
from glmesh.transports.local import LocalExchange

__all__ = ["FaultyExchange", "LocalExchange", "Network", "Traffic"]
