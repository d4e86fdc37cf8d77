"""What all phases of a node share: its links, its gossip store, and which neighbours are ready."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from glmesh.contract import DataTable
from glmesh.core import Violation
from glmesh.errors import InvalidInput
from glmesh.federation.config import Site
from glmesh.federation.node.gossip_store import GossipStore, Key
from glmesh.federation.node.targets import TargetsComparison
from glmesh.federation.wire import (
    COMPARED,
    REFUSED,
    GossipEntry,
    Hello,
    Kind,
    Message,
    PeerLinks,
    Ready,
    pack_json,
    unpack_json,
)

POLL = 0.2  # [s] longest sleep while waiting for messages: a signal is noticed after this
SAY_EVERY = 10.0  # [s] between two lines on who is waited for


@dataclass(frozen=True)
class Waiting:
    """Names of the members that a node waits for at present, since when and until when."""

    names: tuple[str, ...]
    since: float  # [s] since 1970
    until: float | None  # [s] since 1970; None: without limit


class Neighbourhood:
    """Links of a node to its neighbours, its gossip store, and which neighbours are ready; all phases share it."""

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
        self.targets: TargetsComparison | None = None  # None: split by samples, or the table cannot be read
        self.ready: dict[int, int] = {}  # neighbour -> exchange that it was in when it sent READY
        self.ended: set[int] = set()  # neighbours that said BYE, and whose link did not come up again since
        self.stop = threading.Event()  # set by SIGTERM and Ctrl-C
        self.phase = "starting"  # for people: a phase, or how the run ended
        self.began = time.time()  # [s] since 1970
        self.waiting: Waiting | None = None  # None: nobody is waited for
        self._said = 0.0  # [s] since 1970: time of the last line on who is waited for

    def name(self, node: int) -> str:
        """Return the name of the member with the number `node`."""
        return self.site.federation.members[node].name

    @property
    def linked(self) -> set[int]:
        """Return the numbers of the neighbours whose link is up."""
        return {peer for peer, link in self.links.links.items() if link.up}

    def compare_targets(self, table: DataTable) -> None:
        """From now on compare this site's targets and weights with those of each neighbour whose link comes up.

        `table` is this site's. It must be called before the links are started.
        """
        site = self.site
        self.targets = TargetsComparison(
            table,
            site.federation,
            site.me,
            lambda peer, message: self.links.send(peer, Kind.TARGETS, pack_json(message.to_json())),
        )

    def differs(self, peer: int) -> bool:
        """Return whether neighbour `peer` was found to hold other targets or weights, split by features."""
        return self.targets is not None and not self.targets.same.get(peer, True)

    def wait_for(self, nodes: Sequence[int], since: float, until: float | None) -> None:
        """Set `waiting` to the members with these numbers, and log a line on them every SAY_EVERY seconds.

        An empty list sets it to None. `since` and `until` are in seconds since 1970; `until` is None where there is no
        limit.
        """
        now = time.time()
        names = tuple(self.name(node) for node in nodes)
        self.waiting = Waiting(names, since, until) if names else None
        self._said = max(self._said, since)  # a short wait is not worth a line
        if names and now >= self._said + SAY_EVERY:
            self._said = now
            times = {"since": clock(since), "until": "it comes" if until is None else clock(until)}
            self.log.info(
                "waiting", extra={"for": ", ".join(f"{self.name(k)}{self.link_trouble(k)}" for k in nodes)} | times
            )

    def link_trouble(self, node: int) -> str:
        """Return why the link to neighbour `node` is down, as text in parentheses.

        The text is "" if the link is up, or if the node is no neighbour.
        """
        link = self.links.links.get(node)
        if link is None or link.up:
            return ""
        return " (it has ended; start it again)" if node in self.ended else f" ({link.why})"

    def next_message(self) -> Message | None:
        """Return the next message of any neighbour, None if none comes within POLL seconds."""
        return self.links.inbox.get(POLL)

    def receive(self, message: Message, act: Callable[[int, Kind, bytes | bytearray], None]) -> list[Key]:
        """Act on a neighbour's message, or on its link's coming up or down; return the keys (kind, node) of new gossip.

        HANDOVER, BYE and TOTALS are left to `act(peer, kind, content)`. A neighbour whose message is not allowed loses
        its stream.
        """
        peer, kind, content = message.peer, message.kind, message.content
        if kind is None:
            self.ready.pop(peer, None)
            if message.up:
                self.ended.discard(peer)
                self.gossip.greet(peer)
                if self.targets is not None:
                    self.targets.greet(peer)
            return []
        try:
            if kind is Kind.GOSSIP:
                news = self.gossip.merge(unpack_json(content), peer)
                for what, node in news:
                    if what == REFUSED:
                        about = {"who": self.name(node), "why": self.gossip.why(node)}
                        self.log.warning("cannot take part", extra=about)
                return news
            if kind is Kind.READY:
                self.ready[peer] = Ready.from_json(unpack_json(content)).clock
            elif kind is Kind.TARGETS and self.site.federation.problem.split == "features":
                self._compare(peer, content)
            elif kind in (Kind.HANDOVER, Kind.BYE) or (kind is Kind.TOTALS and self.site.federation.problem.by_totals):
                self.ended |= {peer} if kind is Kind.BYE else set()
                act(peer, kind, content)
            else:
                raise Violation(f"a message of kind {kind.name} at this time")
        except Violation as error:
            self.links.drop(peer, str(error))
        return []

    def _compare(self, peer: int, content: bytes | bytearray) -> None:
        """Take in a message of neighbour `peer` in the comparison of targets; tell all members a result that is new."""
        if self.targets is not None and self.targets.receive(peer, content):
            me, gossip = self.site.me, self.gossip
            stamp = max(gossip.stamp(COMPARED, me) + 1, int(time.time() * 1000))  # above that of a lost disk
            gossip.publish(GossipEntry(COMPARED, me, stamp, compared=dict(self.targets.same)))

    def raise_if_refused(self) -> None:
        """Raise InvalidInput with all reasons if each neighbour is refused by this node or refuses it."""
        links = self.links.links.values()
        if links and all(link.refused for link in links):
            raise InvalidInput("; ".join(link.refused for link in links))


def clock(seconds: float) -> str:
    """Return a time in seconds since 1970 as the text HH:MM:SS in the local time zone."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))
