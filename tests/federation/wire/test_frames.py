"""What crosses a link, without a network: bytes to messages and back, and whatever else comes."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields, is_dataclass
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from glmesh.certificate.messages import CertificateRecord
from glmesh.collectives.pipeline import ObjectiveDigest
from glmesh.core.messages import Mail
from glmesh.core.wire import Layout
from glmesh.errors import InvalidInput
from glmesh.federation.wire.frames import (
    CHUNK,
    Assembler,
    Kind,
    Violation,
    frames,
    longest_mail,
    pack_mail,
    pack_vector,
    unpack_mail,
    unpack_vector,
)
from glmesh.gossip.edge import Offer
from glmesh.gossip.membership import Membership
from tests.cases import prop

D, K = 5, 9
floats = st.floats(-1e100, 1e100)
whole = st.integers(0, 2**61)
vectors = st.lists(floats, min_size=D, max_size=D).map(np.array)
maybe = st.none() | vectors
records = st.lists(st.floats(allow_nan=True), min_size=18, max_size=18).map(np.array)


@st.composite
def mails(draw: st.DrawFn) -> Mail:
    attempt = draw(whole)
    offer = Offer(
        draw(st.integers(1, 2**63)), draw(whole), attempt, draw(st.integers(-1, attempt)),
        draw(st.integers(0, 2**64 - 1)), draw(st.floats(0, 2)), draw(maybe), draw(maybe),
        draw(st.floats(0, 1e5)), draw(st.floats(0, 1)),
    )  # fmt: skip
    counts = draw(st.none() | st.lists(st.integers(0, 99), min_size=K, max_size=K).map(np.array))
    flags = draw(st.lists(st.booleans(), min_size=5, max_size=5))
    rows = draw(st.dictionaries(st.integers(0, K - 1), records, max_size=3))
    end = (draw(st.integers(-1, 99)), draw(whole))
    known = draw(st.integers(0, 2**K - 1))
    record = CertificateRecord(draw(whole), end, *flags, known, rows, draw(maybe), draw(maybe))
    stamps = np.array(draw(st.lists(st.integers(-1, 99), min_size=K, max_size=K)))
    parts = np.where(stamps < 0, np.nan, np.array(draw(st.lists(floats, min_size=K, max_size=K))))
    digest = ObjectiveDigest(stamps, parts, draw(st.integers(-1, 99)))
    optional = [part for part in (record, digest) if draw(st.booleans())]
    return Mail(1, 0, [offer, Membership(draw(whole), counts), *optional])


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and np.array_equal(a, b, equal_nan=True)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(_same, a, b))
    if is_dataclass(a):
        return type(a) is type(b) and all(_same(getattr(a, one.name), getattr(b, one.name)) for one in fields(a))
    return a == b


@prop(1000)
@given(mails(), whole)
def test_mail_arrives_as_it_was_sent(mail: Mail, clock: int) -> None:
    content = b"".join(pack_mail(clock, mail, Layout(D, K)))
    assert len(content) <= longest_mail(Layout(D, K))
    back, read = unpack_mail(content, 1, 0, Layout(D, K))
    assert back == clock
    assert _same(mail, read)


@prop(1000)
@given(mails(), st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_spoilt_mail_is_refused_or_read(mail: Mail, at: int, byte: int, cut: bool) -> None:
    content = bytearray(b"".join(pack_mail(3, mail, Layout(D, K))))
    content[at % len(content)] = byte
    try:
        _, read = unpack_mail(bytes(content[: at % len(content)] if cut else content), 1, 0, Layout(D, K))
    except Violation:
        return
    assert not cut
    offer = read.part(Offer)
    assert offer is not None
    for vector in (offer.vector, offer.flow):
        assert vector is None or (vector.shape == (D,) and np.isfinite(vector).all())


def test_single_precision_is_for_offers_only() -> None:
    offer = Offer(1, 1, 1, -1, 0, 0.3, np.full(D, 1 / 3), np.full(D, 1 / 3))
    layout = Layout(D, K, single=True)
    _, read = unpack_mail(b"".join(pack_mail(1, Mail(1, 0, [offer, Membership(0)]), layout)), 1, 0, layout)
    offer = read.part(Offer)
    assert offer is not None
    assert np.array_equal(offer.vector, np.full(D, np.float64(np.float32(1 / 3))))
    assert np.array_equal(offer.flow, np.full(D, 1 / 3))


def test_the_bytes_of_mail_are_those_of_protocol_1() -> None:
    """Nodes of different releases meet: the digests are those of the first release."""
    offer = Offer(5, 1, 4, 2, 9, 0.3, np.arange(3.0), np.ones(3), 0.5, 0.25)
    record = CertificateRecord(
        3, (2, 7), True, False, True, True, False, 5, {2: np.arange(18.0)}, np.ones(3), np.ones(3)
    )
    digest = ObjectiveDigest(np.array([1, 2, -1, 3]), np.array([1.0, 2.0, 0.0, 3.0]), 2)
    mail = Mail(1, 0, [offer, Membership(3, np.arange(4)), record, digest])
    found = [sha256(b"".join(pack_mail(6, mail, Layout(3, 4, single)))).hexdigest()[:16] for single in (False, True)]
    assert found == ["129eefdcc19f6abb", "4737e79c43246f3c"]


def test_mail_without_an_offer_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="has a part Offer always"):
        pack_mail(1, Mail(1, 0, [Membership(0)]), Layout(D, K))


class Stream(RuleBasedStateMachine):
    """Frames of good messages, and spoilt ones; a message comes out only as it went in."""

    def __init__(self) -> None:
        super().__init__()
        self.assembler, self.number, self.over = Assembler(), 0, False

    @rule(size=st.integers(0, 3 * CHUNK), seed=st.integers(0, 99))
    def good(self, size: int, seed: int) -> None:
        if self.over:
            return
        content = np.random.default_rng(seed).bytes(size)
        out = [self.assembler.feed(frame) for frame in frames(Kind.MAIL, self.number, content)]
        assert out[-1] == (Kind.MAIL, content)
        assert all(one is None for one in out[:-1])
        self.number += 1

    @rule(content=st.binary(max_size=300), at=st.integers(0, 25), byte=st.integers(0, 255))
    def spoilt(self, content: bytes, at: int, byte: int) -> None:
        frame = bytearray(next(frames(Kind.MAIL, self.number, content)))
        if self.over or at >= len(frame) or frame[at] == byte:
            return
        frame[at] = byte
        try:
            found = self.assembler.feed(bytes(frame))
            assert found is None or (at == 3 and found[1] == content)  # only the kind is not in the checksum
        except Violation:
            pass
        self.over = True  # a stream ends there

    @rule(content=st.binary(max_size=100))
    def random(self, content: bytes) -> None:
        if not self.over:
            with pytest.raises(Violation):
                self.assembler.feed(content)
            self.over = True

    @invariant()
    def bounded(self) -> None:
        assert self.assembler.pending <= self.assembler.limit


TestStream = Stream.TestCase
TestStream.settings = prop(500)


def test_a_message_that_is_too_large_costs_no_memory() -> None:
    assembler = Assembler()
    frame = next(frames(Kind.MAIL, 0, b"x"))
    huge = frame[:8] + (2**32 - 1).to_bytes(4, "little") + frame[12:]
    tracemalloc.start()
    with pytest.raises(Violation, match="at most"):
        assembler.feed(huge)
    assert tracemalloc.get_traced_memory()[1] < 1 << 16
    tracemalloc.stop()


def test_a_vector_arrives_with_the_data_about_it() -> None:
    info, vector = unpack_vector(pack_vector({"node": 3}, np.arange(4.0)), 4)
    assert info == {"node": 3}
    assert np.array_equal(vector, np.arange(4.0))
    for wrong in (b"", b"\xff\xff\xff\xff", pack_vector({}, np.arange(3.0)), pack_vector({}, np.array([np.nan] * 4))):
        with pytest.raises(Violation):
            unpack_vector(wrong, 4)
