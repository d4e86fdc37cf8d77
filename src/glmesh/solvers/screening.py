"""Nodes that skip their subproblem while it provably has nothing to gain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.core.block import Block
from glmesh.core.state import PerNode, Summed
from glmesh.types import Flags, Matrix, Vector


@dataclass
class Screening:
    """Nodes that skip their subproblem because it has nothing to gain, as long as their w stays where it is."""

    at: PerNode[Matrix]  # w when a node went to rest
    room: PerNode[Vector]  # how far it may move, squared; negative: the node does not rest
    skipped: Summed[int] = 0  # subproblems not solved
    spared: Summed[float] = 0.0  # nonzeros that they would have visited

    @staticmethod
    def of(block: Block) -> Screening:
        """Nobody rests."""
        return Screening(np.zeros((block.size, block.d)), np.full(block.size, -1.0))

    def begin(self, k: int, w: Vector, room: float) -> None:
        """From now on node k rests, if there is room."""
        self.room[k] = room
        if room > 0:
            self.at[k] = w

    def end(self, k: int) -> None:
        """Node k has work."""
        self.room[k] = -1.0

    def resting(self, w: Matrix) -> Flags:
        """Who may rest in this round; whose w moved too far wakes up."""
        for k in np.flatnonzero(self.room > 0):
            move = w[k] - self.at[k]
            if float(move @ move) > self.room[k]:
                self.end(int(k))
        return self.room > 0
