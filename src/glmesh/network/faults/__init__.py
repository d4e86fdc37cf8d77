"""Fault plans: what fails in a simulated network, and when; public as `glmesh.faults`.

`Plan` answers questions about rounds, nodes and links; `entries` has its tables and their readers. How nodes react to
faults may not enter.
"""

from glmesh.network.faults.plan import Plan

__all__ = ["Plan"]
