"""The exchange of a block of one node whose neighbours are behind links: I/O around `Barrier`, which decides."""

import time
from collections.abc import Callable

import numpy as np

from glmesh.core import Contents, Halo, Layout, Mail, Outbox
from glmesh.federation.wire.barrier import Barrier, Done, WaitUntil
from glmesh.federation.wire.frames import CARRIES, Kind, Violation, pack_mail, unpack_mail
from glmesh.federation.wire.inbox import Message
from glmesh.federation.wire.links import PeerLinks
from glmesh.network import Mixing

_POLL = 0.5  # [s] longest sleep: a signal or a change of membership is noticed after this


class PeerExchange:
    """Exchanges of one node's vectors with its neighbours over links; `Barrier` decides when each exchange is over.

    Messages of other kinds are given to `other`. `patient` waits for each neighbour without limit, so that nothing
    depends on time. `interrupted()` is asked while waiting, and ends an exchange early when it returns True.
    """

    carries = CARRIES

    def __init__(
        self,
        links: PeerLinks,
        mixing: Mixing,
        layout: Layout,
        other: Callable[[Message], None],
        *,
        patient: bool = False,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self._links, self._layout, self._other, self._interrupted = links, layout, other, interrupted
        self._me = links.site.me
        self.barrier: Barrier[Mail] = Barrier(links.links, time.monotonic(), patient=patient)
        self.communications = 0  # exchanges so far
        self._unsent: dict[int, Mail] = {}  # of this exchange, for neighbours that are not ready yet
        matrix = mixing.matrix
        row = slice(matrix.indptr[self._me], matrix.indptr[self._me + 1])
        around = matrix.indices[row].astype(np.uint64)
        self._halo = (np.array([0, len(around)], dtype=np.uint64), around, matrix.data[row].copy(), around)

    def exchange(self, outboxes: list[Outbox]) -> list[Halo]:
        """Send this node's vectors, the only Outbox in a list, to its neighbours; return theirs as a list of one Halo.

        It waits until the exchange is over.
        """
        self.carries.check(Contents.of(outboxes[0]))
        barrier, began = self.barrier, time.monotonic()
        self._unsent = {mail.receiver: mail for mail in outboxes[0].mail}
        barrier.begin(self._unsent, began)
        self._send()
        while not self._interrupted():
            now = time.monotonic()
            for peer in barrier.expire(now):
                self._links.log.warning("silent", extra={"peer": self._links.links[peer].name, "waited": now - began})
            match barrier.poll(now):
                case Done():
                    break
                case WaitUntil(until):
                    message = self._links.inbox.get(min(max(until - now, 0.0), _POLL))
            if message is not None:
                self.take(message)
        while (message := self._links.inbox.get(0.0)) is not None:
            self.take(message)
        self._unsent = {}
        self.communications += 1
        pointers, neighbours, weights, ids = self._halo
        own = np.array([self._me], dtype=np.uint64)
        return [Halo(pointers, neighbours, weights, ids, None, None, own, barrier.finish())]

    def _send(self) -> None:
        """Send the vectors of this exchange to the neighbours that are ready for them.

        To the others as soon as they are.
        """
        for peer in [peer for peer in self._unsent if self.barrier.takes(peer)]:
            content = pack_mail(self.barrier.clock, self._unsent.pop(peer), self._layout)
            self._links.send(peer, Kind.MAIL, content)

    def take(self, message: Message) -> None:
        """Act on a message or a change of a link: give vectors (MAIL) to the barrier, and all else to `other`."""
        peer, now = message.peer, time.monotonic()
        if message.kind is not None or message.up:
            self.barrier.signed(peer, now)
        if message.kind is Kind.MAIL:
            try:
                clock, mail = unpack_mail(message.content, peer, self._me, self._layout)
                if self.barrier.received(peer, clock, mail, now):
                    self._links.log.info("heard", extra={"peer": self._links.links[peer].name})
            except Violation as error:
                self._links.drop(peer, str(error))
            return
        if message.kind is None:
            self.barrier.link_changed(peer, up=message.up)
        self._other(message)
        self._send()
