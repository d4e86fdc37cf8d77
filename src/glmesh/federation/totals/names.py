"""Digests that name totals: whatever two members could see differently is in the name, so they never mean two things.

A digest is SHA-256 over parts, each behind its length, of which the first is a text that says what is digested.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

Digested = bytes | str | int


def digest(*parts: Digested) -> bytes:
    """Return 32 bytes of SHA-256 over the arguments, each behind its length; whole numbers are 16 bytes, signed."""
    state = hashlib.sha256()
    for part in parts:
        content = _content(part)
        state.update(len(content).to_bytes(8, "little") + content)
    return state.digest()


def _content(part: Digested) -> bytes:
    """Return an argument of `digest` as bytes: text in UTF-8, a whole number as 16 bytes (signed, little-endian).

    Bytes are returned as they are.
    """
    if isinstance(part, int):
        return part.to_bytes(16, "little", signed=True)
    return part.encode() if isinstance(part, str) else part


@dataclass(frozen=True)
class TotalName:
    """All that determines a total, of which `digest` makes its name; equal names mean equal sums."""

    federation: str  # digest of the federation file
    number: int  # of the total in its fit, from 1
    attempt: int  # from 1; goes up for a misfit or unequal requests, and for nothing else
    view: str  # digest of the view
    keys: str  # digest of the mask keys of the view's members
    request: str  # digest of what is asked for: point, columns, grains, length, and the totals before it

    @property
    def digest(self) -> bytes:
        """Return the name of the total (a sum over all members), 32 bytes, which is also the salt of all its masks."""
        about = (self.number, self.attempt, self.view, self.keys, self.request)
        return digest("glmesh/total/1", self.federation, *about)


def request_digest(chain: str, content: bytes, length: int) -> str:
    """Return the digest, 64 hexadecimal digits, of a request for a total (a sum over all members) of `length` numbers.

    `content` are the bytes of the request, `chain` the digest of all totals of the fit before it.
    """
    return digest("glmesh/request/1", chain, content, length).hex()


def next_chain(chain: str, request: str, value: bytes) -> str:
    """Return the digest of all totals (sums over all members) of a fit after one more, as 64 hexadecimal digits.

    `chain` is the digest before it, `request` the digest of its request, `value` its numbers as bytes.
    """
    return digest("glmesh/chain/1", chain, request, value).hex()


def first_chain(fit: str) -> str:
    """Return the digest, 64 hexadecimal digits, of the totals (sums over all members) of a fit before the first.

    `fit` is the fit's name.
    """
    return digest("glmesh/chain/1", fit).hex()
