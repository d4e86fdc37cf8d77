"""Bytes of one message: how its parts are laid out, and a reader that checks every length before it is used."""

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.typing import ArrayLike

from glmesh.errors import GlmeshError
from glmesh.types import Vector

Buffer = bytes | memoryview


class Violation(GlmeshError):
    """Raised when bytes that a neighbour sent are not a message that the protocol allows."""


@dataclass(frozen=True)
class Layout:
    """Lengths of the arrays in a message, and their precision, on which sender and receiver agree beforehand.

    `d` is the length of vectors, `n_nodes` that of tables with an entry per node.
    """

    d: int  # of vectors
    n_nodes: int  # of tables with an entry per node
    single: bool = False  # offers of flow gossip carry float32 instead of float64


class Packed(NamedTuple):
    """One content of a message as bytes: a head of fixed length, flags, and a body of arrays.

    The flags are bits that say which optional content there is; the arrays are not copied.
    """

    head: bytes = b""  # fields of fixed length
    flags: int = 0  # bits that say which optional content there is
    body: tuple[Buffer, ...] = ()  # the arrays, which are not copied


def array_bytes(vector: ArrayLike, kind: str = "<f8") -> memoryview:
    """Return a memoryview of the bytes of an array, converted to dtype `kind`; no copy is made if it has that dtype."""
    return np.ascontiguousarray(vector, dtype=kind).data.cast("B")


class Reader:
    """A cursor over the bytes of a message, from front to end.

    Raises Violation where there are too few or too many bytes.
    """

    def __init__(self, content: bytes | bytearray) -> None:
        """Set the cursor to the first of the bytes `content`."""
        self._content, self._at = content, 0

    def take(self, size: int) -> bytes:
        """Return a copy of the next `size` bytes."""
        self._advance(size)
        return bytes(self._content[self._at - size : self._at])

    def _advance(self, size: int) -> None:
        """Move the cursor by `size` bytes; raise Violation if the message ends before."""
        if self._at + size > len(self._content):
            raise Violation("a message that ends too early; its vectors may be of another dimension")
        self._at += size

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return the fields at the cursor, as a tuple that the struct `layout` reads; move the cursor behind them."""
        return layout.unpack(self.take(layout.size))

    def array(self, kind: str, n: int) -> npt.NDArray[Any]:
        """Return the next n numbers of dtype `kind`, shape (n,), as an array that shares memory with the message."""
        size = n * np.dtype(kind).itemsize
        self._advance(size)
        return np.frombuffer(self._content, kind, n, self._at - size)

    def vector(self, n: int, kind: str = "<f8", what: str = "a vector") -> Vector:
        """Return the next n numbers as float64, shape (n,); raise Violation, which names `what`, if one is not finite.

        The vector shares memory with the message if that is aligned and writable, else it is a copy. `kind` is the
        dtype in which the numbers stand in the message.
        """
        values: Vector = np.require(self.array(kind, n), np.float64, ["A", "W"])
        with np.errstate(all="ignore"):
            quick = np.isfinite(values.sum())  # a sum of finite numbers may overflow, but not the other way round
        if not quick and not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            raise Violation(f"{what} with {'NaN' if np.isnan(values[at]) else 'infinity'} at position {at}")
        return values

    def end(self) -> None:
        """Raise Violation unless the whole message was read."""
        if self._at != len(self._content):
            raise Violation("a message that goes on after its end; its vectors may be of another dimension")
