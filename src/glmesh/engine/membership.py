"""What happens to nodes in the course of a run: they are away, lose their memory, join, leave; their data changes.

A node is *frozen* while it is away: its variables and its estimate stay as they are, and count. One that is *reset*
loses them; its neighbours drop their flows, and with them what it had lent or borrowed. One that leaves for good is
reset too, or its share A_k x_k is handed to the nearest member, who goes on counting it as a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glmesh.certificate.unreliable import AsyncCertifier
from glmesh.core.block import Block
from glmesh.engine.events import Event
from glmesh.gossip.flows import FlowGossip
from glmesh.methods import Cola
from glmesh.methods.cola.round import ColaState, start_of
from glmesh.network.faults import Plan
from glmesh.network.topology import links_of
from glmesh.solvers import local_gap
from glmesh.transports import FaultyExchange
from glmesh.types import Flags, Vector


@dataclass
class HostedNodes:
    """All simulated nodes of a run."""

    method: Cola
    blocks: list[Block]
    states: list[ColaState]
    async_certifiers: list[AsyncCertifier]

    def find(self, node: int) -> tuple[int, int]:
        """(its block, its place there)."""
        for number, block in enumerate(self.blocks):
            first = int(block.ids[0])
            if first <= node < first + block.size:
                return number, node - first
        raise IndexError(node)

    def gossip(self, number: int) -> FlowGossip:
        """The ledger of a block."""
        gossip = self.states[number].gossip
        assert isinstance(gossip, FlowGossip)
        return gossip

    def flows_of(self, node: int) -> tuple[FlowGossip, int]:
        """(the ledger of its block, its place there)."""
        number, k = self.find(node)
        return self.gossip(number), k

    def disturbed(self, node: int, round: int, *, forget: bool = False) -> None:
        """After a node's state was changed from outside: all that is derived from it follows."""
        number, k = self.find(node)
        block, state = self.blocks[number], self.states[number]
        state.screening.invalidate(k)
        if forget:
            self.method.solver.forget(block, state.memory, k)
        if isinstance(state.gossip, FlowGossip):
            state.gossip.refresh_node(block, state.x, k)
        if state.momentum is not None:
            state.momentum.still(block, state, k)
        for every in self.states:  # the sums of all blocks are one
            if every.sums is not None:
                every.sums.forget()
        if self.async_certifiers:
            self.async_certifiers[number].disturb(k, round)

    def gap(self, node: int, estimate_of: int | None = None) -> float:
        """What a node could gain in its own subproblem at most, at its own estimate or a neighbour's."""
        number, k = self.find(node)
        block, state = self.blocks[number], self.states[number]
        other, j = self.find(node if estimate_of is None else estimate_of)
        w = block.f.gradient(self.states[other].gossip.v[j])
        return local_gap(block, k, state.x[block.of_node(k)], w, float(self.method.scale(block, state)[k]))

    def share(self, node: int) -> Vector:
        """A_k x_k."""
        number, k = self.find(node)
        return self.blocks[number].share(k, self.states[number].x)

    def clear(self, node: int) -> None:
        """The node's variables as at the start."""
        number, k = self.find(node)
        block, own = self.blocks[number], self.blocks[number].of_node(k)
        self.states[number].x[own] = start_of(block)[own]


