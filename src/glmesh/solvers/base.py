"""The seam between a method and its local solver.

Node k decreases over D

    <w, A D> + q/2 |A D|^2 + sum_i g_i(x_i + D_i),     q = sigma'/tau,

where w is the gradient of f at the node's estimate; the solver never sees f. A method that knows the curvature of f
better than its Lipschitz constant weighs the rows of the square: q/2 sum_j h_j (A D)_j^2 with 0 <= h_j <= 1.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from glmesh.core import Block
from glmesh.functions import Separable
from glmesh.linalg import Columns
from glmesh.types import Flags, Matrix, Unsigned, Vector


@dataclass
class Subproblems:
    """Subproblems of the n hosted nodes of a block in one round, and where their solutions go.

    Parameters
    ----------
    x : array of shape (columns,)
        Variables of all hosted nodes; a solver writes x + gamma D.
    w : array of shape (n, d)
        Gradient of f at each node's estimate; all rows may be views of one.
    estimate : array of shape (n, d)
        A solver adds step_k q_k A_k D_k to row k.
    q : array of shape (n,)
        sigma'/tau.
    step : array of shape (n,)
        gamma K/q, so that an estimate moves by gamma K A_k D_k.
    gamma : float
        Aggregation: the part of D that is added to x.
    passes : unsigned array of shape (n,)
        Cap of passes over a node's columns; 0: leave the node as it is.
    accuracy : array of shape (n,)
        Local accuracy Theta at which to stop; negative: make all passes.
    round : int
        Round of the run, for seeding randomness.
    rows : array of shape (n, d), optional
        Weights h_k of the square, in C order; None: all ones. Never together with an accuracy.
    afresh : array of shape (n,), optional
        Where the norm of q_k A_k D_k is at most afresh_k times that of w_k, A_k D_k is needed to full relative
        precision, which the difference of two residuals lacks; None: nowhere.
    """

    x: Vector
    w: Matrix
    estimate: Matrix
    q: Vector
    step: Vector
    gamma: float
    passes: Unsigned
    accuracy: Vector
    round: int
    rows: Matrix | None = None
    afresh: Vector | None = None


class LocalSolver(Protocol):
    """Protocol of solvers that improve all nodes of a block at once.

    Configuration is frozen; `memory`, what a solver keeps from round to round, is what `prepare` returned. It is saved
    with a run if it is a dataclass whose fields are annotated as `glmesh.core.state` says. `NodewiseSolver` is the
    simpler seam: one node at a time, without a memory.
    """

    def prepare(self, block: Block) -> Any:
        """Return the memory of a new run.

        Parameters
        ----------
        block : Block
            Columns and penalty terms of the hosted nodes.

        Returns
        -------
        object or None
            The memory; None if the solver keeps nothing.

        Raises
        ------
        UnsuitablePair
            The solver cannot handle the penalty of a node.
        """
        ...

    def forget(self, block: Block, memory: Any, k: int) -> None:
        """Drop what the memory holds about the variables of the k-th hosted node: they were changed from outside.

        Parameters
        ----------
        block : Block
            The hosted nodes.
        memory : object or None
            What `prepare` returned.
        k : int
            Position of the node in the block.
        """
        ...

    def moved(self, block: Block, memory: Any, changed: Flags) -> None:
        """Drop what the memory holds about some variables of the block: they were changed from outside.

        Parameters
        ----------
        block : Block
            The hosted nodes.
        memory : object or None
            What `prepare` returned.
        changed : array of bool of shape (columns,)
            The columns whose variables were changed.
        """
        ...

    def solve(self, block: Block, memory: Any, task: Subproblems) -> tuple[Vector, Vector]:
        """Decrease the subproblems of all hosted nodes; write task.x and task.estimate.

        Parameters
        ----------
        block : Block
            The hosted nodes.
        memory : object or None
            What `prepare` returned.
        task : Subproblems
            The subproblems of this round.

        Returns
        -------
        theta : array of shape (n,)
            Local accuracy reached; NaN where none was asked for, 0 without columns, 1 without passes.
        visited : array of shape (n,)
            Nonzeros visited.
        """
        ...


@dataclass(frozen=True)
class NodeTask:
    """Subproblem of one node, for solvers that handle one node at a time.

    Parameters
    ----------
    columns : Columns
        A, of shape (d, n).
    g : Separable
        Penalty term of the node.
    x : array of shape (n,)
        Variables before the round; not to be written to.
    w : array of shape (d,)
        Gradient of f at the node's estimate.
    q : float
        sigma'/tau.
    passes : int
        Cap of passes over the columns.
    accuracy : float or None
        Local accuracy Theta at which to stop; None: make all passes.
    key : tuple of int
        (seed, node id, round): seed randomness with it, and a resumed run makes the same steps.
    rows : array of shape (d,), optional
        Weights h of the square; None: all ones. A solver may ignore them: its steps are then shorter, not wrong.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh.functions import L2
    >>> from glmesh.linalg.columns import Columns
    >>> from glmesh.solvers import NodeTask
    >>> task = NodeTask(Columns.of(np.eye(2)), L2(1.0), np.zeros(2), np.array([2.0, 0.0]), 1.0, 1, None, (0, 0, 0))
    >>> task.gap_and_decrease(np.array([-1.0, 0.0]))  # the minimiser: no gap
    (0.0, 1.0)
    """

    columns: Columns
    g: Separable
    x: Vector
    w: Vector
    q: float
    passes: int
    accuracy: float | None
    key: tuple[int, int, int]
    rows: Vector | None = None

    def gap_and_decrease(self, x_new: Vector) -> tuple[float, float]:
        """Return (duality gap of the subproblem at x_new, its decrease since x), without row weights.

        Theta is reached when gap <= Theta * decrease; the gap is infinite where no dual point is feasible.

        Parameters
        ----------
        x_new : array of shape (n,)
            Variables of the node.

        Returns
        -------
        gap : float
            Upper bound of what the subproblem can still decrease by.
        decrease : float
            Value of the subproblem at x minus its value at x_new.
        """
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
    """Return an upper bound of what a node can gain in its subproblem: the duality gap at D = 0.

    Parameters
    ----------
    block : Block
        The hosted nodes.
    k : int
        Position of the node in the block.
    x : array of shape (columns of the node,)
        Variables of the node.
    w : array of shape (d,)
        Gradient of f at the node's estimate.
    q : float
        sigma'/tau.

    Returns
    -------
    float
        The gap; 0 for a node without columns, infinite where no dual point is feasible.
    """
    columns = block.node_columns(k)
    if columns.n == 0:
        return 0.0
    task = NodeTask(columns, block.terms[k], x, w, q, 1, None, (0, 0, 0))
    return task.gap_and_decrease(x)[0]


class NodewiseSolver(ABC):
    """Base of solvers that handle one node at a time and keep no memory: implement `solve_node`.

    Examples
    --------
    Proximal gradient steps (`examples/plot_own_solver.py` compares them with the default):

    >>> import numpy as np
    >>> import glmesh
    >>> from glmesh.linalg.norms import spectral_norm
    >>> from glmesh.solvers import NodewiseSolver
    >>> class ProximalGradient(NodewiseSolver):
    ...     def solve_node(self, task):
    ...         step, z = 1.0 / (task.q * spectral_norm(task.columns) ** 2), task.x
    ...         for _ in range(task.passes):
    ...             slope = task.columns.transposed_dot(task.w + task.q * task.columns.dot(z - task.x))
    ...             z = task.g.prox(z - step * slope, step)
    ...         return z
    >>> problem = glmesh.Problem.glm(np.eye(4), np.array([3.0, 2.0, 1.0, 0.0]), penalty="l1", alpha=0.5)
    >>> result = glmesh.solve(problem, method=glmesh.Cola(solver=ProximalGradient()), n_nodes=2, tol=1e-9)
    >>> [round(float(value), 6) for value in result.coef]
    [2.5, 1.5, 0.5, 0.0]
    """

    @abstractmethod
    def solve_node(self, task: NodeTask) -> Vector:
        """Return new variables of the node, at which the subproblem is lower than at task.x.

        Parameters
        ----------
        task : NodeTask
            The node's subproblem.

        Returns
        -------
        array of shape (n,)
            x + D; a new array, or task.x itself.
        """

    def check(self, g: Separable) -> None:  # noqa: B027 (most solvers take any g)
        """Refuse penalties that the solver cannot handle; by default none is refused.

        Parameters
        ----------
        g : Separable
            Penalty term of a node.

        Raises
        ------
        UnsuitablePair
            The solver cannot handle g; the message says which solver can.
        """

    def prepare(self, block: Block) -> None:
        """Check the penalty of every hosted node; return None, the memory of a solver that keeps none."""
        for g in block.terms:
            self.check(g)

    def forget(self, block: Block, memory: None, k: int) -> None:  # noqa: B027 (there is nothing to forget)
        """Do nothing when the variables of a node were changed from outside: there is no memory to forget."""

    def moved(self, block: Block, memory: None, changed: Flags) -> None:  # noqa: B027 (there is nothing to forget)
        """Do nothing when some variables of the block were changed from outside: there is no memory to forget."""

    def solve(self, block: Block, memory: None, task: Subproblems) -> tuple[Vector, Vector]:
        """Call `solve_node` for one hosted node after the other; write task.x and task.estimate.

        Return (theta, visited), both of shape (n_hosted,): the local accuracy reached, that is the fraction of the
        possible decrease that is left (NaN if none was asked for), and the number of nonzeros visited.
        """
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
