"""The network: links (`topology`), their weights (`mixing`), a virtual clock (`timing`) and fault plans (`faults`).

Graphs, matrices and plans; no data, no method and no message may enter.
"""

from glmesh.network.faults import Plan
from glmesh.network.mixing import Mixing
from glmesh.network.timing import Clock, Network

__all__ = ["Clock", "Mixing", "Network", "Plan"]
