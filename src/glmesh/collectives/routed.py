"""Totals by messages between neighbours, sent again until every member holds the total.

Without faults they take the exchanges and bytes of `Routes`. What a node has received it keeps, so a total may be left
open while a member is away, and gone on with later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from glmesh.collectives.messages import Contribution, PartialTotal
from glmesh.collectives.routes import Routes
from glmesh.core import Mail
from glmesh.types import Flags


class RoutedTotal(Protocol):
    """Protocol of a sum (or maximum) over all members of a simulated network, by messages between neighbours.

    `outgoing` and `incoming` are called in every exchange until `held_by` says that all nodes hold the total.
    """

    def outgoing(self, routes: Routes) -> list[Mail]:
        """Return the list of messages (Mail) that all nodes send in the next exchange over the links of `routes`.

        Maybe empty.
        """

    def incoming(self, mail: list[Mail], routes: Routes) -> None:
        """Store the contributions in the messages `mail` of this exchange, late ones and copies among them.

        `routes` says over which links contributions go.
        """

    def held_by(self, nodes: Flags) -> bool:
        """Return whether every node of the mask `nodes`, shape (K,), holds all contributions, or the total itself.

        A total is a sum over all nodes.
        """

    def complete_among(self, nodes: Flags) -> bool:
        """Return whether no node of the mask `nodes`, shape (K,), lacks a contribution that another of them holds.

        More messages among those nodes are then in vain.
        """

    def result(self, node: int) -> Contribution:
        """Return the total, shape (numbers,), as node `node` holds it; call only if `held_by` says that it does."""


@dataclass
class FloodedTotal:
    """A sum (or maximum) over all members by flooding: a node passes each contribution on once, and again if asked.

    Along trees (`trees`) it passes a contribution on to those neighbours only that get it from nobody else
    (`Routes.sources`), else to all but the one that sent it. Nodes that lack contributions begin to ask after
    `patience` exchanges, at first the diameter of the network. `known`, `fresh` and `asked` have an entry per node.
    """

    number: int  # number of the total, which its messages carry
    largest: bool  # whether maxima are wanted instead of sums
    members: list[int]  # ids of the nodes whose contributions make the total, ascending
    known: list[dict[int, Contribution]]  # by node: {origin: contribution} that the node holds
    fresh: list[dict[int, int]]  # by node: {origin: neighbour that sent its contribution in the last exchange}
    wanted: list[dict[int, tuple[int, ...]]]  # by node: {neighbour: origins that it asked for}
    patience: int  # [exchanges] before nodes ask
    trees: bool = False  # whether a contribution goes along its author's tree instead of over all links

    @staticmethod
    def of(
        number: int, rows: Contribution, members: Flags, diameter: int, *, largest: bool = False, trees: bool = False
    ) -> FloodedTotal:
        """Return the total before its first exchange.

        `rows` are the contributions of all nodes, shape (K, numbers); those of the mask `members`, shape (K,), count.
        `largest`: maxima are wanted instead of sums. `trees`: contributions go along their authors' trees, for nodes
        that are all members and links that all stand, instead of over all links. `diameter` is that of the network, in
        links.
        """
        nodes = range(len(rows))
        known = [{k: rows[k]} if members[k] else {} for k in nodes]
        fresh = [dict.fromkeys(own, -1) for own in known]
        listed = np.flatnonzero(members).tolist()
        return FloodedTotal(number, largest, listed, known, fresh, [{} for _ in nodes], diameter, trees)

    def outgoing(self, routes: Routes) -> list[Mail]:
        """Return the Mail of all members in the next exchange: new contributions, those asked for, and requests.

        Members are the nodes that take part. `routes` says over which links contributions go.
        """
        mail, asks = [], self.patience <= 0
        for k in self.members:
            known = self.known[k]
            wanted = tuple(node for node in self.members if node not in known) if asks else ()
            for peer in routes.neighbours[k]:
                news = [node for node, source in self.fresh[k].items() if self._passes(node, source, k, peer, routes)]
                news += [node for node in self.wanted[k].get(peer, ()) if node in known and node not in news]
                if news or wanted:
                    part = PartialTotal(self.number, {node: known[node] for node in news}, wanted)
                    mail.append(Mail(k, peer, [part]))
        return mail

    def _passes(self, origin: int, source: int, k: int, peer: int, routes: Routes) -> bool:
        """Return whether node k passes the contribution of node `origin` on to its neighbour `peer`.

        `source` is the neighbour that sent the contribution to k; `routes` has the tree along which each contribution
        goes.
        """
        return int(routes.sources[origin, peer]) == k if self.trees else source != peer

    def incoming(self, mail: list[Mail], routes: Routes) -> None:
        """Store contributions that a node did not hold yet, and the ids of those that neighbours ask for.

        `routes` is not read.
        """
        self.patience -= 1
        self.fresh, self.wanted = [{} for _ in self.known], [{} for _ in self.known]
        for one in mail:
            part, k = one.part(PartialTotal), one.receiver
            if part is None or part.number != self.number:
                continue
            for node, row in part.rows.items():
                if node not in self.known[k]:
                    self.known[k][node], self.fresh[k][node] = row, one.sender
            self.wanted[k][one.sender] = part.wanted

    def held_by(self, nodes: Flags) -> bool:
        """Return whether every node of the mask `nodes`, shape (K,), holds the contributions of all members."""
        return all(len(self.known[k]) == len(self.members) for k in np.flatnonzero(nodes).tolist())

    def complete_among(self, nodes: Flags) -> bool:
        """Return whether all nodes of the mask `nodes`, shape (K,), hold the contributions of the same nodes."""
        held = [set(self.known[k]) for k in np.flatnonzero(nodes).tolist()]
        return not held or all(one == held[0] for one in held)

    def result(self, node: int) -> Contribution:
        """Return the sums or maxima over all members, shape (numbers,), at a node that holds all contributions."""
        return _reduced([self.known[node][k] for k in self.members], largest=self.largest)


@dataclass
class TreeTotal:
    """A sum (or maximum) over all nodes along the spanning tree: sums of subtrees go up, the total comes down.

    All nodes must be members. A node sends the sum of its subtree once, and again every 2 * depth exchanges until the
    total has come, depth being the number of links from the root to the farthest node. A parent that has the total
    sends it once, and again to children that send their sums again.
    """

    number: int  # number of the total, which its messages carry
    largest: bool  # whether maxima are wanted instead of sums
    own: Contribution  # (K, numbers) contributions of all nodes
    reported: list[dict[int, Contribution]]  # by node: {child: sum of its subtree}
    sums: list[Contribution | None]  # by node: sum of its subtree; None: a child has not reported yet
    totals: list[Contribution | None]  # by node: the total; None: not known yet
    due: list[list[int]]  # by node: neighbours in the tree that it is to send to next
    patience: int  # [exchanges] before sums are sent again

    @staticmethod
    def of(number: int, rows: Contribution, routes: Routes, *, largest: bool = False) -> TreeTotal:
        """Return the total before its first exchange; `rows` are the contributions of all nodes, shape (K, numbers).

        `largest`: maxima are wanted instead of sums. `routes` has the tree.
        """
        n = len(rows)
        empty: list[Contribution | None] = [None] * n
        made = TreeTotal(
            number,
            largest,
            rows,
            [{} for _ in range(n)],
            empty,
            list(empty),
            [[] for _ in range(n)],
            2 * routes.tree[1],
        )
        for k in range(n):
            made._add_up(k, routes)
        return made

    def _add_up(self, k: int, routes: Routes) -> None:
        """Set the sum of node k's subtree once all its children in `routes` have reported.

        At the root that is the total.
        """
        parents, reported = routes.tree[0], self.reported[k]
        if self.sums[k] is not None or len(reported) < len(routes.children[k]):
            return
        parts = [self.own[k], *(reported[child] for child in sorted(reported))]
        self.sums[k] = total = _reduced(parts, largest=self.largest)
        if parents[k] < 0:
            self.totals[k], self.due[k] = total, routes.children[k]
        else:
            self.due[k] = [int(parents[k])]

    def outgoing(self, routes: Routes) -> list[Mail]:
        """Return the Mail of all nodes in the next exchange: sums of subtrees to parents, totals to children.

        `routes` has the tree.
        """
        mail, parents = [], routes.tree[0]
        again = self.patience <= 0
        self.patience = 2 * routes.tree[1] if again else self.patience
        for k, (subtotal, total) in enumerate(zip(self.sums, self.totals, strict=True)):
            peers = self.due[k]
            if not peers and again and total is None and subtotal is not None:
                peers = [int(parents[k])]
            content = subtotal if total is None else total
            if content is not None:
                mail += [Mail(k, peer, [PartialTotal(self.number, {k: content})]) for peer in peers]
        return mail

    def incoming(self, mail: list[Mail], routes: Routes) -> None:
        """Store sums from children and the total from the parent.

        A child that sends its sum to a node with the total is sent the total next. `routes` has the tree, `mail` the
        messages of the exchange; a total is the sum over all nodes.
        """
        self.patience -= 1
        self.due = [[] for _ in self.due]
        parents = routes.tree[0]
        for one in mail:
            part, k = one.part(PartialTotal), one.receiver
            if part is None or part.number != self.number:
                continue
            if one.sender == parents[k]:
                if self.totals[k] is None:
                    self.totals[k], self.due[k] = part.rows[one.sender], routes.children[k]
            elif self.totals[k] is None:
                self.reported[k].setdefault(one.sender, part.rows[one.sender])
                self._add_up(k, routes)
            elif one.sender not in self.due[k]:
                self.due[k] = [*self.due[k], one.sender]

    def held_by(self, nodes: Flags) -> bool:
        """Return whether every node of the mask `nodes`, shape (K,), holds the total.

        A total is a sum over all nodes.
        """
        return all(self.totals[k] is not None for k in np.flatnonzero(nodes).tolist())

    def complete_among(self, nodes: Flags) -> bool:
        """Return False, always: along a tree nodes do not know whether more messages are in vain."""
        return False

    def result(self, node: int) -> Contribution:
        """Return the sums or maxima over all nodes, shape (numbers,), at a node that holds the total."""
        total = self.totals[node]
        assert total is not None
        return total


def _reduced(parts: list[Contribution], *, largest: bool) -> Contribution:
    """Return the sum modulo 2^64 or, if `largest`, the maximum of `parts`, entry by entry, shape (numbers,)."""
    return np.asarray(np.max(parts, axis=0) if largest else np.sum(parts, axis=0))
