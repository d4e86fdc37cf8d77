"""The seam between rounds and the wire: `Transport`, and `drive`, which steps rounds over one."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from glmesh.core.messages import Contents, Halo, Outbox, Rounds
from glmesh.core.records import Traffic
from glmesh.network import Clock, Plan
from glmesh.types import Matrix


class Transport(Protocol):
    """Protocol of what moves outboxes between nodes and counts what is sent; it knows no algebra."""

    carries: ClassVar[Contents]  # what the transport can move
    traffic: Traffic  # what was sent so far
    clock: Clock | None  # virtual time of the nodes; None: seconds are measured
    fails: bool  # whether a fault plan decides what gets through

    def begin_round(self, plan: Plan, round: int) -> None:
        """Begin round number `round`: exchanges from now on belong to it, and fail as this plan says."""

    def exchange(self, outboxes: list[Outbox]) -> list[Halo]:
        """Deliver every block's outbox to the neighbours of its nodes; return what each block received in it."""

    def allocate(self, block: int, width: int) -> Matrix:
        """Return a zeroed (n_hosted, width) array for a block's vectors, which are sent from it without a copy."""

    def state(self) -> dict[str, Any]:
        """Return all that changes from exchange to exchange, as plain data, for a checkpoint."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` of another transport returned: traffic, clock and messages on their way."""

    def close(self) -> None:
        """Free what the transport holds, at the end of a run."""


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
