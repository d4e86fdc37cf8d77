"""What the nodes of a block send and receive in one exchange."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from glmesh.core.totals import A, Answers, Largest, Total
from glmesh.core.wire import Layout, Packed, Reader
from glmesh.errors import InvalidInput
from glmesh.kernels.mix import mix
from glmesh.parallel import SERIAL, ThreadPool
from glmesh.types import Indices, Matrix, Unsigned, Vector


class Part(Protocol):
    """Protocol of one typed content of a Mail, such as an Offer: a dataclass that can become bytes and back."""

    @property
    def nbytes(self) -> int:
        """Bytes that this content adds to a message in the count of bytes sent, `Traffic.bytes`."""

    def pack(self, layout: Layout) -> Packed:
        """Return this content as bytes for a message whose lengths are those of `layout`."""

    @classmethod
    def unpack(cls, head: bytes, flags: int, body: Reader, layout: Layout) -> Self:
        """Return the content whose `pack` gave these bytes; raise Violation for bytes that `pack` cannot have made.

        `head` are its fields of fixed length as bytes, `flags` bits that say what is optional, `body` reads the arrays,
        whose lengths `layout` has.
        """


P = TypeVar("P", bound=Part)


@dataclass(slots=True)
class Mail:
    """A message from one node to one neighbour: a list of contents (`Part`), at most one of each type."""

    sender: int  # id of a node
    receiver: int  # id of a node
    parts: list[Part]  # the contents

    def part(self, kind: type[P]) -> P | None:
        """Return the content of type `kind` in this message, or None if the message has none."""
        for one in self.parts:
            if isinstance(one, kind):
                return one
        return None

    @property
    def nbytes(self) -> int:
        """Bytes of all parts of the message together."""
        return sum([one.nbytes for one in self.parts])


@dataclass
class Outbox:
    """All that the nodes of a block send in one exchange: rows to all neighbours, and mail to single neighbours.

    `vectors` has a row per node that goes to all its neighbours, `scalars` too; minus infinity is not sent, None sends
    nothing. `mail` holds messages to one neighbour each.
    """

    vectors: Matrix | None = None  # (n_hosted, d) to all neighbours; unchanged until the next exchange has returned
    scalars: Matrix | None = None  # (n_hosted, n) a row to all neighbours; minus infinity is not sent
    mail: list[Mail] = field(default_factory=list)

    def asked_of(self, answers: Answers[A]) -> A:
        """Raise InvalidInput: `answers` has sums and maxima, and rows and mail need an exchange with neighbours."""
        raise InvalidInput("where sites make totals, a round may ask for totals and maxima only, not for messages")


class Riding(NamedTuple):
    """Scalars and parts of other modules that are sent with the messages of a gossip step; None: nothing.

    `scalars` has a row per hosted node for all its neighbours, `parts` one part per hosted node for all of its
    messages.
    """

    scalars: Matrix | None = None  # (n_hosted, n) to all neighbours of a node
    parts: Sequence[Part] | None = None  # one per hosted node, added to all of its mail


NOTHING = Riding()


@dataclass(frozen=True)
class Contents:
    """Kinds of content that a method sends, or a transport can carry: vectors, scalars, totals, types of parts.

    Totals are sums and maxima over all nodes; `parts` are the classes of the parts of messages, None: any. For a
    transport there is also its name and the `remedy` that errors advise.
    """

    vectors: bool = False
    scalars: bool = False
    totals: bool = False  # `Total` and `Largest`
    parts: frozenset[type] | None = frozenset()  # types of mail's parts; None: anything at all is carried
    transport: str = ""  # name of the transport that carries them
    remedy: str = ""  # advice to those who send other content over that transport

    def names(self) -> set[str]:
        """Return the names of the kinds that are set: "vectors", "scalars", "totals", and the class names of parts."""
        rows = {name for name in ("vectors", "scalars", "totals") if getattr(self, name)}
        return rows | {kind.__name__ for kind in self.parts or ()}

    @staticmethod
    def of(outbox: Outbox) -> Contents:
        """Return the kinds of content that an outbox holds."""
        kinds = frozenset(type(part) for mail in outbox.mail for part in mail.parts)
        return Contents(outbox.vectors is not None, outbox.scalars is not None, parts=kinds)

    def check(self, sent: Contents) -> None:
        """Raise InvalidInput, which names the remedy, if a transport that carries these kinds does not carry `sent`."""
        lacks = set() if self.parts is None else sent.names() - self.names()
        if lacks:
            carried, more = ", ".join(sorted(self.names())), ", ".join(sorted(lacks))
            raise InvalidInput(f"{self.transport} carries {carried}; the method sends {more} too. {self.remedy}")


@dataclass(frozen=True)
class Halo:
    """All that the nodes of a block received in one exchange: their neighbours' rows with mixing weights, and mail.

    The neighbours of the block's k-th node (itself included, ascending ids) are entries pointers[k]..pointers[k+1] of
    `neighbours`. Read vectors before the next exchange, scalars before the next but one.
    """

    pointers: Unsigned  # (n_hosted + 1,)
    neighbours: Unsigned  # (entries,) the neighbours' rows in `vectors` and `scalars`
    weights: Vector  # (entries,) mixing weight W_kl; 0 for a neighbour that is missing
    ids: Unsigned  # (entries,) ids of the neighbours
    vectors: Matrix | None  # (rows, d); None if none were sent
    scalars: Matrix | None  # (rows, n); None if none were sent
    own: Unsigned  # (n_hosted,) rows of the block's own nodes
    mail: list[Mail] = field(default_factory=list)  # for the block's nodes

    def mix(self, out: Matrix, scale: float = 1.0, threads: ThreadPool = SERIAL) -> Matrix:
        """Write out_k = sum_l P_kl vectors_l, with P = I - scale (I - W), for the block's nodes; return `out`.

        W_kl are the mixing weights of the links, and vectors_l what neighbour l sent; `out` has shape (n_hosted, d).
        `threads` share the work.
        """
        vectors, weights = self.vectors, self.weights
        assert vectors is not None
        if scale != 1.0:
            counts = self.pointers[1:].astype(np.int64) - self.pointers[:-1].astype(np.int64)
            own = np.repeat(self.own, counts) == self.neighbours
            weights = scale * weights + np.where(own, 1.0 - scale, 0.0)

        ends = self.pointers.astype(np.int64)
        spans = threads.spans(ends[1:] - ends[:-1])
        pointers = [self.pointers[span.start : span.stop + 1] for span in spans]
        shared = repeat(self.neighbours), repeat(weights), repeat(vectors)
        list(threads.map(mix, pointers, *shared, [out[span] for span in spans]))
        return out

    def of_scalars(self, which: slice) -> Halo:
        """Return a copy of this halo that has only the columns `which` (a slice) of `scalars`.

        Itself if it has no scalars. A halo is all that a block's nodes received in one exchange.
        """
        return self if self.scalars is None else replace(self, scalars=self.scalars[:, which])

    def largest_scalars(self) -> Matrix:
        """Return the maximum of each of the n scalars over a hosted node and its neighbours, shape (n_hosted, n)."""
        assert self.scalars is not None
        largest: Matrix = np.maximum.reduceat(self.scalars[self.neighbours], self.pointers[:-1].astype(np.int64))
        return largest

    def around(self, k: int) -> tuple[Indices, Vector]:
        """Return (rows, weights) of the neighbours of the block's k-th node, itself included, by ascending ids.

        rows are indices into `vectors` and `scalars`, weights the mixing weights of the links: 0 for a neighbour from
        which nothing arrived.
        """
        a, b = int(self.pointers[k]), int(self.pointers[k + 1])
        return self.neighbours[a:b].astype(np.int64), self.weights[a:b]

    def ids_around(self, k: int) -> Indices:
        """Return the ids of the neighbours of the block's k-th node, itself included, ascending."""
        return self.ids[int(self.pointers[k]) : int(self.pointers[k + 1])].astype(np.int64)


# what a round may yield, and is answered by: Outbox by Halo, Total by Sums, Largest by whole numbers of shape (n,)
Request = Outbox | Total | Largest
AnyRounds = Generator[Request, Any, Any]
Rounds = Generator[Outbox, Halo, Any]
