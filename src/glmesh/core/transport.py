"""The seam between rounds and the wire."""

from typing import Any, ClassVar, Protocol

from glmesh.core.messages import Contents, Halo, Outbox
from glmesh.core.records import Traffic
from glmesh.network.faults import Plan
from glmesh.network.timing import Clock
from glmesh.types import Matrix


class Transport(Protocol):
    """Moves outboxes between nodes; knows no algebra."""

    carries: ClassVar[Contents]  # what the transport can move
    traffic: Traffic
    clock: Clock | None  # virtual; None: time is the wall's
    fails: bool  # whether a fault plan decides what gets through

    def begin_round(self, plan: Plan, round: int) -> None:
        """Let exchanges from now on be those of this round, and fail as this plan says."""

    def exchange(self, outboxes: list[Outbox]) -> list[Halo]:
        """Deliver every block's outbox to the neighbours of its nodes; return what each block received."""

    def allocate(self, block: int, width: int) -> Matrix:
        """Return a zeroed (n_hosted, width) array for a block's vectors, which are sent from it without a copy."""

    def state(self) -> dict[str, Any]:
        """Return all that changes from exchange to exchange, as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` of another transport returned."""

    def close(self) -> None:
        """Give back what the transport holds; the run is over."""
