"""The option sigma="safe": a sigma' below gamma K that is still enough.

The paper's sigma'_min = gamma max |Ax|^2 / sum |A_k x_k|^2 is enough with exact averaging only: on a ring it diverges.
With beta of the mixing that is really used (W, its power, or a Chebyshev polynomial),

    sigma' = sigma'_min + 2 beta gamma K / (1 - beta)

is enough. sigma'_min is gamma times the largest eigenvalue of the sum of the projections onto the ranges of the A_k; a
few power steps, each an exact sum by messages to neighbours, come close from below. So all nodes watch H at the half
step, after gossip and before the local solve, and double sigma' (up to the safe gamma K) when it rises.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse.linalg import lsqr

from glmesh.collectives.pipeline import TreeAggregate
from glmesh.collectives.totals import AllReduce
from glmesh.core import Block, PerNode, Riding, Rounds, Shared
from glmesh.gossip import Gossip
from glmesh.methods.cola.gossip_steps import GossipSteps
from glmesh.types import Flags, SampleMatrix, Vector

# [sums] power steps for sigma'_min: more come closer to it, from below, and cost an exact sum each;
# source: benchmarks/reports/sensitivity.md
POWER_STEPS = 12
# factor of the estimate of sigma'_min, which is one from below: larger is safer and slower;
# source: benchmarks/reports/sensitivity.md
EIGENVALUE_MARGIN = 1.1
# [parts of H] rise of H beyond which sigma' counts as too small; less is rounding, because H is a sum of K numbers
RISE_ROUNDING = 1e-12


@dataclass
class Relaxation:
    """State of sigma="safe": a search for the smallest relaxation sigma' with which the objective H falls.

    sigma' multiplies the curvature of all local subproblems; it is equal at all nodes. H = (1/K) sum f(v_k) + g(x).
    """

    gamma: Shared[float]  # aggregation
    sigma: Shared[float]  # sigma' in use
    aggregate: TreeAggregate  # sum over all nodes that makes H at the half step
    h: Shared[float] = np.nan  # H at the half step as last known, of round - 1 - 2 depth; NaN: not known yet
    last: Shared[float] = np.nan  # H before that; NaN: none since `restart_round`
    restart_round: Shared[int] = 0  # H of earlier rounds is ignored
    found: Shared[bool] = False  # whether sigma'_min has been estimated
    parts: PerNode[Vector] = field(default_factory=lambda: np.zeros(0))  # (n_hosted,) f(v_k)/K + g_k(x_k) at half step

    @staticmethod
    def of(block: Block, gamma: float) -> Relaxation:
        """Return the search before round 0: the relaxation sigma' is the safe gamma K, and no objective is known yet.

        gamma is the aggregation and K the number of nodes.
        """
        return Relaxation(gamma, gamma * block.info.n_nodes, TreeAggregate.of(block))

    def mix(self, block: Block, gossip: Gossip, up: Flags, steps: GossipSteps) -> Rounds:
        """Make the exchanges of a round of gossip.

        Messages also carry a node's part f(v_k)/K + g_k(x_k) of the objective. `steps` says how many exchanges; `up` is
        a mask of shape (n_hosted,). Sets `h`, the newest objective that is known. The first call estimates the
        relaxation sigma' before its exchanges. A generator: yields each Outbox to exchange, and is sent the Halo that
        came back. K is the number of nodes.
        """
        if not self.found:
            self.found = True
            yield from self._find(block, steps.beta(block))
        parts = self.parts if len(self.parts) else np.full(block.size, np.nan)
        riding = Riding(scalars=self.aggregate.outgoing(block, parts))
        halo = yield from gossip.mix(block, up, steps.count(block), riding)
        self.h = float(self.aggregate.incoming(block, halo)[0])

    def watch(self, block: Block, parts: Vector, round: int) -> None:
        """Store the hosted nodes' parts of the objective H at this half step; double sigma' if H has risen.

        `parts` are f(v_k)/K + g_k(x_k), shape (n_hosted,). The half step is after gossip and before the local solve. H,
        their sum over all nodes, is known 2 depth + 1 rounds late, depth being that of the spanning tree; the
        relaxation sigma' stays at most gamma K. Gossip averages the nodes' estimates with their neighbours'.
        """
        self.parts = parts
        if np.isnan(self.h) or round - 1 - 2 * block.info.depth < self.restart_round:
            return
        if self.h > self.last + RISE_ROUNDING * abs(self.last):
            self.sigma = min(2.0 * self.sigma, self.gamma * block.info.n_nodes)
            self.restart_round, self.last = round + 1, np.nan
        else:
            self.last = self.h

    def _find(self, block: Block, beta: float) -> Rounds:
        """Set the relaxation sigma' by power steps, each an exact sum, from a random vector that all nodes draw alike.

        sigma' multiplies the curvature of every node's local problem; it stays gamma K (aggregation times number of
        nodes) if a sum lacks some node's vector. `beta` is the factor by which a round of gossip shrinks disagreement.
        A generator: yields each Outbox to exchange, and is sent the Halo that came back.
        """
        z = np.random.default_rng(block.info.seed).standard_normal(block.d)
        matrices = [block.node_columns(k).to_scipy() for k in range(block.size)]
        largest, all_reduce = 1.0, AllReduce()
        for step in range(POWER_STEPS):
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
        self.sigma = self.gamma * min(EIGENVALUE_MARGIN * largest + slack * n_nodes, float(n_nodes))


def _project(matrix: SampleMatrix, z: Vector) -> Vector:
    """Return the vector nearest to z in the range of `matrix`, shape (d,), by least squares.

    `matrix` has shape (d, n), z shape (d,).
    """
    if matrix.shape[1] == 0:
        return np.zeros_like(z)
    return np.asarray(matrix @ lsqr(matrix, z, atol=1e-6, btol=1e-6, iter_lim=50)[0])
