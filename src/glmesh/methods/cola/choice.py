"""Whether exact sums are faster than momentum: found out by trying, when a run goes on for long."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

from glmesh.collectives.totals import exchanges_per_sum
from glmesh.core.block import Block
from glmesh.methods.cola.newton import width

_LEAD = 40  # sums are tried when momentum has used as many exchanges as so many: what an easy problem needs
_NEWTONS_LEAD = 5  # the same of Newton's method, which is done after a few
_LOOK = 10  # and as many exchanges as so many sums are what momentum is judged by
_LEAST = 5  # sums before they can pass
_LENGTH = 40  # sums that make a trial: conjugate gradients begin slowly


@dataclass
class Trial:
    """Everybody counts alike and knows the same values, so everybody decides alike."""

    exact: str  # what is tried: "sums", or "newton", which never fails once it is tried
    waits: int  # exchanges of one sum
    next: int  # the round in which the next trial begins
    lead: int
    mark: float = np.nan  # H some exchanges before the trial
    pace: float = np.nan  # what momentum won since then, per exchange
    start: float = np.nan  # H when the trial began
    began: int = -1  # the round in which it did
    passed: bool = False

    @staticmethod
    def of(block: Block, exact: str) -> Trial:
        """Before the first, of these."""
        newton = exact == "newton"
        one = exchanges_per_sum(block, width(block.d) if newton else block.d)
        lead = (_NEWTONS_LEAD if newton else _LEAD) * one
        return Trial(exact, one, lead, lead)

    def begins(self, round: int, h: float) -> bool:
        """Whether a trial begins, now that momentum has done so many rounds and H was this."""
        look = _LOOK * self.waits
        if round == self.next - look:
            self.mark = h
        if round < self.next:
            return False
        self.pace, self.start = 0.0 if np.isnan(self.mark) else (self.mark - h) / look, h
        self.began = round
        return True

    def pause(self) -> None:
        """No more of them, unless the problem changes."""
        self.next, self.began, self.passed = sys.maxsize, -1, False

    def hasten(self, round: int) -> None:
        """The problem is another, and its solution is near: that takes few sums, so they are tried at once."""
        if self.began < 0:
            self.next, self.mark = round, np.nan
        else:
            self.passed = True

    def pays(self, round: int, value: float) -> bool:
        """Whether sums go on, now that the objective is this; once they have passed they stay.

        They pass when they have won half as much per exchange as momentum had, at any time of the trial: who converges
        wins little in the end.
        """
        if self.passed or self.exact == "newton":
            return True
        exchanges = (round - self.began) * self.waits
        if round >= self.began + _LEAST and self.start - value >= 0.5 * self.pace * exchanges:
            self.passed = True
        if self.passed or round < self.began + _LENGTH:
            return True
        self.lead *= 4
        self.next = round + self.lead
        return False
