"""Plain gossip: v_k <- sum_l W_kl v_l.

It keeps the mean of v as long as both ends of a link see each other, or neither."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.block import Block, Rounds, Rows
from glmesh.types import Flags, Matrix, Vector


@dataclass
class MatrixGossip:
    """The estimates v_k of a block, mixed by the weights that the exchange hands out."""

    v: Matrix  # a row per node: its estimate of Ax
    spare: Matrix  # the other buffer of v: rows that were sent stay untouched for one exchange
    believed: Vector  # K, as each node believes

    @staticmethod
    def of(block: Block, x: Vector) -> MatrixGossip:
        """v_k = K A_k x_k, which is what keeps the mean of v_k at Ax."""
        v, spare = block.allocate(), block.allocate()
        n_nodes = block.facts.n_nodes
        for k in range(block.size):
            own = block.of_node(k)
            if x[own].any():
                v[k] = n_nodes * block.node_columns(k).dot(x[own])
        return MatrixGossip(v, spare, np.full(block.size, float(n_nodes)))

    def step(self, block: Block, up: Flags) -> Rounds:
        """One exchange."""
        halo = yield Rows(self.v)
        self.v, self.spare = halo.mix(self.spare), self.v

    @property
    def target(self) -> Matrix:
        """Where the local solver adds its change, `unit` times A_k D_k."""
        return self.v

    @property
    def unit(self) -> Vector:
        """K, because v_k tracks K times the node's own share."""
        return self.believed

    def settle(self, block: Block, x: Vector, round: int) -> None:
        """The change is where it belongs already."""
