"""Nodes that hold samples and a copy of all coefficients: what consensus methods, and those of your own, run on."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np

from glmesh.core import HostedNodes, Measures, RoundMaker, Setup
from glmesh.errors import InvalidInput
from glmesh.kernels.warm import warm_up
from glmesh.methods.consensus.samples import Constants, Pool, Samples, observe_copies
from glmesh.problem import Problem
from glmesh.types import Flags, Matrix, Vector


@dataclass
class Copies:
    """State of a consensus method at the hosted nodes: their copies w_k of the coefficients, and earlier vectors.

    `old` has the latter by the method's own names.
    """

    w: Matrix  # (n_hosted, p) every node's copy of the coefficients
    step: float = np.nan  # step size; NaN for a method that keeps its own
    visited: Vector = field(default_factory=lambda: np.zeros(0))  # (n_hosted,) nonzeros visited in the last round
    round: int = 0
    old: dict[str, Matrix] = field(default_factory=dict)  # what the method keeps of earlier rounds, by its own names

    @property
    def v(self) -> Matrix:
        """Return the copies w_k of the coefficients, shape (n_hosted, p), which nodes exchange."""
        return self.w

    def advance(self, block: Samples, w: Matrix, old: dict[str, Matrix] | None = None) -> None:
        """End a round in which every node computed one gradient: store the new copies w and `old`; count the round.

        w has shape (n_hosted, p); `old` has arrays that the next round needs, by name; None: there are none.
        """
        self.w, self.round, self.visited, self.old = w, self.round + 1, block.work, old or {}


Begin = Callable[[Samples, Copies], Copies]


class Replicas(HostedNodes[Samples, Copies]):
    """The nodes of a consensus method in this process: blocks of samples, and a copy of the coefficients per node.

    Parameters
    ----------
    method : Method
        The method whose `round` these nodes make.
    setup : Setup
        What the engine gave to `prepare`.
    """

    replicates = True

    def __init__(self, method: RoundMaker[Samples, Copies], setup: Setup) -> None:
        name = type(method).__name__
        if setup.certify:
            raise InvalidInput(f"{name} has no certificates; use stop='gap', or Cola")
        if not setup.plan.is_empty:
            raise InvalidInput(f"{name} is for networks that stand still; use Cola where things fail")
        warm_up()
        pool = Pool.of(setup.problem)
        partition = pool.deal(setup.n_nodes, setup.partition, setup.seed)
        super().__init__(setup, method, setup.connect(), partition)
        self._begin: Begin = lambda block, state: state
        self._given: list[Constants | None] = []  # argument of the last call of `constants`; empty: never called
        self._host(pool)
        self.start(coefficients_of(setup.warm_start, pool.columns.d))

    def _host(self, pool: Pool) -> None:
        """Make the blocks of this process: Samples of its nodes, taken from `pool` as the partition says."""
        setup = self.setup
        self.blocks[:] = [pool.host(ids, self.partition, setup.info, setup.threads) for ids in setup.node_ids]

    def start(self, w: Vector | None = None, begin: Begin | None = None) -> None:
        """Set the states before round 0, every node's copy of coefficients at w: (p,), (K, p) for each, or None for 0.

        `begin(block, copies)` returns the method's first state; it is kept, and called again when the nodes restart.
        None: the method has no state of its own.
        """
        self._begin = begin or self._begin
        rows = np.zeros(self.blocks[0].p) if w is None else np.asarray(w)
        self.states[:] = []
        for block in self.blocks:
            own = rows[block.ids.astype(np.int64)] if rows.ndim == 2 else np.tile(rows, (block.size, 1))
            self.states.append(self._begin(block, Copies(own.copy(), visited=np.zeros(block.size))))

    def constants(self, given: Constants | None) -> Constants:
        """Return the smoothness and the strong convexity of the nodes' objectives, and store them in every block.

        They are those `given` or, if None, found from every node's data: the largest smoothness and the smallest strong
        convexity, of all nodes of all processes.
        """
        self._given = [given]
        if given is None:
            each = self.processes.all_gather_rows([block.node_constants() for block in self.blocks])
            given = Constants(float(each[:, 0].max()), float(each[:, 1].min()))
        for block in self.blocks:
            block.constants = given
        return given

    def guard(self) -> AbstractContextManager[object]:
        """Return a context in which numpy does not warn of overflow and NaN.

        Steps that are too large cause them, and the measures show that.
        """
        return np.errstate(over="ignore", invalid="ignore")

    @property
    def x(self) -> Vector:
        """Return the mean of all nodes' copies of the coefficients, shape (p,)."""
        return np.asarray(self.estimates.mean(axis=0))

    @property
    def estimates(self) -> Matrix:
        """Return every node's copy of the coefficients, shape (K, p).

        K is the number of nodes.
        """
        return np.asarray(self.processes.all_gather_rows([state.w for state in self.states]))

    @property
    def visited(self) -> Vector:
        """Return the nonzeros that each node of this process visited in the last round, shape (n_hosted,)."""
        return np.concatenate([state.visited for state in self.states])

    def measure(self, rounds: int) -> Measures:
        """Return the Measures at the mean of all copies of the coefficients: objective, duality gap, and disagreement.

        The disagreement is the sum of squared distances of the copies from the mean; `rounds` is ignored.
        """
        return observe_copies(self.problem, self.estimates)

    def coefficients(self, x: Vector | None, estimates: Matrix, members: Flags) -> tuple[Vector, float]:
        """Return (coefficients, intercept) = (x, 0.0); x, shape (p,), is the mean of all copies.

        `estimates` and `members` are not read.
        """
        assert x is not None
        return x, 0.0

    def data_of(self, k: int) -> list[object]:
        """Return [columns, labels, sample weights] of the k-th node that this process hosts."""
        sizes = np.cumsum([0] + [block.size for block in self.blocks])
        number = int(np.searchsorted(sizes, k, side="right")) - 1
        block, at = self.blocks[number], k - int(sizes[number])
        own = slice(int(block.starts[at]), int(block.starts[at + 1]))
        return [block.node_columns(at), block.y[own], block.weight[own]]

    def restart(self) -> None:
        """Set the method to its state before round 0, but with the present copies of the coefficients."""
        self.start(self.estimates)

    def retarget(self, problem: Problem) -> None:
        """Replace the problem by one on the old samples with another weight of the penalty.

        Keep the copies of coefficients. All else that the method kept of earlier rounds is dropped.
        """
        copies, self.problem = self.estimates, problem
        self._host(Pool.of(problem))
        for given in self._given:
            self.constants(given)
        self.start(copies)


def coefficients_of(start: object, p: int) -> Vector | None:
    """Return the coefficients, shape (p,), of a Result or an array from which every copy starts.

    Return None, which stands for zero, if `start` is None. Raise InvalidInput for anything else.
    """
    if start is None:
        return None
    try:
        w = np.asarray(getattr(start, "coef", start), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("warm_start is a Result, or coefficients") from None
    if w.shape != (p,) or not np.isfinite(w).all():
        raise InvalidInput(f"warm_start needs {p} finite coefficients (Result.coef), got shape {w.shape}")
    return w
