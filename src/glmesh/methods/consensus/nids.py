"""NIDS (Li, Shi and Yan, 2019): a step that does not depend on the network."""

from dataclasses import dataclass, replace

import numpy as np

from glmesh.core import NetworkInfo, Outbox, Rounds
from glmesh.methods.consensus.base import Consensus, positive
from glmesh.methods.consensus.replicas import Copies
from glmesh.methods.consensus.samples import Constants, Samples

# [2/L] step of step=None: below 1 it converges on any network, as the paper proves; source:
# benchmarks/reports/sensitivity.md
SHARE_OF_LIMIT = 0.95


@dataclass(frozen=True)
class Nids(Consensus):
    """NIDS: z' = z - w + (I + W)/2 (2 w - w_before - a (grad F(w) - grad F(w_before)));  w' = prox_{a r/K}(z').

    Rows of w_before, w and w' are the nodes' copies of the coefficients in the last, the present and the next round;
    row k of grad F(w) is grad F_k(w_k). The first round begins with z = w - a grad F(w), which needs no exchange.

    Parameters
    ----------
    step : float, "auto" or None, default None
        Step size a; None is the one that the theory allows, "auto" the best of a grid.
    constants : Constants, optional
        Smoothness and strong convexity; None computes both from every node's data.
    """

    composite = True

    def default_step(self, constants: Constants, info: NetworkInfo) -> float:
        """Return the step size 1.9/L: below 2/L the method converges whatever the network.

        L is the Lipschitz constant of the nodes' gradients.
        """
        return 2.0 * SHARE_OF_LIMIT / positive(constants.smoothness)

    def begin(self, block: Samples, state: Copies) -> Copies:
        """Return the state before round 0, after a first proximal gradient step of every node, without exchange."""
        z = block.gradients(state.w)
        z *= -state.step
        z += state.w
        return replace(state, w=block.prox(z, state.step), old={"z": z, "stepped": z})

    def round(self, block: Samples, state: Copies) -> Rounds:
        """Make one round: one gradient, one exchange of a vector over each link, one proximal step at every node.

        A generator: yields each Outbox to exchange, and is sent the Halo that came back.
        """
        w, old = state.w, state.old
        stepped = block.gradients(w)  # w - a grad F(w), in place: with many features it is memory that takes the time
        stepped *= -state.step
        stepped += w
        sent = w + stepped
        sent -= old["stepped"]
        halo = yield Outbox(sent)
        z = halo.mix(np.empty_like(w), threads=block.threads)
        z += sent
        z *= 0.5
        z -= w
        z += old["z"]
        state.advance(block, block.prox(z, state.step), old={"z": z, "stepped": stepped})
