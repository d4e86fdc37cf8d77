"""What crosses a link: messages in frames, and mail as bytes. No pickle; every length is checked before it is used.

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

Frames come in order, so a frame that is repeated, out of order, too large or damaged ends the stream; the link then
begins anew. The sender of a message is known from its stream's certificate, and never read from the message.
"""

import enum
import json
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from glmesh.certificate import ROW_WIDTH, CertificateRecord
from glmesh.collectives.pipeline import ObjectiveDigest
from glmesh.core import Buffer, Contents, Layout, Mail, Part, Reader
from glmesh.core import Violation as Violation
from glmesh.errors import InvalidInput
from glmesh.gossip import DIGEST_BYTES, OFFER_BYTES, Membership, Offer
from glmesh.types import Vector

# version of frames and messages; nodes of different versions refuse each other. 2: gossip kinds renamed. 3: offers.
# 4: nothing of targets on the gossip store, no shares of rows; totals
PROTOCOL = 4
CHUNK = 1 << 20  # [bytes] payload of a frame; a quarter of the 4 MB that gRPC accepts by default
CONTROL = 4 << 20  # [bytes] longest message before d is known; a GOSSIP message with 10,000 entries has less than 1 MB
_CHECKED = 1 << 12  # [bytes] prefix under the checksum, which finds mistakes of ours; TLS guards all of the message
_HEADER = struct.Struct("<2sBBIIII")
_MAGIC = b"gm"


class Kind(enum.IntEnum):
    """Kinds of messages that cross a link; the number of a kind is a byte of the frame's header."""

    HELLO = 1  # JSON: `messages.Hello`, the sender's name, configuration and rows
    REFUSE = 2  # JSON: `messages.LinkRefusal`, why the stream is about to end
    GOSSIP = 3  # JSON: entries of the gossip store that all nodes pass on
    MAIL = 4  # bytes of `pack_mail`: what the sender has for this neighbour in one exchange
    HANDOVER = 5  # a vector, by features only: A_k x_k of the sender, for its successor should it never return
    BYE = 6  # JSON {}: the sender has ended its run
    PART = 7  # a vector: one site's part of a prediction
    ROWS = 9  # digests of names of rows, for a site that compares them with the sender's
    TOTALS = 11  # bytes of `federation.totals.messages.pack`: statuses, contributions and totals
    READY = 8  # JSON: `messages.Ready`, the sender knows d and is in this exchange
    TARGETS = 10  # JSON: `targets.TargetsMessage`, by features: do both ends hold the same targets?


Content = bytes | list[memoryview]  # content of a message; in pieces, so that long vectors are not copied twice


def frames(kind: Kind, number: int, content: Content) -> Iterator[bytes]:
    """Yield the frames of a message, each the bytes of a header and of a piece of the content.

    `number` is the number of the message in its stream, from 0.
    """
    parts = [memoryview(content)] if isinstance(content, bytes) else content
    check, total, unchecked = 0, sum(len(part) for part in parts), _CHECKED
    for part in parts:
        check = zlib.crc32(part[:unchecked], check)
        unchecked -= min(len(part), unchecked)
    at, place, offset = 0, 0, 0
    while at < max(total, 1):
        pieces: list[bytes | memoryview] = [_HEADER.pack(_MAGIC, PROTOCOL, kind, number & 0xFFFFFFFF, total, at, check)]
        left = CHUNK
        while left and place < len(parts):
            piece = parts[place][offset : offset + left]
            pieces.append(piece)
            left, offset = left - len(piece), offset + len(piece)
            if offset == len(parts[place]):
                place, offset = place + 1, 0
        yield b"".join(pieces)
        at += CHUNK


def _read_header(frame: bytes) -> tuple[int, int, int, int, int]:
    """Return five numbers from the header of a frame; raise Violation if it is no frame of this protocol.

    They are the kind of the message, its number in the stream, its length in bytes, the place of this frame's piece in
    it, and the CRC-32 of the message.
    """
    if len(frame) < _HEADER.size:
        raise Violation(f"a frame of {len(frame)} bytes, shorter than its header")
    magic, version, *fields = _HEADER.unpack_from(frame)
    if magic != _MAGIC:
        raise Violation("a frame that is none of glmesh's")
    if version != PROTOCOL:
        older = "the neighbour" if version < PROTOCOL else "this node"
        raise Violation(f"protocol version {version}, this node speaks {PROTOCOL}; upgrade glmesh at {older}")
    kind, number, total, at, check = fields
    return kind, number, total, at, check


class Assembler:
    """Puts the messages of one stream together from frames; raises Violation for one longer than `limit` bytes."""

    def __init__(self) -> None:
        self.limit = CONTROL  # [bytes] longest message that is accepted; raised once d is known
        self._number = 0  # of the message in progress
        self._kind = 0
        self._total = self._check = -1
        self._content = bytearray()
        self._have = 0  # [bytes] of `_content` that have come

    @property
    def pending(self) -> int:
        """Return how many bytes of memory the message takes that is not complete yet; 0 if there is none."""
        return len(self._content)

    def feed(self, frame: bytes) -> tuple[Kind, bytearray] | None:
        """Take in a frame; return (kind, content) of the message that it completes, None if it completes none.

        Violation is raised for a frame that is damaged, out of order or of another protocol.
        """
        kind, number, total, at, check = _read_header(frame)
        size = len(frame) - _HEADER.size
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


