"""What one node sends to one neighbour in one exchange, beside or instead of a row that all of them get."""

from __future__ import annotations

from dataclasses import dataclass, field

from glmesh.gossip.edge import Offer
from glmesh.types import Indices, Vector


@dataclass(slots=True)
class Snapshot:
    """A node's s at one round, and the state that its end of the link was in."""

    vector: Vector
    version: int
    digest: int


@dataclass(slots=True)
class Note:
    """What a certificate needs of the round that it is about; rides along with offers."""

    round: int
    have: bool  # the sender has the receiver's s of that round
    known: int  # whose records the sender has: bit k for node k
    rows: dict[int, Vector] = field(default_factory=dict)  # records that the receiver seems to lack
    snapshot: Snapshot | None = None  # for a receiver that missed the offer of that round

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        rows = sum(4 + row.nbytes for row in self.rows.values())
        return (
            9 + (self.known.bit_length() + 7) // 8 + rows + (self.snapshot.vector.nbytes + 16 if self.snapshot else 0)
        )


@dataclass(slots=True)
class Letter:
    """An offer, and what the sender knows of the members and of a certificate in the making."""

    offer: Offer
    members: int  # a digest of the sender's view of who takes part
    view: Indices | None = None  # the view itself, for a receiver that seems to have another
    note: Note | None = None

    @property
    def sender(self) -> int:
        """Who sent it."""
        return self.offer.sender

    @property
    def receiver(self) -> int:
        """Whom it is for."""
        return self.offer.receiver

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return (
            self.offer.size
            + 8
            + (4 * len(self.view) if self.view is not None else 0)
            + (self.note.size if self.note else 0)
        )
