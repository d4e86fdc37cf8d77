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
from glmesh.core.transport import Transport, drive
from glmesh.errors import InvalidInput
from glmesh.problem import Partition, Problem
from glmesh.types import Flags, Matrix, Vector

BlockT = TypeVar("BlockT")
StateT = TypeVar("StateT")
Hosted = TypeVar("Hosted", contravariant=True)
Carried = TypeVar("Carried", contravariant=True)


class RoundMaker(Protocol[Hosted, Carried]):
    """The part of a `Method` that `HostedNodes` call: its `round`."""

    def round(self, block: Hosted, state: Carried) -> AnyRounds:
        """Make one round of a block: yield each request, and be sent the answer (`core.messages.Request`)."""


class HostedNodes(ABC, Generic[BlockT, StateT]):
    """Base of the blocks of nodes of this process, with their states and the transport to all other nodes.

    What only some methods can do is refused here by name, and overridden by those that can.
    """

    def __init__(
        self, setup: Setup, method: RoundMaker[BlockT, StateT], transport: Transport, partition: Partition
    ) -> None:
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
        """Return the generators of round `number`, one per block; each yields requests and is sent answers."""
        return [self.method.round(block, state) for block, state in zip(self.blocks, self.states, strict=True)]

    def begin_round(self, number: int, events: list[Event]) -> None:
        """Begin round `number` under a fault plan; append an event for every node that joins or leaves."""
        self.transport.begin_round(self.plan, number)

    def make_round(self, number: int) -> None:
        """Make round `number` of all blocks, with all its exchanges."""
        drive(self.transport, self.rounds(number))

    def guard(self) -> AbstractContextManager[object]:
        """Return the context in which rounds are computed, which may silence overflow; here it does nothing."""
        return nullcontext()

    def finish_round(self, number: int) -> None:
        """Conclude round `number` after all its exchanges; here there is nothing to do."""

    # what can be seen

    @property
    def failure(self) -> str:
        """Why no more rounds are worth it, in a word that all processes know; "": they are.

        "separated": there is no optimum; "collinear": columns almost depend on each other; "rounding" hides progress.
        """
        return ""

    @property
    def remark(self) -> str:
        """A sentence on the optimum for people, such as that there are several; "" where there is nothing to say."""
        return ""

    @property
    @abstractmethod
    def x(self) -> Vector | None:
        """Variables of all nodes in the user's order, shape (n,), a copy; the mean of all where nodes hold copies.

        None where there are no variables but the coefficients.
        """

    @property
    @abstractmethod
    def estimates(self) -> Matrix:
        """Vectors that the nodes are to agree on, shape (K, d), a row per node, a copy."""

    @property
    @abstractmethod
    def visited(self) -> Vector:
        """Number of nonzeros that each node of this process visited in the last round, shape (n_hosted,)."""

    @abstractmethod
    def measure(self, rounds: int) -> Measures:
        """Return objective, duality gap and consensus violation of the present state, after `rounds` rounds."""

    @abstractmethod
    def data_of(self, k: int) -> list[object]:
        """Return the data of the k-th node of this process (columns, labels, weights), for a digest of it."""

    @abstractmethod
    def coefficients(self, x: Vector | None, estimates: Matrix, members: Flags) -> tuple[Vector, float]:
        """Return (coefficients (p,), intercept) for variables x (n,) in the user's order and estimates (K, d).

        `members` is a mask of shape (K,): only members' estimates count.
        """

    def objective_at(self, x: Vector | None, estimates: Matrix, rounds: int) -> float:
        """Return the objective of the user's problem at other variables (n,) and estimates (K, d) than the present.

        Refused unless the method can; `rounds` says whose estimates count, as in `members`.
        """
        return self.refuse("objective_at")

    def members(self, rounds: int) -> Flags:
        """Return a mask of shape (K,), true for each member in the last of `rounds` rounds (of 0 rounds, the first)."""
        return self.plan.members(max(rounds - 1, 0), self.setup.n_nodes)

    @property
    def certificate(self) -> Certificate | None:
        """Newest certificate that every node knows; None before the first, or without certificates."""
        return None

    def certified_state(self) -> tuple[Vector | None, Matrix]:
        """Return (x in the user's order (n,), all estimates (K, d)) that the newest certificate is about."""
        raise InvalidInput("there is no certificate yet")

    @property
    def story(self) -> list[tuple[int, str, str]]:
        """List of (round, acceleration from then on, why) for every choice of an acceleration so far."""
        return []

    @property
    def theta(self) -> Vector:
        """Local accuracy Theta_k that each node reached in the last round, shape (K,); NaN where none was measured."""
        return np.full(self.setup.n_nodes, np.nan)

    @property
    def up(self) -> Flags:
        """Mask of shape (K,), true for each node that took part in the last round."""
        return np.ones(self.setup.n_nodes, dtype=bool)

    @property
    def skipped(self) -> tuple[int, float]:
        """Pair (subproblems skipped so far because they had nothing to gain, nonzeros they would have visited)."""
        return 0, 0.0

    # what some methods can do in mid-run

    def restart(self) -> None:
        """Start the method anew from the present variables and estimates, after a change from outside."""
        self.refuse("begin_anew")

    def retarget(self, problem: Problem) -> None:
        """Go on with the functions f and g of another problem on the same columns."""
        self.refuse("set_alpha")

    def beside(self, problem: Problem, warm_start: object) -> Self:
        """Return nodes of another problem on the same rows, whose rounds can be made together with those of these."""
        raise InvalidInput(
            f"several problems at once are for methods on totals; {self.name} solves one after the other"
        )

    def along(
        self, others: Sequence[Self], alphas: Sequence[Vector], tol: float, max_rounds: int
    ) -> list[PathSolutions] | None:
        """Solve this problem and others on the same rows, each for many weights of its penalty, all at once.

        `alphas` are the weights for each problem. None: the method goes from one weight to the next.
        """
        return None

    def mark(self) -> list[tuple[Vector, Matrix]]:
        """Return the present (x, v) of each block, for `go_ahead` on a path; empty if the method needs none."""
        return []

    def go_ahead(self, before: list[tuple[Vector, Matrix]], step: float) -> None:
        """Extrapolate: add `step` times the change since `before`, which `mark` returned; here do nothing."""

    def replace_data(self, problem: Problem, partition: Partition) -> None:
        """Go on with other data: nodes hold what `partition` gives them of `problem`."""
        self.refuse("other data in mid-run")

    # saving

    def require_saving(self) -> None:
        """Raise InvalidInput if a run of these nodes cannot be saved to a file."""
        self.refuse("a checkpoint")

    @property
    def extents(self) -> list[Extent]:
        """Numbers of nodes, columns and units of each block of this process, by which states are cut and merged."""
        return [Extent(len(ids), 0, 0) for ids in self.setup.node_ids]

    @property
    def watching(self) -> list[object]:
        """States of what watches the rounds of each block, such as certifiers; empty if nothing does."""
        return []

    def saved(self) -> dict[str, object]:
        """Return what a file holds of these nodes beside the states of blocks, by name, as plain data."""
        return {}

    def restore(self, states: list[StateT], watching: list[Any], saved: dict[str, Any]) -> None:
        """Take over what a file holds: states of the blocks, `watching` and `saved`."""
        self.refuse("a checkpoint")

    def product(self, x: Vector) -> Vector:
        """Return A x, shape (d,), for variables x (n,) in the user's order."""
        return self.refuse("product")

    def refuse(self, what: str) -> NoReturn:
        """Raise InvalidInput: `what` is for Cola; the message says how to start this method anew instead."""
        raise InvalidInput(f"{what} is for Cola; {self.name} starts anew (warm_start=result.coef)")
