"""Decentralised consensus ADMM (Shi, Ling, Yuan, Wu and Yin, 2014)."""

from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
import scipy.sparse as sp

from glmesh.core import Block, Halo, NetworkInfo, Outbox, Rounds
from glmesh.errors import InvalidInput, UnsuitablePair
from glmesh.functions import Table
from glmesh.linalg import Columns
from glmesh.methods.consensus.base import Consensus, positive
from glmesh.methods.consensus.replicas import Copies
from glmesh.methods.consensus.samples import Constants, Samples
from glmesh.problem import CompositeObjective, Problem
from glmesh.solvers import CoordinateDescent, Subproblems
from glmesh.solvers.compiled import DescentMemory
from glmesh.types import Flags, Matrix, Vector

# [nodes] up to which the eigenvalues of the graph are computed, not bounded, because a dense matrix of 1024 takes 8 MB
LARGEST_DENSE_GRAPH = 1024
# [passes] over a node's data in one call of an exact solve, because the quadratic bound of the loss is renewed between
# calls; communications do not depend on it
EXACT_PASSES = 50
# [calls] after which an exact solve ends in any case, because rounding may keep coefficients moving for ever
MOST_EXACT_CALLS = 400
# [parts of 1 + |w|] change in a call at which an exact solve ends: some units in the last place, because less cannot
# be told from rounding
EXACT_TOLERANCE = 1e-14


@dataclass
class AdmmState(Copies):
    """State of DAdmm at the hosted nodes: copies of the coefficients, dual variables, and each node's local problem.

    `local` holds the nodes' local problems, `memory` what coordinate descent keeps of them, `predictions` and `dual` a
    row per hosted node.
    """

    local: Block = field(kw_only=True)  # node k's columns are the p features of its own samples
    memory: DescentMemory = field(kw_only=True)  # what coordinate descent keeps between rounds
    predictions: Matrix = field(kw_only=True)  # (n_hosted, most samples of a node) predictions A_k w_k
    dual: Matrix = field(kw_only=True)  # (n_hosted, p) dual variables d_k

    def update_dual(self, change: Matrix) -> None:
        """Add `change`, shape (n_hosted, p), to the dual variables d_k: the dual ascent of the round."""
        self.dual = self.dual + change

    def end_round(self, w: Matrix, visited: Vector) -> None:
        """Store the new copies w of the coefficients, shape (n_hosted, p), and count the round.

        `visited`, shape (n_hosted,), are the nonzeros that finding w visited.
        """
        self.w, self.visited, self.round = w, visited, self.round + 1


