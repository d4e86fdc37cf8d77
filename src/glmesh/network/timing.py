"""A virtual clock, so that seconds mean something in a simulation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.types import Indices, Vector


@dataclass(frozen=True)
class Network:
    """Speed of a simulated network; every node has its own virtual clock and waits only for its own neighbours.

    Parameters
    ----------
    latency : float, default 1e-3
        Seconds from sending to arrival.
    bandwidth : float, default 125e6
        Bytes a second that a node can send (the default is a gigabit); messages to several neighbours queue.
    nonzeros_per_second : float or sequence of K floats, default 5e8
        Nonzeros of its data that a node works through in a second (a pass visits each once).

    Raises
    ------
    InvalidInput
        latency is negative, or a speed is not positive.

    Examples
    --------
    >>> from glmesh import Network
    >>> Network(latency=0.05).bandwidth
    125000000.0
    """

    latency: float = 1e-3
    bandwidth: float = 125e6
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
        """Advance every node by the time that its `nonzeros` take, shape (K,)."""
        self.times = self.times + nonzeros / self.speeds

    def wait(self, seconds: Vector) -> None:
        """Advance every node by `seconds`, shape (K,)."""
        self.times = self.times + seconds

    def exchange(self, senders: Indices, receivers: Indices, sizes: Vector) -> None:
        """Advance every receiver to the arrival of the last message sent to it; `sizes` are bytes, one per message."""
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
        """Set the time of every node."""
        self.times, self._sent = state

    @property
    def seconds(self) -> float:
        """When the last node is done."""
        return float(self.times.max())
