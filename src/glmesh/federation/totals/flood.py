"""The grow-only set of signed contributions, and what is sent to which neighbour.

A member sends its own contribution to all neighbours, and another's to those neighbours that are none of its author; a
neighbour of its author asks for it if it does not come. So in a complete graph every contribution crosses a link once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.federation.totals.names import TotalName, digest
from glmesh.types import Unsigned

KEPT = 4  # [names] of which contributions are kept: the total under way, the one before, and what comes early
MOST_ATTEMPTS = 64  # of one total; each misfit makes grains 2^20 larger, so that two or three are ever needed


@dataclass(frozen=True)
class Contribution:
    """One member's contribution to a total, masked and signed, as it is passed from neighbour to neighbour."""

    view: str  # digest of the list of members that make the total
    number: int  # of the total in its fit, from 1
    attempt: int  # at that total, from 1
    request: str  # digest of what is asked for
    author: int  # id of the member
    body: bytes  # whole numbers modulo 2^64, little-endian
    signature: bytes  # of the author

    def name(self, federation: str, keys: str) -> bytes:
        """Return the name, 32 bytes, of the total that this is a contribution to.

        `federation` is the digest of the federation file, `keys` that of the mask keys of the members.
        """
        return TotalName(federation, self.number, self.attempt, self.view, keys, self.request).digest


@dataclass(frozen=True)
class Ask:
    """A request to a neighbour for contributions to one total that have not come, by their authors."""

    view: str  # digest of the list of members that make the total
    number: int  # of the total in its fit, from 1
    attempt: int  # at that total, from 1
    request: str  # digest of what is asked for
    wanted: tuple[int, ...]  # authors

    def name(self, federation: str, keys: str) -> bytes:
        """Return the name, 32 bytes, of the total whose contributions are asked for.

        `federation` is the digest of the federation file, `keys` that of the mask keys of the members.
        """
        return TotalName(federation, self.number, self.attempt, self.view, keys, self.request).digest


def signed_contribution(name: bytes, author: int, body: bytes) -> bytes:
    """Return the 32 bytes that the author of a contribution signs: a digest of the total's name, author and body.

    `author` is the member's id, `body` the masked numbers as bytes.
    """
    return digest("glmesh/contribution/1", name, author, body)


class ContributionFlood:
    """One member's store of contributions by name of the total, and of which neighbour has which; it does no I/O.

    A total's name is 32 bytes, members are numbers.
    """

    def __init__(self, me: int, neighbours: Sequence[Sequence[int]]) -> None:
        self._me, self._neighbours = me, neighbours
        self._parts: dict[bytes, dict[int, Contribution]] = {}  # by name and author
        self._known: dict[bytes, dict[int, set[int]]] = {}  # authors whose part a neighbour has, by name and neighbour
        self._queue: dict[int, list[Contribution]] = {}  # parts to be sent, by neighbour

    def clear(self) -> None:
        """Drop all contributions and queues; to be called when other members make the next totals."""
        self._parts, self._known, self._queue = {}, {}, {}

    def has(self, name: bytes, author: int) -> bool:
        """Return whether the contribution of member `author` to the total with this name is stored."""
        return author in self._parts.get(name, {})

    def takes(self, part: Contribution) -> bool:
        """Return whether a contribution may be stored: none of its author for the same total and attempt is there."""
        held = (one.get(part.author) for one in self._parts.values())
        return not any(one and (one.number, one.attempt) == (part.number, part.attempt) for one in held)

    def keep(self, name: bytes, part: Contribution, receivers: Collection[int], source: int | None) -> None:
        """Store a contribution to the total `name`, and queue it for those of `receivers` that may lack it.

        `receivers` are the neighbours that make totals with this member; `source` is the neighbour that sent it, None
        for this member's own.
        """
        self._parts.setdefault(name, {})[part.author] = part
        while len(self._parts) > KEPT:
            oldest = next(iter(self._parts))
            del self._parts[oldest]
            self._known.pop(oldest, None)
        if source is not None:
            self._has(name, source).add(part.author)
        for peer in receivers:
            if peer == part.author or part.author in self._has(name, peer):
                continue
            if part.author == self._me or peer not in self._neighbours[part.author]:
                self._send(name, peer, part)

    def asked(self, name: bytes, peer: int, wanted: Collection[int], members: Collection[int]) -> None:
        """Queue for neighbour `peer` the stored contributions to the total `name` by the authors `wanted`.

        The neighbour is taken to have those of all other `members`.
        """
        known = self._has(name, peer)
        known.clear()
        known |= set(members) - set(wanted)
        for author in wanted:
            if author in self._parts.get(name, {}):
                self._send(name, peer, self._parts[name][author])

    def missing(self, name: bytes, members: Collection[int]) -> list[int]:
        """Return the ids of those `members` whose contribution to the total `name` is not stored, ascending."""
        held = self._parts.get(name, {})
        return [one for one in sorted(members) if one not in held]

    def sum(self, name: bytes, length: int) -> Unsigned:
        """Return the sum modulo 2^64 of all stored contributions to the total `name`, uint64 of shape (length,)."""
        out = np.zeros(length, dtype=np.uint64)
        for part in self._parts[name].values():
            out += np.frombuffer(part.body, dtype="<u8")
        return out

    def collect(self) -> Mapping[int, list[Contribution]]:
        """Return {neighbour: contributions to be sent to it}, and empty the queues."""
        out, self._queue = self._queue, {}
        return out

    def _send(self, name: bytes, peer: int, part: Contribution) -> None:
        """Queue a contribution to the total `name` for neighbour `peer`, and note that the neighbour has it."""
        self._has(name, peer).add(part.author)
        queue = self._queue.setdefault(peer, [])
        if part not in queue:
            queue.append(part)

    def _has(self, name: bytes, peer: int) -> set[int]:
        """Return the set of authors whose contribution to the total `name` neighbour `peer` has; it may be added to."""
        return self._known.setdefault(name, {}).setdefault(peer, set())
