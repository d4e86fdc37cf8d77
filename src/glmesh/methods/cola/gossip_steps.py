"""How often, and with which polynomial of W, the estimates are mixed in a round without acceleration."""

from dataclasses import dataclass
from typing import Protocol

from glmesh.core import Block
from glmesh.gossip import chebyshev_beta

# beta that gossip_steps="auto" asks of Chebyshev gossip: smaller takes more exchanges a round and fewer rounds;
# source: benchmarks/reports/sensitivity.md
TARGET_BETA = 0.5


class GossipSteps(Protocol):
    """Protocol: how many exchanges one round of gossip makes, and by how much they shrink the disagreement.

    Gossip averages the nodes' estimates with their neighbours'.
    """

    def count(self, block: Block) -> int:
        """Return the number of exchanges of one round of gossip.

        Gossip averages the nodes' estimates with their neighbours'.
        """

    def beta(self, block: Block) -> float:
        """Return an upper bound, <= 1, of the factor by which a round of gossip shrinks disagreement.

        Gossip averages the nodes' estimates with their neighbours'.
        """


@dataclass(frozen=True)
class PowerSteps:
    """Plain gossip, B times a round: v <- W^B v, with the mixing matrix W."""

    steps: int  # B

    def count(self, block: Block) -> int:
        """Return the number of exchanges of one round of gossip, as given.

        Gossip averages the nodes' estimates with their neighbours'.
        """
        return self.steps

    def beta(self, block: Block) -> float:
        """Return the factor by which a round shrinks the disagreement of estimates, max(|lambda_2|, |lambda_K|)^B.

        lambda_2 and lambda_K are the second largest and the smallest eigenvalue of the mixing matrix, B = `steps`.
        """
        low, high = block.info.spectrum
        return float(max(-low, high) ** self.steps)


@dataclass(frozen=True)
class ChebyshevSteps:
    """Chebyshev gossip: v <- P(W) v with the polynomial P of degree B, P(1) = 1, smallest on W's other eigenvalues.

    Gossip averages the nodes' estimates with their neighbours'.
    """

    steps: int | None  # B; None: the fewest that reach TARGET_BETA

    def count(self, block: Block) -> int:
        """Return the number of exchanges of a round: as given, or the fewest with `beta` <= TARGET_BETA."""
        if self.steps is not None:
            return self.steps
        steps = 1
        while chebyshev_beta(block.info.spectrum, steps) > TARGET_BETA:
            steps += 1
        return steps

    def beta(self, block: Block) -> float:
        """Return the factor by which a round shrinks the disagreement of estimates, 1 / T_B(x), T_B Chebyshev's.

        B is the number of exchanges, and x the image of 1 under the map from the interval of the mixing matrix's other
        eigenvalues to [-1, 1].
        """
        return chebyshev_beta(block.info.spectrum, self.count(block))
