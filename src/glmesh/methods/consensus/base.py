"""What the methods of consensus have in common: nodes with samples, each with its own copy of all coefficients.

They are CoLA's rivals. Each says what it needs and refuses the rest by name, and takes its step

- from its theory, with constants computed from the data (`step=None`; `constants=` overrides them),
- from a grid, by short trial runs that cost nothing here (`step="auto"`), or
- as given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from glmesh.core.block import NetworkInfo
from glmesh.core.messages import Rounds
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.methods.consensus.samples import Constants, Samples, parts_of
from glmesh.problem.problem import Problem
from glmesh.types import Flags, Matrix, Vector


@dataclass
class Copies:
    """What every method of consensus carries from round to round; most carry more."""

    w: Matrix  # a row per hosted node: its copy of the coefficients
    step: float
    up: Flags
    visited: Vector  # nonzeros visited in the last round
    round: int = 0
    old: dict[str, Matrix] = field(default_factory=dict)  # what a method keeps of earlier rounds, by its own names

    @property
    def v(self) -> Matrix:
        """What nodes exchange and are to agree on."""
        return self.w

    def advance(self, block: Samples, w: Matrix, old: dict[str, Matrix]) -> None:
        """Ends a round with one gradient in it."""
        self.w, self.round, self.visited, self.old = w, self.round + 1, block.work, old


@dataclass(frozen=True)
class Consensus(ABC):
    """A method of consensus: sum_k [F_k(w_k) + r(w_k)/K], all w_k equal at the end.

    step: its step size; None is what theory allows, "auto" the best of a grid. constants: of the problem, if you know
    better than what is computed from each node's data.
    """

    step: float | Literal["auto"] | None = None
    constants: Constants | None = field(default=None, kw_only=True)

    composite: ClassVar[bool] = False  # whether it stands a penalty with a kink or a bound
    instead: ClassVar[str] = "Nids or PgExtra"  # what to use where this one does not do
    # as the rest of the library asks of every method
    averages_exactly: ClassVar[bool] = False
    needs_spectrum: ClassVar[bool] = True

    def __post_init__(self) -> None:
        step = self.step
        if step in (None, "auto"):
            return
        if isinstance(step, str) or not isinstance(step, int | float | np.number) or not 0 < step < np.inf:
            raise InvalidInput(f"step must be a positive number, 'auto', or None for that of the theory; got {step!r}")

    @property
    def name(self) -> str:
        """As it is written."""
        return type(self).__name__

    def check(self, problem: Problem) -> None:
        """Refuses, by name, a problem that this method is not for."""
        model = problem.spec
        if model.loss.smooth(np.ones(1), np.ones(1)) is None:
            raise UnsuitablePair(
                f"{self.name} needs a smooth loss and the {model.loss.name} loss is not. Use Cola with "
                "split='samples', or a smooth loss: squared, logistic, huber, squared_hinge."
            )
        if isinstance(model.penalty, list):
            raise UnsuitablePair(f"{self.name} needs one penalty for all nodes, got a list. Use Cola.")
        if not self.composite and parts_of(model.penalty)[2] is not None:
            raise UnsuitablePair(
                f"{self.name} needs a smooth objective and this penalty ({model.penalty_name}) has a kink or a bound. "
                f"Use Cola, {self.instead}."
            )

    @abstractmethod
    def default_step(self, constants: Constants, info: NetworkInfo) -> float:
        """The step that the method's theory allows."""

    def init(self, block: Samples, w: Vector | None = None) -> Any:
        """Everybody's copy is zero, or w."""
        copies = np.zeros((block.size, block.p)) if w is None else np.tile(w, (block.size, 1))
        step = self.default_step(block.constants, block.info) if self.step is None else self.step
        assert not isinstance(step, str)  # a run has searched the grid by now
        return self.begin(block, Copies(copies, float(step), np.ones(block.size, dtype=bool), np.zeros(block.size)))

    def begin(self, block: Samples, state: Copies) -> Copies:
        """What a method prepares before its first round."""
        return state

    @abstractmethod
    def round(self, block: Samples, state: Any) -> Rounds:
        """One round: yields each set of rows it wants exchanged and is sent the halo."""

    def grid(self, constants: Constants, info: NetworkInfo) -> list[list[Self]]:
        """Rows of candidates, ascending in the step, among which "auto" climbs: 1/L times powers of two."""
        top = positive(constants.smoothness)
        return [[replace(self, step=2.0**power / top) for power in range(-8, 6)]]


def positive(smoothness: float) -> float:
    """The smoothness, or one where there is no data at all."""
    return smoothness if smoothness > 0 else 1.0
