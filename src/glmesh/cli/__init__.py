"""The command line: `glmesh demo`, `train`, `predict` and `topology`, one file each."""

from glmesh.cli.app import main

__all__ = ["main"]
