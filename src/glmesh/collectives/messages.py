"""The part of a message that carries vectors and numbers to be added up."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from glmesh.core import Layout, Packed, Reader, array_bytes
from glmesh.types import Vector


@dataclass(slots=True)
class PartialSum:
    """Vectors and numbers by the node that they come from, or by the node that added up those of its subtree."""

    round: int
    vectors: dict[int, Vector]
    numbers: dict[int, Vector]

    @property
    def nbytes(self) -> int:
        """8 bytes, and per node its id (4 bytes), its vector and its numbers."""
        return 8 + sum(4 + vector.nbytes + self.numbers[node].nbytes for node, vector in self.vectors.items())

    def pack(self, layout: Layout) -> Packed:
        """Return whole numbers (round, then node and two lengths per entry), and the arrays behind them."""
        entries = [(node, vector, self.numbers[node]) for node, vector in self.vectors.items()]
        head = [self.round, *(number for node, a, b in entries for number in (node, len(a), len(b)))]
        return Packed(np.array(head, "<i8").tobytes(), 0, tuple(array_bytes(a) for _, *pair in entries for a in pair))

    @classmethod
    def unpack(cls, head: bytes, flags: int, body: Reader, layout: Layout) -> Self:
        """Rebuild the part; the arrays are views of the message."""
        round, *entries = np.frombuffer(head, "<i8").tolist()
        made = cls(round, {}, {})
        for node, length, n_numbers in zip(entries[::3], entries[1::3], entries[2::3], strict=True):
            made.vectors[node], made.numbers[node] = body.array("<f8", length), body.array("<f8", n_numbers)
        return made
