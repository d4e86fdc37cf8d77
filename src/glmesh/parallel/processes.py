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
    """Collective operations of the processes that host the nodes of a run; here, of a single process with all nodes."""

    rank = 0  # number of this process
    size = 1  # number of processes
    simulates = True  # whether the network is simulated within this process

    def local_blocks(self, n_nodes: int, n_blocks: int) -> list[Indices]:
        """Return the ids of the nodes of each block that this process hosts: at most `n_blocks` ascending arrays."""
        return [part for part in np.array_split(np.arange(n_nodes), n_blocks) if len(part)]

    def exchange(self, mixing: Mixing, local_blocks: list[Indices]) -> Any:
        """Return the transport to the nodes of other processes; None if this process hosts all nodes.

        local_blocks[i] are the ids of the nodes of this process's block i.
        """
        return None

    def refuse(self, *, network: Network | None, plan: Plan) -> None:
        """Raise InvalidInput for a virtual clock (`network`) or fault plan that these processes do not support.

        A single process supports all.
        """

    def hurry(self, seconds: float = math.inf) -> None:
        """Give up waiting for other processes `seconds` seconds from now.

        Does nothing here, where there is a single process.
        """

    def all_gather(self, parts: Sequence[T]) -> list[T]:
        """All-gather: return the list of the entries of all processes, in node order.

        `parts` are this process's entries.
        """
        return list(parts)

    def all_gather_rows(self, parts: Sequence[npt.NDArray[D]]) -> npt.NDArray[D]:
        """All-gather of arrays: return the rows of all blocks of all processes, concatenated in node order."""
        return np.concatenate(list(parts))

    def gather(self, parts: list[T]) -> list[T] | None:
        """Gather: return the list of the entries of all processes, in node order, at rank 0; None at other ranks."""
        return parts

    def scatter(self, parts: list[T] | None) -> list[T]:
        """Scatter: return the entries of `parts` that belong to this process, one per block.

        `parts` is read at rank 0 only.
        """
        assert parts is not None
        return parts

    def broadcast(self, value: T) -> T:
        """Broadcast: return the `value` of rank 0."""
        return value

    def all_to_all(self, parts: list[T]) -> list[T]:
        """All-to-all: send parts[j] to rank j; return what each rank sent here, in rank order."""
        return parts

    def any(self, flag: bool) -> bool:
        """All-reduce with logical or: return whether the flag of any process is set."""
        return flag

    def fold_in(self, carry: Vector) -> Vector:
        """Begin this rank's step of a fold over ranks: return `carry` at rank 0, else the vector passed on to here."""
        return carry

    def fold_out(self, carry: Vector) -> Vector:
        """End this rank's step of a fold over ranks: pass the vector `carry` on to the next rank.

        Return the `carry` of the last rank, at all ranks.
        """
        return carry


SINGLE_PROCESS = ProcessGroup()
