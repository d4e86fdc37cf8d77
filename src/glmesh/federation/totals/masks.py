"""Masks that cancel in the sum over all members, and maxima as sums of random words.

Every process start makes an X25519 key that never leaves its memory. Of two members the lower adds a stream of ChaCha20
to its contribution and the higher subtracts it; the stream's key is HKDF-SHA256 of their shared secret with the name of
the total as salt. Without one honest member's key all that can be learned is the sum over the honest ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from glmesh.core.totals import NOTHING
from glmesh.federation.totals.names import digest
from glmesh.types import Indices, Unsigned

LARGEST_VIEW = 64  # [members] that mask in all pairs: 3 ms for 47,000 numbers at 32 members; beyond, nothing is made
EDGES = 256  # of a maximum: one for each power of two from 2^-128 to 2^127
LOWEST = -128  # exponent of the first edge


def key_statement(federation: str, name: str, start: int, public: bytes) -> bytes:
    """Return the 32 bytes that a member signs with its certificate's key, to vouch for its public mask key.

    `federation` is the digest of the federation file, `name` the member's, `start` that of its process [ms since 1970].
    """
    return digest("glmesh/mask-key/1", federation, name, start, public)


class MaskKey:
    """Mask key (X25519) of one start of a process; `secret` are 32 random bytes that are never written anywhere."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._private = X25519PrivateKey.from_private_bytes(digest("glmesh/mask-secret/1", secret))
        self.public = self._private.public_key().public_bytes_raw()
        self._shared: dict[bytes, bytes] = {}  # by public key of the other

    def mask(self, me: int, publics: Mapping[int, bytes], name: bytes, length: int) -> Unsigned:
        """Return the mask that member `me` adds to its contribution to the total `name`, uint64 of shape (length,).

        `publics` are the public mask keys of all members that contribute, {id: key}; their masks add up to zero.
        """
        out = np.zeros(length, dtype=np.uint64)
        for member, public in publics.items():
            if member != me:
                words = _stream(_derived(self._secret_with(public), name, b"glmesh/mask/1"), length)
                if me < member:
                    out += words
                else:
                    out -= words
        return out

    def words(self, name: bytes, length: int) -> Unsigned:
        """Return random words that are not zero, uint64 of shape (length,), made of the total's name and the secret.

        `name` are the 32 bytes that name the total (a sum over all members).
        """
        return np.maximum(_stream(_derived(self._secret, name, b"glmesh/words/1"), length), np.uint64(1))

    def _secret_with(self, public: bytes) -> bytes:
        """Return the 32 bytes of the X25519 secret that this process shares with the holder of a public key."""
        if public not in self._shared:
            self._shared[public] = self._private.exchange(X25519PublicKey.from_public_bytes(public))
        return self._shared[public]


def _derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """Return 32 bytes of HKDF-SHA256: a key that is derived from `secret`, for the purpose `info`."""
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(secret)


def _stream(key: bytes, length: int) -> Unsigned:
    """Return the first `length` words (uint64) of ChaCha20 with this key and nonce zero; each key is used once."""
    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(encryptor.update(bytes(8 * length)), dtype="<u8").astype(np.uint64, copy=False)


def edges_below(exponents: Indices) -> Unsigned:
    """Return 256 marks for each of n binary exponents, uint64 of shape (256 n,): 1 up to the exponent, then 0.

    A mark stands for an edge, a power of two from 2^LOWEST on. The exponent e of a number x, abs(x) < 2^e, marks the
    edges up to 2^e; exponents beyond the edges are cut. NOTHING, the exponent of zero, marks none.
    """
    marked = np.clip(exponents - LOWEST, 0, EDGES - 1)[:, None] >= np.arange(EDGES)
    return (marked & (exponents > NOTHING)[:, None]).astype(np.uint64).ravel()


def largest_edges(total: Unsigned) -> Indices:
    """Return the largest binary exponent of all members for each of n numbers, shape (n,); NOTHING if nobody has any.

    `total`, shape (EDGES n,), is the sum over all members of random words at the edges that `edges_below` marks.
    """
    found = total.reshape(-1, EDGES) != 0
    last = EDGES - 1 - np.argmax(found[:, ::-1], axis=1)
    return np.where(found.any(axis=1), last + LOWEST, NOTHING).astype(np.int64)
