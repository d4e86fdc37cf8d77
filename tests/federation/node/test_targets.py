"""The comparison of targets: equal or not, and nothing else for whoever listens or guesses."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glmesh.contract import DataTable
from glmesh.core import Violation
from glmesh.federation.config import Federation, Member, NetworkPart, ProblemPart
from glmesh.federation.node.targets import GUESSES, TargetsComparison, TargetsMessage, curve_point
from glmesh.federation.wire import pack_json

PRIME = 2**255 - 19
FEDERATION = Federation(
    "test",
    ProblemPart(split="features"),
    NetworkPart(salt="s"),
    tuple(Member(name, "127.0.0.1:1", f"sha256:{name}") for name in ("ann", "ben")),
)


class Pair:
    """Two sites with these targets, and the messages between them in their order."""

    def __init__(self, *tables: DataTable) -> None:
        self.waiting: deque[tuple[int, TargetsMessage]] = deque()
        self.seen: list[TargetsMessage] = []
        self.ends = [TargetsComparison(table, FEDERATION, k, self.send(1 - k)) for k, table in enumerate(tables)]

    def send(self, receiver: int) -> Any:
        return lambda peer, message: self.waiting.append((receiver, message))

    def connect(self) -> None:
        for k in range(2):
            self.ends[k].greet(1 - k)

    def deliver(self) -> None:
        while self.waiting:
            receiver, message = self.waiting.popleft()
            self.seen.append(message)
            self.ends[receiver].receive(1 - receiver, _packed(message))

    @property
    def results(self) -> list[dict[int, bool]]:
        return [end.same for end in self.ends]


def _packed(message: TargetsMessage) -> bytes:
    return pack_json(message.to_json())


def _table(y: Any, weight: Any = None) -> DataTable:
    y = np.array(y)
    return DataTable("t", np.zeros((len(y), 1)), None, y=y, weight=None if weight is None else np.array(weight))


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (_table([0.0, 1.0, 1.0]), True),
        (_table([-0.0, 1.0, 1.0], [1.0, 1.0, 1.0]), True),
        (_table([0.0, 1.0, 0.0]), False),
        (_table([1.0, 0.0, 1.0]), False),
        (_table([0.0, 1.0]), False),
        (_table([0.0, 1.0, 1.0], [1.0, 2.0, 1.0]), False),
        (_table(["0", "1", "1"]), False),
    ],
)
def test_both_ends_learn_whether_targets_and_weights_are_the_same(other: DataTable, same: bool) -> None:
    pair = Pair(_table([0.0, 1.0, 1.0]), other)
    pair.connect()
    pair.deliver()
    assert pair.results == [{1: same}, {0: same}]


def test_a_site_that_comes_back_with_the_right_targets_is_believed() -> None:
    pair = Pair(_table([0.0, 1.0]), _table([0.0, 0.0]))
    pair.connect()
    pair.deliver()
    assert pair.results == [{1: False}, {0: False}]
    pair.ends[1] = TargetsComparison(_table([0.0, 1.0]), FEDERATION, 1, pair.send(0))
    pair.connect()
    assert pair.results == [{}, {}]  # nothing is known until they have compared anew
    pair.deliver()
    assert pair.results == [{1: True}, {0: True}]


def test_labels_of_text_are_compared_too() -> None:
    for other, same in (["no", "yes", "yes"], True), (["no", "yes", "no"], False), (["noy", "es", "yes"], False):
        pair = Pair(_table(["no", "yes", "yes"]), _table(other))
        pair.connect()
        pair.deliver()
        assert pair.results == [{1: same}, {0: same}]


def test_answers_to_a_stream_that_has_ended_decide_nothing() -> None:
    pair = Pair(_table([0.0, 1.0]), _table([0.0, 1.0]))
    pair.connect()
    pair.ends[0].greet(1)  # its link broke and is up again; the other has not noticed yet
    pair.deliver()
    assert pair.results == [{1: True}, {0: True}]


def test_no_message_can_be_told_from_one_about_other_targets_by_who_knows_all_that_members_know() -> None:
    """The attack of a dictionary: compute what would be sent for every guess, and compare. Every point is fresh."""
    pair = Pair(_table([0.0, 1.0]), _table([0.0, 1.0]))
    for _ in range(3):
        pair.connect()
        pair.deliver()
    sent = [text for message in pair.seen for text in (message.point, message.proof) if text]
    again = Pair(_table([0.0, 1.0]), _table([0.0, 1.0]))
    again.connect()
    again.deliver()
    assert len({message.point for message in pair.seen}) == 6
    assert not {text for message in again.seen for text in (message.point, message.proof) if text} & set(sent)


def test_points_of_all_secrets_are_on_the_curve_so_that_not_even_one_bit_is_told() -> None:
    """A multiple is on the twist if and only if the point is; half of all numbers are."""
    on_curve = []
    for k in range(64):
        u = int.from_bytes(curve_point(str(k).encode()), "little")
        on_curve.append(pow(u**3 + 486662 * u**2 + u, (PRIME - 1) // 2, PRIME) == 1)
    assert all(on_curve)
    assert curve_point(b"1") == curve_point(b"1") != curve_point(b"2")


def test_who_only_asks_is_answered_a_few_times() -> None:
    pair = Pair(_table([0.0, 1.0]), _table([0.0, 0.0]))
    pair.connect()
    (question,) = [message for receiver, message in pair.waiting if receiver == 0]
    for _ in range(GUESSES):
        pair.ends[0].receive(1, _packed(question))
    with pytest.raises(Violation, match="asked 16 times"):
        pair.ends[0].receive(1, _packed(question))


def test_who_proves_the_same_targets_may_come_again_and_again() -> None:
    pair = Pair(_table([0.0, 1.0]), _table([0.0, 1.0]))
    for _ in range(2 * GUESSES):
        pair.connect()
        pair.deliver()
    assert pair.results == [{1: True}, {0: True}]


@pytest.mark.parametrize(
    "message",
    [
        TargetsMessage("00" * 32),  # of small order: every multiple is 0
        {"point": "zz" * 32, "to": "", "proof": ""},
        {"point": "00" * 32, "to": "00" * 32, "proof": ""},
        {"point": 7, "to": "", "proof": ""},
    ],
)
def test_a_message_that_cannot_be_is_refused(message: TargetsMessage | dict[str, object]) -> None:
    pair = Pair(_table([0.0, 1.0]), _table([0.0, 1.0]))
    pair.connect()
    with pytest.raises(Violation, match=r"TARGETS|TargetsMessage"):
        pair.ends[0].receive(1, pack_json(message.to_json() if isinstance(message, TargetsMessage) else message))


def test_a_proof_that_is_sent_back_proves_nothing() -> None:
    """Without the targets one can only return what came: the own point with the other's proof of it."""
    pair = Pair(_table([0.0, 1.0]), _table([1.0, 1.0]))
    pair.connect()
    (mine,) = [message for receiver, message in pair.waiting if receiver == 1]
    pair.waiting.clear()
    pair.ends[0].receive(1, _packed(mine))  # reflected
    ((_, answer),) = pair.waiting
    pair.ends[0].receive(1, _packed(replace(answer, point=mine.point, to=mine.point)))
    assert pair.ends[0].same == {1: False}
