"""What one node sends to one neighbour in one exchange, beside or instead of a row that all of them get."""

from __future__ import annotations

from dataclasses import dataclass, field

from glmesh.collectives.pipeline import ObjectiveDigest
from glmesh.gossip.edge import Offer
from glmesh.types import Indices, Vector


@dataclass(slots=True)
class CertificateRecord:
    """What a certificate needs of the round that it is about; rides along with offers."""

    round: int
    end: tuple[int, int]  # version and digest of the sender's end of the link in that round
    settled: bool  # the sender knows the other ends of all its links
    corrected: bool  # and had to correct the s that it offered then
    has_offer: bool  # the sender has the s that the receiver offered then
    has_final: bool  # and knows that it stands, or has the corrected one
    has_flow: bool  # the sender needs no flow of the receiver's
    known: int  # whose records the sender has: bit k for node k
    rows: dict[int, Vector] = field(default_factory=dict)  # records that the receiver seems to lack
    vector: Vector | None = None  # the sender's s, for a receiver that lacks it
    flow: Vector | None = None  # the sender's flow, for a receiver that was behind

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        rows = sum(4 + row.nbytes for row in self.rows.values())
        vectors = sum(part.nbytes for part in (self.vector, self.flow) if part is not None)
        return 25 + (self.known.bit_length() + 7) // 8 + rows + vectors


@dataclass(slots=True)
class LinkMessage:
    """An offer, and what the sender knows of the members and of a certificate in the making."""

    offer: Offer
    members: int  # a digest of the sender's view of who takes part
    view: Indices | None = None  # the view itself, for a receiver that seems to have another
    note: CertificateRecord | None = None
    pulse: ObjectiveDigest | None = None

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
            + (self.pulse.size if self.pulse else 0)
        )
