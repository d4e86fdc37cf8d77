"""Members that forget, are slow or come late, told step by step; for each rule a control without it, which fails."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from glmesh.federation.totals import Program
from glmesh.federation.totals import agreement as agreement_module
from glmesh.federation.totals import views as views_module
from glmesh.federation.totals.agreement import Agreement
from glmesh.federation.totals.bundles import Bundle
from glmesh.federation.totals.statements import MemberStatus
from glmesh.federation.totals.views import View, has_majority
from tests.federation.totals.world import Process, Unlucky, WatchedMachine, World, toy


class Told(World):
    """Sites in a complete graph, without chance: what happens is told step by step."""

    totals = 1  # of the fit
    lazy: Collection[int] = ()  # members whose program has not got round to asking for a total
    models_to: Collection[int] = range(64)  # members that are sent the bytes of models

    after_each: Callable[[], None] = staticmethod(lambda: None)  # is called after each message

    def __init__(self, n: int = 5, late: Collection[int] = ()) -> None:
        super().__init__(0, without=True, n=n, hostile=False)
        self.neighbours = tuple(tuple(k for k in range(n) if k != me) for me in range(n))
        self.late, self.least, self.calm, self.loss = frozenset(late), 3, True, 0.0

    def program(self, member: int, data: int) -> Program:
        return toy(data, totals=self.totals)

    def poll(self, process: Process) -> None:
        advance = process.runner.advance
        if process.member in self.lazy:
            process.runner.advance = lambda now: None  # type: ignore[method-assign]
        super().poll(process)
        process.runner.advance = advance  # type: ignore[method-assign]

    def deliver(self, sender: int, receiver: int, content: bytes) -> None:
        super().deliver(sender, receiver, content)
        self.after_each()

    def send(self, sender: int, receiver: int, bundle: Bundle) -> None:
        if receiver not in self.models_to:
            bundle.content = []
        super().send(sender, receiver, bundle)

    def start_all(self, n: int) -> None:
        """Start the first n members."""
        for member in range(n):
            self.start(member)

    def until(self, condition: Callable[[], bool], seconds: float = 120.0) -> None:
        end = self.now + seconds
        while not condition():
            assert self.now < end
            self.step(0.5)

    def agreed(self, *members: int) -> bool:
        """Whether these members are in a view of these members, as their present processes are."""
        machines = [self.up[k].machine for k in members]
        views = [one.agreement.view for one in machines]
        return all(view is not None and view.ids == members for view in views) and len(set(views)) == 1

    def final(self, *members: int) -> bool:
        return all(self.up[k].machine.is_final for k in members)

    def part(self, side: Collection[int]) -> None:
        """Cut the links between some members and all others."""
        self.cut = {frozenset((a, b)) for a in side for b in range(self.n) if b not in side}

    def end(self, *members: int) -> None:
        for member in members:
            del self.up[member]

    def absent(self, member: int) -> set[int]:
        return set(self.up[member].machine.agreement.absent(self.now))


def forget_a_vote(world: Told) -> None:
    """Let three of five vote, and one of them come back to the other two with a backup from before its vote."""
    world.start_all(5)
    world.until(lambda: world.agreed(0, 1, 2, 3, 4))
    world.deaf = {(a, b) for a in (0, 1, 2) for b in (3, 4)}
    backup = replace(world.up[0].machine.memory, vote=None, model=b"")
    world.until(lambda: world.final(0, 1, 2))
    assert not world.up[3].machine.is_final
    world.end(0, 1, 2)
    world.deaf = set()
    world.disks[0].memory = backup
    world.start(0)
    world.step(60.0)


def test_a_backup_that_has_forgotten_a_vote_makes_no_majority() -> None:
    world = Told()
    forget_a_vote(world)
    assert sorted(world.waiting()) == [0, 3, 4]
    assert all(world.absent(k) == {1, 2} for k in world.up)


def test_if_a_backup_counted_for_a_majority_two_models_would_be_final(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(ids: Collection[int], voters: Collection[int], statuses: object) -> bool:
        return 2 * sum(one in ids for one in voters) > len(voters)

    monkeypatch.setattr(agreement_module, "has_majority", counted)
    with pytest.raises(Unlucky, match="models"):
        forget_a_vote(Told())


def test_if_more_than_half_are_restored_there_are_two_final_models_and_no_disk_tells() -> None:
    """The limit: the disks are those of a history without a vote, in which the same members must make a model."""
    world = Told()
    world.lazy = range(5)
    world.start_all(5)
    world.until(lambda: world.agreed(0, 1, 2, 3, 4))
    without_vote = [replace(world.up[k].machine.memory) for k in range(5)]
    world.part([3, 4])
    world.lazy = ()
    world.until(lambda: world.agreed(0, 1, 2))
    world.until(lambda: world.final(0, 1, 2))
    world.end(*range(5))
    for member in (0, 1, 2):
        world.disks[member].memory = without_vote[member]
    world.cut = set()
    for member in range(5):
        world.start(member)
    with pytest.raises(Unlucky, match="models"):
        world.step(60.0)


def lose_a_vote(world: Told) -> None:
    """Let three of five vote, one of them lose its disk and meet all in a view, and the other two leave before
    anybody has the model from them."""
    world.start_all(5)
    world.until(lambda: world.agreed(0, 1, 2, 3, 4))
    world.deaf = {(a, b) for a in (0, 1, 2) for b in (3, 4)}
    world.until(lambda: world.final(0, 1, 2))
    world.end(0)
    world.deaf, world.models_to = set(), ()
    world.disks[0].memory = None
    world.start(0)
    world.until(lambda: world.agreed(0, 1, 2, 3, 4))
    world.end(1, 2)
    world.step(60.0)


def test_who_has_lost_a_vote_remembers_only_after_it_has_voted_again() -> None:
    world = Told()
    lose_a_vote(world)
    assert sorted(world.waiting()) == [0, 3, 4]
    world.start(1)
    world.models_to = range(5)
    world.until(lambda: world.final(0, 1, 3, 4))


class RemembersAtOnce(Agreement):
    def enter(self, view: View) -> None:
        super().enter(view)
        self.remembers = True


class Hasty(Told):
    class machine(WatchedMachine):
        agrees_by = RemembersAtOnce


def test_if_it_remembered_at_once_two_models_would_be_final() -> None:
    with pytest.raises(Unlucky, match="models"):
        lose_a_vote(Hasty())


def meet_at_zero(world: Told) -> None:
    """Let three make totals from zero, one of them lose its disk, meet two late ones, and remain with these alone."""
    world.totals = 1_000
    world.start_all(3)
    world.until(lambda: all(one.machine.entries for one in world.up.values()))
    world.end(0)
    world.disks[0].memory = None
    world.lazy = (0, 3, 4)
    for member in (0, 3, 4):
        world.start(member)
    world.until(lambda: world.agreed(0, 1, 2, 3, 4))
    world.end(1, 2)
    world.until(lambda: world.agreed(0, 3, 4))
    world.lazy = ()
    world.step(10.0)


def test_who_has_been_told_of_totals_at_zero_begins_elsewhere() -> None:
    world = Told(late=(3, 4))
    meet_at_zero(world)
    held = world.up[0].machine.memory.held
    assert held is not None
    assert held.start
    assert held.count > 3


class RecordsLater(Agreement):
    def enter(self, view: View) -> None:
        record = self.memory.record
        super().enter(view)
        self.memory.record = record


class Late(Told):
    class machine(WatchedMachine):
        agrees_by = RecordsLater


def test_if_a_drawn_start_were_not_recorded_at_once_two_sets_would_meet_at_zero() -> None:
    with pytest.raises(Unlucky, match="point"):
        meet_at_zero(Late(late=(3, 4)))


def return_to_zero(world: Told) -> None:
    """Let four be about to begin at zero, three of them do so without the last, and that one come back."""
    world.totals = 1_000
    world.lazy = range(4)
    world.start_all(4)
    world.until(lambda: world.agreed(0, 1, 2, 3))
    world.part([3])
    world.until(lambda: world.agreed(0, 1, 2))
    world.lazy = ()
    world.until(lambda: bool(world.up[0].machine.entries))
    world.cut = set()
    world.until(lambda: world.agreed(0, 1, 2, 3))
    world.step(10.0)


def test_a_fit_that_began_at_zero_is_not_gone_on_with_after_another_set_began_there() -> None:
    world = Told(4)
    return_to_zero(world)
    held = world.up[0].machine.memory.held
    assert held is not None
    assert held.start
    assert held.count > 3


def test_if_it_were_gone_on_with_two_sets_would_meet_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (agreement_module, views_module):
        monkeypatch.setattr(module, "may_meet", lambda record, set_, start: True)
    with pytest.raises(Unlucky, match="point"):
        return_to_zero(Told(4))


def grow_apart(world: Told) -> None:
    """Let the last of five vote alone, and two late ones join the first four, of which three say yes and hear no more.

    The two and the first then take over the vote of the last, and the three are left to themselves.
    """
    world.start_all(5)
    world.until(lambda: world.agreed(0, 1, 2, 3, 4))
    world.deaf = {(4, b) for b in range(4)}
    world.until(lambda: bool(world.up[4].machine.model))
    world.part([4])

    def newest(k: int) -> View | None:
        return world.up[k].machine.agreement.proposal

    def said_yes(k: int, late: int) -> bool:
        view = world.up[k].machine.agreement.proposal
        return view is not None and view.ids == (0, 1, 2, 3, *range(5, late + 1))

    for late in (5, 6):
        world.start(late)
    for late in (5, 6):
        world.until(lambda late=late: said_yes(0, late))  # type: ignore[misc]
        world.deaf = {(4, b) for b in range(4)}

        def close_ears(late: int = late) -> None:
            world.deaf |= {(b, k) for k in (1, 2, 3) if said_yes(k, late) for b in range(7)}

        world.after_each = close_ears
        world.until(lambda late=late: all(said_yes(k, late) for k in (1, 2, 3)))  # type: ignore[misc]
        world.until(lambda: world.up[0].machine.agreement.view is world.up[0].machine.agreement.proposal)
    world.after_each = Told.after_each
    world.deaf, world.cut = set(), {frozenset((a, b)) for a in (1, 2, 3) for b in (0, 4, 5, 6)}
    world.until(lambda: world.final(0, 4, 5, 6))
    world.step(60.0)


def test_a_yes_to_a_late_member_makes_it_count_also_if_one_hears_no_more_of_it() -> None:
    world = Told(7, late=(5, 6))
    grow_apart(world)
    assert sorted(world.waiting()) == [1, 2, 3]


class CountsLater(Agreement):
    def say_yes(self, view: View, now: float) -> None:
        voters = self.memory.voters
        super().say_yes(view, now)
        self.memory.voters = voters

    def enter(self, view: View) -> None:
        super().enter(view)
        self.memory.voters = view.voters


class Apart(Told):
    class machine(WatchedMachine):
        agrees_by = CountsLater


def test_if_it_counted_only_from_when_the_view_is_made_two_models_would_be_final() -> None:
    with pytest.raises(Unlucky, match="models"):
        grow_apart(Apart(7, late=(5, 6)))


def return_with_old_voters(world: Told) -> None:
    """Let a late one take the place of one that is away, which comes back when another has left for ever."""
    world.lazy = range(world.n)
    world.start_all(4)
    world.until(lambda: world.agreed(0, 1, 2, 3))
    world.end(0)
    world.until(lambda: world.agreed(1, 2, 3))
    world.start(4)
    world.until(lambda: world.agreed(1, 2, 3, 4))
    world.end(3)
    world.until(lambda: world.agreed(1, 2, 4))
    world.start(0)
    world.step(60.0)


def test_who_has_not_heard_of_a_late_member_goes_by_the_others_majority() -> None:
    world = Told(late=(4,))
    return_with_old_voters(world)
    assert world.agreed(0, 1, 2, 4)


class GoesByItsOwn(Agreement):
    def is_majority(self, view: View, statuses: dict[int, MemberStatus]) -> bool:
        return super().is_majority(view, statuses) and has_majority(view.ids, self.memory.voters, statuses)


class Own(Told):
    class machine(WatchedMachine):
        agrees_by = GoesByItsOwn


def test_if_it_went_by_its_own_they_would_wait_for_ever() -> None:
    world = Own(late=(4,))
    return_with_old_voters(world)
    assert not world.agreed(0, 1, 2, 4)


def come_together(world: Told) -> None:
    """Let three late ones come at once when one of four has left for ever."""
    world.lazy = range(world.n)
    world.start_all(4)
    world.until(lambda: world.agreed(0, 1, 2, 3))
    world.end(3)
    for member in (4, 5, 6):
        world.start(member)
    world.step(40.0)


def test_late_ones_that_come_at_once_are_taken_in_one_after_another() -> None:
    world = Told(7, late=(4, 5, 6))
    come_together(world)
    assert world.agreed(0, 1, 2, 4, 5, 6)


class AdmitsAll(Agreement):
    def _admitted(self, ids: list[int], statuses: dict[int, MemberStatus]) -> list[int]:
        return ids


class Crowd(Told):
    class machine(WatchedMachine):
        agrees_by = AdmitsAll


def test_if_they_were_taken_in_at_once_all_would_wait_for_ever() -> None:
    world = Crowd(7, late=(4, 5, 6))
    come_together(world)
    assert not any(one.machine.agreement.view for one in world.up.values())


def wait_for_slow_answers(world: Told) -> None:
    """Let seven agree along a line, where answers take longer to come back than a proposal is waited for."""
    world.neighbours = tuple(tuple(k for k in (me - 1, me + 1) if 0 <= k < 7) for me in range(7))
    world.lazy = range(7)
    world.start_all(7)
    world.step(60.0)


def test_a_proposal_whose_answers_take_long_is_waited_for_longer_the_next_time() -> None:
    world = Told(7)
    wait_for_slow_answers(world)
    assert world.agreed(*range(7))


def test_if_it_were_not_nobody_would_ever_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement_module, "MOST_DOUBLINGS", 0)
    world = Told(7)
    wait_for_slow_answers(world)
    assert not world.agreed(*range(7))
