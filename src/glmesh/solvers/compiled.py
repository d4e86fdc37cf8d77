"""The default local solver: compiled coordinate descent."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from glmesh.core import Block, PerNode, PerUnit
from glmesh.errors import InvalidInput
from glmesh.functions.separable import GROUPS
from glmesh.kernels.cd import solve_nodes
from glmesh.kernels.order import CYCLIC, SHUFFLED, SYMMETRIC
from glmesh.kernels.subproblem import LocalTask, Memory, Scratch
from glmesh.solvers.base import Subproblems
from glmesh.types import Flags, Matrix, Vector

_ORDERS = {"cyclic": CYCLIC, "shuffled": SHUFFLED, "symmetric": SYMMETRIC}
_NO_ROWS = np.zeros((0, 0))


@dataclass
class DescentMemory:
    """Memory of coordinate descent between rounds: residuals of the nodes, and which units sleep.

    A unit is a column or a group of columns. One whose variables are at a kink or a bound sleeps, that is passes skip
    it, until the residual has moved far enough to free it.
    """

    r: PerNode[Matrix]  # (n_hosted, d) residual w + q A_k D_k that a node's last pass ended with
    wake: PerUnit[Vector]  # (n_units,) a unit sleeps while its node's path is shorter; 0: awake
    path: PerNode[Vector]  # (n_hosted,) upper bound of the length of the path of r since the start


@dataclass(frozen=True)
class CoordinateDescent:
    """Local solver by compiled coordinate descent, for all losses and penalties of glmesh, sparse or dense data.

    Columns that provably cannot move (at a kink or a bound) sleep; skipping them changes no bit of the result.

    Parameters
    ----------
    order : {"symmetric", "cyclic", "shuffled"}, default "symmetric"
        Order of the columns in a pass: forward, backward, forward, ...; always forward; or a fresh permutation for
        every pass, drawn from (seed, node, round, pass).

    Raises
    ------
    InvalidInput
        The order is not one of these.

    Examples
    --------
    >>> import numpy as np
    >>> import glmesh
    >>> from glmesh.solvers import CoordinateDescent
    >>> X, y = np.eye(4), np.array([3.0, 2.0, 1.0, 0.0])
    >>> problem = glmesh.Problem.glm(X, y, penalty="l1", alpha=0.5)
    >>> method = glmesh.Cola(solver=CoordinateDescent("shuffled"))
    >>> glmesh.solve(problem, method=method, n_nodes=2).status.name
    'CONVERGED'
    """

    order: Literal["symmetric", "cyclic", "shuffled"] = "symmetric"

    def __post_init__(self) -> None:
        if self.order not in _ORDERS:
            raise InvalidInput(f"order must be 'cyclic', 'shuffled' or 'symmetric', got {self.order!r}")

    def prepare(self, block: Block) -> DescentMemory:
        """Return the memory of a new run, in which all residuals are zero and no unit (column or group) sleeps.

        A unit that sleeps is skipped by passes.
        """
        return DescentMemory(np.zeros((block.size, block.d)), np.zeros(len(block.units[2])), np.zeros(block.size))

    def forget(self, block: Block, memory: DescentMemory, k: int) -> None:
        """Wake all units (columns or groups) of the k-th hosted node, whose variables were changed from outside.

        A unit that sleeps is skipped by passes. `memory` is what the solver keeps between rounds.
        """
        unit_starts, _, _ = block.units
        memory.wake[int(unit_starts[k]) : int(unit_starts[k + 1])] = 0.0

    def moved(self, block: Block, memory: DescentMemory, changed: Flags) -> None:
        """Wake the units (columns or groups) of the columns whose variables were changed from outside.

        `changed` is a mask of shape (columns,). A unit that sleeps is skipped by passes. `memory` is what the solver
        keeps between rounds.
        """
        if block.kind != GROUPS:
            memory.wake[changed] = 0.0
            return
        _, bounds, _ = block.units
        so_far = np.concatenate(([0], np.cumsum(changed)))[bounds]
        memory.wake[so_far[1:] > so_far[:-1]] = 0.0

    def solve(self, block: Block, memory: DescentMemory, task: Subproblems) -> tuple[Vector, Vector]:
        """Decrease the subproblems of the hosted nodes by coordinate descent, in parallel; write task.x, task.estimate.

        Return (theta, visited), both of shape (n_hosted,): the local accuracy reached, that is the fraction of the
        possible decrease that is left (NaN if none was asked for), and the number of nonzeros visited. `memory` is what
        the solver keeps between rounds.
        """
        assert task.rows is None or not ((task.accuracy >= 0) & (task.passes > 0)).any()
        n_columns, n_units = block.columns.n, len(block.units[2])
        rows = _NO_ROWS if task.rows is None else task.rows
        w = task.w if task.w.strides[0] else task.w[:1].copy()  # one row that is repeated is read once
        afresh = np.zeros(block.size) if task.afresh is None else task.afresh
        theta, visited = np.empty(block.size), np.empty(block.size, dtype=np.uint64)
        scratch = Scratch(
            np.empty(n_columns), np.empty(n_columns), np.empty(n_units, dtype=np.uint64), np.empty(n_units)
        )

        def arguments(nodes: slice) -> tuple[LocalTask, Memory]:
            """Return (LocalTask, Memory) of the hosted nodes in a slice; arrays share memory with those of all."""
            part = LocalTask(
                x=task.x,
                w=w[nodes] if len(w) > 1 else w,
                estimate=task.estimate[nodes],
                q=task.q[nodes],
                step=task.step[nodes],
                gamma=float(task.gamma),
                passes=task.passes[nodes],
                target=task.accuracy[nodes],
                rows=rows[nodes],
                afresh=afresh[nodes],
                order=_ORDERS[self.order],
                seed=np.uint64(block.info.seed),
                round=np.uint64(task.round),
                ids=block.ids[nodes],
                theta=theta[nodes],
                visited=visited[nodes],
            )
            return part, Memory(memory.r[nodes], memory.wake, memory.path[nodes])

        parts, memories = zip(*map(arguments, block.spans), strict=True)
        list(block.threads.map(solve_nodes, block.designs, parts, memories, [scratch] * len(parts)))
        return theta, visited.astype(np.float64)
