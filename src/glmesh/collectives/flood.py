"""Everybody's numbers at every node, by messages to neighbours only.

A gather starts from a row of numbers per hosted node and rides along with exchanges: `outgoing` goes out, `incoming`
takes what came back, and after `exchanges` of them every node holds the same totals: sums, or the smallest if asked.

`Flood` passes on single rows, so it needs no structure and finds its way around any failure; each row crosses each link
once. `Tree` adds them up along a spanning tree, so its messages stay small for thousands of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from glmesh.core.block import Block
from glmesh.core.messages import Halo, Outbox, Rounds
from glmesh.core.state import PerNode, Shared
from glmesh.types import Indices, Matrix, Vector

_LARGEST_FLOOD = 256  # nodes beyond which all records together weigh as much as a vector


class Gather(Protocol):
    """A gather in progress."""

    exchanges: int

    def outgoing(self) -> Matrix:
        """Scalars to send, a row per hosted node; minus infinity is not sent."""
        ...

    def incoming(self, block: Block, halo: Halo) -> None:
        """Takes the neighbours' scalars."""
        ...

    def totals(self) -> Vector:
        """The totals, the same at every node, once all exchanges are done."""
        ...

    def column(self, number: int) -> Vector | None:
        """A number of every node, where they are not only summed."""
        ...


def gather(block: Block, rows: Matrix, smallest: list[int]) -> Gather:
    """Starts one: a flood among few nodes, a tree among many."""
    kind = FloodGather if block.info.n_nodes <= _LARGEST_FLOOD else TreeGather
    return kind.of(block, rows, smallest)


@dataclass
class FloodGather:
    """Every node passes on the rows it has just heard of; after `diameter` exchanges everybody has all of them."""

    exchanges: Shared[int]
    smallest: Shared[list[int]]  # columns of which the minimum is wanted instead of the sum
    shape: Shared[tuple[int, int]]  # (K, numbers per node)
    known: PerNode[Matrix]  # (n_hosted, K * numbers), minus infinity where nothing was heard yet
    news: PerNode[Matrix]  # what was heard in the last exchange only

    @staticmethod
    def of(block: Block, rows: Matrix, smallest: list[int]) -> FloodGather:
        """Start with the rows of the hosted nodes, shape (n_hosted, numbers)."""
        shape = (block.info.n_nodes, rows.shape[1])
        known = np.full((block.size, *shape), -np.inf)
        known[np.arange(block.size), block.ids.astype(np.int64)] = rows
        flat = known.reshape(block.size, -1)
        return FloodGather(block.info.diameter, smallest, shape, flat, flat)

    def outgoing(self) -> Matrix:
        """What was heard last."""
        return self.news

    def incoming(self, block: Block, halo: Halo) -> None:
        """A row is the same whoever passes it on."""
        assert halo.scalars is not None
        heard = np.maximum.reduceat(halo.scalars[halo.neighbours], halo.pointers[:-1].astype(np.int64))
        new = np.isneginf(self.known)
        self.news = np.where(new, heard, -np.inf)
        self.known = np.where(new, heard, self.known)

    def column(self, number: int) -> Vector | None:
        """In ascending order of nodes."""
        return np.array(self.known[0].reshape(self.shape)[:, number])

    def totals(self) -> Vector:
        """In ascending order of nodes."""
        table = self.known[0].reshape(self.shape)
        totals: Vector = table.sum(axis=0)
        totals[self.smallest] = table[:, self.smallest].min(axis=0)
        return totals


@dataclass
class TreeGather:
    """Sums go up a spanning tree and the totals down again: 2 * depth exchanges, two rows a message."""

    exchanges: Shared[int]
    smallest: Shared[list[int]]  # columns of which the minimum is wanted instead of the sum
    own: PerNode[Matrix]  # (n_hosted, numbers)
    up: PerNode[Matrix]  # sum of the node's subtree, minus infinity until all children have reported
    down: PerNode[Matrix]  # the totals, minus infinity until the parent has told them
    parents: PerNode[Indices]  # -1 at the root

    @staticmethod
    def of(block: Block, rows: Matrix, smallest: list[int]) -> TreeGather:
        """Start with the rows of the hosted nodes, shape (n_hosted, numbers)."""
        parents, ids = block.info.parents, block.ids.astype(np.int64)
        n_children = np.bincount(parents[parents >= 0], minlength=len(parents))[ids]
        up = np.where(n_children[:, None] == 0, rows, -np.inf)
        made = TreeGather(2 * block.info.depth, smallest, rows, up, np.full_like(rows, -np.inf), parents[ids])
        made._pass_down_at_root()
        return made

    def _pass_down_at_root(self) -> None:
        """At the root the sum of the subtree is the total."""
        root = self.parents < 0
        self.down[root] = self.up[root]

    def outgoing(self) -> Matrix:
        """[sum of the subtree, totals], as far as known."""
        return np.hstack([self.up, self.down])

    def incoming(self, block: Block, halo: Halo) -> None:
        """A sum goes up once all children have reported; totals come from the parent."""
        assert halo.scalars is not None
        width = self.own.shape[1]
        parents = block.info.parents
        for k in range(block.size):
            rows, _ = halo.around(k)
            ids = halo.ids_around(k)
            children = halo.scalars[rows[parents[ids] == block.ids[k]], :width]
            if np.isneginf(self.up[k]).any() and not np.isneginf(children).any():
                total = self.own[k] + children.sum(axis=0)
                lowest = np.minimum(self.own[k], children.min(axis=0))
                total[self.smallest] = lowest[self.smallest]
                self.up[k] = total
            if self.parents[k] >= 0:
                self.down[k] = halo.scalars[rows[ids == self.parents[k]][0], width:]
        self._pass_down_at_root()

    def column(self, number: int) -> Vector | None:
        """Only the root's sums are known."""
        return None

    def totals(self) -> Vector:
        """As the root added them up."""
        return np.array(self.down[0])


def flood_max(values: Matrix, hops: int) -> Rounds:
    """The maximum over the whole network of every column of `values` (a row per hosted node), hop by hop."""
    for _ in range(hops):
        halo = yield Outbox(scalars=values)
        assert halo.scalars is not None
        values = np.maximum.reduceat(halo.scalars[halo.neighbours], halo.pointers[:-1].astype(np.int64))
    return values
