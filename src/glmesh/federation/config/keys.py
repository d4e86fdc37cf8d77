"""A private certificate authority and the certificates of nodes.

The authority only vouches for names; the federation file lists who takes part, by fingerprint.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from glmesh.errors import InvalidInput, UnreadableFile

CA_DAYS = 5 * 365  # [days] lifetime of an authority: as long as a consortium may last
NODE_DAYS = 397  # [days] lifetime of a node's certificate: what browsers accept at most, so a lost key dies in a year
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # a DNS label (RFC 1123)
_EARLIER = datetime.timedelta(minutes=5)  # certificates are valid from this long ago on, because clocks differ


def check_name(name: str) -> str:
    """Return `name` if it can be a node's name in a certificate, a DNS label; else raise InvalidInput."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r} is no name for a node; use small letters, digits and hyphens, at most 63")
    return name


@dataclass(frozen=True)
class Identity:
    """Credentials of a node, each as PEM bytes: certificate, private key, and the certificate of the authority."""

    certificate: bytes
    key: bytes = field(repr=False)
    ca: bytes  # certificate of the authority
    files: tuple[Path, Path]  # paths of certificate and key

    @staticmethod
    def read(certificate: Path, key: Path, ca: Path) -> Identity:
        """Read the PEM files of certificate, private key and authority; raise UnreadableFile if one is missing.

        InvalidInput is raised if other users can read the key, or if it is not that of the certificate. `ca` is the
        path of the authority's certificate.
        """
        for path in (certificate, key, ca):
            if not path.is_file():
                raise UnreadableFile(f"{path}: no such file; `glmesh keys` makes it")
        if os.name == "posix" and key.stat().st_mode & 0o077:
            raise InvalidInput(
                f"{key}: others can read this key; do chmod 600 {key}, or make a new one if they may have"
            )
        if not _is_pair(certificate.read_bytes(), key.read_bytes()):
            raise InvalidInput(
                f"{key}: is not the key of {certificate}; take both from the same `glmesh keys`, or make both anew"
            )
        return Identity(certificate.read_bytes(), key.read_bytes(), ca.read_bytes(), (certificate, key))


def _is_pair(certificate: bytes, key: bytes) -> bool:
    """Return whether a private key belongs to a certificate, both in PEM; raise UnreadableFile if either is no PEM."""
    try:
        shown = x509.load_pem_x509_certificate(certificate).public_key()
        own = serialization.load_pem_private_key(key, password=None).public_key()
    except (ValueError, TypeError) as error:
        raise UnreadableFile(f"certificate or key is not readable PEM ({error})") from error
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return shown.public_bytes(*form) == own.public_bytes(*form)


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 digest of a certificate, PEM or DER, as text: "sha256:" and 64 hexadecimal digits."""
    try:
        if certificate.lstrip().startswith(b"-----BEGIN"):
            loaded = x509.load_pem_x509_certificate(certificate)
        else:
            loaded = x509.load_der_x509_certificate(certificate)
    except ValueError as error:
        raise UnreadableFile(f"this is no certificate ({error})") from error
    return f"sha256:{loaded.fingerprint(hashes.SHA256()).hex()}"


def expiry(certificate: bytes) -> datetime.datetime:
    """Return the time (UTC) after which a certificate, given as PEM, is no longer valid."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def make(folder: Path, names: Sequence[str], *, days: int = NODE_DAYS) -> list[Path]:
    """Write NAME.crt and NAME.key for each name into a folder, and ca.crt and ca.key unless they are there.

    Return the paths of the files that were written. Certificates of nodes are valid for `days` days. A file that is
    there already is never overwritten: InvalidInput is raised before anything is written.
    """
    for k, name in enumerate(names):
        check_name(name)
        if name in names[:k]:
            raise InvalidInput(f"{name} is named twice; every node needs a key of its own")
        if (folder / f"{name}.key").exists() or (folder / f"{name}.crt").exists():
            raise InvalidInput(f"{folder / name}.crt is there already; remove it first, or use another name")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    written: list[Path] = []
    ca_key_path, ca_path = folder / "ca.key", folder / "ca.crt"
    if not ca_path.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        _write(ca_key_path, _pem(key), 0o600)
        _write(ca_path, _certificate("glmesh private CA", key.public_key(), None, key, CA_DAYS), 0o644)
        written += [ca_path, ca_key_path]
    elif names and not ca_key_path.exists():
        raise InvalidInput(f"{ca_key_path}: the authority's key is not here; make certificates where it is")
    if not names:
        return written
    loaded = serialization.load_pem_private_key(ca_key_path.read_bytes(), password=None)
    assert isinstance(loaded, ec.EllipticCurvePrivateKey)
    ca = x509.load_pem_x509_certificate(ca_path.read_bytes())
    for name in names:
        key = ec.generate_private_key(ec.SECP256R1())
        _write(folder / f"{name}.key", _pem(key), 0o600)
        _write(folder / f"{name}.crt", _certificate(name, key.public_key(), ca, loaded, days), 0o644)
        written += [folder / f"{name}.crt", folder / f"{name}.key"]
    return written


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key in PEM, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes, mode: int) -> None:
    """Create a file with the permissions `mode`, which it has from the start; raise FileExistsError if it exists."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)


def _certificate(
    name: str,
    key: ec.EllipticCurvePublicKey,
    issuer: x509.Certificate | None,
    signer: ec.EllipticCurvePrivateKey,
    days: int,
) -> bytes:
    """Return a certificate of `name`, with the public key `key`, as PEM bytes; it is valid for `days` days.

    `signer` is the authority's private key, which signs it, `issuer` the authority's certificate; None makes the
    certificate of an authority itself.
    """
    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    ending = now + datetime.timedelta(days=days)
    if issuer is not None:
        ending = min(ending, issuer.not_valid_after_utc)
    begin = min(now - _EARLIER, ending - _EARLIER)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(ending)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=0 if issuer is None else None), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False)
        .add_extension(_usage(issuer is None), True)
    )
    if issuer is not None:
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        builder = builder.add_extension(both, False).add_extension(names, False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _usage(authority: bool) -> x509.KeyUsage:
    """Return the X.509 key usage of an authority, which signs certificates, or of a node, which signs handshakes."""
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
