"""When momentum begins anew: function-value restarts of Nesterov's method (O'Donoghue and Candes, 2015), from late H.

Where all nodes know the same H in the same round they decide alike (`SharedPolicy`), and can all return to a snapshot.
Where messages get lost each node decides by what it has heard, and tells the others (`LocalPolicy`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from glmesh.collectives.pipeline import TreeAggregate
from glmesh.core import Block, Largest, PerColumn, PerNode, Shared
from glmesh.gossip import Gossip
from glmesh.methods.cola.iterate import Iterate
from glmesh.methods.cola.monitor import EpidemicMonitor, TreeMonitor
from glmesh.types import Indices, Matrix, Vector

# [parts of first H - best H] rise of H above the best beyond which momentum is rolled back, not only restarted: larger
# lets H rise further; source: benchmarks/reports/sensitivity.md
ROLLBACK_RISE = 0.1
# [rounds per depth of the spanning tree, which counts as 2 at least] after which momentum restarts although H falls: H
# may fall slowly for long where it would fall fast after a restart; source: benchmarks/reports/sensitivity.md
FIRST_STRIDE = 20.0
# factor of the stride after each restart that it caused; source: benchmarks/reports/sensitivity.md
STRIDE_GROWTH = 1.5
# [rounds] that H may stay above the last value before a node restarts, while losses make H uncertain: shorter restarts
# by noise; source: benchmarks/reports/sensitivity.md
NOISE_PATIENCE = 20
# [rounds] for which H counts as uncertain after a part was missing; source: benchmarks/reports/sensitivity.md
NOISE_MEMORY = 100


class Decision(Enum):
    """What the restart policy decides about momentum when a value of the objective becomes known.

    KEEP: go on. RESTART: extrapolation begins anew. ROLLBACK: return to the last good snapshot, too. FORGET: the
    members have changed, and so has the objective.
    """

    KEEP = "keep"  # H fell: go on, and let the bound of t grow
    RESTART = "restart"  # H rose, or the stride is over: t = 1
    ROLLBACK = "roll back"  # H rose far: restart from the last good snapshot, with a lower bound of t
    FORGET = "forget"  # the members, and so H, are others: restart, and no bound of t


Decisions = Iterator[tuple[int | slice, Decision]]  # (a hosted node, or slice(None) for all; decision), in order


@dataclass
class RestartPoint:
    """Variables x, shape (n_columns,), and estimates v, (n_hosted, d), at the start of a round, to roll back to.

    `round` is the number of that round; v estimates the data matrix times all variables at each hosted node.
    """

    round: Shared[int]
    x: PerColumn[Vector]
    v: PerNode[Matrix]


def first_stride(block: Block) -> float:
    """Return the number of rounds after which momentum first restarts even though the objective falls, a float."""
    return FIRST_STRIDE * max(block.info.depth, 2)


@dataclass
class SharedPolicy:
    """Restart policy of a reliable network: all nodes restart and roll back together, from one objective.

    `last`, `best` and `first` are values of that objective that were known, NaN: none; `good` is the snapshot of
    variables and estimates with the smallest; `stride` is the number of rounds after which momentum restarts in any
    case.
    """

    monitor: TreeMonitor
    stride: Shared[float]  # [rounds] from a restart to the next although H falls
    last: Shared[float] = np.nan  # H as last known; NaN: not since the last restart
    best: Shared[float] = np.nan  # smallest H so far; NaN: none is known
    first: Shared[float] = np.nan  # first H that was known
    restart_round: Shared[int] = 0  # H of earlier rounds is ignored
    restarts: Largest[int] = 0
    good: RestartPoint | None = None  # snapshot with the smallest known H; None: no snapshot's H is known
    pending: RestartPoint | None = None  # snapshot whose H is not known yet

    def begin_round(self, state: Iterate) -> None:
        """Take a snapshot of x and estimates into `pending`, unless one is there whose objective is not known yet."""
        if self.pending is None:
            self.pending = RestartPoint(state.round, state.x.copy(), state.gossip.v.copy())

    @staticmethod
    def of(block: Block) -> SharedPolicy:
        """Return the policy before round 0: no value of the objective is known, and no snapshot is taken."""
        return SharedPolicy(TreeMonitor(TreeAggregate.of(block)), first_stride(block))

    def review(self, block: Block, state: Iterate) -> Decisions:
        """Yield (slice(None), decision) after a round: one Decision for all nodes.

        Nothing while the objective is not known. The objective is that of 2 depth rounds ago, depth being that of the
        spanning tree, in links.
        """
        (h, _), of = self.monitor.observe(block, state, 0), state.round - 2 * block.info.depth
        if h is not None and of >= self.restart_round:
            yield slice(None), self.decide(h, of, state.round)

    def decide(self, h: float, of: int, round: int) -> Decision:
        """Return KEEP, RESTART or ROLLBACK from the objective h of round `of`, known in `round`; update the policy.

        RESTART if it rose or `stride` rounds have passed since the last restart, ROLLBACK if it rose far above the
        best.
        """
        if np.isnan(self.first):
            self.first = self.best = h
        if self.pending is not None and self.pending.round <= of:
            if self.pending.round == of and (self.good is None or h <= self.best):
                self.good = self.pending
            self.pending = None
        rose_far = self.good is not None and not h <= self.best + ROLLBACK_RISE * (self.first - self.best)
        overdue = round - self.restart_round >= self.stride
        rose = h > self.last
        self.best, self.last = float(np.fmin(self.best, h)), h
        if not (rose or rose_far or overdue):
            return Decision.KEEP
        if overdue:
            self.stride *= STRIDE_GROWTH
        self.restarts += 1
        self.last, self.restart_round, self.pending = np.nan, round + 1, None
        return Decision.ROLLBACK if rose_far else Decision.RESTART

    def forget(self, round: int) -> None:
        """Ignore the objective of rounds before `round`, which belongs to another function or point.

        Drop the snapshots.
        """
        self.last = self.best = self.first = np.nan
        self.restart_round, self.good, self.pending = round, None, None


@dataclass
class LocalPolicy:
    """Restart policy where messages get lost: each node restarts by the objective it has heard, and tells others.

    Fields have an entry per hosted node: `last`, `best` and `first` are values of the objective that the node knew,
    NaN: none; `stride` is the number of rounds after which it restarts momentum in any case.
    """

    monitor: EpidemicMonitor
    last: PerNode[Vector]  # (n_hosted,) H as last known; NaN: not since the last restart
    best: PerNode[Vector]  # (n_hosted,) smallest H so far; NaN: none is known
    first: PerNode[Vector]  # (n_hosted,) first H that was known
    restart_round: PerNode[Indices]  # (n_hosted,) H of rounds up to this one is ignored
    members: PerNode[Indices]  # (n_hosted,) digest of the view of members that H is about
    wait: PerNode[Indices]  # (n_hosted,) rounds since H was last at most `last`
    noisy_until: PerNode[Indices]  # (n_hosted,) losses make H uncertain before this round
    stride: PerNode[Vector]  # (n_hosted,) [rounds] from a restart to the next although H falls
    restarts: Largest[int] = 0
    good: ClassVar[None] = None  # nodes that decide apart cannot return together

    @staticmethod
    def of(block: Block, gossip: Gossip) -> LocalPolicy:
        """Return the policy before round 0, when no hosted node knows a value of the objective.

        `gossip` says who is a member.
        """
        unknown, never = np.full(block.size, np.nan), np.zeros(block.size, dtype=np.int64)
        members = np.array(gossip.view_digests())
        stride = np.full(block.size, first_stride(block))
        monitor = EpidemicMonitor.of(block)
        return LocalPolicy(
            monitor, unknown, unknown.copy(), unknown.copy(), never, members, never.copy(), never.copy(), stride
        )

    def begin_round(self, state: Iterate) -> None:
        """Do nothing: nodes that decide apart keep no snapshots."""

    def review(self, block: Block, state: Iterate) -> Decisions:
        """Yield (k, decision) after a round, for hosted nodes k that are up and heard of the objective or of a restart.

        A change of members counts too. A node may have two decisions, to be carried out in turn.
        """
        digests, of = state.gossip.view_digests(), state.round - 2 * block.info.depth
        for k in np.flatnonzero(state.up).tolist():
            h, whole = self.monitor.observe(block, state, k)
            if digests[k] != self.members[k]:  # H of other members, or other data, is another function
                self.members[k] = digests[k]
                self._begin(k, state.round)
                self.best[k] = self.first[k] = np.nan
                yield k, Decision.FORGET
            if not whole:
                self.noisy_until[k] = state.round + NOISE_MEMORY
            if (told := self.monitor.newest_restart(k)) > self.restart_round[k]:
                self._begin(k, told)
                yield k, Decision.RESTART
            elif h is not None and of > self.restart_round[k]:
                yield from ((k, decision) for decision in self._decide(k, h, state.round))
            else:
                continue
            if h is not None:
                self.first[k] = h if np.isnan(self.first[k]) else self.first[k]
                self.best[k] = np.fmin(self.best[k], h)

    def _decide(self, k: int, h: float, round: int) -> Iterator[Decision]:
        """Yield up to two decisions of the k-th hosted node from the objective h, known in `round`.

        KEEP if it fell, then a restart if due: RESTART or ROLLBACK, if it stayed above its last value for too long,
        rose far, or `stride` rounds have passed.
        """
        overdue = round - self.restart_round[k] >= self.stride[k]
        if overdue:
            self.stride[k] *= STRIDE_GROWTH
        rose_far = h > self.best[k] + ROLLBACK_RISE * (self.first[k] - self.best[k])
        self.wait[k] += 1
        if np.isnan(self.last[k]) or h <= self.last[k]:
            self.last[k], self.wait[k] = h, 0
            yield Decision.KEEP
        if self.wait[k] >= (NOISE_PATIENCE if round < self.noisy_until[k] else 1) or rose_far or overdue:
            self.restarts += 1
            self.monitor.announce_restart(k, round)
            self._begin(k, round)
            yield Decision.ROLLBACK if rose_far else Decision.RESTART

    def _begin(self, k: int | slice, round: int) -> None:
        """Forget the objective that the k-th hosted node (or those of a slice) knew, as its momentum begins anew."""
        self.last[k], self.wait[k], self.restart_round[k] = np.nan, 0, round

    def forget(self, round: int) -> None:
        """Ignore the objective of rounds up to `round` at all hosted nodes: it is of another function or point."""
        self._begin(slice(None), round)
        self.best[:] = self.first[:] = np.nan
