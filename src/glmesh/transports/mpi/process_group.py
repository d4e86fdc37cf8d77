"""Collectives of all ranks outside the rounds."""

import pickle
from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from mpi4py import MPI

from glmesh.errors import InvalidInput
from glmesh.network import Mixing, Network, Plan
from glmesh.parallel import ProcessGroup
from glmesh.transports.mpi.communicator import Communicator
from glmesh.transports.mpi.transport import MpiTransport
from glmesh.types import Bytes, Indices, Vector

T = TypeVar("T")
D = TypeVar("D", bound=np.generic)

_CARRY = 2  # tag; 0 and 1 are those of rows and scalars


class Ranks(Communicator, ProcessGroup):
    """The process group of an MPI program, in which every rank hosts one block; by default all ranks of the program."""

    simulates = False

    def refuse(self, *, network: Network | None, plan: Plan) -> None:
        """Raise InvalidInput for a virtual clock or a fault plan, which are for simulations only."""
        if network is not None:
            raise InvalidInput(
                "network= is a clock for simulations; with runtime='mpi' seconds are real. Leave it away"
            )
        if not plan.is_empty:
            raise InvalidInput("fault plans are for simulations; with runtime='mpi' leave faults= away")

    def local_blocks(self, n_nodes: int, n_blocks: int) -> list[Indices]:
        """Return [ids of this rank's nodes]: one block with about n_nodes / ranks of them; `n_blocks` is ignored.

        Raise InvalidInput if there are fewer nodes than ranks.
        """
        if n_nodes < self.size:
            raise InvalidInput(
                f"{n_nodes} nodes on {self.size} ranks: give each rank one at least, or start fewer ranks"
            )
        return [np.array_split(np.arange(n_nodes), self.size)[self.rank]]

    def exchange(self, mixing: Mixing, local_blocks: list[Indices]) -> MpiTransport:
        """Return the transport between this rank's nodes and their neighbours on other ranks.

        local_blocks has the ids of this rank's nodes.
        """
        return MpiTransport(self, mixing, np.array_split(np.arange(mixing.n_nodes), self.size))

    def _sizes(self, own: int) -> Indices:
        """All-gather of one whole number: return the `own` of each rank, shape (n_ranks,)."""
        sizes = np.zeros(self.size, np.int64)
        self.wait([self._comm.Iallgather(np.array([own], np.int64), sizes)])
        return sizes

    def _all(self, own: Bytes) -> list[Bytes]:
        """All-gather of bytes: return a list with the `own` of each rank; they share the memory of one array."""
        sizes = self._sizes(len(own))
        ends = np.cumsum(sizes)
        whole = np.empty(int(ends[-1]), np.uint8)
        received = [whole, sizes.tolist(), (ends - sizes).tolist(), MPI.BYTE]
        self.wait([self._comm.Iallgatherv([own, MPI.BYTE], received)])
        return np.split(whole, ends[:-1])

    def all_gather_rows(self, parts: Sequence[npt.NDArray[D]]) -> npt.NDArray[D]:
        """All-gather of arrays: return the rows of all ranks' `parts`, one array concatenated in node order."""
        own = np.ascontiguousarray(np.concatenate(list(parts)))
        whole = np.concatenate(self._all(own.reshape(-1).view(np.uint8)))
        return whole.view(own.dtype).reshape(-1, *own.shape[1:])

    def all_to_all(self, parts: list[T]) -> list[T]:
        """All-to-all: send parts[j] to rank j; return a list with the entry that each rank sent here, by rank."""
        own = {peer: np.frombuffer(pickle.dumps(parts[peer], protocol=5), np.uint8) for peer in self._news}
        arrived = {peer: pickle.loads(data.data) for peer, data in self.exchange_bytes(own).items()}
        return [arrived.get(peer, parts[self.rank]) for peer in range(self.size)]

    def all_gather(self, parts: Sequence[T]) -> list[T]:
        """All-gather: return one list with the entries of all ranks' `parts`, in node order."""
        own = np.frombuffer(pickle.dumps(list(parts)), np.uint8)
        return [one for data in self._all(own) for one in pickle.loads(data.data)]

    def fold_in(self, carry: Vector) -> Vector:
        """Begin this rank's turn in a computation that passes a vector from rank to rank: return that vector.

        At rank 0 that is `carry`, where the computation starts; elsewhere what the rank before passed on, in the memory
        of `carry`.
        """
        if self.rank > 0:
            self.wait([self._comm.Irecv(carry, self.rank - 1, _CARRY)])
        return carry

    def fold_out(self, carry: Vector) -> Vector:
        """End this rank's turn in a computation that passes a vector from rank to rank: pass `carry` on to the next.

        Return, at all ranks, the `carry` of the last rank.
        """
        if self.rank < self.size - 1:
            self.wait([self._comm.Isend(carry, self.rank + 1, _CARRY)])
        self.wait([self._comm.Ibcast(carry, self.size - 1)])
        return carry

    def broadcast(self, value: T) -> T:
        """Broadcast: return the `value` of rank 0, at all ranks."""
        data = pickle.dumps(value) if self.rank == 0 else b""
        size = np.array([len(data)], np.int64)
        self.wait([self._comm.Ibcast(size, 0)])
        buffer = np.frombuffer(data, np.uint8).copy() if self.rank == 0 else np.empty(int(size[0]), np.uint8)
        self.wait([self._comm.Ibcast(buffer, 0)])
        result: T = value if self.rank == 0 else pickle.loads(buffer.tobytes())
        return result

    def any(self, flag: bool) -> bool:
        """All-reduce with logical or: return whether the flag of any rank is set."""
        return any(self.all_gather([bool(flag)]))

    def gather(self, parts: list[T]) -> list[T] | None:
        """Gather: return one list with the entries of all ranks' `parts`, in node order, at rank 0; None elsewhere."""
        data = pickle.dumps(parts, protocol=5)
        sizes = self._sizes(len(data))
        if self.rank > 0:
            self.wait([self._comm.Isend([data, MPI.BYTE], 0, _CARRY)])
            return None
        whole = list(parts)
        for peer in range(1, self.size):
            buffer = bytearray(int(sizes[peer]))
            self.wait([self._comm.Irecv([buffer, MPI.BYTE], peer, _CARRY)])
            whole += pickle.loads(buffer)
        return whole

    def scatter(self, parts: list[T] | None) -> list[T]:
        """Scatter: return [the entry of rank 0's `parts` for this rank], or [] if rank 0's `parts` are too few.

        `parts` is None at the other ranks.
        """
        mine: list[list[T]] = []
        if self.rank == 0:
            assert parts is not None
            mine = [parts[peer : peer + 1] for peer in range(self.size)]
        own = [pickle.dumps(one, protocol=5) for one in mine]
        sizes = self.broadcast([len(one) for one in own])
        if self.rank == 0:
            self.wait([self._comm.Isend([own[peer], MPI.BYTE], peer, _CARRY) for peer in range(1, self.size)])
            return mine[0]
        buffer = bytearray(sizes[self.rank])
        self.wait([self._comm.Irecv([buffer, MPI.BYTE], 0, _CARRY)])
        result: list[T] = pickle.loads(buffer)
        return result
