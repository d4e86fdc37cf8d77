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
    """Return (middle, half the width) of the interval of all eigenvalues of a mixing matrix but the largest, 1.

    `spectrum` is (smallest, second largest eigenvalue); the half width is at least LEAST_HALF_WIDTH.
    """
    low, high = spectrum
    return (high + low) / 2, max((high - low) / 2, LEAST_HALF_WIDTH)


def chebyshev_beta(spectrum: tuple[float, float], steps: int) -> float:
    """Return beta, the factor by which `steps` exchanges of Chebyshev gossip shrink the disagreement of the estimates.

    `spectrum` is (smallest, second largest eigenvalue) of W. beta = 1 / T_B(x), T_B the Chebyshev polynomial of degree
    B = `steps` and x the image of 1 under the map from that interval to [-1, 1].
    """
    middle, half = interval(spectrum)
    return float(1.0 / np.cosh(steps * np.arccosh((1.0 - middle) / half)))


@dataclass
class MatrixGossip(Gossip):
    """Plain gossip of a block of nodes: an exchange replaces a node's estimate of Ax by a mean over its neighbours.

    A is the data matrix, x are all variables. The weights come with each Halo, from the transport; a message that is
    lost one way only moves the mean of all estimates. A Halo is all that a block's nodes received in one exchange.
    """

    sends: ClassVar[Contents] = Contents(vectors=True, scalars=True)
    reliable: ClassVar[bool] = True

    v: PerNode[Matrix]  # (n_hosted, d) estimates of Ax
    spare: PerNode[Matrix]  # other buffer of v: rows that were sent stay untouched for one exchange
    members_seen: PerNode[Vector]  # (n_hosted,) number of nodes K, equal at all nodes
    before: PerNode[Matrix]  # (n_hosted, d) v of the round before; empty without momentum

    @classmethod
    def of(cls, block: Block, x: Vector, *, momentum: bool) -> Self:
        """Return the gossip of a block of nodes before round 0, with estimates v_k = K A_k x_k whose mean is Ax.

        A_k are the columns of node k and x_k its variables; x holds those of the hosted nodes, shape (n_columns,).
        `momentum` keeps v of the round before. A is the data matrix, x are the variables of all nodes.
        """
        v, spare = block.allocate(), block.allocate()
        before = block.allocate() if momentum else np.zeros((0, 0))
        n_nodes = block.info.n_nodes
        for k in range(block.size):
            own = block.of_node(k)
            if x[own].any():
                v[k] = n_nodes * block.share(k, x)
        return cls(v, spare, np.full(block.size, float(n_nodes)), before)

    def extrapolate(self, block: Block, theta: Vector) -> None:
        """Replace v_k by v_k + theta_k (v_k - before_k) at every hosted node, and `before` by the old v.

        v_k is node k's estimate of Ax, before_k that of the round before; theta has shape (n_hosted,). A is the data
        matrix, x are the variables of all nodes.
        """
        spans = block.spans
        parts = ([array[span] for span in spans] for array in (self.v, self.before, theta))
        list(block.threads.map(extrapolate, *parts))
        self.v, self.before = self.before, self.v

    def move(self, block: Block, k: int, change: Vector) -> None:
        """Add K A_k `change` to the k-th hosted node's estimate.

        `change`, shape (n_k,), was added to its n_k variables. A_k are the columns of the node and K is the number of
        nodes.
        """
        self.v[k] += self.members_seen[k] * block.node_columns(k).dot(change)

    def replace_part(self, block: Block, k: int, change: Vector, *, member: bool) -> None:
        """Add K times `change`, shape (d,), to the k-th hosted node's estimate, because its A_k x_k changed by that.

        A_k are the columns of the node, x_k its variables; K is the number of nodes, all of which are members.
        """
        self.v[k] += self.members_seen[k] * change

    def step(self, block: Block, up: Flags, riding: Riding = NOTHING) -> Rounds:
        """Replace every estimate v_k by sum_l P_kl v_l in one exchange; return the Halo, all that was received in it.

        P is the mixing matrix W, or I - damping (I - W) with momentum. `up` is not read: missing neighbours weigh 0 in
        the halo. `riding` is other modules' content that goes with the messages. A generator: yields each Outbox to
        exchange, and is sent the Halo that came back.
        """
        halo = yield Outbox(self.v, riding.scalars)
        scale = block.info.damping if self.before.size else 1.0
        self.v, self.spare = halo.mix(self.spare, scale, block.threads), self.v
        return halo

    @property
    def target(self) -> Matrix:
        """Return the estimates v of Ax, shape (n_hosted, d), one row per hosted node, which local solves update.

        A local solve adds `unit[k]` A_k times the change of its variables x_k to row k. A is the data matrix, x are the
        variables of all nodes.
        """
        return self.v

    @property
    def unit(self) -> Vector:
        """Return K, the number of nodes, for every hosted node, shape (n_hosted,): the factor of A_k x_k in v_k.

        Then the mean of all v_k is the sum of all A_k x_k, columns times variables.
        """
        return self.members_seen

    def finish_sum(self, block: Block, x: Vector, v: Vector | None, *, broken: bool) -> None:
        """Set v_k = v at every hosted node after a round of exact sums; do nothing if v is None.

        v is Ax, shape (d,), or None before the first sum; x and `broken` are not read. A is the data matrix, x are the
        variables of all nodes.
        """
        if v is not None:
            self.v[:] = v

    def view_digests(self) -> list[int]:
        """Return [-1, ...], one per hosted node: with plain gossip all nodes are members at all times."""
        return [-1] * len(self.v)

    def restored(self, saved: Self) -> Self:
        """Copy the arrays of `saved`, the gossip of a saved run, into those of this one, which the transport shares.

        Return self.
        """
        self.v[:], self.spare[:], self.before[:] = saved.v, saved.spare, saved.before
        return self


@dataclass
class ChebyshevGossip(MatrixGossip):
    """Plain gossip whose B exchanges of a round together multiply the estimates by a polynomial in the mixing matrix W.

    The polynomial of degree B is 1 at the eigenvalue 1 and smallest on the others, so disagreement shrinks the most.
    """

    def mix(self, block: Block, up: Flags, steps: int, riding: Riding = NOTHING) -> Rounds:
        """Replace the estimates v by P(W) v in `steps` exchanges.

        Return the Halo of the first, with which `riding` goes. W is the mixing matrix and P the Chebyshev polynomial of
        degree `steps` with P(1) = 1, by the three-term recurrence of T_i(X)/T_i(x) with X = (W - middle)/half and x =
        (1 - middle)/half. A generator: yields each Outbox to exchange, and is sent the Halo that came back. `up` is not
        read: missing neighbours weigh 0.
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
