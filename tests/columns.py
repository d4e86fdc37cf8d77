"""Exact sums over columns in this process: what real sites must come to, with the same bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glmesh import Problem
from glmesh.core import Block
from glmesh.core.block import NetworkInfo
from glmesh.core.totals import Total, add_up
from glmesh.methods.columns.method import ColumnTotals
from glmesh.methods.columns.state import ColumnState
from glmesh.network import topology
from glmesh.types import Indices, Matrix, Unsigned, Vector


@dataclass
class Together:
    """A fit of all nodes: their states, and the fields of each total that was made, a row per node."""

    states: list[ColumnState]
    rounds: int
    totals: list[Total]  # of each node in turn, round after round
    maxima: int  # questions for the largest exponents

    @property
    def coef(self) -> Vector:
        return np.concatenate([one.x for one in self.states])

    def products(self, node: int) -> Matrix:
        """What a node has added to each total with a number per row, a row per total."""
        mine = self.totals[node :: len(self.states)]
        names = "product", "prediction"
        return np.vstack([one.fields[name] for one in mine for name in names if name in one.fields])


def blocks_of(parts: Sequence[Matrix], y: Vector, **objective: Any) -> list[Block]:
    problem = Problem.from_nodes([(X, y) for X in parts], split="features", **objective)
    info = NetworkInfo.of_graph(topology.build("complete", len(parts), 0), 0)
    composites = [data.compose(problem.summary, k) for k, data in enumerate(problem.parts)]
    d = len(y)
    return [Block.of(np.array([k]), info, [one], lambda: np.zeros((1, d))) for k, one in enumerate(composites)]


def together(
    parts: Sequence[Matrix],
    y: Vector,
    *,
    tol: float = 1e-6,
    most: int = 500,
    start: Sequence[Vector] | None = None,
    **objective: Any,
) -> Together:
    """Make rounds of all nodes in turn, sums being added up as integers, until the gap is proven."""
    method, blocks = ColumnTotals(tol), blocks_of(parts, y, **objective)
    begun = [None] * len(blocks) if start is None else list(start)
    states = [method.start(block, x) for block, x in zip(blocks, begun, strict=True)]
    made = Together(states, 0, [], 0)

    def largest(each: list[Indices]) -> Indices:
        made.maxima += 1
        return np.asarray(np.vstack(each).max(axis=0))

    def total(rows: list[Unsigned]) -> Unsigned:
        return np.asarray(sum(one.sum(axis=0, dtype=np.uint64) for one in rows), dtype=np.uint64)

    while made.rounds < most and not states[0].failure:
        steps = [method.round(block, state) for block, state in zip(blocks, states, strict=True)]
        asked = [next(one) for one in steps]
        made.totals += asked
        sums = add_up(asked, len(blocks), total, largest)
        for one in steps:
            assert next_of(one, sums) is None, "a round is one total"
        made.rounds += 1
        if states[0].gap <= tol * abs(states[0].objective):
            break
    return made


def next_of(steps: Any, sums: Any) -> Any:
    try:
        return steps.send(sums)
    except StopIteration:
        return None
