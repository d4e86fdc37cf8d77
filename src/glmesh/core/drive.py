"""Generators of one exchange after the other, stepped in lock-step over a transport."""

from collections.abc import Sequence
from typing import Any

from glmesh.core.messages import Halo, Outbox, Rounds
from glmesh.core.transport import Transport


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
