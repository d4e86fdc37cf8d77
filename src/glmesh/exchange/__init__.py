"""Transports: how rows get from node to node."""

from glmesh.exchange.local import LocalExchange
from glmesh.exchange.network import Network

__all__ = ["LocalExchange", "Network"]
