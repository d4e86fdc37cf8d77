"""The gossip store: the newest statement about each node counts, and news is passed on."""

from __future__ import annotations

from typing import Any

import pytest

from glmesh.federation.node.gossip_store import GossipStore
from glmesh.federation.wire.frames import Violation
from glmesh.federation.wire.messages import COMPARED, DONE, FITS, REFUSED, DataOffer, GossipEntry


class Sent(list[tuple[int, dict[str, Any]]]):
    """Messages to neighbours, in the order in which they were sent."""

    def __call__(self, peer: int, message: dict[str, Any]) -> None:
        self.append((peer, message))


def _offer(**other: Any) -> dict[str, Any]:
    """An offer of a site with two features, with some fields replaced."""
    return DataOffer("ill", ["a", "b"], 2).to_json() | other


def test_the_statement_with_the_largest_stamp_counts() -> None:
    store, other = (GossipStore(3, (), Sent()) for _ in range(2))
    store.publish(GossipEntry(DONE, 1, 5, 5))
    other.publish(GossipEntry(DONE, 1, 7, 7), GossipEntry(COMPARED, 2, 1, compared={0: True, 1: False}))
    assert sorted(store.merge(other.to_json())) == [(COMPARED, 2), (DONE, 1)]
    assert store.compared() == {2: {0: True, 1: False}}
    assert not other.merge(store.to_json())
    assert store.number(DONE, 1) == 7
    assert store.stamp(DONE, 1) == 7
    assert store.number(DONE, 0) is None
    assert store.stamp(DONE, 0) == -1


def test_news_goes_to_all_neighbours_but_its_source() -> None:
    sent = Sent()
    store = GossipStore(4, (1, 2, 3), sent)
    message = {"entries": [["done", 0, 4, 4]]}
    store.merge(message, source=2)
    assert sent == [(1, message), (3, message)]
    store.merge(message, source=1)
    assert len(sent) == 2
    store.greet(2)
    assert sent[2:] == [(2, message)]


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (7, r"GOSSIP entry 1: expected \[kind, node, stamp, value\], got 7"),
        (
            ["facts", 0, 1, 1],
            "GOSSIP entry 1: expected one of fits, compared, done, successor, membership, offer, refused, got 'facts'",
        ),
        (["done", 3, 1, 1], "GOSSIP entry 1: expected a node from 0 to 2, got 3"),
        (["done", 0, "1", 1], "GOSSIP entry 1, stamp: expected a number >= 0, got '1'"),
        (["done", 0, 1, 1.5], "done of node 0: expected a whole number >= -1, got 1.5"),
        (
            ["summary", 0, 1, [5.0, -5.0, 0.0, 0.0, 1.0, 1.0, 30.0]],
            "GOSSIP entry 1: expected one of fits, .* got 'summary'",
        ),
        (["compared", 0, 1, [[3, True]]], "compared of node 0: expected pairs of a node and whether it has the same"),
        (["refused", 0, 1, "x" * 2000], "refused of node 0: expected a text of at most 1000 characters"),
        (["offer", 0, 1, "x"], "offer of node 0: expected an object, got 'x'"),
        (["offer", 0, 1, {"target": "y"}], "DataOffer, width: expected a value of type int, got None"),
        (["offer", 0, 1, _offer(names=["a", "a"])], "offer, names: expected distinct names"),
        (["offer", 0, 1, _offer(labels=[float("nan")])], "offer, labels: expected finite numbers and texts, got nan"),
        (["offer", 0, 1, _offer(scales=[10**9])], "offer, scales: expected powers of two of numbers"),
        (["compared", 0, 1, [[1, 1]]], "compared of node 0: expected pairs of a node and whether it has the same"),
        (["compared", 0, 1, {"1": True}], "compared of node 0: expected pairs of a node and whether it has the same"),
    ],
)
def test_a_message_with_a_wrong_entry_is_refused_whole(entry: Any, words: str) -> None:
    store = GossipStore(3, (), Sent())
    with pytest.raises(Violation, match=words):
        store.merge({"entries": [["done", 0, 1, 1], entry]})
    assert store.number(DONE, 0) is None


def test_a_message_without_entries_is_refused() -> None:
    with pytest.raises(Violation, match="GOSSIP, entries: expected a list, got None"):
        GossipStore(3, (), Sent()).merge({})


def test_a_node_whose_table_fits_takes_part_whatever_was_said_of_it() -> None:
    store = GossipStore(3, (), Sent())
    store.publish(GossipEntry(REFUSED, 1, 1, why="lacks a column"), GossipEntry(REFUSED, 2, 1, why="never came"))
    assert store.refused() == {1: "lacks a column", 2: "never came"}
    store.publish(GossipEntry(FITS, 2, 1, 1))
    assert store.refused() == {1: "lacks a column"}
    assert store.why(1) == "lacks a column"
