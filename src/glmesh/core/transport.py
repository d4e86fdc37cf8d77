"""The seam between rounds and the wire: `Transport`, and `drive`, which steps rounds over one."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from glmesh.core.messages import AnyRounds, Contents, Halo, Outbox, Request
from glmesh.core.records import Traffic
from glmesh.core.totals import Largest, Sums, Total, add_up
from glmesh.errors import GlmeshError, InvalidInput
from glmesh.network import Clock, Plan
from glmesh.types import Indices, Matrix, Tree, Unsigned

R = TypeVar("R")


class Unfinished(GlmeshError):
    """Raised when a total lacks the contribution of a member that is away; contributions that arrived are kept.

    A total is a sum over all nodes.
    """


class Transport(Protocol):
    """Protocol of an object that delivers messages between nodes and counts messages and bytes.

    It computes nothing itself. `carries` says what kinds of content it can move, `traffic` what was sent so far,
    `clock` is the virtual time of the nodes (None: seconds are measured), `fails` whether a fault plan decides what
    gets through.
    """

    carries: ClassVar[Contents]  # what the transport can move
    traffic: Traffic  # what was sent so far
    clock: Clock | None  # virtual time of the nodes; None: seconds are measured
    fails: bool  # whether a fault plan decides what gets through

    @property
    def n_nodes(self) -> int:
        """Number K of nodes of the whole network."""

    def begin_round(self, plan: Plan, round: int) -> None:
        """Declare that exchanges from now on belong to round number `round`, and fail as the plan `plan` says."""

    def exchange(self, outboxes: list[Outbox]) -> list[Halo]:
        """Deliver outboxes[i], what the nodes of block i send, to their neighbours; return what each block received.

        A Halo per block, in the order of the outboxes.
        """

    def add(self, contributions: list[Unsigned]) -> Unsigned:
        """Return the sums modulo 2^64 over all members, uint64 of shape (N,), of N integers per node.

        contributions[i], shape (n_hosted, N), are those of the nodes of block i of this process, or, unless `fails`,
        their sum, shape (1, N). Raise `Unfinished` if
        a member's contribution does not arrive in this round.
        """

    def maximise(self, numbers: list[Indices]) -> Indices:
        """Return the maxima over all members, shape (n,), of n integers of 16 bits per node.

        numbers[i], shape (n_hosted, n), are those of the nodes of block i of this process. Raise `Unfinished` as `add`
        does.
        """

    def allocate(self, block: int, width: int) -> Matrix:
        """Return a zeroed (n_hosted, width) array for a block's vectors, which are sent from it without a copy."""

    def state(self) -> Tree:
        """Return the traffic, the clock and the messages on their way as a dict of plain data, for a checkpoint.

        A checkpoint is a run in a file.
        """

    def restore(self, state: Tree) -> None:
        """Continue from the dict that `state` of another transport returned: traffic, clock, messages on their way."""

    def close(self) -> None:
        """Free the memory, files or connections of the transport, at the end of a run."""


def drive(transport: Transport, rounds: Sequence[AnyRounds]) -> list[Any]:
    """Step the generators `rounds`, one per block of nodes, in lock-step, and return the list of their results.

    What a generator yields, an Outbox, a Total or a Largest, is carried out by the transport and answered. A block that
    is done waits for the others with empty outboxes: only where a sum failed do some need longer.
    """
    returned: dict[int, Any] = {}
    answers: list[Halo | Sums | Indices | None] = [None] * len(rounds)
    while True:
        requests: list[Request] = [Outbox() for _ in rounds]
        for block, one in enumerate(rounds):
            if block in returned:
                continue
            try:
                answer = answers[block]
                requests[block] = next(one) if answer is None else one.send(answer)
            except StopIteration as end:
                returned[block] = end.value
        if len(returned) == len(rounds):
            return [returned[block] for block in range(len(rounds))]
        answers = _answers(transport, requests)


def _answers(transport: Transport, requests: list[Request]) -> list[Halo | Sums | Indices | None]:
    """Return the answer to each block's request, in order: a Halo, Sums, or maxima of shape (n,).

    Raise InvalidInput unless all blocks ask for one kind of answer. A Halo is all that a block's nodes received in one
    exchange. `transport` carries out the requests.
    """
    if (outboxes := _all_of(Outbox, requests)) is not None:
        return list(transport.exchange(outboxes))
    if (totals := _all_of(Total, requests)) is not None:
        add, maximise = transport.add, transport.maximise
        return [add_up(totals, transport.n_nodes, add, maximise, apart=transport.fails)] * len(requests)
    if (maxima := _all_of(Largest, requests)) is not None:
        return [transport.maximise([one.numbers for one in maxima])] * len(requests)
    kinds = sorted({type(one).__name__ for one in requests})
    raise InvalidInput(f"all blocks of a round must yield the same kind of request at once, got {' and '.join(kinds)}")


def _all_of(kind: type[R], requests: Sequence[object]) -> list[R] | None:
    """Return the requests if all of them are of this kind; None: one is of another."""
    found = [one for one in requests if isinstance(one, kind)]
    return found if len(found) == len(requests) else None
