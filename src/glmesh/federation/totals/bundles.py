"""What a site asks for, and what members send each other of it: a question, totals that are wanted or given."""

from __future__ import annotations

from dataclasses import dataclass, field

from glmesh.federation.totals.flood import Ask, Contribution
from glmesh.federation.totals.memory import KeptTotal
from glmesh.federation.totals.statements import Signed
from glmesh.federation.totals.views import View
from glmesh.types import Unsigned


@dataclass(frozen=True, eq=False)
class Question:
    """A fit's request for one total, a sum over all members, with this member's contribution to it."""

    request: bytes  # what is asked for, equal at all members: point, columns, grains
    content: Unsigned  # (numbers,) this member's contribution
    fit: str  # name of the fit that asks
    place: int  # totals of the fit before it
    number: int  # of the total, from 1; one that did not fit and is made again has the same
    attempt: int = 1  # one more for each misfit before it
    marks: int = 0  # numbers at its beginning that are 0 or 1 (`masks.edges_below`): a random word is sent for a 1

    @property
    def length(self) -> int:
        """Return how many numbers the total (a sum over all members) has."""
        return len(self.content)


@dataclass(frozen=True)
class WantTotals:
    """A request to a neighbour for totals of a fit that this member lacks: numbers `first` to `last` - 1, from 0.

    A total is a sum over all members.
    """

    fit: str
    first: int  # how many it holds
    last: int  # how many there are


@dataclass(frozen=True, eq=False)
class GiveTotals:
    """Answer to WantTotals: consecutive totals of a fit, the first of which has number `first`, counted from 0.

    A total is a sum over all members.
    """

    fit: str
    first: int
    entries: tuple[KeptTotal, ...]


@dataclass(eq=False)
class Bundle:
    """All that one member sends to a neighbour in one message: statuses, views, contributions, requests and answers.

    A view is a list of the members that make totals together.
    """

    statuses: list[Signed] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    parts: list[Contribution] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    want_totals: WantTotals | None = None
    totals: GiveTotals | None = None
    want_content: list[str] = field(default_factory=list)  # digests of requests and models that the sender lacks
    content: list[tuple[str, bytes]] = field(default_factory=list)  # (digest, request or model)

    @property
    def is_empty(self) -> bool:
        """Return whether the bundle holds nothing, so that it need not be sent."""
        lists = (self.statuses, self.views, self.parts, self.asks, self.want_content, self.content)
        return not any(lists) and self.want_totals is None and self.totals is None


@dataclass(frozen=True)
class Conflict:
    """Unequal requests of members for one total: all take the request of the member with the lowest id, or refuse.

    A total is a sum over all members.
    """

    member: int  # lowest id of the view
    request: bytes
    attempt: int  # from now on
