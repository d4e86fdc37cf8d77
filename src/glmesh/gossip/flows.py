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
    """State of flow gossip at one node: an Edge per neighbour, who is a member, and parts of nodes that left.

    `inherited` is the sum of A_l x_l, columns times variables, of nodes l that left for good and stay counted; None:
    none.
    """

    edges: dict[int, Edge]  # by neighbour
    view: MembershipView
    heard: dict[int, int] = field(default_factory=dict)  # digest of each neighbour's view, as last heard
    inherited: Vector | None = None  # (d,) shares of nodes that left for good and stay counted
    closed: dict[int, bool] = field(default_factory=dict)  # neighbours whose link has failed for good

    def count(self, node: int, count: int) -> None:
        """Set the membership counter of `node` to `count` in this node's view (odd: a member; even: not).

        The link to a node that has left is deleted. A view says who is a member, as one node sees it.
        """
        self.see(self.view.with_count(node, count))

    def learn(self, counts: Indices) -> bool:
        """Raise this node's membership counters to `counts`, shape (K,), where those are larger.

        Return whether any counter was raised.
        """
        before = self.view
        self.see(before.merged(counts))
        return self.view is not before

    def see(self, view: MembershipView) -> None:
        """Replace this node's view of who is a member, and delete its links to nodes that have left."""
        if view is self.view:
            return
        self.view = view
        for peer in [peer for peer in self.edges if view.has_left(peer)]:
            del self.edges[peer]
            self.heard.pop(peer, None)


