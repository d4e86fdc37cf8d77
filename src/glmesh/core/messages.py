"""What the nodes of a block send and receive in one exchange."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from glmesh.kernels.mix import mix
from glmesh.parallel.threads import SERIAL, ThreadPool
from glmesh.types import Indices, Matrix, Unsigned, Vector

if TYPE_CHECKING:
    from glmesh.collectives.messages import PartialSum
    from glmesh.gossip.messages import LinkMessage


@dataclass
class Outbox:
    """What the nodes of a block send to their neighbours: a vector each, and a few scalars that ride along.

    `vectors` must not be written to until the next exchange has returned (double-buffer it). A scalar of minus
    infinity stands for nothing: it is not sent. `letters` and `parcels` are for single neighbours.
    """

    vectors: Matrix | None = None
    scalars: Matrix | None = None
    letters: list[LinkMessage] = field(default_factory=list)
    parcels: list[PartialSum] = field(default_factory=list)


@dataclass(frozen=True)
class Halo:
    """What the nodes of a block received.

    The neighbours of the block's k-th node (itself included, ascending ids) are pointers[k]..pointers[k+1] of
    `neighbours`: rows of `vectors` and `scalars`; `weights` are the entries of the mixing matrix, zero for a neighbour
    that is missing. `letters` and `parcels` are those that reached the block's nodes. Read vectors before the next
    exchange, scalars before the next but one.
    """

    pointers: Unsigned
    neighbours: Unsigned
    weights: Vector
    ids: Unsigned  # of the nodes behind `neighbours`
    vectors: Matrix | None
    scalars: Matrix | None
    own: Unsigned  # the rows of the block's own nodes
    letters: list[LinkMessage] = field(default_factory=list)
    parcels: list[PartialSum] = field(default_factory=list)

    def mix(self, out: Matrix, scale: float = 1.0, threads: ThreadPool = SERIAL) -> Matrix:
        """out_k = sum_l P_kl vectors_l with P = I - scale (I - W)."""
        vectors, weights = self.vectors, self.weights
        assert vectors is not None
        if scale != 1.0:
            counts = self.pointers[1:].astype(np.int64) - self.pointers[:-1].astype(np.int64)
            own = np.repeat(self.own, counts) == self.neighbours
            weights = scale * weights + np.where(own, 1.0 - scale, 0.0)

        def share(span: slice) -> None:
            mix(self.pointers[span.start : span.stop + 1], self.neighbours, weights, vectors, out[span])

        threads.each(share, threads.spans(np.diff(self.pointers.astype(np.int64))))
        return out

    def of_scalars(self, which: slice) -> Halo:
        """With these of the scalars only."""
        return self if self.scalars is None else replace(self, scalars=self.scalars[:, which])

    def around(self, k: int) -> tuple[Indices, Vector]:
        """(rows of the neighbours of the block's k-th node, itself included; their weights)."""
        a, b = int(self.pointers[k]), int(self.pointers[k + 1])
        return self.neighbours[a:b].astype(np.int64), self.weights[a:b]

    def ids_around(self, k: int) -> Indices:
        """The ids of the same."""
        return self.ids[int(self.pointers[k]) : int(self.pointers[k + 1])].astype(np.int64)


Rounds = Generator[Outbox, Halo, Any]
