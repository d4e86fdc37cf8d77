"""DAPG (Ye, Zhou, Luo and Zhang, 2020), which without a penalty is Mudag (Ye, Luo, Zhou and Zhang, 2020)."""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from glmesh.core import Halo, NetworkInfo, Outbox, Rounds
from glmesh.errors import InvalidInput
from glmesh.methods.consensus.base import Consensus, positive
from glmesh.methods.consensus.replicas import Copies
from glmesh.methods.consensus.samples import Constants, Samples
from glmesh.types import Matrix

# least factor by which a mix divides disagreement: larger takes more exchanges a round; source:
# benchmarks/reports/sensitivity.md
LEAST_REDUCTION = 50.0


@dataclass(frozen=True)
class Dapg(Consensus):
    """Accelerated proximal gradients on tracked gradients, with M steps of accelerated gossip after each.

    s' = mix(s + grad F(y) - grad F(y_before));  w' = mix(prox_{a r}(y - a s'));  y' = w' + b (w' - w).
    b = (1 - q)/(1 + q), q = (mu a)^(1/2); without strong convexity b is that of FISTA.
    A round costs 2M exchanges of one vector.

    Parameters
    ----------
    step : float, "auto" or None, default None
        Step size a; None is the one that the theory allows, "auto" the best of a grid.
    constants : Constants, optional
        Smoothness and strong convexity; None computes both from every node's data.
    gossip_steps : int, optional
        M; None is enough to divide disagreement by 4 (L/mu)^(1/2), and by 50 at least.
    """

    gossip_steps: int | None = field(default=None, kw_only=True)

    composite = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gossip_steps is not None and (not isinstance(self.gossip_steps, int) or self.gossip_steps < 1):
            raise InvalidInput(f"gossip_steps must be a whole number >= 1 or None, got {self.gossip_steps!r}")

    def default_step(self, constants: Constants, info: NetworkInfo) -> float:
        """Return the step size 1/L, the largest that is proven to converge.

        L is the Lipschitz constant of the nodes' gradients.
        """
        return 1.0 / positive(constants.smoothness)

    def steps(self, constants: Constants, info: NetworkInfo) -> int:
        """Return the exchanges of each mix: `gossip_steps` if given, else enough to make the nodes' copies agree.

        Enough divides disagreement by 4 (L/mu)^(1/2), and by LEAST_REDUCTION at least, by FastMix's bound 14^(1/2)
        eta^(M/2) of the disagreement that is left after M exchanges; L is the Lipschitz constant of the nodes'
        gradients, mu their strong convexity, eta that of `_eta`.
        """
        if self.gossip_steps is not None:
            return self.gossip_steps
        eta = _eta(info)
        if eta == 0.0:
            return 1
        mu = constants.strong_convexity
        factor = max(LEAST_REDUCTION, 4.0 * np.sqrt(constants.smoothness / mu)) if mu > 0 else LEAST_REDUCTION
        return int(np.ceil(2.0 * np.log(np.sqrt(14.0) * factor) / -np.log(eta)))

    def begin(self, block: Samples, state: Copies) -> Copies:
        """Return the state before round 0: extrapolated copies are the copies, and tracked gradients are zero."""
        zero = np.zeros_like(state.w)
        return replace(state, old={"y": state.w, "s": zero, "gradient": zero, "t": np.ones((1, 1))})

    def round(self, block: Samples, state: Copies) -> Rounds:
        """Make one round: a gradient, exchanges that mix tracked gradients, a proximal step, exchanges of copies.

        A generator: yields each Outbox to exchange, and is sent the Halo that came back.
        """
        old, steps = state.old, self.steps(block.constants, block.info)
        gradient = block.gradients(old["y"])
        s = yield from self._mix(block, old["s"] + (gradient - old["gradient"]), steps)
        # every node applies r/K to a K-th of the gradient, so mean and sum differ by K on both sides
        w = yield from self._mix(block, block.prox(old["y"] - state.step * s, state.step), steps)
        mu, t = block.constants.strong_convexity, old["t"]
        if mu > 0:
            q = min(np.sqrt(mu * state.step), 1.0)
            push, after = (1.0 - q) / (1.0 + q), t
        else:
            after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
            push = float((t[0, 0] - 1.0) / after[0, 0])
        y = w + push * (w - state.w)
        state.advance(block, w, old={"y": y, "s": s, "gradient": gradient, "t": after})

    def _mix(self, block: Samples, rows: Matrix, steps: int) -> Generator[Outbox, Halo, Matrix]:
        """Return `rows`, shape (n_hosted, p), after `steps` exchanges of FastMix: x <- (1 + eta) W x - eta x_before.

        W is the mixing matrix and eta the momentum of `_eta`. A generator: yields each Outbox to exchange, and is sent
        the Halo that came back.
        """
        eta, before = _eta(block.info), rows
        for _ in range(steps):
            halo = yield Outbox(rows)
            mixed = halo.mix(np.empty_like(rows), threads=block.threads)
            mixed *= 1.0 + eta
            mixed -= eta * before
            before, rows = rows, mixed
        return rows

    def grid(self, constants: Constants, info: NetworkInfo) -> list[list[Self]]:
        """Return rows of candidates for step="auto": copies of this method with steps of 2^-4 to 2^3 times 1/L.

        A list of lists, ascending in the step: one for each of M, M/2, M/4 and M/8 exchanges per mix; a single one if
        `gossip_steps` is given. L is the Lipschitz constant of the nodes' gradients.
        """
        most, top = self.steps(constants, info), positive(constants.smoothness)
        counts = [self.gossip_steps] if self.gossip_steps else sorted({max(1, most // part) for part in (1, 2, 4, 8)})
        steps = [2.0**power / top for power in range(-4, 4)]
        return [[replace(self, step=step, gossip_steps=count) for step in steps] for count in counts]


def _eta(info: NetworkInfo) -> float:
    """Return the momentum eta of FastMix: (1 - r)/(1 + r) with r = (1 - sigma^2)^(1/2); 0 for a single node.

    sigma is the second largest absolute eigenvalue of the mixing matrix W.
    """
    sigma = min(max(abs(info.spectrum[0]), abs(info.spectrum[1])), 1.0 - 1e-12) if info.n_nodes > 1 else 0.0
    root = np.sqrt(1.0 - sigma * sigma)
    return float((1.0 - root) / (1.0 + root)) if sigma > 1e-9 else 0.0
