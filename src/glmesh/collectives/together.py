"""Several rounds at once: what all of them ask for travels in one total."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glmesh.core import Rounds
from glmesh.core.totals import Largest, Sums, Total
from glmesh.errors import InvalidInput


def together(rounds: Sequence[Rounds]) -> Rounds:
    """Make the rounds of several problems of one block at once; return the list of what each of them returns.

    Whenever some of them ask for a total, the fields of all of these travel in one; the same holds for maxima, which go
    first. A round that is done waits for the others, and sends nothing.
    """
    returned: dict[int, Any] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(rounds)))
    asked: dict[int, Total | Largest] = {}
    while len(returned) < len(rounds):
        for number, answer in answers.items():
            try:
                asked[number] = rounds[number].send(answer)
            except StopIteration as end:
                returned[number] = end.value
        answers = {}
        maxima = {number: one for number, one in asked.items() if isinstance(one, Largest)}
        totals = {number: one for number, one in asked.items() if isinstance(one, Total)}
        if len(maxima) + len(totals) < len(asked):
            raise InvalidInput("rounds that are made together may ask for totals and maxima only, not for messages")
        if maxima:
            answers = yield from _maxima(maxima)
        elif totals:
            answers = yield from _totals(totals)
        for number in answers:
            del asked[number]
    return [returned[number] for number in range(len(rounds))]


def _maxima(asked: dict[int, Largest]) -> Rounds:
    """Return the maxima that each round asked for, by its number, from one exchange."""
    found = yield Largest(np.hstack([one.numbers for one in asked.values()]))
    ends = np.cumsum([one.numbers.shape[1] for one in asked.values()])
    return dict(zip(asked, np.split(found, ends[:-1]), strict=True))


def _totals(asked: dict[int, Total]) -> Rounds:
    """Return the sums that each round asked for, by its number, from one total with the fields of all."""
    fields = {f"{number} {name}": rows for number, one in asked.items() for name, rows in one.fields.items()}
    sizes = {
        f"{number} {name}": size
        for number, one in asked.items()
        if one.like is not None
        for name, size in one.like.sizes.items()
    }
    sums = yield Total(fields, like=Sums({}, sizes))
    return {
        number: Sums(
            {name: sums[f"{number} {name}"] for name in one.fields},
            {name: sums.sizes[f"{number} {name}"] for name in one.fields},
        )
        for number, one in asked.items()
    }
