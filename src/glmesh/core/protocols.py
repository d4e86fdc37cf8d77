"""The protocol at the centre: a method prepares nodes and makes rounds; all else is the engine's.

A class of your own that satisfies `Method` runs through `solve`, `glmesh bench` and MPI; nothing has to be registered.
"""

from typing import Protocol, TypeVar

from glmesh.core.block import Block
from glmesh.core.hosted import HostedNodes
from glmesh.core.messages import Rounds
from glmesh.core.setup import Setup

BlockT = TypeVar("BlockT")
StateT = TypeVar("StateT")
Worked = TypeVar("Worked", contravariant=True)
Options = TypeVar("Options", contravariant=True)


class Method(Protocol[BlockT, StateT]):
    """An algorithm, written once for any number of hosted nodes; its round does no I/O."""

    def prepare(self, setup: Setup) -> HostedNodes[BlockT, StateT]:
        """Return the nodes that this process hosts, ready for round 0; refuse, by name, what the method is not for."""

    def round(self, block: BlockT, state: StateT) -> Rounds:
        """Make one round of a block: yield each Outbox to exchange and be sent the Halo that came back."""


class Accelerator(Protocol[Worked, Options]):
    """Makes the rounds of a method, faster than plain ones; one object per block, saved with the state.

    `Worked` is the part of the state that an accelerator works on, `Options` what the options of the method come to.
    """

    @property
    def value(self) -> float:
        """Objective as the block's first node last heard of it; NaN or inf: not known."""

    def round(self, block: Block, state: Worked, how: Options) -> Rounds:
        """Make one round: yield each Outbox to exchange and be sent its Halo."""

    def reset(self, block: Block, state: Worked) -> None:
        """Forget what depends on x and v: both were changed from outside, and agree with each other."""

    def retarget(self, block: Block, state: Worked) -> None:
        """Forget what depends on f and g: both are others from now on, on the same columns."""

    def reset_node(self, block: Block, state: Worked, k: int) -> None:
        """Forget what depends on x_k and v_k of the block's k-th node: they were changed from outside."""
