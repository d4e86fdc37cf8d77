"""Flow-ledger gossip: a node's estimate is derived from its own share and one flow per link (`glmesh.gossip.edge`).

s_k = u_k + sum_l F_kl with u_k = A_k x_k, and v_k = K s_k. Without faults this is matrix gossip; with them the sum of
all s_k is that of all u_k as soon as both ends of every link have heard of each other again. Nothing in s depends on K,
so nodes may disagree about K for a while: each counts the members in its own view, and views travel along.

With momentum u_k and every flow are extrapolated by what the exchange before added to them; the sum stays right.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from glmesh.collectives.pipeline import ObjectiveDigest
from glmesh.core.block import Block
from glmesh.core.messages import Outbox, Rounds
from glmesh.core.state import PerNode, Shared
from glmesh.gossip.edge import Edge
from glmesh.gossip.messages import LinkMessage
from glmesh.kernels.mix import extrapolate
from glmesh.types import Flags, Indices, Matrix, Vector

_REFRESH = 64  # rounds after which u_k is computed afresh, so that rounding cannot pile up


def view_digest(view: Indices) -> int:
    """A number that stands for a view of the members."""
    return int.from_bytes(hashlib.blake2b(view.astype("<i8").tobytes(), digest_size=6).digest(), "little")


def has_left(count: int) -> bool:
    """Whether a node's counter says that it was a member and is none any more."""
    return count > 0 and count % 2 == 0


@dataclass
class NodeFlows:
    """What one node keeps beside its variables: a flow per link, and who it thinks takes part.

    view: a counter per node that only grows: odd for a member, even for one that has left or not joined yet; a node
    whose data changed adds two.
    """

    edges: dict[int, Edge]
    view: Indices
    digest: int = 0
    heard: dict[int, int] = field(default_factory=dict)  # the digest of each neighbour's view, as last heard
    inherited: Vector | None = None  # shares of nodes that left for good and stay counted
    closed: dict[int, bool] = field(default_factory=dict)  # neighbours whose link has failed for good

    def __post_init__(self) -> None:
        self.digest = view_digest(self.view)

    def count(self, node: int, count: int) -> None:
        """What a node's counter is now."""
        view = self.view.copy()
        view[node] = count
        self.see(view)

    def learn(self, view: Indices) -> bool:
        """Takes over what is newer in another view; whether anything was."""
        if not (view > self.view).any():
            return False
        self.see(np.maximum(self.view, view))
        return True

    def see(self, view: Indices) -> None:
        """From now on this is the view; links to those who left are over."""
        self.view, self.digest = view, view_digest(view)
        for peer in [peer for peer in self.edges if has_left(view[peer])]:
            del self.edges[peer]
            self.heard.pop(peer, None)


