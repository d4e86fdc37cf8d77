"""Decentralised gradient descent (Nedić and Ozdaglar, 2009; Yuan, Ling and Yin, 2016)."""

from dataclasses import dataclass

import numpy as np

from glmesh.core import NetworkInfo, Outbox, Rounds
from glmesh.methods.consensus.base import Consensus, positive
from glmesh.methods.consensus.replicas import Copies
from glmesh.methods.consensus.samples import Constants, Samples


@dataclass(frozen=True)
class Dgd(Consensus):
    """Decentralised gradient descent: w_k <- sum_l W_kl w_l - a_t grad F_k(w_k) in round t.

    With a constant step it ends near the optimum, not at it. So the step shrinks, unless one is given:
    a_t = 1 / (1/a + mu t/2) if F_k is mu-strongly convex, else a/(t + 1)^(1/2), with a = min(1, 1 + lambda_min(W))/L.
    The distance then falls like 1/t, and no faster.

    Parameters
    ----------
    step : float, "auto" or None, default None
        Constant step size a; None shrinks it as above, "auto" the best of a grid.
    constants : Constants, optional
        Smoothness and strong convexity; None computes both from every node's data.
    """

    def default_step(self, constants: Constants, info: NetworkInfo) -> float:
        """Return the first step size, min(1, 1 + lambda_min(W)) / L, W the mixing matrix.

        lambda_min is its least eigenvalue, L the Lipschitz constant of the nodes' gradients. A constant step may be (1
        + lambda_min(W))/L.
        """
        return min(1.0, 1.0 + info.spectrum[0]) / positive(constants.smoothness)

    def round(self, block: Samples, state: Copies) -> Rounds:
        """Make one round: one gradient at each node, one exchange of the copies of the coefficients.

        The step shrinks with the rounds if none was given. A generator: yields each Outbox to exchange, and is sent the
        Halo that came back.
        """
        step = state.step
        if self.step is None:
            mu = block.constants.strong_convexity
            step = 1.0 / (1.0 / step + 0.5 * mu * state.round) if mu > 0 else step / np.sqrt(state.round + 1.0)
        gradient = block.gradients(state.w)
        halo = yield Outbox(state.w)
        w = halo.mix(np.empty_like(state.w), threads=block.threads)
        gradient *= step
        w -= gradient
        state.advance(block, w, old={})
