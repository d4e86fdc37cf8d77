"""What happens to nodes in the course of a run: they are away, lose their memory, join, leave; their data changes.

A node is *frozen* while it is away: its variables and its estimate stay as they are, and count. One that is *reset*
loses them; its neighbours drop their flows, and with them what it had lent or borrowed. One that leaves for good is
reset too, or its share A_k x_k is handed to the nearest member, who goes on counting it as a constant.
"""

import numpy as np

from glmesh.core import Event
from glmesh.methods.cola.nodes import ColaNodes
from glmesh.network.topology import links_of
from glmesh.types import Flags


class PlannedChanges:
    """Applies a fault plan to CoLA's nodes at the start of every round; appends an Event for each join and leave."""

    def __init__(self, nodes: ColaNodes, events: list[Event]) -> None:
        self.nodes, self.by_id, self.events = nodes, nodes.by_id, events
        self.frozen: dict[int, int] = {}  # node that left -> member that counts its share
        self._links = links_of(nodes.setup.mixing.matrix)

    def begin_round(self, round: int) -> None:
        """Apply to the nodes what the fault plan says of round `round`, before the round is made; return nothing.

        These are joins, leaves, links that fail for good, resets, absences and stragglers. `nodes.up`, the mask of the
        nodes that take part in the round, is set too.
        """
        plan, n = self.nodes.plan, self.nodes.setup.n_nodes
        now = plan.members(round, n)
        if plan.changes_members and round > 0:
            before = plan.members(round - 1, n)
            for node in np.flatnonzero(before & ~now):
                self._leave(int(node), round, now)
            for node in np.flatnonzero(now & ~before):
                self._join(int(node), round, now)
        if self.nodes.uses_flows:
            self._close_links(round)
            for node in np.flatnonzero(plan.resets(round, n)):
                self._reset(int(node), round)
        up, theta = plan.up(round, n), plan.theta(round, n)
        for block, state in zip(self.nodes.blocks, self.nodes.states, strict=True):
            ids = block.ids.astype(np.int64)
            state.up, state.required_theta = up[ids], theta[ids]
        self.nodes.transport.begin_round(plan, round)

    def _close_links(self, round: int) -> None:
        """Close, at both ends, the links that by the plan fail for good from round `round` on, and drop their flows."""
        gone = self.nodes.plan.gone(round, self._links)
        for a, b in gone - (self.nodes.plan.gone(round - 1, self._links) if round else set()):
            for me, peer in ((a, b), (b, a)):
                gossip, k = self.by_id.flows_of(me)
                gossip.close(k, peer)
                self.by_id.invalidate(me, round)

    def _neighbours(self, node: int, members: Flags) -> list[int]:
        """Return the ids of the neighbours of node `node` that are members, ascending; `members` is a mask over ids."""
        number, k = self.by_id.find(node)
        return [peer for peer, _ in self.by_id.blocks[number].neighbours(k) if members[peer]]

    def _join(self, node: int, round: int, members: Flags) -> None:
        """Make the node with id `node` a member from round `round` on, and append a "join" Event.

        The node's variables begin at their starting values. `members` is a mask over the ids of all nodes: the members
        of this round.
        """
        nodes = self.by_id
        number, k = nodes.find(node)
        nodes.clear(node)
        nodes.flow_gossip(number).join(nodes.blocks[number], k)
        nodes.invalidate(node, round, forget=True)
        before = self.nodes.plan.members(round - 1, self.nodes.setup.n_nodes)
        others = [peer for peer in self._neighbours(node, members) if before[peer]]
        after = nodes.gap(node, others[0] if others else None)
        self.events.append(Event(round, "join", node, 0.0, after, float(np.linalg.norm(nodes.share(node)))))

    def _leave(self, node: int, round: int, members: Flags) -> None:
        """Make the node with id `node` leave for good in round `round`, and append a "leave" or "freeze" Event.

        The node's own part A_k x_k of A x, its columns times their variables, is lost or, where the plan says "freeze",
        handed to the nearest member, who counts it as a constant from then on. `members` is a mask over the ids of all
        nodes: the members of this round.
        """
        nodes = self.by_id
        model = next(entry.model for entry in self.nodes.plan.leave if entry.node == node)
        gossip, k = nodes.flows_of(node)
        before, share, inherited = nodes.gap(node), nodes.share(node), gossip.node_flows[k].inherited
        count = gossip.quit(k, node)
        told = self._nearest(node, members)
        for peer in told:
            other, j = nodes.flows_of(peer)
            other.farewell(j, node, count)
        adopted = [other for other, successor in self.frozen.items() if successor == node]
        if model == "freeze" and told:
            successor, total = told[0], share if inherited is None else share + inherited
            other, j = nodes.flows_of(successor)
            other.inherit(j, total)
            self.nodes.transport.traffic.bytes += 8 * len(total)
            self.frozen |= dict.fromkeys([*adopted, node], successor)
        else:
            for lost in [*adopted, node]:  # what it counted for others goes with it
                self.frozen.pop(lost, None)
                nodes.clear(lost)
        for touched in [*told, node]:
            nodes.invalidate(touched, round, forget=touched == node)
        kind = "freeze" if node in self.frozen else "leave"
        self.events.append(Event(round, kind, node, before, 0.0, float(np.linalg.norm(share))))

    def _nearest(self, node: int, members: Flags) -> list[int]:
        """Return the ids of the members that node `node` can reach without passing another member, the nearest first.

        `members` is a mask over the ids of all nodes.
        """
        seen, found, edge = {node}, [], [node]
        everybody = np.ones(self.nodes.setup.n_nodes, dtype=bool)
        while edge:
            around = sorted({peer for near in edge for peer in self._neighbours(near, everybody)} - seen)
            seen.update(around)
            found += [peer for peer in around if members[peer]]
            edge = [peer for peer in around if not members[peer]]
        return found

    def _reset(self, node: int, round: int) -> None:
        """Make the node with id `node` lose its variables and what flowed over its links, in round `round`.

        The neighbours drop what flowed over their links to that node.
        """
        nodes = self.by_id
        gossip, k = nodes.flows_of(node)
        nodes.clear(node)
        gossip.lose_memory(k)
        nodes.invalidate(node, round, forget=True)
        for peer in self._neighbours(node, self.nodes.plan.members(round, self.nodes.setup.n_nodes)):
            other, j = nodes.flows_of(peer)
            edge = other.node_flows[j].edges.get(node)
            if edge is not None:
                edge.drop()
                nodes.invalidate(peer, round)
