"""The protocol at the centre: a method prepares nodes and makes rounds; all else is the engine's.

A class of your own that satisfies `Method` runs through `solve`, `glmesh bench` and MPI; nothing has to be registered.
"""

from typing import Any, Protocol, TypeVar

from glmesh.core.block import Block
from glmesh.core.hosted import HostedNodes
from glmesh.core.messages import AnyRounds, Rounds
from glmesh.core.setup import Setup

BlockT = TypeVar("BlockT")
StateT = TypeVar("StateT")
Worked = TypeVar("Worked", contravariant=True)
Options = TypeVar("Options", contravariant=True)


class Method(Protocol[BlockT, StateT]):
    """Protocol of an algorithm, written once for any number of hosted nodes; a round does no input or output."""

    def prepare(self, setup: Setup) -> HostedNodes[BlockT, StateT]:
        """Return the nodes that this process hosts, ready for round 0.

        Raise an error, which names the option, for a problem or network that the method is not made for.
        """

    def round(self, block: BlockT, state: StateT) -> AnyRounds:
        """Return a generator that makes one round of a block: it yields each request and is sent its answer.

        An Outbox is answered by the Halo that came back for it, a `Total` by the Sums over all nodes.
        """


AnyMethod = Method[Any, Any]


class Accelerator(Protocol[Worked, Options]):
    """Protocol of an object that makes the rounds of a method need fewer exchanges.

    One per block, saved with its state. `Worked` is the type of the state that an accelerator reads and writes,
    `Options` that of the method's options.
    """

    @property
    def value(self) -> float:
        """Objective H = (1/K) sum f(v_k) + g(x), as the block's first node last heard of it; NaN or inf if unknown.

        K is the number of nodes.
        """

    def round(self, block: Block, state: Worked, how: Options) -> Rounds:
        """Return a generator that makes one round of a block: it yields each Outbox and is sent the Halo for it.

        `how` are the options of the method.
        """

    def reset(self, block: Block, state: Worked) -> None:
        """Discard all that was computed from the variables x and the estimates v, which were changed from outside."""

    def retarget(self, block: Block, state: Worked) -> None:
        """Discard all that was computed from the functions f and g: others are used from now on, on the old columns."""

    def reset_node(self, block: Block, state: Worked, k: int) -> None:
        """Discard all that was computed from x and v of the block's k-th node, which were changed from outside."""
