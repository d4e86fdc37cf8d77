"""CoLA-M: momentum on the variables and on the gossip together.

CoLA descends in turn on one jointly convex function of the variables and the flows between nodes,
H(x, F) = (1/K) sum f(v_k) + g(x): the local solve in x, gossip in F. So both are extrapolated together, by Nesterov's
sequence, and one gossip step a round is enough. Momentum can overshoot: then H rises, and momentum begins anew (as it
does after a while that grows, in case it circles without H rising). Three parts decide how strong it is:

- the monitor (`monitor`) knows H of some rounds ago, or not yet;
- the policy (`restarts`) decides from H: keep, restart, or roll back to the last good snapshot;
- Nesterov's sequence (`Nesterov`) gives the extrapolation theta of the next round.

Where messages get lost flows take the smaller momentum of their two ends, so the sum of all estimates stays right
whatever the nodes decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glmesh.core import Block, Halo, PerColumn, PerNode, Rounds
from glmesh.methods.cola.iterate import Iterate
from glmesh.methods.cola.monitor import Monitor
from glmesh.methods.cola.restarts import Decision, LocalPolicy, SharedPolicy
from glmesh.methods.cola.round import Strategies, solve_locally
from glmesh.solvers import LocalSolver
from glmesh.types import Vector

# factor of the bound of t in every round in which H falls: larger forgets a rollback sooner; source:
# benchmarks/reports/sensitivity.md
CAP_GROWTH = 1.05
# least bound of t after a rollback; source: benchmarks/reports/sensitivity.md
LEAST_CAP = 2.0


@dataclass
class Nesterov:
    """Nesterov's sequence t <- (1 + sqrt(1 + 4 t^2)) / 2 of every hosted node.

    Variables x are extrapolated to x + theta (x - x_before) with theta = (t_before - 1) / t.
    """

    t: PerNode[Vector]  # (n_hosted,) Nesterov's t
    cap: PerNode[Vector]  # (n_hosted,) bound of t; inf: none
    theta: PerNode[Vector]  # (n_hosted,) extrapolation of the coming round: x + theta (x - x_before)

    @staticmethod
    def of(size: int) -> Nesterov:
        """Return the sequence of `size` nodes before round 0: t = 1, extrapolation theta = 0, no bound of t."""
        return Nesterov(np.ones(size), np.full(size, np.inf), np.zeros(size))

    def step(self) -> None:
        """Advance t of all hosted nodes, up to its bound `cap`, and set the extrapolation theta of the coming round.

        t <- (1 + sqrt(1 + 4 t^2)) / 2 and theta = (t_before - 1) / t.
        """
        after = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * self.t**2))
        self.theta = (self.t - 1.0) / after
        self.t = np.minimum(after, self.cap)

    def limit(self, largest: float | Vector) -> None:
        """Lower Nesterov's t to `largest` where it is larger; one number for all hosted nodes, or shape (n_hosted,)."""
        self.t = np.minimum(self.t, largest)

    def follow(self, nodes: int | slice, decision: Decision) -> None:
        """Carry out a decision of the restart policy at hosted node number `nodes`, or at all nodes of a slice.

        KEEP multiplies the bound `cap` of Nesterov's t by CAP_GROWTH. All others set t = 1 and the extrapolation theta
        = 0; ROLLBACK also sets `cap` to half of t, and FORGET sets `cap` to infinity.
        """
        if decision is Decision.KEEP:
            self.cap[nodes] *= CAP_GROWTH
            return
        if decision is Decision.ROLLBACK:
            self.cap[nodes] = np.maximum(self.t[nodes] / 2, LEAST_CAP)
        elif decision is Decision.FORGET:
            self.cap[nodes] = np.inf
        self.t[nodes], self.theta[nodes] = 1.0, 0.0


