"""The nodes that this process hosts, as a method prepared them: what the engine drives, observes and saves.

Nodes know nothing of this. On a cluster everything here that takes other processes is asked by all of them, in the same
order, and all are given the same bits.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, NoReturn, Protocol, Self, TypeVar

import numpy as np

from glmesh.core.messages import AnyRounds
from glmesh.core.records import Certificate, Event, Measures, PathSolutions
from glmesh.core.setup import Setup
from glmesh.core.state import Extent
from glmesh.core.transport import Transport
from glmesh.errors import InvalidInput
from glmesh.problem import Partition, Problem
from glmesh.types import Flags, Matrix, Tree, Vector

BlockT = TypeVar("BlockT")
StateT = TypeVar("StateT")
Hosted = TypeVar("Hosted", contravariant=True)
Carried = TypeVar("Carried", contravariant=True)


class RoundMaker(Protocol[Hosted, Carried]):
    """Protocol of an object with a method `round`: all of a method (an algorithm) that `HostedNodes` call."""

    def round(self, block: Hosted, state: Carried) -> AnyRounds:
        """Return a generator that makes one round of a block: it yields each request and is sent the answer.

        An Outbox is answered by a Halo, a `Total` by Sums, a `Largest` by whole numbers (`core.messages.Request`).
        """


class HostedNodes(ABC, Generic[BlockT, StateT]):
    """Base of the nodes that this process hosts: their blocks, the blocks' states, and the transport.

    What only some methods can do raises InvalidInput here, and is overridden by the methods that can.
    """

    def __init__(
        self, setup: Setup, method: RoundMaker[BlockT, StateT], transport: Transport, partition: Partition
    ) -> None:
        """Keep what the run gives; the subclass appends its blocks of nodes and their states to `blocks`, `states`."""
        self.setup, self.method, self.transport, self.partition = setup, method, transport, partition
        self.problem: Problem = setup.problem  # its penalty's weight or its data may change in mid-run
        self.processes, self.plan = setup.processes, setup.plan
        self.blocks: list[BlockT] = []
        self.states: list[StateT] = []

    replicates = False  # whether x and the estimates are copies of the coefficients
    primal = False  # whether there are coefficients alone: x is None, h and consensus are NaN

    @property
    def name(self) -> str:
        """Name of the method's class, for messages."""
        return type(self.method).__name__

    # rounds

    def rounds(self, number: int) -> Sequence[AnyRounds]:
        """Return the generators of round `number`, one per block of nodes; each yields requests and is sent answers.

        A request is an Outbox (answered by a Halo), a Total (by Sums) or a Largest (by whole numbers).
        """
        return [self.method.round(block, state) for block, state in zip(self.blocks, self.states, strict=True)]

    def begin_round(self, number: int, events: list[Event]) -> None:
        """Begin round `number` under the fault plan; append to `events` an Event for each node that joins or leaves."""
        self.transport.begin_round(self.plan, number)

    def guard(self) -> AbstractContextManager[object]:
        """Return the context manager in which rounds are computed.

        A subclass may silence overflow with it; the one of this base class does nothing.
        """
        return nullcontext()

    def finish_round(self, number: int) -> None:
        """Conclude round `number` after all its exchanges; here there is nothing to do."""

    # what can be seen

    @property
    def failure(self) -> str:
        """Why more rounds would not help, as a word that is equal at all processes; "": they may help.

        "separated": there is no optimum; "collinear": columns almost depend on each other; "rounding": rounding errors
        hide progress; "stationary": a point is stationary, and no proof says that it is the optimum; "outside": no
        point to start from is known.
        """
        return ""

    @property
    def remark(self) -> str:
        """A sentence for people on the optimum, for example that there are several; "" if there is nothing to say."""
        return ""

    @property
    def distance(self) -> float:
        """Return a proven bound of the distance of the coefficients from the optimum, in the norm of the Hessian there.

        It is infinite if none is proven, as here.
        """
        return float("inf")

    @property
    def finished(self) -> bool | None:
        """Return whether a method that stops itself has found out all; None, as here: the gap decides."""
        return None

    @property
    def standard_errors_off(self) -> float:
        """Return by how many standard errors each coefficient may be off the exact estimate.

        NaN: there are none, as here.
        """
        return float("nan")

    @property
    def statistics(self) -> object | None:
        """Return what totals at the end of a fit say, a `FitStatistics`; None, as here: nothing."""
        return None

    @property
    @abstractmethod
    def x(self) -> Vector | None:
        """Variables of all nodes in the user's order, shape (n,), a copy.

        Where every node holds a copy of all variables, the mean of the copies. None for a method that has coefficients
        only.
        """

    @property
    @abstractmethod
    def estimates(self) -> Matrix:
        """Estimates v_k of Ax of all K nodes, shape (K, d), a row per node, a copy.

        In a consensus method row k is node k's copy of the coefficients. A is the data matrix, x are the variables of
        all nodes.
        """

    @property
    @abstractmethod
    def visited(self) -> Vector:
        """Number of nonzeros that each node of this process visited in the last round, shape (n_hosted,)."""

    @abstractmethod
    def measure(self, rounds: int) -> Measures:
        """Return the Measures (objective, duality gap, consensus) of the present state, after `rounds` rounds."""

    @abstractmethod
    def data_of(self, k: int) -> list[object]:
        """Return the arrays (columns, labels, weights) of the k-th node of this process, to make a digest from."""

    @abstractmethod
    def coefficients(self, x: Vector | None, estimates: Matrix, members: Flags) -> tuple[Vector, float | Vector]:
        """Return (coefficients (p,), intercept) for variables x (n,) in the user's order and estimates (K, d).

        A model with C linear predictors of a row has shapes (C, p) and (C,).

        `members` is a mask of shape (K,): only members' estimates count.
        """

    def objective_at(self, x: Vector | None, estimates: Matrix, rounds: int) -> float:
        """Return the objective of the user's problem at the given variables x (n,) and estimates (K, d).

        `rounds` decides which nodes are members, whose estimates count, as in `members`. InvalidInput unless
        overridden.
        """
        return self.refuse("objective_at")

    def members(self, rounds: int) -> Flags:
        """Return a mask of shape (K,), true for each node that was a member in the last of `rounds` rounds.

        If `rounds` is 0, the mask of round 0. K is the number of nodes.
        """
        return self.plan.members(max(rounds - 1, 0), self.setup.n_nodes)

    @property
    def certificate(self) -> Certificate | None:
        """Newest certificate that every node knows; None before the first, or without certificates.

        A certificate is a proven upper bound of the suboptimality.
        """
        return None

    def certified_state(self) -> tuple[Vector | None, Matrix]:
        """Return (x, v), the variables and all nodes' estimates that the newest certificate is about.

        x has shape (n,) in the user's order, or is None where there are coefficients alone; v has a row per node, shape
        (K, d) for K nodes. Raise InvalidInput if there is no certificate, a proven bound of the suboptimality, yet.
        """
        raise InvalidInput("there is no certificate yet")

    @property
    def story(self) -> list[tuple[int, str, str]]:
        """List of (round, acceleration from that round on, reason) for every choice of an acceleration so far.

        Empty for a method without a choice.
        """
        return []

    @property
    def theta(self) -> Vector:
        """Local accuracy of each node in the last round, (K,): the part of the possible decrease that was left.

        NaN for a node where none was measured. K is the number of nodes.
        """
        return np.full(self.setup.n_nodes, np.nan)

    @property
    def up(self) -> Flags:
        """Mask of shape (K,), true for each node that took part in the last round.

        K is the number of nodes.
        """
        return np.ones(self.setup.n_nodes, dtype=bool)

    @property
    def skipped(self) -> tuple[int, float]:
        """Pair (local problems skipped so far since they had nothing to gain, nonzeros not visited thereby)."""
        return 0, 0.0

    # what some methods can do in mid-run

    def restart(self) -> None:
        """Start the method anew from the present variables and estimates, after somebody else changed them.

        InvalidInput unless overridden.
        """
        self.refuse("begin_anew")

    def retarget(self, problem: Problem) -> None:
        """Continue the run with the functions f and g of `problem`, which has the columns of the present one.

        InvalidInput unless overridden.
        """
        self.refuse("set_alpha")

    def beside(self, problem: Problem, warm_start: object) -> Self:
        """Return HostedNodes for another problem on the rows of this one, whose rounds can be made together with these.

        `warm_start` is where they start: a Result, an array or None. InvalidInput unless overridden.
        """
        raise InvalidInput(
            f"several problems at once are for methods on totals; {self.name} solves one after the other"
        )

    def along(
        self, others: Sequence[Self], alphas: Sequence[Vector], tol: float, max_rounds: int
    ) -> list[PathSolutions] | None:
        """Solve this problem and `others` on the same rows, each for many weights of its penalty, all at once.

        alphas[i] are the weights of problem i, this one first. Return a PathSolutions per problem; None: the method
        cannot, and the caller goes from one weight to the next. `tol` is the relative gap aimed at, and `max_rounds`
        the most rounds for each.
        """
        return None

    def mark(self) -> list[tuple[Vector, Matrix]]:
        """Return the present (variables x, estimates v) of each block of this process, for `go_ahead`.

        An empty list if the method does not extrapolate.
        """
        return []

    def go_ahead(self, before: list[tuple[Vector, Matrix]], step: float) -> None:
        """Extrapolate the variables and estimates: add `step` times their change since `before`, a result of `mark`.

        A method that does not extrapolate does nothing, as here.
        """

    def replace_data(self, problem: Problem, partition: Partition) -> None:
        """Continue the run with the data of `problem`, of which node k holds the columns that `partition` gives node k.

        InvalidInput unless overridden.
        """
        self.refuse("other data in mid-run")

    # saving

    def require_saving(self) -> None:
        """Raise InvalidInput if a run of these nodes cannot be saved to a file."""
        self.refuse("a checkpoint")

    @property
    def extents(self) -> list[Extent]:
        """Extent (numbers of nodes, columns and units) of each block of this process, to cut and merge states."""
        return [Extent(len(ids), 0, 0) for ids in self.setup.node_ids]

    @property
    def watching(self) -> list[object]:
        """States of the observers of each block's rounds, such as certifiers, one per block; empty without any."""
        return []

    def saved(self) -> dict[str, object]:
        """Return {name: plain data} of what a checkpoint must hold of these nodes beside the states of the blocks."""
        return {}

    def restore(self, states: list[StateT], watching: list[Any], saved: Tree) -> None:
        """Take over the content of a checkpoint: the state of each block, and what `watching` and `saved` returned.

        InvalidInput unless overridden.
        """
        self.refuse("a checkpoint")

    def product(self, x: Vector) -> Vector:
        """Return A x, shape (d,), for variables x (n,) in the user's order; InvalidInput unless overridden."""
        return self.refuse("product")

    def refuse(self, what: str) -> NoReturn:
        """Raise InvalidInput: `what` works with Cola only; the message says how to start this method anew instead."""
        raise InvalidInput(f"{what} is for Cola; {self.name} starts anew (warm_start=result.coef)")


AnyNodes = HostedNodes[Any, Any]  # of any method
