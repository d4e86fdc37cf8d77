"""Parts of messages that carry vectors and numbers to be added up."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from glmesh.core import Layout, Packed, Reader, array_bytes
from glmesh.types import Shorts, Unsigned, Vector


@dataclass(slots=True)
class PartialSum:
    """Part of a message of a sum over all nodes: {node: vector} and {node: numbers}, still to be added up.

    Where nodes flood, an entry is that node's own contribution; along the spanning tree it is the sender's: the sum of
    its subtree or, on the way down, the sum of all.
    """

    round: int  # round that the sum belongs to
    vectors: dict[int, Vector]  # (width,) by node
    numbers: dict[int, Vector]  # (numbers per node,) by node

    @property
    def nbytes(self) -> int:
        """Return the bytes counted for this part: 8, and per node its id (4 bytes), its vector and its numbers."""
        return 8 + sum(4 + vector.nbytes + self.numbers[node].nbytes for node, vector in self.vectors.items())

    def pack(self, layout: Layout) -> Packed:
        """Return this PartialSum as bytes: whole numbers (round; node and two lengths per entry), then the arrays.

        `layout` is not read, since the lengths go along.
        """
        entries = [(node, vector, self.numbers[node]) for node, vector in self.vectors.items()]
        head = [self.round, *(number for node, a, b in entries for number in (node, len(a), len(b)))]
        return Packed(np.array(head, "<i8").tobytes(), 0, tuple(array_bytes(a) for _, *pair in entries for a in pair))

    @classmethod
    def unpack(cls, head: bytes, flags: int, body: Reader, layout: Layout) -> Self:
        """Return the PartialSum that `pack` made bytes of; its arrays share memory with the message.

        `head` are the first bytes, `body` reads the rest; raise Violation for what `pack` cannot have made. `flags` and
        `layout` are not read.
        """
        round, *entries = np.frombuffer(head, "<i8").tolist()
        made = cls(round, {}, {})
        for node, length, n_numbers in zip(entries[::3], entries[1::3], entries[2::3], strict=True):
            made.vectors[node], made.numbers[node] = body.array("<f8", length), body.array("<f8", n_numbers)
        return made


Contribution = Unsigned | Shorts  # a node's part of a total: modulo 2^64 to be added up, or of which maxima are wanted
_KINDS = ("<u8", "<i2")  # numbers of a `PartialTotal` as bytes: to be added up; of which the largest are wanted


@dataclass(slots=True)
class PartialTotal:
    """Part of a message of a total: {node: its contribution}, and ids of nodes whose contribution the sender lacks.

    Contributions are integers modulo 2^64 to be added up, or integers of 16 bits of which the largest are wanted. Along
    the spanning tree a contribution is that of the sender's subtree, or the total that comes down.
    """

    number: int  # number of the total, counted from the start of a run
    rows: dict[int, Contribution]  # (numbers,) by node
    wanted: tuple[int, ...] = ()  # nodes whose contribution is still to be sent here

    @property
    def nbytes(self) -> int:
        """Return the bytes counted for this part: 8; 4 and its numbers per contribution; 4 per id in `wanted`.

        A number has 8 bytes, or 2 where the largest are wanted.
        """
        return 8 + sum(4 + row.nbytes for row in self.rows.values()) + 4 * len(self.wanted)

    def pack(self, layout: Layout) -> Packed:
        """Return this PartialTotal as bytes: whole numbers (number, rows, length, ids, ids wanted), then the rows.

        `layout` has the lengths of the message's arrays.
        """
        rows = list(self.rows.values())
        head = [self.number, len(rows), len(rows[0]) if rows else 0, *self.rows, *self.wanted]
        short = bool(rows) and rows[0].dtype == np.int16
        return Packed(
            np.array(head, "<i8").tobytes(), int(short), tuple(array_bytes(row, _KINDS[short]) for row in rows)
        )

    @classmethod
    def unpack(cls, head: bytes, flags: int, body: Reader, layout: Layout) -> Self:
        """Return the PartialTotal that `pack` made bytes of; its rows share memory with the message.

        `head` are the first bytes, `body` reads the rest; raise Violation for what `pack` cannot have made. `flags` and
        `layout` are not read.
        """
        number, n_rows, length, *ids = np.frombuffer(head, "<i8").tolist()
        return cls(number, {node: body.array(_KINDS[flags], length) for node in ids[:n_rows]}, tuple(ids[n_rows:]))
