"""The nodes that this process hosts, as a method prepared them: what the engine drives, observes and saves.

Nodes know nothing of this. On a cluster everything here that takes other processes is asked by all of them, in the same
order, and all are given the same bits.
"""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np

from glmesh.core.messages import Rounds
from glmesh.core.records import Certificate, Measures
from glmesh.core.setup import Setup
from glmesh.core.transport import Transport
from glmesh.errors import InvalidInput
from glmesh.problem import Partition, Problem
from glmesh.types import Flags, Matrix, Vector

BlockT = TypeVar("BlockT")
StateT = TypeVar("StateT")
Hosted = TypeVar("Hosted", contravariant=True)
Carried = TypeVar("Carried", contravariant=True)


class RoundMaker(Protocol[Hosted, Carried]):
    """The part of a `Method` that its nodes call."""

    def round(self, block: Hosted, state: Carried) -> Rounds:
        """Make one round of a block: yield each Outbox to exchange and be sent the Halo that came back."""


class HostedNodes(ABC, Generic[BlockT, StateT]):
    """Blocks of nodes with their states, and the transport between them and the rest of the network.

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

    @property
    def name(self) -> str:
        """The method's name, as messages say it."""
        return type(self.method).__name__

    # rounds

    def rounds(self, number: int) -> list[Rounds]:
        """Return the generators of round `number`, one per block."""
        return [self.method.round(block, state) for block, state in zip(self.blocks, self.states, strict=True)]

    def guard(self) -> AbstractContextManager[object]:
        """Return the context in which rounds are computed."""
        return nullcontext()

    def finish_round(self, number: int) -> None:
        """Conclude round `number`, after all its exchanges."""

    # what can be seen

    @property
    @abstractmethod
    def x(self) -> Vector:
        """The variables in the user's order, a copy."""

    @property
    @abstractmethod
    def estimates(self) -> Matrix:
        """(K, d) what the nodes are to agree on, a row per node, a copy."""

    @property
    @abstractmethod
    def visited(self) -> Vector:
        """(K,) nonzeros that each node visited in the last round."""

    @abstractmethod
    def measure(self, rounds: int) -> Measures:
        """Return objective, gap and consensus of the state after so many rounds."""

    @abstractmethod
    def data_of(self, k: int) -> list[object]:
        """Return the arrays that the k-th node of this process holds, for a digest of them."""

    @abstractmethod
    def coefficients(self, x: Vector, estimates: Matrix, members: Flags) -> tuple[Vector, float]:
        """Return (coefficients, intercept) of variables x in the user's order and estimates of the members."""

    def objective_at(self, x: Vector, estimates: Matrix, rounds: int) -> float:
        """Return the user-level objective of other variables and estimates than the present ones."""
        return self.refuse("objective_at")

    def members(self, rounds: int) -> Flags:
        """Return (K,) who took part in the last of so many rounds, or will in the first."""
        return self.plan.members(max(rounds - 1, 0), self.setup.n_nodes)

    @property
    def certificate(self) -> Certificate | None:
        """The newest certificate that every node knows; None before the first, or without certificates."""
        return None

    def certified_state(self) -> tuple[Vector, Matrix]:
        """Return (x in the user's order, every estimate) that the newest certificate is about."""
        raise InvalidInput("there is no certificate yet")

    @property
    def story(self) -> list[tuple[int, str, str]]:
        """(round, acceleration from then on, why) of every choice so far."""
        return []

    @property
    def theta(self) -> Vector:
        """(K,) local accuracy Theta_k of the last round, NaN where none was measured."""
        return np.full(self.setup.n_nodes, np.nan)

    @property
    def up(self) -> Flags:
        """(K,) which nodes were there in the last round."""
        return np.ones(self.setup.n_nodes, dtype=bool)

    @property
    def skipped(self) -> tuple[int, float]:
        """(Subproblems that were skipped because they had nothing to gain, nonzeros that those would have visited)."""
        return 0, 0.0

    # what some methods can do in mid-run

    def restart(self) -> None:
        """Begin anew from the present variables and estimates, which somebody changed from outside."""
        self.refuse("begin_anew")

    def retarget(self, problem: Problem) -> None:
        """Go on with other functions on the same columns."""
        self.refuse("set_alpha")

    def mark(self) -> Any:
        """Return the present variables and estimates, for `go_ahead` on a path; None if the method needs none."""
        return None

    def go_ahead(self, before: Any, step: float) -> None:
        """Move along the line from what `mark` returned before through the present state, by `step` of its length."""

    def product(self, x: Vector) -> Vector:
        """Return A x of variables in the user's order."""
        return self.refuse("product")

    def refuse(self, what: str) -> NoReturn:
        """Raise InvalidInput that names the method and what would do instead."""
        raise InvalidInput(f"{what} is for Cola; {self.name} starts anew (warm_start=result.coef)")
