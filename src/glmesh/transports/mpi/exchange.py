"""Rows between ranks: those that a neighbouring rank needs go out, and those that are needed here come in.

Own rows and those of others lie one below the other in one array, so rows are sent from where they are and arrive where
they are read. Who shares no link exchanges nothing, and nobody waits for anybody but its neighbours.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glmesh.collectives.messages import PartialSum
from glmesh.core.messages import Halo, Outbox
from glmesh.core.records import Traffic
from glmesh.network.faults import Plan
from glmesh.network.mixing import Mixing
from glmesh.types import Indices, Matrix, Vector

if TYPE_CHECKING:
    from glmesh.transports.mpi.ranks import Ranks

ROWS, SCALARS = 0, 1  # tags
_NOTHING = np.array([-np.inf]).tobytes()  # a scalar that is not sent


@dataclass(frozen=True, slots=True)
class Lane:
    """An array of own rows and those of others, and what moves them, prepared once."""

    rows: Matrix
    own: Matrix  # the first of them
    requests: list[Any]
    kinds: list[Any]  # of rows that are not next to each other


class MpiExchange:
    """The Transport of a rank; `hosts` are the ids of the nodes on each rank, contiguous and ascending."""

    clock, fails = None, False

    def __init__(self, ranks: Ranks, mixing: Mixing, hosts: list[Indices]) -> None:
        self._ranks, self.traffic = ranks, Traffic()
        own, matrix = hosts[ranks.rank], mixing.matrix
        self._first, self._size = int(own[0]), len(own)
        self._rank_of = rank_of = np.repeat(np.arange(len(hosts)), [len(ids) for ids in hosts])
        a, b = int(matrix.indptr[own[0]]), int(matrix.indptr[own[-1] + 1])
        around, pointers = matrix.indices[a:b].astype(np.int64), matrix.indptr[own[0] : own[-1] + 2] - a
        others = np.setdiff1d(around, own)  # ascending, so the nodes of one rank are next to each other
        place = np.full(mixing.n_nodes, -1)
        place[own], place[others] = np.arange(len(own)), len(own) + np.arange(len(others))
        self._graph = (
            pointers.astype(np.uint64),
            place[around].astype(np.uint64),
            matrix.data[a:b].copy(),
            around.astype(np.uint64),
        )
        self._own = np.arange(len(own), dtype=np.uint64)
        self._rows = len(own) + len(others)
        node = np.repeat(np.arange(len(own)), np.diff(pointers))
        self._degrees = np.bincount(node[around != own[node]], minlength=len(own))
        self._links = int(self._degrees.sum())
        self._comes: dict[int, slice] = {}  # from each neighbouring rank: where its rows go
        self._goes: dict[int, Indices] = {}  # and which of ours it needs
        for peer in np.unique(rank_of[others]).tolist():
            there = np.flatnonzero(rank_of[others] == peer) + len(own)
            self._comes[peer] = slice(int(there[0]), int(there[-1]) + 1)
            self._goes[peer] = np.unique(node[rank_of[around] == peer])  # links go both ways
        self._lanes: dict[int, Lane] = {}  # of arrays that the methods write their rows to, by identity
        self._copies: dict[tuple[int, int], list[Lane]] = {}  # of all others, by tag and length of rows
        self._prepared: dict[tuple[int, int], tuple[list[Any], Halo]] = {}  # by the identities of lanes

    @property
    def neighbours(self) -> list[int]:
        """The ranks that rows are exchanged with."""
        return list(self._comes)

    def allocate(self, block: int, width: int) -> Matrix:
        """The own rows of an array that has room for the others' below."""
        lane = self._lane(width, ROWS)
        self._lanes[id(lane.rows)] = lane
        return lane.own

    def begin_round(self, plan: Plan, round: int) -> None:
        """Do nothing: no exchange fails."""

    def swap(self, rows: list[Outbox]) -> list[Halo]:
        """One exchange; without vectors it may carry parcels.

        The others wait for all that is done here, so most of it is prepared, or done while rows are under way.
        """
        (mine,) = rows
        assert not mine.letters
        vectors = None if mine.vectors is None else self._board(mine.vectors, ROWS)
        scalars = None if mine.scalars is None else self._board(mine.scalars, SCALARS)
        key = id(vectors), id(scalars)
        requests, halo = self._prepared.get(key) or self._prepare(key, vectors, scalars)
        self._ranks.start(requests)
        if mine.vectors is None:
            halo = replace(halo, parcels=self._swap_parcels(mine.parcels))
        self._count(mine)
        self._ranks.wait(requests)
        return [halo]

    def _prepare(self, key: tuple[int, int], vectors: Lane | None, scalars: Lane | None) -> tuple[list[Any], Halo]:
        """(what is to be started, what it brings) of an exchange along these lanes."""
        requests = [request for lane in (vectors, scalars) if lane is not None for request in lane.requests]
        theirs = None if vectors is None else vectors.rows
        numbers = None if scalars is None else scalars.rows
        pointers, neighbours, weights, ids = self._graph
        self._prepared[key] = requests, Halo(pointers, neighbours, weights, ids, theirs, numbers, self._own)
        return self._prepared[key]

    def _board(self, own: Matrix, tag: int) -> Lane:
        """Where these rows go out from: where they are, or a copy, of which there are two in turn."""
        lane = self._lanes.get(id(own.base))
        if lane is None:
            key = tag, own.shape[1]
            if key not in self._copies:
                self._copies[key] = [self._lane(own.shape[1], tag) for _ in range(2)]
            self._copies[key].reverse()
            lane = self._copies[key][0]
            lane.own[:] = own
        return lane

    def _lane(self, width: int, tag: int) -> Lane:
        rows, ranks, kinds = np.zeros((self._rows, width)), self._ranks, list[Any]()
        requests = [ranks.receives(rows[there], peer, tag) for peer, there in self._comes.items()]
        for peer, needed in self._goes.items():
            if len(needed) == needed[-1] - needed[0] + 1:
                some: Any = rows[needed[0] : needed[-1] + 1]
            else:
                kind = ranks.kind(needed, width)
                kinds.append(kind)
                some = [rows, 1, kind]
            requests.append(ranks.sends(some, peer, tag))
        return Lane(rows, rows[: self._size], requests, kinds)

    def _swap_parcels(self, parcels: list[PartialSum]) -> list[PartialSum]:
        """All that arrive, those between nodes of this rank too, by senders as in a single process."""
        ends = [self._first, self._first + self._size]
        inside = [parcel for parcel in parcels if ends[0] <= parcel.receiver < ends[1]]
        by_rank: dict[int, list[PartialSum]] = {peer: [] for peer in self._comes}
        for parcel in parcels:
            if not ends[0] <= parcel.receiver < ends[1]:
                by_rank[int(self._rank_of[parcel.receiver])].append(parcel)
        arrived = self._ranks.swap_bytes({peer: pack(some) for peer, some in by_rank.items()})
        received = [(peer, unpack(data)) for peer, data in arrived.items()] + [(self._ranks.rank, inside)]
        return [parcel for _, some in sorted(received, key=lambda pair: pair[0]) for parcel in some]

    def _count(self, rows: Outbox) -> None:
        """As the simulator does: a row over each link of its node, whoever hosts the other end."""
        numbers = 0 if rows.vectors is None else self._links * rows.vectors.shape[1]
        if rows.scalars is not None:
            numbers += self._links * rows.scalars.shape[1]
            if _NOTHING in rows.scalars.tobytes():  # mostly not, and numpy would take longer to say so
                numbers -= int((rows.scalars == -np.inf).sum(axis=1) @ self._degrees)
        self.traffic.communications += 1
        self.traffic.bytes += 8 * numbers
        if rows.parcels:
            self.traffic.bytes += sum(parcel.size for parcel in rows.parcels)

    def close(self) -> None:
        """Gives back what was prepared."""
        for lane in [*self._lanes.values(), *itertools.chain(*self._copies.values())]:
            self._ranks.give_back([*lane.requests, *lane.kinds])
        self._lanes, self._copies, self._prepared = {}, {}, {}

    def state(self) -> dict[str, Any]:
        """What was sent so far."""
        return {"communications": self.traffic.communications, "bytes": self.traffic.bytes, "clock": None}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over another's."""
        self.traffic = Traffic(state["communications"], state["bytes"])


