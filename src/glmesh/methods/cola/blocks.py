"""CoLA's nodes one by one: found by id, changed from outside, looked at."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from glmesh.certificate import AsyncCertifier
from glmesh.core import Block, Event, Rounds
from glmesh.gossip import FlowGossip
from glmesh.methods.cola.iterate import initial_variables
from glmesh.methods.cola.state import ColaState
from glmesh.solvers import LocalSolver, local_gap
from glmesh.types import Indices, Vector


class Algorithm(Protocol):
    """What the nodes need of `Cola`: rounds, and what follows from a change that does not come from a round."""

    @property
    def averages_exactly(self) -> bool:
        """Whether v = Ax at every node after every round, as CoCoA's server has it."""
        ...

    @property
    def solver(self) -> LocalSolver:
        """The solver of the local subproblems."""
        ...

    def round(self, block: Block, state: ColaState) -> Rounds:
        """Make one round of a block."""
        ...

    def scale(self, block: Block, state: ColaState) -> Vector:
        """Return (n_hosted,) sigma'/tau of every node's subproblem."""
        ...

    def invalidate_node(self, block: Block, state: ColaState, k: int, *, forget: bool) -> None:
        """Drop all that is derived from the k-th node's variables; forget: and what its solver remembers."""
        ...

    def forget_sums(self, block: Block, state: ColaState) -> None:
        """Drop A x as far as exact sums know it."""
        ...

    def reset(self, block: Block, state: ColaState) -> None:
        """Begin anew from the present variables and estimates."""
        ...

    def retarget(self, block: Block, state: ColaState) -> None:
        """Begin anew with other functions on the same columns."""
        ...


@dataclass
class ColaBlocks:
    """The blocks of this process, side by side."""

    method: Algorithm
    blocks: list[Block]
    states: list[ColaState]
    async_certifiers: list[AsyncCertifier]

    def find(self, node: int) -> tuple[int, int]:
        """Return (block, place in it) of a node that is hosted here."""
        for number, block in enumerate(self.blocks):
            first = int(block.ids[0])
            if first <= node < first + block.size:
                return number, node - first
        raise IndexError(node)

    def flow_gossip(self, number: int) -> FlowGossip:
        """Return the flow gossip of a block."""
        return self.states[number].flow_gossip

    def flows_of(self, node: int) -> tuple[FlowGossip, int]:
        """Return (the flow gossip of a node's block, the node's place there)."""
        number, k = self.find(node)
        return self.flow_gossip(number), k

    def invalidate(self, node: int, round: int, *, forget: bool = False) -> None:
        """Drop all that was derived from a node's state, which was changed from outside in this round."""
        number, k = self.find(node)
        self.method.invalidate_node(self.blocks[number], self.states[number], k, forget=forget)
        for block, state in zip(self.blocks, self.states, strict=True):  # the exact sums of all blocks are one
            self.method.forget_sums(block, state)
        if self.async_certifiers:
            self.async_certifiers[number].disturb(k, round)

    def gap(self, node: int, estimate_of: int | None = None) -> float:
        """Return what a node could gain in its own subproblem at most, at its own estimate or a neighbour's."""
        number, k = self.find(node)
        block, state = self.blocks[number], self.states[number]
        other, j = self.find(node if estimate_of is None else estimate_of)
        w = block.f.gradient(self.states[other].gossip.v[j])
        return local_gap(block, k, state.x[block.of_node(k)], w, float(self.method.scale(block, state)[k]))

    def share(self, node: int) -> Vector:
        """Return A_k x_k of a node, shape (d,)."""
        number, k = self.find(node)
        return self.blocks[number].share(k, self.states[number].x)

    def clear(self, node: int) -> None:
        """Set a node's variables to where a cold start begins."""
        number, k = self.find(node)
        block, own = self.blocks[number], self.blocks[number].of_node(k)
        self.states[number].x[own] = initial_variables(block)[own]

    def event(self, round: int, kind: str, node: int, gap_before: float, gap_after: float, share: Vector) -> Event:
        """Return the record of a change at a node; share: what came, went or was frozen, shape (d,)."""
        return Event(round, kind, node, gap_before, gap_after, float(np.linalg.norm(share)))

    def constant(self) -> Vector | None:
        """Return what nodes that left for good still add to A x, shape (d,); None if nothing."""
        adopted = [
            flows.inherited
            for number in range(len(self.blocks))
            for flows in self.flow_gossip(number).node_flows
            if flows.inherited is not None
        ]
        return np.sum(adopted, axis=0) if adopted else None

    def ids(self) -> Indices:
        """Return the ids of all nodes that are hosted here, ascending."""
        return np.concatenate([block.ids.astype(np.int64) for block in self.blocks])
