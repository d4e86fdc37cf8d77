"""How often, and with which polynomial of W, the estimates are mixed in a round without acceleration."""

from __future__ import annotations

from dataclasses import dataclass

from glmesh.core.block import Block
from glmesh.core.messages import Rounds
from glmesh.gossip.averaging import MatrixGossip, chebyshev_beta
from glmesh.gossip.flows import FlowGossip
from glmesh.types import Flags, Matrix

# beta that gossip_steps="auto" asks of Chebyshev gossip: smaller takes more exchanges a round and fewer rounds;
# source: benchmarks/reports/sensitivity.md
TARGET_BETA = 0.5


@dataclass(frozen=True)
class PowerGossip:
    """v <- W^B v by B exchanges."""

    steps: int  # B

    def beta(self, block: Block) -> float:
        """Return max(|lambda_2|, |lambda_K|)^B of W, by which a round shrinks the disagreement at least."""
        low, high = block.info.spectrum
        return float(max(-low, high) ** self.steps)

    def mix(self, block: Block, gossip: MatrixGossip | FlowGossip, up: Flags, scalars: Matrix | None = None) -> Rounds:
        """Make B exchanges; `scalars` ride along with the first, whose Halo is returned."""
        if isinstance(gossip, MatrixGossip):
            first = yield from gossip.step(block, up, scalars)
        else:
            first = yield from gossip.step(block, up)
        for _ in range(self.steps - 1):
            yield from gossip.step(block, up)
        return first


@dataclass(frozen=True)
class ChebyshevGossip:
    """v <- P(W) v with the polynomial P of degree B, P(1) = 1, that is smallest on the other eigenvalues of W."""

    steps: int | None  # B; None: the fewest that reach TARGET_BETA

    def beta(self, block: Block) -> float:
        """Return 1 / T_B at the image of 1 under the map from the other eigenvalues' interval to [-1, 1]."""
        return chebyshev_beta(block.info.spectrum, self._steps(block))

    def mix(self, block: Block, gossip: MatrixGossip | FlowGossip, up: Flags, scalars: Matrix | None = None) -> Rounds:
        """Make B exchanges; `scalars` ride along with the first, whose Halo is returned."""
        assert isinstance(gossip, MatrixGossip)
        return (yield from gossip.chebyshev(block, self._steps(block), scalars))

    def _steps(self, block: Block) -> int:
        if self.steps is not None:
            return self.steps
        steps = 1
        while chebyshev_beta(block.info.spectrum, steps) > TARGET_BETA:
            steps += 1
        return steps


GossipSteps = PowerGossip | ChebyshevGossip
