"""Flooding: nodes pass on what is news to them until all nodes have it."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass
class Flood(Generic[Key, Value]):
    """One node's side of flooding: for each key it keeps the value with the largest stamp, and passes new values on.

    A stamp is an integer that grows with every new value of its key.
    """

    peers: Collection[int]  # the neighbours
    send: Callable[[int, list[Value]], None]  # send these values to one neighbour
    entries: dict[Key, tuple[int, Value]] = field(default_factory=dict)  # (stamp, value) of each key

    def keep(self, key: Key, stamp: int, value: Value) -> bool:
        """Store `value` if its stamp is larger than that of the value stored for `key`.

        Return whether it was stored.
        """
        if stamp <= self.stamp(key):
            return False
        self.entries[key] = stamp, value
        return True

    def spread(self, keys: Collection[Key], source: int | None = None) -> None:
        """Send the stored values of these keys to all neighbours but `source`, which they came from (None: to all)."""
        values = [self.entries[key][1] for key in keys]
        for peer in self.peers if values else ():
            if peer != source:
                self.send(peer, values)

    def greet(self, peer: int) -> None:
        """Send all stored values to neighbour `peer`, whose link has come up."""
        self.send(peer, [value for _, value in self.entries.values()])

    def stamp(self, key: Key) -> int:
        """Return the stamp of the value that is stored for `key`; -1 if there is none."""
        return self.entries[key][0] if key in self.entries else -1
