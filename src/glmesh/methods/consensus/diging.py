"""DIGing, gradient tracking (Nedić, Olshevsky and Shi, 2017)."""

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from glmesh.core import NetworkInfo, Outbox, Rounds
from glmesh.errors import InvalidInput
from glmesh.methods.consensus.base import Consensus, positive
from glmesh.methods.consensus.replicas import Copies
from glmesh.methods.consensus.samples import Constants, Samples
from glmesh.problem import Problem
from glmesh.types import Matrix


@dataclass(frozen=True)
class Diging(Consensus):
    """Gradient tracking: w_k <- sum_l W_kl w_l - a y_k;  y_k <- sum_l W_kl y_l + grad F_k(new w_k) - grad F_k(w_k).

    w_k is node k's copy of the coefficients; y_k tracks the mean of all gradients.

    Parameters
    ----------
    step : float, "auto" or None, default None
        Step size a; None is the one that the theory allows, "auto" the best of a grid.
    constants : Constants, optional
        Smoothness and strong convexity; None computes both from every node's data.
    order : {"combine-first", "adapt-first"}, default "combine-first"
        "combine-first" as above, two vectors in one exchange; "adapt-first" mixes after the step, W(w - a y) and
        W(y + change), one vector in each of two exchanges, and stands larger steps. On the complete graph the latter is
        gradient descent.
    subgradients : bool, default False
        Take subgradients where the penalty has a kink, as the paper's comparison on a Lasso must have done; no theory
        covers that, and the method ends near the optimum, not at it.
    """

    order: Literal["combine-first", "adapt-first"] = field(default="combine-first", kw_only=True)
    subgradients: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order not in ("combine-first", "adapt-first"):
            raise InvalidInput(f"order must be 'combine-first' or 'adapt-first', got {self.order!r}")

    def default_step(self, constants: Constants, info: NetworkInfo) -> float:
        """Return the step size with the best rate that Qu and Li (2018) prove.

        Without strong convexity it is (1 - sigma)^2/(160 L). Their rate is the spectral radius of a 3 x 3 matrix that
        bounds (error of y, disagreement, error of the mean); sigma is the second largest absolute eigenvalue of W, L
        the smoothness. `constants` has L and the strong convexity, `info` the mixing matrix W.
        """
        L, mu = positive(constants.smoothness), constants.strong_convexity
        sigma = max(abs(info.spectrum[0]), abs(info.spectrum[1])) if info.n_nodes > 1 else 0.0
        safe = (1.0 - sigma) ** 2 / (160.0 * L)
        if not mu > 0:
            return safe
        steps = np.geomspace(1e-8, 1.0, 400) / L
        rates = [
            np.abs(
                np.linalg.eigvals(
                    [
                        [sigma + L * a, L * (a * L + 2.0), a * L * L],
                        [a, sigma, 0.0],
                        [0.0, a * L, max(abs(1.0 - mu * a), abs(1.0 - L * a))],
                    ]
                )
            ).max()
            for a in steps
        ]
        best = int(np.argmin(rates))
        return float(steps[best]) if rates[best] < 1.0 else safe

    def check(self, problem: Problem) -> None:
        """Raise UnsuitablePair unless the objective of `problem` is smooth.

        With `subgradients` an L1 penalty is accepted too.
        """
        penalty = problem.spec.penalty
        table = None if isinstance(penalty, list) else penalty.as_table()
        unbounded = table is not None and bool(np.isneginf(table.lo).all() and np.isposinf(table.hi).all())
        if not (self.subgradients and unbounded):
            super().check(problem)

    def _gradients(self, block: Samples, w: Matrix) -> Matrix:
        """Return the gradient of each hosted node's part of the objective at its copy w_k, shape (n_hosted, p).

        With `subgradients` it includes a subgradient of the L1 penalty.
        """
        gradients = block.gradients(w)
        if self.subgradients and block.nonsmooth is not None and (nonsmooth := block.nonsmooth.as_table()) is not None:
            gradients += nonsmooth.l1 * np.sign(w)
        return gradients

    def begin(self, block: Samples, state: Copies) -> Copies:
        """Return the state before round 0, in which each node's estimate of the mean gradient is its own gradient."""
        gradient = self._gradients(block, state.w)
        return replace(state, old={"gradient": gradient, "y": gradient.copy()})

    def round(self, block: Samples, state: Copies) -> Rounds:
        """Make one round: one gradient.

        Coefficients w and tracked gradients y are exchanged together or one after the other. The latter if `order` is
        "adapt-first". A generator: yields each Outbox to exchange, and is sent the Halo that came back.
        """
        w, y, before = state.w, state.old["y"], state.old["gradient"]
        if self.order == "adapt-first":
            halo = yield Outbox(w - state.step * y)
            w = halo.mix(np.empty_like(w), threads=block.threads)
            gradient = self._gradients(block, w)
            halo = yield Outbox(y + (gradient - before))
            y = halo.mix(np.empty_like(w), threads=block.threads)
        else:
            halo = yield Outbox(np.hstack([w, y]))
            mixed = halo.mix(np.empty((block.size, 2 * block.p)), threads=block.threads)
            w = mixed[:, : block.p] - state.step * y
            gradient = self._gradients(block, w)
            y = mixed[:, block.p :] + (gradient - before)
        state.advance(block, w, old={"y": y, "gradient": gradient})
