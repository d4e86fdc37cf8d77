"""Certificates while things fail: never false, and silent while somebody who takes part stays away.

The bound is that of `glmesh.certificate`. It needs the state of all members at one and the same round T, with estimates
whose sum is right. Rounds T are fixed beforehand, so nobody has to be asked:

- At round T a node notes its x, s and the version and digest of every link. One that is away notes them when it is
  back: while it was away nothing of it could change.
- The offers of round T bring the neighbours' s of that round, and the version and digest of their ends. Whoever misses
  one asks for it in the next letters.
- Where a message was lost one way, the two ends of a link differ, and the sum of all s is not that of all u. The bound
  holds for any estimates whose sum is right, so the end that was behind corrects its note as the link will correct
  itself: it asks for the other's flow of round T, and says that its s is another than the one it had offered.
- Records are passed on from neighbour to neighbour until everybody has those of all members. They carry a digest of the
  view of who takes part (and with which data): records of different views are never combined. As a second guard each
  record carries q_k = <rho, s_k - u_k> with a random rho that all compute alike, and the sum of all q must vanish.

A node whose own subproblem has nothing to gain that matters rests (`glmesh.block.Rest`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glmesh.certificate.bound import SMALLEST, BoundTerms, Certificate, NodePoint, bound, node_record
from glmesh.core.block import Block
from glmesh.core.messages import Halo, Rounds
from glmesh.core.state import PerNode
from glmesh.gossip.flows import FlowGossip
from glmesh.gossip.messages import CertificateRecord, LinkMessage
from glmesh.solvers import local_gap
from glmesh.types import Indices, Vector

_PERIOD, _PATIENCE = 20, 0.05  # rounds from T to the next: 20 and two diameters, or a twentieth of T if that is more
_CONSERVED = 1e-11  # of the size of what cancels: the sum of all q


@dataclass
class RoundSnapshot:
    """What a node noted at round T, and what it has heard about that round since."""

    round: int
    x: Vector
    s: Vector
    flows: Vector  # s - u
    view: Indices
    digest: int
    ends: dict[int, tuple[int, int]]  # version and digest of the links to the neighbours
    link_flows: dict[int, Vector]
    inherited: Vector | None  # the constant part of flows
    closed: dict[int, bool]  # neighbours whose link has failed for good
    their_ends: dict[int, tuple[int, int]] = field(default_factory=dict)  # the same as the neighbours noted it
    their_flows: dict[int, Vector] = field(default_factory=dict)  # on links where they were ahead
    offered: dict[int, Vector] = field(default_factory=dict)  # the neighbours' s of that round
    final: dict[int, Vector] = field(default_factory=dict)  # corrected, or known to stand
    settled: bool = False  # s and flows are as they are to be
    corrected: bool = False
    heard: dict[int, CertificateRecord] = field(default_factory=dict)  # the last note of each neighbour
    rows: dict[int, Vector] = field(default_factory=dict)
    known: int = 0  # bit k for the row of node k
    certificate: Certificate | None = None

    def add_row(self, node: int, row: Vector) -> None:
        """A record, the node's own or one that was passed on."""
        self.rows.setdefault(node, row)
        self.known |= 1 << node

    def behind(self, peer: int) -> bool:
        """Whether a neighbour's end of the link had the higher version."""
        return peer in self.their_ends and self.their_ends[peer][0] > self.ends[peer][0]

    def settle(self, neighbours: list[int]) -> None:
        """Corrects s, once the other ends of all links are known: then every link counts once forth and once back."""
        if self.settled or not all(peer in self.ends and peer in self.their_ends for peer in neighbours):
            return
        if any(self.behind(peer) and peer not in self.their_flows for peer in neighbours):
            return
        for peer in neighbours:
            (version, digest), (their_version, their_digest) = self.ends[peer], self.their_ends[peer]
            if their_version > version:
                change = -self.their_flows[peer] - self.link_flows[peer]
            elif their_version == version and their_digest != digest:  # both ends will make it zero
                change = -self.link_flows[peer]
            else:
                continue
            self.s, self.flows, self.corrected = self.s + change, self.flows + change, True
        self.settled = True


@dataclass
class AsyncCertifierState:
    """What the nodes of a block remember of certificates in the making."""

    snapshots: PerNode[list[RoundSnapshot | None]]  # of the present round T; None: the node was away since
    last: PerNode[list[RoundSnapshot | None]]  # the newest that led to a certificate
    since: PerNode[list[int]]  # a node's state was changed from outside at this round
    reach: PerNode[list[float]]  # bound of |w_k - w| that the next record may rely on


