"""Virtual clock of a simulation: seconds of computing and communicating, from a model of the network."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.errors import InvalidInput
from glmesh.types import Indices, Vector


@dataclass(frozen=True)
class Network:
    """Model of the network that a simulation runs on, for `Result.seconds`.

    Every node has its own clock and waits only for its own neighbours.

    Parameters
    ----------
    latency : float, default 1e-3
        Seconds from sending to arrival.
    bandwidth : float, default 125e6
        Bytes a second that a node can send, by default a gigabit; messages to several neighbours queue.
    nonzeros_per_second : float or sequence of K floats, default 5e8
        Speed at which a node works through its data, for all nodes or one per node; a pass visits each nonzero once.

    Raises
    ------
    InvalidInput
        A number is negative, or the bandwidth or a speed is zero.

    Examples
    --------
    >>> import numpy as np
    >>> import glmesh
    >>> problem = glmesh.Problem.glm(np.eye(4), np.ones(4), penalty="l1", alpha=0.5)
    >>> slow = glmesh.Network(latency=0.1)
    >>> result = glmesh.solve(problem, n_nodes=2, network=slow, stop="rounds", max_rounds=5)
    >>> round(result.seconds, 2)
    0.5
    """

    latency: float = 1e-3
    bandwidth: float = 125e6
    nonzeros_per_second: float | Sequence[float] = 5e8

    def __post_init__(self) -> None:
        speeds = np.atleast_1d(np.asarray(self.nonzeros_per_second, dtype=np.float64))
        if not self.latency >= 0 or not self.bandwidth > 0 or not (speeds > 0).all():
            raise InvalidInput("a Network needs latency >= 0, bandwidth > 0 and nonzeros_per_second > 0")


class Clock:
    """Virtual clocks of n nodes, in seconds, which advance as nodes compute, wait and exchange messages."""

    def __init__(self, network: Network, n: int) -> None:
        """Set the clocks of n nodes to 0; `network` is the model of speeds, latency and bandwidth."""
        self.network = network
        speeds = np.atleast_1d(np.asarray(network.nonzeros_per_second, dtype=np.float64))
        if len(speeds) not in (1, n):
            raise InvalidInput(f"nonzeros_per_second has {len(speeds)} entries for {n} nodes")
        self.speeds = np.broadcast_to(speeds, n)
        self.times: Vector = np.zeros(n)  # [s]
        self._sent: Vector = np.zeros(n)  # [s] at which a node's link is free again

    def compute(self, nonzeros: Vector) -> None:
        """Advance the clock of each node k by the seconds in which it works through nonzeros[k] nonzeros of its data.

        `nonzeros` has shape (n,) for n nodes.
        """
        self.times = self.times + nonzeros / self.speeds

    def wait(self, seconds: Vector) -> None:
        """Advance every node's clock by `seconds`, shape (n,)."""
        self.times = self.times + seconds

    def exchange(self, senders: Indices, receivers: Indices, sizes: Vector) -> None:
        """Advance the clocks by one exchange: every node waits for the messages that it is sent.

        senders[i] sends receivers[i] a message of sizes[i] bytes; messages of one sender queue at its bandwidth.
        """
        # messages of the round before may still be queueing at a node with many neighbours
        begin = np.maximum(self.times, self._sent)
        load = np.bincount(senders, sizes, minlength=len(begin))
        self._sent = np.where(load > 0, begin + load / self.network.bandwidth, self._sent)
        arrivals = self.times.copy()
        np.maximum.at(arrivals, receivers, self._sent[senders] + self.network.latency)
        self.times = arrivals

    def state(self) -> list[Vector]:
        """Return [time of each node, time at which its links are free again], two arrays (n,), in virtual seconds."""
        return [self.times, self._sent]

    def restore(self, state: list[Vector]) -> None:
        """Set the clocks to a list that `state` returned earlier."""
        self.times, self._sent = state

    @property
    def seconds(self) -> float:
        """Virtual seconds at which the slowest node is done: the largest of all clocks."""
        return float(self.times.max())
