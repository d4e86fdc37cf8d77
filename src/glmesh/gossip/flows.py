"""Push-flow gossip: a node's estimate is derived from its own share and one flow per link (`glmesh.gossip.edge`).

s_k = u_k + sum_l F_kl with u_k = A_k x_k, and v_k = K s_k. Without faults the estimates are those of plain gossip; with
them the sum of all s_k is that of all u_k as soon as both ends of every link have heard of each other again. Nothing in
s depends on K, so nodes may disagree about K for a while: each counts the members in its own view, and views spread
with the messages.

With momentum u_k and every flow are extrapolated by what the exchange before added to them; the sum stays right.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from glmesh.core import NOTHING, Block, Contents, Mail, Outbox, Part, PerNode, Riding, Rounds, Shared
from glmesh.core.block import REFRESH_EVERY
from glmesh.gossip.base import Gossip
from glmesh.gossip.edge import Edge, Offer
from glmesh.gossip.membership import Membership, MembershipView
from glmesh.kernels.mix import extrapolate
from glmesh.types import Flags, Indices, Matrix, Vector


@dataclass
class NodeFlows:
    """Flows of one node, an edge per link, and its view of the members."""

    edges: dict[int, Edge]  # by neighbour
    view: MembershipView
    heard: dict[int, int] = field(default_factory=dict)  # digest of each neighbour's view, as last heard
    inherited: Vector | None = None  # (d,) shares of nodes that left for good and stay counted
    closed: dict[int, bool] = field(default_factory=dict)  # neighbours whose link has failed for good

    def count(self, node: int, count: int) -> None:
        """Set the membership counter of a node."""
        self.see(self.view.with_count(node, count))

    def learn(self, counts: Indices) -> bool:
        """Take over the counters of another view that are newer; return whether any was."""
        before = self.view
        self.see(before.merged(counts))
        return self.view is not before

    def see(self, view: MembershipView) -> None:
        """Replace the view; links to nodes that left are over."""
        if view is self.view:
            return
        self.view = view
        for peer in [peer for peer in self.edges if view.has_left(peer)]:
            del self.edges[peer]
            self.heard.pop(peer, None)


@dataclass
class FlowGossip(Gossip):
    """Estimates of a block's nodes, derived from their flows."""

    sends: ClassVar[Contents] = Contents(parts=frozenset({Offer, Membership}))
    reliable: ClassVar[bool] = False

    node_flows: PerNode[list[NodeFlows]]
    u: PerNode[Matrix]  # (n_hosted, d) A_k x_k
    flows: PerNode[Matrix]  # (n_hosted, d) sum_l F_kl, and what was inherited
    v: PerNode[Matrix]  # (n_hosted, d) K s_k
    members_seen: PerNode[Vector]  # (n_hosted,) K in each node's view
    before: PerNode[Matrix]  # (n_hosted, d) u of the round before; empty without momentum
    pushes: PerNode[Vector]  # (n_hosted,) theta of the coming exchange
    clock: Shared[int] = 0  # exchanges so far, the greeting included
    single: Shared[bool] = False  # offers are rounded to float32, at both ends alike, so that the sum stays right

    @staticmethod
    def of(block: Block, x: Vector, members: Indices, *, momentum: bool) -> FlowGossip:
        """Start without flows; `members` is 1 for nodes that take part from the start, else 0, shape (K,)."""
        node_flows = [NodeFlows({}, MembershipView(members.copy())) for _ in range(block.size)]
        shape = (block.size, block.d)
        before = np.zeros(shape if momentum else (0, 0))
        u, flows, v = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        members_seen, pushes = np.zeros(block.size), np.zeros(block.size)
        gossip = FlowGossip(node_flows, u, flows, v, members_seen, before, pushes)
        for k in range(block.size):
            gossip.open(block, k)
        gossip.refresh(block, x)
        return gossip

    def open(self, block: Block, k: int) -> None:
        """Open the missing links of the k-th hosted node to all neighbours that have not left.

        Neighbours that have not joined, as far as it knows, are included: two that join together find each other so.
        """
        own_flows, me = self.node_flows[k], int(block.ids[k])
        if not own_flows.view.is_member(me):
            return
        for peer, _ in block.neighbours(k):
            if not (own_flows.view.has_left(peer) or peer in own_flows.edges or peer in own_flows.closed):
                drift = np.zeros(block.d if self.before.size else 0)
                own_flows.edges[peer] = Edge(me, peer, np.zeros(block.d), drift=drift)

    def extrapolate(self, block: Block, theta: Vector) -> None:
        """u_k <- u_k + theta_k (u_k - before_k), and the flows likewise in the coming exchange."""
        extrapolate(self.u, self.before, theta)
        self.u, self.before = self.before, self.u
        self.pushes = theta

    def move(self, block: Block, k: int, change: Vector) -> None:
        """u_k <- u_k + A_k change."""
        self.u[k] += block.node_columns(k).dot(change)

    def reset_node(self, k: int) -> None:
        """Set before_k = u_k; the next extrapolation of the k-th hosted node is zero."""
        if self.before.size:
            self.before[k] = self.u[k]

    def step(self, block: Block, up: Flags, riding: Riding = NOTHING) -> Rounds:
        """Make an offer to every neighbour and act on the offers received, in one exchange; return its halo."""
        s = self.u + self.flows  # a fresh array: offers refer to its rows
        damping = block.info.damping if self.before.size else 1.0
        offered = [
            (k, own_flows, edge, damping * weight)
            for k, own_flows in enumerate(self.node_flows)
            if up[k]
            for peer, weight in block.weights(k, self.clock - 1)
            if (edge := own_flows.edges.get(peer)) is not None
        ]
        if self.before.size:
            for k, _, edge, _ in offered:
                edge.advance(float(self.pushes[k]))
                if edge.push:
                    s[k] += edge.push * edge.drift
        if self.single:
            s = s.astype(np.float32).astype(np.float64)
        mail = [self._write(own_flows, edge, s[k], weight) for k, own_flows, edge, weight in offered]
        if riding.parts is not None:
            for (k, *_), one in zip(offered, mail, strict=True):
                one.parts.append(riding.parts[k])
        halo = yield from self._exchange(block, Outbox(scalars=riding.scalars, mail=mail))
        for place in np.flatnonzero(up):
            self.sum_flows(int(place))
        self.derive()
        return halo

    def greet(self, block: Block) -> Rounds:
        """Open every link with a HELLO, an offer without a vector, in one exchange."""
        edges = [
            (k, own_flows, edge) for k, own_flows in enumerate(self.node_flows) for edge in own_flows.edges.values()
        ]
        mail = [self._write(own_flows, edge, self.u[k], 0.0) for k, own_flows, edge in edges]
        yield from self._exchange(block, Outbox(mail=mail))

    def _exchange(self, block: Block, outbox: Outbox) -> Rounds:
        """Exchange an outbox and read the mail that comes."""
        halo = yield outbox
        self.clock += 1
        for mail in halo.mail:
            self._read(block, mail.receiver - int(block.ids[0]), mail)
        return halo

    def _write(self, own_flows: NodeFlows, edge: Edge, s: Vector, weight: float) -> Mail:
        view = own_flows.view
        news = own_flows.heard.get(edge.peer) != view.digest
        parts: list[Part] = [edge.offer(s, weight, self.clock), Membership(view.digest, view.counts if news else None)]
        return Mail(edge.me, edge.peer, parts)

    def _read(self, block: Block, k: int, mail: Mail) -> None:
        own_flows, membership, offer = self.node_flows[k], mail.part(Membership), mail.part(Offer)
        if membership is not None and membership.counts is not None and own_flows.learn(membership.counts):
            self.members_seen[k] = float(own_flows.view.n_members)
            self.open(block, k)
        if mail.sender in own_flows.edges:
            if membership is not None:
                own_flows.heard[mail.sender] = membership.digest
            if offer is not None:
                own_flows.edges[mail.sender].receive(offer)

    def sum_flows(self, k: int) -> None:
        """Add up the flows of the k-th hosted node, and how far they have coasted since."""
        self.flows[k] = self.committed(k)
        for _, edge in sorted(self.node_flows[k].edges.items()):
            if edge.lean:
                self.flows[k] += edge.lean * edge.drift

    def committed(self, k: int) -> Vector:
        """Return the sum of the k-th hosted node's flows as the last exchanges left them, in a fresh array (d,).

        Flows are added in ascending order of neighbours, so that the sum has the same bits wherever it is computed.
        """
        own_flows = self.node_flows[k]
        total = np.zeros_like(self.u[k]) if own_flows.inherited is None else own_flows.inherited.copy()
        for _, edge in sorted(own_flows.edges.items()):
            total += edge.flow
        return total

    def derive(self) -> None:
        """v_k <- K (u_k + sum_l F_kl)."""
        np.add(self.u, self.flows, out=self.v)
        self.v *= self.members_seen[:, None]

    @property
    def target(self) -> Matrix:
        """Array to which the local solver adds A_k D_k: u."""
        return self.u

    @property
    def unit(self) -> Vector:
        """1, because u_k is the node's own share."""
        return np.ones(len(self.node_flows))

    def finish_round(self, block: Block, x: Vector, round: int) -> None:
        """Derive the estimates from the u that the local solver changed; afresh from x every REFRESH_EVERY rounds."""
        if (round + 1) % REFRESH_EVERY == 0:
            self.refresh(block, x)
        else:
            self.derive()

    def finish_sum(self, block: Block, x: Vector, v: Vector | None, *, broken: bool) -> None:
        """Derive u from x, and set all v_k to v unless the sum was broken."""
        self.clock += 1  # as in every round, so that all ends of links count alike
        self.refresh(block, x)
        if v is not None:
            self.v[:] = v
        if broken:
            self.derive()

    def refresh(self, block: Block, x: Vector) -> None:
        """Derive u, flows and v of all hosted nodes afresh; momentum stays as it is."""
        for k in range(block.size):
            old = self.u[k].copy()
            self.refresh_node(block, x, k)
            if self.before.size:
                self.before[k] += self.u[k] - old

    def refresh_node(self, block: Block, x: Vector, k: int) -> None:
        """Recompute u_k = A_k x_k (0 if no member), the sum of flows, the members seen and v_k of one hosted node."""
        own_flows = self.node_flows[k]
        self.u[k] = block.share(k, x) if own_flows.view.is_member(int(block.ids[k])) else 0.0
        self.sum_flows(k)
        self.members_seen[k] = float(own_flows.view.n_members)
        self.v[k] = self.members_seen[k] * (self.u[k] + self.flows[k])

    def view_digests(self) -> list[int]:
        """Return the digest of each hosted node's view of the members."""
        return [own_flows.view.digest for own_flows in self.node_flows]

    def restored(self, saved: Self) -> Self:
        """Return the saved gossip: no array is shared with the transport."""
        return saved

    # events; each end of a link is told apart, as it would find out by itself

    def join(self, block: Block, k: int) -> None:
        """Make the k-th hosted node a member, and open its links."""
        own_flows, me = self.node_flows[k], int(block.ids[k])
        own_flows.count(me, own_flows.view.counts[me] + 1)
        self.open(block, k)

    def farewell(self, k: int, peer: int, count: int) -> None:
        """Tell the k-th hosted node that `peer` left for good, with this membership counter."""
        own_flows = self.node_flows[k]
        own_flows.count(peer, max(own_flows.view.counts[peer], count))

    def quit(self, k: int, me: int) -> int:
        """Make the k-th hosted node, whose id is `me`, leave for good; return its membership counter."""
        own_flows = self.node_flows[k]
        own_flows.count(me, own_flows.view.counts[me] + 1)
        own_flows.edges, own_flows.heard, own_flows.inherited = {}, {}, None
        return int(own_flows.view.counts[me])

    def close(self, k: int, peer: int) -> None:
        """Give up the link of the k-th hosted node to `peer`, which has failed for good."""
        own_flows = self.node_flows[k]
        own_flows.closed[peer] = True
        own_flows.edges.pop(peer, None)

    def lose_memory(self, k: int) -> None:
        """Set all flows of the k-th hosted node to zero, as a new incarnation."""
        for edge in self.node_flows[k].edges.values():
            edge.drop()
            edge.restart(edge.incarnation + 1)

    def inherit(self, k: int, share: Vector) -> None:
        """Let the k-th hosted node count the share A_l x_l of a node l that left."""
        own_flows = self.node_flows[k]
        own_flows.inherited = share.copy() if own_flows.inherited is None else own_flows.inherited + share

    def announce_change(self, block: Block, k: int) -> None:
        """Tell all that the data of the k-th hosted node changed: certificates must not mix before and after."""
        own_flows, me = self.node_flows[k], int(block.ids[k])
        own_flows.count(me, own_flows.view.counts[me] + 2)
