"""Fetch the listed certificate of a neighbour, which is then the only root that the channel to it trusts.

A federation file lists fingerprints. A certificate is public, and the fingerprint says whether it is the right one,
whoever handed it over: a stranger that passes on the right certificate once gains nothing, because every connection of
the channel asks for its private key anew.
"""

import socket
import ssl

from glmesh.core import Violation
from glmesh.federation.config import Site, fingerprint


def listed_certificate(address: str, site: Site, name: str, listed: str, seconds: float = 5.0) -> bytes:
    """Fetch the certificate that is shown at an address over TLS; return it as PEM bytes.

    Violation is raised unless it has the fingerprint `listed` and the name `name`, OSError where nobody answers within
    `seconds`. Nothing is sent but this node's certificate.
    """
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=site.identity.ca.decode())
    context.load_cert_chain(*site.identity.files)
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=seconds) as plain,
            context.wrap_socket(plain, server_hostname=name) as secure,
        ):
            certificate = secure.getpeercert(binary_form=True) or b""
            shown = fingerprint(certificate)
            if shown != listed:
                raise Violation(f"{address} shows {shown[:23]}... for {name}, the federation lists {listed[:23]}...")
            if not secure.recv(1):
                raise ConnectionResetError("it closed the connection; it may not accept this node's certificate")
            return ssl.DER_cert_to_PEM_cert(certificate).encode()
    except ssl.SSLCertVerificationError as error:
        raise Violation(f"the certificate at {address} is not {name}'s: {error.verify_message}") from None
    except ssl.SSLEOFError:
        raise ConnectionResetError(f"{address} closed the connection in the middle of the handshake") from None
    except ssl.SSLError as error:
        reason = str(error.reason or error).lower().replace("_", " ")
        raise Violation(f"{name} at {address} does not accept this node's certificate: {reason}") from None
    except ValueError:
        raise Violation(f"{address!r} is no address; expected host:port") from None
