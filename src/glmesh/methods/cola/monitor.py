"""How nodes come to know H while they gossip: one number that each adds to its messages, known some rounds later.

H(x, v) = (1/K) sum_k f(v_k) + g(x). Where nothing fails its parts are summed along a spanning tree without a pause, and
all nodes know H of round r in round r + 2 depth, with the same bits. Where messages get lost every node passes on the
newest parts that it has heard of, and adds up those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from glmesh.collectives.pipeline import EpidemicAggregate, TreeAggregate
from glmesh.core import Block, Halo, PerNode, Riding, Shared
from glmesh.methods.cola.iterate import Iterate
from glmesh.types import Vector

# t is at most this divided by the square of the share of neighbours that a node does not hear: larger dares more
# momentum where messages get lost; source: benchmarks/reports/sensitivity.md
SILENT_MOMENTUM = 2.5
# weight of the newest round in the moving average of the share of neighbours heard; source:
# benchmarks/reports/sensitivity.md
HEARD_GAIN = 0.1


class Monitor(Protocol):
    """Protocol: sums a node's part of the objective H, f(v_k)/K + g_k(x_k), over all nodes by messages of gossip.

    Gossip averages the nodes' estimates with their neighbours'.
    """

    def outgoing(self, block: Block, state: Iterate, parts: Vector) -> Riding:
        """Return the scalars or message parts that the hosted nodes add to their gossip messages of this round.

        `parts` are f(v_k)/K + g_k(x_k), the nodes' parts of the objective H, shape (n_hosted,). Gossip averages the
        nodes' estimates with their neighbours'.
        """
        ...

    def incoming(self, block: Block, state: Iterate, halo: Halo) -> None:
        """Update the sum of the objective H from what neighbours added to their gossip messages, in the halo."""
        ...

    def observe(self, block: Block, state: Iterate, k: int) -> tuple[float | None, bool]:
        """Return (H of round `state.round - 2 depth` as the k-th hosted node knows it, whether it is complete).

        H is the objective, a float, and None while it is not known; depth is that of the spanning tree, in links. It is
        complete if all nodes' parts are of that round; for a missing part, one of an earlier round is counted.
        """
        ...

    @property
    def largest_t(self) -> float | Vector:
        """Return the bound of Nesterov's t, one for all nodes or shape (n_hosted,); lower where messages get lost."""
        ...


@dataclass
class TreeMonitor:
    """Monitor of a reliable network: sums the objective H along the spanning tree; all nodes know the same H.

    H = (1/K) sum f(v_k) + g(x) over the estimates v_k of K nodes and the variables x; `h` is its value of 2 depth
    rounds ago, depth being that of the tree in links, and NaN while none is known.
    """

    aggregate: TreeAggregate
    h: Shared[float] = np.nan  # objective H of round - 2 depth; NaN: not known yet
    largest_t: ClassVar[float] = np.inf

    def outgoing(self, block: Block, state: Iterate, parts: Vector) -> Riding:
        """Return the two scalars that each hosted node sends, shape (n_hosted, 2): sum of its subtree, and total.

        `parts` are the nodes' parts f(v_k)/K + g_k(x_k) of the objective H in this round, shape (n_hosted,); the two
        scalars belong to earlier rounds.
        """
        return Riding(scalars=self.aggregate.outgoing(block, parts))

    def incoming(self, block: Block, state: Iterate, halo: Halo) -> None:
        """Take the scalars of children and parent from the halo; set `h` to the objective of 2 depth rounds ago.

        depth is that of the spanning tree, in links; NaN stands for an objective that is not known. A halo is all that
        a block's nodes received in one exchange.
        """
        self.h = float(self.aggregate.incoming(block, halo)[0])

    def observe(self, block: Block, state: Iterate, k: int) -> tuple[float | None, bool]:
        """Return (H of round `state.round - 2 depth`, True), H being the objective, a float, equal at all nodes.

        H is None while it is not known; depth is that of the spanning tree, in links; `k` is not read.
        """
        return None if np.isnan(self.h) else self.h, True


@dataclass
class EpidemicMonitor:
    """Monitor where messages get lost: a node sums the newest part of the objective H that it heard of each member.

    Member l's part is f(v_l)/K + g_l(x_l); nodes may know different values of H.
    """

    aggregate: EpidemicAggregate
    heard: PerNode[Vector]  # (n_hosted,) moving average of the share of its neighbours that a node hears in a round

    @staticmethod
    def of(block: Block) -> EpidemicMonitor:
        """Return the monitor before round 0: no part of the objective is known, and `heard` is 1/2 at every node.

        `heard` is the fraction of a node's neighbours whose messages arrive.
        """
        return EpidemicMonitor(EpidemicAggregate.of(block), np.full(block.size, 0.5))

    def outgoing(self, block: Block, state: Iterate, parts: Vector) -> Riding:
        """Return an ObjectiveDigest per hosted node to send: the newest part of the objective of all nodes heard of.

        `parts` are those of the hosted nodes in this round, f(v_k)/K + g_k(x_k), shape (n_hosted,); entries of nodes
        that are down are not used.
        """
        return Riding(parts=self.aggregate.outgoing(block, parts, state.round, state.up))

    def incoming(self, block: Block, state: Iterate, halo: Halo) -> None:
        """Store newer parts f(v_k)/K + g_k(x_k) of the objective from other nodes in the halo; update `heard`.

        `heard` is a moving average per hosted node, between 0 and 1: the fraction of its neighbours whose message
        arrives. A halo is all that a block's nodes received in one exchange.
        """
        self.aggregate.incoming(block, halo)
        senders: list[set[int]] = [set() for _ in range(block.size)]
        for mail in halo.mail:
            senders[mail.receiver - int(block.ids[0])].add(mail.sender)
        for k in np.flatnonzero(state.up):
            links = len(state.flow_gossip.node_flows[k].edges)
            share = min(len(senders[k]) / links, 1.0) if links else 1.0
            self.heard[k] += HEARD_GAIN * (share - self.heard[k])

    def observe(self, block: Block, state: Iterate, k: int) -> tuple[float | None, bool]:
        """Return (H of round `state.round - 2 depth` as the k-th hosted node knows it, whether it is complete).

        H is the objective, a float, and None while some member was never heard of; depth is that of the spanning tree,
        in links. It is complete if all members' parts are of that round; for a missing part, one of an earlier round is
        counted.
        """
        members = state.flow_gossip.node_flows[k].view.flags
        h, whole = self.aggregate.at(k, state.round - 2 * block.info.depth, members)
        return None if np.isnan(h) else h, whole

    def newest_restart(self, k: int) -> int:
        """Return the round of the newest restart of momentum, at any node, that the k-th hosted node has heard of.

        -1: none.
        """
        return int(self.aggregate.restarts[k])

    def announce_restart(self, k: int, round: int) -> None:
        """Add to the coming messages of the k-th hosted node that it restarted momentum in `round`."""
        self.aggregate.restarts[k] = round

    @property
    def largest_t(self) -> Vector:
        """Return the bound of Nesterov's t, shape (n_hosted,): the fewer neighbours a node hears, the lower.

        The bound is SILENT_MOMENTUM / (1 - heard)^2, at least 1, with `heard` the fraction of neighbours heard.
        """
        silence = np.maximum(1.0 - self.heard, 1e-6)
        return np.maximum(SILENT_MOMENTUM / silence**2, 1.0)
