"""Members that ask for unequal things, refuse, or hear what nobody signed; bundles as bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from dataclasses import replace

import numpy as np
import pytest

from glmesh.core import Violation
from glmesh.federation.totals import Beginning, Bundle, Program, Unequal, WantedTotal
from glmesh.federation.totals.bundles import GiveTotals, WantTotals
from glmesh.federation.totals.flood import Ask, Contribution
from glmesh.federation.totals.memory import KeptTotal
from glmesh.federation.totals.messages import pack, unpack
from glmesh.federation.totals.statements import Record, Signed
from glmesh.federation.totals.views import drawn_start, start_of
from glmesh.types import Unsigned
from tests.federation.totals.world import World, content_of


class Differs(World):
    """Three sites, of which the last computes another second point; it takes the first one's if `near`."""

    near = True

    def __init__(self) -> None:
        super().__init__(0, without=False, n=3, hostile=False)
        self.calm, self.late, self.least = True, frozenset(), 3
        self.neighbours = ((1, 2), (0, 2), (0, 1))

    def program(self, member: int, data: int) -> Program:
        def program(beginning: Beginning) -> Generator[WantedTotal, Unsigned, bytes]:
            history = beginning.start.encode()
            for number in range(3):
                point = hashlib.sha256(history + bytes([number])).digest()
                if member == 2 and number == 1:
                    point = b"another point"
                taken = beginning.requests.get(number, point)
                if taken != point and not self.near:
                    raise Unequal("the point of site2 is far from that of site0")
                value = yield WantedTotal(taken, content_of(taken, data))
                history = taken + value.tobytes()
            return b"0 1 2|" + hashlib.sha256(history).digest()

        return program


def test_a_point_that_differs_a_little_gives_way_to_that_of_the_lowest_id_and_the_attempt_goes_up() -> None:
    world = Differs()
    for member in range(3):
        world.start(member)
    world.step(20.0)
    assert not world.waiting()
    assert len(world.oracle.models) == 1
    assert all(len(one.machine.entries) == 3 for one in world.up.values())


def test_a_point_that_differs_too_much_ends_the_fit_and_everybody_learns_who_refuses() -> None:
    world = Differs()
    world.near = False
    for member in range(3):
        world.start(member)
    world.step(20.0)
    assert sorted(world.waiting()) == [0, 1, 2]
    for one in world.up.values():
        assert one.machine.refusals == {2: "the point of site2 is far from that of site0"}


def test_a_member_that_returns_without_its_disk_makes_a_new_fit_and_repeats_nothing() -> None:
    world = Differs()
    for member in range(3):
        world.start(member)
    while not all(one.machine.entries for one in world.up.values()):
        world.step(0.5)
    first = world.up[0].machine.memory.held
    del world.up[1]
    world.disks[1].memory = None
    world.start(1)
    world.step(20.0)
    last = world.up[0].machine.memory.held
    assert first is not None
    assert last is not None
    assert (first.set, first.start) != (last.set, last.start)
    assert last.start
    assert not world.waiting()


def test_a_member_that_returns_with_its_disk_goes_on_with_the_same_fit() -> None:
    world = Differs()
    for member in range(3):
        world.start(member)
    while not all(one.machine.entries for one in world.up.values()):
        world.step(0.5)
    first = world.up[0].machine.memory.held
    del world.up[1]
    world.start(1)
    world.step(20.0)
    last = world.up[0].machine.memory.held
    assert first is not None
    assert last is not None
    assert (first.fit, first.set) == (last.fit, last.set)
    assert not world.waiting()


