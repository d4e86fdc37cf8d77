"""Bundles as bytes: a head in JSON with all that is small, behind it the contributions and totals as they are.

No pickle; every length is checked before it is used, and nothing is believed before its signature is checked.
"""

from __future__ import annotations

import json
import struct

import numpy as np

from glmesh.core import Reader, Violation
from glmesh.federation.totals.bundles import Bundle, GiveTotals, WantTotals
from glmesh.federation.totals.flood import Ask, Contribution
from glmesh.federation.totals.memory import KeptTotal
from glmesh.federation.totals.statements import Signed, built, plain
from glmesh.federation.totals.views import read_view

_HEAD = struct.Struct("<I")  # [bytes] of the head
_LISTS = ("statuses", "views", "parts", "asks", "entries", "want_content", "content")


def pack(bundle: Bundle) -> bytes:
    """Return a bundle as bytes that `unpack` reads: length of the head, head in JSON, contributions and totals."""
    blobs: list[bytes] = []

    def blob(content: bytes) -> int:
        """Append `content` to the bytes that follow the head; return its length."""
        blobs.append(content)
        return len(content)

    given = bundle.totals
    tree: dict[str, object] = {
        "statuses": [[one.author, *map(blob, (one.body, one.signature, one.certificate))] for one in bundle.statuses],
        "views": [blob(one.body) for one in bundle.views],
        "parts": [
            [one.view, one.number, one.attempt, one.request, one.author, blob(one.body), blob(one.signature)]
            for one in bundle.parts
        ],
        "asks": [plain(one) for one in bundle.asks],
        "want_totals": None if bundle.want_totals is None else plain(bundle.want_totals),
        "totals": None if given is None else [given.fit, given.first],
        "entries": [
            [blob(one.request), blob(one.value.astype("<u8").tobytes())] for one in (given.entries if given else ())
        ],
        "want_content": bundle.want_content,
        "content": [[key, blob(content)] for key, content in bundle.content],
    }
    head = json.dumps(tree, separators=(",", ":")).encode()
    return b"".join([_HEAD.pack(len(head)), head, *blobs])


def unpack(content: bytes | bytearray, n_members: int) -> Bundle:
    """Return the Bundle that `pack` made these bytes of; raise Violation for other bytes.

    Violation is raised for a member's number that is not below `n_members`, too.
    """
    reader = Reader(content)
    (size,) = reader.unpack(_HEAD)
    try:
        tree = json.loads(reader.take(size))
    except (ValueError, RecursionError):
        raise Violation("a bundle whose head is no JSON") from None
    if not isinstance(tree, dict) or any(not isinstance(tree.get(key), list) for key in _LISTS):
        raise Violation(f"a bundle's head: expected the lists {', '.join(_LISTS)}")

    def blob(length: object) -> bytes:
        """Return the next `length` bytes behind the head; raise Violation if there are fewer."""
        return reader.take(_whole(length))

    try:
        bundle = Bundle(
            statuses=[Signed(_member(who, n_members), *map(blob, sizes)) for who, *sizes in tree["statuses"]],
            views=[read_view(blob(one)) for one in tree["views"]],
        )
        bundle.parts = [
            Contribution(
                _text(view), _whole(number), _whole(attempt), _text(request), _member(who, n_members), *map(blob, sizes)
            )
            for view, number, attempt, request, who, *sizes in tree["parts"]
        ]
        bundle.asks = [built(Ask, one) for one in tree["asks"]]
        bundle.want_totals = None if tree.get("want_totals") is None else built(WantTotals, tree["want_totals"])
        entries = tuple(
            KeptTotal(blob(a), np.frombuffer(blob(b), dtype="<u8").astype(np.uint64)) for a, b in tree["entries"]
        )
        if tree.get("totals") is not None:
            fit, first = tree["totals"]
            bundle.totals = GiveTotals(_text(fit), _whole(first), entries)
        bundle.want_content = [_text(one) for one in tree["want_content"]]
        bundle.content = [(_text(key), blob(length)) for key, length in tree["content"]]
    except (TypeError, ValueError) as error:
        raise Violation(f"a bundle with entries of another form ({error})") from None
    reader.end()
    return bundle


def _whole(value: object) -> int:
    """Return a value if it is a whole number in [0, 2^62); else raise Violation."""
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise Violation(f"a bundle: expected a whole number, got {value!r:.80}")
    return value


def _member(value: object, n_members: int) -> int:
    """Return a value if it is a member's number, 0 ... n_members - 1; else raise Violation."""
    if _whole(value) >= n_members:
        raise Violation(f"a bundle: expected a member from 0 to {n_members - 1}, got {value!r:.80}")
    return _whole(value)


def _text(value: object) -> str:
    """Return a value if it is a text of at most 128 characters, as digests are; else raise Violation."""
    if type(value) is not str or len(value) > 128:
        raise Violation(f"a bundle: expected a digest, got {value!r:.80}")
    return value
