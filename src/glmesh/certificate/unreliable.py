"""Certificates while things fail: never false, and silent while a member stays away.

The bound is that of `glmesh.certificate.bound`. It needs the state of all members at one and the same round T, with
estimates whose sum is right. Rounds T are fixed beforehand, so nobody has to be asked:

- At round T a node takes a snapshot of its x, its s and the version and digest of every link. A node that is away takes
  it when it is back: while it was away nothing of it could change.
- The offers of round T bring the neighbours' s of that round, and the version and digest of their ends. A node that
  misses one asks for it in its next messages.
- Where a message was lost one way, the two ends of a link differ, and the sum of all s is not that of all u. The bound
  holds for any estimates whose sum is right, so the end that was behind reconciles its snapshot as the link will
  reconcile itself: it asks for the other's flow of round T, and says that its s is another than the one it had offered.
- Rows (`BoundTerms` and a `Guard` per node) are passed on from neighbour to neighbour until all nodes have those of all
  members. A row carries a digest of the view of the members (and of their data): rows of different views are never
  combined. As a second guard each row carries q_k = <rho, s_k - u_k> with a random rho that all compute alike, and the
  sum of all q must vanish.

A node whose own subproblem has nothing to gain that matters skips it (`glmesh.solvers.screening`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np

from glmesh.certificate.bound import SMALLEST, BoundSetting, CertifiedState, NodePoint, bound, node_record
from glmesh.certificate.messages import RECORD_WIDTH, CertificateRecord, Guard
from glmesh.core import Block, Certificate, Contents, Halo, Mail, PerNode, Rounds
from glmesh.gossip import FlowGossip, MembershipView, Offer
from glmesh.solvers import local_gap
from glmesh.types import Flags, Vector

# [rounds] from one T to the next: 20 and two diameters, or a twentieth of T if that is more. Rows need a diameter to
# reach everybody, as much again where messages are asked for once more; a long run can wait longer.
_PERIOD, _PATIENCE = 20, 0.05
_CONSERVED = 1e-11  # |sum of all q| beyond this part of the sum of their sizes means that a flow is not conserved


class FlowState(CertifiedState, Protocol):
    """Protocol: attributes that a state on flow gossip must have for an `AsyncCertifier` to certify it."""

    up: Flags  # (n_hosted,) nodes that take part in the round

    @property
    def flow_gossip(self) -> FlowGossip:
        """Return the FlowGossip, which holds the hosted nodes' estimates and the flows over their links."""


