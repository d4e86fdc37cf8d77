"""State of CoLA at the nodes of a block: the iterate, its accelerators, and the choice between them."""

from dataclasses import dataclass, field

import numpy as np

from glmesh.core import Accelerator, Block, Shared
from glmesh.methods.cola.choice import EXACT, AccelerationChoice
from glmesh.methods.cola.exact_sums import ExactSums
from glmesh.methods.cola.iterate import Iterate
from glmesh.methods.cola.momentum import Momentum
from glmesh.methods.cola.newton import Newton
from glmesh.methods.cola.round import Plain, Strategies
from glmesh.types import Vector


@dataclass(kw_only=True)
class ColaState(Iterate):
    """All that a block of CoLA's nodes carries from round to round: variables, estimates and accelerators."""

    base: Plain | Momentum  # accelerator of rounds that gossip; kept while exact sums run
    choice: Shared[AccelerationChoice]  # when to switch between `base` and exact sums
    exact: ExactSums | Newton | None = None  # accelerator in use where not None
    story: Shared[list[tuple[int, str, str]]] = field(default_factory=list)  # (round, accelerator from then on, why)

    @property
    def accelerator(self) -> Accelerator[Iterate, Strategies]:
        """Return the accelerator in use: exact sums where there are any, else `base`."""
        return self.base if self.exact is None else self.exact

    @property
    def accelerators(self) -> list[Accelerator[Iterate, Strategies]]:
        """Return [the accelerator of rounds that gossip], and exact sums after it if they are in use."""
        return [self.base] if self.exact is None else [self.base, self.exact]

    def use(self, block: Block, name: str, why: str) -> None:
        """Use the accelerator `name` from the present round on, and log the switch in the story."""
        self.story = [entry for entry in self.story if entry[0] != self.round] + [(self.round, name, why)]
        if name in EXACT:
            self.exact = Newton.of(block) if name == "newton" else ExactSums()
        elif self.exact is not None:
            self.exact = None
            self.base.reset(block, self)

    def finish_round(self, block: Block) -> None:
        """Count the round that the accelerator in use has made, and switch to another one if that is due."""
        self.round += 1
        if self.exact is None:
            switch = self.choice.after_momentum(self.round, self.base.best)
        else:
            switch = self.choice.after_sum(self.round, self.exact)
        if switch is not None:
            self.use(block, *switch)

    def know_zero(self, block: Block) -> None:
        """Tell exact sums in use that x = 0 at all nodes, so that Ax = 0 needs no sum."""
        if self.exact is not None:
            self.exact.v = np.zeros(block.d)

    # what an engine may ask

    @property
    def objective(self) -> float:
        """Return the objective (H under momentum) as the block's first node last heard of it; NaN or inf: not known."""
        return self.accelerator.value

    @property
    def sums_exactly(self) -> bool:
        """Return whether every exchange of the coming round belongs to an exact sum."""
        return self.exact is not None

    @property
    def knows_product(self) -> bool:
        """Return whether every node's estimate is Ax exactly, known by exact sums."""
        return self.exact is not None and self.exact.v is not None

    @property
    def solves_for_coefficients(self) -> bool:
        """Return whether Newton's method is in use, which finds all coefficients and a free intercept by itself."""
        return self.exact is not None and self.exact.solves_for_coefficients

    @property
    def coefficients(self) -> Vector | None:
        """Return the coefficients w, shape (d,), that x and v belong to, as Newton's method found them.

        Return None while Newton's method has found none, or is not in use.
        """
        return None if self.exact is None else self.exact.center

    @property
    def skipped(self) -> int:
        """Return the number of subproblems of the block that were skipped so far because they had nothing to gain."""
        return self.screening.skipped

    @property
    def work_saved(self) -> float:
        """Return the nonzeros that the skipped subproblems of the block would have visited."""
        return self.screening.work_saved