def pack(parcels: list[PartialSum]) -> Any:
    """Bytes: whole numbers that say what is what, then all vectors and numbers; what many are sent is sent once."""
    shapes: list[int] = []
    arrays: dict[int, tuple[int, Vector]] = {}  # by identity

    def place(array: Vector) -> int:
        return arrays.setdefault(id(array), (len(arrays), np.ascontiguousarray(array, dtype=np.float64)))[0]

    for parcel in parcels:
        shapes += [parcel.sender, parcel.receiver, parcel.round, len(parcel.vectors)]
        for node, vector in parcel.vectors.items():
            shapes += [node, place(vector), place(parcel.numbers[node])]
    content = [array for _, array in arrays.values()]
    head = np.array([len(parcels), len(content), *(len(array) for array in content), *shapes], dtype=np.int64)
    return np.concatenate([np.array([len(head)]).view(np.float64), head.view(np.float64), *content]).view(np.uint8)


def unpack(data: Any) -> list[PartialSum]:
    """And back."""
    length = int(data[:8].view(np.int64)[0])
    head, content = data[8 : 8 * (length + 1)].view(np.int64).tolist(), data[8 * (length + 1) :].view(np.float64)
    n_parcels, n_arrays = head[:2]
    arrays = np.split(content, np.cumsum(head[2 : 2 + n_arrays])) if n_arrays else []
    at, parcels = 2 + n_arrays, []
    for _ in range(n_parcels):
        sender, receiver, round, entries = head[at : at + 4]
        at += 4
        vectors, numbers = {}, {}
        for _ in range(entries):
            node, vector, number = head[at : at + 3]
            at += 3
            vectors[node], numbers[node] = arrays[vector], arrays[number]
        parcels.append(PartialSum(sender, receiver, round, vectors, numbers))
    return parcels
