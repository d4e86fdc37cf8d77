"""Whether neighbours hold the same targets and sample weights, split by features, without a digest of either.

A digest of targets can be undone by whoever can guess them, and a member knows every key that members share. So two
neighbours run a password-authenticated key exchange in which the targets are the password (SPEKE: Jablon, Strong
password-only authenticated key exchange, 1996). Both hash their targets to a point P of Curve25519 and draw a number:

    a P  ->           |  the first message of either end says nothing about P
         <-  b P      |
    H(.., a b P)  ->  |  equal at both ends if P is; who has another P cannot compute it, nor test a guess of P with it
         <-  H(.., a b P)

Both learn whether their targets are the same. Who wants to test a guess must take part with it, and is answered
`GUESSES` times in a run of a site.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from glmesh.contract import DataTable
from glmesh.core import Violation
from glmesh.federation.config import Federation
from glmesh.federation.node.site_data import add_name, digest_key
from glmesh.federation.wire import JsonRecord, unexpected, unpack_json

_PRIME, _A = 2**255 - 19, 486662  # Curve25519: v^2 = u^3 + A u^2 + u modulo the prime (RFC 7748)
# comparisons that a neighbour may leave without a proof of its own: connections break, but not often just then
GUESSES = 16


@dataclass(frozen=True)
class TargetsMessage(JsonRecord):
    """Message of a comparison of targets: the sender's point a P and, in an answer, a proof that it knows a b P."""

    point: str  # a P in hexadecimal
    to: str = ""  # the receiver's point that `proof` answers; empty in the first message
    proof: str = ""  # digest of a b P, in hexadecimal; empty in the first message

    def __post_init__(self) -> None:
        sizes = len(self.point), len(self.to), len(self.proof)
        if sizes not in ((64, 0, 0), (64, 64, 64)) or not all(
            set(text) <= set("0123456789abcdef") for text in (self.point, self.to, self.proof)
        ):
            raise unexpected("TARGETS", "a point, and maybe an answer to one, each of 64 hexadecimal digits", self)


class TargetsComparison:
    """One site's comparison of its targets and sample weights with those of each neighbour.

    `same` has the results, {neighbour: whether they are equal}.
    """

    def __init__(self, table: DataTable, federation: Federation, me: int, send: Callable[[int, TargetsMessage], None]):
        self._base = curve_point(_secret(table, federation))
        self._names = [member.name for member in federation.members]
        self._me, self._send = me, send
        self._keys: dict[int, X25519PrivateKey] = {}  # by neighbour; a new one whenever its link comes up
        self._unproven: Counter[int] = Counter()  # [answers] to a neighbour since its last good proof
        self.same: dict[int, bool] = {}  # neighbour -> whether its targets and weights are those of this site

    def greet(self, peer: int) -> None:
        """Begin a comparison with neighbour `peer`, whose link has come up, and forget the result of the last one."""
        self.same.pop(peer, None)
        self._keys[peer] = X25519PrivateKey.generate()
        self._send(peer, TargetsMessage(self._point(peer)))

    def receive(self, peer: int, content: bytes | bytearray) -> bool:
        """Answer the point that neighbour `peer` sent, or judge its proof.

        Return whether its entry in `same` has changed. Violation is raised for a message that cannot be, and for a
        neighbour that has asked too often.
        """
        told = TargetsMessage.from_json(unpack_json(content))
        if peer not in self._keys:
            raise Violation("TARGETS before its link was up")
        if not told.to:
            self._unproven[peer] += 1
            if self._unproven[peer] > GUESSES:
                raise Violation(f"it asked {GUESSES} times whether targets are the same, and proved none")
            self._send(peer, TargetsMessage(self._point(peer), told.point, self._proof(peer, self._me, told.point)))
            return False
        if told.to != self._point(peer):  # an answer to the point of an earlier stream
            return False
        result = hmac.compare_digest(told.proof, self._proof(peer, peer, told.point))
        if result:
            self._unproven[peer] = 0
        news = self.same.get(peer) != result
        self.same[peer] = result
        return news

    def _point(self, peer: int) -> str:
        """Return the point a P to send to neighbour `peer`, as 64 hexadecimal digits.

        P is made of this site's targets, a is a random number of the link.
        """
        return multiplied(self._keys[peer], self._base).hex()

    def _proof(self, peer: int, prover: int, theirs: str) -> str:
        """Return the digest, 64 hexadecimal digits, by which node `prover` shows that it knows the common point a b P.

        `theirs` is the point that neighbour `peer` sent.
        """
        common = multiplied(self._keys[peer], bytes.fromhex(theirs))
        own, points = self._point(peer), [theirs, theirs]
        points[0 if prover == self._me else 1] = own
        state = hashlib.blake2b(key=common, digest_size=32, person=b"targets")
        for text in (self._names[prover], *points):
            add_name(state, text)
        return state.hexdigest()


def multiplied(key: X25519PrivateKey, point: bytes) -> bytes:
    """Return `key`, a number, times a point of Curve25519, as 32 bytes; raise Violation for a point of small order."""
    try:
        return key.exchange(X25519PublicKey.from_public_bytes(point))
    except ValueError:
        raise Violation("TARGETS, point: one of small order") from None


def curve_point(secret: bytes) -> bytes:
    """Return a point of Curve25519, 32 bytes, that is determined by a secret; nobody knows its logarithm.

    Numbers are tried until one is on the curve and not on its twist: multiples stay where they are, and would tell.
    """
    for counter in range(256):  # each is on the curve with probability 1/2
        digest = hashlib.blake2b(secret + bytes([counter]), digest_size=32, person=b"curve25519").digest()
        u = int.from_bytes(digest, "little") % 2**255
        if u < _PRIME and pow(u * (u * u + _A * u + 1), (_PRIME - 1) // 2, _PRIME) == 1:
            return u.to_bytes(32, "little")
    raise AssertionError("no point in 256 tries, which has probability 2^-256")


def _secret(table: DataTable, federation: Federation) -> bytes:
    """Return 64 bytes: a keyed digest of all targets and sample weights of a table, which never leaves the site."""
    state = hashlib.blake2b(key=digest_key(federation), digest_size=64, person=b"secret")
    y = np.empty(0) if table.y is None else table.y
    weight = np.ones(table.m) if table.weight is None else table.weight
    for values in (y, weight):
        for one in values.tolist():
            add_name(state, one if isinstance(one, str) else (one + 0.0).hex())  # -0 is 0
    return state.digest()
