"""Fault plans: what fails in a simulated network, and when."""

from glmesh.network.faults.plan import Plan

__all__ = ["Plan"]
