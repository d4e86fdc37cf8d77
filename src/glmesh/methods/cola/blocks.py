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
    """Protocol of `Cola` and `Cocoa` as their nodes call them: make rounds, update states changed from outside."""

    @property
    def averages_exactly(self) -> bool:
        """Return whether every node's estimate of Ax is Ax itself after every round, as with CoCoA's server.

        A is the data matrix, x are the variables of all nodes.
        """
        ...

    @property
    def solver(self) -> LocalSolver:
        """Return the solver of the local subproblems."""
        ...

    def round(self, block: Block, state: ColaState) -> Rounds:
        """Make one round of a block of nodes, a generator: yields each Outbox and is sent the Halo that came back."""
        ...

    def scale(self, block: Block, state: ColaState) -> Vector:
        """Return the curvature q_k of every hosted node's local subproblem, shape (n_hosted,), for the block's state.

        Node k minimises <w_k, A_k D> + q_k/2 norm(A_k D)^2 + g_k(x_k + D) over the change D of its variables x_k.
        """
        ...

    def invalidate_node(self, block: Block, state: ColaState, k: int, *, forget: bool) -> None:
        """Drop all that was derived from the k-th hosted node's variables and estimate, changed from outside.

        `forget`: also drop what the local solver remembers of the node.
        """
        ...

    def forget_sums(self, block: Block, state: ColaState) -> None:
        """Drop the product Ax that the accelerator "sums" holds: some node's variables were changed from outside.

        A is the data matrix, x are the variables of all nodes.
        """
        ...

    def reset(self, block: Block, state: ColaState) -> None:
        """Reset accelerators and local solver of a block, whose variables and estimates were changed from outside."""
        ...

    def retarget(self, block: Block, state: ColaState) -> None:
        """Reset all that depends on the functions f and g, because `block` has others now, on the old columns."""
        ...


@dataclass
class ColaBlocks:
    """The blocks of CoLA's nodes in this process with their states; operations on single nodes, found by id.

    A block is some nodes that are computed side by side; `states` has an entry per block, and so has `async_certifiers`
    where nodes make certificates while messages get lost, else it is empty.
    """

    method: Algorithm
    blocks: list[Block]
    states: list[ColaState]
    async_certifiers: list[AsyncCertifier]

    def find(self, node: int) -> tuple[int, int]:
        """Return (number of the block, position in the block) of the node with id `node`, both counted from 0.

        Raise IndexError if the node is not hosted in this process.
        """
        for number, block in enumerate(self.blocks):
            first = int(block.ids[0])
            if first <= node < first + block.size:
                return number, node - first
        raise IndexError(node)

    def flow_gossip(self, number: int) -> FlowGossip:
        """Return the flow gossip of block `number`: its nodes' estimates of Ax, and the flows over their links.

        A is the data matrix, x are the variables of all nodes.
        """
        return self.states[number].flow_gossip

    def flows_of(self, node: int) -> tuple[FlowGossip, int]:
        """Return (flow gossip of the block that hosts node `node`, position of the node in that block).

        Gossip averages the nodes' estimates with their neighbours'.
        """
        number, k = self.find(node)
        return self.flow_gossip(number), k

    def invalidate(self, node: int, round: int, *, forget: bool = False) -> None:
        """Drop all that was derived from the state of node `node` (an id), which was changed from outside in `round`.

        The product Ax, where the accelerator "sums" knows it, is dropped at all nodes, and the node's snapshot for a
        certificate is discarded. `forget`: the local solver looks at all of the node's columns again. A is the data
        matrix, x are the variables of all nodes. A certificate is a proven upper bound of the suboptimality.
        """
        number, k = self.find(node)
        self.method.invalidate_node(self.blocks[number], self.states[number], k, forget=forget)
        for block, state in zip(self.blocks, self.states, strict=True):  # the exact sums of all blocks are one
            self.method.forget_sums(block, state)
        if self.async_certifiers:
            self.async_certifiers[number].disturb(k, round)

    def gap(self, node: int, estimate_of: int | None = None) -> float:
        """Return an upper bound of the decrease of the objective that one node's own subproblem allows, a float.

        `node` is its id. The subproblem is taken at the estimate of Ax of the node with id `estimate_of`; None: at its
        own. A is the data matrix, x are the variables of all nodes.
        """
        number, k = self.find(node)
        block, state = self.blocks[number], self.states[number]
        other, j = self.find(node if estimate_of is None else estimate_of)
        w = block.f.gradient(self.states[other].gossip.v[j])
        return local_gap(block, k, state.x[block.of_node(k)], w, float(self.method.scale(block, state)[k]))

    def share(self, node: int) -> Vector:
        """Return A_k x_k, shape (d,), of the node with id `node`: its columns times its variables."""
        number, k = self.find(node)
        return self.blocks[number].share(k, self.states[number].x)

    def clear(self, node: int) -> None:
        """Set the variables of node `node` (an id) to a cold start: 0, or the nearest point inside its bounds."""
        number, k = self.find(node)
        block, own = self.blocks[number], self.blocks[number].of_node(k)
        self.states[number].x[own] = initial_variables(block)[own]

    def event(self, round: int, kind: str, node: int, gap_before: float, gap_after: float, share: Vector) -> Event:
        """Return the Event of a change of this `kind` ("join", "leave", ...) at the node with id `node` in a round.

        `gap_before` and `gap_after` bound what the node's subproblem can gain, absolute; `share`, shape (d,), is the
        part of Ax that came, went or was frozen, of which the norm is recorded. A is the data matrix, x are the
        variables of all nodes. A subproblem is a node's local minimisation over its own variables.
        """
        return Event(round, kind, node, gap_before, gap_after, float(np.linalg.norm(share)))

    def constant(self) -> Vector | None:
        """Return the part of Ax, shape (d,), of nodes that left for good and stay counted; None if there is none.

        A is the data matrix, x are the variables of all nodes.
        """
        adopted = [
            flows.inherited
            for number in range(len(self.blocks))
            for flows in self.flow_gossip(number).node_flows
            if flows.inherited is not None
        ]
        return np.sum(adopted, axis=0) if adopted else None

    def ids(self) -> Indices:
        """Return the ids of all nodes that this process hosts, ascending, shape (n_hosted,)."""
        return np.concatenate([block.ids.astype(np.int64) for block in self.blocks])
