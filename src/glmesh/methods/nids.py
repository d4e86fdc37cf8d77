"""NIDS (Li, Shi and Yan, 2019): a step that does not depend on the network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.block import Facts, Rounds, Rows
from glmesh.methods.consensus import Consensus, Copies, positive
from glmesh.samples import Constants, Samples

_OF_LIMIT = 0.95  # of 2/L, below which it converges on any network


@dataclass(frozen=True)
class Nids(Consensus):
    """z' = z - w + (I + W)/2 (2 w - w_before - a (grad F(w) - grad F(w_before)));  w' = prox_{a r/K}(z').

    It begins with z = w - a grad F(w), which needs no exchange.
    """

    composite = True

    def default_step(self, constants: Constants, facts: Facts) -> float:
        """1.9/L: below 2/L, whatever the network."""
        return 2.0 * _OF_LIMIT / positive(constants.smoothness)

    def begin(self, block: Samples, state: Copies) -> Copies:
        """The step that everybody takes alone."""
        gradient = block.gradients(state.w)
        z = state.w - state.step * gradient
        state.old = {"z": z, "w": state.w, "gradient": gradient}
        state.w = block.prox(z, state.step)
        return state

    def round(self, block: Samples, state: Copies) -> Rounds:
        """One gradient, one exchange, one prox."""
        w, old = state.w, state.old
        gradient = block.gradients(w)
        sent = 2.0 * w - old["w"] - state.step * (gradient - old["gradient"])
        halo = yield Rows(sent)
        mixed = halo.mix(np.empty_like(w), team=block.team)
        mixed += sent
        z = old["z"] - w + 0.5 * mixed
        state.advance(block, block.prox(z, state.step), old={"z": z, "w": w, "gradient": gradient})
