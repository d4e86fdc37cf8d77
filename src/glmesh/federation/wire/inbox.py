"""From the thread of the links to the node's own."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass

from glmesh.federation.wire.frames import Kind

_LEAST = 1024  # bytes that a message costs, however short it is


@dataclass
class Message:
    """What a neighbour sent, or (kind None) that its link is up or down."""

    peer: int
    kind: Kind | None
    content: bytes | bytearray = b""
    up: bool = False


class Inbox:
    """Messages for the node's own thread; how much is unread of each neighbour is known, so that reading can wait."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._some = threading.Condition()
        self._unread: Counter[int] = Counter()  # bytes

    def put(self, message: Message) -> None:
        """From the thread of the links."""
        with self._some:
            self._messages.append(message)
            self._unread[message.peer] += len(message.content) + _LEAST
            self._some.notify()

    def unread(self, peer: int) -> int:
        """Bytes of a neighbour's messages that this node has not come to."""
        return self._unread[peer]

    def get(self, seconds: float | None) -> Message | None:
        """The next one; None if none comes in time."""
        with self._some:
            if not self._some.wait_for(lambda: bool(self._messages), seconds):
                return None
            message = self._messages.popleft()
            self._unread[message.peer] -= len(message.content) + _LEAST
            return message
