"""Transports: how rows and letters get from node to node."""

from glmesh.exchange.faults import FaultyExchange
from glmesh.exchange.local import LocalExchange, Traffic, Transport
from glmesh.exchange.network import Network

__all__ = ["FaultyExchange", "LocalExchange", "Network", "Traffic", "Transport"]
