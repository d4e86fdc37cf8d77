"""Gap-safe screening of nodes: skip subproblems that provably have nothing to gain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glmesh.core import Block, PerNode, Summed
from glmesh.types import Flags, Matrix, Vector


@dataclass
class Screening:
    """Which nodes skip their local solve: hosted node k does while norm(w_k - anchor_k)^2 <= radius2_k.

    w_k is the gradient of f at the node's estimate, and anchor_k what it was when the radius was computed; within the
    radius the node's subproblem can gain nothing that matters (`Certificate.screening_radius2`).
    """

    anchor: PerNode[Matrix]  # (n_hosted, d) w_k when the radius was computed
    radius2: PerNode[Vector]  # (n_hosted,) squared radius; not positive: the node solves its subproblem
    skipped: Summed[int] = 0  # subproblems skipped so far
    work_saved: Summed[float] = 0.0  # [nonzeros] that the skipped subproblems would have visited

    @staticmethod
    def of(block: Block) -> Screening:
        """Return the state of screening in which every hosted node solves its subproblem.

        A subproblem is a node's local minimisation over its own variables.
        """
        return Screening(np.zeros((block.size, block.d)), np.full(block.size, -1.0))

    def begin(self, k: int, w: Vector, radius2: float) -> None:
        """Let hosted node k skip its subproblem while norm(w_k - w)^2 <= radius2, w_k its gradient, w of shape (d,).

        With radius2 <= 0 the node solves its subproblem in every round. A subproblem is a node's local minimisation
        over its own variables.
        """
        self.radius2[k] = radius2
        if radius2 > 0:
            self.anchor[k] = w

    def invalidate(self, k: int) -> None:
        """Let hosted node k solve its subproblem in every round from now on, until `begin` is called for it again.

        A subproblem is a node's local minimisation over its own variables.
        """
        self.radius2[k] = -1.0

    def screened(self, w: Matrix) -> Flags:
        """Return a mask of shape (n_hosted,), True for each node that skips its subproblem in this round.

        w holds the gradients of f at the nodes' estimates, shape (n_hosted, d). A node whose gradient has moved beyond
        its radius solves its subproblem in every round from now on, until `begin` is called for it. A subproblem is a
        node's local minimisation over its own variables.
        """
        for k in np.flatnonzero(self.radius2 > 0):
            move = w[k] - self.anchor[k]
            if float(move @ move) > self.radius2[k]:
                self.invalidate(int(k))
        return self.radius2 > 0
