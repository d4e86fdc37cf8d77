"""Rows between ranks: those that a neighbouring rank needs go out, and those that are needed here come in.

Own rows and those of others lie one below the other in one array, so rows are sent from where they are and arrive where
they are read. Ranks that share no link exchange nothing, and a rank waits only for its neighbours.
"""

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from mpi4py import MPI

from glmesh.collectives.messages import PartialSum
from glmesh.collectives.routes import NUMBER, SHORT, Routes
from glmesh.core import Contents, Halo, Layout, Mail, Outbox, Reader, Traffic
from glmesh.errors import InvalidInput
from glmesh.network import Mixing, Plan
from glmesh.transports.mpi.communicator import Communicator
from glmesh.types import Bytes, Indices, Matrix, Tree, Unsigned, Vector

ROWS, SCALARS = 0, 1  # tags
_NO_LAYOUT = Layout(0, 0)  # parts that MPI carries say their own lengths
_NOTHING = np.array([-np.inf]).tobytes()  # a scalar that is not sent


@dataclass(frozen=True, slots=True)
class Lane:
    """An array with the rows of this rank's nodes above those of other ranks, and the MPI requests that move them.

    `own`, shape (n_hosted, width), is the first part of `rows`; the requests, made once, receive and send rows; `kinds`
    are MPI datatypes of rows that are not next to each other.
    """

    rows: Matrix  # (own and others, width)
    own: Matrix  # (n_hosted, width) the first of `rows`
    requests: list[MPI.Prequest]  # persistent: to receive and to send rows
    kinds: list[MPI.Datatype]  # MPI datatypes of rows that are not next to each other


