"""One node's part of a run: the simulator's method, flow gossip and certifier over a block of one node.

A node that meets others that are further ahead takes part in the exchange that they are in. Rounds that it missed are
rounds in which it was away, and in which its variables did not change.
"""

from dataclasses import dataclass, field

import numpy as np

from glmesh.certificate import AsyncCertifier, SpectralGaps
from glmesh.core import Block, Certificate, Rounds
from glmesh.federation.config import Federation
from glmesh.federation.wire import PeerExchange
from glmesh.gossip import FlowGossip, MembershipView
from glmesh.kernels.warm import warm_up
from glmesh.methods.cola.blocks import ColaBlocks
from glmesh.methods.cola.state import ColaState
from glmesh.network import Plan
from glmesh.problem import CompositeObjective
from glmesh.types import Tree, Vector

_NEVER = 1 << 62  # [rounds] no round comes this late: a node that returned certifies nothing until it has met others


@dataclass
class Proof:
    """A certificate whose relative gap is at most tol, with this node's variables and estimate in its round."""

    certificate: Certificate
    x: Vector  # (n_k,) variables
    s: Vector  # (d,) estimate of A x / K
    flows: Vector  # (d,) s - A_k x_k: what came over all links; in a checkpoint it shows that the flows of all cancel


@dataclass
class Trainer:
    """CoLA at one node, round by round: its variables, its flow gossip, and what it tells for certificates."""

    federation: Federation
    me: int  # number of this node
    composite: CompositeObjective  # f(Ax) + g(x) over this node's columns
    life: int  # incarnation of this node's links; grows when the node starts and when links are opened anew
    hosted: ColaBlocks = field(init=False)
    proof: Proof | None = None  # None: nothing good enough is proven yet
    handovers: dict[int, Vector] = field(default_factory=dict)  # neighbour l -> (d,) A_l x_l, to count if l is given up
    adopted: dict[int, Vector] = field(default_factory=dict)  # given-up neighbour -> (d,) its share, counted here
    met: bool = True  # a neighbour was heard since this node returned
    skipped: int = 0  # [rounds] in which this node was away

    def __post_init__(self) -> None:
        warm_up()
        federation, method = self.federation, self.federation.method()
        d = self.composite.columns.d
        block = Block.of(np.array([self.me]), federation.network_info(), [self.composite], lambda: np.zeros((1, d)))
        members = federation.members_at_start
        members[self.me] = 1
        choice = method.choose()
        state = method.start(block, None, members, choice)
        by_samples = federation.problem.split == "samples"
        gaps = SpectralGaps(federation.mixing, Plan())
        async_certifier = AsyncCertifier(
            block,
            by_samples=by_samples,
            gap_of=gaps,
            tol=federation.problem.tol,
            extrapolates=choice.extrapolates,
        )
        for sender in (state.gossip, async_certifier):
            PeerExchange.carries.check(sender.sends)
        self.hosted = ColaBlocks(method, [block], [state], [async_certifier])
        self.gossip.single = federation.network.wire == "float32"
        self._new_edges()

    @property
    def block(self) -> Block:
        """Return the block, whose only node is this one."""
        return self.hosted.blocks[0]

    @property
    def state(self) -> ColaState:
        """Return what CoLA carries from round to round: variables, flow gossip and momentum."""
        return self.hosted.states[0]

    @property
    def async_certifier(self) -> AsyncCertifier:
        """Return the certifier, which makes and sends this node's records for certificates, and concludes bounds."""
        return self.hosted.async_certifiers[0]

    @property
    def gossip(self) -> FlowGossip:
        """Return the flow gossip: this node's estimate of A x / K, and what has flowed over its links."""
        return self.hosted.flow_gossip(0)

    @property
    def view(self) -> MembershipView:
        """Return which nodes this node takes for members: a counter for each node, odd for a member."""
        return self.gossip.node_flows[0].view

    @property
    def members(self) -> list[int]:
        """Return the numbers of the nodes that this node takes for members, ascending."""
        return self.view.members()

    @property
    def certificate(self) -> Certificate | None:
        """Return the newest certificate that this node has concluded, whatever its gap; None before the first."""
        snapshot = self.async_certifier.state.last[0]
        return None if snapshot is None else snapshot.certificate

    # rounds

    def greet(self, exchange: PeerExchange) -> None:
        """Open the links of flow gossip with all neighbours, in the one exchange before round 0."""
        self._drive(self.gossip.greet(self.block), exchange)

    def round(self, exchange: PeerExchange) -> None:
        """Make this node's next round, or the round that its neighbours are in if that is later."""
        self._catch_up(exchange)
        view = self.view
        state, method = self.state, self.hosted.method
        attended = self.async_certifier.attend(
            method.round(self.block, state), state, lambda: method.scale(self.block, state)
        )
        self._drive(attended, exchange)
        state.finish_round(self.block)
        if self.view.digest != view.digest:
            self.members_changed(view)
        self._new_edges()

    def _drive(self, rounds: Rounds, exchange: PeerExchange) -> None:
        """Run the generator of a round to its end: exchange each outbox that it yields with the neighbours.

        It is sent what came from them.
        """
        exchange.barrier.clock = self.gossip.clock
        try:
            rows = next(rounds)
            while True:
                (halo,) = exchange.exchange([rows])
                rows = rounds.send(halo)
        except StopIteration:
            return

    def _catch_up(self, exchange: PeerExchange) -> None:
        """Set this node's numbers of exchange and round to those of its neighbours, if these are larger."""
        newest = exchange.barrier.newest
        ahead = newest - self.gossip.clock
        if ahead > 0:
            self.skipped += ahead
            self.gossip.clock += ahead
            self.state.round = self.gossip.clock - 1  # the first exchange is the greeting
        if not self.met and newest >= 0:
            self.met = True
            self.async_certifier.disturb(0, self.state.round + 1)

    def _new_edges(self) -> None:
        """Set the incarnation of each link over which nothing was sent yet to `life`, this node's count of starts."""
        for edge in self.gossip.node_flows[0].edges.values():
            if edge.attempt < 0:
                edge.incarnation = self.life

    # what happens to nodes

    def returned(self) -> None:
        """Begin a new incarnation of all links, and certify nothing until a neighbour was heard.

        For a node that was away, comes late or has lost its memory.
        """
        for edge in self.gossip.node_flows[0].edges.values():
            edge.restart(self.life)
        self.hosted.invalidate(self.me, _NEVER)
        self.met = False

    def learn(self, node: int, count: int) -> None:
        """Set the membership counter of node `node` to `count` if that is larger, and adapt shares and links to it.

        An odd counter is a member's. A node that learns so that it was given up itself joins again.
        """
        if count > self.view.counts[node]:
            view = self.view
            self.gossip.node_flows[0].count(node, count)
            self.members_changed(view)

    def members_changed(self, before: MembershipView) -> None:
        """Adapt shares and links after a change of the members; `before` has the counters from before the change.

        The share A_l x_l of a node that left is counted by its successor from now on; that of a node that came back, by
        itself again.
        """
        for node in np.flatnonzero(self.view.counts != before.counts).tolist():
            if node == self.me:
                continue
            if self.view.has_left(node) and node in self.handovers:
                self.adopted[node] = self.handovers.pop(node)
            elif self.view.is_member(node):
                self.adopted.pop(node, None)
        own_flows = self.gossip.node_flows[0]
        own_flows.inherited = np.sum(list(self.adopted.values()), axis=0) if self.adopted else None
        if not self.view.is_member(self.me):  # the others had given this node up
            self.gossip.join(self.block, 0)
        self.gossip.open(self.block, 0)
        self.life += 1  # links that are opened anew must not be taken for the old ones
        self._new_edges()
        self.hosted.invalidate(self.me, self.state.round)

    # the result

    def prove(self, wanted: int) -> bool:
        """Keep the newest certificate as proof if its relative gap is at most tol; return whether it was kept.

        `wanted` is the latest round that a member holds a proof about: in the end all must hold one about the same
        round, so a proof that is not older than `wanted` is not replaced.
        """
        snapshot = self.async_certifier.state.last[0]
        if snapshot is None or snapshot.certificate is None or snapshot.view.digest != self.view.digest:
            return False
        if snapshot.certificate.relative > self.federation.problem.tol:
            return False
        held = -1 if self.proof is None else self.proof.certificate.round
        if snapshot.round <= held or (held >= 0 and held >= wanted):
            return False
        x, s, flows = snapshot.x.copy(), snapshot.s.copy(), snapshot.flows.copy()
        self.proof = Proof(snapshot.certificate, x, s, flows)
        return True

    def share(self) -> Vector:
        """Return this node's share A_k x_k plus the shares that it counts for nodes that were given up, shape (d,)."""
        share = self.block.share(0, self.state.x)
        inherited = self.gossip.node_flows[0].inherited
        return share if inherited is None else share + inherited

    def variables(self) -> tuple[Vector, Vector]:
        """Return (x_k, v_k), this node's variables and its estimate of A x, in the round of the proof.

        Without a proof they are the present ones. Shapes are (n_k,) and (d,).
        """
        if self.proof is None:
            return self.state.x.copy(), self.state.v[0].copy()
        return self.proof.x, len(self.proof.certificate.members) * self.proof.s

    def tree(self) -> dict[str, object]:
        """Return the state of this node as a dict for a checkpoint: CoLA, certifier, proof and shares.

        `restore` takes it.
        """
        return {
            "state": self.state,
            "certifier": self.async_certifier.state,
            "proof": None if self.proof is None else dict(vars(self.proof)),
            "handovers": self.handovers,
            "adopted": self.adopted,
            "life": self.life,
        }

    def restore(self, tree: Tree) -> None:
        """Set this node to the state that `tree` returned before the process ended.

        Its links begin new incarnations.
        """
        single, self.hosted.states[0] = self.gossip.single, tree["state"]
        self.gossip.single = single
        self.async_certifier.state = tree["certifier"]
        self.proof = None if tree["proof"] is None else Proof(**tree["proof"])
        self.handovers, self.adopted = tree["handovers"], tree["adopted"]
        self.returned()
