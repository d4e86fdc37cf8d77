"""Check who is at a neighbour's address before anything is said to it."""

import socket
import ssl

from glmesh.core import Violation
from glmesh.federation.config import Site, fingerprint


def probe(address: str, site: Site, name: str, listed: str, seconds: float = 5.0) -> None:
    """Connect to an address over TLS and hang up; raise Violation unless `name` shows the fingerprint `listed`.

    gRPC checks the name and the authority, but does not show the certificate to the end that dials. OSError is raised
    where nobody answers within `seconds`.
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
            shown = fingerprint(secure.getpeercert(binary_form=True) or b"")
            if shown != listed:
                raise Violation(f"{address} shows {shown[:23]}... for {name}, the federation lists {listed[:23]}...")
            if not secure.recv(1):
                raise ConnectionResetError("it closed the connection; it may not accept this node's certificate")
    except ssl.SSLCertVerificationError as error:
        raise Violation(f"the certificate at {address} is not {name}'s: {error.verify_message}") from None
    except ssl.SSLEOFError:
        raise ConnectionResetError(f"{address} closed the connection in the middle of the handshake") from None
    except ssl.SSLError as error:
        reason = str(error.reason or error).lower().replace("_", " ")
        raise Violation(f"{name} at {address} does not accept this node's certificate: {reason}") from None
    except ValueError:
        raise Violation(f"{address!r} is no address; expected host:port") from None
