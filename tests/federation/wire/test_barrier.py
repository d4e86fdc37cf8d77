"""When an exchange is over: decisions of the barrier, without sockets and without waiting."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glmesh.federation.wire.barrier import (
    AHEAD,
    ALONE,
    LONGEST,
    REMEMBERED,
    SHORTEST,
    UNTIMED,
    Barrier,
    Done,
    PeerTiming,
    WaitUntil,
)
from glmesh.federation.wire.frames import Violation
from tests.cases import prop


def _barrier(*peers: int, patient: bool = False) -> Barrier[str]:
    """A barrier at time 0 whose neighbours are all ready."""
    barrier: Barrier[str] = Barrier(peers, 0.0, patient=patient)
    for peer in peers:
        barrier.ready(peer, 0)
    return barrier


def test_an_exchange_ends_when_all_neighbours_have_answered() -> None:
    barrier = _barrier(1, 2)
    barrier.begin([1, 2], 0.0)
    assert barrier.poll(0.1) == WaitUntil(UNTIMED)
    barrier.received(2, 0, "from 2", 0.1)
    assert barrier.poll(0.2) == WaitUntil(UNTIMED)
    barrier.received(1, 0, "from 1", 0.3)
    assert barrier.poll(0.3) == Done()
    assert barrier.finish() == ["from 1", "from 2"]
    assert barrier.clock == 1


def test_a_message_of_a_later_exchange_is_kept_until_then() -> None:
    barrier = _barrier(1)
    barrier.begin([1], 0.0)
    barrier.received(1, 0, "now", 0.1)
    barrier.received(1, 1, "next", 0.2)
    assert barrier.finish() == ["now"]
    barrier.begin([1], 0.3)
    assert barrier.poll(0.3) == Done()
    assert barrier.finish() == ["next"]


def test_a_neighbour_that_misses_its_deadline_is_not_waited_for_again() -> None:
    barrier = _barrier(1, 2)
    barrier.begin([1, 2], 0.0)
    barrier.received(2, 0, "from 2", 0.1)
    assert barrier.expire(UNTIMED - 0.01) == []
    assert barrier.expire(UNTIMED) == [1]
    assert barrier.poll(UNTIMED) == Done()
    assert barrier.finish() == ["from 2"]
    assert barrier.timing[1].skipped == 1
    barrier.begin([1, 2], 6.0)
    barrier.received(2, 1, "from 2", 6.1)
    assert barrier.poll(6.1) == Done()
    assert barrier.expire(100.0) == []


def test_a_silent_neighbour_that_is_heard_again_is_waited_for() -> None:
    barrier = _barrier(1)
    barrier.begin([1], 0.0)
    barrier.expire(UNTIMED)
    barrier.finish()
    barrier.begin([1], 6.0)
    assert barrier.received(1, 0, "late", 6.5)  # the exchange before: it has caught up
    assert not barrier.timing[1].silent
    assert isinstance(barrier.poll(6.5), WaitUntil)
    assert not barrier.received(1, 1, "in time", 6.6)


def test_a_silent_neighbour_that_is_far_behind_but_moves_is_waited_for() -> None:
    barrier = _barrier(1)
    barrier.clock = 50
    barrier.begin([1], 0.0)
    barrier.expire(UNTIMED)
    assert not barrier.received(1, 3, "old", 5.1)
    assert not barrier.timing[1].silent
    barrier.expire(UNTIMED)
    barrier.timing[1].silent = True
    barrier.received(1, 3, "once more", 5.2)  # no progress
    assert barrier.timing[1].silent


def test_a_neighbour_that_is_not_ready_or_has_ended_is_not_waited_for() -> None:
    barrier: Barrier[str] = Barrier([1, 2, 3], 0.0)
    barrier.ready(2, 0)
    barrier.ready(3, 0)
    barrier.ended(3)
    barrier.begin([1, 2, 3], 0.0)
    assert [barrier.takes(peer) for peer in (1, 2, 3)] == [False, True, False]
    barrier.received(2, 0, "from 2", 0.1)
    assert barrier.poll(0.1) == Done()


def test_a_link_that_went_down_ends_the_waiting_for_its_neighbour() -> None:
    barrier = _barrier(1, 2)
    barrier.begin([1, 2], 0.0)
    barrier.received(2, 0, "from 2", 0.1)
    barrier.link_changed(1, up=False)
    assert barrier.poll(0.2) == Done()


def test_a_link_that_comes_up_begins_anew() -> None:
    barrier = _barrier(1)
    barrier.received(1, 7, "before", 0.1)
    barrier.ended(1)
    assert barrier.newest == 7
    barrier.link_changed(1, up=True)
    assert barrier.newest == -1
    assert not barrier.timing[1].finished
    assert not barrier.takes(1)


def test_a_node_without_neighbours_makes_a_round_a_second() -> None:
    barrier: Barrier[str] = Barrier([1], 0.0)
    barrier.begin([1], 10.0)
    assert barrier.poll(10.0) == WaitUntil(10.0 + ALONE)
    assert barrier.poll(10.0 + ALONE) == Done()


def test_a_patient_barrier_waits_for_ever_and_declares_nobody_silent() -> None:
    barrier: Barrier[str] = Barrier([1], 0.0, patient=True)
    barrier.begin([1], 0.0)
    assert barrier.expire(1e9) == []
    assert barrier.poll(1e9) == WaitUntil(math.inf)
    barrier.received(1, 0, "at last", 1e9)
    assert barrier.poll(1e9) == Done()


def test_a_message_of_long_ago_is_refused() -> None:
    barrier = _barrier(1)
    barrier.received(1, REMEMBERED, "new", 0.0)
    with pytest.raises(Violation, match="MAIL, exchange: expected one after 0, got 0"):
        barrier.received(1, 0, "old", 0.0)


def test_the_newest_exchange_of_any_neighbour_is_known() -> None:
    barrier = _barrier(1, 2)
    assert barrier.newest == 0
    barrier.ready(2, 40)
    assert barrier.newest == 40
    barrier.received(1, 41, "ahead", 0.0)
    assert barrier.newest == 41


def test_a_deadline_follows_what_a_neighbour_takes() -> None:
    timing: PeerTiming[str] = PeerTiming(0.0)
    assert timing.deadline == UNTIMED
    for _ in range(50):
        timing.took(0.01)
    assert timing.deadline == SHORTEST
    for _ in range(50):
        timing.took(4.0)
    assert 8.0 <= timing.deadline < 12.0
    for _ in range(50):
        timing.took(100.0)
    assert timing.deadline == LONGEST


_events = st.lists(
    st.tuples(
        st.sampled_from(["mail", "up", "down", "ready", "bye"]), st.integers(1, 3), st.integers(0, 5), st.floats(0, 2)
    ),
    max_size=40,
)


@prop(500)
@given(_events)
def test_whatever_comes_an_exchange_ends_by_its_last_deadline(events: list[tuple[str, int, int, float]]) -> None:
    barrier = _barrier(1, 2, 3)
    now = 0.0
    barrier.begin([1, 2, 3], now)
    for event, peer, clock, pause in events:
        now += pause
        if event == "mail":
            barrier.received(peer, clock, f"{peer} {clock}", now)
        elif event == "ready":
            barrier.ready(peer, clock)
        elif event == "bye":
            barrier.ended(peer)
        else:
            barrier.link_changed(peer, up=event == "up")
    barrier.expire(max(now, LONGEST))
    assert barrier.poll(max(now, LONGEST)) == Done()
    delivered = barrier.finish()
    assert all(int(message.split()[1]) == 0 for message in delivered)
    assert delivered == sorted(delivered)
    assert all(len(timing.waiting) <= AHEAD for timing in barrier.timing.values())
