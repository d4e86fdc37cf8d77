"""All-reduce: totals of a row of numbers or of a vector per node, bitwise equal at all nodes, by the cheaper way."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from glmesh.collectives.flood import FloodGather, flood_sum
from glmesh.collectives.messages import PartialSum
from glmesh.collectives.tree import TreeGather, tree_sum
from glmesh.core import Block, Contents, Halo, Rounds, Shared
from glmesh.types import Matrix, Vector

# [nodes] beyond which rows are summed along the tree, because together they would weigh as much as a vector
LARGEST_FLOOD = 256
# [bytes] of all nodes' vectors up to which they are flooded, because waiting costs more than 128 KB; source:
# benchmarks/reports/sensitivity.md
SHORT_VECTORS = 2**17


class Gather(Protocol):
    """Totals in progress, of a row of numbers per node: send `outgoing` in an exchange, hand its halo to `incoming`."""

    exchanges: int  # until the totals are complete

    def outgoing(self) -> Matrix:
        """Return the scalars to send, a row per hosted node; minus infinity is not sent."""

    def incoming(self, block: Block, halo: Halo) -> None:
        """Take the neighbours' scalars."""

    def totals(self) -> Vector:
        """Return the totals, bitwise equal at every node, once all exchanges are done."""

    def column(self, number: int) -> Vector | None:
        """Return one number of every node, shape (K,), or None where rows are only summed."""


def gather(block: Block, rows: Matrix, smallest: list[int]) -> Gather:
    """Start totals of the hosted nodes' rows (minima of the columns `smallest`): a flood of few nodes, else a tree."""
    kind = FloodGather if block.info.n_nodes <= LARGEST_FLOOD else TreeGather
    return kind.of(block, rows, smallest)


def floods(block: Block, width: int) -> bool:
    """Return whether vectors of this length are summed by flooding."""
    return block.info.diameter <= 1 or 8 * width * block.info.n_nodes <= SHORT_VECTORS


def exchanges_per_sum(block: Block, width: int) -> int:
    """Return the exchanges of one sum of `width` numbers per node."""
    return max(block.info.diameter, 1) if floods(block, width) else 2 * block.info.depth


@dataclass
class AllReduce:
    """Exact sums of a vector and a few numbers per node."""

    sends: ClassVar[Contents] = Contents(parts=frozenset({PartialSum}))

    width: Shared[int] = 0  # length of the vectors, by which flooding or the tree is chosen; 0: that of Ax

    def sum(self, block: Block, round: int, vectors: Matrix, numbers: Matrix) -> Rounds:
        """Return (sum of vectors, sum of numbers), bitwise equal at every node, or None where a part is missing.

        vectors and numbers may be written to.
        """
        way = flood_sum if floods(block, self.width or block.d) else tree_sum
        return (yield from way(block, round, vectors, numbers))

    def product(self, block: Block, round: int, x: Vector) -> Rounds:
        """Return Ax, shape (d,), or None where a part is missing."""
        found = yield from self.sum(block, round, block.shares(x), np.zeros((block.size, 1)))
        return None if found is None else found[0]
