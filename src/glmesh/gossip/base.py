"""The protocol of a gossip, so that methods need not know which one a run uses."""

from typing import ClassVar, Protocol, Self

from glmesh.core import NOTHING, Block, Contents, Riding, Rounds
from glmesh.types import Flags, Matrix, Vector


class Gossip(Protocol):
    """Protocol: holds the estimates v_k of Ax of a block's nodes, and mixes them with those of the neighbours.

    A is the data matrix, x are all variables. `v` has shape (n_hosted, d); `members_seen` is the number of members as
    each hosted node sees it; `reliable` says that every message must arrive.
    """

    sends: ClassVar[Contents]  # kinds of content in its messages
    reliable: ClassVar[bool]  # whether every message must arrive

    v: Matrix  # (n_hosted, d) estimates of Ax
    members_seen: Vector  # (n_hosted,) number of members K, as each node sees it

    @property
    def target(self) -> Matrix:
        """Return the array, shape (n_hosted, d), a row per hosted node, that local solves update.

        A local solve adds `unit[k]` A_k times the change of its variables x_k to row k, A_k being the node's columns.
        """

    @property
    def unit(self) -> Vector:
        """Return the factor of A_k times the change of x_k that a local solve adds, shape (n_hosted,): K or 1.

        It is K, the number of nodes, where `target` are estimates of Ax, and 1 where it holds the nodes' own A_k x_k. A
        is the data matrix, x are the variables of all nodes.
        """

    def step(self, block: Block, up: Flags, riding: Riding = NOTHING) -> Rounds:
        """Mix the estimates of the nodes that are up with their neighbours' in one exchange; return the Halo received.

        `up` is a mask of shape (n_hosted,); `riding` is other modules' content that goes with the messages. A
        generator: yields each Outbox to exchange, and is sent the Halo that came back.
        """

    def mix(self, block: Block, up: Flags, steps: int, riding: Riding = NOTHING) -> Rounds:
        """Mix the estimates in `steps` exchanges; return the Halo of the first, whose messages also carry `riding`.

        `up` is a mask of shape (n_hosted,), True for nodes that take part. A generator: yields each Outbox to exchange,
        and is sent the Halo that came back.
        """
        first = yield from self.step(block, up, riding)
        for _ in range(steps - 1):
            yield from self.step(block, up)
        return first

    def extrapolate(self, block: Block, theta: Vector) -> None:
        """Add theta_k times the last change of the estimate v_k (or of A_k x_k behind it) at every hosted node k.

        theta has shape (n_hosted,). Only for a gossip made with momentum.
        """

    def move(self, block: Block, k: int, change: Vector) -> None:
        """Update the k-th hosted node's estimate after `change`, shape (n_k,), was added to its variables.

        For changes that no local solve made: a local solve writes to `target` itself.
        """

    def replace_part(self, block: Block, k: int, change: Vector, *, member: bool) -> None:
        """Take in that A_k x_k of the k-th hosted node changed by `change`, shape (d,), because its columns did.

        A_k are the columns of the node, x_k its variables; `member` says whether the node takes part at present.
        """

    def finish_round(self, block: Block, x: Vector, round: int) -> None:
        """Recompute the estimates v after the local solves of a round; does nothing where `target` is v itself.

        x are the variables of the hosted nodes, shape (n_columns,).
        """

    def finish_sum(self, block: Block, x: Vector, v: Vector | None, *, broken: bool) -> None:
        """Update the estimates after a round of exact sums, which changed the variables x, shape (n_columns,).

        v is Ax, shape (d,), or None before the first sum; `broken`: the sum of this round lacked a node's contribution.
        A is the data matrix, x are the variables of all nodes.
        """

    def refresh_node(self, block: Block, x: Vector, k: int) -> None:
        """Recompute the k-th hosted node's estimate from x, shape (n_columns,).

        Does nothing in plain gossip, which updates v only.
        """

    def reset_node(self, k: int) -> None:
        """Set to zero the last change of the k-th hosted node's A_k x_k (columns times variables).

        Does nothing in plain gossip.
        """

    def view_digests(self) -> list[int]:
        """Return a list with an integer per hosted node, a digest of its view of who is a member.

        -1 stands for a gossip in which every node is a member at all times.
        """

    def restored(self, saved: Self) -> Self:
        """Return a gossip for a resumed run, with the content of `saved` in the arrays that the transport shares."""
