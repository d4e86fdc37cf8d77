"""What all phases of a node share: its links, its gossip store, and which neighbours are ready."""

import logging
import threading
import time
from collections.abc import Callable

from glmesh.core import Violation
from glmesh.errors import InvalidInput
from glmesh.federation.config import Site
from glmesh.federation.node.gossip_store import GossipStore, Key
from glmesh.federation.wire import Hello, Kind, Message, PeerLinks, Ready, pack_json, unpack_json

POLL = 0.2  # [s] longest sleep while waiting for messages: a signal is noticed after this


class Neighbourhood:
    """What all phases of a node share: the links to its neighbours, the gossip store, and who is ready."""

    def __init__(
        self,
        site: Site,
        log: logging.Logger,
        hello: Hello,
        check: Callable[[int, Hello], str | None],
    ) -> None:
        self.site, self.log = site, log
        self.links = PeerLinks(site, log, hello, check)
        self.gossip = GossipStore(
            len(site.federation.members),
            self.links.links,
            lambda peer, message: self.links.send(peer, Kind.GOSSIP, pack_json(message)),
        )
        self.ready: dict[int, int] = {}  # neighbour -> exchange that it was in when it sent READY
        self.stop = threading.Event()  # set by SIGTERM and Ctrl-C
        self.phase = "starting"  # for people: a phase, or how the run ended
        self.began = time.time()  # [s] since 1970

    def name(self, node: int) -> str:
        """Return the name of the member with this number."""
        return self.site.federation.members[node].name

    def next_message(self) -> Message | None:
        """Return the next message of any neighbour, None if none comes within POLL seconds."""
        return self.links.inbox.get(POLL)

    def receive(self, message: Message, act: Callable[[int, Kind, bytes | bytearray], None]) -> list[Key]:
        """Act on a message of a neighbour, or on its link's coming up or down; return the keys of gossip that was new.

        HANDOVER and BYE are left to `act(peer, kind, content)`. A neighbour whose message is not allowed loses its
        stream.
        """
        peer, kind, content = message.peer, message.kind, message.content
        if kind is None:
            self.ready.pop(peer, None)
            if message.up:
                self.gossip.greet(peer)
            return []
        try:
            if kind is Kind.GOSSIP:
                return self.gossip.merge(unpack_json(content), peer)
            if kind is Kind.READY:
                self.ready[peer] = Ready.from_json(unpack_json(content)).clock
            elif kind in (Kind.HANDOVER, Kind.BYE):
                act(peer, kind, content)
            else:
                raise Violation(f"a message of kind {kind.name} at this time")
        except Violation as error:
            self.links.drop(peer, str(error))
        return []

    def raise_if_refused(self) -> None:
        """Raise InvalidInput with all reasons if every neighbour is refused or refuses this node."""
        links = self.links.links.values()
        if links and all(link.refused for link in links):
            raise InvalidInput("; ".join(link.refused for link in links))
