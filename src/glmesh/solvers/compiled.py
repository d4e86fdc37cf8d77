"""The default: compiled coordinate descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from glmesh.core.block import Block
from glmesh.core.state import PerNode, PerUnit
from glmesh.errors import InvalidInput
from glmesh.functions.separable import GROUPS
from glmesh.kernels.cd import CYCLIC, SHUFFLED, SYMMETRIC, solve_nodes
from glmesh.solvers.base import Subproblems
from glmesh.types import Flags, Matrix, Vector

_ORDERS = {"cyclic": CYCLIC, "shuffled": SHUFFLED, "symmetric": SYMMETRIC}
_NO_ROWS = np.zeros((0, 0))


@dataclass
class DescentMemory:
    """What coordinate descent keeps between rounds, so that columns that cannot move are skipped."""

    r: PerNode[Matrix]  # (n_hosted, d) residual w + q A_k D_k that a node's last pass ended with
    wake: PerUnit[Vector]  # a unit sleeps until its node's path is longer than this; 0: it is looked at
    path: PerNode[Vector]  # length of the path of r since the start, an upper bound


@dataclass(frozen=True)
class CoordinateDescent:
    """Coordinate descent over the whole catalogue, sparse or dense.

    `order` is "cyclic", freshly "shuffled" for every pass, or "symmetric": forward, backward, forward, ...
    Columns that provably cannot move (at a kink or a bound) sleep; skipping them changes nothing.
    """

    order: Literal["symmetric", "cyclic", "shuffled"] = "symmetric"

    def __post_init__(self) -> None:
        if self.order not in _ORDERS:
            raise InvalidInput(f"order must be 'cyclic', 'shuffled' or 'symmetric', got {self.order!r}")

    def prepare(self, block: Block) -> DescentMemory:
        """Return a memory in which no unit sleeps."""
        return DescentMemory(np.zeros((block.size, block.d)), np.zeros(len(block.units[2])), np.zeros(block.size))

    def forget(self, block: Block, memory: DescentMemory, k: int) -> None:
        """All units of the node are looked at again."""
        unit_starts, _, _ = block.units
        memory.wake[int(unit_starts[k]) : int(unit_starts[k + 1])] = 0.0

    def moved(self, block: Block, memory: DescentMemory, changed: Flags) -> None:
        """The units of these columns are looked at again."""
        if block.kind != GROUPS:
            memory.wake[changed] = 0.0
            return
        _, bounds, _ = block.units
        so_far = np.concatenate(([0], np.cumsum(changed)))[bounds]
        memory.wake[so_far[1:] > so_far[:-1]] = 0.0

    def solve(self, block: Block, memory: DescentMemory, task: Subproblems) -> tuple[Vector, Vector]:
        """The kernel, for all nodes of the block."""
        assert task.rows is None or not ((task.accuracy >= 0) & (task.passes > 0)).any()
        unit_starts, bounds, norms = block.units
        rows = _NO_ROWS if task.rows is None else task.rows
        w = task.w if task.w.strides[0] else task.w[:1].copy()  # rows that are all the same one are read as one
        afresh = np.zeros(block.size) if task.afresh is None else task.afresh
        theta, visited = np.empty(block.size), np.empty(block.size, dtype=np.uint64)

        def some(nodes: slice) -> None:
            ends = slice(nodes.start, nodes.stop + 1)
            solve_nodes(
                block.starts[ends],
                unit_starts[ends],
                bounds,
                block.columns.indptr,
                block.columns.indices,
                block.columns.data,
                norms,
                np.int64(block.kind),
                block.table,
                task.x,
                w[nodes] if len(w) > 1 else w,
                memory.r[nodes],
                task.estimate[nodes],
                task.q[nodes],
                float(task.gamma),
                task.step[nodes],
                task.passes[nodes],
                task.accuracy[nodes],
                _ORDERS[self.order],
                np.uint64(block.info.seed),
                np.uint64(task.round),
                block.ids[nodes],
                rows[nodes],
                afresh[nodes],
                memory.wake,
                memory.path[nodes],
                theta[nodes],
                visited[nodes],
            )

        block.threads.each(some, block.spans)
        return theta, visited.astype(np.float64)
