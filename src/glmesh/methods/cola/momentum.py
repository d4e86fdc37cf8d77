"""CoLA-M: momentum on the variables and on the gossip together.

CoLA descends in turn on one jointly convex function of the variables and the flows between nodes,
H(x, F) = (1/K) sum f(v_k) + g(x): the local solve in x, gossip in F. So both are extrapolated together, by Nesterov's
sequence, and one gossip step a round is enough. Momentum can overshoot: then H rises, and it begins anew (as it does
after a while that grows, in case it circles without H rising). Nodes learn H from one number that each adds to its
messages, some rounds late:

- In a network that stands still the parts of H are summed along a spanning tree, without a pause, and everybody knows H
  of round r in round r + 2 depth. All act alike, in the same round. If H is above the best that was confirmed by a good
  part of all that was won, all return to the last good snapshot, and momentum stays weaker for a while.
- Where things fail, every node passes on the newest parts that it has heard of, and whoever sees their sum rise begins
  anew and tells the others. Flows take the smaller momentum of their two ends, so the sum stays right in any case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glmesh.collectives.pipeline import EpidemicAggregate, TreeAggregate
from glmesh.core.block import Block
from glmesh.core.messages import Halo
from glmesh.core.state import Largest, PerColumn, PerNode, Shared
from glmesh.gossip.averaging import MatrixGossip
from glmesh.gossip.flows import FlowGossip
from glmesh.solvers import LocalSolver
from glmesh.types import Indices, Matrix, Vector

_FALL = 0.1  # a rise beyond this part of all that was won brings the last good snapshot back
_STRIDE, _SHORTEST, _LONGER = 10, 40.0, 1.5  # of `stride`: H may fall slowly for long where it would fall fast anew
_PATIENCE = 20  # rounds without progress that do not mean anything where messages get lost
_MEMORY = 100  # rounds for which a loss is remembered
_DARE = 2.5  # t is at most this divided by the square of the share of neighbours that are silent: measured
_FADE = 0.1  # of what a node remembers of that, per round
_GROWTH = 1.05  # of the cap, in every round that goes well


def parts_of_h(block: Block, state: Any) -> Vector:
    """f(v_k)/K + g_k(x_k) of every hosted node; their sum is H."""
    members_seen = np.maximum(state.gossip.members_seen, 1.0)
    means: Vector = np.array([block.f.value(v) for v in state.gossip.v]) / members_seen
    return means + block.node_values(state.x)


@dataclass
class Snapshot:
    """The state at the start of a round."""

    round: Shared[int]
    x: PerColumn[Vector]
    v: PerNode[Matrix]


@dataclass
class Momentum:
    """What a block carries from round to round to know how strong momentum is, and when it has been too strong."""

    x: PerColumn[Vector]  # the variables of the round before
    t: PerNode[Vector]  # Nesterov's sequence, per node
    cap: PerNode[Vector]  # of t
    theta: PerNode[Vector]  # the extrapolation of the coming round
    last: PerNode[Vector]  # H as last known
    best: PerNode[Vector]  # the smallest H so far, as far as known
    first: PerNode[Vector]
    since: PerNode[Indices]  # what is known of earlier rounds does not count
    views: PerNode[Indices]  # a digest of the members that `last` is about
    wait: PerNode[Indices]  # rounds since H was last below `last`
    noisy: PerNode[Indices]  # until this round losses make H uncertain
    stride: PerNode[Vector]  # rounds after which momentum begins anew even though H falls
    heard: PerNode[Vector]  # the share of its neighbours that a node hears in a round, lately
    news: TreeAggregate | EpidemicAggregate
    restarts: Largest[int] = 0
    falls: Largest[int] = 0  # restarts because H had risen too far
    good: Snapshot | None = None  # the best that was confirmed
    pending: Snapshot | None = None  # one that is not confirmed yet

    @staticmethod
    def of(block: Block, state: Any) -> Momentum:
        """At rest."""
        size, unknown = block.size, np.full(block.size, np.nan)
        matrix = isinstance(state.gossip, MatrixGossip)
        news = TreeAggregate.of(block) if matrix else EpidemicAggregate.of(block)
        views = [-1] * size if matrix else [own_flows.digest for own_flows in state.gossip.node_flows]
        return Momentum(
            x=state.x.copy(),
            t=np.ones(size),
            cap=np.full(size, np.inf),
            theta=np.zeros(size),
            last=unknown,
            best=unknown.copy(),
            first=unknown.copy(),
            since=np.zeros(size, dtype=np.int64),
            views=np.array(views),
            wait=np.zeros(size, dtype=np.int64),
            noisy=np.zeros(size, dtype=np.int64),
            stride=np.full(size, max(2.0 * _STRIDE * block.info.depth, _SHORTEST)),
            heard=np.full(size, 0.5),
            news=news,
        )

    def forget(self, state: Any) -> None:
        """The problem changed: momentum begins anew, and what is known of H is void."""
        self.x = state.x.copy()
        self._restart(np.ones(len(self.t), dtype=bool), state.round + 1)
        self.best[:], self.first[:] = np.nan, np.nan
        self.good = self.pending = None

    def still(self, block: Block, state: Any, k: int) -> None:
        """The k-th hosted node was changed from outside, and has no momentum."""
        own = block.of_node(k)
        self.x[own] = state.x[own]
        self.theta[k] = 0.0
        if isinstance(state.gossip, FlowGossip):
            state.gossip.still(k)

    def begin(self, block: Block, state: Any, solver: LocalSolver) -> Any:
        """Extrapolates; returns what rides along with the exchange."""
        parts = parts_of_h(block, state)
        riding: Any
        if isinstance(self.news, TreeAggregate):
            if self.pending is None:
                self.pending = Snapshot(state.round, state.x.copy(), state.gossip.v.copy())
            riding = self.news.outgoing(block, parts)
        else:
            riding = self.news.outgoing(block, parts, state.round, state.up)
        theta = np.where(state.up, self.theta, 0.0)
        ahead = state.x + theta[block.node_of] * (state.x - self.x)
        y = block.inside(ahead)
        idle = (state.screening.radius2 > 0) | (state.required_theta == 1.0)  # who does not move does not coast
        y = np.where(idle[block.node_of], state.x, y)
        state.gossip.extrapolate(block, theta)
        if (y != ahead).any():
            for k in range(block.size):
                change = (y - ahead)[block.of_node(k)]
                if change.any():
                    state.gossip.move(block, k, change)
        solver.moved(block, state.memory, y != state.x)
        self.x, state.x = state.x, y
        return riding

    def end(self, block: Block, state: Any, halo: Halo, solver: LocalSolver) -> None:
        """After a round: how strong momentum is in the next one."""
        after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * self.t**2))
        self.theta = (self.t - 1.0) / after
        self.t = np.minimum(after, self.cap)
        if isinstance(self.news, TreeAggregate):
            if self._hear_all(block, state, float(self.news.incoming(block, halo)[0])):
                assert self.good is not None
                solver.moved(block, state.memory, state.x != self.good.x)
                state.x, state.gossip.v[:] = self.good.x.copy(), self.good.v
        else:
            self.news.incoming(block, halo)
            self._listen(block, state, halo)
            self._hear(block, state)

    def _listen(self, block: Block, state: Any, halo: Halo) -> None:
        """The less a node hears of its neighbours the less momentum it dares."""
        senders: list[set[int]] = [set() for _ in range(block.size)]
        for letter in halo.letters:
            senders[letter.receiver - int(block.ids[0])].add(letter.sender)
        for k in np.flatnonzero(state.up):
            links = len(state.gossip.node_flows[k].edges)
            share = min(len(senders[k]) / links, 1.0) if links else 1.0
            self.heard[k] += _FADE * (share - self.heard[k])
        silence = np.maximum(1.0 - self.heard, 1e-6)
        self.t = np.minimum(self.t, np.maximum(_DARE / silence**2, 1.0))

    def _restart(self, nodes: Any, since: int) -> None:
        self.wait[nodes] = 0
        self.t[nodes], self.theta[nodes], self.last[nodes], self.since[nodes] = 1.0, 0.0, np.nan, since

    def _hear_all(self, block: Block, state: Any, h: float) -> bool:
        """H of one round, which everybody hears of at the same time; whether all return to the good snapshot."""
        everybody = np.ones(block.size, dtype=bool)
        of = state.round - 2 * block.info.depth
        if np.isnan(h) or of < self.since[0]:
            return False
        if np.isnan(self.first[0]):
            self.first[:], self.best[:] = h, h
        if self.pending is not None and self.pending.round <= of:
            if self.pending.round == of and (self.good is None or h <= self.best[0]):
                self.good = self.pending
            self.pending = None
        won = self.first[0] - self.best[0]
        fell = self.good is not None and not h <= self.best[0] + _FALL * won
        long = state.round - self.since[0] >= self.stride[0]
        if h > self.last[0] or fell or long:
            if long:
                self.stride *= _LONGER
            self.restarts += 1
            if fell:
                self.falls += 1
                self.cap[:] = np.maximum(self.t / 2, 2.0)
            self._restart(everybody, state.round + 1)
            self.pending = None
        else:
            self.last[:] = h
            self.cap *= _GROWTH
        self.best[:] = np.fmin(self.best, h)
        return fell

    def _hear(self, block: Block, state: Any) -> None:
        """What every node has heard by now; whoever sees H stay above its best begins anew and tells the others."""
        news, of = self.news, state.round - 2 * block.info.depth
        assert isinstance(news, EpidemicAggregate)
        for k in np.flatnonzero(state.up):
            own_flows = state.gossip.node_flows[k]
            h, whole = news.at(int(k), of, (own_flows.view & 1).astype(bool))
            if own_flows.digest != self.views[k]:  # H of other members, or other data, is another function
                self.views[k] = own_flows.digest
                self._restart(k, state.round)
                self.best[k], self.first[k], self.cap[k] = np.nan, np.nan, np.inf
            if not whole:
                self.noisy[k] = state.round + _MEMORY
            if news.restarts[k] > self.since[k]:
                self._restart(k, int(news.restarts[k]))
            elif of <= self.since[k] or np.isnan(h):
                continue
            else:
                long = state.round - self.since[k] >= self.stride[k]
                if long:
                    self.stride[k] *= _LONGER
                fell = h > self.best[k] + _FALL * (self.first[k] - self.best[k])
                self.wait[k] += 1
                if np.isnan(self.last[k]) or h <= self.last[k]:
                    self.last[k], self.wait[k] = h, 0
                    self.cap[k] *= _GROWTH
                if self.wait[k] >= (_PATIENCE if state.round < self.noisy[k] else 1) or fell or long:
                    if fell:
                        self.falls += 1
                        self.cap[k] = max(self.t[k] / 2, 2.0)
                    self.restarts += 1
                    news.restarts[k] = state.round
                    self._restart(k, state.round)
            self.first[k] = h if np.isnan(self.first[k]) else self.first[k]
            self.best[k] = np.fmin(self.best[k], h)
