"""What a method is given to host its nodes, checked before any node exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glmesh.core.block import NetworkInfo
from glmesh.core.messages import Rounds
from glmesh.core.transport import Transport, drive
from glmesh.network import Clock, Mixing, Network, Plan
from glmesh.parallel import ProcessGroup, ThreadPool
from glmesh.problem import Problem
from glmesh.types import Indices


@dataclass(frozen=True)
class Setup:
    """A problem, a network and the ids of the nodes that this process hosts.

    A method's `prepare` takes its part of it, calls `connect` once, and returns its nodes ready for rounds.
    """

    problem: Problem
    mixing: Mixing  # W; of the union of all graphs where a fault plan changes them
    schedule: tuple[Mixing, ...]  # W of each exchange in turn; one entry where the graph stands still
    links: Sequence[tuple[int, int]]  # a < b of the graph as it was asked for
    diameter: int  # an upper bound
    node_ids: Sequence[Indices]  # ids of the nodes of each block of this process, ascending
    partition: str | ArrayLike  # how the caller wants columns (or samples) dealt out
    warm_start: object  # a Result, an array, or None for a cold start
    seed: int
    plan: Plan
    timing: Network | None  # of the virtual clock; None: time is the wall's
    certify: bool  # nodes prove how good the model is, by messages to neighbours
    tol: float | None  # relative gap aimed at, so that nodes whose part is done may skip work; None: nobody skips
    threads: ThreadPool
    processes: ProcessGroup
    transports: Callable[[Setup, bool], Transport]

    @property
    def n_nodes(self) -> int:
        """Return K, the number of nodes of the whole network."""
        return self.mixing.n_nodes

    def connect(self, *, flows: bool = False) -> Transport:
        """Return the transport between the nodes; flows: one that can lose single messages, for flow gossip."""
        return self.transports(self, flows)

    @cached_property
    def info(self) -> NetworkInfo:
        """The constants that every node is given before round 0."""
        speeds = None if self.timing is None else np.array(Clock(self.timing, self.n_nodes).speeds)
        return NetworkInfo.of(self.mixing, self.diameter, self.seed, schedule=self.schedule, speeds=speeds)

    def agree(self, transport: Transport, rounds: Sequence[Rounds]) -> list[Any]:
        """Make exchanges before the first round, one generator per block; return what each returns."""
        return drive(transport, rounds)
