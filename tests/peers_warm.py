"""Imported by the server that test processes are forked from."""

from glmesh.kernels.warm import warm_up

warm_up()
