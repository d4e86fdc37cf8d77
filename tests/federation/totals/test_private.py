"""Members with a part of the model of their own, under the adversary: nobody has a model without its part of it."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from dataclasses import dataclass, field

import pytest

from glmesh.federation.totals import Beginning, Program, WantedTotal
from glmesh.federation.totals.private import PrivateMachine
from glmesh.types import Unsigned
from tests.cases import cases
from tests.federation.totals.world import TOTALS, Process, Unlucky, WatchedMachine, World, content_of

BATCH = 10  # [schedules] of one test


def part_of(data: int, history: bytes) -> str:
    """A member's own part of the model: it follows from all totals and from the member's data."""
    return hashlib.sha256(data.to_bytes(8, "little") + history).hexdigest()


@dataclass
class Parts:
    """The own parts that programs of one member have come to, by the model that all know."""

    found: dict[bytes, str] = field(default_factory=dict)


def private_toy(data: int, parts: Parts) -> Program:
    """A program whose contributions depend on the member's part so far, which it keeps for itself."""

    def program(beginning: Beginning) -> Generator[WantedTotal, Unsigned, bytes]:
        history = beginning.start.encode()
        for number in range(TOTALS):
            point = hashlib.sha256(history + bytes([number])).digest()
            value = yield WantedTotal(point, content_of(point, data))
            history = point + value.tobytes()
        model = " ".join(map(str, beginning.members)).encode() + b"|" + hashlib.sha256(history).digest()
        parts.found[model] = part_of(data, history)
        return model

    return program


class WatchedPrivate(PrivateMachine, WatchedMachine):
    """Tells the oracle each contribution that is signed."""


class PrivateWorld(World):
    """All members are waited for, and each has a part of its own; a member that cannot get at its part says so."""

    machine: type[WatchedMachine] = WatchedPrivate

    def __init__(self, seed: int) -> None:
        super().__init__(seed, without=False)
        self.late = frozenset()
        self.parts: dict[int, Parts] = {}  # of the program of each process, by the identity of its machine
        self.made: Parts = Parts()
        self.refused = False

    def program(self, member: int, data: int) -> Program:
        self.made = Parts()
        return private_toy(data, self.made)

    def start(self, member: int, *, clone: bool = False) -> None:
        super().start(member, clone=clone)
        process = self.clones[-1] if clone else self.up[member]
        self.parts[id(process)] = self.made

    def poll(self, process: Process) -> None:
        machine = process.machine
        assert isinstance(machine, PrivateMachine)
        if machine.lacks_totals and not machine.agreement.refused:
            machine.refuse("its totals are lost")
            self.refused = True
        super().poll(process)
        if machine.is_final:
            self.judge_part(process)

    def judge_part(self, process: Process) -> None:
        """Whether a member that holds the final model has its own part, the one that follows from all totals."""
        part = self.parts[id(process)].found.get(process.machine.model)
        entries = process.machine.entries
        if part is None:
            raise Unlucky("no part")
        history = entries[-1].request + entries[-1].value.tobytes()
        if len(entries) != TOTALS or part != part_of(process.data, history):
            raise Unlucky("part")


@pytest.mark.parametrize("batch", range(cases(100) // BATCH))
def test_in_no_schedule_has_a_member_a_final_model_without_its_own_part_of_it(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        world = PrivateWorld(seed)
        world.run()
        assert world.refused or not world.waiting(), f"schedule {seed}: {world.waiting()} wait for ever"


class TakesModels(WatchedMachine):
    """Takes a model from others, as members whose model is the same for all do."""

    lacks_totals = False


class WithoutTheRule(PrivateWorld):
    machine = TakesModels

    def poll(self, process: Process) -> None:
        World.poll(self, process)
        if process.machine.is_final:
            self.judge_part(process)


def test_members_that_take_a_model_from_others_would_lack_their_own_part() -> None:
    with pytest.raises(Unlucky, match="part"):
        WithoutTheRule(0).run()
