"""Collectives of all ranks outside the rounds, and the waiting of all messages.

A rank that fails says so to all others, wherever those are waiting, and all end with the same message; so no error on
one rank makes the others wait for ever. (A rank that is killed says nothing; then MPI ends the program.)
"""

import os
import pickle
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self, TypeVar

import numpy as np
from mpi4py import MPI

from glmesh.errors import InvalidInput, RankFailed
from glmesh.network import Mixing
from glmesh.parallel import ProcessGroup
from glmesh.transports.mpi.transport import MpiTransport
from glmesh.types import AnyArray, Indices, Vector

T = TypeVar("T")

_CARRY, _MAIL, _END = 2, 3, 4  # tags; 0 and 1 are those of rows and scalars
_LONGEST = 2000  # [bytes] of a message about a failure
_BECAUSE = "-"  # message of a rank that ends because another has failed
_PATIENT = 500  # [looks] at what has arrived that only yield the processor, before pauses begin
_PAUSE = 5e-5  # [s] between later looks: short beside an exchange over a network, long enough for others to compute
_AROUND = 32  # [looks] between two looks at which ranks have failed


class Ranks(ProcessGroup):
    """All ranks of an MPI communicator; that of the whole program if none is given."""

    simulates = False

    def __init__(self, comm: Any = None) -> None:
        self._comm = (MPI.COMM_WORLD if comm is None else comm).Dup()
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        self._news = {peer: np.zeros(_LONGEST, np.uint8) for peer in range(self.size) if peer != self.rank}
        self._made: list[Any] = []  # to be freed: persistent requests and datatypes
        self._pending: list[Any] = []  # requests under way when a rank failed: kept alive
        self.failures: dict[int, str] = {}

    def __enter__(self) -> Self:
        self._heard = {peer: self._comm.Irecv(buffer, peer, _END) for peer, buffer in self._news.items()}
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Exchange a last message with every rank: empty, or what has failed here."""
        own = "" if error is None else _BECAUSE if isinstance(error, RankFailed) else _text(error)
        message = np.zeros(_LONGEST, np.uint8)
        content = np.frombuffer(own.encode()[: _LONGEST - 1], np.uint8)
        message[: len(content)] = content
        sent = [self._comm.Isend(message, peer, _END) for peer in self._news]
        requests = [*sent, *self._heard.values()]
        looks = 0
        while not MPI.Request.Testall(requests):
            looks = _pause(looks)
        said = {peer: _said(buffer) for peer, buffer in self._news.items()}
        self.failures = {peer: text for peer, text in (said | {self.rank: own}).items() if text not in ("", _BECAUSE)}
        if error is None and any(said.values()):
            raise self._failed()
        if not any(said.values()) and not own:
            self.give_back(list(self._made))
            self._comm.Free()

    def _failed(self) -> RankFailed:
        rank, text = min(self.failures.items(), default=(-1, "a rank has ended early"))
        return RankFailed(f"rank {rank} of {self.size}: {text}")

    # waiting

    def wait(self, requests: list[Any]) -> None:
        """Wait until all requests are done; raise RankFailed if another rank has failed."""
        looks = 0
        # a look at one is a fifth of a look at eight, and moves all of them on
        while requests and not (requests[0].Test() and MPI.Request.Testall(requests)):
            looks = _pause(looks)
            if looks % _AROUND == 0:
                self._look_around(requests)

    def _look_around(self, requests: list[Any]) -> None:
        for peer, request in self._heard.items():
            if not request.Test():
                continue
            text = _said(self._news[peer])
            if text not in ("", _BECAUSE):  # who ended well has sent all that is waited for here
                self.failures[peer] = text
                self._pending.append(requests)
                raise self._failed()

    def kind(self, needed: Indices, width: int) -> Any:
        """Return the MPI datatype of these rows of an array, which need not be next to each other."""
        self._made.append(MPI.DOUBLE.Create_indexed_block(width, (needed * width).tolist()).Commit())
        return self._made[-1]

    def sends(self, rows: Any, peer: int, tag: int) -> Any:
        """Return a persistent send request (MPI_Send_init) of these rows to rank `peer`."""
        self._made.append(self._comm.Send_init(rows, peer, tag))
        return self._made[-1]

    def receives(self, buffer: Any, peer: int, tag: int) -> Any:
        """Return a persistent receive request (MPI_Recv_init) from rank `peer`."""
        self._made.append(self._comm.Recv_init(buffer, peer, tag))
        return self._made[-1]

    def give_back(self, made: list[Any]) -> None:
        """Free requests and datatypes; not after a failure, when they may be under way still."""
        if not self.failures:
            self._made = [one for one in self._made if not any(one is gone for gone in made)]
            for one in made:
                one.Free()

    def start(self, requests: list[Any]) -> None:
        """Start persistent requests."""
        if requests:
            MPI.Prequest.Startall(requests)

    def exchange_bytes(self, outgoing: dict[int, Any]) -> dict[int, Any]:
        """Send bytes of any length to each of these ranks, and return what each of them sent here."""
        requests = [self._comm.Isend([data, MPI.BYTE], peer, _MAIL) for peer, data in outgoing.items()]
        arrived: dict[int, Any] = {}
        status = MPI.Status()
        looks = 0
        while len(arrived) < len(outgoing):
            for peer in outgoing.keys() - arrived.keys():
                message = self._comm.Improbe(peer, _MAIL, status)
                if message is not None:
                    arrived[peer] = np.empty(status.Get_count(MPI.BYTE), np.uint8)
                    requests.append(message.Irecv([arrived[peer], MPI.BYTE]))
            looks = _pause(looks)
            if looks % _AROUND == 0:
                self._look_around(requests)
        self.wait(requests)
        return arrived

    # ProcessGroup

    def refuse(self, *, network: Any, plan: Any) -> None:
        """What a cluster has not."""
        if network is not None:
            raise InvalidInput(
                "network= is a clock for simulations; with runtime='mpi' seconds are real. Leave it away"
            )
        if not plan.is_empty:
            raise InvalidInput("fault plans are for simulations; with runtime='mpi' leave faults= away")

    def local_blocks(self, n_nodes: int, n_blocks: int) -> list[Indices]:
        """Return the ids of this rank's nodes, an equal share of all, in one block."""
        if n_nodes < self.size:
            raise InvalidInput(
                f"{n_nodes} nodes on {self.size} ranks: give each rank one at least, or start fewer ranks"
            )
        return [np.array_split(np.arange(n_nodes), self.size)[self.rank]]

    def exchange(self, mixing: Mixing, local_blocks: list[Indices]) -> MpiTransport:
        """Return the transport between this rank and those that host neighbours."""
        return MpiTransport(self, mixing, np.array_split(np.arange(mixing.n_nodes), self.size))

    def _all(self, data: bytes) -> list[bytes]:
        sizes = np.zeros(self.size, np.int64)
        self.wait([self._comm.Iallgather(np.array([len(data)], np.int64), sizes)])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        whole = np.empty(int(starts[-1]), np.uint8)
        self.wait([self._comm.Iallgatherv([data, MPI.BYTE], [whole, sizes.tolist(), starts[:-1].tolist(), MPI.BYTE])])
        return [whole[a:b].tobytes() for a, b in pairwise(starts.tolist())]

    def all_gather_rows(self, parts: Sequence[AnyArray]) -> Any:
        """All-gather: the rows of all ranks, in node order."""
        own = np.ascontiguousarray(np.concatenate(list(parts)))
        sizes = np.zeros(self.size, np.int64)
        self.wait([self._comm.Iallgather(np.array([own.nbytes], np.int64), sizes)])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        whole = np.empty(int(starts[-1]), np.uint8)
        received = [whole, sizes.tolist(), starts[:-1].tolist(), MPI.BYTE]
        self.wait([self._comm.Iallgatherv([own.reshape(-1).view(np.uint8), MPI.BYTE], received)])
        return whole.view(own.dtype).reshape(-1, *own.shape[1:])

    def all_to_all(self, parts: list[T]) -> list[T]:
        """All-to-all: parts[j] goes to rank j; return what all ranks sent here, in their order."""
        own = {peer: np.frombuffer(pickle.dumps(parts[peer], protocol=5), np.uint8) for peer in self._news}
        arrived = {peer: pickle.loads(data) for peer, data in self.exchange_bytes(own).items()}
        return [arrived.get(peer, parts[self.rank]) for peer in range(self.size)]

    def all_gather(self, parts: Sequence[T]) -> list[T]:
        """All-gather: the entries of all ranks, in node order."""
        return [one for data in self._all(pickle.dumps(list(parts))) for one in pickle.loads(data)]

    def fold_in(self, carry: Vector) -> Vector:
        """Return `carry` at rank 0, elsewhere what the rank before passed on."""
        if self.rank > 0:
            self.wait([self._comm.Irecv(carry, self.rank - 1, _CARRY)])
        return carry

    def fold_out(self, carry: Vector) -> Vector:
        """Pass `carry` on to the next rank; return the last rank's, at all ranks."""
        if self.rank < self.size - 1:
            self.wait([self._comm.Isend(carry, self.rank + 1, _CARRY)])
        self.wait([self._comm.Ibcast(carry, self.size - 1)])
        return carry

    def broadcast(self, value: T) -> T:
        """Broadcast: the value of rank 0."""
        data = pickle.dumps(value) if self.rank == 0 else b""
        size = np.array([len(data)], np.int64)
        self.wait([self._comm.Ibcast(size, 0)])
        buffer = np.frombuffer(data, np.uint8).copy() if self.rank == 0 else np.empty(int(size[0]), np.uint8)
        self.wait([self._comm.Ibcast(buffer, 0)])
        result: T = value if self.rank == 0 else pickle.loads(buffer.tobytes())
        return result

    def any(self, flag: bool) -> bool:
        """Return whether the flag of any rank is set."""
        return any(self.all_gather([bool(flag)]))

    def gather(self, parts: list[T]) -> list[T] | None:
        """Gather: the entries of all ranks at rank 0, None at the others."""
        data = pickle.dumps(parts, protocol=5)
        sizes = np.zeros(self.size, np.int64)
        self.wait([self._comm.Iallgather(np.array([len(data)], np.int64), sizes)])
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
        """Scatter: one entry of rank 0's list to each rank; an empty list is empty for all."""
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


def _pause(looks: int) -> int:
    """Yield the processor after `looks` looks in vain, or pause; return looks + 1.

    MPI's own waiting never lets go of the processor, which others may need to send.
    """
    if looks >= _PATIENT:
        time.sleep(_PAUSE)
    else:
        os.sched_yield()
    return looks + 1


def _said(message: AnyArray) -> str:
    return bytes(message).rstrip(b"\0").decode(errors="replace")


def _text(error: BaseException) -> str:
    what = " ".join(str(error).split())
    return what if isinstance(error, InvalidInput) and what else f"{type(error).__name__}: {what}"
