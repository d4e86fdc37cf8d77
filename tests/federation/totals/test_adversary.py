"""Properties of totals between peers under adversarial schedules; for each a world without the rule, which fails."""

from __future__ import annotations

from dataclasses import replace

import pytest

from glmesh.federation.totals import Runner
from glmesh.federation.totals.agreement import Agreement
from glmesh.federation.totals.bundles import Bundle
from glmesh.federation.totals.names import first_chain
from glmesh.federation.totals.statements import MemberStatus
from glmesh.federation.totals.views import View
from tests.cases import cases
from tests.federation.totals.world import TOTALS, Process, SharedSecrets, Unlucky, WatchedMachine, World, toy

BATCH = 50  # [schedules] of one test


@pytest.mark.parametrize("batch", range(cases(2000) // BATCH))
def test_no_schedule_makes_a_wrong_total_two_values_two_contents_two_sets_at_a_point_or_two_models(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        world = World(seed, without=seed % 2 == 1)
        world.run()
        assert not world.waiting(), f"schedule {seed}: {world.waiting()} wait for ever"


def found(kind: type[World], expected: str, *, schedules: int = 60, without: bool = True) -> bool:
    """Whether some schedule of a world without a rule breaks one property; others are not looked at."""
    for seed in range(schedules):
        world = kind(seed, without=without)
        world.watched = (expected,)
        try:
            world.run()
        except Unlucky as error:
            return str(error) == expected
    return False


class Believing(SharedSecrets):
    def verify(self, member: int, content: bytes, signature: bytes) -> bool:
        return True


class WithoutSignatures(World):
    keys = Believing


@pytest.mark.parametrize("what", ["sum", "value"])
def test_without_signatures_a_router_changes_totals_and_gives_one_name_two_values(what: str) -> None:
    assert found(WithoutSignatures, what)


class Twins(World):
    """Three sites, of which one runs twice with one mask key, as a snapshot of live memory does."""

    watched = ("stream",)

    def run_twice(self, *, rereads: bool) -> None:
        """Run the fit; `rereads`: the second process has read a data file that was changed meanwhile."""
        self.calm, self.neighbours, self.late, self.least = True, ((1, 2), (0, 2), (0, 1)), frozenset(), 3
        for member in range(3):
            self.start(member)
        first = self.up[0]
        info, memory = first.machine.info, replace(first.machine.memory)
        twin = self.machine(info, self.keys(0), b"%032d" % 0, first.machine.agreement.start, memory, self.now)
        twin.watch(self.oracle)
        self.clones.append(Process(twin, Runner(twin, toy(first.data + rereads)), 0, first.data))
        self.step(20.0)

    def secret(self, member: int) -> bytes:
        return b"%032d" % member


def test_a_process_that_runs_twice_with_one_key_covers_one_content_as_long_as_its_data_is_pinned() -> None:
    world = Twins(0, without=False, n=3, hostile=False)
    world.run_twice(rereads=False)
    assert not world.waiting()
    assert len(world.oracle.streams) >= 3 * TOTALS


def test_if_data_were_read_again_under_one_key_a_stream_would_cover_two_contents() -> None:
    with pytest.raises(Unlucky, match="stream"):
        Twins(0, without=False, n=3, hostile=False).run_twice(rereads=True)


class StartsAtZero(Agreement):
    def proposed_view(self, ids: list[int], statuses: dict[int, MemberStatus]) -> View:
        view = super().proposed_view(ids, statuses)
        if view.held.born != view.number:
            return view
        fit = self._fit(view.held.set, "", view.number)
        return replace(view, held=replace(view.held, fit=fit, start="", chain=first_chain(fit)))

    def _start_allowed(self, view: View) -> bool:
        return True


class AtZero(World):
    class machine(WatchedMachine):
        agrees_by = StartsAtZero


def test_without_drawn_starts_two_sets_of_members_meet_at_one_point() -> None:
    assert found(AtZero, "point")


class ForgetsVotes(Agreement):
    def proposed_view(self, ids: list[int], statuses: dict[int, MemberStatus]) -> View:
        return replace(super().proposed_view(ids, statuses), vote=None)

    def _vote_kept(self, view: View) -> bool:
        return True


class VotesForgotten(World):
    class machine(WatchedMachine):
        agrees_by = ForgetsVotes


def test_without_taking_over_votes_two_models_are_final() -> None:
    assert found(VotesForgotten, "models")


class NeedsNoMajority(Agreement):
    def is_majority(self, view: View, statuses: dict[int, MemberStatus]) -> bool:
        return True


class Minorities(World):
    class machine(WatchedMachine):
        agrees_by = NeedsNoMajority


def test_without_a_majority_of_voters_a_minority_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Agreement, "majority_vote", lambda self: self.memory.vote)
    assert found(Minorities, "minority")


class AsksNever(WatchedMachine):
    def _request(self, bundle: Bundle, peer: int, now: float) -> None:
        """Send nothing again."""


class Unrepeated(World):
    machine = AsksNever


def test_without_sending_again_a_lost_contribution_is_waited_for_for_ever() -> None:
    def waits(seed: int) -> bool:
        world = Unrepeated(seed, without=True)
        world.run()
        return bool(world.waiting())

    assert any(waits(seed) for seed in range(60))


class Waits(World):
    """Three sites that wait for each other; one is lost in the middle."""

    def lose_one(self) -> None:
        for member in range(3):
            self.start(member)
        while not all(one.machine.agreement.remembers for one in self.up.values()):
            self.step(0.5)
        del self.up[1]
        self.step(30.0)

    def named(self) -> list[set[int]]:
        return [set(one.machine.agreement.absent(self.now)) for one in self.up.values()]


def test_who_waits_says_for_whom_and_goes_on_when_it_returns() -> None:
    world = Waits(3, without=False, n=3, hostile=False)
    world.calm = True
    world.lose_one()
    assert world.waiting()
    assert world.named() == [{1}, {1}]
    world.start(1)
    world.step(20.0)
    assert not world.waiting()


class SeesEverybody(Agreement):
    def is_silent(self, member: int, now: float) -> bool:
        return False


class Silent(World):
    class machine(WatchedMachine):
        agrees_by = SeesEverybody


def test_if_silence_did_not_count_nobody_would_be_named() -> None:
    assert found(Silent, "words", without=False)
