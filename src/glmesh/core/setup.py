"""What a method is given to host its nodes, checked before any node exists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glmesh.core.block import NetworkInfo
from glmesh.core.messages import AnyRounds
from glmesh.core.transport import Transport, drive
from glmesh.network import Clock, Mixing, Network, Plan
from glmesh.parallel import ProcessGroup, ThreadPool
from glmesh.problem import Problem
from glmesh.types import Indices


@dataclass(frozen=True)
class Setup:
    """Input of a method's `prepare`: a problem, a network, options of the run, and the ids of the nodes hosted here.

    `prepare` takes what it needs, calls `connect` once, and returns its nodes ready for rounds.
    """

    problem: Problem
    mixing: Mixing  # W; of the union of all graphs where a fault plan changes them
    schedule: tuple[Mixing, ...]  # W of each exchange in turn; one entry where the graph stands still
    links: Sequence[tuple[int, int]]  # links (a < b) of the graph that the caller gave
    diameter: int  # [links] of the graph, or an upper bound
    node_ids: Sequence[Indices]  # ids of the nodes of each block of this process, ascending
    partition: str | ArrayLike  # how the caller wants columns (or samples) dealt out
    warm_start: object  # a Result, an array, or None for a cold start
    seed: int  # of all randomness of the run
    plan: Plan  # what fails, and when
    timing: Network | None  # model of the network for a virtual clock; None: seconds are measured
    certify: bool  # nodes prove how good the model is, by messages to neighbours
    tol: float | None  # relative gap aimed at, so that nodes whose part is done may skip work; None: nobody skips
    threads: ThreadPool  # that share the work of this process's nodes
    processes: ProcessGroup  # all processes that host nodes of the run
    transports: Callable[[Setup, bool], Transport]  # makes the transport; the flag says: for flow gossip

    @property
    def n_nodes(self) -> int:
        """Number K of nodes of the whole network."""
        return self.mixing.n_nodes

    def connect(self, *, flows: bool = False) -> Transport:
        """Return a new transport between the nodes; flows=True: one that may lose single messages, for flow gossip."""
        return self.transports(self, flows)

    @cached_property
    def info(self) -> NetworkInfo:
        """NetworkInfo: constants of the network (size, spanning tree, mixing matrix, seed) that every node is given."""
        speeds = None if self.timing is None else np.array(Clock(self.timing, self.n_nodes).speeds)
        return NetworkInfo.of(self.mixing, self.diameter, self.seed, schedule=self.schedule, speeds=speeds)

    def agree(self, transport: Transport, rounds: Sequence[AnyRounds]) -> list[Any]:
        """Run one generator per block of nodes to its end over the transport, before round 0.

        The generators yield requests and are sent answers as those of rounds are. Return a list of what each returned.
        """
        return drive(transport, rounds)
