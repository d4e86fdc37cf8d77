"""The protocol of a gossip, so that methods need not know which one a run uses."""

from typing import ClassVar, Protocol, Self

from glmesh.core import NOTHING, Block, Contents, Riding, Rounds
from glmesh.types import Flags, Matrix, Vector


class Gossip(Protocol):
    """Estimates v_k of Ax of a block's nodes, and how an exchange mixes them."""

    sends: ClassVar[Contents]
    reliable: ClassVar[bool]  # needs every message to arrive

    v: Matrix  # (n_hosted, d) estimates of Ax
    members_seen: Vector  # (n_hosted,) number of members K, as each node sees it

    @property
    def target(self) -> Matrix:
        """Array to which the local solver adds `unit` times A_k D_k, shape (n_hosted, d)."""

    @property
    def unit(self) -> Vector:
        """Factor of A_k D_k in `target`, shape (n_hosted,)."""

    def step(self, block: Block, up: Flags, riding: Riding = NOTHING) -> Rounds:
        """Mix the estimates of nodes that are up, in one exchange; return its halo."""

    def mix(self, block: Block, up: Flags, steps: int, riding: Riding = NOTHING) -> Rounds:
        """Mix in so many exchanges; return the halo of the first, with which `riding` goes."""
        first = yield from self.step(block, up, riding)
        for _ in range(steps - 1):
            yield from self.step(block, up)
        return first

    def extrapolate(self, block: Block, theta: Vector) -> None:
        """Move the estimates on by theta_k times their last change; needs momentum."""

    def move(self, block: Block, k: int, change: Vector) -> None:
        """Follow a change of the variables of the k-th hosted node that no solver made."""

    def finish_round(self, block: Block, x: Vector, round: int) -> None:
        """Bring the estimates in line with x after the local solver; nothing where `target` is v."""

    def finish_sum(self, block: Block, x: Vector, v: Vector | None, *, broken: bool) -> None:
        """Bring the estimates in line after a round of exact sums; v is Ax, None before the first sum."""

    def refresh_node(self, block: Block, x: Vector, k: int) -> None:
        """Derive the estimate of the k-th hosted node afresh from x; nothing where it is not derived."""

    def reset_node(self, k: int) -> None:
        """Set the last change of the k-th hosted node's share to zero; nothing where shares are not kept apart."""

    def view_digests(self) -> list[int]:
        """Return a number per hosted node that changes with its view of the members; -1: all nodes are members."""

    def restored(self, saved: Self) -> Self:
        """Return the gossip that goes on from a saved one, with the arrays that the transport shares."""
