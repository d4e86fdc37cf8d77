"""Pipelined sums of one number per node and round, which ride along with the exchanges that a method makes anyway."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from glmesh.core import Block, Halo, Layout, Packed, PerNode, Reader, Violation
from glmesh.types import Flags, Indices, Matrix, Vector

_WHOLE = struct.Struct("<q")
_MOST = 1 << 62  # largest round that a message may name, because differences of two must fit into int64


@dataclass
class TreeAggregate:
    """Sum over all nodes of one scalar per node and round, pipelined along the spanning tree.

    The total of round r reaches all nodes in round r + 2 * depth, bitwise equal, with exchanges that are made anyway;
    depth is the number of links from the root to the farthest node.
    """

    own: PerNode[Matrix]  # (n_hosted, depth + 1) scalars of the last rounds, the newest first
    below: PerNode[Vector]  # (n_hosted,) sum of the children's subtrees, of one round
    totals: PerNode[Matrix]  # (n_hosted, depth + 1) totals that came down in the last rounds, the newest first

    @staticmethod
    def of(block: Block) -> TreeAggregate:
        """Return the aggregate before the first round; all totals are NaN, which means not known.

        A total is a sum over all nodes.
        """
        unknown = np.full((block.size, block.info.depth + 1), np.nan)
        return TreeAggregate(unknown, np.zeros(block.size), unknown.copy())

    def outgoing(self, block: Block, parts: Vector) -> Matrix:
        """Store this round's scalars, shape (n_hosted,), and return the two that each node sends, shape (n_hosted, 2).

        The two are the sum over the node's subtree, for its parent, and the newest total, for its children; both belong
        to earlier rounds, the earlier the nearer the node is to the root (sum) or to the leaves (total). `parts` are
        the scalars of this round.
        """
        depths = _depths(block)
        self.own[:, 1:] = self.own[:, :-1]
        self.own[:, 0] = parts
        up = self.own[np.arange(block.size), block.info.depth - depths] + self.below
        root = depths == 0
        self.totals[root, 0] = up[root]
        return np.stack([up, self.totals[:, 0]], axis=1)

    def incoming(self, block: Block, halo: Halo) -> Vector:
        """Take the neighbours' scalars from the halo (what they sent) and return the newest total, shape (n_hosted,).

        It is that of 2 * depth rounds ago, depth being the number of links from the root of the spanning tree to the
        farthest node: NaN while it is not known, and otherwise equal at all nodes. A total is a sum over all nodes.
        """
        assert halo.scalars is not None
        parents, depths = block.info.parents, _depths(block)
        known = self.totals[np.arange(block.size), block.info.depth - depths].copy()
        self.totals[:, 1:] = self.totals[:, :-1]
        for k in range(block.size):
            rows, _ = halo.around(k)
            ids, me = halo.ids_around(k), int(block.ids[k])
            self.below[k] = halo.scalars[rows[parents[ids] == me], 0].sum()
            if depths[k]:
                self.totals[k, 0] = halo.scalars[rows[ids == parents[me]][0], 1]
        return known


def _depths(block: Block) -> Indices:
    """Return the number of links from each hosted node to the root of the spanning tree, shape (n_hosted,)."""
    depths: Indices = block.info.depths[block.ids.astype(np.int64)]
    return depths


@dataclass(frozen=True, eq=False)
class ObjectiveDigest:
    """Part of a message under momentum where messages get lost: the newest f(v_k)/K + g_k(x_k) of each node k.

    The sum over all nodes is the objective H; the digest also carries the round of the newest restart of momentum. A
    digest holds what a node has heard of all nodes' scalars.
    """

    stamps: Indices  # (K,) round of each node's part; -1: not heard of
    parts: Vector  # (K,) f(v_k)/K + g_k(x_k); NaN where not heard of
    restart: int  # round of the newest restart of momentum; -1: none

    @cached_property  # a node sends one digest to all its neighbours
    def nbytes(self) -> int:
        """Return the bytes counted for the digest: 4, and 16 per node heard of (its number, round and id)."""
        return 4 + 16 * int(np.count_nonzero(self.stamps >= 0))

    def pack(self, layout: Layout) -> Packed:
        """Return the digest as bytes: K rounds, K numbers f(v_k)/K + g_k(x_k), and one more round, 8 bytes each.

        K is the number of nodes. The rounds say of when each number is, and the last one when momentum began anew.
        `layout` has the lengths of the message's arrays.
        """
        stamps, parts = self.stamps.astype("<i8").tobytes(), self.parts.astype("<f8").tobytes()
        return Packed(b"", 1, (stamps, parts, _WHOLE.pack(self.restart)))

    @classmethod
    def unpack(cls, head: bytes, flags: int, body: Reader, layout: Layout) -> Self:
        """Return the ObjectiveDigest that `pack` made bytes of.

        Raise Violation for rounds out of range, and for numbers of nodes heard of that are not finite. `head` are its
        fields of fixed length as bytes, `flags` bits that say what is optional, `body` reads the arrays, whose lengths
        `layout` has.
        """
        stamps = body.array("<i8", layout.n_nodes).astype(np.int64)
        parts = body.array("<f8", layout.n_nodes).astype(np.float64)
        (restart,) = body.unpack(_WHOLE)
        if (stamps < -1).any() or (stamps >= _MOST).any() or not -1 <= restart < _MOST:
            raise Violation("an objective digest: expected rounds from -1 to 2^62, got others")
        if not np.isfinite(parts[stamps >= 0]).all():
            raise Violation("an objective digest with NaN or infinity")
        return cls(stamps, parts, restart)


@dataclass
class EpidemicAggregate:
    """At each node, the sum over the members of one scalar per node and round, where messages may be lost.

    A node passes on the newest scalar that it has heard of every other one; for a node that was away an older scalar is
    counted. `parts` are the newest scalars heard of and `stamps` their rounds, shape (n_hosted, K) for K nodes; `ring`
    has those of the last rounds, `restarts` the newest restart of momentum heard of.
    """

    stamps: PerNode[Indices]  # (n_hosted, K) round of the newest part heard of
    parts: PerNode[Matrix]  # (n_hosted, K) newest part heard of; NaN: none
    ring: PerNode[Matrix]  # (n_hosted, 2 depth + 1, K) parts of the last rounds; round r is in row r mod (2 depth + 1)
    ring_rounds: PerNode[Indices]  # (n_hosted, 2 depth + 1, K) round of each entry of `ring`
    counted: PerNode[Matrix]  # (n_hosted, K) newest part not after the round of the last call of `at`
    restarts: PerNode[Indices]  # (n_hosted,) round of the newest restart heard of; -1: none

    @staticmethod
    def of(block: Block) -> EpidemicAggregate:
        """Return the aggregate before the first round: scalars are NaN and their rounds -1, not heard of."""
        shape = (block.size, block.info.n_nodes)
        ring = (block.size, 2 * block.info.depth + 1, block.info.n_nodes)
        unknown, never = np.full(shape, np.nan), np.full(shape, -1)
        return EpidemicAggregate(
            never, unknown, np.zeros(ring), np.full(ring, -1), unknown.copy(), np.full(block.size, -1)
        )

    def _keep(self, k: int, nodes: int | Indices | slice, stamps: int | Indices, parts: float | Vector) -> None:
        """Store the scalars `parts` of `nodes`, of rounds `stamps`, as the newest that hosted node k knows."""
        self.stamps[k, nodes], self.parts[k, nodes] = stamps, parts
        at = stamps % self.ring.shape[1]
        self.ring[k, at, nodes], self.ring_rounds[k, at, nodes] = parts, stamps

    def outgoing(self, block: Block, parts: Vector, round: int, up: Flags) -> list[ObjectiveDigest]:
        """Store the scalars `parts` of this round, shape (n_hosted,), of the nodes that are `up`.

        Return what nodes send. That is a list with an ObjectiveDigest per hosted node, to be sent to all its
        neighbours. `up` is a mask of shape (n_hosted,).
        """
        for k in np.flatnonzero(up):
            self._keep(int(k), int(block.ids[k]), round, parts[k])
        return [
            ObjectiveDigest(self.stamps[k].copy(), self.parts[k].copy(), int(self.restarts[k]))
            for k in range(block.size)
        ]

    def incoming(self, block: Block, halo: Halo) -> None:
        """Store the scalars in the neighbours' digests that are newer than those known, and the newest restart.

        A digest holds what a node has heard of all nodes' scalars.
        """
        for mail in halo.mail:
            digest = mail.part(ObjectiveDigest)
            if digest is None:
                continue
            k = mail.receiver - int(block.ids[0])
            newer = np.flatnonzero(digest.stamps > self.stamps[k])
            self._keep(k, newer, digest.stamps[newer], digest.parts[newer])
            self.restarts[k] = max(self.restarts[k], digest.restart)

    def at(self, k: int, round: int, members: Flags) -> tuple[float, bool]:
        """Return (sum of the members' scalars of `round` as the k-th hosted node knows it, whether it is up to date).

        It is up to date if no scalar is of an earlier round. `members` is a mask of shape (K,). The sum is NaN while
        some member was never heard of. Must be called for every round in turn, because an older scalar stands in for
        one that is missing.
        """
        if round < 0:
            return np.nan, True
        turn = round % self.ring.shape[1]
        known = self.ring_rounds[k, turn] == round
        self.counted[k, known] = self.ring[k, turn, known]
        return float(self.counted[k, members].sum()), bool(known[members].all())
