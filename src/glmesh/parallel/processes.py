"""The processes that host a run's nodes, and what they do together outside the rounds.

A simulation is one process with all nodes. On a cluster every rank hosts some of them (`glmesh.cluster`), and whoever
wants to see all nodes at once - to measure, to save, to hand out the result - asks here. What is asked of `Together` is
asked by every process, in the same order, and all are given the same bits: those that one process alone would have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from glmesh.types import AnyArray, Indices, Vector

T = TypeVar("T")


class ProcessGroup:
    """One process, with all nodes."""

    rank = 0
    size = 1
    simulates = True  # the network is simulated within this process

    def local_blocks(self, n_nodes: int, n_blocks: int) -> list[Indices]:
        """The ids of the nodes of each block of this process, ascending."""
        return [part for part in np.array_split(np.arange(n_nodes), n_blocks) if len(part)]

    def concatenate(self, parts: Sequence[AnyArray]) -> Any:
        """Arrays of this process's blocks, and then of all processes, one below the other in the order of nodes."""
        return np.concatenate(list(parts))

    def each(self, parts: Sequence[T]) -> list[T]:
        """The same with anything else, one entry per block of any process."""
        return list(parts)

    def fold(self, carry: Vector, step: Callable[[Vector], Vector]) -> Vector:
        """What is carried from process to process, in the order of nodes, and changed by each."""
        return step(carry)

    def first(self, value: T) -> T:
        """What the first process says."""
        return value

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        return flag

    def collect(self, parts: list[T]) -> list[T] | None:
        """At the first process: the entries of all blocks; None at the others."""
        return parts

    def deal(self, parts: list[T] | None) -> list[T]:
        """The entries of this process's blocks, from those of all at the first process."""
        assert parts is not None
        return parts

    def exchange(self, mixing: Any, local_blocks: list[Indices]) -> Any:
        """The transport between these nodes and those of other processes; None: there are no others."""
        return None

    def refuse(self, *, network: Any, plan: Any) -> None:
        """Raises InvalidInput for what is asked for and cannot be had with several processes."""

    def trade(self, parts: list[T]) -> list[T]:
        """parts[j] goes to process j; what all sent here, in their order."""
        return parts


SINGLE_PROCESS = ProcessGroup()
