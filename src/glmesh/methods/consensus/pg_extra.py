"""PG-EXTRA (Shi, Ling, Wu and Yin, 2015): EXTRA with a proximal step."""

from dataclasses import dataclass

import numpy as np

from glmesh.core import NetworkInfo, Outbox, Rounds
from glmesh.methods.consensus.base import Consensus
from glmesh.methods.consensus.extra import extra_step
from glmesh.methods.consensus.replicas import Copies
from glmesh.methods.consensus.samples import Constants, Samples


@dataclass(frozen=True)
class PgExtra(Consensus):
    """PG-EXTRA: z' = z + W w - (I + W)/2 w_before - a (grad F(w) - grad F(w_before));  w' = prox_{a r/K}(z').

    Rows of w_before, w and w' are the nodes' copies of the coefficients in the last, the present and the next round;
    row k of grad F(w) is grad F_k(w_k).

    Parameters
    ----------
    step : float, "auto" or None, default None
        Step size a; None is the one that the theory allows, "auto" the best of a grid.
    constants : Constants, optional
        Smoothness and strong convexity; None computes both from every node's data.
    """

    composite = True

    def default_step(self, constants: Constants, info: NetworkInfo) -> float:
        """Return the step size lambda_min((I + W)/2) / L, half of the largest that is proven to converge.

        W is the mixing matrix, lambda_min the least eigenvalue, L the Lipschitz constant of the nodes' gradients.
        """
        return extra_step(constants, info)

    def round(self, block: Samples, state: Copies) -> Rounds:
        """Make one round: one gradient, one exchange of the copies of the coefficients, one proximal step.

        A generator: yields each Outbox to exchange, and is sent the Halo that came back.
        """
        w, old = state.w, state.old
        pull = block.gradients(w)  # a grad F(w), and then what the next round takes back of this one
        pull *= state.step
        halo = yield Outbox(w)
        mixed = halo.mix(np.empty_like(w), threads=block.threads)
        z = mixed - pull
        if old:
            z += old["z"]
            z += old["pull"]
        mixed += w
        mixed *= 0.5
        pull -= mixed
        state.advance(block, block.prox(z, state.step), old={"z": z, "pull": pull})
