"""A block of one node, its neighbours behind links: mail goes out, and that of the same exchange is waited for.

How long is learned from what each neighbour usually takes. One that stays silent beyond that is skipped, and not waited
for any more until it is heard of again; so a run never hangs, and a stopped neighbour costs one deadline.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from glmesh.core.messages import Contents, Halo, Mail, Outbox
from glmesh.core.wire import Layout
from glmesh.federation.wire.frames import CARRIES, Kind, Violation, pack_mail, unpack_mail
from glmesh.federation.wire.inbox import Message
from glmesh.federation.wire.links import Links
from glmesh.network.mixing import Mixing

_SHORTEST, _LONGEST = 1.0, 30.0  # seconds of a deadline: a pause of the operating system is no failure
_UNKNOWN = 5.0  # for a neighbour that has not been timed yet
_FADE = 0.125  # of what is remembered of a neighbour, per message (as TCP does)
_ALONE = 1.0  # seconds between rounds while nobody is there
_REMEMBERED = 256  # exchanges whose sending times are kept


@dataclass
class Pace:
    """What a neighbour usually takes, and what came from it."""

    ready: bool = False  # it knows the dimensions
    silent: bool = False  # it missed a deadline
    finished: bool = False  # it said good-bye
    mean: float = math.nan
    spread: float = 0.0
    heard: float = field(default_factory=time.monotonic)  # when it last gave a sign
    newest: int = -1  # the exchange of its newest mail
    at: int = -1  # the exchange that it said it was in when it became ready
    waiting: deque[tuple[int, Mail]] = field(default_factory=lambda: deque(maxlen=8))  # mail not delivered yet
    skipped: int = 0

    @property
    def deadline(self) -> float:
        """Seconds to wait for it."""
        if math.isnan(self.mean):
            return _UNKNOWN
        return min(max(2.0 * self.mean + 4.0 * self.spread, _SHORTEST), _LONGEST)

    def took(self, seconds: float) -> None:
        """It answered after so long."""
        if math.isnan(self.mean):
            self.mean, self.spread = seconds, seconds / 2
        else:
            self.spread += _FADE * (abs(seconds - self.mean) - self.spread)
            self.mean += _FADE * (seconds - self.mean)


class PeerExchange:
    """The transport of a node; `patient` waits for every neighbour for ever, so that nothing depends on time."""

    carries = CARRIES

    def __init__(
        self,
        links: Links,
        mixing: Mixing,
        layout: Layout,
        me: int,
        other: Callable[[Message], None],
        *,
        patient: bool = False,
    ) -> None:
        self._links, self._layout, self._me, self._other, self.patient = links, layout, me, other, patient
        self.clock = 0  # of the coming exchange
        self.communications = 0
        self.paces = {peer: Pace() for peer in links.links}
        self._sent_at: dict[int, float] = {}
        self._unsent: dict[int, Mail] = {}
        self.interrupted: Callable[[], bool] = lambda: False
        matrix = mixing.matrix
        row = slice(matrix.indptr[me], matrix.indptr[me + 1])
        around = matrix.indices[row].astype(np.uint64)
        self._halo = (np.array([0, len(around)], dtype=np.uint64), around, matrix.data[row].copy(), around)

    @property
    def newest(self) -> int:
        """The newest exchange that a neighbour is known to be in."""
        return max((max(pace.newest, pace.at) for pace in self.paces.values()), default=-1)

    def exchange(self, outboxes: list[Outbox]) -> list[Halo]:
        """Send the node's mail and wait for that of its neighbours, until their deadlines."""
        self.carries.check(Contents.of(outboxes[0]))
        began = time.monotonic()
        self._sent_at[self.clock] = began
        self._sent_at.pop(self.clock - _REMEMBERED, None)
        self._unsent = {mail.receiver: mail for mail in outboxes[0].mail}
        receivers = set(self._unsent)
        self._send()
        while not self.interrupted():
            awaited = {peer: self.paces[peer] for peer in receivers if self._awaits(peer)}
            now = time.monotonic()
            for peer, pace in awaited.items():
                if not self.patient and now >= began + pace.deadline:
                    pace.silent, pace.skipped = True, pace.skipped + 1
                    self._links.log("silent", peer=self._links.links[peer].name, waited=now - began)
            left = [began + pace.deadline - now for pace in awaited.values() if not pace.silent]
            if self.patient and awaited:
                left = [0.5]
            elif not left and not self._anybody():
                left = [began + _ALONE - now]
                if left[0] <= 0:
                    break
            if not left:
                break
            message = self._links.inbox.get(min(max(min(left), 0.0), 0.5))
            if message is not None:
                self.take(message)
        while (message := self._links.inbox.get(0.0)) is not None:
            self.take(message)
        self._unsent = {}
        self.communications += 1
        pointers, neighbours, weights, ids = self._halo
        own = np.array([self._me], dtype=np.uint64)
        halo = Halo(pointers, neighbours, weights, ids, None, None, own, self._deliver())
        self.clock += 1
        return [halo]

    def _send(self) -> None:
        """Send the mail of this exchange to neighbours that are ready; to others once they are."""
        for peer in [peer for peer in self._unsent if self.paces[peer].ready and not self.paces[peer].finished]:
            mail = self._unsent.pop(peer)
            self._links.send(peer, Kind.MAIL, pack_mail(self.clock, mail, self._layout))

    def _awaits(self, peer: int) -> bool:
        """Return whether the neighbour's mail of this exchange may still come."""
        pace = self.paces[peer]
        there = (pace.ready and self._links.links[peer].up and not pace.silent) or self.patient
        return there and not pace.finished and pace.newest < self.clock

    def _anybody(self) -> bool:
        """Whether some neighbour took part in this exchange."""
        return any(pace.newest >= self.clock for pace in self.paces.values())

    def take(self, message: Message) -> None:
        """What a neighbour sent."""
        pace = self.paces[message.peer]
        now = time.monotonic()
        if message.kind is not None or message.up:
            pace.heard = now
        if message.kind is not Kind.MAIL:
            if message.kind is None:
                pace.ready, pace.silent = False, False
            if message.up:
                pace.newest = pace.at = -1  # perhaps a new life
                pace.finished = False
            self._other(message)
            self._send()
            return
        try:
            clock, mail = unpack_mail(message.content, message.peer, self._me, self._layout)
            if clock <= pace.newest - _REMEMBERED:
                raise Violation(f"mail of exchange {clock}, long after one of {pace.newest}")
        except Violation as error:
            self._links.drop(message.peer, str(error))
            return
        if clock in self._sent_at:
            pace.took(max(now - self._sent_at[clock], 0.0))
        if pace.silent and clock >= self.clock - 1:
            self._links.log("heard", peer=self._links.links[message.peer].name)
            pace.silent = False
        elif pace.silent and clock > pace.newest:
            pace.silent = False  # behind, but it moves: it will catch up
        pace.newest = max(pace.newest, clock)
        pace.waiting.append((clock, mail))

    def _deliver(self) -> list[Mail]:
        """Return the mail of this exchange and of earlier ones, in ascending order of neighbours."""
        out = []
        for _, pace in sorted(self.paces.items()):
            ahead = [(clock, mail) for clock, mail in pace.waiting if clock > self.clock]
            out += [mail for clock, mail in pace.waiting if clock <= self.clock]
            pace.waiting.clear()
            pace.waiting.extend(ahead)
        return out
