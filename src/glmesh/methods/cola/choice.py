"""Which accelerator runs: the only module that decides (docs/communications.md, "What auto does").

| when | accelerator | why |
|---|---|---|
| round 0, `acceleration` is given | that one; "momentum" for sums with certificates under faults | as asked for |
| round 0, other options rule acceleration out | none | an option is named |
| round 0, matrix gossip that may lose messages one way | none | the mean of the estimates would be lost |
| round 0, all nodes are neighbours | exact sums or Newton's method, if they suit | a sum is one exchange |
| round 0, else | momentum | fewest communications on most networks |
| momentum has used the exchanges of 40 sums (Newton: 5) | exact sums or Newton's method, on trial | a long run |
| a trial wins less than half per exchange | momentum, next trial 4 times as late | sums were slower |
| sums win nothing several times in a row | momentum | nothing more to win |
| a part of a sum is missing | momentum | the network does not stand still |
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from glmesh.collectives.totals import exchanges_per_sum
from glmesh.core import Block
from glmesh.errors import UnsuitablePair
from glmesh.methods.cola import exact_sums, newton
from glmesh.methods.cola.iterate import initial_variables

ACCELERATIONS = ("auto", "momentum", "sums", "newton", "none")
EXACT = ("sums", "newton")  # accelerators that make exact sums

# [sums] exchanges of momentum before sums are tried: easy problems end earlier
MOMENTUM_FIRST = 40
# [sums] exchanges of momentum before Newton's method, which is done after a few sums
MOMENTUM_BEFORE_NEWTON = 5
# [sums] momentum's decrease of H per exchange is averaged over the exchanges of 10 sums
PROGRESS_WINDOW = 10
# [sums] before a trial can pass
SHORTEST_TRIAL = 5
# [sums] before a trial has failed: conjugate gradients begin slowly
LONGEST_TRIAL = 40
# share of momentum's decrease per exchange that sums must win to pass: in the end whoever converges wins little
REQUIRED_PROGRESS = 0.5
# factor of the exchanges before the next trial after one that failed
TRIAL_BACKOFF = 4
# [sums] in a row that win nothing before momentum takes over
MOST_IDLE = 6

Switch = tuple[str, str]  # (accelerator from now on, why)


@dataclass(frozen=True)
class InitialChoice:
    """The accelerator of round 0, and which exact sums may be tried later; equal at all nodes."""

    name: str  # "none", "momentum", "sums" or "newton"
    why: str
    exact: str = ""  # exact sums that suit all nodes and may be tried: "sums" or "newton"; "": none
    cold: bool = False  # x = 0 at all nodes, so that Ax = 0 is known

    @property
    def extrapolates(self) -> bool:
        """Return whether nodes send estimates of an extrapolated point instead of their own x, as under momentum."""
        return self.name == "momentum"


def initial(acceleration: str, unsuited: str | None, *, reliable: bool, allows_sums: bool) -> Switch:
    """Return (accelerator of round 0, why), from the option `acceleration`.

    `unsuited` names the option that rules acceleration out, None: none does. Not `reliable`: rows may get lost one way.
    `allows_sums`: exact sums go with the rest of the run.
    """
    if acceleration in EXACT and not allows_sums:
        return "momentum", "certificates under faults are not made with exact sums"
    if acceleration != "auto":
        return acceleration, "as asked for"
    if unsuited is not None:
        return "none", f"acceleration needs {unsuited}"
    if not reliable:
        return "none", "plain gossip loses its mean when messages get lost, and momentum would make that worse"
    return "momentum", "it needs fewest communications on most networks, and stands what fails"


def suitable_sums(acceleration: str, blocks: Sequence[Block], any_process: Callable[[bool], bool]) -> str:
    """Return which exact sums suit the nodes of all processes: "newton" before "sums", "" if neither does.

    `any_process(flag)` returns whether the flag is true in any process. Raise UnsuitablePair if Newton's method was
    asked for and does not suit.
    """
    for name, module in (("newton", newton), ("sums", exact_sums)):
        if not any_process(not all(module.suits(block) for block in blocks)):
            return name
        if acceleration == "newton":
            raise UnsuitablePair(
                "acceleration='newton' needs nodes that hold samples, a smooth loss, a penalty that is a square "
                f"and at most {newton.MOST_COEFFICIENTS} coefficients; acceleration='auto' finds what suits"
            )
    return ""


def starts_at_zero(blocks: Sequence[Block], any_process: Callable[[bool], bool]) -> bool:
    """Return whether x = 0 is inside the bounds at the nodes of all processes, so that a cold start has Ax = 0.

    `any_process(flag)` returns whether the flag is true in any process.
    """
    return not any_process(any(initial_variables(block).any() for block in blocks))


@dataclass
class AccelerationChoice:
    """Decides when to switch between momentum and exact sums.

    The decisions are a function of values all nodes share, so all switch in the same round.
    """

    exact: str  # what is tried: "sums" or "newton", which never fails once it is tried; "": nothing
    exchanges_per_sum: int
    next_trial: int  # round in which the next trial begins
    lead: int  # [exchanges] of momentum before a trial
    mark: float = np.nan  # H at the start of momentum's progress window; NaN: not known
    progress: float = np.nan  # decrease of H per exchange by momentum before the trial
    start: float = np.nan  # H when the trial began
    began: int = -1  # round in which the trial began; -1: none is under way
    passed: bool = False  # whether sums stay

    @staticmethod
    def of(block: Block, exact: str) -> AccelerationChoice:
        """Return the choice before round 0; `exact` names what is tried instead of momentum.

        That is "sums", "newton", or "" for nothing.
        """
        by_newton = exact == "newton"
        one = exchanges_per_sum(block, newton.width(block.d) if by_newton else block.d)
        lead = (MOMENTUM_BEFORE_NEWTON if by_newton else MOMENTUM_FIRST) * one
        return AccelerationChoice(exact, one, lead, lead)

    def at_start(self, block: Block) -> Switch | None:
        """Return (accelerator, why) of a switch to exact sums in round 0, or None unless all nodes are neighbours."""
        if not self.exact or block.info.diameter > 1:
            return None
        self.passed, self.began = True, 0
        return self.exact, "all are neighbours, so an exact sum takes a single exchange"

    def after_momentum(self, round: int, h: float) -> Switch | None:
        """Return (accelerator, why) of a switch to a trial of exact sums, after `round` rounds; None: no switch.

        h is the smallest objective H that is known; its decrease before the trial is what sums must compete with.
        """
        if not self.exact:
            return None
        window = PROGRESS_WINDOW * self.exchanges_per_sum
        if round == self.next_trial - window:
            self.mark = h
        if round < self.next_trial:
            return None
        self.progress, self.start = 0.0 if np.isnan(self.mark) else (self.mark - h) / window, h
        self.began = round
        return self.exact, f"still going after {round:,} rounds: perhaps it is faster"

    def after_sum(self, round: int, sums: exact_sums.ExactSums | newton.Newton) -> Switch | None:
        """Return (accelerator, why) of a switch back to momentum, after a round of exact sums; None: no switch."""
        if sums.broken:
            return "momentum", "a part of a sum was missing: the network does not stand still"
        if not self.exact:
            return None
        if not self._pays(round, sums.value):
            return "momentum", "exact sums were slower"
        if sums.idle >= MOST_IDLE:
            self.next_trial, self.began, self.passed = sys.maxsize, -1, False
            return "momentum", "exact sums had nothing more to win"
        return None

    def retarget(self, round: int) -> None:
        """Try exact sums in `round`, or keep them if they run, because the problem was replaced by a similar one.

        From the solution of the old problem that of the new one takes few sums.
        """
        if self.began < 0:
            self.next_trial, self.mark = round, np.nan
        else:
            self.passed = True

    def _pays(self, round: int, value: float) -> bool:
        """Return whether exact sums go on, now that the objective is `value`.

        Once they have passed their trial they stay. They pass when they have won REQUIRED_PROGRESS as much per exchange
        as momentum, at any time of the trial.
        """
        if self.passed or self.exact == "newton":
            return True
        exchanges = (round - self.began) * self.exchanges_per_sum
        won = self.start - value
        if round >= self.began + SHORTEST_TRIAL and won >= REQUIRED_PROGRESS * self.progress * exchanges:
            self.passed = True
        if self.passed or round < self.began + LONGEST_TRIAL:
            return True
        self.lead *= TRIAL_BACKOFF
        self.next_trial = round + self.lead
        return False