@dataclass
class FlowGossip(Gossip):
    """Flow gossip of a block of nodes: estimates v_k = K (A_k x_k + sum of flows over the node's links) of Ax.

    A_k are node k's columns of the data matrix A, x_k its variables, K the number of members that the node knows of. A
    message that is lost delays a flow, but the sum of all estimates becomes right again.
    """

    sends: ClassVar[Contents] = Contents(parts=frozenset({Offer, Membership}))
    reliable: ClassVar[bool] = False

    node_flows: PerNode[list[NodeFlows]]
    u: PerNode[Matrix]  # (n_hosted, d) shares A_k x_k
    flows: PerNode[Matrix]  # (n_hosted, d) sum of each node's flows F_kl and inherited shares
    v: PerNode[Matrix]  # (n_hosted, d) estimates K (u_k + flows_k)
    members_seen: PerNode[Vector]  # (n_hosted,) number of members K in each node's view
    before: PerNode[Matrix]  # (n_hosted, d) u of the round before; empty without momentum
    pushes: PerNode[Vector]  # (n_hosted,) extrapolation theta of the coming exchange
    clock: Shared[int] = 0  # exchanges so far, the greeting included
    single: Shared[bool] = False  # offers are rounded to float32, at both ends alike, so that the sum stays right

    @staticmethod
    def of(block: Block, x: Vector, members: Indices, *, momentum: bool) -> FlowGossip:
        """Return the flow gossip of a block of nodes before round 0, with all flows zero and the links of members open.

        x are the variables of the hosted nodes, shape (n_columns,). `members`, shape (K,), is 1 for nodes that take
        part from the start, else 0. `momentum` keeps each node's A_k x_k of the round before.
        """
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
        """Give the k-th hosted node, if it is a member, an Edge to every neighbour that has not left and has none yet.

        Neighbours that have not joined yet, in its view, are included: two nodes that join together find each other so.
        Links that have failed for good are not opened. A view says who is a member, as one node sees it.
        """
        own_flows, me = self.node_flows[k], int(block.ids[k])
        if not own_flows.view.is_member(me):
            return
        for peer, _ in block.neighbours(k):
            if not (own_flows.view.has_left(peer) or peer in own_flows.edges or peer in own_flows.closed):
                drift = np.zeros(block.d if self.before.size else 0)
                own_flows.edges[peer] = Edge(me, peer, np.zeros(block.d), drift=drift)

    def extrapolate(self, block: Block, theta: Vector) -> None:
        """Replace u_k by u_k + theta_k (u_k - before_k) at every hosted node, and `before` by the old u.

        u_k = A_k x_k, columns times variables of node k, and before_k is u_k of the round before. theta has shape
        (n_hosted,); the coming exchange extrapolates the flows by theta too.
        """
        extrapolate(self.u, self.before, theta)
        self.u, self.before = self.before, self.u
        self.pushes = theta

    def move(self, block: Block, k: int, change: Vector) -> None:
        """Add A_k `change` to the k-th hosted node's u_k = A_k x_k.

        `change`, shape (n_k,), was added to its n_k variables x_k.
        """
        self.u[k] += block.node_columns(k).dot(change)

    def reset_node(self, k: int) -> None:
        """Set A_k x_k of the round before to the present one at the k-th hosted node: it extrapolates by zero next."""
        if self.before.size:
            self.before[k] = self.u[k]

    def step(self, block: Block, up: Flags, riding: Riding = NOTHING) -> Rounds:
        """Send an Offer over each link of the nodes that are up, process those received, compute the estimates v.

        Return the Halo, all that was received. It takes one exchange. `up` is a mask of shape (n_hosted,); `riding` is
        other modules' content that goes with the messages. A generator: yields each Outbox to exchange, and is sent the
        Halo that came back.
        """
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
        """Send a HELLO, an Offer without a vector, over every link in one exchange; called before round 0.

        A generator: yields the Outbox to exchange, and is sent the Halo that came back.
        """
        edges = [
            (k, own_flows, edge) for k, own_flows in enumerate(self.node_flows) for edge in own_flows.edges.values()
        ]
        mail = [self._write(own_flows, edge, self.u[k], 0.0) for k, own_flows, edge in edges]
        yield from self._exchange(block, Outbox(mail=mail))

    def _exchange(self, block: Block, outbox: Outbox) -> Rounds:
        """Send the outbox in one exchange and process the offers and membership views that come.

        Return the Halo received. A generator: yields the Outbox to exchange, and is sent the Halo that came back. A
        view says who is a member, as one node sees it.
        """
        halo = yield outbox
        self.clock += 1
        for mail in halo.mail:
            self._read(block, mail.receiver - int(block.ids[0]), mail)
        return halo

    def _write(self, own_flows: NodeFlows, edge: Edge, s: Vector, weight: float) -> Mail:
        """Return the message over one link (`edge`): an Offer of the vector s, shape (d,), and who is a member.

        `own_flows` is the state of the sending node, `weight` the largest mixing weight that it allows. The counters of
        its membership view go along unless the neighbour is known to have equal ones.
        """
        view = own_flows.view
        news = own_flows.heard.get(edge.peer) != view.digest
        parts: list[Part] = [edge.offer(s, weight, self.clock), Membership(view.digest, view.counts if news else None)]
        return Mail(edge.me, edge.peer, parts)

    def _read(self, block: Block, k: int, mail: Mail) -> None:
        """Process a message to the k-th hosted node: merge the sender's view of members, and pass its Offer on.

        A view says who is a member, as one node sees it.
        """
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
        """Set flows[k] to the sum of the k-th hosted node's extrapolated flows and of what it inherited.

        A flow is what has passed over a link, a vector of shape (d,); its two ends hold opposite copies.
        """
        self.flows[k] = self.committed(k)
        for _, edge in sorted(self.node_flows[k].edges.items()):
            if edge.lean:
                self.flows[k] += edge.lean * edge.drift

    def committed(self, k: int) -> Vector:
        """Return the sum of the k-th hosted node's flows, not extrapolated, and of what it inherited, shape (d,).

        Inherited are the A_l x_l, columns times variables, of nodes l that left. Flows are added in ascending order of
        neighbours, so that the sum has the same bits wherever it is computed.
        """
        own_flows = self.node_flows[k]
        total = np.zeros_like(self.u[k]) if own_flows.inherited is None else own_flows.inherited.copy()
        for _, edge in sorted(own_flows.edges.items()):
            total += edge.flow
        return total

    def derive(self) -> None:
        """Set the estimates v_k = K (u_k + sum of flows) of Ax at all hosted nodes, K as node k counts members.

        u_k = A_k x_k, the node's columns times its variables. A flow is what has passed over a link, a vector of shape
        (d,); its two ends hold opposite copies.
        """
        np.add(self.u, self.flows, out=self.v)
        self.v *= self.members_seen[:, None]

    @property
    def target(self) -> Matrix:
        """Return u, shape (n_hosted, d), with u_k = A_k x_k in row k.

        A local solve adds A_k times the change of x_k to it. A_k are the columns of node k and x_k its variables.
        """
        return self.u

    @property
    def unit(self) -> Vector:
        """Return 1 for every hosted node, shape (n_hosted,): the factor of A_k times the change of x_k in `target`."""
        return np.ones(len(self.node_flows))

    def finish_round(self, block: Block, x: Vector, round: int) -> None:
        """Compute the estimates v of Ax from u_k = A_k x_k, which the local solver changed, and the flows.

        In every REFRESH_EVERY-th round u is first computed anew from the variables x, shape (n_columns,), of the hosted
        nodes. A is the data matrix, x are the variables of all nodes.
        """
        if (round + 1) % REFRESH_EVERY == 0:
            self.refresh(block, x)
        else:
            self.derive()

    def finish_sum(self, block: Block, x: Vector, v: Vector | None, *, broken: bool) -> None:
        """Recompute u_k = A_k x_k from x after a round of exact sums, and set all estimates to v, unless v is None.

        x are the variables of the hosted nodes, shape (n_columns,); v is Ax, shape (d,), or None before the first sum.
        If the sum was `broken`, a contribution missing, estimates are derived from u and the flows instead. A is the
        data matrix, x are the variables of all nodes.
        """
        self.clock += 1  # as in every round, so that all ends of links count alike
        self.refresh(block, x)
        if v is not None:
            self.v[:] = v
        if broken:
            self.derive()

    def refresh(self, block: Block, x: Vector) -> None:
        """Recompute u_k = A_k x_k, the sums of flows and the estimates of all hosted nodes from x, shape (n_columns,).

        The last change of u, which extrapolation uses, is kept.
        """
        for k in range(block.size):
            old = self.u[k].copy()
            self.refresh_node(block, x, k)
            if self.before.size:
                self.before[k] += self.u[k] - old

    def refresh_node(self, block: Block, x: Vector, k: int) -> None:
        """Recompute the k-th hosted node's u_k = A_k x_k (zero for a non-member), sum of flows, K and estimate.

        It is the k-th hosted node; x are the variables of all hosted nodes, shape (n_columns,).
        """
        own_flows = self.node_flows[k]
        self.u[k] = block.share(k, x) if own_flows.view.is_member(int(block.ids[k])) else 0.0
        self.sum_flows(k)
        self.members_seen[k] = float(own_flows.view.n_members)
        self.v[k] = self.members_seen[k] * (self.u[k] + self.flows[k])

    def view_digests(self) -> list[int]:
        """Return a list with a 48-bit integer per hosted node, the digest of its view of who is a member."""
        return [own_flows.view.digest for own_flows in self.node_flows]

    def restored(self, saved: Self) -> Self:
        """Return `saved` itself: flow gossip shares no array with the transport."""
        return saved

    # events; each end of a link is told apart, as it would find out by itself

    def join(self, block: Block, k: int) -> None:
        """Make the k-th hosted node a member, in its own view from which the others learn, and open its links.

        A view says who is a member, as one node sees it.
        """
        own_flows, me = self.node_flows[k], int(block.ids[k])
        own_flows.count(me, own_flows.view.counts[me] + 1)
        self.open(block, k)

    def farewell(self, k: int, peer: int, count: int) -> None:
        """Record at the k-th hosted node that node `peer` left for good with membership counter `count`.

        The link to that node is deleted.
        """
        own_flows = self.node_flows[k]
        own_flows.count(peer, max(own_flows.view.counts[peer], count))

    def quit(self, k: int, me: int) -> int:
        """Make the k-th hosted node, whose id is `me`, leave for good and delete its links.

        Return its membership counter after that, an even number, by which the others learn of it.
        """
        own_flows = self.node_flows[k]
        own_flows.count(me, own_flows.view.counts[me] + 1)
        own_flows.edges, own_flows.heard, own_flows.inherited = {}, {}, None
        return int(own_flows.view.counts[me])

    def close(self, k: int, peer: int) -> None:
        """Delete the link of the k-th hosted node to node `peer` for good, because the link has failed."""
        own_flows = self.node_flows[k]
        own_flows.closed[peer] = True
        own_flows.edges.pop(peer, None)

    def lose_memory(self, k: int) -> None:
        """Set all flows of the k-th hosted node to zero and begin a new incarnation on its links, as after a crash.

        A flow is what has passed over a link, a vector of shape (d,); its two ends hold opposite copies.
        """
        for edge in self.node_flows[k].edges.values():
            edge.drop()
            edge.restart(edge.incarnation + 1)

    def inherit(self, k: int, share: Vector) -> None:
        """Add `share` = A_l x_l, (d,), of a node l that left to what the k-th hosted node keeps of such nodes."""
        own_flows = self.node_flows[k]
        own_flows.inherited = share.copy() if own_flows.inherited is None else own_flows.inherited + share

    def replace_part(self, block: Block, k: int, change: Vector, *, member: bool) -> None:
        """Let other nodes know that the columns of the k-th hosted node changed, if it is a member.

        Estimates are computed anew from the columns, so `change` is not read.
        """
        if member:
            self.announce_change(block, k)

    def announce_change(self, block: Block, k: int) -> None:
        """Raise the membership counter of the k-th hosted node by 2, because its data changed.

        Counters that differ have different digests, so certificates do not mix records from before and after. A
        certificate is a proven upper bound of the suboptimality.
        """
        own_flows, me = self.node_flows[k], int(block.ids[k])
        own_flows.count(me, own_flows.view.counts[me] + 2)
