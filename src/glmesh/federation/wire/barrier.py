"""When an exchange is over: a state machine without I/O, which is told what came and what time it is.

A node waits for the messages of all neighbours that take part in the exchange, each for as long as that neighbour
usually takes and some more. A neighbour that misses its deadline is silent: no exchange waits for it until it is heard
again. So a run never hangs, and a stopped neighbour costs one deadline.

    barrier.begin(receivers, now)
    barrier.received(peer, clock, message, now)   # a message of exchange `clock`; also signed(), ready(), ...
    barrier.expire(now)                           # neighbours that have just missed their deadline
    barrier.poll(now)                             # Done or WaitUntil(time)
    barrier.finish()                              # messages to be delivered
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from glmesh.federation.wire.messages import unexpected

SHORTEST = 1.0  # [s] least deadline, as in RFC 6298: a pause of the operating system is no failure
LONGEST = 30.0  # [s] greatest deadline: what a neighbour that stopped costs at most
UNTIMED = 5.0  # [s] deadline of a neighbour that has not answered yet
GAIN = 0.125  # weight of the newest answer in the mean and the deviation (RFC 6298: 1/8, and 1/4 for the deviation)
ALONE = 1.0  # [s] least time of an exchange in which no neighbour took part: rounds alone change little
REMEMBERED = 256  # [exchanges] for which sending times are kept; an older message is refused
AHEAD = 8  # [messages] kept of a neighbour that is ahead; it cannot be far ahead of one that it waits for

T = TypeVar("T")


@dataclass(frozen=True)
class Done:
    """Answer of `Barrier.poll`: the exchange is over, no neighbour is waited for any more."""


@dataclass(frozen=True)
class WaitUntil:
    """Answer of `Barrier.poll`: the exchange goes on, and nothing changes before `time` unless a message comes."""

    time: float  # [s] on the clock of `now`; infinity: until something comes


@dataclass
class PeerTiming(Generic[T]):
    """What a barrier knows of one neighbour: how fast it answers, which exchange it is in, its undelivered messages."""

    heard: float  # [s] time at which something last came from it
    is_ready: bool = False  # it knows the length of vectors
    silent: bool = False  # it missed a deadline, and was not heard since
    finished: bool = False  # it said BYE
    mean: float = math.nan  # [s] smoothed time from this node's message to the neighbour's; NaN: never timed
    deviation: float = 0.0  # [s] smoothed abs(time - mean)
    newest: int = -1  # exchange of its newest message; -1: none since its link came up
    ready_at: int = -1  # exchange that it was in when it became ready; -1: not ready
    waiting: deque[tuple[int, T]] = field(default_factory=lambda: deque(maxlen=AHEAD))  # (exchange, message) to deliver
    skipped: int = 0  # deadlines that it missed

    @property
    def deadline(self) -> float:
        """Return the seconds to wait for the neighbour: 2 mean + 4 deviation within [SHORTEST, LONGEST].

        Before the neighbour's first answer the deadline is UNTIMED. RFC 6298 has 1 mean.
        """
        if math.isnan(self.mean):
            return UNTIMED
        return min(max(2.0 * self.mean + 4.0 * self.deviation, SHORTEST), LONGEST)

    def took(self, seconds: float) -> None:
        """Update mean and deviation by an answer that came `seconds` after this node's message.

        This is RFC 6298, but with gain 1/8 for both.
        """
        if math.isnan(self.mean):
            self.mean, self.deviation = seconds, seconds / 2
        else:
            self.deviation += GAIN * (abs(seconds - self.mean) - self.deviation)
            self.mean += GAIN * (seconds - self.mean)


class Barrier(Generic[T]):
    """State machine that tells how long a node waits for its neighbours' messages in an exchange; it does no I/O.

    `patient` waits for each neighbour without limit, so that no decision needs a clock. Times are seconds on any
    monotonic clock. Neighbours (`peer`) and exchanges (`clock`) go by number.
    """

    def __init__(self, peers: Iterable[int], now: float, *, patient: bool = False) -> None:
        self.timing: dict[int, PeerTiming[T]] = {peer: PeerTiming(now) for peer in sorted(peers)}
        self.patient = patient
        self.clock = 0  # the exchange in progress or, between two, the coming one
        self._began = now
        self._receivers: frozenset[int] = frozenset()
        self._sent_at: dict[int, float] = {}  # [s] by exchange

    @property
    def newest(self) -> int:
        """Return the number of the newest exchange that any neighbour is known to be in; -1 if none is known."""
        return max((max(timing.newest, timing.ready_at) for timing in self.timing.values()), default=-1)

    def begin(self, receivers: Iterable[int], now: float) -> None:
        """Begin the next exchange at `now` [s], in which this node sends to `receivers` and awaits their messages."""
        self._began, self._receivers = now, frozenset(receivers)
        self._sent_at[self.clock] = now
        self._sent_at.pop(self.clock - REMEMBERED, None)

    def received(self, peer: int, clock: int, message: T, now: float) -> bool:
        """Store the message that neighbour `peer` sent in exchange number `clock`; it came at `now` [s].

        Return True if the neighbour had missed its deadline and is back with this message. Violation is raised for a
        message that is REMEMBERED exchanges or more before the neighbour's newest.
        """
        timing = self.timing[peer]
        if clock <= timing.newest - REMEMBERED:
            raise unexpected("MAIL, exchange", f"one after {timing.newest - REMEMBERED}", clock)
        if clock in self._sent_at:
            timing.took(max(now - self._sent_at[clock], 0.0))
        is_back = timing.silent and clock >= self.clock - 1
        timing.silent &= not is_back and clock <= timing.newest  # a neighbour that is behind but moves will catch up
        timing.newest = max(timing.newest, clock)
        timing.waiting.append((clock, message))
        return is_back

    def signed(self, peer: int, now: float) -> None:
        """Record `now` [s] as the time at which neighbour `peer` last sent a message of any kind."""
        self.timing[peer].heard = now

    def ready(self, peer: int, clock: int) -> None:
        """Mark neighbour `peer` as ready: exchanges from number `clock` on wait for its messages."""
        timing = self.timing[peer]
        timing.is_ready, timing.ready_at = True, max(timing.ready_at, clock)

    def link_changed(self, peer: int, *, up: bool) -> None:
        """Mark neighbour `peer`, whose link came up (`up`) or went down, as not ready until it says READY again.

        A neighbour whose link came up may have restarted, so the exchange that it was known to be in is forgotten.
        """
        timing = self.timing[peer]
        timing.is_ready = timing.silent = False
        if up:
            timing.newest = timing.ready_at = -1
            timing.finished = False

    def ended(self, peer: int) -> None:
        """Mark neighbour `peer` as finished, because it has ended its run: no exchange waits for it."""
        self.timing[peer].finished = True

    def takes(self, peer: int) -> bool:
        """Return whether vectors may be sent to neighbour `peer`: it knows their length, and has not ended its run."""
        return self.timing[peer].is_ready and not self.timing[peer].finished

    def expire(self, now: float) -> list[int]:
        """Mark the neighbours that have missed their deadlines by `now` [s] as silent; return their numbers, a list."""
        if self.patient:
            return []
        late = [peer for peer in self._awaited() if now >= self._began + self.timing[peer].deadline]
        for peer in late:
            self.timing[peer].silent = True
            self.timing[peer].skipped += 1
        return late

    def poll(self, now: float) -> Done | WaitUntil:
        """Return Done if the exchange is over at `now` [s].

        Else WaitUntil, with the time until which to wait for messages.
        """
        awaited = self._awaited()
        if awaited:
            deadline = min(self._began + self.timing[peer].deadline for peer in awaited)
            return WaitUntil(math.inf if self.patient else deadline)
        anybody = any(timing.newest >= self.clock for timing in self.timing.values())
        if not anybody and now < self._began + ALONE:
            return WaitUntil(self._began + ALONE)
        return Done()

    def _awaited(self) -> list[int]:
        """Return the numbers of the neighbours whose message of this exchange is still waited for."""
        return [
            peer
            for peer in self._receivers
            if ((self.timing[peer].is_ready and not self.timing[peer].silent) or self.patient)
            and not self.timing[peer].finished
            and self.timing[peer].newest < self.clock
        ]

    def finish(self) -> list[T]:
        """End the exchange; return the neighbours' messages of this exchange and earlier ones, by ascending neighbour.

        Messages of later exchanges are kept for those.
        """
        out = []
        for timing in self.timing.values():
            out += [message for clock, message in timing.waiting if clock <= self.clock]
            ahead = [(clock, message) for clock, message in timing.waiting if clock > self.clock]
            timing.waiting.clear()
            timing.waiting.extend(ahead)
        self.clock += 1
        return out
