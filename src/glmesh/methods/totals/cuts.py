"""Lower bounds of the optimum with an intercept that has no penalty: lines below the objective, as functions of it.

Slopes theta of the losses, one for each row and in the domains of loss*, need not add up to 0 to prove something: for
all coefficients w and intercepts b

    P(w, b) >= -sum loss*(theta) - max_w (-w.X^T theta - penalty(w)) + b sum theta,

a line in b. Two of them, one that rises and one that falls, bound P from below where they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cut:
    """A line below the objective P(w, b) as a function of the intercept b, whatever the coefficients w are.

    P(w, b) >= value + slope (b - at).
    """

    value: float
    at: float  # an intercept
    slope: float  # sum theta
    error: float  # by which `slope` may be wrong

    @property
    def sign(self) -> int:
        """Return 1 if the line rises for sure, -1 if it falls for sure, 0 if it is flat or rounding may make it so."""
        return 0 if abs(self.slope) <= self.error else 1 if self.slope > 0 else -1

    @property
    def is_flat(self) -> bool:
        """Return whether the slope is 0 and not rounded, so that the line alone is a bound."""
        return self.slope == 0.0 and self.error == 0.0


def meeting(rising: Cut, falling: Cut) -> float:
    """Return the least height at which two lines may meet: a lower bound of the objective's minimum.

    With a bend t = s/(s + r) between slopes s and -r it is t of the one and 1 - t of the other at any b; it is monotone
    in each slope, so the least is that of an end of each.
    """
    apart = falling.at - rising.at
    least = float("inf")
    for s in (rising.slope - rising.error, rising.slope + rising.error):
        for r in (-falling.slope - falling.error, -falling.slope + falling.error):
            share = s / (s + r)
            least = min(least, (1.0 - share) * (rising.value + s * apart) + share * falling.value)
    return least


def lower_bound(cuts: Sequence[Cut], new: Cut) -> float:
    """Return the best lower bound of the optimum that a new line gives, alone or with an earlier one of `cuts`.

    It is minus infinity if there is none.
    """
    if new.is_flat:
        return new.value
    pairs = [(new, one) if new.sign > 0 else (one, new) for one in cuts if new.sign * one.sign < 0]
    return max((meeting(*pair) for pair in pairs), default=float("-inf"))


def aim(slope: float, error: float, overshoot: float, cuts: Sequence[Cut]) -> float:
    """Return the sum of theta to aim at from a point where it is `slope`, so that the lines there and here meet.

    theta are the slopes of all rows' losses, whose sum is the slope of the line that they prove. The result has the
    other sign, and `overshoot` times the size or visibly more than `error`, the rounding of `slope`. Where the sign is
    not known, it has one that no line in `cuts` has.
    """
    size = max(overshoot * abs(slope), 8.0 * error)
    rises = any(one.sign > 0 for one in cuts) if abs(slope) <= error else slope > 0
    return -size if rises else size
