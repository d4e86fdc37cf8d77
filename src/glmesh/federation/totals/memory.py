"""What a member is told before it starts, and what it keeps on disk; neither holds a mask key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

from glmesh.federation.totals.names import first_chain, next_chain, request_digest
from glmesh.federation.totals.statements import Held, Record, Vote
from glmesh.types import Unsigned


@dataclass(frozen=True)
class FederationInfo:
    """Constants of a federation that the state machine of totals is given at its start.

    All but `me` are the same for all.
    """

    federation: str  # digest of the federation file
    names: tuple[str, ...]  # of all members; a member's id is its place
    neighbours: tuple[tuple[int, ...], ...]  # of each member, ascending
    me: int  # this member's id
    late: frozenset[int] = frozenset()  # members that count from their first view on
    without: bool = False  # members that stay away are left out after `gone_after`; else all are waited for
    gone_after: float = 600.0  # [s]
    least: int = 3  # members of a view; 2 where the federation file reveals what one site contributes
    heartbeat: float = 1.0  # [s] between two signs of life, and until something is sent again

    @cached_property
    def present(self) -> float:
        """Return the seconds without a sign of life after which a member counts as silent: 4 * `heartbeat`.

        A silent member is in no new view, that is no new list of members that make totals together.
        """
        return 4.0 * self.heartbeat

    @property
    def voters(self) -> tuple[int, ...]:
        """Return the ids of the members of which majorities are counted at first: all that are not late."""
        return tuple(one for one in range(len(self.names)) if one not in self.late)


@dataclass(frozen=True, eq=False)
class KeptTotal:
    """One total of a fit: the request, equal at all members, and the sum over all members."""

    request: bytes  # as bytes, equal at all members
    value: Unsigned  # (numbers,)


@dataclass
class MemberMemory:
    """What a member keeps on disk, so that its promises, totals (sums over all members) and votes survive its process.

    An old or lost memory can cost time, and no secret.
    """

    pin: str  # random name of the data that the site has now
    voters: tuple[int, ...]  # ids of the members of which majorities are counted
    promised: int = 0  # largest number of a view that it said yes to
    record: Record | None = None  # None: it has not contributed yet
    held: Held | None = None  # None: it has been in no view
    entries: list[KeptTotal] = field(default_factory=list)  # totals of `held`
    vote: Vote | None = None  # the last one; None: it has not voted
    model: bytes = b""  # that the vote is about

    def begin(self, held: Held) -> None:
        """Take up the fit that `held` names as the present one, without any of its totals (sums over all members)."""
        self.held = Held(held.fit, held.set, held.start, held.born, 0, first_chain(held.fit))
        self.entries = []

    def append(self, entry: KeptTotal) -> None:
        """Append the next total (a sum over all members) of the present fit, and update count and digest of them."""
        assert self.held is not None
        held, self.entries = self.held, [*self.entries, entry]
        self.held = Held(held.fit, held.set, held.start, held.born, held.count + 1, extended(held.chain, entry))

    def take(self, entries: list[KeptTotal], chain: str) -> bool:
        """Append totals (sums over all members) that another member sent, if the digest of all totals is then `chain`.

        Return whether they were appended.
        """
        assert self.held is not None
        found = self.held.chain
        for entry in entries:
            found = extended(found, entry)
        if found != chain:
            return False
        for entry in entries:
            self.append(entry)
        return True


def extended(chain: str, entry: KeptTotal) -> str:
    """Return the digest, 64 hexadecimal digits, of all totals (sums over all members) of a fit after one more.

    `chain` is the digest before it, `entry` the total.
    """
    value = entry.value.astype("<u8").tobytes()
    return next_chain(chain, request_digest(chain, entry.request, len(entry.value)), value)


def model_digest(model: bytes) -> str:
    """Return the SHA-256 digest of a model's bytes, by which members vote for it, as 64 hexadecimal digits."""
    return hashlib.sha256(model).hexdigest()
