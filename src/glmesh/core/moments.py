"""Mean and sum of squares of all nodes' rows, from totals, with the same bits at all nodes.

Two totals bring the moments of any number of expressions: first the sums of x, then, about the mean m that these give,
the sums of x - m and (x - m)^2. So nothing cancels where a mean is large against the deviation, as that of timestamps.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

import numpy as np

from glmesh.core.totals import Sums, Total, add_up
from glmesh.errors import Mismatch
from glmesh.formulas import Design, Frame, Moments
from glmesh.parallel import SINGLE_PROCESS, ProcessGroup
from glmesh.types import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Measured:
    """A design with the moments of all rows, and how many of these are 1, or neither 0 nor 1, in each expression."""

    design: Design
    n: int
    ones: Vector  # (q,) for q expressions
    others: Vector  # (q,)


def moment_totals(design: Design, frames: Sequence[Frame]) -> Generator[Total, Sums, Measured]:
    """Yield the two totals that the moments of a design need, be sent their sums, and return the design with moments.

    `frames` are the rows of the hosted nodes, without gaps. Raise Mismatch for a value that is not finite or too large,
    InvalidInput if an expression that is divided by its standard deviation has the same value in all rows.
    """
    named = design.standardised
    values = [[factor.numbers(frame) for factor in named.values()] for frame in frames]
    fields = {"rows": np.array([_counts(own, frame.m) for own, frame in zip(values, frames, strict=True)])}
    for k, one in enumerate(named):
        fields[f"sum {k}"] = _summed([own[k] for own in values], frames, one)
    first = yield Total(fields, at=np.zeros(0))
    n = int(first["rows"][0])
    ones, others = first["rows"][1:].reshape(2, -1)
    means = [float(first[f"sum {k}"][0]) / n for k in range(len(named))]
    less = [[x - mean for x, mean in zip(own, means, strict=True)] for own in values]
    fields = {}
    for k, one in enumerate(named):
        fields[f"less {k}"] = _summed([own[k] for own in less], frames, one)
        fields[f"squares {k}"] = _summed([_squared(own[k]) for own in less], frames, one)
    second = yield Total(fields, at=np.array(means))
    moments = []
    for k, one in enumerate(named):
        off, squares = float(second[f"less {k}"][0]), float(second[f"squares {k}"][0])
        moments.append(Moments(one, n, means[k] + off / n, max(squares - off**2 / n, 0.0)))
    return Measured(design.with_moments(moments), n, ones, others)


def _counts(values: Sequence[Vector], m: int) -> Vector:
    """Return the number m of rows, how many values of each expression are 1, and how many are neither 0 nor 1."""
    ones = [np.count_nonzero(x == 1.0) for x in values]
    others = [np.count_nonzero((x != 0.0) & (x != 1.0)) for x in values]
    return np.array([m, *ones, *others], dtype=np.float64)


def _squared(values: Vector) -> Vector:
    """Return the squares, infinite where they overflow."""
    with np.errstate(over="ignore"):
        return values**2


def _summed(values: Sequence[Vector], frames: Sequence[Frame], expression: str) -> Matrix:
    """Return the sum of each node's values, rounded once, shape (n_hosted, 1); raise Mismatch if one is not finite."""
    sums = []
    for one, frame in zip(values, frames, strict=True):
        try:
            sums.append(fsum(one))
        except OverflowError:
            sums.append(np.inf)
        if not np.isfinite(sums[-1]):
            raise Mismatch(f"{frame.where}: {expression} has values whose squares are too large to be summed")
    return np.array(sums)[:, None]


def with_moments(design: Design, frames: Sequence[Frame], processes: ProcessGroup = SINGLE_PROCESS) -> Design:
    """Return the design with the moments of the rows of all processes; `frames` are those of this one's nodes."""
    if not design.standardised:
        return design
    steps = moment_totals(design, frames)
    sums: Any = None
    n_nodes = sum(processes.all_gather([len(frames)]))
    while True:
        try:
            total = next(steps) if sums is None else steps.send(sums)
        except StopIteration as end:
            measured: Measured = end.value
            return measured.design
        sums = add_up(
            [total],
            n_nodes,
            lambda own: np.vstack(processes.all_gather([own[0]])).sum(axis=0, dtype=np.uint64),
            lambda own: np.vstack(processes.all_gather([own[0]])).max(axis=0),
        )
