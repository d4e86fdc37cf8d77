"""From the thread of the links to the node's own."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from glmesh.peers.frames import Kind

_MOST_UNREAD = 64  # letters of a neighbour that this node has not come to; older ones give way


@dataclass
class Message:
    """What a neighbour sent, or (kind None) that its link is up or down."""

    peer: int
    kind: Kind | None
    content: bytes | bytearray = b""
    up: bool = False


class Inbox:
    """Messages for the node's own thread."""

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._some = threading.Condition()

    def put(self, message: Message) -> None:
        """From the thread of the links."""
        with self._some:
            unread = sum(1 for one in self._messages if one.peer == message.peer and one.kind is Kind.LETTER)
            if message.kind is Kind.LETTER and unread >= _MOST_UNREAD:
                oldest = next(m for m in self._messages if m.peer == message.peer and m.kind is Kind.LETTER)
                self._messages.remove(oldest)
            self._messages.append(message)
            self._some.notify()

    def get(self, seconds: float | None) -> Message | None:
        """The next one; None if none comes in time."""
        with self._some:
            if not self._some.wait_for(lambda: bool(self._messages), seconds):
                return None
            return self._messages.popleft()
