"""Plain gossip: v_k <- sum_l W_kl v_l.

It keeps the mean of v as long as both ends of a link see each other, or neither. With momentum what is sent is
v_k + theta (v_k - before_k), whose mean is A(x + theta (x - x_before)), and P = I - damping (I - W) mixes it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.block import Block, Rounds, Rows
from glmesh.kernels.mix import extrapolate
from glmesh.types import Flags, Matrix, Vector


@dataclass
class MatrixGossip:
    """The estimates v_k of a block, mixed by the weights that the exchange hands out."""

    v: Matrix  # a row per node: its estimate of Ax
    spare: Matrix  # the other buffer of v: rows that were sent stay untouched for one exchange
    believed: Vector  # K, as each node believes
    before: Matrix  # v of the round before; empty without momentum

    @staticmethod
    def of(block: Block, x: Vector, *, momentum: bool) -> MatrixGossip:
        """v_k = K A_k x_k, which is what keeps the mean of v_k at Ax."""
        v, spare = block.allocate(), block.allocate()
        before = block.allocate() if momentum else np.zeros((0, 0))
        n_nodes = block.facts.n_nodes
        for k in range(block.size):
            own = block.of_node(k)
            if x[own].any():
                v[k] = n_nodes * block.node_columns(k).dot(x[own])
        return MatrixGossip(v, spare, np.full(block.size, float(n_nodes)), before)

    def extrapolate(self, theta: Vector) -> None:
        """v_k <- v_k + theta_k (v_k - before_k)."""
        extrapolate(self.v, self.before, theta)
        self.v, self.before = self.before, self.v

    def move(self, block: Block, k: int, change: Vector) -> None:
        """The variables of the k-th hosted node are changed from outside."""
        self.v[k] += self.believed[k] * block.node_columns(k).dot(change)

    def step(self, block: Block, up: Flags, scalars: Matrix | None = None) -> Rounds:
        """One exchange; `scalars` ride along, and the neighbours' come back."""
        halo = yield Rows(self.v, scalars)
        self.v, self.spare = halo.mix(self.spare, block.facts.damping if self.before.size else 1.0), self.v
        return halo

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
