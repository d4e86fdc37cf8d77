"""Risk sets of survival times: who could still have had the event, at each time when somebody had it.

Rows are kept with the latest time first, so that every risk set is a prefix of them, and its deaths end the prefix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from glmesh.types import Flags, Indices, Matrix, Vector

Ties = Literal["efron", "breslow"]
STEP = 100.0  # sums are scaled by exp of a multiple of it: small enough that 1 / exp(-STEP)^2 is finite in float64


@dataclass(frozen=True, eq=False)
class RiskSets:
    """Risk sets of m rows: of G times with an event, with the n <= m rows that are at risk at one of them.

    A set is the rows order[:ends[g]]; those who have the event at its time, its deaths, are order[starts[g]:ends[g]].
    The first set is that of the latest event. The partial likelihood has T terms, weighted logarithms of sums over a
    set in which the deaths count with a factor f: one term a set after Breslow, as many as deaths after Efron.
    """

    order: Indices  # (n,) numbers of the rows, latest time first; of equal times those without event first
    weight: Vector  # (n,) their weights, > 0
    starts: Indices  # (G,)
    ends: Indices  # (G,)
    term_starts: Indices  # (G,) first term of each set
    term_set: Indices  # (T,) set of each term
    factor: Vector  # (T,) f, 1 >= f > 0
    term_weight: Vector  # (T,) mean weight of a set's deaths after Efron, their sum after Breslow

    @staticmethod
    def of(y: Vector, weight: Vector, ties: Ties) -> RiskSets:
        """Return the risk sets of rows with times abs(y), y > 0 where the event happened, as `Cox` has them.

        y and the weights >= 0 have shape (m,); rows of weight 0 are left out.
        """
        there = np.flatnonzero(weight > 0)
        there = there[np.lexsort((y[there] > 0, -np.abs(y[there])))]
        times, is_event = np.abs(y[there]), y[there] > 0
        of_time = np.cumsum(np.append(False, times[1:] != times[:-1])[: len(times)])  # number of each row's time
        deaths = np.bincount(of_time[is_event], minlength=1)
        has_event = np.flatnonzero(deaths)
        deaths = deaths[has_event]
        ends = np.searchsorted(of_time, has_event, side="right")
        n = int(ends.max(initial=0))
        counts = deaths if ties == "efron" else np.ones_like(deaths)
        term_starts = np.cumsum(counts) - counts
        term_set = np.repeat(np.arange(len(ends)), counts)
        place = np.arange(len(term_set)) - term_starts[term_set]
        weights = weight[there[:n]]
        mass = _sums(weights[is_event[:n]], np.cumsum(deaths) - deaths)
        return RiskSets(
            there[:n],
            weights,
            ends - deaths,
            ends,
            term_starts,
            term_set,
            1.0 - place / counts[term_set],
            (mass / counts)[term_set],
        )

    @property
    def n(self) -> int:
        """Return the number of rows that are at risk at an event."""
        return len(self.order)

    @property
    def size(self) -> int:
        """Return the number G of risk sets that have an event."""
        return len(self.ends)

    @cached_property
    def set_of(self) -> Indices:
        """Return for each of the n rows the first set that it is in, counted from that of the latest event."""
        return np.asarray(np.repeat(np.arange(self.size), np.diff(self.ends, prepend=0)))

    @cached_property
    def is_death(self) -> Flags:
        """Return a mask of the n rows, true for those with an event."""
        return np.arange(self.n) >= self.starts[self.set_of]

    @cached_property
    def deaths(self) -> Indices:
        """Return the places in `order` of all rows with an event, set after set."""
        return np.flatnonzero(self.is_death)

    @cached_property
    def mean_weight(self) -> Vector:
        """Return the mean weight of the deaths of each set, shape (G,)."""
        return np.asarray(self.over_deaths(self.weight[self.deaths]) / (self.ends - self.starts))

    @cached_property
    def death_starts(self) -> Indices:
        """Return where in `deaths` those of each set begin, shape (G,)."""
        count = self.ends - self.starts
        return np.asarray(np.cumsum(count) - count)

    def over_terms(self, values: Vector) -> Vector:
        """Return the sum of values, one per term, over the terms of each set, shape (G,)."""
        return _sums(values, self.term_starts)

    def over_deaths(self, values: Matrix) -> Matrix:
        """Return the sum of values, one or a row of them per death, over the deaths of each set: G sums."""
        return _sums(values, self.death_starts)

    def at(self, z: Vector) -> RiskSums:
        """Return the sums over the sets at log hazard ratios z of the m rows, shape (m,)."""
        return RiskSums(self, np.log(self.weight) + z[self.order], z[self.order])


@dataclass(frozen=True, eq=False)
class RiskSums:
    """Sums of r = weight exp(z) over risk sets, each divided by exp of a scale near its logarithm.

    P is the sum over those of a set who do not have the event at its time, D that over its deaths. A term has
    S = P + f D and a = (weight of the term) / S. Scales grow from row to row, never fall.
    """

    sets: RiskSets
    logs: Vector  # (n,) logarithms of r
    z: Vector  # (n,) log hazard ratios, in the order of the sets

    @cached_property
    def scale(self) -> Vector:
        """Return the scale of each row, shape (n,), a multiple of STEP: the sum of r up to the row is about its exp."""
        return STEP * np.ceil(np.maximum.accumulate(self.logs) / STEP)

    @cached_property
    def set_scale(self) -> Vector:
        """Return the scale of each set, that of its last row, shape (G,): its sums are divided by the scale's exp."""
        return self.scale[self.sets.ends - 1]

    @cached_property
    def r(self) -> Vector:
        """Return r exp(-scale) of each row, shape (n,)."""
        return np.exp(self.logs - self.scale)

    @cached_property
    def up_to(self) -> Vector:
        """Return the sum of r over each row and those before it, over exp(scale), shape (n,)."""
        return running_sums(self.r, self.scale)

    @cached_property
    def before(self) -> Vector:
        """Return the sum of r over the rows before each row, over exp(scale of the row itself), shape (n,)."""
        out = np.zeros(self.sets.n)
        out[1:] = self.up_to[:-1] * np.exp(self.scale[:-1] - self.scale[1:])
        return out

    @cached_property
    def alive(self) -> Vector:
        """Return the sum of r over the rows of each set that survive its time, over exp(set_scale), shape (G,)."""
        return self.before[self.sets.starts] * np.exp(self.scale[self.sets.starts] - self.set_scale)

    @cached_property
    def _dead(self) -> tuple[Vector, Vector]:
        """Return what `dead` and `shares` say of the deaths of each set, shapes (G,) and (deaths,)."""
        sets = self.sets
        of = sets.set_of[sets.deaths]
        logs = self.logs[sets.deaths]
        highest = np.maximum.reduceat(logs, sets.death_starts) if sets.size else logs
        r = np.exp(logs - highest[of])
        sums = sets.over_deaths(r)
        return sums * np.exp(highest - self.set_scale), r / sums[of]

    @property
    def dead(self) -> Vector:
        """Return the sum of r over the deaths of each set, over exp(set_scale), shape (G,)."""
        return self._dead[0]

    @property
    def shares(self) -> Vector:
        """Return the share of each death in the sum of r over the deaths of its set, shape (deaths,)."""
        return self._dead[1]

    @cached_property
    def S(self) -> Vector:
        """Return S = P + f D of each term, over exp(set_scale), shape (T,): the sum that its logarithm is taken of."""
        return self.alive[self.sets.term_set] + self.sets.factor * self.dead[self.sets.term_set]

    @cached_property
    def a(self) -> Vector:
        """Return a = (weight of the term) / S of each term, times exp(set_scale), shape (T,)."""
        return self.sets.term_weight / self.S

    @cached_property
    def hazard(self) -> Vector:
        """Return the increase of the cumulative hazard at the time of each set, times exp(set_scale), shape (G,)."""
        return self.sets.over_terms(self.a)

    @cached_property
    def expected(self) -> Vector:
        """Return the expected number of events of each row while it was at risk, times its weight, shape (n,)."""
        sets, out = self.sets, self.r * self.to_rows(self.hazard)
        own = sets.over_terms(self.a * sets.factor) * self.dead
        out[sets.deaths] += own[sets.set_of[sets.deaths]] * self.shares
        return np.asarray(out)

    @property
    def value(self) -> float:
        """Return the loss, >= 0, as `Cox` defines it."""
        sets, deaths = self.sets, self.sets.deaths
        above = self.set_scale[sets.set_of[deaths]] - self.z[deaths]
        return float(sets.term_weight @ np.log(self.S / sets.mean_weight[sets.term_set]) + sets.weight[deaths] @ above)

    def to_rows(self, values: Matrix) -> Matrix:
        """Return the sum of values, one or a row per set, over the sets in which each row counts whole: n sums.

        These are all sets that the row is in, but for the one at whose time it has the event. `values` are given times
        exp(set_scale), as `hazard` is; what is returned is times exp(scale of the row).
        """
        sets = self.sets
        later = running_sums(values[::-1], -self.set_scale[::-1])[::-1]
        first = sets.set_of + sets.is_death
        out = np.zeros((sets.n, *values.shape[1:]))
        some = first < sets.size
        down = np.exp(self.scale[some] - self.set_scale[first[some]])
        out[some] = (later[first[some]].T * down).T
        return out


def running_sums(values: Matrix, scale: Vector, before: tuple[Matrix, float] | None = None) -> Matrix:
    """Return sum_{i <= j} values_i exp(scale_i - scale_j) for every j, in the shape of `values`.

    `scale`, one number for each j, never falls and is mostly constant. `before` is (the last sum, its scale) of what
    goes before; None: nothing does.
    """
    out = np.empty_like(values)
    breaks = np.flatnonzero(np.diff(scale)) + 1
    for start, stop in zip([0, *breaks], [*breaks, len(values)], strict=True):
        if start == stop:
            break
        np.cumsum(values[start:stop], axis=0, out=out[start:stop])
        if before is not None:
            out[start:stop] += before[0] * np.exp(before[1] - scale[start])
        before = out[stop - 1], float(scale[start])
    return out


def _sums(values: Matrix, starts: Indices) -> Matrix:
    """Return the sums of values between starts[g] and starts[g + 1], the last up to the end; no such span is empty."""
    if not len(starts):
        return np.zeros((0, *values.shape[1:]))
    return np.asarray(np.add.reduceat(values, starts, axis=0))
