"""What every method and every transport shares: the nodes of a block, messages, protocols, and how a state is saved.

No algorithm, no file and no socket enters here, and nothing of the packages above: a transport, a collective or a
gossip satisfies the protocols of this package without being imported by it.
"""

from glmesh.core.block import Block, NetworkInfo
from glmesh.core.hosted import AnyNodes, HostedNodes, RoundMaker
from glmesh.core.messages import NOTHING, AnyRounds, Contents, Halo, Mail, Outbox, Part, Request, Riding, Rounds
from glmesh.core.protocols import Accelerator, AnyMethod, Method
from glmesh.core.records import Certificate, Event, Measures, Traffic
from glmesh.core.setup import Setup
from glmesh.core.state import Largest, PerColumn, PerNode, PerUnit, Shared, Summed
from glmesh.core.transport import Transport, drive
from glmesh.core.wire import Buffer, Layout, Packed, Reader, Violation, array_bytes

__all__ = [
    "NOTHING",
    "Accelerator",
    "AnyMethod",
    "AnyNodes",
    "AnyRounds",
    "Block",
    "Buffer",
    "Certificate",
    "Contents",
    "Event",
    "Halo",
    "HostedNodes",
    "Largest",
    "Layout",
    "Mail",
    "Measures",
    "Method",
    "NetworkInfo",
    "Outbox",
    "Packed",
    "Part",
    "PerColumn",
    "PerNode",
    "PerUnit",
    "Reader",
    "Request",
    "Riding",
    "RoundMaker",
    "Rounds",
    "Setup",
    "Shared",
    "Summed",
    "Traffic",
    "Transport",
    "Violation",
    "array_bytes",
    "drive",
]
