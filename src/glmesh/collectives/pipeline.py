"""Pipelined sums of one number per node and round, which ride along with the exchanges that a method makes anyway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glmesh.core.block import Block
from glmesh.core.messages import Halo
from glmesh.core.state import PerNode
from glmesh.types import Flags, Indices, Matrix, Vector


@dataclass
class TreeAggregate:
    """H of a round, summed along the spanning tree; everybody knows it 2 depth rounds later, with the same bits."""

    own: PerNode[Matrix]  # a row per node: its part in the last depth + 1 rounds, the newest first
    below: PerNode[Vector]  # what its children reported, of one round
    totals: PerNode[Matrix]  # what came down in the last depth + 1 rounds, the newest first
    depths: PerNode[Indices]

    @staticmethod
    def of(block: Block) -> TreeAggregate:
        """Nothing heard yet."""
        parents, height = block.info.parents, block.info.depth
        depths = np.zeros(len(parents), dtype=np.int64)
        at = parents.copy()
        while (at >= 0).any():
            depths += at >= 0
            at = np.where(at >= 0, parents[at], -1)
        unknown = np.full((block.size, height + 1), np.nan)
        return TreeAggregate(unknown, np.zeros(block.size), unknown.copy(), depths[block.ids.astype(np.int64)])

    def outgoing(self, block: Block, parts: Vector) -> Matrix:
        """[sum of the subtree, total], of this node's turn."""
        self.own[:, 1:] = self.own[:, :-1]
        self.own[:, 0] = parts
        up = self.own[np.arange(block.size), block.info.depth - self.depths] + self.below
        root = self.depths == 0
        self.totals[root, 0] = up[root]
        return np.stack([up, self.totals[:, 0]], axis=1)

    def incoming(self, block: Block, halo: Halo) -> Vector:
        """H of 2 depth rounds ago, at every hosted node; NaN while it is not known."""
        assert halo.scalars is not None
        known = self.totals[np.arange(block.size), block.info.depth - self.depths].copy()
        self.totals[:, 1:] = self.totals[:, :-1]
        parents = block.info.parents
        for k in range(block.size):
            rows, _ = halo.around(k)
            ids, me = halo.ids_around(k), int(block.ids[k])
            self.below[k] = halo.scalars[rows[parents[ids] == me], 0].sum()
            if self.depths[k]:
                self.totals[k, 0] = halo.scalars[rows[ids == parents[me]][0], 1]
        return known


@dataclass(slots=True)
class ObjectiveDigest:
    """What a node has heard of everybody's part of H, and of when momentum began anew; passed on with every letter."""

    stamps: Indices  # the round that each node's part is of; -1: not heard of
    parts: Vector
    restart: int  # the round of the newest restart

    @property
    def size(self) -> int:
        """Bytes on the wire: a number, its round, and whose it is."""
        return 4 + 16 * int(np.count_nonzero(self.stamps >= 0))


@dataclass
class EpidemicAggregate:
    """H of a round from everybody's parts, as far as a node has heard of them; an older part does for who was away."""

    stamps: PerNode[Indices]  # a row per node: the round of the newest part of everybody that it has heard of
    parts: PerNode[Matrix]
    book: PerNode[Matrix]  # the parts of the last rounds, as a ring
    booked: PerNode[Indices]  # and of which round each is
    settled: PerNode[Matrix]  # the newest part of everybody that is not after the round in question
    restarts: PerNode[Indices]  # the newest restart that each node has heard of

    @staticmethod
    def of(block: Block) -> EpidemicAggregate:
        """Nothing heard yet."""
        shape = (block.size, block.info.n_nodes)
        ring = (block.size, 2 * block.info.depth + 1, block.info.n_nodes)
        unknown, never = np.full(shape, np.nan), np.full(shape, -1)
        return EpidemicAggregate(
            never, unknown, np.zeros(ring), np.full(ring, -1), unknown.copy(), np.full(block.size, -1)
        )

    def _note(self, k: int, newer: Any, stamps: Any, parts: Any) -> None:
        self.stamps[k, newer], self.parts[k, newer] = stamps, parts
        at = stamps % self.book.shape[1]
        self.book[k, at, newer], self.booked[k, at, newer] = parts, stamps

    def outgoing(self, block: Block, parts: Vector, round: int, up: Flags) -> list[ObjectiveDigest]:
        """What each node passes on."""
        for k in np.flatnonzero(up):
            self._note(int(k), int(block.ids[k]), round, parts[k])
        return [
            ObjectiveDigest(self.stamps[k].copy(), self.parts[k].copy(), int(self.restarts[k]))
            for k in range(block.size)
        ]

    def incoming(self, block: Block, halo: Halo) -> None:
        """Takes what is newer."""
        for letter in halo.letters:
            if letter.pulse is None:
                continue
            k = letter.receiver - int(block.ids[0])
            newer = np.flatnonzero(letter.pulse.stamps > self.stamps[k])
            self._note(k, newer, letter.pulse.stamps[newer], letter.pulse.parts[newer])
            self.restarts[k] = max(self.restarts[k], letter.pulse.restart)

    def at(self, k: int, round: int, members: Flags) -> tuple[float, bool]:
        """(H of a round, whether everybody's part is of that very round); to be asked round after round."""
        if round < 0:
            return np.nan, True
        turn = round % self.book.shape[1]
        known = self.booked[k, turn] == round
        self.settled[k, known] = self.book[k, turn, known]
        return float(self.settled[k, members].sum()), bool(known[members].all())