@dataclass(frozen=True)
class DAdmm(Consensus):
    """Decentralised ADMM, alternating directions; a round at every node k::

        w_k <- argmin_w F_k(w) + r(w)/K + <d_k, w> + c sum_l |w - (w_k + w_l)/2|^2
        d_k <- d_k + c sum_l (w_k - w_l)

    l runs over the neighbours; d_k are dual variables, shape (p,). A loss that is no square is replaced by its
    quadratic bound for the time of a call.

    Parameters
    ----------
    step : float, "auto" or None, default None
        Weight c of the neighbours; None is the one that Shi et al. prove the best rate for, "auto" the best of a grid.
    constants : Constants, optional
        Smoothness and strong convexity; None computes both from every node's data.
    local_solve : {"inexact", "exact"}, default "inexact"
        "inexact" makes `local_passes` passes of coordinate descent over the node's data, as the paper's comparison did;
        "exact" goes on until nothing moves.
    local_passes : int, default 1
        Passes of an inexact local solve.
    """

    local_solve: Literal["inexact", "exact"] = field(default="inexact", kw_only=True)
    local_passes: int = field(default=1, kw_only=True)

    composite = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.local_solve not in ("inexact", "exact"):
            raise InvalidInput(f"local_solve must be 'inexact' or 'exact', got {self.local_solve!r}")
        if not isinstance(self.local_passes, int) or self.local_passes < 1:
            raise InvalidInput(f"local_passes must be a whole number >= 1, got {self.local_passes!r}")

    def check(self, problem: Problem) -> None:
        """Raise UnsuitablePair unless the loss is smooth and the penalty is a sum over single coefficients."""
        super().check(problem)
        if problem.spec.penalty_of(None).as_table() is None:
            raise UnsuitablePair(
                f"DAdmm needs a penalty that is separable over coefficients and {type(problem.spec.penalty).__name__} "
                f"is not. Use Cola, {self.instead}."
            )

    def default_step(self, constants: Constants, info: NetworkInfo) -> float:
        """Return the weight c of the neighbours for which Shi et al. prove the best rate.

        c = 2 m^(1/2) L / (s_max s_min), with m^(1/2) = k_G/(2 k_F) + (k_G^2/(4 k_F^2) + 1)^(1/2). s_max^2 = 2
        lambda_max(D + A), s_min^2 = 2 lambda_2(D - A) of the graph's degrees D and adjacency A, k_G = s_max/s_min, k_F
        = L/mu with smoothness L and strong convexity mu. `constants` has L and mu, `info` the network.
        """
        signless, laplacian = _graph_spectrum(info)
        s_max, s_min = np.sqrt(2.0 * signless), np.sqrt(2.0 * laplacian)
        L = positive(constants.smoothness)
        ratio = 0.5 * s_max / s_min * constants.strong_convexity / L
        return float(2.0 * (ratio + np.sqrt(ratio * ratio + 1.0)) * L / (s_max * s_min))

    def begin(self, block: Samples, state: Copies) -> AdmmState:
        """Return the state before round 0, with all dual variables zero.

        The columns of a node's local problem are the p features of its own samples.
        """
        most = int(np.diff(block.starts.astype(np.int64)).max())
        nonsmooth = Table() if block.nonsmooth is None else block.nonsmooth.as_table()
        assert nonsmooth is not None  # `check` refuses others
        g = Table(nonsmooth.l1, block.l2, block.linear, nonsmooth.lo, nonsmooth.hi)
        forms = []
        for k in range(block.size):
            columns = Columns.of(block.node_columns(k).to_scipy(), rows=True)
            forms.append(CompositeObjective(columns.widen(most), block.loss, g))
        local = Block.of(block.ids.astype(np.int64), block.info, forms, lambda: np.zeros((0, 0)), block.threads)
        local.table[:, 1] += 2.0 * state.step * np.repeat(_degrees(block), block.p)
        w = np.ascontiguousarray(np.clip(state.w, nonsmooth.lo, nonsmooth.hi))
        solver = CoordinateDescent(order="cyclic")
        return AdmmState(
            w,
            state.step,
            state.visited,
            local=local,
            memory=solver.prepare(local),
            predictions=local.shares(w.reshape(-1)),
            dual=np.zeros_like(w),
        )

    def round(self, block: Samples, state: Copies) -> Rounds:
        """Make one round: exchange copies of the coefficients, update dual variables, solve each node's problem.

        A generator: yields each Outbox to exchange, and is sent the Halo that came back.
        """
        assert isinstance(state, AdmmState)  # what `begin` returned
        halo = yield Outbox(state.w)
        around = _sum_of_neighbours(halo, state.w)
        degrees, c = _degrees(block)[:, None], state.step
        state.update_dual(c * (degrees * state.w - around))
        linear = block.linear + state.dual - c * (degrees * state.w + around)
        state.local.table[:, 2] = linear.reshape(-1)
        w = state.w.copy()  # what was sent stays as it is
        visited, moving = np.zeros(block.size), np.ones(block.size, dtype=bool)
        for _ in range(MOST_EXACT_CALLS if self.local_solve == "exact" else 1):
            before = w.copy()
            visited += self._descend(block, state, w, moving)
            change, size = np.abs(w - before).max(axis=1), np.abs(w).max(axis=1)
            moving &= change > EXACT_TOLERANCE * (1.0 + size)  # each node by itself, however they are grouped
            if not moving.any():
                break
        state.end_round(w, visited)

    def _descend(self, block: Samples, state: AdmmState, w: Matrix, moving: Flags) -> Vector:
        """Improve the copies w of the coefficients, in place, by coordinate descent on local problems of nodes.

        w has shape (n_hosted, p), and `moving` is a mask of shape (n_hosted,). The losses are replaced by their
        quadratic bound at the present predictions. Return the nonzeros visited, shape (n_hosted,).
        """
        local, starts = state.local, block.starts.astype(np.int64)
        counts = np.diff(starts)
        inside = np.arange(local.d) < counts[:, None]
        slopes = np.zeros((block.size, local.d))
        slopes[inside] = block.loss.gradient(state.predictions[inside])
        state.memory.wake[:] = 0.0  # the local problem is another in every round
        q = np.where(block.bends > 0, block.bends, 1.0)
        passes = EXACT_PASSES if self.local_solve == "exact" else self.local_passes
        _, visited = CoordinateDescent(order="cyclic").solve(
            local,
            state.memory,
            Subproblems(
                x=w.reshape(-1),
                w=slopes,
                estimate=state.predictions,
                q=q,
                step=1.0 / q,
                gamma=1.0,
                passes=np.where(moving, passes, 0).astype(np.uint64),
                accuracy=np.full(block.size, -1.0),
                round=state.round,
                rows=None,
            ),
        )
        return visited

    def grid(self, constants: Constants, info: NetworkInfo) -> list[list[Self]]:
        """Return rows of candidates for step="auto": copies of this method with c of 2^-14 to 2^5 times the theory's.

        A list of lists, ascending in c: one with `local_passes` and, if the local solve is inexact, one with 5 passes.
        `constants` and `info` are what the theory needs of data and network.
        """
        c = self.default_step(constants, info)
        passes = sorted({self.local_passes, 5}) if self.local_solve == "inexact" else [self.local_passes]
        steps = [c * 2.0**power for power in range(-14, 6)]
        return [[replace(self, step=step, local_passes=count) for step in steps] for count in passes]


