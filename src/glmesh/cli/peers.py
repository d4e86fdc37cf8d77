"""What the commands about peers share."""

from __future__ import annotations


def needs_peers() -> None:
    """Says what to install, where something is missing."""
    from importlib.util import find_spec

    from glmesh.errors import InvalidInput

    missing = [name for name, module in (("grpcio", "grpc"), ("cryptography", "cryptography")) if not find_spec(module)]
    if missing:
        raise InvalidInput(f"this needs {' and '.join(missing)}; pip install 'glmesh[peers]'")
