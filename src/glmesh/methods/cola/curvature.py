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
    """Weights h_j of the rows of A_k D in the square q/2 sum_j h_j (A_k D)_j^2 of a subproblem, 0 <= h_j <= 1.

    D is the change of x_k, and q = sigma'/tau.
    """

    kind: Literal["auto", "scalar", "majorant", "hessian"]  # as of `Cola.curvature`
    measures_accuracy: bool  # local accuracy Theta is measured, which needs h = 1

    def weights(self, block: Block, state: Iterate, v: Matrix, *, safeguarded: bool) -> Matrix | None:
        """Return the weights h of the rows at the estimates v, shape (n_hosted, d); None: all are 1.

        v has a row per hosted node, or one for all. The weights are tau times the majorant, which bounds f from above
        everywhere, or times the Hessian. The latter is used with "hessian", where the accelerator is `safeguarded`
        against a rise of the objective H, until H has risen far once.
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
