"""A node that has a state: what it tells its neighbours about itself, and what it learns from them."""

import time

from glmesh.core import Layout, Violation
from glmesh.federation.node.checkpoint import Store
from glmesh.federation.node.gossip_store import Key
from glmesh.federation.node.neighbourhood import SAY_EVERY, Neighbourhood
from glmesh.federation.node.trainer import Trainer
from glmesh.federation.wire import (
    CONTROL,
    DONE,
    MEMBERSHIP,
    SUCCESSOR,
    GossipEntry,
    Kind,
    Message,
    PeerExchange,
    Ready,
    longest_mail,
    pack_json,
    pack_vector,
    unpack_vector,
)


class Participant:
    """A node that takes part in rounds of gossip: the messages beside its vectors that it sends, and acts on."""

    def __init__(self, neighbourhood: Neighbourhood, trainer: Trainer, store: Store, *, patient: bool = False) -> None:
        self.neighbourhood, self.trainer, self._store = neighbourhood, trainer, store
        self.federation, self._me = trainer.federation, neighbourhood.site.me
        links, network = neighbourhood.links, self.federation.network
        layout = Layout(trainer.block.d, len(self.federation.members), network.wire == "float32")
        links.allow(max(longest_mail(layout), CONTROL))
        self.exchange = PeerExchange(
            links,
            self.federation.mixing,
            layout,
            self.receive,
            patient=patient,
            interrupted=lambda: neighbourhood.stop.is_set() or self._membership_changed,
        )
        self.timing = self.exchange.barrier.timing
        self.saved_round = -1  # round of the newest checkpoint; -1: none since the process began
        self._membership_changed = False  # gossip that `learn_membership` has not looked at yet
        self._counters: dict[int, int] = {}  # membership counters of the neighbours at the last look for absent ones
        for peer, clock in neighbourhood.ready.items():
            self.exchange.barrier.ready(peer, clock)

    # messages

    def receive(self, message: Message) -> None:
        """Act on a message that has no vectors of an exchange, or on a link that came up or went down."""
        peer, barrier = message.peer, self.exchange.barrier
        for key in self.neighbourhood.receive(message, self._act):
            self._learned(key)
        if self.neighbourhood.differs(peer) and message.kind is not None:
            self.neighbourhood.links.drop(peer, "its target or its sample weights are not those of this site")
            return
        if message.kind is None and message.up:
            self._say_ready(peer)
        elif message.kind is Kind.READY and peer in self.neighbourhood.ready:
            barrier.ready(peer, self.neighbourhood.ready[peer])

    def _act(self, peer: int, kind: Kind, content: bytes | bytearray) -> None:
        """Act on a HANDOVER, with which neighbour `peer` leaves its share here, or on a BYE, which ends its run.

        A share is kept, to be counted if the neighbour is lost; a neighbour that has ended is waited for no more.
        """
        if kind is Kind.BYE:
            self.exchange.barrier.ended(peer)
        elif not self.federation.hands_over:
            raise Violation("a HANDOVER, which no member of this federation sends")
        else:
            _, self.trainer.handovers[peer] = unpack_vector(content, self.trainer.block.d)

    def _learned(self, key: Key) -> None:
        """Act on new gossip with the key (kind, node): a changed successor of the node, or a changed membership.

        A share of the node that is kept here is dropped if the node has another successor now.
        """
        kind, node = key
        if kind == SUCCESSOR and self.neighbourhood.gossip.number(SUCCESSOR, node) != self._me:
            self.trainer.handovers.pop(node, None)
        self._membership_changed |= kind == MEMBERSHIP

    def _say_ready(self, peer: int) -> None:
        """Send READY to neighbour `peer`: this node takes part, with the number of the exchange that it is in."""
        ready = Ready(self.trainer.gossip.clock)
        self.neighbourhood.links.send(peer, Kind.READY, pack_json(ready.to_json()))

    def say_ready_to_all(self) -> None:
        """Send READY to all neighbours: this node takes part, with the number of the exchange that it is in."""
        for peer in self.timing:
            self._say_ready(peer)

    # statements that all members pass on

    def learn_membership(self) -> None:
        """Take over each member's membership counter from gossip; join again if others gave this node up.

        An odd counter is a member's. Vectors carry the counters too, but none cross the links to members that were
        given up.
        """
        trainer, gossip, self._membership_changed = self.trainer, self.neighbourhood.gossip, False
        for node in range(len(self.federation.members)):
            trainer.learn(node, gossip.number(MEMBERSHIP, node) or 0)
        own = gossip.number(MEMBERSHIP, self._me)
        if own is not None and 0 < own < trainer.view.counts[self._me]:
            self.neighbourhood.log.info("joined again")
            self._say_membership(self._me)

    def follow_membership(self) -> None:
        """Call `learn_membership` if gossip about memberships has come since the last call."""
        if self._membership_changed:
            self.learn_membership()

    def _say_membership(self, node: int) -> None:
        """Tell all members, by gossip, the membership counter of node `node` as this node knows it."""
        counter = int(self.trainer.view.counts[node])
        self.neighbourhood.gossip.publish(GossipEntry(MEMBERSHIP, node, counter, counter))

    def _say(self, kind: str, value: int, before: int | None) -> None:
        """Tell all members, by gossip, the number `value` of this kind about this node, unless it equals `before`."""
        gossip = self.neighbourhood.gossip
        if value != before:
            gossip.publish(GossipEntry(kind, self._me, gossip.stamp(kind, self._me) + 1, value))

    def proven_round(self, node: int) -> int:
        """Return the round about which node `node` said that it holds a proof; -1: it holds none."""
        number = self.neighbourhood.gossip.number(DONE, node)
        return -1 if number is None else number

    def prove(self) -> bool:
        """Keep the newest certificate as this node's proof if its relative gap is at most tol.

        Return whether it was kept. A proof about the latest round that any member has a proof about is not replaced: in
        the end all need the same round.
        """
        members = self.trainer.members
        return self.trainer.prove(max((self.proven_round(node) for node in members), default=-1))

    def say_done(self) -> None:
        """Tell all members the round about which this node holds a proof, -1 if it holds none, if that is news."""
        proof = self.trainer.proof
        self._say(DONE, -1 if proof is None else proof.certificate.round, self.proven_round(self._me))

    # members that do not return

    def give_up_absent(self, now: float) -> None:
        """Give up the neighbours that sent nothing for `gone_after` seconds before `now` [s], and tell all members."""
        trainer, network = self.trainer, self.federation.network
        for peer, timing in self.timing.items():
            counter = int(trainer.view.counts[peer])
            if counter > self._counters.setdefault(peer, counter):
                self._counters[peer], timing.heard = counter, now  # it has joined: its time begins anew
            away = now - timing.heard
            if trainer.view.is_member(peer) and away > network.gone_after and not timing.finished:
                share = "freeze" if self.federation.hands_over else "reset"
                about = {"peer": self.neighbourhood.name(peer), "away": away, "model": share}
                self.neighbourhood.log.warning("gone", extra=about)
                trainer.learn(peer, counter + 1)
                self._say_membership(peer)
                self.save()

    def wait_for_absent(self, now: float) -> None:
        """Record as waited for the neighbours, members, that sent nothing for SAY_EVERY seconds.

        `now` is in seconds of a monotonic clock. They are waited for until `gone_after` is over; meanwhile there is no
        proof.
        """
        heard = {
            peer: timing.heard
            for peer, timing in self.timing.items()
            if self.trainer.view.is_member(peer) and not timing.finished and now > timing.heard + SAY_EVERY
        }
        since = min(heard.values(), default=now) - now + time.time()
        self.neighbourhood.wait_for(list(heard), since, since + self.federation.network.gone_after)

    def save(self) -> None:
        """Write a checkpoint; if the federation hands shares over, send this node's share to its successor.

        A share is what the node's own data adds to A x; the successor is the neighbour that counts it if the node is
        lost.
        """
        trainer, neighbourhood = self.trainer, self.neighbourhood
        self._store.save(trainer, neighbourhood.gossip)
        self.saved_round = trainer.state.round
        links = neighbourhood.links
        successors = [peer for peer in self.timing if links.links[peer].up and trainer.view.is_member(peer)]
        if successors and self.federation.hands_over:
            successor = successors[0]
            if self.timing[successor].is_ready:
                links.send(successor, Kind.HANDOVER, pack_vector({}, trainer.share()))
            self._say(SUCCESSOR, successor, neighbourhood.gossip.number(SUCCESSOR, self._me))
