"""What a transport does not carry is refused by name, not dropped."""

from __future__ import annotations

import numpy as np
import pytest

from glmesh.certificate.messages import CertificateRecord
from glmesh.collectives.messages import PartialSum
from glmesh.core.messages import Contents, Mail, Outbox
from glmesh.errors import InvalidInput
from glmesh.federation.wire.frames import CARRIES
from glmesh.gossip.averaging import MatrixGossip
from glmesh.gossip.flows import FlowGossip
from glmesh.transports import LocalTransport


def test_a_link_between_sites_carries_flow_gossip_and_refuses_rows_and_sums() -> None:
    CARRIES.check(FlowGossip.sends)
    CARRIES.check(Contents(parts=frozenset({CertificateRecord})))
    with pytest.raises(InvalidInput, match=r"a link between sites carries .* sends scalars, vectors too\. Use"):
        CARRIES.check(MatrixGossip.sends)
    outbox = Outbox(mail=[Mail(0, 1, [PartialSum(0, {0: np.ones(2)}, {0: np.ones(1)})])])
    with pytest.raises(InvalidInput, match="the method sends PartialSum too"):
        CARRIES.check(Contents.of(outbox))


def test_the_simulator_carries_everything() -> None:
    for sent in (MatrixGossip.sends, FlowGossip.sends, Contents(parts=frozenset({int}))):
        LocalTransport.carries.check(sent)


def test_mpi_refuses_flow_gossip() -> None:
    transport = pytest.importorskip("glmesh.transports.mpi.transport")
    transport.MpiTransport.carries.check(MatrixGossip.sends)
    with pytest.raises(InvalidInput, match=r"the method sends Membership, Offer too\. Use gossip='auto'"):
        transport.MpiTransport.carries.check(FlowGossip.sends)
