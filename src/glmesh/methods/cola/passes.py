"""How much a node works in a round: passes over its columns, an accuracy Theta, a time budget."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from glmesh.core import Block
from glmesh.errors import InvalidInput
from glmesh.methods.cola.iterate import Iterate
from glmesh.types import Matrix, Unsigned, Vector


@dataclass(frozen=True)
class Passes:
    """Options of the local solves: passes and accuracy, each one for all nodes or one per node, and a time budget.

    A pass visits every column of a node once; the accuracy is the fraction of the possible decrease that may be left.
    """

    local_passes: int | Sequence[int] | None  # None: the accelerator's default
    local_accuracy: float | Sequence[float] | None  # accuracy Theta at which a solve stops; None: all passes are made
    time_budget: float | None  # [s of the virtual clock] computing per round; None: unlimited

    def check(self, block: Block) -> None:
        """Raise InvalidInput unless passes and accuracies are one number each or one per node, K of them.

        A time budget also needs a virtual clock. K is the number of nodes.
        """
        for per_node in (self.local_passes, self.local_accuracy):
            _per_node(per_node, block)
        if self.time_budget is not None and block.info.speeds is None:
            raise InvalidInput("time_budget needs a clock: give network=Network(nonzeros_per_second=...)")

    def of_round(self, block: Block, state: Iterate, w: Matrix, default: int) -> Unsigned:
        """Return the number of passes over its columns that each hosted node makes in this round, shape (n_hosted,).

        0 for a node that is away, is screened out, is required to do nothing (accuracy 1), or has used up its time. A
        node that is too slow for a pass a round makes one in some of the rounds. w are the gradients of f at the
        estimates, shape (n_hosted, d), by which nodes are screened; `default` is used where `local_passes` is None.
        """
        passes = _per_node(default if self.local_passes is None else self.local_passes, block).astype(np.int64)
        if self.time_budget is not None:
            assert block.info.speeds is not None
            work = np.array([max(block.node_columns(k).nnz, 1) for k in range(block.size)])
            rate = self.time_budget * block.info.speeds[block.ids.astype(np.int64)] / work
            passes = np.minimum(passes, np.floor((state.round + 1) * rate) - np.floor(state.round * rate))
        passes = np.where(state.up & (state.required_theta != 1.0), passes, 0)
        screened = state.screening.screened(w) & (passes > 0)
        for k in np.flatnonzero(screened):
            state.screening.skipped += 1
            state.screening.work_saved += float(passes[k] * block.node_columns(int(k)).nnz)
        return np.where(screened, 0, passes).astype(np.uint64)

    def accuracies(self, block: Block, state: Iterate) -> Vector:
        """Return the accuracy at which each hosted node's local solve stops, shape (n_hosted,).

        -1: it makes all passes. The accuracy is the fraction of the possible decrease that may be left.
        """
        wanted = _per_node(-1.0 if self.local_accuracy is None else self.local_accuracy, block)
        return np.where(np.isnan(state.required_theta), wanted, state.required_theta)


def _per_node(value: ArrayLike | None, block: Block) -> Vector:
    """Return `value` for each hosted node, shape (n_hosted,).

    `value` is one number for all nodes, or K numbers, of which those of the hosted nodes are taken; raise InvalidInput
    for any other length.
    """
    if isinstance(value, int | float):
        return np.full(block.size, value)
    values = np.atleast_1d(np.asarray(value))
    n_nodes = block.info.n_nodes
    if len(values) not in (1, n_nodes):
        raise InvalidInput(f"local_passes and local_accuracy need one value, or one for each of {n_nodes} nodes")
    if len(values) == 1:
        return np.repeat(values, block.size)
    return values[block.ids.astype(np.int64)]
