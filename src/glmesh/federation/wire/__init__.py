"""What crosses a link and how: frames, messages, links, and the barrier that ends an exchange.

Bytes become checked records here. No message may be believed before it is checked, nothing is executed or unpickled,
and what messages mean for training is decided in `node`.
"""

from glmesh.federation.wire.flood import Flood
from glmesh.federation.wire.frames import (
    CONTROL,
    PROTOCOL,
    Kind,
    longest_mail,
    pack_json,
    pack_vector,
    unpack_json,
    unpack_vector,
)
from glmesh.federation.wire.inbox import Message
from glmesh.federation.wire.links import PeerLinks
from glmesh.federation.wire.messages import (
    COMPARED,
    DISTINCT,
    DONE,
    FITS,
    MEMBERSHIP,
    OFFER,
    PREDICT,
    PRESUMED,
    REFUSED,
    ROWS,
    SUCCESSOR,
    TRAIN,
    WHY,
    DataOffer,
    GossipEntry,
    Hello,
    JsonRecord,
    Ready,
    unexpected,
)
from glmesh.federation.wire.transport import PeerExchange

__all__ = [
    "COMPARED",
    "CONTROL",
    "DISTINCT",
    "DONE",
    "FITS",
    "MEMBERSHIP",
    "OFFER",
    "PREDICT",
    "PRESUMED",
    "PROTOCOL",
    "REFUSED",
    "ROWS",
    "SUCCESSOR",
    "TRAIN",
    "WHY",
    "DataOffer",
    "Flood",
    "GossipEntry",
    "Hello",
    "JsonRecord",
    "Kind",
    "Message",
    "PeerExchange",
    "PeerLinks",
    "Ready",
    "longest_mail",
    "pack_json",
    "pack_vector",
    "unexpected",
    "unpack_json",
    "unpack_vector",
]