class MpiTransport:
    """The transport between this rank's nodes and those of other ranks.

    `hosts` has the ids of the nodes on each rank, contiguous and ascending.
    """

    carries: ClassVar[Contents] = Contents(
        vectors=True,
        scalars=True,
        totals=True,
        parts=frozenset({PartialSum}),
        transport="runtime='mpi'",
        remedy="Use gossip='auto' and no faults, or runtime='simulation'",
    )
    clock, fails = None, False

    def __init__(self, ranks: Communicator, mixing: Mixing, hosts: list[Indices]) -> None:
        self._ranks, self.traffic = ranks, Traffic()
        self.routes, self._nodes = Routes(mixing), hosts[ranks.rank]
        own, matrix = hosts[ranks.rank], mixing.matrix
        self._size = len(own)
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
        self._comes: dict[int, slice] = {}  # by neighbouring rank: where its rows go
        self._goes: dict[int, Indices] = {}  # by neighbouring rank: which of ours it needs
        for peer in np.unique(rank_of[others]).tolist():
            there = np.flatnonzero(rank_of[others] == peer) + len(own)
            self._comes[peer] = slice(int(there[0]), int(there[-1]) + 1)
            self._goes[peer] = np.unique(node[rank_of[around] == peer])  # links go both ways
        self._lanes: dict[int, Lane] = {}  # arrays that methods write their rows to, by identity
        self._copies: dict[tuple[int, int], list[Lane]] = {}  # two buffers for all other rows, by tag and width
        self._prepared: dict[tuple[int, int], tuple[list[MPI.Prequest], Halo]] = {}  # by the identities of lanes

    @property
    def neighbours(self) -> list[int]:
        """List of the ranks with which rows are exchanged, ascending."""
        return list(self._comes)

    def allocate(self, block: int, width: int) -> Matrix:
        """Return a zeroed (n_hosted, width) array for the vectors of this rank's nodes; `block` is not read.

        It shares memory with a larger array, in which the rows of other ranks arrive below.
        """
        lane = self._lane(width, ROWS)
        self._lanes[id(lane.rows)] = lane
        return lane.own

    def begin_round(self, plan: Plan, round: int) -> None:
        """Do nothing: no exchange of this transport fails.

        `plan` and `round` are not read.
        """

    def exchange(self, outboxes: list[Outbox]) -> list[Halo]:
        """Exchange rows and mail with neighbouring ranks; return [the Halo of this rank's block].

        `outboxes` has one Outbox. Other ranks wait for this one, so most is prepared, or done while rows are under way.
        A Halo is all that a block's nodes received in one exchange.
        """
        (mine,) = outboxes
        vectors = None if mine.vectors is None else self._lane_of(mine.vectors, ROWS)
        scalars = None if mine.scalars is None else self._lane_of(mine.scalars, SCALARS)
        key = id(vectors), id(scalars)
        requests, halo = self._prepared.get(key) or self._prepare(key, vectors, scalars)
        self._ranks.start(requests)
        if mine.vectors is None:
            halo = replace(halo, mail=self._exchange_mail(mine.mail))
        elif mine.mail:
            raise InvalidInput("MPI carries vectors or mail in one exchange, not both; send them in two")
        self._count(mine)
        self._ranks.wait(requests)
        return [halo]

    def _prepare(
        self, key: tuple[int, int], vectors: Lane | None, scalars: Lane | None
    ) -> tuple[list[MPI.Prequest], Halo]:
        """Return (MPI requests to start, the Halo that they fill) for exchanges of vectors and scalars.

        Kept under `key`. `vectors` and `scalars` are lanes, arrays with the MPI requests that move their rows; None if
        there are none to send. A Halo is all that a block's nodes received in one exchange.
        """
        requests = [request for lane in (vectors, scalars) if lane is not None for request in lane.requests]
        theirs = None if vectors is None else vectors.rows
        numbers = None if scalars is None else scalars.rows
        pointers, neighbours, weights, ids = self._graph
        self._prepared[key] = requests, Halo(pointers, neighbours, weights, ids, theirs, numbers, self._own)
        return self._prepared[key]

    def _lane_of(self, own: Matrix, tag: int) -> Lane:
        """Return the Lane, an array with its MPI requests, that the rows `own`, shape (n_hosted, width), lie in.

        Rows that lie in none are copied to one of two lanes, in turn; `tag` is MPI's tag of the messages.
        """
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
        """Return a new Lane of rows of `width` numbers: an array, and the persistent MPI requests that move its rows.

        `tag` is MPI's tag of the messages.
        """
        rows, ranks, kinds = np.zeros((self._rows, width)), self._ranks, list[MPI.Datatype]()
        requests = [ranks.receives(rows[there], peer, tag) for peer, there in self._comes.items()]
        for peer, needed in self._goes.items():
            if len(needed) == needed[-1] - needed[0] + 1:
                some: Matrix | list[object] = rows[needed[0] : needed[-1] + 1]
            else:
                kind = ranks.kind(needed, width)
                kinds.append(kind)
                some = [rows, 1, kind]
            requests.append(ranks.sends(some, peer, tag))
        return Lane(rows, rows[: self._size], requests, kinds)

    def _exchange_mail(self, mail: list[Mail]) -> list[Mail]:
        """Send mail to the ranks of the receivers; return all mail that arrives here, in the order of one process.

        Mail between nodes of this rank is included.
        """
        if mail:
            self.carries.check(Contents.of(Outbox(mail=mail)))
        by_rank: dict[int, list[Mail]] = {peer: [] for peer in [*self._comes, self._ranks.rank]}
        for one in mail:
            by_rank[int(self._rank_of[one.receiver])].append(one)
        inside = by_rank.pop(self._ranks.rank)
        arrived = self._ranks.exchange_bytes({peer: bundle(some) for peer, some in by_rank.items()})
        received = [(peer, unbundle(data)) for peer, data in arrived.items()] + [(self._ranks.rank, inside)]
        return [one for _, some in sorted(received, key=lambda pair: pair[0]) for one in some]

    def _count(self, outbox: Outbox) -> None:
        """Count the exchange and the bytes that this rank's nodes send over their links.

        A row counts once per neighbour of its node, even where this rank hosts the neighbour, as in the simulator.
        """
        numbers = 0 if outbox.vectors is None else self._links * outbox.vectors.shape[1]
        if outbox.scalars is not None:
            numbers += self._links * outbox.scalars.shape[1]
            if _NOTHING in outbox.scalars.tobytes():  # mostly not, and numpy would take longer to say so
                numbers -= int((outbox.scalars == -np.inf).sum(axis=1) @ self._degrees)
        self.traffic.communications += 1
        self.traffic.bytes += 8 * numbers + sum([one.nbytes for one in outbox.mail])

    @property
    def n_nodes(self) -> int:
        """Number K of nodes of all ranks."""
        return len(self._rank_of)

    def add(self, contributions: list[Unsigned]) -> Unsigned:
        """Return the sums over all nodes modulo 2^64, uint64 of shape (N,), by an all-reduce over ranks.

        `contributions` has one array, the (n_hosted, N) integers of this rank's nodes, or their sum, (1, N).
        """
        (rows,) = contributions
        self._count_total(NUMBER * rows.shape[1])
        return self._ranks.all_sum(np.asarray(rows.sum(axis=0)))

    def maximise(self, numbers: list[Indices]) -> Indices:
        """Return the maxima over all nodes, shape (n,), by an all-reduce over ranks.

        `numbers` has one array, the (n_hosted, n) integers of this rank's nodes.
        """
        (rows,) = numbers
        self._count_total(SHORT * rows.shape[1])
        return self._ranks.all_max(np.asarray(rows.max(axis=0)))

    def _count_total(self, length: int) -> None:
        """Count the exchanges and bytes of a total of `length` bytes per node, as in the simulator.

        Counted are the messages that this rank's nodes would send to their neighbours, though MPI sums by other
        messages.
        """
        self.traffic.communications += self.routes.exchanges(length)
        self.traffic.bytes += int(self.routes.bytes_of(length)[self._nodes].sum())

    def close(self) -> None:
        """Free the MPI requests and datatypes that were prepared."""
        for lane in [*self._lanes.values(), *itertools.chain(*self._copies.values())]:
            self._ranks.give_back([*lane.requests, *lane.kinds])
        self._lanes, self._copies, self._prepared = {}, {}, {}

    def state(self) -> dict[str, object]:
        """Return {"communications", "bytes", "clock": None}: exchanges and bytes sent so far by this rank."""
        return {"communications": self.traffic.communications, "bytes": self.traffic.bytes, "clock": None}

    def restore(self, state: Tree) -> None:
        """Replace the counts of exchanges and bytes by those that `state` of another transport returned."""
        self.traffic = Traffic(state["communications"], state["bytes"])


