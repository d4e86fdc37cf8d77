"""Flooding: every node passes on what it heard in the last exchange, so after `diameter` exchanges all nodes have all.

Flooding needs no structure, and finds its way around any failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.collectives.messages import PartialSum
from glmesh.core import Block, Halo, Mail, Outbox, PerNode, Rounds, Shared
from glmesh.types import Matrix, Vector


@dataclass
class FloodGather:
    """Sums over all K nodes of one row of numbers per node, by flooding: every node learns the rows of all others.

    The rows are scalars in the messages of exchanges that a method makes anyway, as many as the diameter of the
    network; a node sends each row once.
    """

    exchanges: Shared[int]  # number of exchanges until every row is everywhere: the diameter
    smallest: Shared[list[int]]  # columns of which the minimum is wanted instead of the sum
    shape: Shared[tuple[int, int]]  # (K, numbers per node)
    known: PerNode[Matrix]  # (n_hosted, K * numbers), minus infinity where nothing was heard yet
    news: PerNode[Matrix]  # (n_hosted, K * numbers) entries heard in the last exchange, minus infinity elsewhere

    @staticmethod
    def of(block: Block, rows: Matrix, smallest: list[int]) -> FloodGather:
        """Return the gather before its first exchange; `rows` are those of the hosted nodes, shape (n_hosted, numbers).

        `smallest` are the columns of which the minimum over all nodes is wanted instead of the sum.
        """
        shape = (block.info.n_nodes, rows.shape[1])
        known = np.full((block.size, *shape), -np.inf)
        known[np.arange(block.size), block.ids.astype(np.int64)] = rows
        flat = known.reshape(block.size, -1)
        return FloodGather(block.info.diameter, smallest, shape, flat, flat)

    def outgoing(self) -> Matrix:
        """Return the scalars to send next, the rows heard in the last exchange, shape (n_hosted, K * numbers).

        Minus infinity stands for a number that is not sent. K is the number of nodes.
        """
        return self.news

    def incoming(self, block: Block, halo: Halo) -> None:
        """Store the rows of other nodes in the halo (what neighbours sent) that were not known yet.

        They are what `outgoing` returns next.
        """
        heard, new = halo.largest_scalars(), np.isneginf(self.known)
        self.news = np.where(new, heard, -np.inf)
        self.known = np.where(new, heard, self.known)

    def column(self, number: int) -> Vector | None:
        """Return entry `number` of every node's row, shape (K,); valid once all exchanges are done.

        K is the number of nodes.
        """
        return np.array(self.known[0].reshape(self.shape)[:, number])

    def totals(self) -> Vector:
        """Return the sum over all nodes of each number, or its minimum in the columns `smallest`, shape (numbers,).

        Call once all exchanges are done. Rows are added up in ascending order of node ids.
        """
        table = self.known[0].reshape(self.shape)
        totals: Vector = table.sum(axis=0)
        totals[self.smallest] = table[:, self.smallest].min(axis=0)
        return totals


def flood_max(values: Matrix, hops: int) -> Rounds:
    """Return the maximum of each column of `values` over the nodes within `hops` links, shape (n_hosted, columns).

    `values` has a row per hosted node. It takes `hops` exchanges; with the diameter of the network the maximum is that
    of all nodes. A generator: yields each Outbox to exchange, and is sent the Halo that came back.
    """
    for _ in range(hops):
        halo = yield Outbox(scalars=values)
        values = halo.largest_scalars()
    return values


def _news(
    block: Block, k: int, round: int, known: dict[int, tuple[Vector, Vector]], fresh: dict[int, int]
) -> Iterator[Mail]:
    """Yield the messages (Mail) of the k-th hosted node in one exchange of `flood_sum`: one per neighbour, or none.

    A message holds the (vector, numbers) of nodes that this node heard of in the last exchange and not from that
    neighbour. `known` is {node: (vector, numbers)} of all nodes heard of; `fresh` is {node: neighbour that told of it}
    of the last exchange; `round` is the number that the messages carry.
    """
    for peer, _ in block.neighbours(k):
        news = [node for node, source in fresh.items() if source != peer]
        if news:
            split = {node: known[node][0] for node in news}, {node: known[node][1] for node in news}
            yield Mail(int(block.ids[k]), peer, [PartialSum(round, *split)])


def _take_in(
    mail: Sequence[Mail], first: int, round: int, known: list[dict[int, tuple[Vector, Vector]]]
) -> list[dict[int, int]]:
    """Add the (vector, numbers) of nodes that arrived in `mail` for this round to `known`; return those that were new.

    `known`, changed in place, has a dict {node: (vector, numbers)} per hosted node, and `first` is the id of the first
    hosted node. The list returned has a dict {new node: sender of the message} per hosted node.
    """
    fresh: list[dict[int, int]] = [{} for _ in known]
    for one in mail:
        part, k = one.part(PartialSum), one.receiver - first
        if part is None or part.round != round:
            continue
        for node, vector in part.vectors.items():
            if node not in known[k]:
                known[k][node] = vector, part.numbers[node]
                fresh[k][node] = one.sender
    return fresh


def flood_sum(block: Block, round: int, vectors: Matrix, numbers: Matrix) -> Rounds:
    """Return (sum of vectors, sum of numbers) over all K nodes by flooding; None if some node's were not received.

    `vectors` and `numbers` have a row per hosted node. It takes as many exchanges as the diameter of the network, at
    least one; rows are added up in ascending order of ids, so the sums are bitwise equal everywhere. A generator:
    yields each Outbox to exchange, and is sent the Halo that came back. `round` marks the messages of this sum.
    """
    known = [{int(block.ids[k]): (vectors[k], numbers[k])} for k in range(block.size)]
    fresh = [dict.fromkeys(own, -1) for own in known]  # parts heard in the last exchange, and from whom
    for _ in range(max(block.info.diameter, 1)):
        halo = yield Outbox(
            mail=[mail for k in range(block.size) for mail in _news(block, k, round, known[k], fresh[k])]
        )
        fresh = _take_in(halo.mail, int(block.ids[0]), round, known)
    if any(len(own) < block.info.n_nodes for own in known):
        return None
    parts = [known[0][node] for node in sorted(known[0])]
    return np.sum([vector for vector, _ in parts], axis=0), np.sum([number for _, number in parts], axis=0)