class Elastic:
    """Carries a plan out, round by round."""

    def __init__(self, plan: Plan, hosted: HostedNodes, exchange: FaultyExchange, events: list[Event]) -> None:
        self.plan = plan
        self.hosted = hosted
        self.exchange = exchange
        self.n_nodes = exchange.mixing.n_nodes
        self.frozen: dict[int, int] = {}  # nodes that left and stay counted, and who counts them
        self.events = events
        self._links = links_of(exchange.mixing.matrix)

    @property
    def uses_flows(self) -> bool:
        """Whether nodes keep ledgers."""
        return isinstance(self.hosted.states[0].gossip, FlowGossip)

    def begin(self, round: int) -> None:
        """All that the plan says of the start of a round."""
        plan, n = self.plan, self.n_nodes
        now = plan.members(round, n)
        if plan.changes_members and round > 0:
            before = plan.members(round - 1, n)
            for node in np.flatnonzero(before & ~now):
                self._leave(int(node), round, now)
            for node in np.flatnonzero(now & ~before):
                self._join(int(node), round, now)
        if self.uses_flows:
            self._close_links(round)
            for node in np.flatnonzero(plan.resets(round, n)):
                self._reset(int(node), round)
        up, theta = plan.up(round, n), plan.theta(round, n)
        for block, state in zip(self.hosted.blocks, self.hosted.states, strict=True):
            ids = block.ids.astype(np.int64)
            state.up, state.required_theta = up[ids], theta[ids]
        self.exchange.plan = plan
        self.exchange.round = round

    def _close_links(self, round: int) -> None:
        """A link that fails for good is given up by both ends, and what had flowed over it returns."""
        gone = self.plan.gone(round, self._links)
        for a, b in gone - (self.plan.gone(round - 1, self._links) if round else set()):
            for me, peer in ((a, b), (b, a)):
                gossip, k = self.hosted.flows_of(me)
                gossip.close(k, peer)
                self.hosted.disturbed(me, round)

    def _neighbours(self, node: int, members: Flags) -> list[int]:
        number, k = self.hosted.find(node)
        return [peer for peer, _ in self.hosted.blocks[number].neighbours(k) if members[peer]]

    def _join(self, node: int, round: int, members: Flags) -> None:
        hosted = self.hosted
        number, k = hosted.find(node)
        hosted.clear(node)
        hosted.gossip(number).join(hosted.blocks[number], k)
        hosted.disturbed(node, round, forget=True)
        others = [peer for peer in self._neighbours(node, members) if self.plan.members(round - 1, self.n_nodes)[peer]]
        after = hosted.gap(node, others[0] if others else None)
        self.events.append(Event(round, "join", node, 0.0, after, float(np.linalg.norm(hosted.share(node)))))

    def _leave(self, node: int, round: int, members: Flags) -> None:
        hosted = self.hosted
        model = next(entry.model for entry in self.plan.leave if entry.node == node)
        gossip, k = hosted.flows_of(node)
        before, share, inherited = hosted.gap(node), hosted.share(node), gossip.node_flows[k].inherited
        count = gossip.quit(k, node)
        told = self._nearest(node, members)
        for peer in told:
            other, j = hosted.flows_of(peer)
            other.farewell(j, node, count)
        wards = [ward for ward, heir in self.frozen.items() if heir == node]
        if model == "freeze" and told:
            heir, total = told[0], share if inherited is None else share + inherited
            other, j = hosted.flows_of(heir)
            other.inherit(j, total)
            self.exchange.traffic.bytes += 8 * len(total)
            self.frozen |= dict.fromkeys([*wards, node], heir)
        else:
            for lost in [*wards, node]:  # what it counted for others goes with it
                self.frozen.pop(lost, None)
                hosted.clear(lost)
        for touched in [*told, node]:
            hosted.disturbed(touched, round, forget=touched == node)
        kind = "freeze" if node in self.frozen else "leave"
        self.events.append(Event(round, kind, node, before, 0.0, float(np.linalg.norm(share))))

    def _nearest(self, node: int, members: Flags) -> list[int]:
        """The members next to a node, or behind others that are none; the nearest first."""
        seen, found, edge = {node}, [], [node]
        everybody = np.ones(self.n_nodes, dtype=bool)
        while edge:
            around = sorted({peer for near in edge for peer in self._neighbours(near, everybody)} - seen)
            seen.update(around)
            found += [peer for peer in around if members[peer]]
            edge = [peer for peer in around if not members[peer]]
        return found

    def _reset(self, node: int, round: int) -> None:
        hosted = self.hosted
        gossip, k = hosted.flows_of(node)
        hosted.clear(node)
        gossip.lose_memory(k)
        hosted.disturbed(node, round, forget=True)
        for peer in self._neighbours(node, self.plan.members(round, self.n_nodes)):
            other, j = hosted.flows_of(peer)
            edge = other.node_flows[j].edges.get(node)
            if edge is not None:
                edge.drop()
                hosted.disturbed(peer, round)

    @property
    def constant(self) -> Vector | None:
        """What nodes that left for good still add to Ax; None if nothing."""
        parts: list[Any] = []
        if self.uses_flows:
            for number in range(len(self.hosted.blocks)):
                parts += [a.inherited for a in self.hosted.gossip(number).node_flows if a.inherited is not None]
        return np.sum(parts, axis=0) if parts else None