class AsyncCertifier:
    """The memos of a block's nodes; rides along with their letters."""

    def __init__(
        self,
        block: Block,
        *,
        by_samples: bool,
        gap_of: Callable[[Indices, int], float],
        tol: float | None,
        extrapolates: bool,
    ) -> None:
        self.block = block
        self.by_samples = by_samples
        self.gap_of = gap_of  # a lower bound of 1 - lambda_2 of the mixing among the members of a view
        self.tol = tol
        self.extrapolates = extrapolates  # offers are of another point than the nodes' own
        self.state = AsyncCertifierState(
            [None] * block.size, [None] * block.size, [0] * block.size, [np.inf] * block.size
        )
        self.period = _PERIOD + 2 * block.info.diameter

    def attend(self, rounds: Rounds, state: Any, curvature: Callable[[], Vector]) -> Rounds:
        """A round whose exchanges carry notes along."""
        self._prepare(state)
        rows, first = next(rounds), True
        while True:
            self._attach(rows.letters, state.round, first=first)
            halo = yield rows
            self._take(halo, state, curvature, first=first)
            try:
                rows, first = rounds.send(halo), False
            except StopIteration:
                return

    def disturb(self, k: int, round: int) -> None:
        """The state of the k-th hosted node is changed from outside: what it noted before is void."""
        self.state.since[k] = round
        self.state.snapshots[k] = None

    def _prepare(self, state: Any) -> None:
        now = last_record(state.round, self.period)
        gossip: FlowGossip = state.gossip
        for k in range(self.block.size):
            snapshot, own_flows = self.state.snapshots[k], gossip.node_flows[k]
            if not state.up[k] or now < self.state.since[k] or (snapshot is not None and snapshot.round == now):
                continue
            state.screening.invalidate(k)
            self.state.snapshots[k] = RoundSnapshot(
                round=now,
                x=state.x[self.block.of_node(k)].copy(),
                s=gossip.u[k] + (flows := gossip.committed(k)),
                flows=flows,
                view=own_flows.view,
                digest=own_flows.digest,
                ends={peer: (edge.version, edge.digest) for peer, edge in own_flows.edges.items()},
                link_flows={peer: edge.flow.copy() for peer, edge in own_flows.edges.items()},
                inherited=own_flows.inherited,
                closed=own_flows.closed.copy(),
            )

    def _attach(self, letters: list[LinkMessage], round: int, *, first: bool) -> None:
        for letter in letters:
            snapshot, peer = self.state.snapshots[letter.sender - int(self.block.ids[0])], letter.receiver
            opening = first and snapshot is not None and snapshot.round == round
            if snapshot is None or (opening and not self.extrapolates) or peer not in snapshot.ends:
                continue  # without momentum the first offers of round T say all that there is to say then
            note = letter.note = CertificateRecord(
                snapshot.round,
                snapshot.ends[peer],
                snapshot.settled,
                snapshot.corrected,
                peer in snapshot.offered,
                peer in snapshot.final,
                not snapshot.behind(peer) or peer in snapshot.their_flows,
                snapshot.known,
            )
            if opening:
                note.vector = snapshot.s
            heard = snapshot.heard.get(peer)
            news = snapshot.known if heard is None else snapshot.known & ~heard.known
            if news:
                note.rows = {node: row for node, row in snapshot.rows.items() if news >> node & 1}
            if heard is not None:
                lacks = not heard.has_final if snapshot.corrected else not heard.has_offer
                note.vector = snapshot.s if snapshot.settled and lacks else None
                note.flow = None if heard.has_flow else snapshot.link_flows[peer]

    def _take(self, halo: Halo, state: Any, curvature: Callable[[], Vector], *, first: bool) -> None:
        for letter in halo.letters:
            k, peer, offer = letter.receiver - int(self.block.ids[0]), letter.sender, letter.offer
            snapshot, edge = self.state.snapshots[k], state.gossip.node_flows[k].edges.get(letter.sender)
            if snapshot is None or edge is None or peer not in snapshot.ends:
                continue
            offers_snapshot = first and snapshot.round == state.round and offer.attempt == edge.attempt
            if offers_snapshot and offer.vector is not None and not self.extrapolates:
                snapshot.their_ends[peer] = (offer.version, offer.digest)
                snapshot.offered[peer] = offer.vector
            if letter.note is not None and letter.note.round == snapshot.round:
                self._read(snapshot, peer, letter.note)
        for k, snapshot in enumerate(self.state.snapshots):
            if snapshot is not None and state.up[k]:
                snapshot.settle([peer for peer, _ in self._neighbours(k, snapshot)])
                self._record(k, snapshot, state, curvature)
                self._conclude(k, snapshot)

    def _neighbours(self, k: int, snapshot: RoundSnapshot) -> list[tuple[int, float]]:
        """(neighbour, W_kl) at round T."""
        return [
            (p, weight) for p, weight in self.block.neighbours(k) if snapshot.view[p] & 1 and p not in snapshot.closed
        ]

    def _read(self, snapshot: RoundSnapshot, peer: int, note: CertificateRecord) -> None:
        snapshot.heard[peer] = note
        snapshot.their_ends[peer] = note.end
        for node, row in note.rows.items():
            snapshot.add_row(node, row)
        if note.flow is not None:
            snapshot.their_flows[peer] = note.flow
        if note.vector is not None:
            snapshot.offered[peer] = note.vector
            if note.settled:
                snapshot.final[peer] = note.vector
        if note.settled and not note.corrected and peer in snapshot.offered:
            snapshot.final[peer] = snapshot.offered[peer]

    def _record(self, k: int, snapshot: RoundSnapshot, state: Any, curvature: Callable[[], Vector]) -> None:
        """Once all neighbours' s of round T are here: the node's own record."""
        block = self.block
        me = int(block.ids[k])
        neighbours = self._neighbours(k, snapshot)
        if me in snapshot.rows or not snapshot.settled or any(peer not in snapshot.final for peer, _ in neighbours):
            return
        n_nodes = int(np.sum(snapshot.view & 1))
        v = n_nodes * snapshot.s
        w = block.f.gradient(v)
        away_v, away_w = np.zeros(block.d), np.zeros(block.d)
        for peer, weight in neighbours:
            theirs = n_nodes * snapshot.final[peer]
            away_v += weight * (v - theirs)
            away_w += weight * (w - block.f.gradient(theirs))
        reach = self.state.reach[k]
        at = NodePoint(snapshot.x, v, w, float(away_v @ away_v), float(away_w @ away_w))
        record = node_record(block, k, at, reach, by_samples=self.by_samples)
        inherited = snapshot.inherited
        if inherited is not None and np.isfinite(reach):  # f(. + c) has the conjugate f* - <c, .>
            tilt = float(np.linalg.norm(inherited)) * reach - float(inherited @ w)
            record = record._replace(ray1=record.ray1 + n_nodes * tilt)
        q = float(curvature()[k])
        gap = local_gap(block, k, snapshot.x, w, q)
        rho = np.random.default_rng([block.info.seed, snapshot.round]).standard_normal(block.d)
        flows = snapshot.flows if inherited is None else snapshot.flows - inherited
        size = float(np.linalg.norm(rho) * np.linalg.norm(flows))
        row = np.array([*record, reach, float(rho @ flows), size, float(snapshot.digest), gap])
        snapshot.add_row(me, row)
        last = self.state.last[k]
        before = None if last is None else last.certificate
        if before is not None and self.tol is not None:
            state.screening.begin(k, w, before.screening_radius2(gap, q, self.tol, n_nodes))

    def _conclude(self, k: int, snapshot: RoundSnapshot) -> None:
        """The certificate, once the records of all members are here."""
        if snapshot.certificate is not None:
            return
        members = np.flatnonzero(snapshot.view & 1)
        if len(snapshot.rows) < len(members) or any(int(node) not in snapshot.rows for node in members):
            return
        table = np.array([snapshot.rows[int(node)] for node in members])
        width = len(BoundTerms._fields)
        records, (reach, q, q_size, views, gaps) = table[:, :width], table[:, width:].T
        consensus_gap = self.gap_of(snapshot.view, snapshot.round)
        if (views != snapshot.digest).any() or consensus_gap <= 0 or abs(q.sum()) > _CONSERVED * q_size.sum():
            return
        totals = records.sum(axis=0)
        totals[SMALLEST] = records[:, SMALLEST].min(axis=0)
        found, self.state.reach[k] = bound(
            totals,
            n_nodes=len(members),
            radius=float(reach.min()),
            consensus_gap=consensus_gap,
            tau=self.block.f.tau,
            by_samples=self.by_samples,
            round=snapshot.round,
        )
        snapshot.certificate = Certificate(
            found.round,
            found.bound,
            found.objective_low,
            found.objective_high,
            tuple(int(node) for node in members),
            tuple(gaps.tolist()),
        )
        self.state.last[k] = snapshot


def last_record(round: int, period: int) -> int:
    """The newest of the rounds T, which are 0, T + max(period, T/20), ..., that is not after this one."""
    at = 0
    while True:
        after = at + max(period, int(_PATIENCE * at))
        if after > round:
            return at
        at = after
