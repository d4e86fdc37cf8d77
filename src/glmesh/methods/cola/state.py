"""State of CoLA at the nodes of a block: the iterate, its accelerators, and the choice between them."""

from dataclasses import dataclass, field

import numpy as np

from glmesh.core import Accelerator, Block, Shared
from glmesh.methods.cola.choice import MOST_IDLE
from glmesh.methods.cola.exact_sums import ExactSums
from glmesh.methods.cola.iterate import Iterate
from glmesh.methods.cola.momentum import Momentum
from glmesh.methods.cola.round import Plain, Strategies


@dataclass(kw_only=True)
class ColaState(Iterate):
    """State of a block of CoLA's nodes from round to round: variables, estimates, accelerators, and their story.

    `base` is the accelerator momentum or none, `exact` that of exact sums, which is in use unless it is None; the story
    has (round, accelerator from then on, reason) for every switch.
    """

    base: Plain | Momentum  # accelerator of rounds that gossip; kept while exact sums run
    leaves_sums: Shared[bool] = False  # whether sums that win nothing any more give way to `base`
    exact: ExactSums | None = None  # accelerator in use where not None
    left_sums: Shared[bool] = False  # whether exact sums gave way to `base` because they won nothing any more
    story: Shared[list[tuple[int, str, str]]] = field(default_factory=list)  # (round, accelerator from then on, why)

    @property
    def accelerator(self) -> Accelerator[Iterate, Strategies]:
        """Return the accelerator in use: `exact` (exact sums) unless that is None, else `base` (momentum or none)."""
        return self.base if self.exact is None else self.exact

    @property
    def accelerators(self) -> list[Accelerator[Iterate, Strategies]]:
        """Return [base] or, while exact sums are in use, [base, exact]; `base` is momentum or no acceleration."""
        return [self.base] if self.exact is None else [self.base, self.exact]

    def use(self, block: Block, name: str, why: str) -> None:
        """Switch to the accelerator `name` ("sums", or that of `base`) from the present round on; log it in `story`.

        The entry is (round, name, why), and replaces one of the same round.
        """
        self.story = [entry for entry in self.story if entry[0] != self.round] + [(self.round, name, why)]
        if name == "sums":
            self.exact = ExactSums()
        elif self.exact is not None:
            self.exact = None
            self.base.reset(block, self)

    def finish_round(self, block: Block) -> None:
        """Count one more round, and go on with momentum if exact sums can do no more.

        They cannot if a sum lacked some node's vector or, where `leaves_sums`, if MOST_IDLE rounds in a row won
        nothing.
        """
        self.round += 1
        if self.exact is None:
            return
        if self.exact.broken:
            self.use(block, "momentum", "a part of a sum was missing: the network does not stand still")
        elif self.leaves_sums and self.exact.idle >= MOST_IDLE:
            self.left_sums = True
            self.use(block, "momentum", "exact sums had nothing more to win")

    def return_to_sums(self, block: Block) -> None:
        """Use exact sums again, after a change of the problem, if they had given way for winning nothing more."""
        if self.left_sums:
            self.left_sums = False
            self.use(block, "sums", "the problem has changed, and there is something to win again")

    def know_zero(self, block: Block) -> None:
        """Tell exact sums, if they are in use, that Ax = 0, because x = 0 at all nodes; no sum is needed for it.

        A is the data matrix, x are the variables of all nodes.
        """
        if self.exact is not None:
            self.exact.v = np.zeros(block.d)

    # what an engine may ask

    @property
    def objective(self) -> float:
        """Return the objective as last known to the block's first node, a float; NaN or infinite: not known.

        Under momentum it is H = (1/K) sum f(v_k) + g(x). K is the number of nodes.
        """
        return self.accelerator.value

    @property
    def sums_exactly(self) -> bool:
        """Return whether every exchange of the coming round belongs to an exact sum."""
        return self.exact is not None

    @property
    def knows_product(self) -> bool:
        """Return whether every node's estimate is Ax exactly, known by exact sums.

        A is the data matrix, x are the variables of all nodes.
        """
        return self.exact is not None and self.exact.v is not None

    @property
    def skipped(self) -> int:
        """Return the number of subproblems of the block that were skipped so far because they had nothing to gain.

        A subproblem is a node's local minimisation over its own variables.
        """
        return self.screening.skipped

    @property
    def work_saved(self) -> float:
        """Return the nonzeros that the skipped subproblems of the block would have visited.

        A subproblem is a node's local minimisation over its own variables.
        """
        return self.screening.work_saved
