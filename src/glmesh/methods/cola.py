"""CoLA, Algorithm 1 of the paper, and CoCoA as its special case of exact averaging."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from glmesh.block import Block, Rounds, Rows
from glmesh.errors import InvalidInput
from glmesh.solvers import CoordinateDescent, LocalSolver, Subproblems
from glmesh.types import Matrix, Unsigned, Vector


@dataclass
class ColaState:
    """All that a block of nodes carries from round to round."""

    x: Vector  # the variables of the hosted nodes, node after node
    v: Matrix  # a row per node: its estimate of Ax
    spare: Matrix  # the other buffer of v: rows that were sent stay untouched for one exchange
    w: Matrix  # a row per node: the gradient of f at its mixed estimate
    round: int
    memory: dict[str, Any]  # the local solver's
    theta: Vector = field(default_factory=lambda: np.zeros(0))  # local accuracy reached in the last round
    visited: Vector = field(default_factory=lambda: np.zeros(0))  # nonzeros visited in the last round


@dataclass(frozen=True)
class Cola:
    """v_k <- sum_l W_kl v_l;  x_k <- x_k + gamma D_k;  v_k <- v_k + gamma K A_k D_k, D_k from the local subproblem.

    gamma: aggregation; 1 adds, 1/K averages. sigma: relaxation sigma' of the subproblem; None is the safe gamma*K.
    local_passes: passes over a node's data each round. local_accuracy: the paper's Theta; a node stops as soon as its
    local gap is at most Theta times the decrease so far, and `local_passes` is then the cap. Both may be one for all
    nodes or one per node. gossip_steps: mixing steps each round. solver: the local solver.
    """

    gamma: float = 1.0
    sigma: float | None = None
    local_passes: int | Sequence[int] = 1
    local_accuracy: float | Sequence[float] | None = None
    gossip_steps: int = 1
    solver: LocalSolver = field(default_factory=CoordinateDescent, kw_only=True)

    averages_exactly: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.gamma, int | float | np.number) or not 0 < self.gamma <= 1:
            raise InvalidInput(f"gamma must be in (0, 1], got {self.gamma}")
        if self.sigma is not None and not 0 < self.sigma < np.inf:
            raise InvalidInput(f"sigma must be positive and finite (None is the safe gamma*K), got {self.sigma}")
        passes = np.atleast_1d(np.asarray(self.local_passes))
        if passes.ndim > 1 or passes.dtype.kind not in "iu" or (passes < 0).any() or not passes.any():
            raise InvalidInput(f"local_passes must be whole numbers >= 0, and not all 0; got {self.local_passes!r}")
        if self.local_accuracy is not None:
            theta = np.atleast_1d(np.asarray(self.local_accuracy, dtype=np.float64))
            if not ((theta >= 0) & (theta <= 1)).all():
                raise InvalidInput(f"local_accuracy (Theta) must be between 0 and 1, got {self.local_accuracy!r}")
        if not isinstance(self.gossip_steps, int | np.integer) or self.gossip_steps < 1:
            raise InvalidInput(f"gossip_steps must be a whole number >= 1, got {self.gossip_steps!r}")

    @staticmethod
    def printed() -> Cola:
        """The paper's method exactly: gamma = 1, sigma' = K, one pass, one gossip step; never changed by defaults."""
        solver = CoordinateDescent(order="cyclic")
        return Cola(gamma=1.0, sigma=None, local_passes=1, local_accuracy=None, gossip_steps=1, solver=solver)

    def init(self, block: Block, x: Vector | None = None) -> ColaState:
        """x = 0 (or the nearest feasible point) and v_k = K A_k x_k, which is what keeps the mean of v_k at Ax."""
        for per_node in (self.local_passes, self.local_accuracy):
            self._per_node(per_node, block)  # refuses a wrong length before any work
        v, spare = block.allocate(), block.allocate()
        if x is None:
            x = np.clip(np.zeros(block.columns.n), block.table[:, 3], block.table[:, 4])
        x = np.array(x, dtype=np.float64)
        for k in range(block.size):
            own = block.of_node(k)
            if x[own].any():
                v[k] = block.facts.n_nodes * block.node_columns(k).dot(x[own])
        return ColaState(x, v, spare, np.zeros((block.size, block.d)), 0, self.solver.prepare(block))

    def round(self, block: Block, state: ColaState) -> Rounds:
        """One round of Algorithm 1."""
        for _ in range(self.gossip_steps):
            halo = yield Rows(state.v)
            state.v, state.spare = halo.mix(state.spare), state.v
        for k in range(block.size):
            block.f.gradient(state.v[k], out=state.w[k])
        n_nodes = block.facts.n_nodes
        sigma = self.gamma * n_nodes if self.sigma is None else self.sigma
        q = np.full(block.size, sigma / block.f.tau)
        state.theta, state.visited = self.solver.solve(
            block,
            state.memory,
            Subproblems(
                x=state.x,
                w=state.w,
                estimate=state.v,
                q=q,
                step=self.gamma * n_nodes / q,  # eq. (5): gamma K, because v_k tracks K times its own share
                gamma=self.gamma,
                passes=self._per_node(self.local_passes, block).astype(np.uint64),
                accuracy=self._per_node(-1.0 if self.local_accuracy is None else self.local_accuracy, block),
                round=state.round,
            ),
        )
        state.round += 1

    def _per_node(self, value: Any, block: Block) -> Any:
        values = np.atleast_1d(np.asarray(value))
        n_nodes = block.facts.n_nodes
        if len(values) not in (1, n_nodes):
            raise InvalidInput(f"local_passes and local_accuracy need one value, or one for each of {n_nodes} nodes")
        if len(values) == 1:
            return np.repeat(values, block.size)
        picked: Unsigned = values[block.ids.astype(np.int64)]
        return picked


@dataclass(frozen=True)
class Cocoa(Cola):
    """CoCoA: Cola with exact averaging, W = 11^T/K; it talks over the complete graph whatever topology is named."""

    averages_exactly = True
