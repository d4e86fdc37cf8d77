"""What crosses a link, without a network: bytes to messages and back, and whatever else comes."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields, is_dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from glmesh.certificate.messages import CertificateRecord
from glmesh.collectives.pipeline import ObjectiveDigest
from glmesh.core.messages import Mail
from glmesh.core.wire import Layout
from glmesh.errors import InvalidData, InvalidInput, UnreadableFile
from glmesh.federation.config.federation import Federation, difference
from glmesh.federation.node import rows as data
from glmesh.federation.node.gossip_store import Board
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
from glmesh.federation.wire.transport import Pace
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
        assert self.assembler._have <= self.assembler.limit


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


def test_vectors_with_words() -> None:
    info, vector = unpack_vector(pack_vector({"node": 3}, np.arange(4.0)), 4)
    assert info == {"node": 3}
    assert np.array_equal(vector, np.arange(4.0))
    for wrong in (b"", b"\xff\xff\xff\xff", pack_vector({}, np.arange(3.0)), pack_vector({}, np.array([np.nan] * 4))):
        with pytest.raises(Violation):
            unpack_vector(wrong, 4)


def test_the_newest_of_a_board_counts() -> None:
    board, other = Board(3, 7), Board(3, 7)
    board.put("done", 1, 5, 5)
    other.put("done", 1, 7, 7)
    other.put("facts", 2, 1, [1.0] * 7)
    assert sorted(board.merge(other.message())) == [("done", 1), ("facts", 2)]
    assert not other.merge(board.message())
    assert board.get("done", 1) == 7
    assert board.summary([2]) is not None
    assert board.summary([1, 2]) is None
    for entry in (["facts", 0, 1, [1.0] * 5], ["facts", 0, 1, ["x"] * 7], ["done", 3, 1, 1], ["done", 0, "1", 1], 7):
        with pytest.raises(Violation):
            board.merge({"entries": [entry]})


def test_a_deadline_follows_what_a_neighbour_takes() -> None:
    pace = Pace()
    assert pace.deadline == 5.0
    for _ in range(50):
        pace.took(0.01)
    assert pace.deadline == 1.0
    for _ in range(50):
        pace.took(4.0)
    assert 8.0 <= pace.deadline < 12.0
    for _ in range(50):
        pace.took(100.0)
    assert pace.deadline == 30.0


def test_federations_are_written_and_checked(tmp_path: Path) -> None:
    tree = {
        "name": 'with "quotes"',
        "problem": {"loss": "logistic", "alpha": 2},
        "network": {"topology": "links", "links": [["a", "b"], ["b", "c"]]},
        "members": [{"name": n, "address": "127.0.0.1:1", "fingerprint": f"sha256:{n}"} for n in "abc"],
    }
    federation = Federation.of(tree)
    federation.check()
    federation.write(tmp_path / "f.toml")
    assert Federation.read(tmp_path / "f.toml") == federation
    assert federation.neighbours(1) == [0, 2]
    other = Federation.of(tree | {"problem": {"loss": "hinge", "alpha": 2}})
    assert difference(federation.entries(), federation.entries()) is None
    assert difference(federation.entries(), other.entries()) == "problem.loss is 'logistic' here and 'hinge' there"
    late = [member | {"late": member["name"] == "b"} for member in tree["members"]]
    wrong = {
        "unknown key 'los'": {"problem": {"los": "logistic"}},
        "alpha must be a float": {"problem": {"alpha": "1"}},
        "split='samples'|split by samples": {"problem": {"penalty": "l1"}},
        "two members have the name a": {"members": [tree["members"][0]] * 2},
        "is no name": {"members": [tree["members"][0], tree["members"][1] | {"name": "B B"}]},
        "two members or more": {"members": tree["members"][:1]},
        "is no member": {"network": {"topology": "links", "links": [["a", "x"]]}},
        "wire must be": {"network": {"wire": "float16"}},
        "not connected without": {"members": late},
    }
    for words, change in wrong.items():
        with pytest.raises(InvalidInput, match=words):
            Federation.of(tree | change).check()


def test_data_is_read_without_scikit_learn(tmp_path: Path) -> None:
    from sklearn.datasets import load_svmlight_file

    path = tmp_path / "x.svm"
    path.write_text("1 1:0.5 7:-2e-3\n-1 2:1\n\n# a comment\n1 qid:3 3:4 # another\n")
    samples = data.load(path)
    X, y = load_svmlight_file(str(path))
    assert np.array_equal(samples.X.toarray(), X.toarray())
    assert np.array_equal(samples.y, y)
    path.write_text("1 3:1 2:1\n")
    with pytest.raises(UnreadableFile, match=r"line 1: .*must ascend"):
        data.load(path)
    table = tmp_path / "t.csv"
    table.write_text("id,a,b,y\nann,1,2,0\nben,3,4,1\n")
    samples = data.load(table, ids="id")
    assert samples.ids == ["ann", "ben"]
    assert np.array_equal(samples.X, [[1, 2], [3, 4]])
    assert np.array_equal(samples.y, [0, 1])
    table.write_text("id,a,y\nann,1,0\nann,3,1\n")
    with pytest.raises(InvalidData, match="two rows have the name 'ann'"):
        data.load(table, ids="id")
    with pytest.raises(InvalidInput, match="no column 'x'"):
        data.load(table, ids="x")


def test_rows_that_are_not_aligned_are_named() -> None:
    y = np.arange(1000.0)
    rows = data.Samples(np.zeros((1000, 1)), y, [str(k) for k in range(1000)]).rows()
    assert data.misaligned(rows, rows) is None
    swapped = [str(k) for k in range(1000)]
    swapped[500], swapped[501] = "501", "500"
    others = data.Samples(np.zeros((1000, 1)), y, swapped).rows()
    assert data.misaligned(rows, others) == "the names of rows 501 to 504 differ; sort both files alike"
    few = data.Samples(np.zeros((3, 1)), y[:3]).rows()
    assert data.misaligned(rows, few) == "1000 rows here and 3 there"
    assert "labels of row 2" in str(data.misaligned(few, data.Samples(np.zeros((3, 1)), y[[0, 2, 2]]).rows()))
