"""CoLA, Algorithm 1 of the paper, and CoCoA as its special case of exact averaging."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np

from glmesh.core.block import Block
from glmesh.core.messages import Rounds
from glmesh.core.state import PerColumn, PerNode, Shared
from glmesh.errors import InvalidInput
from glmesh.gossip.averaging import MatrixGossip, chebyshev_beta
from glmesh.gossip.flows import FlowGossip
from glmesh.methods.cola.choice import Trial
from glmesh.methods.cola.exact_sums import Sums
from glmesh.methods.cola.momentum import Momentum
from glmesh.methods.cola.newton import Newton
from glmesh.methods.cola.relaxation import Relaxation
from glmesh.solvers import CoordinateDescent, LocalSolver, Subproblems
from glmesh.solvers.screening import Screening
from glmesh.types import Flags, Indices, Matrix, Unsigned, Vector

_ACCELERATIONS = ("momentum", "sums", "newton")
_BETA = 0.5  # of as many gossip steps as "auto" does
_IDLE = 6  # sums in a row that win nothing
_LEAST_BEND = 1e-2  # of 1/tau: where the Hessian is almost zero it tells nothing of what is a step away


@dataclass
class ColaState:
    """All that a block of nodes carries from round to round."""

    x: PerColumn[Vector]  # the variables of the hosted nodes, node after node
    gossip: MatrixGossip | FlowGossip  # the estimates, and how they are mixed
    w: PerNode[Matrix]  # a row per node: the gradient of f at its mixed estimate
    memory: Any  # the local solver's; None if it remembers nothing
    up: PerNode[Flags]  # nodes that take part in the coming round
    screening: Screening  # nodes that skip their subproblem because it has nothing to gain
    required_theta: PerNode[Vector]  # the accuracy Theta that circumstances impose on a node; NaN: none
    theta: PerNode[Vector]  # local accuracy reached in the last round
    visited: PerNode[Vector]  # nonzeros visited in the last round
    round: Shared[int] = 0
    momentum: Momentum | None = None
    sums: Sums | Newton | None = None  # in use, if there
    story: Shared[list[tuple[int, str, str]]] = field(default_factory=list)  # (round, acceleration from then on, why)
    trial: Shared[Trial | None] = None  # whether sums pay
    relaxation: Relaxation | None = None  # where sigma' is looked for

    @property
    def v(self) -> Matrix:
        """A row per node: its estimate of Ax."""
        return self.gossip.v


@dataclass(frozen=True)
class Cola:
    """v_k <- sum_l W_kl v_l;  x_k <- x_k + gamma D_k;  v_k <- v_k + gamma K A_k D_k, D_k from the local subproblem.

    gamma: aggregation; 1 adds, 1/K averages. sigma: relaxation sigma' of the subproblem; None is the safe gamma*K,
    "safe" looks for a smaller one (`glmesh.methods.relaxation`). local_passes: passes over a node's data each round;
    None is one, or two with acceleration. local_accuracy: the paper's Theta; a node stops as soon as its local gap is
    at most Theta times the decrease so far, and `local_passes` is then the cap. Both may be one for all nodes or one
    per node. time_budget: seconds that a node may compute each round, on the virtual clock; a slow node makes fewer
    passes, or one in some of the rounds only, instead of holding the others up. gossip_steps: mixing steps each round;
    "auto" is as many as Chebyshev gossip needs to halve the disagreement, and one otherwise. gossip: "matrix", "ledger"
    (whose estimates survive lost messages), "chebyshev" (steps that amount to the best polynomial), or "auto": a ledger
    as soon as something can be lost. solver: the local solver. acceleration: "momentum", "sums", "newton" (the
    modules of these names), "none", or "auto", which chooses wherever the other settings allow it; `Run.story` says
    what and why. curvature: how f bends in the subproblem: "scalar" is 1/tau for all rows, "majorant" a safe bound
    per row, "hessian" the second derivatives, "auto" the majorant where it is smaller.
    """

    gamma: float = 1.0
    sigma: float | Literal["safe"] | None = None
    local_passes: int | Sequence[int] | None = None
    local_accuracy: float | Sequence[float] | None = None
    gossip_steps: int | Literal["auto"] = 1
    time_budget: float | None = field(default=None, kw_only=True)
    gossip: Literal["auto", "matrix", "ledger", "chebyshev"] = field(default="auto", kw_only=True)
    acceleration: Literal["auto", "momentum", "sums", "newton", "none"] = field(default="auto", kw_only=True)
    solver: LocalSolver = field(default_factory=CoordinateDescent, kw_only=True)
    curvature: Literal["auto", "scalar", "majorant", "hessian"] = field(default="auto", kw_only=True)

    averages_exactly: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.gamma, int | float | np.number) or not 0 < self.gamma <= 1:
            raise InvalidInput(f"gamma must be in (0, 1], got {self.gamma}")
        if self.sigma not in (None, "safe") and not (isinstance(self.sigma, Real) and 0 < self.sigma < np.inf):
            raise InvalidInput(
                f"sigma must be positive and finite, 'safe', or None for the safe gamma*K; got {self.sigma!r}"
            )
        passes = np.atleast_1d(np.asarray(1 if self.local_passes is None else self.local_passes))
        if passes.ndim > 1 or passes.dtype.kind not in "iu" or (passes < 0).any() or not passes.any():
            raise InvalidInput(f"local_passes must be whole numbers >= 0, and not all 0; got {self.local_passes!r}")
        if self.local_accuracy is not None:
            theta = np.atleast_1d(np.asarray(self.local_accuracy, dtype=np.float64))
            if not ((theta >= 0) & (theta <= 1)).all():
                raise InvalidInput(f"local_accuracy (Theta) must be between 0 and 1, got {self.local_accuracy!r}")
        steps = self.gossip_steps
        if steps != "auto" and (not isinstance(steps, int | np.integer) or steps < 1):
            raise InvalidInput(f"gossip_steps must be a whole number >= 1 or 'auto', got {steps!r}")
        if self.gossip not in ("auto", "matrix", "ledger", "chebyshev"):
            raise InvalidInput(f"gossip must be 'auto', 'matrix', 'ledger' or 'chebyshev', got {self.gossip!r}")
        self._check_curvature()
        if self.time_budget is not None and not 0 < self.time_budget < np.inf:
            raise InvalidInput(f"time_budget must be a positive number of seconds, got {self.time_budget!r}")
        if self.acceleration not in ("auto", *_ACCELERATIONS, "none"):
            raise InvalidInput(
                f"acceleration must be 'auto', 'momentum', 'sums', 'newton' or 'none', got {self.acceleration!r}"
            )
        if self.acceleration in _ACCELERATIONS and self.unsuited is not None:
            raise InvalidInput(
                f"acceleration={self.acceleration!r} needs {self.unsuited}; 'auto' goes without it in such a case"
            )

    def _check_curvature(self) -> None:
        if self.curvature not in ("auto", "scalar", "majorant", "hessian"):
            raise InvalidInput(f"curvature must be 'auto', 'scalar', 'majorant' or 'hessian', got {self.curvature!r}")
        if self.curvature in ("majorant", "hessian") and self.local_accuracy is not None:
            raise InvalidInput("local_accuracy is measured with curvature='scalar' only")
        if self.curvature == "hessian" and (self.acceleration == "none" or self.unsuited is not None):
            raise InvalidInput(
                "curvature='hessian' is a model, not a bound, and needs a safeguard: that of acceleration. "
                "Use 'majorant', which is always safe"
            )

    @staticmethod
    def printed() -> Cola:
        """The paper's method exactly: gamma = 1, sigma' = K, one pass, one gossip step; never changed by defaults."""
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
        """What acceleration needs that these settings do not give; None if nothing."""
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
    def needs_spectrum(self) -> bool:
        """Whether nodes must know the eigenvalues of the mixing matrix."""
        return self.gossip == "chebyshev" or self.sigma == "safe"

    def choose(self, *, reliable: bool) -> tuple[str, str]:
        """(the acceleration that these settings lead to, and why); not `reliable`: rows may get lost one way."""
        if self.acceleration != "auto":
            return self.acceleration, "as asked for"
        if self.unsuited is not None:
            return "none", f"acceleration needs {self.unsuited}"
        if not reliable:
            return "none", "plain gossip loses its mean when messages get lost, and momentum would make that worse"
        return "momentum", "it needs fewest communications on most networks, and stands what fails"

    def init(
        self,
        block: Block,
        x: Vector | None = None,
        members: Indices | None = None,
        acceleration: str | None = None,
        why: str = "",
        *,
        cold: bool = False,
        exact: str = "",
    ) -> ColaState:
        """x = 0 (or the nearest feasible point), and estimates that are right on average.

        members: 1 for nodes that take part from the start, for a ledger; None is matrix gossip among all.
        acceleration: as chosen, and why; None chooses. cold: whether everybody starts at x = 0. exact: which
        exact sums suit everybody: "newton", "sums", or "" for none.
        """
        if acceleration is None:
            acceleration, why = self.choose(reliable=True)
        for per_node in (self.local_passes, self.local_accuracy):
            self._per_node(per_node, block)  # refuses a wrong length before any work
        if self.time_budget is not None and block.info.speeds is None:
            raise InvalidInput("time_budget needs a clock: give network=Network(nonzeros_per_second=...)")
        x = np.array(start_of(block) if x is None else x, dtype=np.float64)
        momentum = acceleration != "none"
        gossip: MatrixGossip | FlowGossip = MatrixGossip.of(block, x, momentum=momentum)
        if members is not None:
            gossip = FlowGossip.of(block, x, members, momentum=momentum)
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
        )
        if momentum:
            state.momentum = Momentum.of(block, state)
        if acceleration in ("sums", "newton"):
            state.sums = _exact(block, acceleration)
        elif self.acceleration == "auto" and momentum and members is None and exact:
            state.trial = Trial.of(block, exact)
        if self.sigma == "safe":
            if members is not None:
                raise InvalidInput("sigma='safe' is for networks that stand still; leave sigma=None where things fail")
            state.relaxation = Relaxation.of(block, self.gamma)
        state.story.append((0, acceleration, why))
        if state.trial is not None and block.info.diameter <= 1:
            state.trial.passed, state.trial.began = True, 0
            self._switch(block, state, exact, "all are neighbours, so an exact sum takes a single exchange")
        if state.sums is not None and cold:
            state.sums.v = np.zeros(block.d)
        return state

    def _switch(self, block: Block, state: ColaState, to: str, why: str) -> None:
        """From now on another acceleration."""
        at = state.round
        state.story = [entry for entry in state.story if entry[0] != at] + [(at, to, why)]
        state.sums = None if to == "momentum" else _exact(block, to)
        if to == "momentum" and state.momentum is not None:
            state.momentum.forget(state)

    def round(self, block: Block, state: ColaState) -> Rounds:
        """One round of Algorithm 1."""
        if state.sums is not None:
            yield from self._sums_round(block, state, state.sums)
            return
        gossip, momentum = state.gossip, state.momentum
        if momentum is not None:
            halo = yield from gossip.step(block, state.up, momentum.begin(block, state, self.solver))
        else:
            yield from self._gossip(block, state)
        for k in range(block.size):
            block.f.gradient(gossip.v[k], out=state.w[k])
        q = self.scale(block, state)
        accuracy = self._per_node(-1.0 if self.local_accuracy is None else self.local_accuracy, block)
        state.theta, state.visited = self.solver.solve(
            block,
            state.memory,
            Subproblems(
                x=state.x,
                w=state.w,
                estimate=gossip.target,
                q=q,
                step=self.gamma * gossip.unit / q,  # eq. (5)
                gamma=self.gamma,
                passes=self._passes(block, state, state.w),
                accuracy=np.where(np.isnan(state.required_theta), accuracy, state.required_theta),
                round=state.round,
                rows=self._bends(block, state, gossip.v),
            ),
        )
        gossip.settle(block, state.x, state.round)
        if momentum is not None:
            momentum.end(block, state, halo, self.solver)
        state.round += 1
        if state.trial is not None and momentum is not None and state.trial.begins(state.round, momentum.best[0]):
            self._switch(
                block, state, state.trial.exact, f"still going after {state.round:,} rounds: perhaps it is faster"
            )

    def _sums_round(self, block: Block, state: ColaState, sums: Sums | Newton) -> Rounds:
        if isinstance(sums, Newton):
            yield from sums.round(block, state, self.solver)
        else:
            bends = partial(self._bends, block, state)
            yield from sums.round(block, state, self.solver, partial(self._passes, block, state), bends)
        gossip = state.gossip
        if isinstance(gossip, FlowGossip):
            gossip.clock += 1  # as in every round, so that all ends of links count alike
            gossip.refresh(block, state.x)
        if sums.v is not None:
            gossip.v[:] = sums.v
        state.round += 1
        if sums.broken:
            if isinstance(gossip, FlowGossip):
                gossip.derive()
            self._switch(block, state, "momentum", "a part of a sum was missing: the network does not stand still")
        elif state.trial is not None and not state.trial.pays(state.round, sums.value):
            self._switch(block, state, "momentum", "exact sums were slower")
        elif self.acceleration == "auto" and sums.idle >= _IDLE:
            if state.trial is not None:
                state.trial.pause()
            self._switch(block, state, "momentum", "exact sums had nothing more to win")

    def _gossip(self, block: Block, state: ColaState) -> Rounds:
        """The exchanges of a round without momentum."""
        gossip, relaxation, steps = state.gossip, state.relaxation, self._steps(block)
        chebyshev = self.gossip == "chebyshev"
        if relaxation is not None and not relaxation.found:
            relaxation.found = True
            low, high = block.info.spectrum
            beta = chebyshev_beta((low, high), steps) if chebyshev else max(-low, high) ** steps
            yield from relaxation.find(block, self.gamma, beta)
        riding: Any = None if relaxation is None else relaxation.outgoing(block)
        if chebyshev and isinstance(gossip, MatrixGossip):
            halo = yield from gossip.chebyshev(block, steps, riding)
        else:
            halo = yield from gossip.step(block, state.up, riding)
            for _ in range(steps - 1):
                yield from gossip.step(block, state.up)
        if relaxation is not None:
            relaxation.incoming(block, halo, state, self.gamma)

    def _steps(self, block: Block) -> int:
        """Exchanges a round: as asked for, or as many as bring beta of Chebyshev gossip down to a half."""
        if self.gossip_steps != "auto":
            return int(self.gossip_steps)
        if self.gossip != "chebyshev":
            return 1
        steps = 1
        while chebyshev_beta(block.info.spectrum, steps) > _BETA:
            steps += 1
        return steps

    def _bends(self, block: Block, state: ColaState, v: Matrix) -> Matrix | None:
        """The curvature of f at the estimates, as a part of 1/tau; None is all of it.

        The majorant bounds f from above everywhere. The Hessian is a model; when momentum overshoots with it, the
        majorant takes over for good.
        """
        if self.curvature == "scalar" or block.f.is_quadratic or self.local_accuracy is not None:
            return None
        if (
            (state.required_theta > 0) & (state.required_theta < 1)
        ).any():  # an accuracy imposed from outside is measured without
            return None
        momentum = state.momentum
        trusted = self.curvature == "hessian" and momentum is not None and momentum.falls == 0
        if not trusted and not block.f.bends:
            return None
        bend = block.f.curvature if trusted else block.f.majorant
        rows = np.stack([bend(row) for row in v]) * block.f.tau
        if trusted:
            rows = np.clip(rows, _LEAST_BEND, 1.0)
        return np.broadcast_to(rows, (block.size, block.d)).copy()

    def scale(self, block: Block, state: ColaState) -> Vector:
        """sigma'/tau of every hosted node; the safe sigma' is gamma times as many nodes as it believes there are."""
        members_seen = np.maximum(state.gossip.members_seen, 1.0)  # one that has left knows of nobody
        sigma = self.gamma * members_seen
        if state.relaxation is not None:
            sigma = np.full(block.size, state.relaxation.sigma)
        elif self.sigma is not None:
            sigma = np.full(block.size, self.sigma)
        return np.asarray(sigma / block.f.tau)

    def _passes(self, block: Block, state: ColaState, w: Matrix) -> Unsigned:
        """Passes of every node in this round: none for those that are away, at rest, or out of time."""
        default = 1 if state.momentum is None else 2
        passes = self._per_node(default if self.local_passes is None else self.local_passes, block).astype(np.int64)
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

    def _per_node(self, value: Any, block: Block) -> Any:
        values = np.atleast_1d(np.asarray(value))
        n_nodes = block.info.n_nodes
        if len(values) not in (1, n_nodes):
            raise InvalidInput(f"local_passes and local_accuracy need one value, or one for each of {n_nodes} nodes")
        if len(values) == 1:
            return np.repeat(values, block.size)
        picked: Unsigned = values[block.ids.astype(np.int64)]
        return picked


def _exact(block: Block, kind: str) -> Sums | Newton:
    return Newton.of(block) if kind == "newton" else Sums()


def start_of(block: Block) -> Vector:
    """x = 0, or the nearest feasible point."""
    return block.inside(np.zeros(block.columns.n))


@dataclass(frozen=True)
class Cocoa(Cola):
    """CoCoA: Cola with exact averaging, W = 11^T/K; it talks over the complete graph whatever topology is named."""

    averages_exactly = True
