"""CoLA and CoCoA: the public classes, their options, and what an engine may ask of a run."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal

import numpy as np

from glmesh.core import Block, Rounds, Setup
from glmesh.errors import InvalidInput
from glmesh.gossip import ChebyshevGossip, FlowGossip, Gossip, MatrixGossip
from glmesh.methods.cola import choice as choices
from glmesh.methods.cola.choice import ACCELERATIONS, Choice
from glmesh.methods.cola.curvature import Curvature
from glmesh.methods.cola.gossip_steps import ChebyshevSteps, GossipSteps, PowerSteps
from glmesh.methods.cola.iterate import Iterate, initial_variables
from glmesh.methods.cola.momentum import Momentum
from glmesh.methods.cola.nodes import ColaNodes
from glmesh.methods.cola.passes import Passes
from glmesh.methods.cola.relaxation import Relaxation
from glmesh.methods.cola.round import Plain, Strategies
from glmesh.methods.cola.state import ColaState
from glmesh.methods.totals.nodes import TotalNodes
from glmesh.network import Plan
from glmesh.solvers import CoordinateDescent, LocalSolver
from glmesh.solvers.screening import Screening
from glmesh.types import Indices, Vector


@dataclass(frozen=True)
class Cola:
    r"""CoLA (He, Bian and Jaggi, NeurIPS 2018, Algorithm 1), accelerated by default.

    A round at every node k::

        v_k <- sum_l W_kl v_l                                                          gossip
        D_k ~ argmin <grad f(v_k), A_k D> + sigma'/(2 tau) |A_k D|^2 + g_k(x_k + D)    local solve
        x_k <- x_k + gamma D_k,   v_k <- v_k + gamma K A_k D_k                         update

    The mean of all v_k stays Ax.

    Parameters
    ----------
    gamma : float in (0, 1], default 1
        Aggregation: 1 adds the local updates, 1/K averages them.
    sigma : float, "safe" or None, default None
        Relaxation sigma' of the subproblem. None is gamma*K, which is always enough; a smaller number may diverge.
        "safe" estimates the smallest sigma' that is enough by twelve exact sums and doubles it whenever H rises.
    local_passes : int, sequence of K ints or None, default None
        Passes over a node's columns per round. None is two with acceleration and one without.
    local_accuracy : float in [0, 1], sequence of K floats or None, default None
        Theta of the paper: a node stops as soon as its local duality gap is at most Theta times the decrease so far;
        `local_passes` is then the most it makes. None makes all passes.
    gossip_steps : int or "auto", default 1
        Exchanges per round. "auto" is as many as Chebyshev gossip needs to halve the disagreement, and one otherwise.
    time_budget : float or None, default None
        Seconds that a node may compute per round, on the virtual clock (`network=` of `solve`). A slow node makes fewer
        passes, or one in some of the rounds only. None is unlimited.
    gossip : {"auto", "matrix", "flows", "chebyshev"}, default "auto"
        "matrix" mixes by W. "flows" keeps a flow per link, so that no lost message moves the mean of the estimates.
        "chebyshev" makes `gossip_steps` exchanges that apply the best polynomial of W. "auto" is "flows" as soon as
        messages can get lost, and "matrix" otherwise.
    acceleration : {"auto", "momentum", "sums", "newton", "none"}, default "auto"
        "auto" takes the cheapest by the table in docs/communications.md, before the first exchange; `Result.story` says
        which and why. "newton" is the method on totals for nodes that hold rows. All do what they say or refuse.
    solver : LocalSolver, default CoordinateDescent()
        Local solver of the subproblems.
    curvature : {"auto", "scalar", "majorant", "hessian"}, default "auto"
        Curvature of f in the subproblem: "scalar" is 1/tau for all rows of A, "majorant" a safe bound per row,
        "hessian" the second derivatives, which only accelerated rounds are safe with. "auto" is the majorant where it
        is smaller than the scalar.

    Raises
    ------
    InvalidInput
        An option is out of its range, or rules another one out.

    Notes
    -----
    Acceleration needs gamma=1, sigma=None, one gossip step, no local_accuracy, no time_budget, and an even number of
    passes of CoordinateDescent("symmetric"), the same for all nodes. `Cola.printed()` is the published method.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Cola, Problem, solve
    >>> X = np.random.default_rng(0).normal(size=(40, 12))
    >>> lasso = Problem.glm(X, X[:, 0] - X[:, 1], penalty="l1", alpha=1.0)
    >>> solve(lasso, method=Cola(), n_nodes=4, tol=1e-6).story[0][:2]
    (0, 'sums')
    >>> solve(lasso, method=Cola.printed(), n_nodes=4, tol=1e-6).status.name
    'CONVERGED'
    """

    gamma: float = 1.0
    sigma: float | Literal["safe"] | None = None
    local_passes: int | Sequence[int] | None = None
    local_accuracy: float | Sequence[float] | None = None
    gossip_steps: int | Literal["auto"] = 1
    time_budget: float | None = field(default=None, kw_only=True)
    gossip: Literal["auto", "matrix", "flows", "chebyshev"] = field(default="auto", kw_only=True)
    acceleration: Literal["auto", "momentum", "sums", "newton", "none"] = field(default="auto", kw_only=True)
    solver: LocalSolver = field(default_factory=CoordinateDescent, kw_only=True)
    curvature: Literal["auto", "scalar", "majorant", "hessian"] = field(default="auto", kw_only=True)

    averages_exactly = False  # whether v = Ax at every node after every round

    def __post_init__(self) -> None:
        if str(self.gossip) == "ledger":
            warnings.warn(
                "gossip='ledger' is called gossip='flows' now; the old name goes with the next release",
                DeprecationWarning,
                stacklevel=3,
            )
            object.__setattr__(self, "gossip", "flows")
        self._check_step()
        self._check_work()
        self._check_gossip()
        self._check_curvature()
        self._check_acceleration()

    def _check_step(self) -> None:
        """Raise InvalidInput unless gamma and sigma are in their ranges."""
        if not isinstance(self.gamma, int | float | np.number) or not 0 < self.gamma <= 1:
            raise InvalidInput(f"gamma must be in (0, 1], got {self.gamma}")
        if self.sigma not in (None, "safe") and not (isinstance(self.sigma, Real) and 0 < self.sigma < np.inf):
            raise InvalidInput(
                f"sigma must be positive and finite, 'safe', or None for the safe gamma*K; got {self.sigma!r}"
            )

    def _check_work(self) -> None:
        """Raise InvalidInput unless local_passes, local_accuracy and time_budget are in their ranges."""
        passes = np.atleast_1d(np.asarray(1 if self.local_passes is None else self.local_passes))
        if passes.ndim > 1 or passes.dtype.kind not in "iu" or (passes < 0).any() or not passes.any():
            raise InvalidInput(f"local_passes must be whole numbers >= 0, and not all 0; got {self.local_passes!r}")
        if self.local_accuracy is not None:
            theta = np.atleast_1d(np.asarray(self.local_accuracy, dtype=np.float64))
            if not ((theta >= 0) & (theta <= 1)).all():
                raise InvalidInput(f"local_accuracy (Theta) must be between 0 and 1, got {self.local_accuracy!r}")
        if self.time_budget is not None and not 0 < self.time_budget < np.inf:
            raise InvalidInput(f"time_budget must be a positive number of seconds, got {self.time_budget!r}")

    def _check_gossip(self) -> None:
        """Raise InvalidInput unless gossip_steps and gossip have values that they may have."""
        steps = self.gossip_steps
        if steps != "auto" and (not isinstance(steps, int | np.integer) or steps < 1):
            raise InvalidInput(f"gossip_steps must be a whole number >= 1 or 'auto', got {steps!r}")
        if self.gossip not in ("auto", "matrix", "flows", "chebyshev"):
            raise InvalidInput(f"gossip must be 'auto', 'matrix', 'flows' or 'chebyshev', got {self.gossip!r}")

    def _check_curvature(self) -> None:
        """Raise InvalidInput unless curvature has a value that it may have, and goes with the other options."""
        if self.curvature not in ("auto", "scalar", "majorant", "hessian"):
            raise InvalidInput(f"curvature must be 'auto', 'scalar', 'majorant' or 'hessian', got {self.curvature!r}")
        if self.curvature in ("majorant", "hessian") and self.local_accuracy is not None:
            raise InvalidInput("local_accuracy is measured with curvature='scalar' only")
        if self.curvature == "hessian" and (self.acceleration == "none" or self.unsuited is not None):
            raise InvalidInput(
                "curvature='hessian' is a model, not a bound, and needs a safeguard: that of acceleration. "
                "Use 'majorant', which is always safe"
            )

    def _check_acceleration(self) -> None:
        """Raise InvalidInput unless acceleration has a value that it may have, and goes with the other options."""
        if self.acceleration not in ACCELERATIONS:
            raise InvalidInput(
                f"acceleration must be 'auto', 'momentum', 'sums', 'newton' or 'none', got {self.acceleration!r}"
            )
        if self.acceleration not in ("auto", "none") and self.unsuited is not None:
            raise InvalidInput(
                f"acceleration={self.acceleration!r} needs {self.unsuited}; 'auto' goes without it in such a case"
            )
        if self.acceleration == "newton" and not self.leaves_rounds_open:
            raise InvalidInput(
                "acceleration='newton' makes totals instead of rounds of CoLA, so it takes no local_passes, gossip or "
                "curvature, and is Cola's, not Cocoa's"
            )

    @staticmethod
    def printed() -> Cola:
        """Return the published method: gamma = 1, sigma' = K, one pass, one gossip step; no default changes it.

        Returns
        -------
        Cola
            Options of Algorithm 1 as printed in the paper, without acceleration.

        Examples
        --------
        >>> from glmesh import Cola
        >>> Cola.printed().acceleration
        'none'
        """
        return Cola(
            gamma=1.0,
            sigma=None,
            local_passes=1,
            local_accuracy=None,
            gossip_steps=1,
            solver=CoordinateDescent(order="cyclic"),
            acceleration="none",
            curvature="scalar",
        )

    @property
    def unsuited(self) -> str | None:
        """Return, as text, what acceleration needs and these options do not give; None: nothing is missing."""
        passes = 2 if self.local_passes is None else self.local_passes
        if self.gamma != 1:
            return f"gamma=1, got {self.gamma:g}"
        if self.sigma is not None:
            return f"sigma=None, got {self.sigma}"
        if self.gossip_steps != 1 or self.gossip == "chebyshev":
            return f"gossip_steps=1 and no Chebyshev gossip, got {self.gossip_steps} and gossip={self.gossip!r}"
        if self.local_accuracy is not None or self.time_budget is not None:
            return "the same passes in every round: no local_accuracy and no time_budget"
        if not isinstance(passes, int | np.integer) or passes % 2:
            return f"an even number of local_passes (forward and backward), the same for all nodes; got {passes}"
        if self.solver != CoordinateDescent(order="symmetric"):
            return f"sweeps forward and backward, CoordinateDescent('symmetric'); got {self.solver}"
        return None

    @property
    def leaves_rounds_open(self) -> bool:
        """Return whether a method on totals may replace CoLA's rounds, because no option asks for these rounds.

        A method on totals, such as Newton's, computes from sums over all nodes.
        """
        asks = self.local_passes is not None or self.gossip != "auto" or self.curvature != "auto"
        return not asks and not self.averages_exactly and self.unsuited is None

    @cached_property
    def strategies(self) -> Strategies:
        """Return the Strategies of a round, made from these options: an object per decision of a round."""
        auto = self.gossip_steps == "auto"
        steps: GossipSteps = PowerSteps(1 if auto else int(self.gossip_steps))
        if self.gossip == "chebyshev":
            steps = ChebyshevSteps(None if auto else int(self.gossip_steps))
        return Strategies(
            solver=self.solver,
            gossip_steps=steps,
            passes=Passes(self.local_passes, self.local_accuracy, self.time_budget),
            curvature=Curvature(self.curvature, measures_accuracy=self.local_accuracy is not None),
            gamma=self.gamma,
            sigma=None if self.sigma is None or self.sigma == "safe" else float(self.sigma),
        )

    # nodes

    def prepare(self, setup: Setup) -> ColaNodes | TotalNodes[Any]:
        """Return the nodes that this process hosts, ready for round 0: CoLA's, or those of a method on totals.

        The cost model chooses between the two before the first exchange. A method on totals, such as Newton's, computes
        from sums over all nodes.
        """
        plan, flows = setup.plan, self.uses_flows(setup)
        choice = self.decide(setup, flows=flows)
        if choice.on_totals is not None:
            return TotalNodes(choice.on_totals, setup, [(0, choice.name, choice.why)])
        nodes = ColaNodes(self, setup, flows=flows)
        starts = nodes.warm_start(setup.warm_start)
        if choice.name != "none" and setup.warm_start is None:
            choice = replace(choice, cold=choices.starts_at_zero(nodes.blocks, setup.processes.any))
        members = plan.members(0, setup.n_nodes).astype(np.int64) if flows else None
        nodes.states += [self.start(block, x, members, choice) for block, x in zip(nodes.blocks, starts, strict=True)]
        nodes.transport.carries.check(nodes.states[0].gossip.sends)
        if setup.certify:
            nodes.certify(extrapolates=choice.extrapolates)
        if flows:
            nodes.greet()
        return nodes

    def decide(self, setup: Setup, *, flows: bool) -> Choice:
        """Return the Choice of the acceleration of a run, equal at all nodes, without any exchange.

        `flows`: nodes use flow gossip, because messages may get lost or because it was asked for. Gossip averages the
        nodes' estimates with their neighbours'.
        """
        if self.acceleration == "newton":
            return choices.newton(setup)
        if self.acceleration == "sums" and flows and setup.certify:
            return Choice("momentum", "certificates under faults are not made with exact sums")
        choice = choices.initial(self.acceleration, self.unsuited, reliable=flows or not setup.plan.loses_messages)
        if self.acceleration != "auto" or choice.name == "none":
            return choice
        slow = any(entry.theta is not None for entry in setup.plan.straggler)  # sums make the same passes at all nodes
        return choices.cheapest(setup, totals=self.leaves_rounds_open, sums=not flows and not slow)

    def uses_flows(self, setup: Setup) -> bool:
        """Return whether nodes use flow gossip; raise InvalidInput for options that do not go with the fault plan.

        Gossip averages the nodes' estimates with their neighbours'.
        """
        plan = setup.plan
        flows = self.gossip == "flows" or (self.gossip == "auto" and plan.loses_messages)
        if self.gossip == "chebyshev" and plan.loses_messages:
            raise InvalidInput("Chebyshev gossip is for networks that stand still; use gossip='auto' where things fail")
        if any(entry.delay for entry in plan.straggler) and setup.timing is None:
            raise InvalidInput("a straggler's delay needs a clock: give network=Network(...), or a theta instead")
        if not flows and plan.loses_messages:
            self._check_averaging(plan, certify=setup.certify)
        return flows

    def _check_averaging(self, plan: Plan, *, certify: bool) -> None:
        """Raise InvalidInput for options and faults that plain averaging, without flow gossip, cannot have.

        Those are acceleration, certificates, and nodes that join, leave or are reset. `certify`: the run makes
        certificates, proven bounds.
        """
        if self.acceleration not in ("auto", "none"):
            raise InvalidInput("acceleration under faults needs gossip='flows' (the default under faults)")
        models = [entry.model for entry in plan.random] + [entry.model for entry in plan.down]
        if plan.changes_members or "reset" in models:
            raise InvalidInput("nodes that join, leave or are reset need gossip='flows' (the default under faults)")
        if certify:
            raise InvalidInput("certificates under faults need gossip='flows' (the default under faults)")

    # rounds

    def choose(self) -> Choice:
        """Return the Choice of the acceleration by the options alone, equal at all nodes; momentum with "auto".

        For sites of a federation, which know nothing of each other's data.
        """
        return choices.initial(self.acceleration, self.unsuited)

    def start(
        self,
        block: Block,
        x: Vector | None = None,
        members: Indices | None = None,
        choice: Choice | None = None,
    ) -> ColaState:
        """Return the state of a block before round 0; the mean of all estimates is Ax.

        Parameters
        ----------
        block : Block
            The hosted nodes.
        x : array of shape (n_columns,) or None, default None
            Variables; None is 0, or the nearest point inside the bounds of g.
        members : array of K counters or None, default None
            1 for nodes that take part from the start, for flow gossip; None is matrix gossip among all nodes.
        choice : Choice or None, default None
            What `decide` or `choose` returned, equal at all nodes; None is what `choose` returns.
        """
        choice = self.choose() if choice is None else choice
        self.strategies.passes.check(block)
        x = np.array(initial_variables(block) if x is None else x, dtype=np.float64)
        accelerated = choice.name != "none"
        gossip: Gossip
        if members is None:
            kind = ChebyshevGossip if self.gossip == "chebyshev" else MatrixGossip
            gossip = kind.of(block, x, momentum=accelerated)
        elif self.sigma == "safe":
            raise InvalidInput("sigma='safe' is for networks that stand still; leave sigma=None where things fail")
        else:
            gossip = FlowGossip.of(block, x, members, momentum=accelerated)
        state = ColaState(
            x=x,
            gossip=gossip,
            w=np.zeros((block.size, block.d)),
            memory=self.solver.prepare(block),
            up=np.ones(block.size, dtype=bool),
            screening=Screening.of(block),
            required_theta=np.full(block.size, np.nan),
            theta=np.full(block.size, np.nan),
            visited=np.zeros(block.size),
            relaxation=Relaxation.of(block, self.gamma) if self.sigma == "safe" else None,
            base=Plain(),
            leaves_sums=choice.leaves,
        )
        if accelerated:
            state.base = Momentum.of(block, state)
        state.use(block, choice.name, choice.why)
        if choice.cold:
            state.know_zero(block)
        return state

    def round(self, block: Block, state: ColaState) -> Rounds:
        """Return the generator of one round of a block with the accelerator in use: yields an Outbox, is sent a Halo.

        `ColaState.finish_round` must be called after it.
        """
        return state.accelerator.round(block, state, self.strategies)

    # what an engine may ask; nothing else touches accelerators, screening or the solver's memory

    def scale(self, block: Block, state: Iterate) -> Vector:
        """Return the curvature q_k = sigma'/tau of every hosted node's local subproblem, shape (n_hosted,).

        sigma' is the relaxation, and the gradient of f is 1/tau-Lipschitz. Node k minimises <w_k, A_k D> + q_k/2
        norm(A_k D)^2 + g_k(x_k + D) over the change D of its variables.
        """
        return self.strategies.scale(block, state)

    def reset(self, block: Block, state: ColaState) -> None:
        """Forget all that was derived from variables x and estimates v of Ax, because both were changed from outside.

        The mean of the changed estimates must be Ax. A is the data matrix, x are the variables of all nodes.
        """
        self._prepare(block, state)
        for accelerator in state.accelerators:
            accelerator.reset(block, state)

    def retarget(self, block: Block, state: ColaState) -> None:
        """Forget all that was derived from the functions f and g: `block` has others now, on the old columns."""
        self._prepare(block, state)
        for accelerator in state.accelerators:
            accelerator.retarget(block, state)
        state.return_to_sums(block)
        for k in range(block.size):
            state.screening.invalidate(k)

    def invalidate_node(self, block: Block, state: ColaState, k: int, *, forget: bool = False) -> None:
        """Forget all that was derived from the k-th hosted node's variables and estimate, changed from outside.

        `forget`: the variables were changed, so the local solver looks at all of the node's columns again. Other blocks
        must drop the product Ax too (`forget_sums`). A is the data matrix, x are the variables of all nodes.
        """
        state.screening.invalidate(k)
        if forget:
            self.solver.forget(block, state.memory, k)
        state.gossip.refresh_node(block, state.x, k)
        for accelerator in state.accelerators:
            accelerator.reset_node(block, state, k)

    def forget_sums(self, block: Block, state: ColaState) -> None:
        """Drop the product Ax that the accelerator "sums" holds: some node's variables were changed from outside.

        A is the data matrix, x are the variables of all nodes.
        """
        if state.exact is not None:
            state.exact.reset(block, state)

    def _prepare(self, block: Block, state: ColaState) -> None:
        """Make the local solver's memory and the search for sigma' anew: columns or functions were replaced.

        sigma' is the relaxation, which the option sigma="safe" searches for.
        """
        state.renew(self.solver.prepare(block), None if self.sigma != "safe" else Relaxation.of(block, self.gamma))


@dataclass(frozen=True)
class Cocoa(Cola):
    """CoCoA: Cola with exact averaging, W = 11^T/K, over the complete graph whatever topology is named.

    Parameters
    ----------
    gamma, sigma, local_passes, local_accuracy, gossip_steps, time_budget, gossip, acceleration, solver, curvature :
        As of `Cola`.

    Examples
    --------
    >>> import numpy as np
    >>> from glmesh import Cocoa, Problem, solve
    >>> X = np.random.default_rng(0).normal(size=(40, 12))
    >>> ridge = Problem.glm(X, X[:, 0], penalty="l2", alpha=1.0)
    >>> solve(ridge, method=Cocoa(), n_nodes=4, topology="ring", tol=1e-6).status.name
    'CONVERGED'
    """

    averages_exactly = True
