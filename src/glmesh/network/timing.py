"""A virtual clock, so that seconds mean something in a simulation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.types import Indices, Vector


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

    def __init__(self, network: Network, n: int) -> None:
        self.network = network
        speeds = np.atleast_1d(np.asarray(network.nonzeros_per_second, dtype=np.float64))
        if len(speeds) not in (1, n):
            raise InvalidInput(f"nonzeros_per_second has {len(speeds)} entries for {n} nodes")
        self.speeds = np.broadcast_to(speeds, n)
        self.times: Vector = np.zeros(n)
        self._sent: Vector = np.zeros(n)  # when each node's link is free again

    def compute(self, nonzeros: Vector) -> None:
        """Every node worked through so many nonzeros."""
        self.times = self.times + nonzeros / self.speeds

    def wait(self, seconds: Vector) -> None:
        """Nodes were held up by so many seconds."""
        self.times = self.times + seconds

    def exchange(self, senders: Indices, receivers: Indices, sizes: Vector) -> None:
        """Messages of so many bytes each were sent, and every node waited for those that it was sent."""
        # messages of the round before may still be queueing at a node with many neighbours
        begin = np.maximum(self.times, self._sent)
        load = np.bincount(senders, sizes, minlength=len(begin))
        self._sent = np.where(load > 0, begin + load / self.network.bandwidth, self._sent)
        arrivals = self.times.copy()
        np.maximum.at(arrivals, receivers, self._sent[senders] + self.network.latency)
        self.times = arrivals

    def state(self) -> list[Vector]:
        """The times at all nodes and links."""
        return [self.times, self._sent]

    def restore(self, state: list[Vector]) -> None:
        """Sets the times."""
        self.times, self._sent = state

    @property
    def seconds(self) -> float:
        """When the last node is done."""
        return float(self.times.max())
