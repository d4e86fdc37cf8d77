"""Who takes part in a run, as one node sees it, and how views spread."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from glmesh.core import Layout, Packed, Reader, Violation
from glmesh.types import Flags, Indices

_DIGEST = struct.Struct("<Q")
DIGEST_BYTES = _DIGEST.size


@dataclass(frozen=True, eq=False)
class MembershipView:
    """Who is a member, as one node sees it: a counter per node, of which the larger is always the newer.

    Counters, shape (K,), only grow. Joining and leaving add one: odd is a member, even has left or, if zero, not joined
    yet. New data adds two. K is the number of nodes.
    """

    counts: Indices  # (K,) the counters

    @cached_property
    def flags(self) -> Flags:
        """Return a mask of shape (K,), true for each node that is a member in this view.

        K is the number of nodes. A view says who is a member, as one node sees it.
        """
        return (self.counts & 1).astype(bool)

    @cached_property
    def n_members(self) -> int:
        """Return the number of members in this view.

        A view says who is a member, as one node sees it.
        """
        return int(np.count_nonzero(self.flags))

    @cached_property
    def digest(self) -> int:
        """Return a 48-bit hash of the counters; equal views have equal digests on all machines."""
        content = self.counts.astype("<i8").tobytes()
        return int.from_bytes(hashlib.blake2b(content, digest_size=6).digest(), "little")

    def members(self) -> list[int]:
        """Return the ids of the members, ascending."""
        ids: list[int] = np.flatnonzero(self.flags).tolist()
        return ids

    def is_member(self, node: int) -> bool:
        """Return whether node `node` is a member in this view.

        A view says who is a member, as one node sees it.
        """
        return bool(self.flags[node])

    def has_left(self, node: int) -> bool:
        """Return whether node `node` was a member and is one no more."""
        return bool(self.counts[node] > 0) and not self.is_member(node)

    def with_count(self, node: int, count: int) -> MembershipView:
        """Return a copy of this view with the counter of node `node` set to `count`.

        A view says who is a member, as one node sees it.
        """
        counts = self.counts.copy()
        counts[node] = count
        return MembershipView(counts)

    def merged(self, counts: Indices) -> MembershipView:
        """Return a view whose counters, shape (K,), are the larger ones of this view and of `counts`.

        Return this very object if no counter in `counts` is larger. K is the number of nodes. A view says who is a
        member, as one node sees it.
        """
        return MembershipView(np.maximum(self.counts, counts)) if (counts > self.counts).any() else self


@dataclass(slots=True)
class Membership:
    """Content of a message: a digest of the sender's membership view, and its counters if the receiver's may differ.

    A view says who is a member, as one node sees it.
    """

    digest: int  # of the sender's view
    counts: Indices | None = None  # (K,) counters of the view; None: not sent

    @property
    def nbytes(self) -> int:
        """Return the bytes that this content counts as in a message: 8 of digest, and 4 per counter that is sent."""
        return DIGEST_BYTES + (0 if self.counts is None else 4 * len(self.counts))

    def pack(self, layout: Layout) -> Packed:
        """Return this content as bytes: the digest, and the counters, if sent, as whole numbers of 8 bytes.

        `layout` has the lengths of the message's arrays.
        """
        body = () if self.counts is None else (self.counts.astype("<i8").tobytes(),)
        return Packed(_DIGEST.pack(self.digest), len(body), body)

    @classmethod
    def unpack(cls, head: bytes, flags: int, body: Reader, layout: Layout) -> Self:
        """Return the Membership whose `pack` gave these bytes; raise Violation for a negative counter.

        `head` are its fields of fixed length as bytes, `flags` bits that say what is optional, `body` reads the arrays,
        whose lengths `layout` has.
        """
        counts = body.array("<i8", layout.n_nodes).astype(np.int64) if flags else None
        if counts is not None and (counts < 0).any():
            raise Violation("a view of the members with a negative count")
        (digest,) = _DIGEST.unpack(head)
        return cls(digest, counts)
