"""Rounds of several problems made at once: what all of them ask for travels in one total."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glmesh.core.messages import AnyRounds
from glmesh.core.totals import Largest, Sums, Total
from glmesh.errors import InvalidInput
from glmesh.types import Matrix


def together(rounds: Sequence[AnyRounds]) -> AnyRounds:
    """Make the rounds of several problems of one block of nodes at once; return a list of what each round returned.

    `rounds` are generators, one per problem. Whenever some of them ask for totals, the fields of all of them travel in
    one total; maxima likewise, and they go first. A round that is done sends nothing more. Every field is rounded as it
    would be by itself, so each problem is sent the same bits as if it were alone. A generator itself: yields the joint
    requests, and is sent their answers.
    """
    returned: dict[int, Any] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(rounds)))
    requests: dict[int, object] = {}
    while True:
        for number, answer in answers.items():
            try:
                requests[number] = rounds[number].send(answer)
            except StopIteration as end:
                returned[number] = end.value
        if len(returned) == len(rounds):
            return [returned[number] for number in range(len(rounds))]
        maxima = {number: one for number, one in requests.items() if isinstance(one, Largest)}
        totals = {number: one for number, one in requests.items() if isinstance(one, Total)}
        if len(maxima) + len(totals) < len(requests):
            raise InvalidInput("rounds that are made together may ask for totals and maxima only, not for messages")
        if maxima:
            answers = _maxima_of_each(maxima, (yield _all_maxima(maxima)))
        else:
            answers = _sums_of_each(totals, (yield _all_totals(totals)))
        for number in answers:
            del requests[number]


def _all_maxima(requests: Mapping[int, Largest]) -> Largest:
    """Return one request for the maxima of all problems, whose columns of numbers stand side by side.

    `requests` is {number of the problem: its request}.
    """
    return Largest(np.hstack([one.numbers for one in requests.values()]))


def _maxima_of_each(requests: Mapping[int, Largest], found: Any) -> dict[int, Any]:
    """Return {number of the problem: its maxima, shape (n,)}, cut out of `found`, the maxima of all problems.

    `requests` is {number of the problem: its request}.
    """
    ends = np.cumsum([one.numbers.shape[1] for one in requests.values()])
    return dict(zip(requests, np.split(found, ends[:-1]), strict=True))


def _all_totals(requests: Mapping[int, Total]) -> Total:
    """Return one request for the totals of all problems; `requests` is {number of the problem: its request}.

    A field of problem 3 named "h" becomes "3 h", and the points at which they ask follow one another. A total is a sum
    over all nodes.
    """
    fields: dict[str, Matrix] = {}
    sizes: dict[str, float] = {}
    for number, one in requests.items():
        fields |= {f"{number} {name}": rows for name, rows in one.fields.items()}
        known = {} if one.like is None else one.like.sizes
        sizes |= {f"{number} {name}": size for name, size in known.items() if name in one.fields}
    points = [one.at for one in requests.values()]
    known_points = [one for one in points if one is not None]
    at = np.concatenate(known_points) if len(known_points) == len(points) else None
    return Total(fields, like=Sums({}, sizes), at=at, parts=list(requests.values()))


def _sums_of_each(requests: Mapping[int, Total], sums: Sums) -> dict[int, Sums]:
    """Return {number of the problem: Sums of its own fields}, taken from `sums`, which has the fields of all problems.

    `requests` is {number of the problem: its request}.
    """
    return {
        number: Sums(
            {name: sums[f"{number} {name}"] for name in one.fields},
            {name: sums.sizes[f"{number} {name}"] for name in one.fields},
            {name: sums.errors[f"{number} {name}"] for name in one.fields},
        )
        for number, one in requests.items()
    }
