"""All-reduce: totals of a row of numbers or of a vector per node, bitwise equal at all nodes, by the cheaper way."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from glmesh.collectives.flood import FloodGather, flood_sum
from glmesh.collectives.messages import PartialSum
from glmesh.collectives.tree import TreeGather, tree_sum
from glmesh.core import Block, Contents, Halo, Rounds
from glmesh.core.block import NetworkInfo
from glmesh.types import Matrix, Vector

# [nodes] beyond which rows are summed along the tree, because together they would weigh as much as a vector
LARGEST_FLOOD = 256
# [bytes] of all nodes' vectors up to which they are flooded, because waiting costs more than 128 KB; source:
# benchmarks/reports/sensitivity.md
SHORT_VECTORS = 2**17


class Gather(Protocol):
    """Protocol: sums over all K nodes of one row of numbers per node, found in several exchanges.

    Send `outgoing` in each of `exchanges` exchanges, hand what neighbours sent (a Halo) to `incoming`, then read
    `totals`.
    """

    exchanges: int  # number of exchanges until the totals are complete

    def outgoing(self) -> Matrix:
        """Return the scalars to send in the next exchange, a row per hosted node; minus infinity: not sent."""

    def incoming(self, block: Block, halo: Halo) -> None:
        """Store the neighbours' scalars from the halo of one exchange.

        A halo is all that a block's nodes received in one exchange.
        """

    def totals(self) -> Vector:
        """Return the sums (minima in some columns) over all nodes, shape (numbers,), once all exchanges are done."""

    def column(self, number: int) -> Vector | None:
        """Return entry `number` of every node's row, shape (K,); None where only sums of rows arrive.

        Valid once all exchanges are done. K is the number of nodes.
        """


def gather(block: Block, rows: Matrix, smallest: list[int]) -> Gather:
    """Return a new `Gather` of one row of numbers per node; `rows` are the hosted nodes', shape (n_hosted, numbers).

    Its totals are minima over all nodes in the columns `smallest`, sums in the others. Up to LARGEST_FLOOD nodes the
    rows are flooded, beyond they are added along the spanning tree.
    """
    kind = FloodGather if block.info.n_nodes <= LARGEST_FLOOD else TreeGather
    return kind.of(block, rows, smallest)


def floods(info: NetworkInfo, width: int) -> bool:
    """Return True if vectors of `width` numbers are summed by flooding, False if along the spanning tree."""
    return info.diameter <= 1 or 8 * width * info.n_nodes <= SHORT_VECTORS


def exchanges_per_sum(info: NetworkInfo, width: int) -> int:
    """Return the number of exchanges that a sum over all nodes of `width` numbers per node takes."""
    return max(info.diameter, 1) if floods(info, width) else 2 * info.depth


@dataclass
class AllReduce:
    """Exact sums over all K nodes of one vector and a few numbers per node, by flooding or along the spanning tree."""

    sends: ClassVar[Contents] = Contents(parts=frozenset({PartialSum}))

    def sum(self, block: Block, round: int, vectors: Matrix, numbers: Matrix) -> Rounds:
        """Return (sum of vectors, sum of numbers) over all K nodes, or None if some node's were not received.

        Sums are bitwise equal everywhere. `vectors` and `numbers`, shape (n_hosted, .), have a row per hosted node, and
        may be overwritten. `round` marks the messages of this sum. A generator: yields each Outbox to exchange, and is
        sent the Halo that came back.
        """
        way = flood_sum if floods(block.info, block.d) else tree_sum
        return (yield from way(block, round, vectors, numbers))

    def product(self, block: Block, round: int, x: Vector) -> Rounds:
        """Return Ax, shape (d,), as the sum over all nodes of A_k x_k; None if some node's part was not received.

        A_k are the columns of node k and x_k its variables; x has those of the hosted nodes, shape (n_columns,).
        `round` marks the messages of this sum. A generator: yields each Outbox to exchange, and is sent the Halo that
        came back. A is the data matrix, x are the variables of all nodes.
        """
        found = yield from self.sum(block, round, block.shares(x), np.zeros((block.size, 1)))
        return None if found is None else found[0]
