"""Collective operations of the processes that host the nodes of one run.

A simulation is a single process with all nodes (`SINGLE_PROCESS`); with MPI every rank hosts some of them
(`glmesh.transports.mpi.Ranks`). Measuring, saving and handing out the result need all nodes at once, and use these
operations between rounds. All processes call them in the same order and receive the same bits, those that a single
process would compute.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from glmesh.network import Mixing, Network, Plan
from glmesh.types import Indices, Vector

T = TypeVar("T")
D = TypeVar("D", bound=np.generic)


class ProcessGroup:
    """Collective operations of the processes that host the nodes of a run; here, of a single process with all nodes.

    `rank` is the number of this process and `size` that of all; `simulates` says that the network is within one
    process.
    """

    rank = 0  # number of this process
    size = 1  # number of processes
    simulates = True  # whether the network is simulated within this process

    def local_blocks(self, n_nodes: int, n_blocks: int) -> list[Indices]:
        """Return a list of at most `n_blocks` ascending arrays of ids: the nodes of each block that this process hosts.

        All processes together host the nodes 0, ..., n_nodes - 1; a block is a group of nodes that are computed
        together.
        """
        return [part for part in np.array_split(np.arange(n_nodes), n_blocks) if len(part)]

    def exchange(self, mixing: Mixing, local_blocks: list[Indices]) -> Any:
        """Return the transport that carries messages to the nodes of other processes.

        None if this process hosts all nodes. local_blocks[i] are the ids of the nodes of this process's block i;
        `mixing` tells which nodes are neighbours.
        """
        return None

    def refuse(self, *, network: Network | None, plan: Plan) -> None:
        """Raise InvalidInput if these processes do not support a virtual clock (`network`, or None) or fault plan.

        A single process, as here, supports both.
        """

    def hurry(self, seconds: float = math.inf) -> None:
        """Give up waiting for other processes `seconds` seconds from now.

        Does nothing here, where there is a single process.
        """

    def all_gather(self, parts: Sequence[T]) -> list[T]:
        """All-gather: return the list of the entries of all processes, in node order, at every process.

        `parts` are this process's entries: one per block of nodes that it hosts.
        """
        return list(parts)

    def all_gather_rows(self, parts: Sequence[npt.NDArray[D]]) -> npt.NDArray[D]:
        """All-gather of arrays: return, at every process, the rows of all blocks concatenated in node order.

        `parts` has an array for each block of nodes that this process hosts.
        """
        return np.concatenate(list(parts))

    def gather(self, parts: list[T]) -> list[T] | None:
        """Gather: return the list of the entries of all processes, in node order, at rank 0; None at other ranks.

        `parts` are this process's entries: one per block of nodes that it hosts.
        """
        return parts

    def scatter(self, parts: list[T] | None) -> list[T]:
        """Scatter: return the entries of `parts` that belong to this process, one per block of nodes that it hosts.

        `parts`, one entry per block in node order, is read at rank 0 only; other ranks give None.
        """
        assert parts is not None
        return parts

    def broadcast(self, value: T) -> T:
        """Broadcast: return, at all processes, the `value` that rank 0 gave."""
        return value

    def all_to_all(self, parts: list[T]) -> list[T]:
        """All-to-all: send parts[j] to rank j; return the list of what each rank sent to this one, in rank order."""
        return parts

    def any(self, flag: bool) -> bool:
        """All-reduce with logical or: return, at all processes, whether the flag of any process is true."""
        return flag

    def fold_in(self, carry: Vector) -> Vector:
        """Begin this rank's turn in a computation that passes a vector from rank to rank, in order: return that vector.

        Rank 0 returns `carry`, where the computation starts; every other rank waits for what the rank before it passed
        on.
        """
        return carry

    def fold_out(self, carry: Vector) -> Vector:
        """End this rank's turn in a computation that passes a vector from rank to rank: pass `carry` to the next.

        Return, at all ranks, the `carry` of the last rank.
        """
        return carry


SINGLE_PROCESS = ProcessGroup()
