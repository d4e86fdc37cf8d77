"""Plain gossip: v_k <- sum_l W_kl v_l.

It keeps the mean of v as long as both ends of a link see each other, or neither. With momentum what is sent is
v_k + theta (v_k - before_k), whose mean is A(x + theta (x - x_before)), and P = I - damping (I - W) mixes it.

Chebyshev gossip does B exchanges that amount to the polynomial of degree B in W that is 1 at 1 and smallest on the
other eigenvalues. It keeps the mean too, but its entries may be negative: H may rise, unless f is quadratic.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.core.block import Block
from glmesh.core.messages import Outbox, Rounds
from glmesh.core.state import PerNode
from glmesh.kernels.mix import extrapolate
from glmesh.types import Flags, Matrix, Vector

_NARROWEST = 1e-3  # half the width of the interval of eigenvalues, at least


def interval(spectrum: tuple[float, float]) -> tuple[float, float]:
    """(middle, half the width) of the eigenvalues but the largest."""
    low, high = spectrum
    return (high + low) / 2, max((high - low) / 2, _NARROWEST)


def chebyshev_beta(spectrum: tuple[float, float], steps: int) -> float:
    """beta of Chebyshev gossip: 1 / T_B(x)."""
    middle, half = interval(spectrum)
    return float(1.0 / np.cosh(steps * np.arccosh((1.0 - middle) / half)))


@dataclass
class MatrixGossip:
    """The estimates v_k of a block, mixed by the weights that the exchange hands out."""

    v: PerNode[Matrix]  # a row per node: its estimate of Ax
    spare: PerNode[Matrix]  # the other buffer of v: rows that were sent stay untouched for one exchange
    members_seen: PerNode[Vector]  # K, as each node believes
    before: PerNode[Matrix]  # v of the round before; empty without momentum

    @staticmethod
    def of(block: Block, x: Vector, *, momentum: bool) -> MatrixGossip:
        """v_k = K A_k x_k, which is what keeps the mean of v_k at Ax."""
        v, spare = block.allocate(), block.allocate()
        before = block.allocate() if momentum else np.zeros((0, 0))
        n_nodes = block.info.n_nodes
        for k in range(block.size):
            own = block.of_node(k)
            if x[own].any():
                v[k] = n_nodes * block.share(k, x)
        return MatrixGossip(v, spare, np.full(block.size, float(n_nodes)), before)

    def extrapolate(self, block: Block, theta: Vector) -> None:
        """v_k <- v_k + theta_k (v_k - before_k)."""

        def share(span: slice) -> None:
            extrapolate(self.v[span], self.before[span], theta[span])

        block.threads.each(share, block.spans)
        self.v, self.before = self.before, self.v

    def take_over(self, other: MatrixGossip) -> None:
        """Copy the estimates of another into the arrays of this one."""
        self.v[:], self.spare[:], self.before[:] = other.v, other.spare, other.before

    def move(self, block: Block, k: int, change: Vector) -> None:
        """The variables of the k-th hosted node are changed from outside."""
        self.v[k] += self.members_seen[k] * block.node_columns(k).dot(change)

    def step(self, block: Block, up: Flags, scalars: Matrix | None = None) -> Rounds:
        """One exchange; `scalars` ride along, and the neighbours' come back."""
        halo = yield Outbox(self.v, scalars)
        scale = block.info.damping if self.before.size else 1.0
        self.v, self.spare = halo.mix(self.spare, scale, block.threads), self.v
        return halo

    def chebyshev(self, block: Block, steps: int, scalars: Matrix | None = None) -> Rounds:
        """So many exchanges, by the three-term recurrence of T_i(X)/T_i(x), X = (W - middle)/half, x likewise of 1."""
        middle, half = interval(block.info.spectrum)
        x, ratio, older, first = (1.0 - middle) / half, 0.0, self.v.copy(), None
        for step in range(steps):
            halo = yield Outbox(self.v, None if step else scalars)
            first = first if step else halo
            mixed = halo.mix(self.spare, threads=block.threads)
            mixed -= middle * self.v
            before, ratio = ratio, 1.0 / (2.0 * x - ratio if step else x)  # T_i(x) / T_(i+1)(x)
            mixed *= (2.0 if step else 1.0) * ratio / half
            mixed -= before * ratio * older
            older = self.v.copy()
            self.v, self.spare = mixed, self.v
        return first

    @property
    def target(self) -> Matrix:
        """Where the local solver adds its change, `unit` times A_k D_k."""
        return self.v

    @property
    def unit(self) -> Vector:
        """K, because v_k tracks K times the node's own share."""
        return self.members_seen

    def settle(self, block: Block, x: Vector, round: int) -> None:
        """The change is where it belongs already."""
