"""Everybody's numbers at every node, by messages to neighbours only.

A gather starts from a row of numbers per hosted node and rides along with exchanges: `outgoing` goes out, `incoming`
takes what came back, and after `exchanges` of them every node holds the same totals: sums, or the smallest if asked.

`Flood` passes on single rows, so it needs no structure and finds its way around any failure; each row crosses each link
once. `Tree` adds them up along a spanning tree, so its messages stay small for thousands of nodes.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from glmesh.core.block import Block, Halo, Rounds, Rows
from glmesh.types import AnyArray, Matrix, Vector

_LARGEST_FLOOD = 256  # nodes beyond which all records together weigh as much as a vector


class Gather(Protocol):
    """A gather in progress."""

    exchanges: int

    def outgoing(self) -> Matrix:
        """Scalars to send, a row per hosted node; minus infinity is not sent."""
        ...

    def incoming(self, halo: Halo) -> None:
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
    kind = Flood if block.facts.n_nodes <= _LARGEST_FLOOD else Tree
    return kind(block, rows, smallest)


def arrays_of(gather: Gather) -> dict[str, AnyArray]:
    """What a gather has heard so far."""
    return {name: value for name, value in vars(gather).items() if isinstance(value, np.ndarray)}


class Flood:
    """Every node passes on the rows it has just heard of; after `diameter` exchanges everybody has all of them."""

    def __init__(self, block: Block, rows: Matrix, smallest: list[int]) -> None:
        self.exchanges = block.facts.diameter
        self._shape = (block.facts.n_nodes, rows.shape[1])
        self._smallest = smallest
        known = np.full((block.size, *self._shape), -np.inf)
        known[np.arange(block.size), block.ids.astype(np.int64)] = rows
        self._known = known.reshape(block.size, -1)
        self._news = self._known

    def outgoing(self) -> Matrix:
        """What was heard last."""
        return self._news

    def incoming(self, halo: Halo) -> None:
        """A row is the same whoever passes it on."""
        assert halo.scalars is not None
        heard = np.maximum.reduceat(halo.scalars[halo.neighbours], halo.pointers[:-1].astype(np.int64))
        new = np.isneginf(self._known)
        self._news = np.where(new, heard, -np.inf)
        self._known = np.where(new, heard, self._known)

    def column(self, number: int) -> Vector | None:
        """In ascending order of nodes."""
        return np.array(self._known[0].reshape(self._shape)[:, number])

    def totals(self) -> Vector:
        """In ascending order of nodes."""
        table = self._known[0].reshape(self._shape)
        totals: Vector = table.sum(axis=0)
        totals[self._smallest] = table[:, self._smallest].min(axis=0)
        return totals


class Tree:
    """Sums go up a spanning tree and the totals down again: 2 * depth exchanges, two rows a message."""

    def __init__(self, block: Block, rows: Matrix, smallest: list[int]) -> None:
        self.exchanges = 2 * block.facts.depth
        self._block, self._own, self._smallest = block, rows, smallest
        parents = block.facts.parents
        ids = block.ids.astype(np.int64)
        self._root = parents[ids] < 0
        self._parents = parents[ids]
        self._n_children = np.bincount(parents[parents >= 0], minlength=len(parents))[ids]
        self._up = np.where(self._n_children[:, None] == 0, rows, -np.inf)
        self._down = np.full_like(rows, -np.inf)
        self._settle_root()

    def _settle_root(self) -> None:
        self._down[self._root] = self._up[self._root]

    def outgoing(self) -> Matrix:
        """[sum of the subtree, totals], as far as known."""
        return np.hstack([self._up, self._down])

    def incoming(self, halo: Halo) -> None:
        """A sum goes up once all children have reported; totals come from the parent."""
        assert halo.scalars is not None
        width = self._own.shape[1]
        parents = self._block.facts.parents
        for k in range(self._block.size):
            rows, _ = halo.around(k)
            ids = halo.ids_around(k)
            children = halo.scalars[rows[parents[ids] == self._block.ids[k]], :width]
            if np.isneginf(self._up[k]).any() and not np.isneginf(children).any():
                total = self._own[k] + children.sum(axis=0)
                lowest = np.minimum(self._own[k], children.min(axis=0))
                total[self._smallest] = lowest[self._smallest]
                self._up[k] = total
            if not self._root[k]:
                self._down[k] = halo.scalars[rows[ids == self._parents[k]][0], width:]
        self._settle_root()

    def column(self, number: int) -> Vector | None:
        """Only the root's sums are known."""
        return None

    def totals(self) -> Vector:
        """As the root added them up."""
        return np.array(self._down[0])


def flood_max(values: Matrix, hops: int) -> Rounds:
    """The maximum over the whole network of every column of `values` (a row per hosted node), hop by hop."""
    for _ in range(hops):
        halo = yield Rows(scalars=values)
        assert halo.scalars is not None
        values = np.maximum.reduceat(halo.scalars[halo.neighbours], halo.pointers[:-1].astype(np.int64))
    return values
