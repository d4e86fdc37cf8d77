"""Rounds, one after the other: the nodes of this process, the transport between them, and the clock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from glmesh.collectives.together import together
from glmesh.core import AnyNodes, Event, drive
from glmesh.engine.membership import PlannedChanges
from glmesh.methods.cola.nodes import ColaNodes, as_cola


def cola_nodes(nodes: AnyNodes, what: str) -> ColaNodes:
    """Return `nodes` if they are ColaNodes; else raise InvalidInput, which says that `what` is for Cola only."""
    found = as_cola(nodes)
    if found is None:
        nodes.refuse(what)
    return found


class Driver(Iterator[int]):
    """An iterator that makes one round of all nodes at every `next`, and returns the number of rounds made so far.

    Parameters
    ----------
    nodes : HostedNodes
        Blocks, states and transport, as `Method.prepare` returned them.
    """

    def __init__(self, nodes: AnyNodes) -> None:
        self.nodes = nodes
        self.events: list[Event] = []  # who joined and left, and whose data changed
        self.membership: PlannedChanges | None = None  # carries the fault plan out; None without one
        if nodes.transport.fails and (cola := as_cola(nodes)) is not None:
            self.membership = PlannedChanges(cola, self.events)
        self.made = 0  # rounds so far
        self.elapsed = 0.0  # [s] wall time of all rounds so far

    def __next__(self) -> int:
        nodes, began = self.nodes, time.perf_counter()
        if self.membership is not None:
            self.membership.begin_round(self.made)
        elif nodes.transport.fails:
            nodes.begin_round(self.made, self.events)
        with nodes.guard():
            drive(nodes.transport, nodes.rounds(self.made))
        if (clock := nodes.transport.clock) is not None:
            clock.compute(nodes.visited)
            if nodes.transport.fails:
                clock.wait(nodes.plan.delays(self.made, nodes.setup.n_nodes) * nodes.up)
        self.made += 1
        nodes.finish_round(self.made - 1)
        self.elapsed += time.perf_counter() - began
        return self.made

    def next_of_all(self, others: Sequence[Driver]) -> None:
        """Make one round of this run and one of each run in `others`, all on the same transport at the same time.

        In every exchange a node sends what all these runs have to say in one message, so all together take as many
        exchanges as the longest of them.
        """
        drivers, transport, began = [self, *others], self.nodes.transport, time.perf_counter()
        rounds = [driver.nodes.rounds(driver.made) for driver in drivers]
        drive(transport, [together(of_block) for of_block in zip(*rounds, strict=True)] if others else rounds[0])
        if transport.clock is not None:
            transport.clock.compute(np.sum([driver.nodes.visited for driver in drivers], axis=0))
        seconds = time.perf_counter() - began
        for driver in drivers:
            driver.nodes.finish_round(driver.made)
            driver.made, driver.elapsed = driver.made + 1, driver.elapsed + seconds

    def resume(self, made: int, elapsed: float) -> None:
        """Set the counters of a restored run: `made` rounds so far, and the seconds of wall time that they took."""
        self.made, self.elapsed = made, elapsed

    @property
    def seconds(self) -> float:
        """Return the seconds that all rounds so far took: on the virtual clock if the run has one, else wall time."""
        clock = self.nodes.transport.clock
        return max(self.nodes.processes.all_gather([self.elapsed])) if clock is None else clock.seconds
