"""What crosses a link: messages in frames, and letters as bytes. No pickle; every length is checked before it is used.

A message is cut into frames of at most CHUNK bytes, each with a header (little-endian):

| bytes | holds                                       |
|-------|---------------------------------------------|
| 2     | "gm"                                        |
| 1     | version of the protocol                     |
| 1     | kind of the message                         |
| 4     | number of the message in this stream, from 0|
| 4     | bytes of the whole message                  |
| 4     | where this frame's bytes belong             |
| 4     | CRC-32 of the whole message                 |

Frames come in order, so whatever is repeated, out of order, too large or damaged ends the stream; the link then begins
anew. Who sent a message is known from its stream's certificate, and never read from the message.
"""

from __future__ import annotations

import enum
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from glmesh.certificate.bound import BoundTerms
from glmesh.collectives.pipeline import ObjectiveDigest
from glmesh.errors import GlmeshError
from glmesh.gossip.edge import Offer
from glmesh.gossip.messages import CertificateRecord, LinkMessage
from glmesh.types import AnyArray, Indices, Vector

PROTOCOL = 1
CHUNK = 1 << 20  # bytes of a frame: what gRPC moves well, a quarter of what it allows by default
CONTROL = 4 << 20  # bytes of a message that is no vector: facts of thousands of nodes
_CHECKED = 1 << 12  # bytes of a message that its checksum is of: against mistakes, since TLS keeps all of them whole
_HEADER = struct.Struct("<2sBBIIII")
_MAGIC = b"gm"
_RECORD = len(BoundTerms._fields) + 5  # numbers of a certificate record, as `glmesh.witness` makes them


class Violation(GlmeshError):
    """A neighbour sent what the protocol does not allow."""


class Kind(enum.IntEnum):
    """Kinds of messages."""

    HELLO = 1  # JSON: who, with which configuration and data
    REFUSE = 2  # JSON: why the stream is about to end
    BOARD = 3  # JSON: facts that everybody passes on
    LETTER = 4  # of one exchange
    WILL = 5  # A_k x_k of the sender, to be counted should it never return
    BYE = 6  # JSON: the sender is done
    PART = 7  # of a prediction
    READY = 8  # JSON: the sender knows the dimensions, and is in this exchange


Content = bytes | list[memoryview]  # of a message; in parts, so that long vectors are not copied more than they must


def frames(kind: Kind, number: int, content: Content) -> Iterator[bytes]:
    """A message, frame by frame."""
    parts = [memoryview(content)] if isinstance(content, bytes) else content
    check, total, unchecked = 0, sum(len(part) for part in parts), _CHECKED
    for part in parts:
        check = zlib.crc32(part[:unchecked], check)
        unchecked -= min(len(part), unchecked)
    at, place, offset = 0, 0, 0
    while at < max(total, 1):
        pieces: list[bytes | memoryview] = [_HEADER.pack(_MAGIC, PROTOCOL, kind, number & 0xFFFFFFFF, total, at, check)]
        room = CHUNK
        while room and place < len(parts):
            piece = parts[place][offset : offset + room]
            pieces.append(piece)
            room, offset = room - len(piece), offset + len(piece)
            if offset == len(parts[place]):
                place, offset = place + 1, 0
        yield b"".join(pieces)
        at += CHUNK


class Assembler:
    """Puts the messages of one stream together again."""

    def __init__(self) -> None:
        self.limit = CONTROL  # bytes of a message; more once the length of vectors is agreed on
        self._number = 0
        self._kind = 0
        self._total = self._check = -1
        self._content = bytearray()
        self._have = 0

    def feed(self, frame: bytes) -> tuple[Kind, bytearray] | None:
        """Takes a frame; a message once it is whole."""
        if len(frame) < _HEADER.size:
            raise Violation(f"a frame of {len(frame)} bytes, shorter than its header")
        magic, version, kind, number, total, at, check = _HEADER.unpack_from(frame)
        size = len(frame) - _HEADER.size
        if magic != _MAGIC:
            raise Violation("a frame that is none of glmesh's")
        if version != PROTOCOL:
            raise Violation(f"protocol version {version}, this node speaks {PROTOCOL}; upgrade the older of the two")
        if number != self._number:
            raise Violation(f"message {number} where {self._number} was due: repeated or out of order")
        if not self._have and at == 0:
            if total > self.limit:
                raise Violation(f"a message of {total:,} bytes, at most {self.limit:,} make sense here")
            if size < min(total, CHUNK):
                raise Violation(f"a first frame of {size} bytes, {min(total, CHUNK)} were due")
            self._kind, self._total, self._check = kind, total, check
            self._content = bytearray(0 if size == total else total)
        elif (kind, total, check, at) != (self._kind, self._total, self._check, self._have) or not size:
            raise Violation(f"a frame for byte {at} of message {number} where byte {self._have} was due")
        if self._have + size > self._total or size > CHUNK:
            raise Violation("a frame that is longer than it says")
        self._content[self._have : self._have + size] = memoryview(frame)[_HEADER.size :]
        self._have += size
        if self._have < self._total:
            return None
        content, self._content = self._content, bytearray()
        self._have, self._number = 0, (self._number + 1) & 0xFFFFFFFF
        if zlib.crc32(memoryview(content)[:_CHECKED]) != check:
            raise Violation("a message that does not match its checksum")
        try:
            return Kind(kind), content
        except ValueError:
            raise Violation(f"a message of unknown kind {kind}") from None


