"""The command line: one module per command (`demo`, `train`, `predict`, `node` ...), found by `app`.

Parses, prints and writes; what it does is done by the library. Nothing imports this package.
"""

from glmesh.cli.app import main

__all__ = ["main"]
