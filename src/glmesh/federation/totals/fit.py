"""A fit as a program: a generator that asks for totals one after another and ends with a model.

The program is a function of the totals alone, at all members alike. So a member that was away repeats it on the totals
that others hold, without contributing to any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

from glmesh.errors import GlmeshError
from glmesh.federation.totals.bundles import Conflict, Question
from glmesh.federation.totals.machine import Machine
from glmesh.types import Unsigned


class Refusal(GlmeshError):
    """Raised by the program of a fit that will not contribute to a total.

    `public` is what other members may read, the message is for the user of this site.
    """

    def __init__(self, message: str, *, public: str = "") -> None:
        super().__init__(message)
        self.public = public or message


class Unequal(Refusal):
    """Raised where another member's request for a total differs from this member's own by more than rounding.

    A total is a sum over all members.
    """


@dataclass(frozen=True, eq=False)
class WantedTotal:
    """What a program yields: its request for the next total, with this member's contribution; it is sent the sum."""

    request: bytes  # equal at all members
    content: Unsigned  # (numbers,) this member's contribution
    marks: int = 0  # numbers at its beginning that are 0 or 1, of which it is wanted where any member has a 1
    again: bool = False  # the total before had a misfit: the same once more in larger grains


@dataclass(frozen=True)
class Beginning:
    """Argument of a program: the members of the fit, its first point, and requests of others to be taken over."""

    members: tuple[int, ...]  # of the view, ascending
    start: str  # seed of the first point; empty: zero
    requests: Mapping[int, bytes]  # requests that must be taken in place of the program's own, by place from 0


Program = Callable[[Beginning], Generator[WantedTotal, Unsigned, bytes]]  # returns the model


class Runner:
    """Runs a member's program on the totals (sums over all members) of its machine.

    Begins the program anew when another fit is taken up.
    """

    def __init__(self, machine: Machine, program: Program) -> None:
        self.machine, self._program = machine, program
        self._fit = ""  # name of the fit that the program is in
        self._requests: dict[int, bytes] = {}
        self._running: Generator[WantedTotal, Unsigned, bytes] | None = None
        self._wanted: WantedTotal | None = None
        self.refusal: Refusal | None = None  # why the program ended without a model
        self._at = 0  # place of the total that is wanted for, from 0
        self._numbers = (0, 0)  # (number, attempt) of that total

    def advance(self, now: float) -> None:
        """Send the program all totals (sums over all members) that are there.

        Then ask for the next one, or vote for the model that it returns. `now` is the time in [s]. A Refusal of the
        program is stored in `refusal` and told to all members.
        """
        view, memory = self.machine.program_view, self.machine.memory
        if view is None or memory.held is None or self.machine.agreement.refused:
            return
        try:
            if memory.held.fit != self._fit:
                self._fit, self._requests = memory.held.fit, {}
                self._begin()
            if self.machine.conflict is not None:
                self._take(self.machine.conflict)
            self._run(now)
        except Refusal as error:
            self.refusal = error
            self.machine.refuse(error.public)

    @property
    def totals(self) -> int:
        """Return the number of totals that the program has been sent."""
        return self._at

    @property
    def request(self) -> bytes:
        """Return the program's present request for a total (a sum over all members); empty if it wants none."""
        return b"" if self._wanted is None else self._wanted.request

    def _begin(self) -> None:
        """Start the program from its beginning, and run it up to its first request for a total.

        A total is a sum over all members.
        """
        view, held = self.machine.program_view, self.machine.memory.held
        assert view is not None
        assert held is not None
        self._running = self._program(Beginning(view.ids, held.start, dict(self._requests)))
        self._wanted, self._at, self._numbers = next(self._running), 0, (1, 1)

    def _run(self, now: float) -> None:
        """Send the program the totals (sums over all members) that it has not had, one after another.

        Then ask the machine for the next one. `now` is the time in [s].
        """
        entries = self.machine.entries
        while self._wanted is not None and self._at < len(entries):
            entry = entries[self._at]
            if entry.request != self._wanted.request:
                self._requests[self._at] = entry.request
                self._begin()
                continue
            self._send(entry.value)
        if self._wanted is not None and not self.machine.is_asking:
            self.machine.ask(self._question(self._numbers[1]), now)

    def _question(self, attempt: int) -> Question:
        """Return the program's present request as a Question to the machine; `attempt` is its number, from 1."""
        wanted = self._wanted
        assert wanted is not None
        return Question(wanted.request, wanted.content, self._fit, self._at, self._numbers[0], attempt, wanted.marks)

    def _send(self, value: Unsigned) -> None:
        """Send a total (a sum over all members), shape (numbers,), to the program.

        Keep its next request, or vote for the model that it returns.
        """
        assert self._running is not None
        self._at += 1
        try:
            self._wanted = self._running.send(value)
        except StopIteration as end:
            self._wanted = None
            self.machine.finish(end.value)
            return
        number, attempt = self._numbers
        self._numbers = (number, attempt + 1) if self._wanted.again else (number + 1, 1)

    def _take(self, conflict: Conflict) -> None:
        """Repeat the program with the request of the member with the lowest id in place of its own.

        `conflict` has that request, for which the machine is then wanted.
        """
        self._requests[self._at] = conflict.request
        place = self._at
        self._begin()
        for entry in self.machine.entries[:place]:
            self._send(entry.value)
        self.machine.resolve(self._question(conflict.attempt), conflict.attempt)