@dataclass
class RoundSnapshot:
    """What one node noted of its state in round T, which a certificate is about, and the data of T received since.

    x are its variables; s = v / K is its estimate v of Ax (A the data matrix) over the number K of nodes; flows are
    what has flowed over its links. Dictionaries have an entry per neighbour, `rows` one per node. A certificate is a
    proven upper bound of the suboptimality.
    """

    round: int  # T, the round that the certificate is about
    x: Vector  # (n_k,) x_k
    s: Vector  # (d,) s_k, corrected once `reconciled`
    flows: Vector  # (d,) s_k minus the share u_k = A_k x_k: the sum of the node's flows
    view: MembershipView
    ends: dict[int, tuple[int, int]]  # version and digest of the own end of each link
    link_flows: dict[int, Vector]  # (d,) flow F_kl of each link
    inherited: Vector | None  # (d,) shares of nodes that left, a constant part of flows; None: none
    closed: dict[int, bool]  # neighbours whose link has failed for good
    their_ends: dict[int, tuple[int, int]] = field(default_factory=dict)  # version and digest of the neighbours' ends
    their_flows: dict[int, Vector] = field(default_factory=dict)  # (d,) F_lk of links where the neighbour was ahead
    offered: dict[int, Vector] = field(default_factory=dict)  # (d,) the neighbours' s as offered at T
    final: dict[int, Vector] = field(default_factory=dict)  # (d,) the neighbours' s, corrected or known to stand
    reconciled: bool = False  # s and flows are final
    corrected: bool = False  # the final s is another than the one offered at T
    heard: dict[int, CertificateRecord] = field(default_factory=dict)  # last record part of each neighbour
    rows: dict[int, Vector] = field(default_factory=dict)  # (ROW_WIDTH,) BoundTerms and Guard of each node
    known: int = 0  # bit k: the row of node k is there
    certificate: Certificate | None = None

    def add_row(self, node: int, row: Vector) -> None:
        """Store the numbers of a node (BoundTerms and Guard), shape (ROW_WIDTH,), unless the node has some already."""
        self.rows.setdefault(node, row)
        self.known |= 1 << node

    def conclude(self, certificate: Certificate) -> None:
        """Store the certificate of round T, which follows from the rows of all members.

        A certificate is a proven upper bound of the suboptimality.
        """
        self.certificate = certificate

    def take_offer(self, peer: int, offer: Offer | None, attempt: int) -> None:
        """Store neighbour `peer`'s vector s, and version and digest of its end of the link, from its offer.

        Does nothing if the offer is None, has no vector (a HELLO), or belongs to another attempt than number `attempt`.
        """
        if offer is not None and offer.attempt == attempt and offer.vector is not None:
            self.their_ends[peer] = (offer.version, offer.digest)
            self.offered[peer] = offer.vector

    def behind(self, peer: int) -> bool:
        """Return whether neighbour `peer`'s end of the link had a newer flow in round T than the own end.

        The own flow is then outdated, and the neighbour's needed to correct it. False while its end is not known. A
        flow is what has passed over a link, a vector of shape (d,).
        """
        return peer in self.their_ends and self.their_ends[peer][0] > self.ends[peer][0]

    def reconcile(self, neighbours: list[int]) -> None:
        """Correct this node's s for links whose two ends had different flows in round T, and set `reconciled`.

        After that the flows of every link cancel, so the sum of s over all nodes is that of A_k x_k. Does nothing until
        the other ends of the links to all `neighbours` (ids) are known. A flow is what has passed over a link, a vector
        of shape (d,).
        """
        if self.reconciled or not all(peer in self.ends and peer in self.their_ends for peer in neighbours):
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
        self.reconciled = True

    def record_for(self, peer: int, *, with_s: bool) -> CertificateRecord:
        """Return the CertificateRecord about round T for neighbour `peer`, with what it seems to lack.

        That may be rows of numbers of nodes, this node's vector s and the flow over the link. Before the first record
        from `peer`, s goes along only if `with_s`: offers under momentum carry the estimate of another point.
        """
        heard = self.heard.get(peer)
        record = CertificateRecord(
            self.round,
            self.ends[peer],
            self.reconciled,
            self.corrected,
            has_offer=peer in self.offered,
            has_final=peer in self.final,
            has_flow=not self.behind(peer) or peer in self.their_flows,
            known=self.known,
            vector=self.s if with_s else None,
        )
        news = self.known if heard is None else self.known & ~heard.known
        if news:
            record.rows = {node: row for node, row in self.rows.items() if news >> node & 1}
        if heard is not None:
            lacks = not heard.has_final if self.corrected else not heard.has_offer
            record.vector = self.s if self.reconciled and lacks else None
            record.flow = None if heard.has_flow else self.link_flows[peer]
        return record

    def take(self, peer: int, record: CertificateRecord) -> None:
        """Store a record about round T from neighbour `peer`: its end of the link, numbers of nodes, flow, estimate.

        A flow is what has passed over a link, a vector of shape (d,).
        """
        self.heard[peer] = record
        self.their_ends[peer] = record.end
        for node, row in record.rows.items():
            self.add_row(node, row)
        if record.flow is not None:
            self.their_flows[peer] = record.flow
        if record.vector is not None:
            self.offered[peer] = record.vector
            if record.reconciled:
                self.final[peer] = record.vector
        if record.reconciled and not record.corrected and peer in self.offered:
            self.final[peer] = self.offered[peer]


@dataclass
class AsyncCertifierState:
    """State of an `AsyncCertifier`, one entry per hosted node: what certificates, proven bounds, are made from.

    `snapshots` are what each node noted of its state in a round that a certificate is to be about, `last` those that
    led to one, `since` the first round of which a snapshot may be taken, and `radius` an assumed bound of the distance
    of the node's gradient from the mean of all nodes' gradients.
    """

    snapshots: PerNode[list[RoundSnapshot | None]]  # one per node, of the newest T; None: not taken, or discarded
    last: PerNode[list[RoundSnapshot | None]]  # newest snapshot that led to a certificate
    since: PerNode[list[int]]  # first round of which a snapshot may be taken
    radius: PerNode[list[float]]  # bound of |w_k - w|, w the mean of all w_k, that the next record may rely on


