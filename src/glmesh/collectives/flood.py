"""Flooding: every node passes on what it heard in the last exchange, so after `diameter` exchanges all nodes have all.

Flooding needs no structure, and finds its way around any failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from glmesh.collectives.messages import PartialSum
from glmesh.core import Block, Halo, Mail, Outbox, PerNode, Rounds, Shared
from glmesh.types import Matrix, Vector


@dataclass
class FloodGather:
    """Gather of one row of numbers per node, which rides along with `diameter` exchanges; a row crosses a link once."""

    exchanges: Shared[int]
    smallest: Shared[list[int]]  # columns of which the minimum is wanted instead of the sum
    shape: Shared[tuple[int, int]]  # (K, numbers per node)
    known: PerNode[Matrix]  # (n_hosted, K * numbers), minus infinity where nothing was heard yet
    news: PerNode[Matrix]  # (n_hosted, K * numbers) entries heard in the last exchange, minus infinity elsewhere

    @staticmethod
    def of(block: Block, rows: Matrix, smallest: list[int]) -> FloodGather:
        """Start with the rows of the hosted nodes, shape (n_hosted, numbers)."""
        shape = (block.info.n_nodes, rows.shape[1])
        known = np.full((block.size, *shape), -np.inf)
        known[np.arange(block.size), block.ids.astype(np.int64)] = rows
        flat = known.reshape(block.size, -1)
        return FloodGather(block.info.diameter, smallest, shape, flat, flat)

    def outgoing(self) -> Matrix:
        """Return the scalars to send, shape (n_hosted, K * numbers); minus infinity is not sent."""
        return self.news

    def incoming(self, block: Block, halo: Halo) -> None:
        """Keep the rows that are new; a row is the same whoever passes it on."""
        heard, new = halo.largest_scalars(), np.isneginf(self.known)
        self.news = np.where(new, heard, -np.inf)
        self.known = np.where(new, heard, self.known)

    def column(self, number: int) -> Vector | None:
        """Return one number of every node, shape (K,)."""
        return np.array(self.known[0].reshape(self.shape)[:, number])

    def totals(self) -> Vector:
        """Return the sums over all nodes, added up in ascending order of ids, and the minima where wanted."""
        table = self.known[0].reshape(self.shape)
        totals: Vector = table.sum(axis=0)
        totals[self.smallest] = table[:, self.smallest].min(axis=0)
        return totals


def flood_max(values: Matrix, hops: int) -> Rounds:
    """Return each column's maximum of `values` within `hops` links, shape (n_hosted, columns); `hops` exchanges."""
    for _ in range(hops):
        halo = yield Outbox(scalars=values)
        values = halo.largest_scalars()
    return values


def _news(
    block: Block, k: int, round: int, known: dict[int, tuple[Vector, Vector]], fresh: dict[int, int]
) -> Iterator[Mail]:
    """Yield the mail of the k-th hosted node: to each neighbour the parts that were heard last from somebody else."""
    for peer, _ in block.neighbours(k):
        news = [node for node, source in fresh.items() if source != peer]
        if news:
            split = {node: known[node][0] for node in news}, {node: known[node][1] for node in news}
            yield Mail(int(block.ids[k]), peer, [PartialSum(round, *split)])


def flood_sum(block: Block, round: int, vectors: Matrix, numbers: Matrix) -> Rounds:
    """Return (sum of vectors, sum of numbers) over all K nodes by flooding, or None if a part is missing.

    Takes `diameter` exchanges; parts are added up in ascending order of ids, so the sums are bitwise equal everywhere.
    """
    first = int(block.ids[0])
    known = [{int(block.ids[k]): (vectors[k], numbers[k])} for k in range(block.size)]
    fresh = [dict.fromkeys(own, -1) for own in known]  # parts heard in the last exchange, and from whom
    for _ in range(max(block.info.diameter, 1)):
        halo = yield Outbox(
            mail=[mail for k in range(block.size) for mail in _news(block, k, round, known[k], fresh[k])]
        )
        fresh = [{} for _ in range(block.size)]
        for one in halo.mail:
            part, k = one.part(PartialSum), one.receiver - first
            if part is None or part.round != round:
                continue
            for node, vector in part.vectors.items():
                if node not in known[k]:
                    known[k][node] = vector, part.numbers[node]
                    fresh[k][node] = one.sender
    if any(len(own) < block.info.n_nodes for own in known):
        return None
    parts = [known[0][node] for node in sorted(known[0])]
    return np.sum([vector for vector, _ in parts], axis=0), np.sum([number for _, number in parts], axis=0)
