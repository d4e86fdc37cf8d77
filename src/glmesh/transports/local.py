"""All nodes in this process: the simulator's transport."""

from functools import cached_property
from typing import ClassVar

import numpy as np

from glmesh.collectives.routes import NUMBER, SHORT, Routes
from glmesh.core import Contents, Halo, Mail, Outbox, Traffic
from glmesh.network import Clock, Mixing, Network, Plan
from glmesh.types import Indices, Matrix, Tree, Unsigned, Vector


class LocalTransport:
    """The transport between blocks of nodes of one process, which share arrays: an exchange mostly copies no rows.

    `blocks` has the ids of the nodes of each block, contiguous and ascending, together 0, ..., K - 1.
    """

    carries: ClassVar[Contents] = Contents(vectors=True, scalars=True, totals=True, parts=None)
    fails = False

    def __init__(self, mixing: Mixing, blocks: list[Indices], network: Network | None = None) -> None:
        self.mixing = mixing
        self.routes = Routes(mixing)
        self.blocks = blocks
        self.traffic = Traffic()
        self.clock = Clock(network, mixing.n_nodes) if network is not None else None
        self._shared: list[Matrix] = []
        self._taken = [0] * len(blocks)
        self._home = [block for block, ids in enumerate(blocks) for _ in ids]  # (K,) block of every node
        matrix = mixing.matrix
        self._graphs: list[tuple[Unsigned, Unsigned, Vector, Unsigned]] = []
        for ids in blocks:
            first, last = int(ids[0]), int(ids[-1]) + 1
            a, b = int(matrix.indptr[first]), int(matrix.indptr[last])
            pointers = (matrix.indptr[first : last + 1] - a).astype(np.uint64)
            self._graphs.append(
                (pointers, matrix.indices[a:b].astype(np.uint64), matrix.data[a:b].copy(), ids.astype(np.uint64))
            )

    def allocate(self, block: int, width: int) -> Matrix:
        """Return a zeroed (n_hosted, width) array for the vectors of the nodes of block number `block`.

        The array shares memory with one (K, width) array of all blocks, provided they all ask in one order; then no
        exchange copies rows.
        """
        turn = self._taken[block]
        self._taken[block] += 1
        if turn == len(self._shared):
            self._shared.append(np.zeros((self.mixing.n_nodes, width)))
        ids = self.blocks[block]
        return self._shared[turn][int(ids[0]) : int(ids[-1]) + 1]

    def begin_round(self, plan: Plan, round: int) -> None:
        """Do nothing: no exchange of this transport fails.

        `plan` and `round` are not read.
        """

    def exchange(self, outboxes: list[Outbox]) -> list[Halo]:
        """Deliver all outboxes, one per block; return a Halo per block, which refers to the rows of all K nodes.

        A Halo is all that a block's nodes received in one exchange.
        """
        vectors = self._together([outbox.vectors for outbox in outboxes])
        scalars = self._together([outbox.scalars for outbox in outboxes])
        mail: list[list[Mail]] = [[] for _ in outboxes]
        sent = [one for outbox in outboxes for one in outbox.mail]
        for one in self._deliver(self.row_sizes(vectors, scalars), sent):
            mail[self._home[one.receiver]].append(one)
        weights = self.weights_now()
        return [
            Halo(pointers, neighbours, weights[b], neighbours, vectors, scalars, own, mail[b])
            for b, (pointers, neighbours, _, own) in enumerate(self._graphs)
        ]

    @property
    def n_nodes(self) -> int:
        """Number K of nodes of the network."""
        return self.mixing.n_nodes

    def add(self, contributions: list[Unsigned]) -> Unsigned:
        """Return the sums over all nodes modulo 2^64, uint64 of shape (N,), of N integers per node.

        `contributions` has an array per block, (n_hosted, N) or its nodes' sum, (1, N). Traffic is counted as if nodes
        sent messages to their neighbours.
        """
        self._count_total(NUMBER * contributions[0].shape[1])
        return np.asarray(sum(rows.sum(axis=0) for rows in contributions), dtype=np.uint64)

    def maximise(self, numbers: list[Indices]) -> Indices:
        """Return the maxima over all nodes, shape (n,), of n integers per node.

        `numbers` has an array (n_hosted, n) per block of nodes. Traffic is counted as if nodes sent messages to their
        neighbours.
        """
        self._count_total(SHORT * numbers[0].shape[1])
        return np.asarray(np.max([rows.max(axis=0) for rows in numbers], axis=0))

    def _count_total(self, length: int) -> None:
        """Count the exchanges and bytes of a total of `length` bytes per node, and advance the virtual clock.

        A total is a sum over all nodes.
        """
        legs = self.routes.legs(length)
        if self.clock is None:
            self.traffic.communications += len(legs)
            self.traffic.bytes += int(self.routes.bytes_of(length).sum())
            return
        senders, receivers = self.links  # a node waits for all its neighbours, also for those that send it nothing
        nothing = np.zeros(len(senders))
        for leg in legs:
            ends = np.concatenate([senders, leg.senders]), np.concatenate([receivers, leg.receivers])
            self._count(*ends, np.concatenate([nothing, leg.sizes(length)]), [])

    def state(self) -> dict[str, object]:
        """Return {"communications", "bytes", "clock"}, exchanges, bytes and times of the virtual clock so far."""
        clock = None if self.clock is None else self.clock.state()
        return {"communications": self.traffic.communications, "bytes": self.traffic.bytes, "clock": clock}

    def restore(self, state: Tree) -> None:
        """Replace the counters and the virtual clock's times by those that `state` of another transport returned."""
        self.traffic = Traffic(state["communications"], state["bytes"])
        if self.clock is not None:
            self.clock.restore(state["clock"])

    def row_sizes(self, vectors: Matrix | None, scalars: Matrix | None) -> Vector:
        """Return the bytes of the row (vector and scalars) that each node sends to each neighbour, shape (K,).

        K is the number of nodes. Scalars that are minus infinity are not sent, and count 0; None: nothing is sent.
        """
        sizes = np.zeros(self.mixing.n_nodes)
        if vectors is not None:
            sizes += 8 * vectors.shape[1]
        if scalars is not None:
            sizes += 8 * np.count_nonzero(~np.isneginf(scalars), axis=1)
        return sizes

    def weights_now(self) -> list[Vector]:
        """Return an array of mixing weights per block of nodes, in the order of the neighbours in its Halo.

        A Halo is all that a block's nodes received in one exchange.
        """
        return [weights for _, _, weights, _ in self._graphs]

    def _deliver(self, row_sizes: Vector, mail: list[Mail]) -> list[Mail]:
        """Count the rows and the mail that are sent in one exchange; return the mail that arrives, here all of it.

        `row_sizes` are the bytes of the row that each node sends to each neighbour, shape (K,). K is the number of
        nodes.
        """
        senders, receivers = self.links
        self._count(senders, receivers, row_sizes[senders], mail)
        return mail

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _count(self, senders: Indices, receivers: Indices, sizes: Vector, mail: list[Mail]) -> None:
        """Count one exchange of mail and of rows, and advance the virtual clock.

        `sizes` are the bytes of the rows from senders[i] to receivers[i], all of shape (n,).
        """
        if mail and self.clock is None:
            self.traffic.bytes += sum([one.nbytes for one in mail])
        elif mail:
            senders = np.concatenate([senders, [one.sender for one in mail]])
            receivers = np.concatenate([receivers, [one.receiver for one in mail]])
            sizes = np.concatenate([sizes, [float(one.nbytes) for one in mail]])
        self.traffic.communications += 1
        self.traffic.bytes += int(sizes.sum())
        if self.clock is not None:
            self.clock.exchange(senders, receivers, sizes)

    @cached_property
    def links(self) -> tuple[Indices, Indices]:
        """(senders, receivers) of all directed links: ids of nodes, each of shape (n_links,)."""
        matrix = self.mixing.matrix.tocoo()
        apart = matrix.row != matrix.col
        return matrix.col[apart].astype(np.int64), matrix.row[apart].astype(np.int64)

    def _together(self, parts: list[Matrix | None]) -> Matrix | None:
        """Return the rows of all blocks of nodes as one array, without copying where they lie in one.

        None if there are none. parts[i] are the rows of block i, None: it sends none.
        """
        present = [part for part in parts if part is not None]
        if not present:
            return None
        if len(present) == 1:
            return present[0]
        for shared in self._shared:
            if all(part.base is shared for part in present):
                return shared
        return np.concatenate(present)