def _degrees(block: Samples) -> Matrix:
    """Return the number of neighbours of each hosted node as floats, shape (n_hosted,)."""
    return block.info.mixing.degrees[block.ids.astype(np.int64)].astype(np.float64)


def _sum_of_neighbours(halo: Halo, w: Matrix) -> Matrix:
    """Return the sum of the neighbours' copies of the coefficients at each hosted node, shape (n_hosted, p).

    `halo` is what neighbours sent, `w` are the hosted nodes' own copies, shape (n_hosted, p).
    """
    counts = halo.pointers[1:].astype(np.int64) - halo.pointers[:-1].astype(np.int64)
    own = np.repeat(halo.own, counts) == halo.neighbours
    return replace(halo, weights=np.where(own, 0.0, 1.0)).mix(np.empty_like(w))


def _graph_spectrum(info: NetworkInfo) -> tuple[float, float]:
    """Return (lambda_max of D + A, lambda_2 of D - A) of the graph's degrees D and adjacency A.

    Beyond LARGEST_DENSE_GRAPH nodes an upper and a lower bound; (1, 1) for a single node.
    """
    matrix = sp.csr_array(info.mixing.matrix)
    n = info.n_nodes
    if n == 1:
        return 1.0, 1.0
    degrees = info.mixing.degrees.astype(np.float64)
    if n > LARGEST_DENSE_GRAPH:
        return 2.0 * float(degrees.max()), 4.0 / (n * max(info.diameter, 1))
    adjacency = (matrix.toarray() != 0).astype(np.float64)
    np.fill_diagonal(adjacency, 0.0)
    high = float(np.linalg.eigvalsh(np.diag(degrees) + adjacency)[-1])
    return high, float(np.linalg.eigvalsh(np.diag(degrees) - adjacency)[1])
