"""The seam between rounds and the wire: `Transport`, and `drive`, which steps rounds over one."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from glmesh.core.messages import Contents, Halo, Outbox, Rounds
from glmesh.core.records import Traffic
from glmesh.network import Clock, Plan
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


def drive(transport: Transport, rounds: Sequence[Rounds]) -> list[Any]:
    """Step one generator per block in lock-step, exchange what they yield, and return what each returns.

    A block that is done waits for the others with empty outboxes: only where a sum failed do some need longer.
    """
    returned: dict[int, Any] = {}
    halos: list[Halo | None] = [None] * len(rounds)
    while True:
        outboxes = [Outbox() for _ in rounds]
        for block, one in enumerate(rounds):
            if block in returned:
                continue
            try:
                halo = halos[block]
                outboxes[block] = next(one) if halo is None else one.send(halo)
            except StopIteration as end:
                returned[block] = end.value
        if len(returned) == len(rounds):
            return [returned[block] for block in range(len(rounds))]
        halos = list(transport.exchange(outboxes))
