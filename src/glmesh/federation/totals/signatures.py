"""Signatures by the keys of certificates, which the federation file lists by fingerprint."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from glmesh.errors import GlmeshError, InvalidInput
from glmesh.federation.config import fingerprint
from glmesh.federation.config.keys import Identity


class CertificateKeys:
    """A member's private certificate key, and the public keys of members whose listed certificates have come."""

    def __init__(self, identity: Identity, fingerprints: Sequence[str]) -> None:
        self._listed = fingerprints
        self._known: dict[int, ec.EllipticCurvePublicKey] = {}
        key = serialization.load_pem_private_key(identity.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise InvalidInput("totals are signed with keys on elliptic curves; make new ones by `glmesh keys`")
        self._key = key
        loaded = x509.load_pem_x509_certificate(identity.certificate)
        self._certificate = loaded.public_bytes(serialization.Encoding.DER)

    @property
    def certificate(self) -> bytes:
        """Return this member's certificate as DER bytes."""
        return self._certificate

    def sign(self, content: bytes) -> bytes:
        """Return this member's signature of `content`: ECDSA with SHA-256, as bytes."""
        return self._key.sign(content, ec.ECDSA(hashes.SHA256()))

    def learn(self, member: int, certificate: bytes) -> bool:
        """Store the public key of a member's certificate, given in DER; return whether it is the listed certificate.

        `member` is the member's number. A certificate with another fingerprint is not stored.
        """
        if member in self._known:
            return True
        try:
            if fingerprint(certificate) != self._listed[member]:
                return False
            public = x509.load_der_x509_certificate(certificate).public_key()
        except (GlmeshError, ValueError):
            return False
        if not isinstance(public, ec.EllipticCurvePublicKey):
            return False
        self._known[member] = public
        return True

    def verify(self, member: int, content: bytes, signature: bytes) -> bool:
        """Return whether `signature` is that of member number `member` for `content`.

        It is False if the member's certificate has not come.
        """
        if member not in self._known:
            return False
        try:
            self._known[member].verify(signature, content, ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            return False
        return True
