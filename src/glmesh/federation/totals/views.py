"""Views: numbered lists of members and their data, and the rules by which a member says yes to one.

A view needs the yes of all its members, and more than half of the members that count must be in it and remember: they
have been told in a view, since their process began, what they may have forgotten. Where all that count are in it,
nobody needs to. So of two views one has a member that remembers the other, and what it has voted for; a restored backup
or a cloned disk makes no majority.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from glmesh.federation.totals.names import digest
from glmesh.federation.totals.statements import Held, MemberStatus, Record, Vote, canonical, parsed
from glmesh.types import Vector


@dataclass(frozen=True)
class ViewMember:
    """One member in a view: the process that takes part, known by its start and mask key, and its data.

    A view is a list of the members that make totals together.
    """

    id: int
    start: int  # of its process
    key: str  # its mask key
    pin: str  # of its data


@dataclass(frozen=True)
class View:
    """A numbered list of the members that make totals together, with the fit that they go on with.

    It is made when all its members have said yes to it.
    """

    number: int
    members: tuple[ViewMember, ...]  # ascending by id
    voters: tuple[int, ...]  # members that count from this view on
    held: Held  # the totals from which it goes on; those that lack some take them from the others
    vote: Vote | None  # of a member that may have been part of a majority: its model is taken over, no total is made

    @cached_property
    def digest(self) -> str:
        """Return the digest of all fields of the view, as 64 hexadecimal digits.

        A view is a list of the members that make totals together.
        """
        return digest("glmesh/view/1", self.body).hex()

    @cached_property
    def body(self) -> bytes:
        """Return the view as JSON bytes, from which `read_view` makes it again.

        A view is a list of the members that make totals together.
        """
        return canonical(self)

    @cached_property
    def keys(self) -> str:
        """Return the digest of the mask keys of all members of the view, as 64 hexadecimal digits.

        A view is a list of the members that make totals together.
        """
        return digest("glmesh/view-keys/1", *(f"{one.id} {one.start} {one.key}" for one in self.members)).hex()

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """Return the ids of the members of the view, ascending.

        A view is a list of the members that make totals together.
        """
        return tuple(one.id for one in self.members)

    @property
    def drawn(self) -> str:
        """Return the seed, 64 hexadecimal digits, of the point at which a fit begins anew in this view.

        It serves after a change of members or data; no other view has this seed. A view is a list of the members that
        make totals together.
        """
        return drawn_seed(self.number, self.members)

    def is_made(self, statuses: Mapping[int, MemberStatus]) -> bool:
        """Return whether all members of the view say yes to it; `statuses` is {id: newest MemberStatus}.

        A view is a list of the members that make totals together.
        """
        return all(one.id in statuses and statuses[one.id].yes == self.digest for one in self.members)


@lru_cache(maxsize=256)  # everybody passes the same views on
def read_view(body: bytes) -> View:
    """Return the View whose `body` these bytes are; raise Violation for other bytes. The last 256 are kept."""
    return parsed(View, body)


def drawn_seed(number: int, members: Sequence[ViewMember]) -> str:
    """Return the seed, 64 hexadecimal digits, of the point at which a fit begins anew in a view.

    `number` and `members` are those of the view, a numbered list of members.
    """
    return digest("glmesh/start/1", number, *(f"{one.id} {one.pin}" for one in members)).hex()


def set_digest(pins: Mapping[int, str]) -> str:
    """Return the digest, 64 hexadecimal digits, of a set of members and their data.

    `pins` is {id: random name of the member's data}. A federation file with equal sites and data has an equal digest.
    """
    return digest("glmesh/set/2", *(f"{one} {pins[one]}" for one in sorted(pins))).hex()


def drawn_start(seed: str, d: int) -> Vector:
    """Return the point at which a fit begins, shape (d,), in units in which columns have entries near one.

    The empty `seed` gives zero. Any other draws a sign and a size between 1/2 and 3/2 for each coordinate, divided by
    sqrt(d), so that predictions spread by about one and no two starts are near each other, also where d is small.
    """
    if not seed:
        return np.zeros(d)
    words = np.random.default_rng(int(seed, 16)).random((2, d))
    return np.asarray(np.where(words[0] < 0.5, -1.0, 1.0) * (0.5 + words[1]) / np.sqrt(d))


def has_majority(ids: Collection[int], voters: Collection[int], statuses: Mapping[int, MemberStatus]) -> bool:
    """Return whether a majority of `voters` is in `ids`: more than half that remember, or all of them.

    A voter remembers if its process was told in a view what it may have forgotten, as its entry in `statuses`, {id:
    MemberStatus}, says. A late member is no voter before somebody has said yes to a view with it. A view is a list of
    the members that make totals together.
    """
    if set(voters) <= set(ids):
        return True
    return 2 * sum(one in ids and statuses[one].remembers for one in voters) > len(voters)


def is_connected(ids: Collection[int], neighbours: Sequence[Sequence[int]]) -> bool:
    """Return whether the network of the members `ids` is connected; neighbours[k] are the neighbours of member k."""
    reached, edge = set[int](), [min(ids)]
    while edge:
        node = edge.pop()
        reached.add(node)
        edge += [one for one in neighbours[node] if one in ids and one not in reached]
    return len(reached) == len(set(ids))


def start_of(set_: str, records: Collection[Record | None], drawn: str) -> str:
    """Return the seed of the point at which a new fit begins; `set_` is the digest of its members and their data.

    The seed is empty, for zero, if no member has contributed before; that of the `records` of last contributions if all
    who have contributed did so to this set from one start; else `drawn`. So two sets never meet at one point.
    """
    known = {one for one in records if one is not None}
    if not known:
        return ""
    (first, *others) = known
    return first.start if not others and first.set == set_ else drawn


def best_vote(statuses: Collection[MemberStatus]) -> Vote | None:
    """Return the vote in the view with the largest number among those in the statuses; None if nobody has voted.

    A view is a list of the members that make totals together.
    """
    votes = [one.vote for one in statuses if one.vote is not None]
    return max(votes, key=lambda one: one.number) if votes else None


def may_meet(record: Record | None, set_: str, start: str) -> bool:
    """Return whether a member may go on with an earlier fit of the set `set_` that began at the point of seed `start`.

    `record` is the member's last contribution, None: there was none; `set_` is the digest of members and their data. A
    drawn start belongs to one set. Zero does not: somebody may hold a fit that began there and made no total, after
    which another set began there. So whoever has contributed since must have done so to this set from zero.
    """
    return bool(start) or record is None or (record.set, record.start) == (set_, start)


def best_held(set_: str, statuses: Collection[MemberStatus]) -> Held | None:
    """Return the longest run of totals that a member holds of the latest fit of a set of members.

    None if there is none. `set_` is the digest of the members and their data. Only fits count that all records allow
    (`may_meet`).
    """
    fits = [one.held for one in statuses if one.held is not None and one.held.set == set_]
    allowed = [held for held in fits if all(may_meet(one.record, set_, held.start) for one in statuses)]
    return max(allowed, key=lambda one: (one.born, one.count)) if allowed else None
