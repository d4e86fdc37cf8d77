"""Messages between ranks: requests, and the waiting for them.

A rank that fails says so to all others, wherever those are waiting, and all end with the same message; so no error on
one rank makes the others wait for ever. (A rank that is killed says nothing; then MPI ends the program.) No wait is
inside MPI, so that a signal is heard at any time.
"""

import math
import os
import time
from collections.abc import Sequence
from typing import Self

import numpy as np
from mpi4py import MPI

from glmesh.errors import InvalidInput, RankFailed
from glmesh.types import Bytes, Indices, Matrix, Unsigned

Made = MPI.Prequest | MPI.Datatype  # what MPI prepares, and is to free again

_MAIL, _END = 3, 4  # tags; 0 and 1 are those of rows and scalars, 2 that of collectives
_LONGEST = 2000  # [bytes] of a message about a failure
_BECAUSE = "-"  # message of a rank that ends because another has failed
_PATIENT = 500  # [looks] at what has arrived that only yield the processor, before pauses begin
_PAUSE = 5e-5  # [s] between later looks: short beside an exchange over a network, long enough for others to compute
_LAST = 0.5  # [s] that messages of a rank which has failed may still take
_AROUND = 32  # [looks] between two looks at which ranks have failed


class Communicator:
    """Messages between this rank and all others of an MPI communicator, to be used in a `with` statement.

    By default the communicator of all ranks of the program.
    """

    def __init__(self, comm: MPI.Intracomm | None = None) -> None:
        self._comm, made = (MPI.COMM_WORLD if comm is None else comm).Idup()
        looks = 0
        while not made.Test():
            looks = _pause(looks)
        self.rank, self.size = self._comm.Get_rank(), self._comm.Get_size()
        self._news = {peer: np.zeros(_LONGEST, np.uint8) for peer in range(self.size) if peer != self.rank}
        self._made: list[Made] = []  # to be freed: persistent requests and datatypes
        self._pending: list[Sequence[MPI.Request]] = []  # requests under way when a rank failed: kept alive
        self.failures: dict[int, str] = {}
        self.patience = math.inf  # [s] that a rank which has failed waits for the others to hear of it
        self.unheard = False  # whether others had not heard of a failure when patience ended
        self._deadline = math.inf  # [s] on the monotonic clock, at which `wait` is given up

    def __enter__(self) -> Self:
        self._heard = {peer: self._comm.Irecv(buffer, peer, _END) for peer, buffer in self._news.items()}
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Exchange a last message with every rank: empty, or the text of the error here.

        Raise RankFailed if another rank failed and this one did not.
        """
        own = "" if error is None else _BECAUSE if isinstance(error, RankFailed) else _text(error)
        message = np.zeros(_LONGEST, np.uint8)
        content = np.frombuffer(own.encode()[: _LONGEST - 1], np.uint8)
        message[: len(content)] = content
        sent = [self._comm.Isend(message, peer, _END) for peer in self._news]
        requests = [*sent, *self._heard.values()]
        looks, end = 0, math.inf if error is None else time.monotonic() + self.patience
        while not self.unheard and not MPI.Request.Testall(requests):
            looks = _pause(looks)
            self.unheard = time.monotonic() > end
        said = {peer: _said(buffer) for peer, buffer in self._news.items()}
        self.failures = {peer: text for peer, text in (said | {self.rank: own}).items() if text not in ("", _BECAUSE)}
        if error is None and any(said.values()):
            raise self._failed()
        if not any(said.values()) and not own:
            self.give_back(list(self._made))
            self._comm.Free()

    def _failed(self) -> RankFailed:
        """Return (not raise) the RankFailed that names the first rank that failed, and why."""
        rank, text = min(self.failures.items(), default=(-1, "a rank has ended early"))
        # what ranks found out together names the rank already
        return RankFailed(text if text.startswith("rank ") else f"rank {rank} of {self.size}: {text}")

    def hurry(self, seconds: float = math.inf) -> None:
        """Raise KeyboardInterrupt from any wait that has not ended in `seconds` seconds from now; inf: never."""
        self._deadline = time.monotonic() + seconds

    def abort(self, code: int) -> None:
        """End all ranks of the program with an exit code, whatever they are doing (MPI_Abort)."""
        self._comm.Abort(code)

    def wait(self, requests: Sequence[MPI.Request]) -> None:
        """Wait until all requests are done; raise RankFailed if another rank has failed."""
        looks = 0
        # a look at one is a fifth of a look at eight, and moves all of them on
        while requests and not (requests[0].Test() and MPI.Request.Testall(requests)):
            looks = _pause(looks)
            if looks % _AROUND == 0:
                try:
                    self._look_around(requests)
                except RankFailed:
                    if not _done_soon(requests):
                        raise

    def _look_around(self, requests: Sequence[MPI.Request]) -> None:
        """Raise RankFailed if another rank has failed, KeyboardInterrupt after the deadline that `hurry` set.

        `requests`, which are under way, are kept alive if an error is raised. Without one nothing happens.
        """
        if time.monotonic() > self._deadline:
            self._pending.append(requests)
            raise KeyboardInterrupt
        for peer, request in self._heard.items():
            if not request.Test():
                continue
            text = _said(self._news[peer])
            if text not in ("", _BECAUSE):  # who ended well has sent all that is waited for here
                self.failures[peer] = text
                self._pending.append(requests)
                raise self._failed()

    def kind(self, needed: Indices, width: int) -> MPI.Datatype:
        """Return an MPI datatype that picks the rows with the indices `needed` from an array with `width` columns."""
        kind = MPI.DOUBLE.Create_indexed_block(width, (needed * width).tolist()).Commit()
        self._made.append(kind)
        return kind

    def sends(self, rows: Matrix | list[object], peer: int, tag: int) -> MPI.Prequest:
        """Return a persistent send request (MPI_Send_init) of the rows to rank `peer`; it is not started.

        `rows` is an array, or a list [array, 1, MPI datatype of the rows in it]; `tag` is MPI's tag of the messages.
        """
        request = self._comm.Send_init(rows, peer, tag)
        self._made.append(request)
        return request

    def receives(self, buffer: Matrix, peer: int, tag: int) -> MPI.Prequest:
        """Return a persistent receive request (MPI_Recv_init) from rank `peer` into `buffer`; it is not started.

        `tag` is MPI's tag of the messages.
        """
        request = self._comm.Recv_init(buffer, peer, tag)
        self._made.append(request)
        return request

    def give_back(self, made: Sequence[Made]) -> None:
        """Free MPI requests and datatypes; after a failure do nothing, because they may be under way still.

        `made` are those to be freed.
        """
        if not self.failures:
            self._made = [one for one in self._made if not any(one is gone for gone in made)]
            for one in made:
                one.Free()

    def start(self, requests: list[MPI.Prequest]) -> None:
        """Start persistent requests (MPI_Startall)."""
        if requests:
            MPI.Prequest.Startall(requests)

    def all_sum(self, own: Unsigned) -> Unsigned:
        """All-reduce: return the sums modulo 2^64 over all ranks, uint64 of shape (N,), of each rank's `own`, (N,)."""
        total = np.empty_like(own)
        self.wait([self._comm.Iallreduce([own, MPI.UINT64_T], [total, MPI.UINT64_T], MPI.SUM)])
        return total

    def all_max(self, own: Indices) -> Indices:
        """All-reduce: return the maxima over all ranks, shape (n,), of each rank's n whole numbers `own`."""
        largest = np.empty_like(own)
        self.wait([self._comm.Iallreduce([own, MPI.INT64_T], [largest, MPI.INT64_T], MPI.MAX)])
        return largest

    def exchange_bytes(self, outgoing: dict[int, Bytes]) -> dict[int, Bytes]:
        """Send outgoing[r], bytes of any length, to each rank r in it; return {r: bytes that rank r sent here}."""
        requests = [self._comm.Isend([data, MPI.BYTE], peer, _MAIL) for peer, data in outgoing.items()]
        arrived: dict[int, Bytes] = {}
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


def _done_soon(requests: Sequence[MPI.Request]) -> bool:
    """Return whether all requests are done within _LAST seconds, after another rank has failed.

    Messages that the rank sent before it failed may still arrive, so ranks that all refuse the same thing after a
    collective each raise their own error.
    """
    end = time.monotonic() + _LAST
    while not (done := MPI.Request.Testall(requests)) and time.monotonic() < end:
        time.sleep(_PAUSE)
    return bool(done)


def _pause(looks: int) -> int:
    """Yield the processor, or sleep if requests were found not done `looks` times already; return looks + 1.

    MPI's own waiting never lets go of the processor, which others may need to send. A unit that sleeps is skipped by
    passes.
    """
    if looks >= _PATIENT:
        time.sleep(_PAUSE)
    else:
        os.sched_yield()
    return looks + 1


def _said(message: Bytes) -> str:
    """Return the text that another rank sent, without the zeros behind it."""
    return bytes(message).rstrip(b"\0").decode(errors="replace")


def _text(error: BaseException) -> str:
    """Return the text of an error as one line, with the name of its class unless it is an InvalidInput."""
    what = " ".join(str(error).split())
    return what if isinstance(error, InvalidInput) and what else f"{type(error).__name__}: {what}"
