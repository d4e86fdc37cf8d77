"""Messages on their way from the thread of the links to the node's own."""

import threading
from collections import Counter, deque
from dataclasses import dataclass

from glmesh.federation.wire.frames import Kind

_OVERHEAD = 1024  # [bytes] counted for every message beside its content, so that many short ones are bounded too


@dataclass
class Message:
    """A message of a neighbour or, with kind None, the news that the neighbour's link came up or went down."""

    peer: int  # number of the neighbour
    kind: Kind | None  # of the message; None: news of the link
    content: bytes | bytearray = b""  # of the message
    up: bool = False  # with kind None: the link came up; else it went down


class Inbox:
    """Queue of messages from the thread of the links to the node's own.

    Unread bytes are counted by neighbour, so that reading from one that sends too much can pause.
    """

    def __init__(self) -> None:
        self._messages: deque[Message] = deque()
        self._some = threading.Condition()
        self._unread: Counter[int] = Counter()  # [bytes] by neighbour

    def put(self, message: Message) -> None:
        """Append a message to the queue; it is called in the thread of the links."""
        with self._some:
            self._messages.append(message)
            self._unread[message.peer] += len(message.content) + _OVERHEAD
            self._some.notify()

    def unread(self, peer: int) -> int:
        """Return the bytes of neighbour `peer`'s messages that the node has not taken yet, and _OVERHEAD for each."""
        return self._unread[peer]

    def get(self, seconds: float) -> Message | None:
        """Remove the oldest message from the queue and return it; None if none comes within `seconds`."""
        with self._some:
            if not self._some.wait_for(lambda: bool(self._messages), seconds):
                return None
            message = self._messages.popleft()
            self._unread[message.peer] -= len(message.content) + _OVERHEAD
            return message
