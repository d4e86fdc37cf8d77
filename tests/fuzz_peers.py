"""What crosses a link, fuzzed with atheris: `make fuzz`. Whatever comes, there is a Violation or nothing.

An input is first taken as a stream of frames, and then, whole, as mail for an end of a link, as gossip
and as other JSON messages.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris
import numpy as np

from glmesh.kernels.warm import warm_up

warm_up()  # numba cannot compile what atheris has instrumented

with atheris.instrument_imports(
    include=["glmesh.federation", "glmesh.gossip.edge", "glmesh.gossip.membership", "glmesh.core.wire"]
):
    from glmesh.certificate.messages import CertificateRecord
    from glmesh.collectives.pipeline import ObjectiveDigest
    from glmesh.core.messages import Mail
    from glmesh.core.wire import Layout
    from glmesh.federation.node.gossip_store import GossipStore
    from glmesh.federation.rows import PrefixDigest
    from glmesh.federation.wire.frames import (
        Assembler,
        Kind,
        Violation,
        frames,
        pack_json,
        pack_mail,
        unpack_json,
        unpack_mail,
        unpack_vector,
    )
    from glmesh.federation.wire.messages import DataOffer, Hello, Ready
    from glmesh.gossip.edge import Edge, Offer
    from glmesh.gossip.membership import Membership

LAYOUT = Layout(3, 4)


def one(data: bytes) -> None:
    """One input."""
    _frames(data)
    edge = Edge(0, 1, np.zeros(3), drift=np.zeros(3))
    edge.offer(np.ones(3), 0.3)
    for first in (0, 1):  # also in the middle of a conversation
        try:
            _, mail = unpack_mail(data, 1, 0, LAYOUT)
            offer = mail.part(Offer)
            assert offer is not None
            edge.receive(offer)
            edge.advance(0.5)
            edge.offer(np.ones(3) * first, 0.3)
        except Violation:
            pass
    if not np.isfinite(edge.flow).all() and np.abs(_largest(data)) < 1e150:
        raise AssertionError("a flow that is not finite")
    store = GossipStore(4, (), lambda *_: None)
    for parse in (
        lambda: store.merge(unpack_json(data)),
        lambda: unpack_vector(data, None),
        lambda: Hello.from_json(unpack_json(data)),
        lambda: Ready.from_json(unpack_json(data)),
        lambda: DataOffer.from_json(unpack_json(data)),
        lambda: PrefixDigest.from_json(unpack_json(data)),
    ):
        with suppress(Violation):
            parse()


def _largest(data: bytes) -> float:
    whole = np.frombuffer(data[: len(data) // 8 * 8], dtype="<f8")
    with np.errstate(invalid="ignore"):
        return float(np.abs(whole[np.isfinite(whole)]).max(initial=0.0))


def _frames(data: bytes) -> None:
    """The first byte is the length of the first frame, and so on."""
    assembler, at = Assembler(), 0
    assembler.limit = 1 << 16
    try:
        while at < len(data):
            size = data[at] + 1
            whole = assembler.feed(data[at + 1 : at + 1 + size])
            at += 1 + size
            if whole is not None and len(whole[1]) > 1 << 16:
                raise AssertionError("more than the limit")
    except Violation:
        pass


def seeds() -> list[bytes]:
    """Messages as they should be."""
    record = CertificateRecord(
        3, (2, 7), True, False, True, True, False, 5, {2: np.arange(18.0)}, np.ones(3), np.ones(3)
    )
    digest = ObjectiveDigest(np.array([1, 2, -1, 3]), np.array([1.0, 2.0, np.nan, 3.0]), 2)
    offer = Offer(5, 1, 4, 2, 9, 0.3, np.ones(3), np.ones(3), 0.5, 0.5)
    mails = [
        Mail(1, 0, [Offer(5, 1, 4, -1, 9, 0.3, np.ones(3)), Membership(3)]),
        Mail(1, 0, [offer, Membership(3, np.ones(4, int)), record, digest]),
    ]
    content = [b"".join(pack_mail(6, mail, LAYOUT)) for mail in mails]
    content += [pack_json({"entries": [["fits", 1, 1, 1], ["compared", 1, 1, [[0, True]]], ["done", 2, 5, 5]]})]
    (frame,) = frames(Kind.BYE, 0, b"{}")
    return [*content, bytes([len(frame) - 1]) + frame]


def main() -> None:
    """Runs of libFuzzer, with its own options."""
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds()):
            (Path(corpus) / str(number)).write_bytes(seed)
        atheris.Setup([*sys.argv, corpus], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
