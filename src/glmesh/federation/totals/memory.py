"""What a member is told before it starts, and what it keeps on disk; neither holds a mask key."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

from glmesh.federation.totals.names import first_chain, next_chain, request_digest
from glmesh.federation.totals.statements import Held, Record, Vote
from glmesh.types import Unsigned


@dataclass(frozen=True)
class Facts:
    """What the federation file says of members and patience; but for `me` equal at all members."""

    federation: str  # digest of the federation file
    names: tuple[str, ...]  # of all members; a member's id is its place
    neighbours: tuple[tuple[int, ...], ...]  # of each member, ascending
    me: int
    late: frozenset[int] = frozenset()  # members that count from their first view on
    without: bool = False  # members that stay away are left out after `gone_after`; else all are waited for
    gone_after: float = 600.0  # [s]
    least: int = 3  # members of a view; 2 where the federation file reveals what one site contributes
    beat: float = 1.0  # [s] between two signs of life, and until something is sent again

    @cached_property
    def present(self) -> float:
        """Seconds without a sign of life after which a member is not asked into a view: four beats."""
        return 4.0 * self.beat

    @property
    def voters(self) -> tuple[int, ...]:
        """Ids of the members that count before the first view: all that are not late."""
        return tuple(one for one in range(len(self.names)) if one not in self.late)


@dataclass(frozen=True, eq=False)
class Entry:
    """One total of a fit: what was asked for, and the sum."""

    request: bytes
    value: Unsigned  # (numbers,)


@dataclass
class Memory:
    """What a site keeps on disk, so that progress survives its process. Old or lost, it can cost time and no secret."""

    pin: str  # random name of the data that the site has now
    voters: tuple[int, ...]
    promised: int = 0  # largest number of a view that it said yes to
    record: Record | None = None  # None: it has not contributed yet
    held: Held | None = None  # None: it has been in no view
    entries: list[Entry] = field(default_factory=list)  # totals of `held`
    vote: Vote | None = None
    model: bytes = b""  # that the vote is about

    def begin(self, held: Held) -> None:
        """Take up a fit, of which no total is held yet."""
        self.held = Held(held.fit, held.set, held.start, held.born, 0, first_chain(held.fit))
        self.entries = []

    def append(self, entry: Entry) -> None:
        """Add the next total of the fit that is held."""
        assert self.held is not None
        held, self.entries = self.held, [*self.entries, entry]
        self.held = Held(held.fit, held.set, held.start, held.born, held.count + 1, extended(held.chain, entry))

    def take(self, entries: list[Entry], chain: str) -> bool:
        """Add totals that another member holds if the digest of all is `chain`, which members have signed."""
        assert self.held is not None
        found = self.held.chain
        for entry in entries:
            found = extended(found, entry)
        if found != chain:
            return False
        for entry in entries:
            self.append(entry)
        return True


def extended(chain: str, entry: Entry) -> str:
    """Return the digest of a chain of totals with one more."""
    value = entry.value.astype("<u8").tobytes()
    return next_chain(chain, request_digest(chain, entry.request, len(entry.value)), value)


def model_digest(model: bytes) -> str:
    """Return the digest by which members vote for a model, in hexadecimal."""
    return hashlib.sha256(model).hexdigest()