def pack_json(value: object) -> bytes:
    """Return a value made of dicts, lists, texts and finite numbers as JSON: bytes in UTF-8, without blanks."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def unpack_json(content: bytes | bytearray) -> dict[str, object]:
    """Return the JSON object in the content of a message, as a dict; raise Violation for any other content."""
    try:
        value = json.loads(content, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Violation(f"a message that is no JSON ({error})") from None
    if not isinstance(value, dict):
        raise Violation("a message that is no JSON object")
    return value


def _no_constant(name: str) -> None:
    """Raise ValueError: JSON has no NaN and no infinity, which Python's reader hands to this function by name."""
    raise ValueError(f"{name} is no number")


def longest_mail(layout: Layout) -> int:
    """Return how long MAIL, the message with the vectors of an exchange, can be in bytes, with some slack.

    `layout` has the length d of vectors and the number of nodes.
    """
    return 4 * 8 * layout.d + layout.n_nodes * (8 * (ROW_WIDTH + 1) + 8 * 4) + 4096


class _Slot(NamedTuple):
    """Place of one type of part in the bytes of MAIL: its fields in the header, and its flags."""

    kind: type[Part]  # type of the part
    head: int  # [bytes] of its fields in the header
    flags: int  # mask of its bits in the header's flags, after these are shifted right by `shift`
    shift: int  # [bits]


# The header holds the exchange, the fields of the parts that every mail has, and the flags of all; so long that the
# vectors behind it are aligned. The bodies of the parts follow in this order.
_SLOTS = (
    _Slot(Offer, OFFER_BYTES, 0b11, 0),
    _Slot(Membership, DIGEST_BYTES, 0b1, 2),
    _Slot(CertificateRecord, 0, 0b1, 3),
    _Slot(ObjectiveDigest, 0, 0b1, 4),
)
_CLOCK, _FLAGS = struct.Struct("<Q"), struct.Struct("<B7x")
CARRIES = Contents(
    parts=frozenset(slot.kind for slot in _SLOTS),
    transport="a link between sites",
    remedy="Use push-flow gossip without exact sums: Cola(gossip='flows', acceleration='momentum')",
)


def pack_mail(clock: int, mail: Mail, layout: Layout) -> list[memoryview]:
    """Return MAIL, the message with the vectors of exchange number `clock`, as buffers to be sent one after the other.

    Vectors are buffers of their own, so they are not copied. `layout` has the length d of vectors and the number of
    nodes.
    """
    header, flags, bodies = _CLOCK.pack(clock), 0, list[Buffer]()
    for slot in _SLOTS:
        part = mail.part(slot.kind)
        if part is None and slot.head:
            raise InvalidInput(f"mail over a link has a part {slot.kind.__name__} always, got {mail.parts!r:.80}")
        if part is not None:
            packed = part.pack(layout)
            header += packed.head
            flags |= packed.flags << slot.shift
            bodies += packed.body
    return [memoryview(part) for part in (header + _FLAGS.pack(flags), *bodies)]


def unpack_mail(content: bytes | bytearray, sender: int, receiver: int, layout: Layout) -> tuple[int, Mail]:
    """Return (number of the exchange, mail) from the content of MAIL, the message with the vectors of an exchange.

    The numbers of sender and receiver are known from the link, and not read from the bytes. Raise Violation if the
    content is malformed.
    """
    reader = Reader(content)
    (clock,) = reader.unpack(_CLOCK)
    heads = [reader.take(slot.head) for slot in _SLOTS]
    (flags,) = reader.unpack(_FLAGS)
    if clock >= 1 << 62 or flags >= 32:
        raise Violation(f"mail of exchange {clock} with flags {flags:#x}")
    parts = [
        slot.kind.unpack(head, flags >> slot.shift & slot.flags, reader, layout)
        for slot, head in zip(_SLOTS, heads, strict=True)
        if head or flags >> slot.shift & slot.flags
    ]
    reader.end()
    return clock, Mail(sender, receiver, parts)


def pack_vector(info: dict[str, object], vector: Vector) -> bytes:
    """Return bytes that hold a dict and a vector: the length of `info` as JSON, `info`, the vector as float64.

    Numbers are little-endian. `unpack_vector` is the inverse.
    """
    head = pack_json(info)
    return struct.pack("<I", len(head)) + head + vector.astype("<f8").tobytes()


def unpack_vector(content: bytes | bytearray, d: int | None) -> tuple[dict[str, object], Vector]:
    """Return (info, vector), a dict and an array of shape (d,), from the bytes that `pack_vector` made of them.

    Raise Violation for other bytes, or unless the vector has `d` entries (None: any number).
    """
    reader = Reader(content)
    (size,) = reader.unpack(struct.Struct("<I"))
    info = unpack_json(reader.take(size))
    left = len(content) - 4 - size
    if left % 8 or (d is not None and left != 8 * d):
        raise Violation(f"a vector of {left} bytes" + ("" if d is None else f", {8 * d} were due"))
    return info, reader.vector(left // 8)
