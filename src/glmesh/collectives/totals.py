"""Exact sums of a vector and a few numbers per node, with the same bits at every node: by flooding or along a tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glmesh.collectives.messages import PartialSum
from glmesh.core.block import Block
from glmesh.core.messages import Outbox, Rounds
from glmesh.core.state import PerNode, Shared
from glmesh.types import Indices, Matrix, Vector

_SHORT = 2**17  # bytes of all nodes' vectors together, up to which waiting costs more than sending


def floods(block: Block, width: int) -> bool:
    """Whether a sum of vectors of this length is made by flooding."""
    return block.info.diameter <= 1 or 8 * width * block.info.n_nodes <= _SHORT


def waits(block: Block, width: int) -> int:
    """Exchanges that such a sum takes."""
    return max(block.info.diameter, 1) if floods(block, width) else 2 * block.info.depth


@dataclass
class Tree:
    """A spanning tree, as the hosted nodes know it."""

    parents: PerNode[Indices]  # -1 at the root
    depths: PerNode[Indices]
    children: PerNode[list[list[int]]]

    @cached_property
    def levels(self) -> dict[int, list[int]]:
        """The hosted nodes of each depth."""
        return {depth: np.flatnonzero(self.depths == depth).tolist() for depth in set(self.depths.tolist())}


def find_tree(block: Block) -> Rounds:
    """Everybody adopts the smallest id it hears of as the root, and who told it first as its parent."""
    ids = block.ids.astype(np.float64)
    known = np.stack([ids, np.zeros(block.size), np.full(block.size, -1.0)], axis=1)  # root, depth, parent
    for _ in range(block.info.diameter + 1):
        halo = yield Outbox(scalars=known)
        assert halo.scalars is not None
        known, heard = known.copy(), halo.scalars
        for k in range(block.size):
            for row, node in zip(*_around(block, halo, k), strict=True):
                offer = (heard[row, 0], heard[row, 1] + 1, float(node))
                if offer[:2] < (known[k, 0], known[k, 1]):
                    known[k] = offer
    children, last = [], halo.scalars
    assert last is not None
    for k in range(block.size):
        rows, nodes = _around(block, halo, k)
        children.append([int(n) for row, n in zip(rows, nodes, strict=True) if last[row, 2] == block.ids[k]])
    return Tree(known[:, 2].astype(np.int64), known[:, 1].astype(np.int64), children)


def _around(block: Block, halo: Any, k: int) -> tuple[Indices, Indices]:
    """(rows, ids) of the neighbours that were heard."""
    rows, weights = halo.around(k)
    ids = halo.ids_around(k)
    there = (ids != int(block.ids[k])) & (weights > 0)
    return rows[there], ids[there]


def tree_sum(block: Block, tree: Tree, round: int, vectors: Matrix, numbers: Matrix) -> Rounds:
    """(sum of all vectors, of all numbers), or None where a part is missing; vectors and numbers become subtotals."""
    height, first = block.info.depth, int(block.ids[0])
    waiting = [set(children) for children in tree.children]
    parts: list[dict[int, tuple[Vector, Vector]]] = [{} for _ in range(block.size)]
    totals: list[tuple[Vector, Vector] | None] = [None] * block.size

    def subtotal(k: int) -> tuple[Vector, Vector]:
        for child in sorted(parts[k]):
            vectors[k] += parts[k][child][0]
            numbers[k] += parts[k][child][1]
        return vectors[k], numbers[k]

    def total_of(root: int) -> tuple[Vector, Vector]:
        vector, number = subtotal(root)
        return vector.copy(), number.copy()  # of its own: it is kept

    for stage in range(2 * height):
        parcels = []
        for k in tree.levels.get(height - stage if stage < height else stage - height, []):
            me = int(block.ids[k])
            if stage < height and not waiting[k]:
                vector, number = subtotal(k)
                parcels.append(PartialSum(me, int(tree.parents[k]), round, {me: vector}, {me: number}))
            if stage >= height:
                if stage == height and not waiting[k]:
                    totals[k] = total_of(k)
                if (total := totals[k]) is not None:
                    parcels += [PartialSum(me, c, round, {me: total[0]}, {me: total[1]}) for c in tree.children[k]]
        halo = yield Outbox(parcels=parcels)
        for parcel in halo.parcels:
            if parcel.round != round:
                continue
            k = parcel.receiver - first
            part = parcel.vectors[parcel.sender], parcel.numbers[parcel.sender]
            if parcel.sender == tree.parents[k]:
                totals[k] = part
            elif parcel.sender in waiting[k]:
                waiting[k].discard(parcel.sender)
                parts[k][parcel.sender] = part
    if height == 0:
        totals[0] = total_of(0)
    return None if any(total is None for total in totals) else totals[0]


def flood_sum(block: Block, round: int, vectors: Matrix, numbers: Matrix) -> Rounds:
    """The same, by passing on everybody's part; added up in the order of ids."""
    first = int(block.ids[0])
    known = [{int(block.ids[k]): (vectors[k], numbers[k])} for k in range(block.size)]
    fresh = [dict.fromkeys(mine, -1) for mine in known]  # and from whom
    for _ in range(max(block.info.diameter, 1)):
        parcels = []
        for k in range(block.size):
            me = int(block.ids[k])
            for peer, _ in block.neighbours(k):
                news = {node: known[k][node] for node, source in fresh[k].items() if source != peer}
                if news:
                    split = {n: part[0] for n, part in news.items()}, {n: part[1] for n, part in news.items()}
                    parcels.append(PartialSum(me, peer, round, *split))
        halo = yield Outbox(parcels=parcels)
        fresh = [{} for _ in range(block.size)]
        for parcel in halo.parcels:
            if parcel.round != round:
                continue
            k = parcel.receiver - first
            for node, vector in parcel.vectors.items():
                if node not in known[k]:
                    known[k][node] = vector, parcel.numbers[node]
                    fresh[k][node] = parcel.sender
    if any(len(mine) < block.info.n_nodes for mine in known):
        return None
    parts = [known[0][node] for node in sorted(known[0])]
    return np.sum([vector for vector, _ in parts], axis=0), np.sum([number for _, number in parts], axis=0)


@dataclass
class Summation:
    """How a block takes part in sums."""

    width: Shared[int] = 0  # of the vectors, by which the way is chosen; 0: as long as Ax
    tree: Tree | None = None  # once it is found

    def sum(self, block: Block, round: int, vectors: Matrix, numbers: Matrix) -> Rounds:
        """(sum of all vectors, of all numbers), the same at every node, or None where a part is missing.

        vectors and numbers may be written to.
        """
        if floods(block, self.width or block.d):
            return (yield from flood_sum(block, round, vectors, numbers))
        if self.tree is None:
            self.tree = yield from find_tree(block)
        return (yield from tree_sum(block, self.tree, round, vectors, numbers))

    def product(self, block: Block, round: int, x: Vector) -> Rounds:
        """Ax, or None."""
        found = yield from self.sum(block, round, block.shares(x), np.zeros((block.size, 1)))
        return None if found is None else found[0]