def bundle(mail: list[Mail]) -> Bytes:
    """Return messages, each with one PartialSum, as bytes: a table of whole numbers, then all arrays.

    The table has sender, receiver, fields and positions of the arrays of each message. An array that several messages
    refer to is sent once.
    """
    table: list[int] = []
    arrays: dict[tuple[int, int], tuple[int, Vector]] = {}  # place and content, by address and length
    for one in mail:
        (part,) = one.parts
        head, _, body = part.pack(_NO_LAYOUT)
        fields, content = np.frombuffer(head, np.int64), [np.frombuffer(buffer, np.float64) for buffer in body]
        places = [arrays.setdefault((a.ctypes.data, len(a)), (len(arrays), a))[0] for a in content]
        table += [one.sender, one.receiver, len(fields), *fields.tolist(), len(places), *places]
    content = [array for _, array in arrays.values()]
    whole = np.array([len(mail), len(content), *(len(array) for array in content), *table], dtype=np.int64)
    return np.concatenate([np.array([len(whole)]).view(np.float64), whole.view(np.float64), *content]).view(np.uint8)


class _Arrays(Reader):
    """A reader that hands out the arrays of a message that `bundle` made, one after the other."""

    def __init__(self, arrays: list[Vector]) -> None:
        super().__init__(b"")
        self._arrays = iter(arrays)

    def array(self, kind: str, n: int) -> Vector:
        """Return the next array of the message; `kind` and `n`, its type and length, are ignored."""
        return next(self._arrays)


def unbundle(data: Bytes) -> list[Mail]:
    """Return the list of messages, each with one PartialSum, that `bundle` made these bytes of."""
    length = int(data[:8].view(np.int64)[0])
    whole, content = data[8 : 8 * (length + 1)].view(np.int64).tolist(), data[8 * (length + 1) :].view(np.float64)
    n_mail, n_arrays, *table = whole
    arrays = np.split(content, np.cumsum(table[:n_arrays])) if n_arrays else []
    numbers, mail = iter(table[n_arrays:]), []
    for _ in range(n_mail):
        sender, receiver = next(numbers), next(numbers)
        head = np.array(list(itertools.islice(numbers, next(numbers))), "<i8").tobytes()
        places = itertools.islice(numbers, next(numbers))
        body = _Arrays([arrays[place] for place in places])
        mail.append(Mail(sender, receiver, [PartialSum.unpack(head, 0, body, _NO_LAYOUT)]))
    return mail
