"""Variables, estimates and subproblems of the nodes of a block: what every accelerator of CoLA works on."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from glmesh.core import Block, Largest, PerColumn, PerNode, Shared
from glmesh.gossip import FlowGossip, Gossip
from glmesh.methods.cola.relaxation import Relaxation
from glmesh.solvers import LocalSolver
from glmesh.solvers.screening import Screening
from glmesh.types import Flags, Matrix, Vector


def initial_variables(block: Block) -> Vector:
    """Return the variables of a cold start, shape (n_columns,): 0, or the nearest point inside their bounds."""
    return block.inside(np.zeros(block.columns.n))


@dataclass(kw_only=True)
class Iterate:
    """Where the nodes of a block have come: variables x, estimates v of Ax, and data of their subproblems.

    A is the data matrix. `w` holds the gradients of f at the estimates, `theta` and `visited` the accuracy and the
    nonzeros of the last local solves; `round` counts rounds.
    """

    x: PerColumn[Vector]  # (n_columns,) variables of the hosted nodes, node after node
    gossip: Gossip  # estimates v_k of Ax, and how they are mixed
    w: PerNode[Matrix]  # (n_hosted, d) gradient of f at the mixed estimate
    memory: Any  # what the local solver keeps between rounds; None: nothing
    up: PerNode[Flags]  # (n_hosted,) mask of the nodes that take part in the coming round
    screening: Screening  # nodes that skip their subproblem because it has nothing to gain
    required_theta: PerNode[Vector]  # (n_hosted,) accuracy Theta imposed from outside; 1: no step, NaN: none imposed
    theta: PerNode[Vector]  # (n_hosted,) accuracy Theta reached in the last round; NaN: not measured
    visited: PerNode[Vector]  # (n_hosted,) nonzeros visited in the last round
    relaxation: Relaxation | None = None  # search for sigma'; None where sigma' is given
    round: Shared[int] = 0  # rounds done
    overshoots: Largest[int] = 0  # times that momentum let H rise far; "hessian" curvature is not trusted after one

    @property
    def v(self) -> Matrix:
        """Return the estimates v_k of Ax of the hosted nodes, shape (n_hosted, d).

        A is the data matrix, x are the variables of all nodes.
        """
        return self.gossip.v

    @property
    def flow_gossip(self) -> FlowGossip:
        """Return `gossip` as a FlowGossip, for networks where messages get lost; it must be one.

        Gossip averages the nodes' estimates with their neighbours'.
        """
        assert isinstance(self.gossip, FlowGossip)
        return self.gossip

    def parts_of_h(self, block: Block) -> Vector:
        """Return f(v_k)/K + g_k(x_k) of every hosted node, shape (n_hosted,): its part of the objective H.

        H = (1/K) sum f(v_k) + g(x) is the sum over all nodes; v_k is node k's estimate of Ax, x_k are its variables. K
        is the number of members that the node knows of. A is the data matrix, x are the variables of all nodes.
        """
        members_seen = np.maximum(self.gossip.members_seen, 1.0)
        means: Vector = np.array([block.f.value(v) for v in self.gossip.v]) / members_seen
        return means + block.node_values(self.x)

    def record(self, theta: Vector, visited: Vector) -> None:
        """Store the accuracy that each local solve of this round reached, and the number of nonzeros that it visited.

        Both have shape (n_hosted,); the accuracy is the fraction of the possible decrease that is left, NaN where it
        was not measured. `theta` is that accuracy.
        """
        self.theta, self.visited = theta, visited

    def move(self, block: Block, solver: LocalSolver, x: Vector, solved: Vector | None = None) -> None:
        """Set the variables x, shape (n_columns,), and tell the local solver which have changed since its last solve.

        `solved` is the x with which that solve ended; None: the old x.
        """
        solver.moved(block, self.memory, x != (self.x if solved is None else solved))
        self.x = x

    def count_overshoot(self) -> None:
        """Add 1 to `overshoots`, the number of times that momentum let the objective rise far."""
        self.overshoots += 1

    def renew(self, memory: Any, relaxation: Relaxation | None) -> None:
        """Replace the local solver's memory and the search for the relaxation, as columns or functions changed."""
        self.memory, self.relaxation = memory, relaxation
