"""Curvature of f in the local subproblems: the scalar 1/tau, a bound per row, or the Hessian."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from glmesh.core import Block
from glmesh.methods.cola.iterate import Iterate
from glmesh.types import Matrix

# [1/tau] smallest Hessian entry that a subproblem uses: less would allow steps far beyond where the Hessian is valid;
# source: benchmarks/reports/sensitivity.md
LEAST_HESSIAN = 1e-2


@dataclass(frozen=True)
class Curvature:
    """Weights h_j of the rows in the square q/2 sum_j h_j (A_k D)_j^2 of a node's local subproblem, 0 <= h_j <= 1.

    D is the change of the node's variables, A_k its columns, and q the curvature.
    """

    kind: Literal["auto", "scalar", "majorant", "hessian"]  # as of `Cola.curvature`
    measures_accuracy: bool  # local accuracy Theta is measured, which needs h = 1

    def weights(self, block: Block, state: Iterate, v: Matrix, *, safeguarded: bool) -> Matrix | None:
        """Return the weights h of the rows of the data matrix at the estimates v of Ax, shape (n_hosted, d).

        None: all are 1. v has a row per hosted node, or one for all. The weights are tau times the second derivatives
        of an upper bound of f, or tau times those of f (option "hessian"), 1/tau being the Lipschitz constant of its
        gradient. The latter are used where the accelerator is `safeguarded` against a rise of the objective, until it
        has risen far once.
        """
        if self.kind == "scalar" or block.f.is_quadratic or self.measures_accuracy:
            return None
        if ((state.required_theta > 0) & (state.required_theta < 1)).any():
            return None
        trusted = self.kind == "hessian" and safeguarded and state.overshoots == 0
        if not trusted and not block.f.bends:
            return None
        second = block.f.curvature if trusted else block.f.majorant
        rows = np.stack([second(row) for row in v]) * block.f.tau
        if trusted:
            rows = np.clip(rows, LEAST_HESSIAN, 1.0)
        return np.broadcast_to(rows, (block.size, block.d)).copy()
