"""The protocol at the centre: a method prepares nodes and makes rounds; all else is the engine's.

A class of your own that satisfies `Method` runs through `solve`, `glmesh bench` and MPI; nothing has to be registered.
"""

from typing import Protocol, TypeVar

from glmesh.core.block import Block
from glmesh.core.hosted import HostedNodes
from glmesh.core.messages import AnyRounds, Rounds
from glmesh.core.setup import Setup

BlockT = TypeVar("BlockT")
StateT = TypeVar("StateT")
Worked = TypeVar("Worked", contravariant=True)
Options = TypeVar("Options", contravariant=True)


class Method(Protocol[BlockT, StateT]):
    """Protocol of algorithms, written once for any number of hosted nodes; a round does no input or output."""

    def prepare(self, setup: Setup) -> HostedNodes[BlockT, StateT]:
        """Return the nodes that this process hosts, ready for round 0; refuse by name what the method is not for."""

    def round(self, block: BlockT, state: StateT) -> AnyRounds:
        """Make one round of a block: yield each request and be sent its answer.

        An Outbox is answered by the Halo that came back for it, a `Total` by the Sums over all nodes.
        """


class Accelerator(Protocol[Worked, Options]):
    """Protocol of what makes the rounds of a method need fewer exchanges; one object per block, saved with the state.

    `Worked` is the part of the state that an accelerator works on, `Options` what the options of the method come to.
    """

    @property
    def value(self) -> float:
        """Objective H as the block's first node last heard of it; NaN or inf: not known."""

    def round(self, block: Block, state: Worked, how: Options) -> Rounds:
        """Make one round of a block: yield each Outbox to exchange, and be sent the Halo that came back for it."""

    def reset(self, block: Block, state: Worked) -> None:
        """Forget what depends on the variables x and estimates v: both were changed from outside, and agree."""

    def retarget(self, block: Block, state: Worked) -> None:
        """Forget what depends on the functions f and g, which are others from now on, on the same columns."""

    def reset_node(self, block: Block, state: Worked, k: int) -> None:
        """Forget what depends on x_k and v_k of the block's k-th node, which were changed from outside."""
