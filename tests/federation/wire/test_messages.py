"""JSON messages: what is sent is read back, and what is none is refused with where, expected and got."""

from __future__ import annotations

import json
from typing import Any

import pytest

from glmesh.federation.wire.frames import Violation
from glmesh.federation.wire.messages import (
    COMPARED,
    DONE,
    FITS,
    OFFER,
    PREDICT,
    REFUSED,
    DataOffer,
    GossipEntry,
    Hello,
    LinkRefusal,
    Ready,
)


@pytest.mark.parametrize(
    "message",
    [
        Hello("alice", {"problem.loss": "logistic"}),
        Hello("bob", {}, PREDICT, n_rows=3),
        DataOffer("ill", ["age", "bmi"], 2, [1], labels=[0.0, "yes"], rows=3, ids="ab", scales=[3, None]),
        DataOffer(),
        LinkRefusal("has another configuration"),
        Ready(12),
    ],
)
def test_a_message_is_read_back_as_sent(message: Any) -> None:
    assert type(message).from_json(json.loads(json.dumps(message.to_json()))) == message


@pytest.mark.parametrize(
    "entry",
    [
        GossipEntry(DONE, 2, 5, 40),
        GossipEntry(FITS, 0, 1, 1),
        GossipEntry(COMPARED, 0, 1, compared={1: True, 2: False}),
        GossipEntry(OFFER, 1, 1, offer=DataOffer("ill", None, 4)),
        GossipEntry(REFUSED, 1, 1, why="lacks the column bmi"),
    ],
)
def test_a_gossip_entry_is_read_back_as_sent(entry: GossipEntry) -> None:
    assert GossipEntry.from_json(json.loads(json.dumps(entry.to_json())), "here", 3) == entry


@pytest.mark.parametrize(
    ("kind", "tree", "words"),
    [
        (Hello, {}, "Hello, name: expected a value of type str, got None"),
        (Hello, {"name": "a", "entries": [], "purpose": "train"}, r"Hello, entries: .*dict, got \[\]"),
        (Hello, {"name": "a", "entries": {}, "purpose": "train", "n_rows": 1.0}, "Hello, n_rows: .*int, got 1.0"),
        (LinkRefusal, {"why": 3}, "LinkRefusal, why: expected a value of type str, got 3"),
        (Ready, {}, "Ready, clock: expected a value of type int, got None"),
        (Ready, {"clock": True}, "Ready, clock: expected a value of type int, got True"),
        (Ready, {"clock": -1}, "Ready, clock: expected the number of an exchange, got -1"),
    ],
)
def test_a_message_with_wrong_content_is_refused(kind: Any, tree: dict[str, Any], words: str) -> None:
    with pytest.raises(Violation, match=words):
        kind.from_json(tree)
