"""Imported by the server that test processes are forked from: all that `glmesh node` imports, and the kernels."""

import glmesh.cli
import glmesh.cli.node
import glmesh.federation.monitor.history
import glmesh.federation.monitor.log
import glmesh.federation.monitor.page.record
import glmesh.federation.monitor.screen
import glmesh.federation.monitor.server
import glmesh.federation.monitor.status
import glmesh.federation.node.process  # noqa: F401
from glmesh.kernels.warm import warm_up

warm_up()
