"""The part of a message that spreads the records of a certificate in the making."""

import struct
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Self, TypeVar

from glmesh.certificate.bound import BoundTerms
from glmesh.core import Buffer, Layout, Packed, Reader, Violation, array_bytes
from glmesh.types import Vector

_FIELDS = struct.Struct("<qqQBI")  # round, version and digest of the end, flags, number of rows
_NODE = struct.Struct("<I")
_STATES = ("reconciled", "corrected", "has_offer", "has_final", "has_flow")  # bit j of the flags
_VECTOR, _FLOW, _ALL = 1 << 5, 1 << 6, 1 << 7


T = TypeVar("T")


class Guard(NamedTuple, Generic[T]):
    """Five numbers of a node that are checked before numbers of several nodes are combined to a certificate.

    A certificate is a proven bound of the suboptimality. The five follow the node's BoundTerms in a row. T is float for
    one node, or a vector with an entry per member. rho is a random vector, shape (d,), that all nodes draw alike.
    """

    radius: T  # bound of |w_k - w| that the record relies on
    q: T  # <rho, s_k - u_k>; the sum over all members must vanish
    q_size: T  # |rho| |s_k - u_k|, the size of what cancels
    digest: T  # digest of the node's membership view, as a number
    gap: T  # upper bound of the decrease that the node's own subproblem allows


RECORD_WIDTH = len(BoundTerms._fields)
ROW_WIDTH = RECORD_WIDTH + len(Guard._fields)  # numbers of a row: BoundTerms, then Guard


@dataclass(slots=True)
class CertificateRecord:
    """Part of a message between neighbours that make a certificate, a proven bound of the duality gap of round T.

    It says which data of round T the sender has, and carries what the receiver seems to lack: rows of numbers of nodes,
    the sender's estimate of Ax over the number of nodes (`vector`; A the data matrix), and its flow over the link
    (`flow`).
    """

    round: int  # T, the round that the certificate is about
    end: tuple[int, int]  # version and digest of the sender's end of the link at T
    reconciled: bool  # the sender's s of T is final: it knows the other ends of all its links
    corrected: bool  # the final s is another than the sender had offered at T
    has_offer: bool  # the sender has the s that the receiver offered at T
    has_final: bool  # the sender has the receiver's final s
    has_flow: bool  # the sender needs no flow of the receiver's
    known: int  # bit k: the sender has the row of node k
    rows: dict[int, Vector] = field(default_factory=dict)  # rows (ROW_WIDTH,) that the receiver seems to lack, by node
    vector: Vector | None = None  # (d,) the sender's s, for a receiver that lacks it
    flow: Vector | None = None  # (d,) the sender's flow, for a receiver that was behind

    @property
    def nbytes(self) -> int:
        """Return the bytes counted for the record: 25, the bits of `known`, 4 and a row per node, the vectors."""
        rows = sum(4 + row.nbytes for row in self.rows.values())
        vectors = sum(part.nbytes for part in (self.vector, self.flow) if part is not None)
        return 25 + (self.known.bit_length() + 7) // 8 + rows + vectors

    def pack(self, layout: Layout) -> Packed:
        """Return the record as bytes: the fields, `known` as ceil(K/8) bytes for K nodes, the rows and the vectors.

        `layout` has the lengths of the message's arrays.
        """
        flags = sum(1 << place for place, name in enumerate(_STATES) if getattr(self, name))
        flags |= _VECTOR * (self.vector is not None) | _FLOW * (self.flow is not None)
        body: list[Buffer] = [_FIELDS.pack(self.round, *self.end, flags, len(self.rows))]
        body.append(self.known.to_bytes((layout.n_nodes + 7) // 8, "little"))
        body += [_NODE.pack(node) + row.astype("<f8").tobytes() for node, row in self.rows.items()]
        body += [array_bytes(vector) for vector in (self.vector, self.flow) if vector is not None]
        return Packed(b"", 1, tuple(body))

    @classmethod
    def unpack(cls, head: bytes, flags: int, body: Reader, layout: Layout) -> Self:
        """Return the record that `pack` made bytes of.

        Raise Violation for a round below 0, rows of unknown nodes, and vectors that are not finite. `head` are its
        fields of fixed length as bytes, `flags` bits that say what is optional, `body` reads the arrays, whose lengths
        `layout` has.
        """
        round, version, digest, flags, n_rows = body.unpack(_FIELDS)
        if round < 0 or n_rows > layout.n_nodes or flags >= _ALL:
            raise Violation(f"a certificate record about round {round} with {n_rows} rows")
        known = int.from_bytes(body.take((layout.n_nodes + 7) // 8), "little")
        rows: dict[int, Vector] = {}
        for _ in range(n_rows):
            (node,) = body.unpack(_NODE)
            row = body.array("<f8", ROW_WIDTH).astype(float)  # infinities and NaN have a meaning in records
            if node >= layout.n_nodes or node in rows:
                raise Violation(f"a record of node {node}, of {layout.n_nodes}")
            rows[node] = row
        vector = body.vector(layout.d, what="a recorded estimate") if flags & _VECTOR else None
        flow = body.vector(layout.d, what="a recorded flow") if flags & _FLOW else None
        states = {name: bool(flags >> place & 1) for place, name in enumerate(_STATES)}
        return cls(round, (version, digest), known=known, rows=rows, vector=vector, flow=flow, **states)
