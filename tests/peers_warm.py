"""Imported by the server that test processes are forked from."""

import glmesh.cli.node
import glmesh.peers.node
import glmesh.peers.status
import glmesh.peers.view  # noqa: F401
from glmesh.kernels.warm import warm_up

warm_up()