@dataclass
class Momentum:
    """State of the accelerator "momentum": Nesterov's method with function-value restarts, an entry per hosted node.

    `x_before` are the variables of the round before, shape (n_columns,), `nesterov` the sequence that says how far x is
    extrapolated, `policy` decides when that begins anew.
    """

    PASSES: ClassVar[int] = 2  # forward and backward: momentum rests on a symmetric local step

    x_before: PerColumn[Vector]  # (n_columns,) variables of the round before
    nesterov: Nesterov
    policy: SharedPolicy | LocalPolicy

    @staticmethod
    def of(block: Block, state: Iterate) -> Momentum:
        """Return the state before round 0, with extrapolation theta = 0.

        All nodes decide on restarts together if the gossip of `state` is reliable, else each for itself. Gossip
        averages the nodes' estimates with their neighbours'.
        """
        reliable = state.gossip.reliable
        policy = SharedPolicy.of(block) if reliable else LocalPolicy.of(block, state.gossip)
        return Momentum(state.x.copy(), Nesterov.of(block.size), policy)

    @property
    def monitor(self) -> Monitor:
        """Return the monitor, which sums the objective up over all nodes for the restart policy."""
        return self.policy.monitor

    @property
    def value(self) -> float:
        """Return the objective H = (1/K) sum f(v_k) + g(x) as the block's first node last heard of it, a float.

        NaN: not known since the last restart. v_k is the estimate of each of K nodes, x are the variables.
        """
        return float(np.ravel(self.policy.last)[0])

    @property
    def best(self) -> float:
        """Return the smallest objective H = (1/K) sum f(v_k) + g(x) that the block's first node has heard of, a float.

        NaN: it has heard of none. v_k is the estimate of each of K nodes, x are the variables.
        """
        return float(np.ravel(self.policy.best)[0])

    def round(self, block: Block, state: Iterate, how: Strategies) -> Rounds:
        """Make one round: extrapolate variables and estimates by theta, gossip, solve locally, set the next theta.

        `how` are the options of a round. A generator: yields each Outbox to exchange, and is sent the Halo that came
        back.
        """
        self.policy.begin_round(state)
        riding = self.monitor.outgoing(block, state, state.parts_of_h(block))
        self._extrapolate(block, state, how.solver)
        halo = yield from state.gossip.step(block, state.up, riding)
        solve_locally(block, state, how, passes=self.PASSES, safeguarded=True)
        self._review(block, state, halo, how.solver)

    def reset(self, block: Block, state: Iterate) -> None:
        """Stop the motion at all nodes: x_before = x, Nesterov's t = 1; ignore the objective of all rounds so far."""
        self.x_before = state.x.copy()
        self.nesterov.follow(slice(None), Decision.RESTART)
        self.policy.forget(state.round + 1)

    def retarget(self, block: Block, state: Iterate) -> None:
        """Stop the motion at all nodes, x_before = x and Nesterov's t = 1, because the functions f and g were replaced.

        The objective of all rounds so far is ignored.
        """
        self.reset(block, state)

    def reset_node(self, block: Block, state: Iterate, k: int) -> None:
        """Set x of the round before to the present x at the k-th hosted node: it extrapolates by zero next."""
        own = block.of_node(k)
        self.x_before[own] = state.x[own]
        self.nesterov.theta[k] = 0.0
        state.gossip.reset_node(k)

    def _extrapolate(self, block: Block, state: Iterate, solver: LocalSolver) -> None:
        """Replace x by x + theta (x - x_before), inside its bounds, at nodes that are up.

        Extrapolate the estimates alike. Nodes that skip their local subproblem in this round keep their x. `solver` is
        told which variables changed.
        """
        theta = np.where(state.up, self.nesterov.theta, 0.0)
        ahead = state.x + theta[block.node_of] * (state.x - self.x_before)
        x = block.inside(ahead)
        idle = (state.screening.radius2 > 0) | (state.required_theta == 1.0)  # who does not step does not coast
        x = np.where(idle[block.node_of], state.x, x)
        state.gossip.extrapolate(block, theta)
        if (x != ahead).any():
            for k in range(block.size):
                change = (x - ahead)[block.of_node(k)]
                if change.any():
                    state.gossip.move(block, k, change)
        self.x_before = state.x
        state.move(block, solver, x)

    def _review(self, block: Block, state: Iterate, halo: Halo, solver: LocalSolver) -> None:
        """Advance Nesterov's sequence, read the newest objective from the halo, and carry out restarts.

        The halo is what neighbours sent. A rollback moves variables and estimates to the last good snapshot, if there
        is one. `solver` is told which variables changed.
        """
        self.nesterov.step()
        self.monitor.incoming(block, state, halo)
        self.nesterov.limit(self.monitor.largest_t)
        for nodes, decision in self.policy.review(block, state):
            self.nesterov.follow(nodes, decision)
            if decision is Decision.ROLLBACK:
                state.count_overshoot()
                if self.policy.good is not None:
                    state.move(block, solver, self.policy.good.x.copy())
                    state.gossip.v[:] = self.policy.good.v