def test_one_that_comes_when_all_but_one_neighbour_have_ended_is_told_by_it_what_the_others_have_voted() -> None:
    world = World(0, without=False, n=4, hostile=False)
    world.calm, world.late, world.least = True, frozenset([3]), 3
    world.neighbours = ((1, 3), (0, 2), (1, 3), (0, 2))
    for member in range(3):
        world.start(member)
    world.step(20.0)
    model = world.up[0].machine.model
    assert all(one.machine.is_final for one in world.up.values())
    del world.up[1], world.up[2]
    world.step(1.0)  # what they sent has come
    world.start(3)
    world.step(20.0)
    assert world.up[3].machine.is_final
    assert world.up[3].machine.model == model


def test_starts_are_zero_at_first_then_the_same_for_the_same_set_and_drawn_for_another() -> None:
    assert start_of("s", [None, None], "drawn") == ""
    assert start_of("s", [Record("s", "abc"), None], "drawn") == "abc"
    assert start_of("s", [Record("s", ""), Record("s", "")], "drawn") == ""
    assert start_of("s", [Record("t", ""), None], "drawn") == "drawn"
    assert start_of("s", [Record("s", ""), Record("s", "abc")], "drawn") == "drawn"


@pytest.mark.parametrize("d", [1, 2, 31, 1000])
def test_drawn_starts_spread_predictions_by_about_one_and_are_far_apart(d: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, d))
    starts = [drawn_start(rng.bytes(32).hex(), d) for _ in range(20)]
    assert all(0.4 < (rows @ one).std() < 1.6 for one in starts)
    distances = [np.linalg.norm(a - b) for k, a in enumerate(starts) for b in starts[:k]]
    assert min(distances) > (1e-3 if d == 1 else 1e-2)
    assert not drawn_start("", d).any()


def bundle() -> Bundle:
    value = np.arange(4, dtype=np.uint64)
    return Bundle(
        statuses=[Signed(1, b"{}", b"signature", b"certificate")],
        parts=[Contribution("v", 3, 1, "r", 2, value.tobytes(), b"s")],
        asks=[Ask("v", 3, 1, "r", (0, 2))],
        want_totals=WantTotals("f", 1, 2),
        totals=GiveTotals("f", 0, (KeptTotal(b"point", value),)),
        want_content=["d"],
        content=[("d", b"model")],
    )


def test_a_bundle_survives_its_bytes() -> None:
    sent = bundle()
    came = unpack(pack(sent), 3)
    assert (came.statuses, came.parts, came.asks) == (sent.statuses, sent.parts, sent.asks)
    assert (came.want_totals, came.want_content, came.content) == (sent.want_totals, sent.want_content, sent.content)
    assert came.totals is not None
    assert came.totals.entries[0].request == b"point"
    np.testing.assert_array_equal(came.totals.entries[0].value, np.arange(4))
    assert pack(came) == pack(sent)


def test_bytes_that_are_no_bundle_are_a_violation_and_nothing_else() -> None:
    content, rng = pack(bundle()), np.random.default_rng(0)
    for _ in range(3000):
        damaged = bytearray(content)
        for place in rng.integers(0, len(content), 3):
            damaged[place] = rng.integers(256)
        cut = bytes(damaged[: int(rng.integers(len(content) + 1))]) if rng.random() < 0.3 else bytes(damaged)
        try:
            unpack(cut, 3)
        except Violation:
            continue
    with pytest.raises(Violation, match="from 0 to 1"):
        unpack(content, 2)


def test_a_status_of_a_member_with_another_signature_or_certificate_is_refused() -> None:
    world = Differs()
    for member in range(3):
        world.start(member)
    machine = world.up[0].machine
    (signed,) = world.up[1].machine.poll(0.0)[0][1].statuses
    for wrong in (
        replace(signed, signature=b"x"),
        replace(signed, certificate=b"x"),
        replace(signed, body=signed.body.replace(b'"remembers":false', b'"remembers":true')),
    ):
        with pytest.raises(Violation):
            machine.receive(1, Bundle(statuses=[wrong]), 0.0)
        assert 1 not in machine.agreement.statuses
    machine.receive(1, Bundle(statuses=[signed]), 0.0)
    assert 1 in machine.agreement.statuses
