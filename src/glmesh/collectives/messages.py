"""What one node sends to one neighbour when a sum is made: vectors and numbers, each labelled with whose it is."""

from __future__ import annotations

from dataclasses import dataclass

from glmesh.types import Vector


@dataclass(slots=True)
class PartialSum:
    """Parts of a sum, by the node they come from (or the one that added them up)."""

    sender: int
    receiver: int
    round: int
    vectors: dict[int, Vector]
    numbers: dict[int, Vector]

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        parts = sum(4 + vector.nbytes + self.numbers[node].nbytes for node, vector in self.vectors.items())
        return 8 + parts
