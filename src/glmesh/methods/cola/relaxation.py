"""A smaller sigma' than gamma K, where it is safe.

The paper's sigma'_min = gamma max |Ax|^2 / sum |A_k x_k|^2 is enough with exact averaging only: on a ring it diverges.
With beta of the mixing that is really used (W, its power, or a Chebyshev polynomial),

    sigma' = sigma'_min + 2 beta gamma K / (1 - beta)

is enough. sigma'_min is gamma times the largest eigenvalue of the sum of the projections onto the ranges of the A_k; a
few power steps, each an exact sum by messages to neighbours, come close from below. So a monitor watches H at the half
step, after gossip and before the local solve, and everybody doubles sigma' (up to the safe gamma K) when it rises.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse.linalg import lsqr

from glmesh.collectives.pipeline import TreeAggregate
from glmesh.collectives.totals import AllReduce
from glmesh.core.block import Block
from glmesh.core.messages import Halo, Rounds
from glmesh.core.state import PerNode, Shared
from glmesh.methods.cola.momentum import parts_of_h
from glmesh.types import Matrix, Vector

_STEPS = 12
_MARGIN = 1.1


@dataclass
class Relaxation:
    """sigma' of a run that looks for it."""

    sigma: Shared[float]
    beat: TreeAggregate
    last: Shared[float] = np.nan  # H at the half step, as last known
    since: Shared[int] = 0  # what is known of earlier rounds does not count
    found: Shared[bool] = False
    parts: PerNode[Vector] = field(default_factory=lambda: np.zeros(0))  # f(v_k)/K + g_k(x_k) at the last half step

    @staticmethod
    def of(block: Block, gamma: float) -> Relaxation:
        """The safe one, before anything is known."""
        return Relaxation(gamma * block.info.n_nodes, TreeAggregate.of(block))

    def find(self, block: Block, gamma: float, beta: float) -> Rounds:
        """Power steps, from a start that all draw alike."""
        z = np.random.default_rng(block.info.seed).standard_normal(block.d)
        matrices = [block.node_columns(k).to_scipy() for k in range(block.size)]
        largest, all_reduce = 1.0, AllReduce()
        for step in range(_STEPS):
            z = z / np.linalg.norm(z)
            parts = np.stack([_project(matrix, z) for matrix in matrices])
            found = yield from all_reduce.sum(block, step, parts, np.zeros((block.size, 1)))
            if found is None:
                return
            largest = max(largest, float(z @ found[0]))
            z = found[0]
            if not z.any():
                break
        slack = 2.0 * beta / (1.0 - beta) if beta < 1 else np.inf
        n_nodes = block.info.n_nodes
        self.sigma = gamma * min(_MARGIN * largest + slack * n_nodes, float(n_nodes))

    def outgoing(self, block: Block) -> Matrix:
        """What rides along with the first exchange of a round."""
        return self.beat.outgoing(block, self.parts if len(self.parts) else np.full(block.size, np.nan))

    def incoming(self, block: Block, halo: Halo, state: Any, gamma: float) -> None:
        """After gossip, at the half step: a rise of H that is confirmed doubles sigma'."""
        h = float(self.beat.incoming(block, halo)[0])
        self.parts = parts_of_h(block, state)
        of = state.round - 1 - 2 * block.info.depth
        if np.isnan(h) or of < self.since:
            return
        if h > self.last + 1e-12 * abs(self.last):
            self.sigma = min(2.0 * self.sigma, gamma * block.info.n_nodes)
            self.since, self.last = state.round + 1, np.nan
        else:
            self.last = h


def _project(matrix: Any, z: Vector) -> Vector:
    """z on the range of the matrix."""
    if matrix.shape[1] == 0:
        return np.zeros_like(z)
    return np.asarray(matrix @ lsqr(matrix, z, atol=1e-6, btol=1e-6, iter_lim=50)[0])
