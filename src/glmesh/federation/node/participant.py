"""A node that has a state: what it tells its neighbours about itself, and what it learns from them."""

from glmesh.core import Layout
from glmesh.federation.node.checkpoint import Store
from glmesh.federation.node.gossip_store import Key
from glmesh.federation.node.neighbourhood import Neighbourhood
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
    """State, exchange and conversations of a node that takes part in rounds."""

    def __init__(self, neighbourhood: Neighbourhood, trainer: Trainer, store: Store, *, patient: bool = False) -> None:
        self.neighbourhood, self.trainer, self._store = neighbourhood, trainer, store
        self.federation, self._me = neighbourhood.site.federation, neighbourhood.site.me
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
        self.saved_round = -1  # round of the newest checkpoint; -1: none in this life
        self._membership_changed = False  # gossip that `learn_membership` has not looked at yet
        self._counters: dict[int, int] = {}  # membership counters of the neighbours at the last look for absent ones
        for peer, clock in neighbourhood.ready.items():
            self.exchange.barrier.ready(peer, clock)

    # messages

    def receive(self, message: Message) -> None:
        """Take a message that is not MAIL."""
        peer, barrier = message.peer, self.exchange.barrier
        for key in self.neighbourhood.receive(message, self._act):
            self._learned(key)
        if message.kind is None and message.up:
            self._say_ready(peer)
        elif message.kind is Kind.READY and peer in self.neighbourhood.ready:
            barrier.ready(peer, self.neighbourhood.ready[peer])

    def _act(self, peer: int, kind: Kind, content: bytes | bytearray) -> None:
        """Take a HANDOVER or a BYE."""
        if kind is Kind.BYE:
            self.exchange.barrier.ended(peer)
        else:
            _, self.trainer.handovers[peer] = unpack_vector(content, self.trainer.block.d)

    def _learned(self, key: Key) -> None:
        """Follow gossip that was news: a newer successor makes a handover void, a membership is looked at later."""
        kind, node = key
        if kind == SUCCESSOR and self.neighbourhood.gossip.number(SUCCESSOR, node) != self._me:
            self.trainer.handovers.pop(node, None)
        self._membership_changed |= kind == MEMBERSHIP

    def _say_ready(self, peer: int) -> None:
        """Tell a neighbour that this node takes part, and from which exchange on."""
        ready = Ready(self.trainer.gossip.clock)
        self.neighbourhood.links.send(peer, Kind.READY, pack_json(ready.to_json()))

    def say_ready_to_all(self) -> None:
        """Tell all neighbours that this node takes part."""
        for peer in self.timing:
            self._say_ready(peer)

    # statements that all members pass on

    def learn_membership(self) -> None:
        """Take over what gossip says of members that were given up: the links to them carry no MAIL that would."""
        trainer, gossip, self._membership_changed = self.trainer, self.neighbourhood.gossip, False
        for node in range(len(self.federation.members)):
            trainer.learn(node, gossip.number(MEMBERSHIP, node) or 0)
        own = gossip.number(MEMBERSHIP, self._me)
        if own is not None and 0 < own < trainer.view.counts[self._me]:
            self.neighbourhood.log.info("joined again")
            self._say_membership(self._me)

    def follow_membership(self) -> None:
        """Do `learn_membership` if gossip has changed."""
        if self._membership_changed:
            self.learn_membership()

    def _say_membership(self, node: int) -> None:
        """Publish the membership counter of a node."""
        counter = int(self.trainer.view.counts[node])
        self.neighbourhood.gossip.publish(GossipEntry(MEMBERSHIP, node, counter, counter))

    def _say(self, kind: str, value: int, before: int | None) -> None:
        """Publish a statement about this node if it differs from `before`."""
        gossip = self.neighbourhood.gossip
        if value != before:
            gossip.publish(GossipEntry(kind, self._me, gossip.stamp(kind, self._me) + 1, value))

    def proven_round(self, node: int) -> int:
        """Return the round that a node said to hold a proof about; -1: none."""
        number = self.neighbourhood.gossip.number(DONE, node)
        return -1 if number is None else number

    def prove(self) -> bool:
        """Look for a proof that all members can hold; return whether there is a new one."""
        members = self.trainer.members
        return self.trainer.prove(max((self.proven_round(node) for node in members), default=-1))

    def say_done(self) -> None:
        """Publish the round that this node holds a proof about; a node that lost its proof withdraws it."""
        proof = self.trainer.proof
        self._say(DONE, -1 if proof is None else proof.certificate.round, self.proven_round(self._me))

    # members that do not return

    def give_up_absent(self, now: float) -> None:
        """Give up the neighbours that gave no sign for `gone_after` seconds, and tell all members."""
        trainer, network = self.trainer, self.federation.network
        for peer, timing in self.timing.items():
            counter = int(trainer.view.counts[peer])
            if counter > self._counters.setdefault(peer, counter):
                self._counters[peer], timing.heard = counter, now  # it has joined: its time begins anew
            away = now - timing.heard
            if trainer.view.is_member(peer) and away > network.gone_after and not timing.finished:
                about = {"peer": self.neighbourhood.name(peer), "away": away, "model": network.gone}
                self.neighbourhood.log.warning("gone", extra=about)
                trainer.learn(peer, counter + 1)
                self._say_membership(peer)
                self.save()

    def save(self) -> None:
        """Write a checkpoint, and hand this node's share over to its successor."""
        trainer, neighbourhood = self.trainer, self.neighbourhood
        self._store.save(trainer, neighbourhood.gossip)
        self.saved_round = trainer.state.round
        links = neighbourhood.links
        successors = [peer for peer in self.timing if links.links[peer].up and trainer.view.is_member(peer)]
        if successors and self.federation.network.gone == "freeze":
            successor = successors[0]
            if self.timing[successor].is_ready:
                links.send(successor, Kind.HANDOVER, pack_vector({}, trainer.share()))
            self._say(SUCCESSOR, successor, neighbourhood.gossip.number(SUCCESSOR, self._me))
