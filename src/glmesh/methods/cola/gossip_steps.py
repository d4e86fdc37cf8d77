"""How often, and with which polynomial of W, the estimates are mixed in a round without acceleration."""

from dataclasses import dataclass
from typing import Protocol

from glmesh.core import Block
from glmesh.gossip import chebyshev_beta

# beta that gossip_steps="auto" asks of Chebyshev gossip: smaller takes more exchanges a round and fewer rounds;
# source: benchmarks/reports/sensitivity.md
TARGET_BETA = 0.5


class GossipSteps(Protocol):
    """Number of exchanges of one round of gossip, and what they amount to."""

    def count(self, block: Block) -> int:
        """Return B, the exchanges of a round."""

    def beta(self, block: Block) -> float:
        """Return the factor by which the exchanges of a round shrink the disagreement of the estimates at least."""


@dataclass(frozen=True)
class PowerSteps:
    """v <- W^B v by B exchanges."""

    steps: int  # B

    def count(self, block: Block) -> int:
        """Return B, the exchanges of a round."""
        return self.steps

    def beta(self, block: Block) -> float:
        """Return max(|lambda_2|, |lambda_K|)^B of W."""
        low, high = block.info.spectrum
        return float(max(-low, high) ** self.steps)


@dataclass(frozen=True)
class ChebyshevSteps:
    """v <- P(W) v with the polynomial P of degree B, P(1) = 1, that is smallest on the other eigenvalues of W."""

    steps: int | None  # B; None: the fewest that reach TARGET_BETA

    def count(self, block: Block) -> int:
        """Return B, the exchanges of a round."""
        if self.steps is not None:
            return self.steps
        steps = 1
        while chebyshev_beta(block.info.spectrum, steps) > TARGET_BETA:
            steps += 1
        return steps

    def beta(self, block: Block) -> float:
        """Return 1 / T_B at the image of 1 under the map from the other eigenvalues' interval to [-1, 1]."""
        return chebyshev_beta(block.info.spectrum, self.count(block))