class AsyncCertifier:
    """Makes certificates of the nodes of a block where messages get lost; each node proves its own.

    A certificate is a proven bound of the suboptimality. A CertificateRecord is added to the messages of a method's
    rounds; no exchange is made for it.
    """

    sends: ClassVar[Contents] = Contents(parts=frozenset({CertificateRecord}))

    def __init__(
        self,
        block: Block,
        *,
        by_samples: bool,
        gap_of: Callable[[MembershipView, int], float],
        tol: float | None,
        extrapolates: bool,
    ) -> None:
        """Prepare to certify the nodes of `block`; `by_samples`: they hold samples instead of features.

        `gap_of` (membership view, round) returns a lower bound of the spectral gap of the mixing among members; `tol`
        is the relative gap aimed at, None: no node skips work; `extrapolates`: the method sends estimates of
        extrapolated points. A membership view says who takes part, as one node sees it.
        """
        self.block = block
        self.by_samples = by_samples
        self.gap_of = gap_of  # lower bound of 1 - lambda_2 of the mixing among the members of a view, in a round
        self.tol = tol  # relative gap that the run is to reach; None: nodes do not skip subproblems
        self.extrapolates = extrapolates  # offers are of another point than the nodes' own
        self.state = AsyncCertifierState(
            [None] * block.size, [None] * block.size, [0] * block.size, [np.inf] * block.size
        )
        self.period = _PERIOD + 2 * block.info.diameter

    def attend(self, rounds: Rounds, state: FlowState, curvature: Callable[[], Vector]) -> Rounds:
        """Make one round of a method, given as its generator, and add a CertificateRecord to each of its messages.

        `curvature` returns the curvature q_k = sigma'/tau of each hosted node's subproblem, shape (n_hosted,). A
        generator: yields each Outbox to exchange, is sent the Halo that came back, and returns nothing. A subproblem is
        a node's local minimisation over its own variables.
        """
        self._take_snapshots(state)
        outbox, first = next(rounds), True
        while True:
            self._attach(outbox.mail, state.round, first=first)
            halo = yield outbox
            self._receive(halo, state, curvature, first=first)
            try:
                outbox, first = rounds.send(halo), False
            except StopIteration:
                return

    def disturb(self, k: int, round: int) -> None:
        """Discard the k-th hosted node's snapshot for certificates: its state is changed from outside in `round`.

        Snapshots of earlier rounds are not taken any more.
        """
        self.state.since[k] = round
        self.state.snapshots[k] = None

    def _take_snapshots(self, state: FlowState) -> None:
        """Take the snapshot of the newest round that certificates are made of, at hosted nodes that are up and lack it.

        A certificate is a proven bound of the suboptimality; a snapshot holds the node's state in that round. `state`
        is the method's state.
        """
        now = last_record(state.round, self.period)
        gossip = state.flow_gossip
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
                ends={peer: (edge.version, edge.digest) for peer, edge in own_flows.edges.items()},
                link_flows={peer: edge.flow.copy() for peer, edge in own_flows.edges.items()},
                inherited=own_flows.inherited,
                closed=own_flows.closed.copy(),
            )

    def _attach(self, mail: list[Mail], round: int, *, first: bool) -> None:
        """Add a CertificateRecord to each message whose sender has a snapshot with the link to the receiver.

        A snapshot is a node's state in the round that certificates, proven bounds, are made of. `first`: the messages
        are those of the first exchange of `round`.
        """
        for one in mail:
            snapshot, peer = self.state.snapshots[one.sender - int(self.block.ids[0])], one.receiver
            if snapshot is None or peer not in snapshot.ends:
                continue
            opening = first and snapshot.round == round
            if not opening or self.extrapolates:  # without momentum the first offers of T say all that there is to say
                one.parts.append(snapshot.record_for(peer, with_s=opening))

    def _receive(self, halo: Halo, state: FlowState, curvature: Callable[[], Vector], *, first: bool) -> None:
        """Store the offers and records in the halo at the receivers' snapshots; add own numbers; make certificates.

        A certificate is a proven bound of the suboptimality of the state in one round, of which a snapshot is a node's
        part. `first`: the exchange is the first of its round, whose offers are of the state that a new snapshot holds.
        `curvature` returns the curvatures of the hosted nodes' subproblems, shape (n_hosted,). A halo is all that a
        block's nodes received in one exchange.
        """
        for mail in halo.mail:
            k, peer = mail.receiver - int(self.block.ids[0]), mail.sender
            snapshot, edge = self.state.snapshots[k], state.flow_gossip.node_flows[k].edges.get(peer)
            if snapshot is None or edge is None or peer not in snapshot.ends:
                continue
            if first and snapshot.round == state.round and not self.extrapolates:
                snapshot.take_offer(peer, mail.part(Offer), edge.attempt)
            record = mail.part(CertificateRecord)
            if record is not None and record.round == snapshot.round:
                snapshot.take(peer, record)
        for k, snapshot in enumerate(self.state.snapshots):
            if snapshot is not None and state.up[k]:
                snapshot.reconcile([peer for peer, _ in self._neighbours(k, snapshot)])
                self._add_own_row(k, snapshot, state, curvature)
                self._conclude(k, snapshot)

    def _neighbours(self, k: int, snapshot: RoundSnapshot) -> list[tuple[int, float]]:
        """Return [(l, W_kl)] for the members l that were neighbours of the k-th hosted node at its snapshot.

        Links that had failed for good are left out. A snapshot is a node's state in the round that a certificate is
        about.
        """
        return [
            (peer, weight)
            for peer, weight in self.block.neighbours(k)
            if snapshot.view.is_member(peer) and peer not in snapshot.closed
        ]

    def _add_own_row(self, k: int, snapshot: RoundSnapshot, state: FlowState, curvature: Callable[[], Vector]) -> None:
        """Add the k-th hosted node's own numbers (BoundTerms and Guard) to its snapshot of round T.

        Does nothing before the final s_l = v_l / K of each neighbour l in round T has come. `curvature` returns the
        curvatures of the hosted nodes' subproblems, shape (n_hosted,). Once there is a certificate, also sets the
        radius within which the node may skip its subproblem. A certificate is a proven upper bound of the
        suboptimality. A snapshot is a node's state in the round that a certificate is about.
        """
        block = self.block
        me = int(block.ids[k])
        neighbours = self._neighbours(k, snapshot)
        if me in snapshot.rows or not snapshot.reconciled or any(peer not in snapshot.final for peer, _ in neighbours):
            return
        n_nodes = snapshot.view.n_members
        v = n_nodes * snapshot.s
        w = block.f.gradient(v)
        away_v, away_w = np.zeros(block.d), np.zeros(block.d)
        for peer, weight in neighbours:
            theirs = n_nodes * snapshot.final[peer]
            away_v += weight * (v - theirs)
            away_w += weight * (w - block.f.gradient(theirs))
        radius = self.state.radius[k]
        at = NodePoint(snapshot.x, v, w, float(away_v @ away_v), float(away_w @ away_w))
        record = node_record(block, k, at, radius, by_samples=self.by_samples)
        inherited = snapshot.inherited
        if inherited is not None and np.isfinite(radius):  # f(. + c) has the conjugate f* - <c, .>
            tilt = float(np.linalg.norm(inherited)) * radius - float(inherited @ w)
            record = record._replace(ray1=record.ray1 + n_nodes * tilt)
        curvature_k = float(curvature()[k])
        gap = local_gap(block, k, snapshot.x, w, curvature_k)
        rho = np.random.default_rng([block.info.seed, snapshot.round]).standard_normal(block.d)
        flows = snapshot.flows if inherited is None else snapshot.flows - inherited
        size = float(np.linalg.norm(rho) * np.linalg.norm(flows))
        guard = Guard(radius, float(rho @ flows), size, float(snapshot.view.digest), gap)
        snapshot.add_row(me, np.array([*record, *guard]))
        last = self.state.last[k]
        before = None if last is None else last.certificate
        if before is not None and self.tol is not None:
            state.screening.begin(k, w, before.screening_radius2(gap, curvature_k, self.tol, n_nodes))

    def _conclude(self, k: int, snapshot: RoundSnapshot) -> None:
        """Make the certificate of the k-th hosted node from its snapshot, if the numbers of all members have come.

        A certificate is a proven bound of the suboptimality. Does nothing if the numbers are of different views of who
        is a member, or their flows do not cancel. A snapshot is a node's state in the round that a certificate is
        about. A flow is what has passed over a link, a vector of shape (d,).
        """
        members = snapshot.view.members()
        if snapshot.certificate is not None or any(node not in snapshot.rows for node in members):
            return
        table = np.array([snapshot.rows[node] for node in members])
        records, guard = table[:, :RECORD_WIDTH], Guard[Vector](*table[:, RECORD_WIDTH:].T)
        consensus_gap = self.gap_of(snapshot.view, snapshot.round)
        spoilt = abs(guard.q.sum()) > _CONSERVED * guard.q_size.sum()
        if (guard.digest != snapshot.view.digest).any() or consensus_gap <= 0 or spoilt:
            return
        totals = records.sum(axis=0)
        totals[SMALLEST] = records[:, SMALLEST].min(axis=0)
        setting = BoundSetting(len(members), consensus_gap, self.block.f.tau, self.by_samples)
        found, self.state.radius[k] = bound(totals, setting, radius=float(guard.radius.min()), round=snapshot.round)
        snapshot.conclude(replace(found, members=tuple(members), local_gaps=tuple(guard.gap.tolist())))
        self.state.last[k] = snapshot


def last_record(round: int, period: int) -> int:
    """Return the newest round T <= `round` of whose state certificates, proven bounds of the suboptimality, are made.

    The first is 0, and T is followed by T + max(period, T/20).
    """
    at = 0
    while True:
        after = at + max(period, int(_PATIENCE * at))
        if after > round:
            return at
        at = after
