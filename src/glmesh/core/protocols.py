"""The protocol at the centre: a method prepares nodes and makes rounds; all else is the engine's.

A class of your own that satisfies `Method` runs through `solve`, `glmesh bench` and MPI; nothing has to be registered.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from glmesh.core.hosted import HostedNodes
from glmesh.core.messages import Rounds
from glmesh.core.setup import Setup

BlockT = TypeVar("BlockT")
StateT = TypeVar("StateT")


class Method(Protocol[BlockT, StateT]):
    """An algorithm, written once for any number of hosted nodes; its round does no I/O."""

    def prepare(self, setup: Setup) -> HostedNodes[BlockT, StateT]:
        """Return the nodes that this process hosts, ready for round 0; refuse, by name, what the method is not for."""
        ...

    def round(self, block: BlockT, state: StateT) -> Rounds:
        """Make one round of a block: yield each Outbox to exchange and be sent the Halo that came back."""
        ...
