"""EXTRA (Shi, Ling, Wu and Yin, 2015)."""

from dataclasses import dataclass

import numpy as np

from glmesh.core import NetworkInfo, Outbox, Rounds
from glmesh.methods.consensus.base import Consensus, positive
from glmesh.methods.consensus.replicas import Copies
from glmesh.methods.consensus.samples import Constants, Samples


def extra_step(constants: Constants, info: NetworkInfo) -> float:
    """Return lambda_min((I + W)/2) / L: half of the largest step size that EXTRA and PG-EXTRA are proven to stand.

    W is the mixing matrix, lambda_min the least eigenvalue, L the Lipschitz constant of the nodes' gradients.
    """
    return 0.5 * (1.0 + info.spectrum[0]) / positive(constants.smoothness)


@dataclass(frozen=True)
class Extra(Consensus):
    """EXTRA: w'' = (I + W) w' - (I + W)/2 w - a (grad F(w') - grad F(w)); the first step is w' = W w - a grad F(w).

    Rows of w, w' and w'' are the nodes' copies of the coefficients in three successive rounds; row k of grad F(w) is
    grad F_k(w_k).

    Parameters
    ----------
    step : float, "auto" or None, default None
        Step size a; None is the one that the theory allows, "auto" the best of a grid.
    constants : Constants, optional
        Smoothness and strong convexity; None computes both from every node's data.
    """

    def default_step(self, constants: Constants, info: NetworkInfo) -> float:
        """Return the step size lambda_min((I + W)/2) / L, half of the largest that is proven to converge.

        W is the mixing matrix, lambda_min the least eigenvalue, L the Lipschitz constant of the nodes' gradients.
        """
        return extra_step(constants, info)

    def round(self, block: Samples, state: Copies) -> Rounds:
        """Make one round: one gradient, one exchange of the copies of the coefficients, one corrected step.

        A generator: yields each Outbox to exchange, and is sent the Halo that came back.
        """
        w, old = state.w, state.old
        gradient = block.gradients(w)
        halo = yield Outbox(w)
        mixed = halo.mix(np.empty_like(w), threads=block.threads)
        if old:
            new = w + mixed - 0.5 * (old["w"] + old["mixed"]) - state.step * (gradient - old["gradient"])
        else:
            new = mixed - state.step * gradient
        state.advance(block, new, old={"w": w, "mixed": mixed, "gradient": gradient})
