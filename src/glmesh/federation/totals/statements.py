"""What members sign and everybody passes on: their status, of which the newest counts, and what it refers to.

A status is JSON, signed as the bytes that cross the wire. Everything that is read from a neighbour is checked here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Protocol, TypeVar, get_args, get_origin, get_type_hints

from glmesh.core import Violation
from glmesh.federation.totals.names import digest

LONGEST_TEXT = 1000  # [characters] of any text in a statement
WHOLE = 1 << 62  # whole numbers are from 0 to below this

T = TypeVar("T")
_KNOWN_HINTS: dict[type[object], dict[str, object]] = {}


class Keys(Protocol):
    """Protocol of a member's certificate key and of its store of the other members' certificates."""

    @property
    def certificate(self) -> bytes:
        """Return this member's certificate, which is sent along with what the member signs."""

    def sign(self, content: bytes) -> bytes:
        """Return this member's signature of some bytes."""

    def learn(self, member: int, certificate: bytes) -> bool:
        """Store a certificate as that of member number `member`; return whether it is the listed one."""

    def verify(self, member: int, content: bytes, signature: bytes) -> bool:
        """Return whether `signature` is that of member number `member` for `content`.

        False if its certificate is unknown.
        """


def plain(value: object) -> object:
    """Return a value as JSON can hold it: a dataclass as {field: value}, a tuple as a list, others unchanged."""
    if dataclasses.is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    return [plain(one) for one in value] if isinstance(value, tuple) else value


def built(kind: type[T], tree: object, where: str = "") -> T:
    """Return the dataclass of type `kind` that `plain` made this tree of; raise Violation for any other tree.

    The message of the Violation begins with `where`.
    """
    name = where or kind.__name__
    if not isinstance(tree, Mapping):
        raise Violation(f"{name}: expected an object, got {tree!r:.80}")
    hints = _hints(kind)
    if set(tree) != set(hints):
        raise Violation(f"{name}: expected the keys {', '.join(hints)}, got {list(tree)!r:.80}")
    return kind(**{key: _value(hint, tree[key], f"{name}, {key}") for key, hint in hints.items()})


def _hints(kind: type[object]) -> dict[str, object]:
    """Return {name: type} of the fields of a dataclass."""
    if kind not in _KNOWN_HINTS:
        _KNOWN_HINTS[kind] = get_type_hints(kind)
    return _KNOWN_HINTS[kind]


def _value(hint: object, value: object, where: str) -> Any:
    """Return a value that JSON held as one of the type `hint`; raise Violation if it is of another type.

    The message of the Violation begins with `where`.
    """
    if isinstance(hint, UnionType):
        if value is None and NoneType in get_args(hint):
            return None
        return _value(next(one for one in get_args(hint) if one is not NoneType), value, where)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return built(hint, value, where)
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_value(get_args(hint)[0], one, where) for one in value)
    if type(value) is not hint or _is_too_large(value):
        raise Violation(f"{where}: expected {getattr(hint, '__name__', hint)}, got {value!r:.80}")
    return value


def _is_too_large(value: object) -> bool:
    """Return whether a whole number is not from 0 to below 2^62, or a text longer than 1,000 characters."""
    if isinstance(value, int):
        return not 0 <= value < WHOLE
    return isinstance(value, str) and len(value) > LONGEST_TEXT


def canonical(value: object) -> bytes:
    """Return a value, such as a status, as the bytes that are signed and digested: JSON, sorted keys, no blanks."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Held:
    """Which totals (sums over all members) of which fit a member holds, without the totals themselves."""

    fit: str  # name of the fit
    set: str  # digest of the members and their data
    start: str  # seed of the point that it began at; empty: zero
    born: int  # number of the view that it began in
    count: int  # totals
    chain: str  # digest of all of them


@dataclass(frozen=True)
class Vote:
    """A member's statement that it holds all totals of a fit, and the model that follows from them.

    A total is a sum over all members.
    """

    number: int  # of the view in which it says so
    view: str  # digest of that view
    model: str  # digest of the model


@dataclass(frozen=True)
class Asking:
    """What names the total to which a member contributes at present."""

    view: str
    number: int
    attempt: int
    request: str  # digest


@dataclass(frozen=True)
class Record:
    """What a site last contributed to: a digest of the members and their data, and where that fit began."""

    set: str
    start: str  # seed; empty: zero


@dataclass(frozen=True)
class MemberStatus:
    """All that a member tells everybody about itself; a status with a larger `age` replaces an earlier one."""

    author: int
    start: int  # of its process; a later start replaces an earlier one
    key: str  # mask key of that start, in hexadecimal
    key_signature: str  # of `key_statement`
    sequence: int
    pin: str  # random name of its data; the same only as long as the data is known to be the same
    remembers: bool  # since its process began it has been told in a view what it may have forgotten
    promised: int  # largest number of a view that it said yes to
    yes: str  # digest of that view; empty: none
    voters: tuple[int, ...]  # members that count: all that are not late, and late ones that it has said yes to
    record: Record | None
    held: Held | None
    vote: Vote | None
    asking: Asking | None
    final: bool  # it knows that more than half hold the model
    refused: str  # why it cannot go on, in words for everybody's eyes; empty: it can

    @property
    def age(self) -> tuple[int, str, int]:
        """Return (start of the process, mask key, sequence number): of two of one author, the larger is newer."""
        return self.start, self.key, self.sequence


@dataclass(frozen=True)
class Signed:
    """A status as it crosses links: its bytes, the author's signature and certificate."""

    author: int
    body: bytes
    signature: bytes
    certificate: bytes


def signed_part(federation: str, body: bytes) -> bytes:
    """Return the 32 bytes that the author of a status signs: a digest of the federation file's digest and of `body`."""
    return digest("glmesh/status/1", federation, body)


def parsed(kind: type[T], body: bytes) -> T:
    """Return the dataclass of type `kind` that `canonical` made these bytes of; raise Violation for other bytes."""
    try:
        tree = json.loads(body)
    except (ValueError, RecursionError):
        raise Violation(f"a {kind.__name__} that is no JSON") from None
    return built(kind, tree)


@lru_cache(maxsize=1024)  # everybody passes the same statuses on
def _status(body: bytes) -> MemberStatus:
    """Return the MemberStatus in these bytes; raise Violation for other bytes. The last 1024 are kept."""
    return parsed(MemberStatus, body)


def read_status(signed: Signed) -> MemberStatus:
    """Return the status in a signed statement; raise Violation if it is malformed or has another author."""
    status = _status(signed.body)
    if status.author != signed.author:
        raise Violation(f"a status of {status.author} in the name of {signed.author}")
    return status
