"""Sums along the spanning tree of `NetworkInfo`: subtotals go up to the root and the total comes down again.

A sum takes 2 * depth exchanges and 2 (K - 1) messages; nodes and parents are known before the first exchange.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.collectives.messages import PartialSum
from glmesh.core import Block, Halo, Mail, Outbox, PerNode, Rounds, Shared
from glmesh.types import Matrix, Vector

Part = tuple[Vector, Vector]  # (vector, numbers)


@dataclass
class TreeGather:
    """Sums over all K nodes of one row of numbers per node, along the spanning tree: a `Gather` for many nodes.

    Each message has two rows, the sum of the sender's subtree and the totals, in 2 * depth exchanges that are made
    anyway; depth is the number of links from the root to the farthest node.
    """

    exchanges: Shared[int]  # number of exchanges until the totals are everywhere: 2 * depth
    smallest: Shared[list[int]]  # columns of which the minimum is wanted instead of the sum
    own: PerNode[Matrix]  # (n_hosted, numbers) the nodes' rows
    up: PerNode[Matrix]  # (n_hosted, numbers) sum of the subtree, -inf until all children have reported
    down: PerNode[Matrix]  # (n_hosted, numbers) totals, -inf until the parent has sent them

    @staticmethod
    def of(block: Block, rows: Matrix, smallest: list[int]) -> TreeGather:
        """Return the gather before its first exchange; `rows` are those of the hosted nodes, shape (n_hosted, numbers).

        `smallest` are the columns of which the minimum over all nodes is wanted instead of the sum.
        """
        leaf = np.array([not block.info.children[k] for k in block.ids.tolist()])
        up = np.where(leaf[:, None], rows, -np.inf)
        made = TreeGather(2 * block.info.depth, smallest, rows, up, np.full_like(rows, -np.inf))
        made._turn_at_root(block)
        return made

    def _turn_at_root(self, block: Block) -> None:
        """Copy the sum of the root's subtree, the total of all nodes, to the root's totals, if it is hosted here."""
        root = block.info.parents[block.ids.astype(np.int64)] < 0
        self.down[root] = self.up[root]

    def outgoing(self) -> Matrix:
        """Return the scalars to send in the next exchange, shape (n_hosted, 2 * numbers): [sum of the subtree, totals].

        Minus infinity stands for a number that is not known yet, and not sent.
        """
        return np.hstack([self.up, self.down])

    def incoming(self, block: Block, halo: Halo) -> None:
        """Add up the subtree of each hosted node once its children's sums are there, and take the parent's totals.

        The halo is what the neighbours sent in one exchange.
        """
        assert halo.scalars is not None
        width, parents = self.own.shape[1], block.info.parents
        for k, me in enumerate(block.ids.tolist()):
            rows, _ = halo.around(k)
            ids = halo.ids_around(k)
            children = halo.scalars[rows[parents[ids] == me], :width]
            if np.isneginf(self.up[k]).any() and not np.isneginf(children).any():
                total = self.own[k] + children.sum(axis=0)
                lowest = np.minimum(self.own[k], children.min(axis=0))
                total[self.smallest] = lowest[self.smallest]
                self.up[k] = total
            if parents[me] >= 0:
                self.down[k] = halo.scalars[rows[ids == parents[me]][0], width:]
        self._turn_at_root(block)

    def column(self, number: int) -> Vector | None:
        """Return None, always: along a tree only sums arrive, not the entry `number` of every node."""
        return None

    def totals(self) -> Vector:
        """Return the sum over all nodes of each number, or its minimum in the columns `smallest`, shape (numbers,).

        Valid once all exchanges are done; minus infinity before.
        """
        return np.array(self.down[0])


def tree_sum(block: Block, round: int, vectors: Matrix, numbers: Matrix) -> Rounds:
    """Return (sum of vectors, sum of numbers) over all K nodes along the spanning tree; None if some were lost.

    `vectors` and `numbers` have a row per hosted node, overwritten by the sum of the node's subtree. It takes 2 * depth
    exchanges, depth being the number of links from the root to the farthest node; the root adds up, so the sums are
    bitwise equal everywhere. `round` marks the messages. A generator: yields each Outbox to exchange, and is sent the
    Halo that came back.
    """
    info, first = block.info, int(block.ids[0])
    reported: list[dict[int, Part]] = [{} for _ in range(block.size)]  # subtotals of children
    totals: list[Part | None] = [None] * block.size

    def subtotal(k: int) -> Part:
        """Add to the k-th hosted node's vector and numbers what its children reported.

        Return both as a part of a message.
        """
        for child in sorted(reported[k]):
            vectors[k] += reported[k][child][0]
            numbers[k] += reported[k][child][1]
        return vectors[k], numbers[k]

    def total_at_root(k: int) -> Part:
        vector, number = subtotal(k)
        return vector.copy(), number.copy()  # kept by the caller, while vectors are written to

    def send(k: int, stage: int) -> list[Mail]:
        """Return the list of messages of the k-th hosted node in exchange number `stage` of the sum.

        They are its subtree's sum to its parent, or the total to its children, or none.
        """
        me = int(block.ids[k])
        complete = len(reported[k]) == len(info.children[me])
        if stage < info.depth:
            return [_mail(me, int(info.parents[me]), round, subtotal(k))] if complete else []
        if stage == info.depth and complete:
            totals[k] = total_at_root(k)
        total = totals[k]
        return [] if total is None else [_mail(me, child, round, total) for child in info.children[me]]

    depths = info.depths[block.ids.astype(np.int64)]
    for stage in range(2 * info.depth):
        level = info.depth - stage if stage < info.depth else stage - info.depth
        halo = yield Outbox(mail=[one for k in np.flatnonzero(depths == level).tolist() for one in send(k, stage)])
        for one in halo.mail:
            part, k = one.part(PartialSum), one.receiver - first
            if part is None or part.round != round:
                continue
            content = part.vectors[one.sender], part.numbers[one.sender]
            if one.sender == info.parents[one.receiver]:
                totals[k] = content
            else:
                reported[k].setdefault(one.sender, content)
    if info.depth == 0:
        totals[0] = total_at_root(0)
    return None if any(total is None for total in totals) else totals[0]


def _mail(sender: int, receiver: int, round: int, part: Part) -> Mail:
    """Return the message from node `sender` to node `receiver` with `part`, sums of vectors and of numbers so far.

    `round` is the round that the sums belong to.
    """
    return Mail(sender, receiver, [PartialSum(round, {sender: part[0]}, {sender: part[1]})])