@dataclass
class FlowGossip:
    """The accounts of a block's nodes."""

    node_flows: PerNode[list[NodeFlows]]
    u: PerNode[Matrix]  # A_k x_k
    flows: PerNode[Matrix]  # sum_l F_kl, and what was inherited
    v: PerNode[Matrix]  # K s_k
    members_seen: PerNode[Vector]  # K, as each node believes
    before: PerNode[Matrix]  # u of the round before; empty without momentum
    pushes: PerNode[Vector]  # theta of the coming exchange
    clock: Shared[int] = 0  # exchanges so far, the greeting included
    single: Shared[bool] = False  # offers are rounded to float32, at both ends alike, so that the sum stays right

    @staticmethod
    def of(block: Block, x: Vector, members: Indices, *, momentum: bool) -> FlowGossip:
        """No flows yet; `members` is 1 for nodes that take part from the start."""
        node_flows = [NodeFlows({}, members.copy()) for _ in range(block.size)]
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
        """Links of the k-th hosted node to all neighbours that have not left, as far as there are none yet.

        Also to those who have not joined, as far as it knows: two that join at the same time find each other so.
        """
        own_flows, me = self.node_flows[k], int(block.ids[k])
        if not own_flows.view[me] & 1:
            return
        for peer, _ in block.neighbours(k):
            if not (has_left(own_flows.view[peer]) or peer in own_flows.edges or peer in own_flows.closed):
                drift = np.zeros(block.d if self.before.size else 0)
                own_flows.edges[peer] = Edge(me, peer, np.zeros(block.d), drift=drift)

    def extrapolate(self, block: Block, theta: Vector) -> None:
        """u_k <- u_k + theta_k (u_k - before_k), and the flows likewise in the coming exchange."""
        extrapolate(self.u, self.before, theta)
        self.u, self.before = self.before, self.u
        self.pushes = theta

    def move(self, block: Block, k: int, change: Vector) -> None:
        """The variables of the k-th hosted node are changed from outside."""
        self.u[k] += block.node_columns(k).dot(change)

    def still(self, k: int) -> None:
        """The k-th hosted node has no momentum."""
        if self.before.size:
            self.before[k] = self.u[k]

    def step(self, block: Block, up: Flags, pulses: list[ObjectiveDigest] | None = None) -> Rounds:
        """One exchange: an offer to every neighbour, and what the letters that came say; pulses ride along."""
        s = self.u + self.flows  # a fresh array: letters refer to its rows
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
        letters = [
            self._write(own_flows, edge, s[k], weight, None if pulses is None else pulses[k])
            for k, own_flows, edge, weight in offered
        ]
        halo = yield Outbox(letters=letters)
        self.clock += 1
        for letter in halo.letters:
            self._read(block, letter.receiver - int(block.ids[0]), letter)
        for place in np.flatnonzero(up):
            self.sum_flows(int(place))
        self.derive()
        return halo

    def greet(self, block: Block) -> Rounds:
        """The HELLO that opens every link: offers without a vector."""
        halo = yield Outbox(
            letters=[
                self._write(own_flows, edge, self.u[k], 0.0)
                for k, own_flows in enumerate(self.node_flows)
                for edge in own_flows.edges.values()
            ]
        )
        self.clock += 1
        for letter in halo.letters:
            self._read(block, letter.receiver - int(block.ids[0]), letter)

    def _write(
        self, own_flows: NodeFlows, edge: Edge, s: Vector, weight: float, pulse: ObjectiveDigest | None = None
    ) -> LinkMessage:
        news = own_flows.heard.get(edge.peer) != own_flows.digest
        offer = edge.offer(s, weight, self.clock)
        return LinkMessage(offer, own_flows.digest, own_flows.view if news else None, pulse=pulse)

    def _read(self, block: Block, k: int, letter: LinkMessage) -> None:
        own_flows = self.node_flows[k]
        if letter.view is not None and own_flows.learn(letter.view):
            self.members_seen[k] = float(np.sum(own_flows.view & 1))
            self.open(block, k)
        if letter.sender in own_flows.edges:
            own_flows.heard[letter.sender] = letter.members
            own_flows.edges[letter.sender].receive(letter.offer)

    def sum_flows(self, k: int) -> None:
        """All that has flowed to the k-th hosted node, and what flows have coasted since."""
        self.flows[k] = self.committed(k)
        for _, edge in sorted(self.node_flows[k].edges.items()):
            if edge.lean:
                self.flows[k] += edge.lean * edge.drift

    def committed(self, k: int) -> Vector:
        """The flows of the k-th hosted node as the last exchanges left them, in a fresh array.

        In ascending order of neighbours, so that the sum has the same bits wherever it is computed.
        """
        own_flows = self.node_flows[k]
        total = np.zeros_like(self.u[k]) if own_flows.inherited is None else own_flows.inherited.copy()
        for _, edge in sorted(own_flows.edges.items()):
            total += edge.flow
        return total

    def derive(self) -> None:
        """v_k = K s_k."""
        np.add(self.u, self.flows, out=self.v)
        self.v *= self.members_seen[:, None]

    @property
    def target(self) -> Matrix:
        """Where the local solver adds its change, `unit` times A_k D_k."""
        return self.u

    @property
    def unit(self) -> Vector:
        """1: u_k is the node's own share."""
        return np.ones(len(self.node_flows))

    def settle(self, block: Block, x: Vector, round: int) -> None:
        """After the local solver: the estimates follow."""
        if (round + 1) % _REFRESH == 0:
            self.refresh(block, x)
        else:
            self.derive()

    def refresh(self, block: Block, x: Vector) -> None:
        """Everything that can be derived, derived afresh; momentum stays as it is."""
        for k in range(block.size):
            old = self.u[k].copy()
            self.refresh_node(block, x, k)
            if self.before.size:
                self.before[k] += self.u[k] - old

    def refresh_node(self, block: Block, x: Vector, k: int) -> None:
        """All that is derived of the k-th hosted node."""
        own_flows = self.node_flows[k]
        takes_part = own_flows.view[int(block.ids[k])] & 1
        self.u[k] = block.share(k, x) if takes_part else 0.0
        self.sum_flows(k)
        self.members_seen[k] = float(np.sum(own_flows.view & 1))
        self.v[k] = self.members_seen[k] * (self.u[k] + self.flows[k])

    # what happens to nodes; each end of a link is told apart, as it would find out by itself

    def join(self, block: Block, k: int) -> None:
        """The k-th hosted node takes part from now on."""
        own_flows, me = self.node_flows[k], int(block.ids[k])
        own_flows.count(me, own_flows.view[me] + 1)
        self.open(block, k)

    def farewell(self, k: int, peer: int, count: int) -> None:
        """The k-th hosted node learns that another left for good, with this count."""
        own_flows = self.node_flows[k]
        own_flows.count(peer, max(own_flows.view[peer], count))

    def quit(self, k: int, me: int) -> int:
        """The k-th hosted node is gone: nothing of it counts any more. Returns its count, for those who must know."""
        own_flows = self.node_flows[k]
        own_flows.count(me, own_flows.view[me] + 1)
        own_flows.edges, own_flows.heard, own_flows.inherited = {}, {}, None
        return int(own_flows.view[me])

    def close(self, k: int, peer: int) -> None:
        """The k-th hosted node gives a link up that has failed for good."""
        own_flows = self.node_flows[k]
        own_flows.closed[peer] = True
        own_flows.edges.pop(peer, None)

    def lose_memory(self, k: int) -> None:
        """The k-th hosted node returns empty."""
        for edge in self.node_flows[k].edges.values():
            edge.drop()
            edge.restart(edge.incarnation + 1)

    def inherit(self, k: int, share: Vector) -> None:
        """The k-th hosted node goes on counting the share of one that left."""
        own_flows = self.node_flows[k]
        own_flows.inherited = share.copy() if own_flows.inherited is None else own_flows.inherited + share

    def announce_change(self, block: Block, k: int) -> None:
        """The data of the k-th hosted node changed: certificates must not mix before and after."""
        own_flows, me = self.node_flows[k], int(block.ids[k])
        own_flows.count(me, own_flows.view[me] + 2)
