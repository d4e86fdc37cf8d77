"""All nodes in this process: the simulator's exchange."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from glmesh.collectives.messages import PartialSum
from glmesh.core.messages import Halo, Outbox
from glmesh.core.records import Traffic
from glmesh.gossip.messages import LinkMessage
from glmesh.network.faults import Plan
from glmesh.network.mixing import Mixing
from glmesh.network.timing import Clock, Network
from glmesh.types import Indices, Matrix, Unsigned, Vector

Mail = LinkMessage | PartialSum


class LocalExchange:
    """Rows stay where they are: blocks share arrays, and a halo refers to all of them.

    `blocks` are the ids of the nodes of each block, contiguous and ascending, together 0..K-1.
    """

    fails = False

    def __init__(self, mixing: Mixing, blocks: list[Indices], network: Network | None = None) -> None:
        self.mixing = mixing
        self.blocks = blocks
        self.traffic = Traffic()
        self.clock = Clock(network, mixing.n_nodes) if network is not None else None
        self._shared: list[Matrix] = []
        self._taken = [0] * len(blocks)
        self._home = [block for block, ids in enumerate(blocks) for _ in ids]  # of every node
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
        """A zeroed array for a block's rows: a view of one that all blocks share, if all ask in the same order."""
        turn = self._taken[block]
        self._taken[block] += 1
        if turn == len(self._shared):
            self._shared.append(np.zeros((self.mixing.n_nodes, width)))
        ids = self.blocks[block]
        return self._shared[turn][int(ids[0]) : int(ids[-1]) + 1]

    def begin_round(self, plan: Plan, round: int) -> None:
        """Do nothing: no exchange fails."""

    def swap(self, rows: list[Outbox]) -> list[Halo]:
        """Everybody sees everybody's rows; the kernels read only the neighbours'."""
        vectors = self._together([r.vectors for r in rows])
        scalars = self._together([r.scalars for r in rows])
        mail: list[Mail] = [letter for r in rows for letter in r.letters]
        mail += [parcel for r in rows for parcel in r.parcels]
        letters: list[list[LinkMessage]] = [[] for _ in rows]
        parcels: list[list[PartialSum]] = [[] for _ in rows]
        for one in self._deliver(self.row_sizes(vectors, scalars), mail):
            block = self._home[one.receiver]
            if isinstance(one, LinkMessage):
                letters[block].append(one)
            else:
                parcels[block].append(one)
        weights = self.weights_now()
        return [
            Halo(pointers, neighbours, weights[b], neighbours, vectors, scalars, own, letters[b], parcels[b])
            for b, (pointers, neighbours, _, own) in enumerate(self._graphs)
        ]

    def state(self) -> dict[str, Any]:
        """All that changes from exchange to exchange, as plain data."""
        clock = None if self.clock is None else self.clock.state()
        return {"communications": self.traffic.communications, "bytes": self.traffic.bytes, "clock": clock}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over another's."""
        self.traffic = Traffic(state["communications"], state["bytes"])
        if self.clock is not None:
            self.clock.restore(state["clock"])

    def row_sizes(self, vectors: Matrix | None, scalars: Matrix | None) -> Vector:
        """Bytes of each node's row."""
        sizes = np.zeros(self.mixing.n_nodes)
        if vectors is not None:
            sizes += 8 * vectors.shape[1]
        if scalars is not None:
            sizes += 8 * np.count_nonzero(~np.isneginf(scalars), axis=1)
        return sizes

    def weights_now(self) -> list[Vector]:
        """The mixing weights of this exchange, for each block."""
        return [weights for _, _, weights, _ in self._graphs]

    def _deliver(self, row_sizes: Vector, letters: list[Mail]) -> list[Mail]:
        """Counts what is sent; the letters that arrive."""
        senders, receivers = self.links
        self._count(senders, receivers, row_sizes[senders], letters)
        return letters

    def close(self) -> None:
        """Nothing to give back."""

    def _count(self, senders: Indices, receivers: Indices, sizes: Vector, letters: list[Mail]) -> None:
        """Rows of these sizes along these links, and letters, cross the network."""
        if letters and self.clock is None:
            self.traffic.bytes += sum(letter.size for letter in letters)
        elif letters:
            senders = np.concatenate([senders, [letter.sender for letter in letters]])
            receivers = np.concatenate([receivers, [letter.receiver for letter in letters]])
            sizes = np.concatenate([sizes, [float(letter.size) for letter in letters]])
        self.traffic.communications += 1
        self.traffic.bytes += int(sizes.sum())
        if self.clock is not None:
            self.clock.exchange(senders, receivers, sizes)

    @cached_property
    def links(self) -> tuple[Indices, Indices]:
        """(senders, receivers) of all directed links."""
        matrix = self.mixing.matrix.tocoo()
        apart = matrix.row != matrix.col
        return matrix.col[apart].astype(np.int64), matrix.row[apart].astype(np.int64)

    def _together(self, parts: list[Matrix | None]) -> Matrix | None:
        present = [part for part in parts if part is not None]
        if not present:
            return None
        if len(present) == 1:
            return present[0]
        for shared in self._shared:
            if all(part.base is shared for part in present):
                return shared
        return np.concatenate(present)
