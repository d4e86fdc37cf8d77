"""The seam between a method and its local solver.

Node k is to decrease  <w, A D> + q/2 |A D|^2 + sum_i g_i(x_i + D_i)  over D. It needs w, the gradient of f at its
estimate, and q = sigma'/tau; it never sees f. Where the caller knows f better than its Lipschitz constant, the square
has a weight per row: q/2 sum_j h_j (A D)_j^2 with 0 <= h_j <= 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from glmesh.core.block import Block
from glmesh.functions import Separable
from glmesh.linalg.columns import Columns
from glmesh.types import Flags, Matrix, Unsigned, Vector


@dataclass
class Subproblems:
    """The subproblems of a block's nodes in one round, and where their solutions go."""

    x: Vector  # in: x; out: x + gamma D
    w: Matrix  # a row per node: the gradient of f at its estimate
    estimate: Matrix  # out: row k += step_k q_k A_k D_k
    q: Vector  # sigma'/tau, per node
    step: Vector  # gamma K / q, per node
    gamma: float
    passes: Unsigned  # cap of passes, per node
    accuracy: Vector  # Theta asked for, per node; negative: none, make the passes
    round: int
    rows: Matrix | None = None  # h, a row per node (C order): the weights of the square; not together with accuracies
    afresh: Vector | None = None  # A_k D_k up to this part of |w_k| needs all digits; a residual would lose some


class LocalSolver(Protocol):
    """Improves all nodes of a block. Configuration is frozen; what it remembers is what `prepare` returns."""

    def prepare(self, block: Block) -> Any:
        """Return what the solver keeps between rounds, None if nothing; refuse, by name, a g it cannot handle."""
        ...

    def forget(self, block: Block, memory: Any, k: int) -> None:
        """The variables of the block's k-th node were changed from outside."""
        ...

    def moved(self, block: Block, memory: Any, changed: Flags) -> None:
        """The variables of these columns of the block were changed from outside."""
        ...

    def solve(self, block: Block, memory: Any, task: Subproblems) -> tuple[Vector, Vector]:
        """Updates task.x and task.estimate; returns (Theta reached or NaN, nonzeros visited), per node.

        Mind that task.afresh may ask for all digits of A_k D_k.
        """
        ...


@dataclass(frozen=True)
class NodeTask:
    """One node's subproblem, for a solver written one node at a time."""

    columns: Columns
    g: Separable
    x: Vector
    w: Vector
    q: float
    passes: int
    accuracy: float | None
    key: tuple[int, int, int]  # (seed, node id, round): seed your randomness with this
    rows: Vector | None = None  # h, the weights of the square; without regard for them steps are shorter, not wrong

    def gap_and_decrease(self, x_new: Vector) -> tuple[float, float]:
        """(duality gap of the subproblem at x_new, its decrease since x): what Theta is about (without weights)."""
        assert self.rows is None
        u = self.columns.dot(x_new - self.x)
        r = self.w + self.q * u
        pulls = -self.columns.transposed_dot(r)
        s = min(1.0, self.g.ray_limit(pulls, np.zeros(())))
        terms = self.g.value(x_new)
        quadratic = float(self.w @ u + 0.5 * self.q * (u @ u))
        away = s * r - self.w
        conjugate = float(self.g.cut_conjugates(s * pulls, np.zeros(())).sum())
        gap = quadratic + float(away @ away) / (2 * self.q) + terms - s * float(pulls @ self.x) + conjugate
        return (max(gap, 0.0) if s >= 0 else np.inf), self.g.value(self.x) - terms - quadratic


def local_gap(block: Block, k: int, x: Vector, w: Vector, q: float) -> float:
    """What the block's k-th node could gain in its subproblem at most: the duality gap at no change."""
    columns = block.node_columns(k)
    if columns.n == 0:
        return 0.0
    task = NodeTask(columns, block.terms[k], x, w, q, 1, None, (0, 0, 0))
    return task.gap_and_decrease(x)[0]


class NodewiseSolver(ABC):
    """Base of solvers that handle one node at a time: implement `solve_node`."""

    def check(self, g: Separable) -> None:  # noqa: B027 (most solvers take any g)
        """Raise UnsuitablePair, saying what would do, if this g cannot be handled."""

    @abstractmethod
    def solve_node(self, task: NodeTask) -> Vector:
        """The node's new variables, from task.x."""

    def prepare(self, block: Block) -> None:
        """Check g of every node; a solver of this kind remembers nothing."""
        for g in block.terms:
            self.check(g)

    def forget(self, block: Block, memory: Any, k: int) -> None:  # noqa: B027 (most remember nothing)
        """The variables of the block's k-th node were changed from outside."""

    def moved(self, block: Block, memory: Any, changed: Flags) -> None:  # noqa: B027 (as above)
        """The variables of these columns of the block were changed from outside."""

    def solve(self, block: Block, memory: Any, task: Subproblems) -> tuple[Vector, Vector]:
        """Node after node."""
        theta, visited = np.full(block.size, np.nan), np.zeros(block.size)
        for k in range(block.size):
            own = block.of_node(k)
            columns, old = block.node_columns(k), task.x[own].copy()
            if columns.n == 0 or task.passes[k] == 0:
                theta[k] = 0.0 if columns.n == 0 else 1.0
                continue
            accuracy = float(task.accuracy[k]) if task.accuracy[k] >= 0 else None
            key = (block.info.seed, int(block.ids[k]), task.round)
            rows = None if task.rows is None else task.rows[k]
            one = NodeTask(
                columns, block.terms[k], old, task.w[k], float(task.q[k]), int(task.passes[k]), accuracy, key, rows
            )
            new = self.solve_node(one)
            if accuracy is not None:
                gap, decrease = one.gap_and_decrease(new)
                theta[k] = gap / (gap + decrease) if decrease > 0 and np.isfinite(gap) else float(gap > 0)
            change = new - old
            task.x[own] = new if task.gamma == 1.0 else old + task.gamma * change
            task.estimate[k] += task.step[k] * task.q[k] * columns.dot(change)
            visited[k] = columns.nnz * int(task.passes[k])
        return theta, visited
