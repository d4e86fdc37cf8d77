"""Routes of a total over a network: which messages carry it, in which exchange, and how long they are.

A simulator that adds contributions up in one place, and MPI, which does it by an all-reduce, count by these routes what
nodes would send each other; `glmesh.collectives.routed` sends those very messages.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.sparse import csgraph

from glmesh.collectives.totals import SHORT_VECTORS
from glmesh.network import Mixing, topology
from glmesh.types import Indices, Vector

HEAD, NODE_ID = 8, 4  # [bytes] of a message: number of the total; id of a contribution, before its numbers
NUMBER, SHORT = 8, 2  # [bytes] of a number of a contribution: of a sum; of a maximum, an exponent of 16 bits
MOST_ENTRIES = 2**18  # of a table of neighbours that would do, because 2 MB stay in a core's cache; nodes go in parts
SIDES: tuple[Literal["left"], Literal["right"]] = ("left", "right")  # of the links of a node


@dataclass(frozen=True, eq=False)
class Leg:
    """All messages of one exchange of a total: who sends to whom, and how many contributions each message has.

    A contribution is a row of numbers of one node, or the sum of several such rows.
    """

    senders: Indices  # (messages,)
    receivers: Indices  # (messages,)
    rows: Indices  # (messages,) contributions, or sums of several, in each message

    def sizes(self, length: int) -> Vector:
        """Return the bytes of each message of this exchange, shape (messages,), if a contribution has `length` bytes.

        A message that carries several contributions is longer by that many.
        """
        return np.asarray(HEAD + self.rows * (NODE_ID + length), dtype=np.float64)


class Routes:
    """Routes of totals over the links of a network: along a tree from each author, or sums along one tree.

    Flooding, a contribution reaches each node once, by a shortest way; the other way goes along the spanning tree.

    Parameters
    ----------
    mixing : Mixing
        Its off-diagonal entries are the links.
    """

    def __init__(self, mixing: Mixing) -> None:
        self._matrix = mixing.matrix
        self.n_nodes = mixing.n_nodes
        self._load: dict[bool, tuple[Indices, Indices]] = {}  # by whether it floods: messages and rows of each sender

    def floods(self, length: int) -> bool:
        """Return whether contributions of `length` bytes are flooded (True) or go along the spanning tree (False).

        They are flooded where all nodes are neighbours, and where those of all nodes have at most SHORT_VECTORS bytes.
        """
        if self.n_nodes > topology.EXACT_DIAMETER:  # beyond, the diameter is not known
            return self._complete
        return self._complete or length * self.n_nodes <= SHORT_VECTORS

    def legs(self, length: int) -> list[Leg]:
        """Return a Leg, the messages of one exchange, per exchange of a total of `length` bytes per node, in order.

        A total is a sum over all nodes.
        """
        return self._flood if self.floods(length) else self._tree

    def exchanges(self, length: int) -> int:
        """Return the number of exchanges that a total of `length` bytes per node takes.

        By flooding that is the diameter of the network, along the spanning tree twice its depth. A total is a sum over
        all nodes.
        """
        return len(self.legs(length))

    def bytes_of(self, length: int) -> Indices:
        """Return the bytes that each of the K nodes sends for a total of `length` bytes per node, shape (K,).

        A total is a sum over all nodes.
        """
        way = self.floods(length)
        if way not in self._load:
            legs, n = self.legs(length), self.n_nodes
            messages = sum((np.bincount(leg.senders, minlength=n) for leg in legs), np.zeros(n, np.int64))
            rows = sum((np.bincount(leg.senders, leg.rows, n).astype(np.int64) for leg in legs), np.zeros(n, np.int64))
            self._load[way] = messages, rows
        messages, rows = self._load[way]
        return np.asarray(HEAD * messages + rows * (NODE_ID + length))

    @cached_property
    def links(self) -> tuple[Indices, Indices]:
        """(senders, receivers) of all directed links: ids of nodes, each of shape (n_links,), ascending by sender."""
        receivers = self._matrix.indices.astype(np.int64)
        senders = np.repeat(np.arange(self.n_nodes), np.diff(self._matrix.indptr))
        apart = senders != receivers
        return senders[apart], receivers[apart]

    @cached_property
    def neighbours(self) -> list[list[int]]:
        """List with the ids of the neighbours of each node, K ascending lists without the node itself.

        K is the number of nodes.
        """
        senders, receivers = self.links
        ends = np.searchsorted(senders, np.arange(1, self.n_nodes))
        return [part.tolist() for part in np.split(receivers, ends)]

    @cached_property
    def diameter(self) -> int:
        """Number of links of the longest shortest path between two nodes; beyond 1,024 nodes an upper bound."""
        return topology.diameter(self._matrix)

    @property
    def _complete(self) -> bool:
        """Return whether every node is linked to every other."""
        return len(self.links[0]) == self.n_nodes * (self.n_nodes - 1)

    @cached_property
    def tree(self) -> tuple[Indices, int]:
        """(parent of each node in the spanning tree, shape (K,), -1 at the root; depth of the tree in links).

        K is the number of nodes.
        """
        return topology.spanning_tree(self._matrix)

    @cached_property
    def children(self) -> list[list[int]]:
        """List with the ids of the children of each node in the spanning tree, K ascending lists.

        K is the number of nodes.
        """
        parents, _ = self.tree
        return [np.flatnonzero(parents == node).tolist() for node in range(self.n_nodes)]

    @cached_property
    def _tree(self) -> list[Leg]:
        """A list of Leg, one per exchange along the spanning tree: sums of subtrees go up, then the total comes down.

        A node sends its subtree's sum as soon as all its children have sent theirs.
        """
        parents, depth = self.tree
        heights, depths = np.zeros(self.n_nodes, np.int64), np.zeros(self.n_nodes, np.int64)
        for node in range(self.n_nodes):
            at, up = node, 0
            while parents[at] >= 0:
                at, up = int(parents[at]), up + 1
                heights[at] = max(heights[at], up)
            depths[node] = up
        below = np.arange(self.n_nodes)[parents >= 0]
        ups = [below[heights[below] == stage] for stage in range(depth)]
        downs = [below[depths[below] == stage + 1] for stage in range(depth)]
        return [Leg(some, parents[some], np.ones(len(some), np.int64)) for some in ups] + [
            Leg(parents[some], some, np.ones(len(some), np.int64)) for some in downs
        ]

    @cached_property
    def sources(self) -> Indices:
        """(K, K) neighbour from which node j gets node i's flooded contribution, at [i, j]; -1 at [i, i].

        Row i is a breadth-first tree from node i. Of several neighbours that would do, nodes take turns, so that no
        neighbour sends much more than others.
        """
        distance, (nodes, near), n = self._distance, self.links, self.n_nodes
        sources = np.full((n, n), -1)
        n_parts = min(n, 1 + n * len(nodes) // MOST_ENTRIES)
        for part in np.array_split(np.arange(n), n_parts):
            first, end = np.searchsorted(nodes, (part[0], part[-1] + 1))
            of, via = nodes[first:end], near[first:end]
            nearer = distance[:, via] == distance[:, of] - 1  # (K, links of the part)
            seen = np.zeros((n, 1 + len(of)), dtype=np.int64)  # links that would do, before each link
            np.cumsum(nearer, axis=1, out=seen[:, 1:])
            before, after = (seen[:, np.searchsorted(of, part, side)] for side in SIDES)  # (K, nodes of the part)
            turn = before + (np.arange(n)[:, None] + part) % np.maximum(after - before, 1)
            authors, links = np.nonzero(nearer & (seen[:, :-1] == turn[:, of - part[0]]))
            sources[authors, of[links]] = via[links]
        return sources

    @cached_property
    def _distance(self) -> Indices:
        """Number of links between nodes i and j, at [i, j] of shape (K, K)."""
        return np.asarray(csgraph.shortest_path(self._matrix, unweighted=True), dtype=np.int64)

    @cached_property
    def _flood(self) -> list[Leg]:
        """A list of Leg, one per exchange of flooding: a node passes each new contribution along its author's tree."""
        senders, receivers = self.links
        if self._complete:
            return [Leg(senders, receivers, np.ones(len(senders), np.int64))] if len(senders) else []
        distance, sources = self._distance, self.sources
        number = np.full(distance.shape, -1)  # of the link from node i to node j, at [i, j]
        number[senders, receivers] = np.arange(len(senders))
        authors, nodes = np.nonzero(sources >= 0)
        stages = distance[authors, nodes] - 1
        shape = (int(distance.max()), len(senders))
        passed = stages * len(senders) + number[sources[authors, nodes], nodes]  # places in a table of stages and links
        rows = np.bincount(passed, minlength=shape[0] * shape[1]).reshape(shape)
        sent = [np.flatnonzero(counts) for counts in rows]
        return [Leg(senders[some], receivers[some], counts[some]) for some, counts in zip(sent, rows, strict=True)]
