"""What crosses a link, without a network: bytes to messages and back, and whatever else comes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from glmesh.collectives.pipeline import ObjectiveDigest
from glmesh.federation.wire.frames import (
    CHUNK,
    Assembler,
    Kind,
    Shape,
    Violation,
    frames,
    pack_letter,
    pack_vector,
    unpack_letter,
    unpack_vector,
)
from glmesh.gossip.edge import Offer
from glmesh.gossip.messages import CertificateRecord, LinkMessage
from tests.cases import prop

D, K = 5, 9
floats = st.floats(-1e100, 1e100)
whole = st.integers(0, 2**61)
vectors = st.lists(floats, min_size=D, max_size=D).map(np.array)
maybe = st.none() | vectors
records = st.lists(st.floats(allow_nan=True), min_size=18, max_size=18).map(np.array)


@st.composite
def letters(draw: st.DrawFn) -> LinkMessage:
    attempt = draw(whole)
    offer = Offer(
        1, 0, draw(st.integers(1, 2**63)), draw(whole), attempt, draw(st.integers(-1, attempt)),
        draw(st.integers(0, 2**64 - 1)), draw(st.floats(0, 2)), draw(maybe), draw(maybe),
        draw(st.floats(0, 1e5)), draw(st.floats(0, 1)),
    )  # fmt: skip
    view = draw(st.none() | st.lists(st.integers(0, 99), min_size=K, max_size=K).map(np.array))
    flags = draw(st.lists(st.booleans(), min_size=5, max_size=5))
    rows = draw(st.dictionaries(st.integers(0, K - 1), records, max_size=3))
    record = CertificateRecord(
        draw(whole), (draw(st.integers(-1, 99)), draw(whole)), *flags, draw(st.integers(0, 2**K - 1)), rows,
        draw(maybe), draw(maybe),
    )  # fmt: skip
    stamps = np.array(draw(st.lists(st.integers(-1, 99), min_size=K, max_size=K)))
    parts = np.where(stamps < 0, np.nan, np.array(draw(st.lists(floats, min_size=K, max_size=K))))
    pulse = ObjectiveDigest(stamps, parts, draw(st.integers(-1, 99)))
    return LinkMessage(
        offer, draw(whole), view, draw(st.sampled_from([None, record])), draw(st.sampled_from([None, pulse]))
    )


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and np.array_equal(a, b, equal_nan=True)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, Offer | LinkMessage | CertificateRecord | ObjectiveDigest):
        return type(a) is type(b) and all(_same(getattr(a, name), getattr(b, name)) for name in a.__slots__)
    return a == b


@prop(1000)
@given(letters(), whole)
def test_a_letter_arrives_as_it_was_sent(letter: LinkMessage, clock: int) -> None:
    content = b"".join(pack_letter(clock, letter, Shape(D, K)))
    assert len(content) <= Shape(D, K).limit
    back, read = unpack_letter(content, 1, 0, Shape(D, K))
    assert back == clock
    assert _same(letter, read)


@prop(1000)
@given(letters(), st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_a_spoilt_letter_is_refused_or_read(letter: LinkMessage, at: int, byte: int, cut: bool) -> None:
    content = bytearray(b"".join(pack_letter(3, letter, Shape(D, K))))
    content[at % len(content)] = byte
    try:
        _, read = unpack_letter(bytes(content[: at % len(content)] if cut else content), 1, 0, Shape(D, K))
    except Violation:
        return
    assert not cut
    for vector in (read.offer.vector, read.offer.flow):
        assert vector is None or (vector.shape == (D,) and np.isfinite(vector).all())


def test_single_precision_is_for_offers_only() -> None:
    offer = Offer(1, 0, 1, 1, 1, -1, 0, 0.3, np.full(D, 1 / 3), np.full(D, 1 / 3))
    shape = Shape(D, K, single=True)
    _, read = unpack_letter(b"".join(pack_letter(1, LinkMessage(offer, 0), shape)), 1, 0, shape)
    assert np.array_equal(read.offer.vector, np.full(D, np.float64(np.float32(1 / 3))))
    assert np.array_equal(read.offer.flow, np.full(D, 1 / 3))


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