def pack_json(value: Any) -> bytes:
    """Plain data."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def unpack_json(content: bytes | bytearray) -> dict[str, Any]:
    """An object of plain data."""
    try:
        value = json.loads(content, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Violation(f"a message that is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise Violation("a message that is no JSON object")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


@dataclass(frozen=True)
class Shape:
    """What vectors and tables are like in this federation: what does not fit is refused."""

    d: int
    n_nodes: int
    single: bool = False  # vectors of offers as float32

    @property
    def limit(self) -> int:
        """Bytes of the longest message that makes sense: a letter with all that may ride along."""
        return 4 * 8 * self.d + self.n_nodes * (8 * (_RECORD + 1) + 8 * 4) + 4096


_LETTER = struct.Struct("<QQQqqQdddQB7x")  # so long that the vectors behind it are aligned
_NOTE = struct.Struct("<qqQBI")
_VECTOR, _FLOW, _VIEW, _NOTED, _PULSE = 1, 2, 4, 8, 16
_SETTLED, _CORRECTED, _HAS_OFFER, _HAS_FINAL, _HAS_FLOW, _NOTE_VECTOR, _NOTE_FLOW = 1, 2, 4, 8, 16, 32, 64


def pack_letter(clock: int, letter: LinkMessage, shape: Shape) -> list[memoryview]:
    """A letter of the exchange `clock`; its vectors are not copied."""
    offer, note, pulse = letter.offer, letter.note, letter.pulse
    parts = (offer.vector, offer.flow, letter.view, note, pulse)
    flags = sum(bit for bit, part in zip((1, 2, 4, 8, 16), parts, strict=True) if part is not None)
    out: list[bytes | memoryview] = [
        _LETTER.pack(
            clock, offer.incarnation, offer.addressed, offer.attempt, offer.version, offer.digest,
            offer.limit, offer.coast, offer.push, letter.members, flags,
        )
    ]  # fmt: skip
    if offer.vector is not None:
        out.append(_bytes(offer.vector, "<f4" if shape.single else "<f8"))
    if offer.flow is not None:
        out.append(_bytes(offer.flow))
    if letter.view is not None:
        out.append(letter.view.astype("<i8").tobytes())
    if note is not None:
        out += _pack_note(note, shape)
    if pulse is not None:
        out += [pulse.stamps.astype("<i8").tobytes(), pulse.parts.astype("<f8").tobytes()]
        out.append(struct.pack("<q", pulse.restart))
    return [memoryview(part) for part in out]


def _bytes(vector: Vector, kind: str = "<f8") -> memoryview:
    return np.ascontiguousarray(vector, dtype=kind).data.cast("B")


def _pack_note(note: CertificateRecord, shape: Shape) -> Iterator[bytes | memoryview]:
    bits = (note.settled, note.corrected, note.has_offer, note.has_final, note.has_flow)
    flags = sum(1 << place for place, bit in enumerate(bits) if bit)
    flags |= _NOTE_VECTOR * (note.vector is not None) | _NOTE_FLOW * (note.flow is not None)
    yield _NOTE.pack(note.round, note.end[0], note.end[1], flags, len(note.rows))
    yield note.known.to_bytes((shape.n_nodes + 7) // 8, "little")
    for node, row in note.rows.items():
        yield struct.pack("<I", node) + row.astype("<f8").tobytes()
    for vector in (note.vector, note.flow):
        if vector is not None:
            yield _bytes(vector)


class _Reader:
    """Takes bytes from the front; more than there are is a violation."""

    def __init__(self, content: bytes | bytearray) -> None:
        self._content, self._at = content, 0

    def take(self, size: int) -> bytes:
        self._pass(size)
        return bytes(self._content[self._at - size : self._at])

    def _pass(self, size: int) -> None:
        if self._at + size > len(self._content):
            raise Violation("a message that ends too early; its vectors may be of another dimension")
        self._at += size

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.take(layout.size))

    def array(self, kind: str, n: int) -> AnyArray:
        size = n * np.dtype(kind).itemsize
        self._pass(size)
        return np.frombuffer(self._content, kind, n, self._at - size)

    def vector(self, n: int, kind: str = "<f8", what: str = "a vector") -> Vector:
        """A view of the message where that can be, which is what makes it quick."""
        values: Vector = np.require(self.array(kind, n), np.float64, ["A", "W"])
        with np.errstate(all="ignore"):
            quick = np.isfinite(values.sum())  # a sum of finite numbers may overflow, but not the other way round
        if not quick and not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            raise Violation(f"{what} with {'NaN' if np.isnan(values[at]) else 'infinity'} at position {at}")
        return values

    def end(self) -> None:
        if self._at != len(self._content):
            raise Violation("a message that goes on after its end; its vectors may be of another dimension")


def unpack_letter(content: bytes | bytearray, sender: int, receiver: int, shape: Shape) -> tuple[int, LinkMessage]:
    """(exchange, letter) between two nodes that the link knows."""
    reader = _Reader(content)
    clock, incarnation, addressed, attempt, version, digest, limit, coast, push, members, flags = reader.unpack(_LETTER)
    if not (0 <= limit <= 2 and 0 <= coast < 1e6 and 0 <= push <= 1):  # also refuses NaN
        raise Violation(f"an offer with weight {limit}, coast {coast} and push {push}")
    if clock >= 1 << 62 or attempt < 0 or version > attempt or version < -1 or not incarnation or flags >= 32:
        raise Violation(f"an offer of attempt {attempt} that starts from version {version}, in exchange {clock}")
    vector = reader.vector(shape.d, "<f4" if shape.single else "<f8", "an offer") if flags & _VECTOR else None
    flow = reader.vector(shape.d, what="a flow") if flags & _FLOW else None
    view: Indices | None = None
    if flags & _VIEW:
        view = reader.array("<i8", shape.n_nodes).astype(np.int64)
        if (view < 0).any():
            raise Violation("a view of the members with a negative count")
    note = _unpack_note(reader, shape) if flags & _NOTED else None
    pulse = _unpack_pulse(reader, shape) if flags & _PULSE else None
    reader.end()
    offer = Offer(
        sender, receiver, incarnation, addressed, attempt, version, digest, limit, vector, flow, coast, push
    )  # fmt: skip
    return clock, LinkMessage(offer, members, view, note, pulse)


def _unpack_note(reader: _Reader, shape: Shape) -> CertificateRecord:
    round, version, digest, flags, n_rows = reader.unpack(_NOTE)
    if round < 0 or n_rows > shape.n_nodes or flags >= 128:
        raise Violation(f"a note about round {round} with {n_rows} records")
    known = int.from_bytes(reader.take((shape.n_nodes + 7) // 8), "little")
    rows: dict[int, Vector] = {}
    for _ in range(n_rows):
        (node,) = reader.unpack(struct.Struct("<I"))
        row = reader.array("<f8", _RECORD).astype(np.float64)  # infinities and NaN have a meaning in records
        if node >= shape.n_nodes or node in rows:
            raise Violation(f"a record of node {node}, of {shape.n_nodes}")
        rows[node] = row
    vector = reader.vector(shape.d, what="a noted estimate") if flags & _NOTE_VECTOR else None
    flow = reader.vector(shape.d, what="a noted flow") if flags & _NOTE_FLOW else None
    return CertificateRecord(
        round,
        (version, digest),
        bool(flags & _SETTLED),
        bool(flags & _CORRECTED),
        bool(flags & _HAS_OFFER),
        bool(flags & _HAS_FINAL),
        bool(flags & _HAS_FLOW),
        known,
        rows,
        vector,
        flow,
    )


def _unpack_pulse(reader: _Reader, shape: Shape) -> ObjectiveDigest:
    stamps = reader.array("<i8", shape.n_nodes).astype(np.int64)
    parts = reader.array("<f8", shape.n_nodes).astype(np.float64)
    (restart,) = reader.unpack(struct.Struct("<q"))
    if (stamps < -1).any() or (stamps >= 1 << 62).any() or not -1 <= restart < 1 << 62:
        raise Violation("a pulse of an impossible round")
    if not np.isfinite(parts[stamps >= 0]).all():
        raise Violation("a pulse with NaN or infinity")
    return ObjectiveDigest(stamps, parts, restart)


def pack_vector(info: dict[str, Any], vector: Vector) -> bytes:
    """A vector with a few words about it."""
    head = pack_json(info)
    return struct.pack("<I", len(head)) + head + vector.astype("<f8").tobytes()


def unpack_vector(content: bytes | bytearray, d: int | None) -> tuple[dict[str, Any], Vector]:
    """The same back; d: how long it must be, if that is known."""
    reader = _Reader(content)
    (size,) = reader.unpack(struct.Struct("<I"))
    info = unpack_json(reader.take(size))
    left = len(content) - 4 - size
    if left % 8 or (d is not None and left != 8 * d):
        raise Violation(f"a vector of {left} bytes" + ("" if d is None else f", {8 * d} were due"))
    return info, reader.vector(left // 8)
