"""What the methods of consensus have in common: nodes with samples, each with its own copy of all coefficients.

They are CoLA's rivals. Each says what it needs and refuses the rest by name, and takes its step

- from its theory, with constants computed from the data (`step=None`; `constants=` overrides them),
- from a grid, by short trial runs that cost nothing here (`step="auto"`), or
- as given.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np

from glmesh.core import NetworkInfo, Rounds, Setup, drive
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.methods.consensus.replicas import Copies, Replicas
from glmesh.methods.consensus.samples import Constants, Samples, parts_of
from glmesh.methods.consensus.step_search import best_of
from glmesh.problem import Problem


@dataclass(frozen=True)
class Consensus(ABC):
    """Base of all methods of consensus: minimise sum_k [F_k(w_k) + r(w_k)/K], all copies w_k equal at the end.

    Parameters
    ----------
    step : float, "auto" or None, default None
        Step size; None is the one that the theory allows, "auto" the best of a grid.
    constants : Constants, optional
        Smoothness and strong convexity; None computes both from every node's data.
    """

    step: float | Literal["auto"] | None = None
    constants: Constants | None = field(default=None, kw_only=True)

    composite: ClassVar[bool] = False  # whether the method stands a penalty with a kink or a bound
    instead: ClassVar[str] = "Nids or PgExtra"  # methods to use instead, for messages

    def __post_init__(self) -> None:
        step = self.step
        if step in (None, "auto"):
            return
        if isinstance(step, str) or not isinstance(step, int | float | np.number) or not 0 < step < np.inf:
            raise InvalidInput(f"step must be a positive number, 'auto', or None for that of the theory; got {step!r}")

    @property
    def name(self) -> str:
        """Return the name of the method's class, for messages."""
        return type(self).__name__

    def check(self, problem: Problem) -> None:
        """Raise UnsuitablePair if the method cannot minimise the objective of `problem`.

        The message names methods that can.
        """
        model = problem.spec
        if model.loss.by_likelihood:
            raise UnsuitablePair(
                f"{self.name} is for the losses by name, and the {model.loss.name} family is fitted by sums over rows; "
                "leave method= away (MaximumLikelihood)"
            )
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
        """Return the step size, a float, that the method's theory allows for these constants and this network's mixing.

        The constants are smoothness and strong convexity of the nodes' objectives.
        """

    def prepare(self, setup: Setup) -> Replicas:
        """Return the nodes that this process hosts, with samples and copies of the coefficients, ready for round 0.

        With step="auto" first search the step by trial runs. Raise UnsuitablePair if the method cannot minimise the
        objective.
        """
        self.check(setup.problem)
        method, nodes = self, Replicas(self, setup)
        constants, start = nodes.constants(self.constants), nodes.estimates
        if self.step == "auto":
            rows = [[replace(one, constants=constants) for one in row] for row in self.grid(constants, setup.info)]
            nodes.method = method = best_of(rows, _finer, partial(_reached, replace(setup, timing=None)))
        nodes.start(start, begin=method.first_state)
        return nodes

    def first_state(self, block: Samples, state: Copies) -> Copies:
        """Return the method's state before round 0, with its step size; `state` has the copies of coefficients."""
        step = self.default_step(block.constants, block.info) if self.step is None else self.step
        assert not isinstance(step, str)  # `prepare` has searched the grid by now
        return self.begin(block, replace(state, step=float(step)))

    def begin(self, block: Samples, state: Copies) -> Copies:
        """Return the state before round 0, with all arrays that the method keeps beside copies of the coefficients.

        Here `state` itself: no arrays are kept.
        """
        return state

    @abstractmethod
    def round(self, block: Samples, state: Copies) -> Rounds:
        """Make one round of a block of nodes, a generator: yields each Outbox and is sent the Halo that came back."""

    def grid(self, constants: Constants, info: NetworkInfo) -> list[list[Self]]:
        """Return rows of candidates for step="auto": copies of this method with steps of 2^-8 to 2^5 times 1/L.

        A list of lists, each ascending in the step; here one. L is the smoothness of the nodes' objectives. `constants`
        has L.
        """
        top = positive(constants.smoothness)
        return [[replace(self, step=2.0**power / top) for power in range(-8, 6)]]


def _finer(best: Consensus) -> list[Consensus]:
    """Return 17 copies of the method `best` whose step sizes are 1/16 to 16 times its own, in equal ratios."""
    assert isinstance(best.step, float)
    return [replace(best, step=best.step * 2.0 ** (i / 2)) for i in range(-8, 9)]


def _reached(setup: Setup, candidate: Consensus, communications: int) -> float:
    """Return the objective, averaged over all nodes' copies of the coefficients, after a trial run of `candidate`.

    `candidate` is a method with its step size, and the run takes `communications` exchanges. Infinite where a copy or
    its objective is not finite.
    """
    nodes, number = candidate.prepare(setup), 0
    with nodes.guard():
        while nodes.transport.traffic.communications < communications:
            drive(nodes.transport, nodes.rounds(number))
            number += 1
        copies = nodes.estimates
        nodes.transport.close()
        if not np.isfinite(copies).all():
            return np.inf
        value = float(np.mean([setup.problem.objective(row) for row in copies]))
    return value if np.isfinite(value) else np.inf


def positive(smoothness: float) -> float:
    """Return `smoothness`, or 1 if it is 0 because there is no data at all, so that one can divide by it."""
    return smoothness if smoothness > 0 else 1.0
