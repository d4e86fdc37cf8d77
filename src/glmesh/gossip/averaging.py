"""Plain gossip: v_k <- sum_l W_kl v_l.

Mixing keeps the mean of v as long as both ends of a link receive each other's row, or neither does. With momentum a
node sends v_k + theta (v_k - before_k), whose mean is A(x + theta (x - x_before)), and P = I - damping (I - W) mixes.

Chebyshev gossip makes B exchanges that amount to the polynomial of degree B in W that is 1 at 1 and smallest on the
other eigenvalues. It keeps the mean too, but its entries may be negative: H may rise, unless f is quadratic.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from glmesh.core import NOTHING, Block, Contents, Outbox, PerNode, Riding, Rounds
from glmesh.gossip.base import Gossip
from glmesh.kernels.mix import extrapolate
from glmesh.types import Flags, Matrix, Vector

# least half width of the interval of eigenvalues, because a complete graph has a single one and T_B needs an interval
LEAST_HALF_WIDTH = 1e-3


def interval(spectrum: tuple[float, float]) -> tuple[float, float]:
    """Return (middle, half the width) of the interval of all eigenvalues but the largest."""
    low, high = spectrum
    return (high + low) / 2, max((high - low) / 2, LEAST_HALF_WIDTH)


def chebyshev_beta(spectrum: tuple[float, float], steps: int) -> float:
    """Return beta of Chebyshev gossip with B steps, 1 / T_B(x): the factor by which disagreement shrinks."""
    middle, half = interval(spectrum)
    return float(1.0 / np.cosh(steps * np.arccosh((1.0 - middle) / half)))


@dataclass
class MatrixGossip(Gossip):
    """Estimates of a block, mixed by the weights that the transport hands out."""

    sends: ClassVar[Contents] = Contents(vectors=True, scalars=True)
    reliable: ClassVar[bool] = True

    v: PerNode[Matrix]  # (n_hosted, d) estimates of Ax
    spare: PerNode[Matrix]  # other buffer of v: rows that were sent stay untouched for one exchange
    members_seen: PerNode[Vector]  # (n_hosted,) K
    before: PerNode[Matrix]  # (n_hosted, d) v of the round before; empty without momentum

    @classmethod
    def of(cls, block: Block, x: Vector, *, momentum: bool) -> Self:
        """Start with v_k = K A_k x_k, whose mean is Ax."""
        v, spare = block.allocate(), block.allocate()
        before = block.allocate() if momentum else np.zeros((0, 0))
        n_nodes = block.info.n_nodes
        for k in range(block.size):
            own = block.of_node(k)
            if x[own].any():
                v[k] = n_nodes * block.share(k, x)
        return cls(v, spare, np.full(block.size, float(n_nodes)), before)

    def extrapolate(self, block: Block, theta: Vector) -> None:
        """v_k <- v_k + theta_k (v_k - before_k)."""
        spans = block.spans
        parts = ([array[span] for span in spans] for array in (self.v, self.before, theta))
        list(block.threads.map(extrapolate, *parts))
        self.v, self.before = self.before, self.v

    def move(self, block: Block, k: int, change: Vector) -> None:
        """v_k <- v_k + K A_k change."""
        self.v[k] += self.members_seen[k] * block.node_columns(k).dot(change)

    def step(self, block: Block, up: Flags, riding: Riding = NOTHING) -> Rounds:
        """v_k <- sum_l P_kl v_l in one exchange; return its halo."""
        halo = yield Outbox(self.v, riding.scalars)
        scale = block.info.damping if self.before.size else 1.0
        self.v, self.spare = halo.mix(self.spare, scale, block.threads), self.v
        return halo

    @property
    def target(self) -> Matrix:
        """Array to which the local solver adds `unit` times A_k D_k: v."""
        return self.v

    @property
    def unit(self) -> Vector:
        """K, because v_k tracks K times the node's own share."""
        return self.members_seen

    def finish_sum(self, block: Block, x: Vector, v: Vector | None, *, broken: bool) -> None:
        """v_k <- v for all nodes, where v is known."""
        if v is not None:
            self.v[:] = v

    def view_digests(self) -> list[int]:
        """Return -1 per hosted node: all nodes are members."""
        return [-1] * len(self.v)

    def restored(self, saved: Self) -> Self:
        """Copy the saved estimates to the arrays that the transport shares."""
        self.v[:], self.spare[:], self.before[:] = saved.v, saved.spare, saved.before
        return self


@dataclass
class ChebyshevGossip(MatrixGossip):
    """Plain gossip whose exchanges of a round amount to the best polynomial in W."""

    def mix(self, block: Block, up: Flags, steps: int, riding: Riding = NOTHING) -> Rounds:
        """Mix in `steps` exchanges by the three-term recurrence of T_i(X)/T_i(x); return the halo of the first.

        X = (W - middle)/half, and x likewise of 1.
        """
        middle, half = interval(block.info.spectrum)
        x, ratio, older, first = (1.0 - middle) / half, 0.0, self.v.copy(), None
        for step in range(steps):
            halo = yield Outbox(self.v, None if step else riding.scalars)
            first = first if step else halo
            mixed = halo.mix(self.spare, threads=block.threads)
            mixed -= middle * self.v
            before, ratio = ratio, 1.0 / (2.0 * x - ratio if step else x)  # T_i(x) / T_(i+1)(x)
            mixed *= (2.0 if step else 1.0) * ratio / half
            mixed -= before * ratio * older
            older = self.v.copy()
            self.v, self.spare = mixed, self.v
        return first
