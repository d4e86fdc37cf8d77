"""One node's part of a run: the simulator's method, ledger and witness over a block of one.

What a node does when it meets others that are further: it takes part in the exchange that they are in. Rounds that it
missed are rounds in which it was away, and nothing of it changed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glmesh.certificate.bound import Certificate
from glmesh.certificate.spectral import SpectralGaps
from glmesh.certificate.unreliable import AsyncCertifier, RoundSnapshot
from glmesh.core.block import Block
from glmesh.core.messages import Rounds
from glmesh.engine.membership import HostedNodes
from glmesh.federation.config.federation import Federation
from glmesh.federation.wire.transport import PeerExchange
from glmesh.gossip.flows import FlowGossip, has_left
from glmesh.kernels.warm import warm_up
from glmesh.network.faults import Plan
from glmesh.problem.node_data import CompositeObjective
from glmesh.types import Indices, Vector

_NOT_YET = 1 << 62  # no round comes this late: a node that returned notes nothing until it has met somebody


@dataclass
class Proof:
    """A certificate that is good enough, and the node's own state that it is about."""

    certificate: Certificate
    x: Vector
    s: Vector
    flows: Vector  # s - u
    digest: int  # of the view


@dataclass
class Trainer:
    """State and rounds of a node."""

    federation: Federation
    me: int
    form: CompositeObjective
    life: int  # grows with every life of this node, and whenever links are opened anew
    hosted: HostedNodes = field(init=False)
    proof: Proof | None = None
    wills: dict[int, Vector] = field(default_factory=dict)  # shares of neighbours, should they never return
    wards: dict[int, Vector] = field(default_factory=dict)  # those that are counted here
    met: bool = True  # whether somebody was heard of since this node returned
    skipped: int = 0  # rounds that it was not there for

    def __post_init__(self) -> None:
        warm_up()
        federation, method = self.federation, self.federation.method()
        d = self.form.columns.d
        block = Block.of(np.array([self.me]), federation.network_info(), [self.form], lambda: np.zeros((1, d)))
        members = federation.members_at_start
        members[self.me] = 1
        acceleration, why = method.choose(reliable=True)
        state = method.init(block, None, members, acceleration, why)
        by_samples = federation.problem.split == "samples"
        gaps = SpectralGaps(federation.mixing, Plan())
        async_certifier = AsyncCertifier(
            block,
            by_samples=by_samples,
            gap_of=gaps,
            tol=federation.problem.tol,
            extrapolates=acceleration == "momentum",
        )
        self.hosted = HostedNodes(method, [block], [state], [async_certifier])
        self.gossip.single = federation.network.wire == "float32"
        self._new_edges()

    @property
    def block(self) -> Block:
        """Of this node alone."""
        return self.hosted.blocks[0]

    @property
    def state(self) -> Any:
        """Variables, ledger, momentum."""
        return self.hosted.states[0]

    @property
    def async_certifier(self) -> AsyncCertifier:
        """Its part of certificates."""
        return self.hosted.async_certifiers[0]

    @property
    def gossip(self) -> FlowGossip:
        """Its flows."""
        return self.hosted.gossip(0)

    @property
    def view(self) -> Indices:
        """Who takes part, as far as it knows."""
        return self.gossip.node_flows[0].view

    @property
    def members(self) -> list[int]:
        """The same, as numbers."""
        return np.flatnonzero(self.view & 1).tolist()

    @property
    def certificate(self) -> Certificate | None:
        """The newest, good enough or not."""
        snapshot = self.async_certifier.state.last[0]
        return None if snapshot is None else snapshot.certificate

    # rounds

    def greet(self, exchange: PeerExchange) -> None:
        """The exchange before the first round."""
        self._drive(self.gossip.greet(self.block), exchange)

    def round(self, exchange: PeerExchange) -> None:
        """The next round, or that which the neighbours are in."""
        self._catch_up(exchange)
        before, view = self.gossip.node_flows[0].digest, self.view.copy()
        state, method = self.state, self.hosted.method
        attended = self.async_certifier.attend(
            method.round(self.block, state), state, lambda: method.scale(self.block, state)
        )
        self._drive(attended, exchange)
        if self.gossip.node_flows[0].digest != before:
            self.members_changed(view)
        self._new_edges()

    def _drive(self, rounds: Rounds, exchange: PeerExchange) -> None:
        exchange.clock = self.gossip.clock
        try:
            rows = next(rounds)
            while True:
                (halo,) = exchange.swap([rows])
                rows = rounds.send(halo)
        except StopIteration:
            return

    def _catch_up(self, exchange: PeerExchange) -> None:
        ahead = exchange.newest - self.gossip.clock
        if ahead > 0:
            self.skipped += ahead
            self.gossip.clock += ahead
            self.state.round = self.gossip.clock - 1  # the first exchange is the greeting
        if not self.met and exchange.newest >= 0:
            self.met = True
            self.async_certifier.disturb(0, self.state.round + 1)

    def _new_edges(self) -> None:
        """A link that was never used belongs to the present life."""
        for edge in self.gossip.node_flows[0].edges.values():
            if edge.attempt < 0:
                edge.incarnation = self.life

    # what happens to nodes

    def returned(self) -> None:
        """This node was away, or is new, or has lost its memory: what it noted is void until it has met others."""
        for edge in self.gossip.node_flows[0].edges.values():
            edge.restart(self.life)
        self.hosted.disturbed(self.me, _NOT_YET)
        self.met = False

    def learn(self, node: int, count: int) -> None:
        """A member was given up, or is back: its count, which only grows. One that hears it of itself joins again."""
        if count > self.view[node]:
            view = self.view.copy()
            self.gossip.node_flows[0].count(node, count)
            self.members_changed(view)

    def members_changed(self, before: Indices) -> None:
        """After the view has changed: who left is counted by its heir, who returned counts itself."""
        freeze = self.federation.network.gone == "freeze"
        for node in np.flatnonzero(self.view != before).tolist():
            if node == self.me:
                continue
            if has_left(int(self.view[node])) and freeze and node in self.wills:
                self.wards[node] = self.wills.pop(node)
            elif self.view[node] & 1:
                self.wards.pop(node, None)
        own_flows = self.gossip.node_flows[0]
        own_flows.inherited = np.sum(list(self.wards.values()), axis=0) if self.wards else None
        if not self.view[self.me] & 1:  # the others had given this node up
            self.gossip.join(self.block, 0)
        self.gossip.open(self.block, 0)
        self.life += 1  # links that are opened anew must not be taken for the old ones
        self._new_edges()
        self.hosted.disturbed(self.me, self.state.round)

    # the result

    def look(self, wanted: int) -> bool:
        """Whether there is a new proof: the first that is good enough, or one of the round that others hold."""
        snapshot = self.async_certifier.state.last[0]
        if snapshot is None or snapshot.certificate is None or snapshot.digest != self.gossip.node_flows[0].digest:
            return False
        if snapshot.certificate.relative > self.federation.problem.tol:
            return False
        held = -1 if self.proof is None else self.proof.certificate.round
        if snapshot.round <= held or (held >= 0 and held >= wanted):
            return False
        self.proof = _proof(snapshot, snapshot.certificate)
        return True

    def share(self) -> Vector:
        """What it would leave behind: A_k x_k and what it counts for others."""
        share = self.block.share(0, self.state.x)
        inherited = self.gossip.node_flows[0].inherited
        return share if inherited is None else share + inherited

    def variables(self) -> tuple[Vector, Vector]:
        """(x_k, v_k) that the proof is about; the present ones without a proof."""
        if self.proof is None:
            return self.state.x.copy(), self.state.v[0].copy()
        return self.proof.x, len(self.proof.certificate.members) * self.proof.s

    def tree(self) -> dict[str, Any]:
        """All that must survive, as plain data."""
        return {
            "state": self.state,
            "certifier": self.async_certifier.state,
            "proof": None if self.proof is None else dict(vars(self.proof)),
            "wills": self.wills,
            "wards": self.wards,
            "life": self.life,
        }

    def restore(self, tree: dict[str, Any]) -> None:
        """Goes on from there, as a new life."""
        single, self.hosted.states[0] = self.gossip.single, tree["state"]
        self.gossip.single = single
        self.async_certifier.state = tree["certifier"]
        self.proof = None if tree["proof"] is None else Proof(**tree["proof"])
        self.wills, self.wards = tree["wills"], tree["wards"]
        self.returned()


def _proof(snapshot: RoundSnapshot, certificate: Certificate) -> Proof:
    return Proof(certificate, snapshot.x.copy(), snapshot.s.copy(), snapshot.flows.copy(), snapshot.digest)
