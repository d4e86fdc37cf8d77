"""The round of CoLA, Algorithm 1 of the paper: gossip, gradient, local solve, update."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glmesh.core import Block, Rounds
from glmesh.methods.cola.curvature import Curvature
from glmesh.methods.cola.gossip_steps import GossipSteps
from glmesh.methods.cola.iterate import Iterate
from glmesh.methods.cola.passes import Passes
from glmesh.solvers import LocalSolver, Subproblems
from glmesh.types import Vector


@dataclass(frozen=True)
class Strategies:
    """The options of `Cola` that a round depends on: an object per decision, with methods that carry it out.

    `solver` improves a node's variables, `gossip_steps` says how often estimates are mixed, `passes` how much nodes
    work, `curvature` which bound of f's curvature is used; gamma is the aggregation, sigma the relaxation, None: the
    safe one.
    """

    solver: LocalSolver
    gossip_steps: GossipSteps  # exchanges of a round without acceleration
    passes: Passes  # work of each node in a round
    curvature: Curvature  # curvature of f in the subproblems
    gamma: float  # aggregation
    sigma: float | None  # sigma' of all subproblems; None: gamma K, or what the relaxation has found

    def scale(self, block: Block, state: Iterate) -> Vector:
        """Return the curvature q_k = sigma'/tau of every hosted node's local subproblem, shape (n_hosted,).

        sigma' is the relaxation given or searched for, else gamma K with K the number of members that the node knows
        of; the gradient of f is 1/tau-Lipschitz.
        """
        fixed = self.sigma if state.relaxation is None else state.relaxation.sigma
        if fixed is not None:
            return np.full(block.size, fixed) / block.f.tau
        members_seen = np.maximum(state.gossip.members_seen, 1.0)  # a node that has left sees nobody
        return np.asarray(self.gamma * members_seen / block.f.tau)


@dataclass
class Plain:
    """The accelerator "none": Algorithm 1 of the CoLA paper as printed; no state beside variables and estimates."""

    PASSES: ClassVar[int] = 1  # passes of a local solve unless local_passes says otherwise
    value: ClassVar[float] = np.nan  # nobody sums H up
    best: ClassVar[float] = np.nan

    def round(self, block: Block, state: Iterate, how: Strategies) -> Rounds:
        """Make one round: mix the estimates v of Ax, v <- W v, W the mixing matrix, then solve all subproblems.

        `how` are the options of a round. A generator: yields each Outbox to exchange, and is sent the Halo that came
        back. A is the data matrix, x are the variables of all nodes. A subproblem is a node's local minimisation over
        its own variables.
        """
        if state.relaxation is None:
            yield from state.gossip.mix(block, state.up, how.gossip_steps.count(block))
        else:
            yield from state.relaxation.mix(block, state.gossip, state.up, how.gossip_steps)
            state.relaxation.watch(block, state.parts_of_h(block), state.round)
        solve_locally(block, state, how, passes=self.PASSES, safeguarded=False)

    def reset(self, block: Block, state: Iterate) -> None:
        """Do nothing: a plain round depends on the variables x and the estimates v alone."""

    def retarget(self, block: Block, state: Iterate) -> None:
        """Do nothing: a plain round keeps nothing of the functions f and g that were replaced."""

    def reset_node(self, block: Block, state: Iterate, k: int) -> None:
        """Do nothing: a plain round keeps nothing of the k-th hosted node but its variables and its estimate."""


def solve_locally(block: Block, state: Iterate, how: Strategies, *, passes: int, safeguarded: bool) -> None:
    """Solve the local subproblems of all hosted nodes; add the changes to the variables and to the estimates.

    D_k ~ argmin <grad f(v_k), A_k D> + sigma'/(2 tau) norm(A_k D)^2 + g_k(x_k + D), with columns A_k, variables x_k and
    estimate v_k of node k, relaxation sigma' and the Lipschitz constant 1/tau of grad f; then x_k += gamma D_k and v_k
    += gamma K A_k D_k. `how` has the options; `passes` is the default number of passes; with `safeguarded` the Hessian
    may stand for 1/tau, because the accelerator notices a rise of the objective.
    """
    gossip = state.gossip
    for k in range(block.size):
        block.f.gradient(gossip.v[k], out=state.w[k])
    q = how.scale(block, state)
    task = Subproblems(
        x=state.x,
        w=state.w,
        estimate=gossip.target,
        q=q,
        step=how.gamma * gossip.unit / q,  # eq. (5)
        gamma=how.gamma,
        passes=how.passes.of_round(block, state, state.w, passes),
        accuracy=how.passes.accuracies(block, state),
        round=state.round,
        rows=how.curvature.weights(block, state, gossip.v, safeguarded=safeguarded),
    )
    state.record(*how.solver.solve(block, state.memory, task))
    gossip.finish_round(block, state.x, state.round)
