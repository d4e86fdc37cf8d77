"""The protocols that methods, transports and accelerators satisfy."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol, TypeVar

from glmesh.core.block import Block
from glmesh.core.messages import Halo, Outbox
from glmesh.types import Vector

S = TypeVar("S")


class Method(Protocol[S]):
    """An algorithm, written once over a block; its round does no I/O, it yields what it wants exchanged."""

    def init(self, block: Block, x: Vector | None) -> S:
        """The state before the first round, from zero or from the block's variables x."""
        ...

    def round(self, block: Block, state: S) -> Generator[Outbox, Halo, None]:
        """One round: yields each set of rows it wants exchanged and is sent the halo."""
        ...
