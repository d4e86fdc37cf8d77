"""The protocols that methods and transports satisfy."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, ClassVar, Protocol, TypeVar

from glmesh.core.block import Block
from glmesh.core.messages import Contents, Halo, Outbox, Traffic
from glmesh.network.timing import Clock
from glmesh.types import Matrix, Vector

S = TypeVar("S")


class Method(Protocol[S]):
    """An algorithm, written once over a block; its round does no I/O, it yields what it wants exchanged."""

    def init(self, block: Block, x: Vector | None) -> S:
        """The state before the first round, from zero or from the block's variables x."""

    def round(self, block: Block, state: S) -> Generator[Outbox, Halo, None]:
        """One round: yields each set of rows it wants exchanged and is sent the halo."""


class Transport(Protocol):
    """Moves the outboxes of this process's blocks to the neighbours of their nodes; knows no algebra."""

    carries: ClassVar[Contents]
    traffic: Traffic
    clock: Clock | None  # virtual time; None: time is real

    def allocate(self, block: int, width: int) -> Matrix:
        """Return a zeroed (n_hosted, width) array of block number `block`, from which rows go out without a copy."""

    def exchange(self, outboxes: list[Outbox]) -> list[Halo]:
        """Deliver the outbox of every block; return what the nodes of every block received."""

    def state(self) -> dict[str, Any]:
        """Return all that changes from exchange to exchange, as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` of another transport returned."""

    def close(self) -> None:
        """Give back what the transport holds; no exchange follows."""
