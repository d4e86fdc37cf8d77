"""A virtual clock, so that seconds mean something in a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.mixing import Mixing
from glmesh.types import Vector


@dataclass(frozen=True)
class Network:
    """What the simulated network is like.

    latency: seconds from sending to arrival. bandwidth: bytes a second that a node can send; its messages to several
    neighbours queue. nonzeros_per_second: how fast a node works through its data (one pass visits each once), for all
    nodes or one per node. Every node has its own clock and waits only for its own neighbours.
    """

    latency: float = 1e-3
    bandwidth: float = 125e6  # a gigabit a second
    nonzeros_per_second: float | Sequence[float] = 5e8

    def __post_init__(self) -> None:
        speeds = np.atleast_1d(np.asarray(self.nonzeros_per_second, dtype=np.float64))
        if not self.latency >= 0 or not self.bandwidth > 0 or not (speeds > 0).all():
            raise InvalidInput("a Network needs latency >= 0, bandwidth > 0 and nonzeros_per_second > 0")


class Clock:
    """The time at every node."""

    def __init__(self, network: Network, mixing: Mixing) -> None:
        self.network = network
        self.mixing = mixing
        n = mixing.n_nodes
        speeds = np.atleast_1d(np.asarray(network.nonzeros_per_second, dtype=np.float64))
        if len(speeds) not in (1, n):
            raise InvalidInput(f"nonzeros_per_second has {len(speeds)} entries for {n} nodes")
        self.speeds = np.broadcast_to(speeds, n)
        self.times: Vector = np.zeros(n)
        self._sent: Vector = np.zeros(n)  # when each node's link is free again

    def compute(self, nonzeros: Vector) -> None:
        """Every node worked through so many nonzeros."""
        self.times = self.times + nonzeros / self.speeds

    def exchange(self, message_bytes: Vector) -> None:
        """Every node sent a message to each neighbour and waited for theirs."""
        # messages of the round before may still be queueing at a node with many neighbours
        begin = np.maximum(self.times, self._sent)
        self._sent = begin + self.mixing.degrees * message_bytes / self.network.bandwidth
        matrix = self.mixing.matrix
        arrivals = (self._sent + self.network.latency)[matrix.indices]
        own = matrix.indices == np.repeat(np.arange(self.mixing.n_nodes), np.diff(matrix.indptr))
        arrivals[own] = self.times
        self.times = np.maximum.reduceat(arrivals, matrix.indptr[:-1])

    @property
    def seconds(self) -> float:
        """When the last node is done."""
        return float(self.times.max())
