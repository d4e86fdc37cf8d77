"""Rounds, one after the other: the nodes of this process, the transport between them, and the clock."""

import time
from collections.abc import Iterator
from typing import Any

from glmesh.core import Event, HostedNodes, drive
from glmesh.engine.membership import PlannedChanges
from glmesh.methods.cola.nodes import ColaNodes


def cola_nodes(nodes: HostedNodes[Any, Any], what: str) -> ColaNodes:
    """Return the nodes, which are CoLA's; raise InvalidInput, which names `what` was asked of them, if they are not."""
    if not isinstance(nodes, ColaNodes):
        nodes.refuse(what)
    return nodes


class Driver(Iterator[int]):
    """Makes a round at every `next`, and returns the number of rounds made.

    Parameters
    ----------
    nodes : HostedNodes
        What a method prepared.
    """

    def __init__(self, nodes: HostedNodes[Any, Any]) -> None:
        self.nodes = nodes
        self.events: list[Event] = []  # who joined and left, and whose data changed
        self.membership: PlannedChanges | None = None  # carries the fault plan out, where there is one
        if isinstance(nodes, ColaNodes) and nodes.transport.fails:
            self.membership = PlannedChanges(nodes, self.events)
        self.made = 0
        self.elapsed = 0.0  # [s] on the wall

    def __next__(self) -> int:
        nodes, began = self.nodes, time.perf_counter()
        if self.membership is not None:
            self.membership.begin_round(self.made)
        with nodes.guard():
            drive(nodes.transport, nodes.rounds(self.made))
        if (clock := nodes.transport.clock) is not None:
            clock.compute(nodes.visited)
            if self.membership is not None:
                clock.wait(nodes.plan.delays(self.made, nodes.setup.n_nodes) * nodes.up)
        self.made += 1
        nodes.finish_round(self.made - 1)
        self.elapsed += time.perf_counter() - began
        return self.made

    def resume(self, made: int, elapsed: float) -> None:
        """Go on after `made` rounds that took `elapsed` seconds on the wall."""
        self.made, self.elapsed = made, elapsed

    @property
    def seconds(self) -> float:
        """Time of the rounds so far: on the virtual clock if there is one, else on the wall."""
        clock = self.nodes.transport.clock
        return max(self.nodes.processes.all_gather([self.elapsed])) if clock is None else clock.seconds
